// The frame of all views: the top bar, opening a model, the jobs that run, the keyboard's help, lines to copy.

import { getJson, keepLinks, listKeys, live, make, onKey, postJson, showProblem, state } from "./core.js";

keepLinks();

for (const field of document.querySelectorAll("[data-state]")) {
  const name = field.dataset.state;
  if (state.get(name)) field.value = state.get(name);
  field.addEventListener("change", () => {
    if (field.validity.valid) state.set({ [name]: field.value });
    else showProblem(`${name}: ${field.validationMessage}`);
    if (field.validity.valid && "reload" in field.dataset) location.reload();
  });
}

async function open(asked, button) {
  showProblem(null);
  button.disabled = true;
  const label = button.textContent;
  button.textContent = "Opening …";
  try {
    const opened = await postJson("/api/open", asked);
    const query = new URLSearchParams(location.search);
    for (const name of ["slice", "example", "run"]) query.delete(name);
    query.set("model", opened.model);
    query.set("data", opened.data);
    location.assign(`${location.pathname}?${query}`);
  } catch (problem) {
    showProblem(problem);
    button.disabled = false;
    button.textContent = label;
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

// Forms that only read keep the model, the data, the slice and the seed in their address.
for (const form of document.querySelectorAll("[data-keep-form]")) {
  for (const name of ["model", "data", "slice", "seed"]) {
    if (state.get(name)) form.append(make("input", { type: "hidden", name, value: state.get(name) }));
  }
}

// After a restart of the application the address still says what this tab had open.
const again = document.querySelector("[data-again]");
if (again && state.get("model") && state.get("data")) {
  again.hidden = false;
  again.querySelector("[data-again-name]").textContent = `${state.get("model")} on ${state.get("data")}`;
  const button = again.querySelector("[data-again-open]");
  button.addEventListener("click", () => open({ model: state.get("model"), data: state.get("data") }, button));
}

// One stream per tab, and only while it is seen: a browser keeps few connections to one server.
const running = document.getElementById("running");
let end = null;
function watchJobs() {
  end?.();
  end = null;
  if (document.hidden || !running) return;
  end = live(
    "/api/jobs/live",
    (told) => {
      running.textContent = told.running ? `${told.running} job${told.running > 1 ? "s" : ""} running` : "No job runs";
      running.classList.toggle("busy", told.running > 0);
      running.classList.remove("lost");
      window.modelkeepJobs = told;
      document.dispatchEvent(new CustomEvent("modelkeep:jobs", { detail: told }));
    },
    () => {
      running.textContent = "Not connected";
      running.classList.add("lost");
    },
  );
}
watchJobs();
document.addEventListener("visibilitychange", watchJobs);

// Lines to copy, as in the reports.
for (const line of document.querySelectorAll(".command")) addCopy(line);
export function addCopy(line) {
  const code = line.querySelector("code");
  const button = make("button", { type: "button", "aria-label": `Copy: ${code.textContent}` }, "Copy");
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  line.append(button);
}

// The drawer: what everything on this page was made of.
const drawer = document.getElementById("drawer");
const provenance = document.querySelector("[data-provenance]");
drawer?.addEventListener("toggle", async () => {
  if (!drawer.open || !provenance || provenance.childElementCount) return;
  try {
    const told = await getJson("/api/opened");
    const rows = [
      ["Model that is open", told.model],
      ["its hash", told.model_hash],
      ["Data", `${told.data}, n = ${told.examples}`],
      ["their hash", told.data_hash],
      ["Seed", state.get("seed", "0")],
      ["Version", `modelkeep ${told.version}`],
      ["Command", `modelkeep ui ${told.model} --data ${told.data}`],
    ];
    provenance.append(...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  } catch (problem) {
    showProblem(problem);
  }
});

// The keyboard.
const views = [...document.querySelectorAll(".views a")];
views.forEach((link, place) => onKey(String(place + 1), `go to ${link.textContent.trim()}`, () => link.click()));
onKey("r", "run a command", () => document.querySelector('a[href^="/run"]')?.click());
onKey("i", "open or close how this was made", () => {
  drawer.open = !drawer.open;
  drawer.scrollIntoView({ block: "nearest" });
});
onKey("?", "show these keys", () => {
  const help = document.getElementById("keys");
  const rows = listKeys().map(([key, does]) =>
    make("tr", {}, make("th", { scope: "row" }, make("kbd", {}, key)), make("td", {}, does)),
  );
  help.querySelector("tbody").replaceChildren(...rows);
  help.showModal();
});

// At the bottom of a phone the tabs are more than fit: the current one is seen.
document.querySelector(".views a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
