// The frame of all views: the top bar, opening a model, the keyboard's help.

import { keepLinks, postJson, showProblem, state } from "./core.js";

keepLinks();

for (const field of document.querySelectorAll("[data-state]")) {
  const name = field.dataset.state;
  if (state.get(name)) field.value = state.get(name);
  field.addEventListener("change", () => state.set({ [name]: field.value }));
}

async function open(asked, button) {
  showProblem(null);
  button.disabled = true;
  try {
    const opened = await postJson("/api/open", asked);
    const query = new URLSearchParams({ model: opened.model, data: opened.data });
    location.assign(`${location.pathname}?${query}`);
  } catch (problem) {
    showProblem(problem);
    button.disabled = false;
  }
}

for (const button of document.querySelectorAll("[data-open]")) {
  const { model, data, train = "", options = "" } = button.dataset;
  button.addEventListener("click", () => open({ model, data, train, options }, button));
}
for (const form of document.querySelectorAll("[data-open-form]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    open(Object.fromEntries(new FormData(form)), form.querySelector("[type=submit]"));
  });
}
