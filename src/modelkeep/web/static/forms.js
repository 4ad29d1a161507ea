// Forms that the server makes from the options of the commands and the declarations of the methods.

import { getJson, make, postJson, showProblem, state } from "./core.js";
import { followJobs, startJob } from "./jobs.js";
import { addCopy } from "./shell.js";

const FOLDED = /^What describes/;
let lists = 0;

/** The control of one field. */
function control(field, value) {
  const attributes = { name: field.name, id: `field-${field.name}`, "aria-describedby": `help-${field.name}` };
  if (field.required) attributes.required = true;
  if (field.kind === "flag") {
    return make("input", { ...attributes, type: "checkbox", checked: value === true });
  }
  if (field.kind === "switch") {
    const made = make("select", attributes, ...["", "on", "off"].map((each) => make("option", { value: each }, each || "default")));
    made.value = value ?? "";
    return made;
  }
  if (field.kind === "choice") {
    const first = field.default ? [] : [make("option", { value: "" }, field.required ? "choose" : "default")];
    const made = make("select", attributes, ...first, ...field.choices.map((each) => make("option", { value: each }, each)));
    made.value = value ?? field.default;
    return made;
  }
  // Numbers as text: 8/255, 0.5sd and 10m are values too, and the command says what is wrong with the others.
  const numeric = field.kind === "integer" || field.kind === "number";
  const input = make("input", {
    ...attributes,
    type: "text",
    inputmode: numeric ? "decimal" : "text",
    placeholder: field.default,
    autocomplete: "off",
    value: value ?? "",
  });
  const known = field.choices.length ? field.choices : field.suggestions;
  if (!known.length) return input;
  const list = make("datalist", { id: `list-${(lists += 1)}` }, ...known.map((each) => make("option", { value: each })));
  input.setAttribute("list", list.id);
  return make("span", { class: "listed" }, input, list);
}

function row(field, value) {
  const name = field.option || field.name.toUpperCase();
  return make(
    "div",
    { class: `field kind-${field.kind}` },
    make("label", { for: `field-${field.name}` }, name, field.required ? make("b", { title: "needed" }, " *") : null),
    control(field, value),
    make("small", { id: `help-${field.name}` }, field.help),
  );
}

function read(form, fields) {
  const values = {};
  for (const field of fields) {
    const made = form.elements[field.name];
    if (!made) continue;
    values[field.name] = field.kind === "flag" ? made.checked : made.value;
  }
  return values;
}

/** Put the form of a command into `place`. `preset` are values that are filled in at the start. */
export async function mountForm(place, verb, preset = {}) {
  let fields = [];
  let tried = false;
  let asked = 0;
  const line = make("code", {});
  const command = make("div", { class: "command" }, make("pre", {}, line));
  addCopy(command);
  const wrong = make("p", { class: "wrong", role: "status" });
  const run = make("button", { type: "submit", class: "primary" }, "Run");
  const jobs = make("div", { class: "own-jobs", "aria-live": "polite" });
  const started = new Set();
  const body = make("div", { class: "fields" });
  const form = make("form", { novalidate: true, class: "command-form", "aria-label": `modelkeep ${verb}` },
    body, make("div", { class: "line" }, command, wrong, run));
  place.replaceChildren(form, jobs);
  followJobs(jobs, ({ id }) => started.has(id));

  async function draw(values) {
    const query = new URLSearchParams({ verb });
    for (const [name, value] of Object.entries(values)) {
      const known = fields.find((field) => field.name === name);
      if (typeof value === "string" && value && (!known || known.chooses)) query.set(name, value);
    }
    const told = await getJson(`/api/forms/fields?${query}`);
    fields = told.fields;
    const given = { ...told.filled, ...(state.get("seed") ? { seed: state.get("seed") } : {}), ...values };
    const groups = new Map();
    for (const field of fields) {
      if (!groups.has(field.group)) groups.set(field.group, []);
      groups.get(field.group).push(row(field, given[field.name]));
    }
    const focused = document.activeElement?.name;
    body.replaceChildren(
      ...[...groups].map(([name, rows]) => {
        if (!name) return make("div", { class: "group" }, ...rows);
        if (FOLDED.test(name)) return make("details", {}, make("summary", {}, name), make("div", { class: "group" }, ...rows));
        return make("fieldset", {}, make("legend", {}, name), make("div", { class: "group" }, ...rows));
      }),
    );
    if (focused && form.elements[focused]) form.elements[focused].focus();
    await check();
  }

  async function check() {
    const mine = (asked += 1);
    const told = await postJson("/api/forms/line", { verb, values: read(form, fields) }).catch(showProblem);
    if (mine !== asked || !told) return;
    line.textContent = told.line || `modelkeep ${verb} …`;
    wrong.textContent = told.wrong;
    form.classList.toggle("refused", tried && told.wrong !== "");
  }

  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(check, 150);
  });
  form.addEventListener("change", (event) => {
    const field = fields.find(({ name }) => name === event.target.name);
    if (field?.chooses) draw(read(form, fields)).catch(showProblem);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    tried = true;
    clearTimeout(waiting);
    run.disabled = true;
    try {
      const job = await startJob(verb, read(form, fields));
      started.add(job.id);
      wrong.textContent = "";
      const out = form.elements.out;
      if (out) out.value = (await getJson(`/api/forms/fields?verb=${encodeURIComponent(verb)}`)).filled.out ?? out.value;
      await check();
    } catch (problem) {
      wrong.textContent = problem.message;
      form.classList.add("refused");
    } finally {
      run.disabled = false;
    }
  });
  await draw(preset);
}

for (const place of document.querySelectorAll("[data-command-form]")) {
  const preset = JSON.parse(place.dataset.preset ?? "{}");
  mountForm(place, place.dataset.commandForm, preset).catch(showProblem);
}

// A button that runs a whole command, such as the fix of a finding.
for (const button of document.querySelectorAll("[data-run-verb]")) {
  const jobs = make("div", { class: "own-jobs", "aria-live": "polite" });
  const started = new Set();
  button.after(jobs);
  followJobs(jobs, ({ id }) => started.has(id));
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const job = await startJob(button.dataset.runVerb, JSON.parse(button.dataset.runValues));
      started.add(job.id);
    } catch (problem) {
      showProblem(problem);
      button.disabled = false;
    }
  });
}
