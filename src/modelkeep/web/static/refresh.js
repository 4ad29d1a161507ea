// Parts of a page that the server draws again as time goes on, and small forms that change something.

import { postJson, showProblem } from "./core.js";

for (const place of document.querySelectorAll("[data-refresh]")) {
  const seconds = Number(place.dataset.refresh);
  setInterval(async () => {
    if (document.hidden || place.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-refresh]");
      if (fresh) place.replaceChildren(...fresh.childNodes);
      else location.reload();
      showProblem(null);
    } catch {
      showProblem("modelkeep ui does not answer. Is it still running in its terminal?");
    }
  }, 1000 * seconds);
}

async function send(address, body, button) {
  showProblem(null);
  button.disabled = true;
  try {
    await postJson(address, body);
    location.reload();
  } catch (problem) {
    showProblem(problem);
    button.disabled = false;
  }
}
for (const button of document.querySelectorAll("[data-post]")) {
  button.addEventListener("click", () => send(button.dataset.post, {}, button));
}
for (const form of document.querySelectorAll("[data-post-form]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form.dataset.postForm, Object.fromEntries(new FormData(form)), form.querySelector("[type=submit]"));
  });
}
