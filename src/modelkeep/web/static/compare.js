// Two models on the same examples.

import { getJson, make, postJson, showProblem, state } from "./core.js";
import { paintPicture } from "./pictures.js";

const place = document.querySelector("[data-compared]");
const form = document.querySelector("[data-compare]");

function card(title, share) {
  const span = make("span", { class: "span", style: `left:${100 * share.low}%;width:${100 * (share.high - share.low)}%` });
  const dot = make("span", { class: "dot", style: `left:calc(${100 * share.value}% - .15rem)` });
  return make(
    "li",
    { class: "card" },
    make("p", { class: "name" }, title),
    make("div", { class: "value" }, share.text),
    make("div", { class: "track", "aria-hidden": "true" }, span, dot),
    make("div", { class: "interval" }, share.interval),
  );
}

function example(each, [first, second]) {
  const canvas = each.picture ? make("canvas", { "aria-hidden": "true" }) : null;
  if (canvas) paintPicture(canvas, each.picture);
  return make(
    "li",
    {},
    canvas,
    make("span", {}, make("b", {}, `${each.label}`), ` (example ${each.index})`),
    make("small", {}, `${first}: ${each.first} ${each.first_right ? "✓" : "✗"}`),
    make("small", {}, `${second}: ${each.second} ${each.first_right ? "✗" : "✓"}`),
  );
}

function show(told) {
  const [first, second] = told.names;
  const { both, first: lost, second: won, neither } = told.counts;
  const rows = [
    [`${first} right`, both, lost],
    [`${first} wrong`, won, neither],
  ].map(([name, right, wrong]) =>
    make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { "data-name": `${second} right` }, String(right)), make("td", { "data-name": `${second} wrong` }, String(wrong))),
  );
  const head = make("tr", {}, ...["examples", `${second} right`, `${second} wrong`].map((each) => make("th", { scope: "col" }, each)));
  place.replaceChildren(
    make("div", { class: `verdict ${told.level}`, role: "note" }, make("p", {}, told.verdict)),
    make("ul", { class: "cards" }, card(`${first} is right`, told.first), card(`${second} is right`, told.second), card("They agree", told.agreement)),
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)),
    make("p", { class: "lead" }, `${told.method}: p = ${told.p.toPrecision(2)}. Only examples on which one is right and the other wrong count.`),
    make("h3", {}, told.differing.length ? "Where they differ" : "They are right on the same examples"),
    make("ul", { class: "differing" }, ...told.differing.map((each) => example(each, told.names))),
    ...(told.not_shown ? [make("p", {}, `and ${told.not_shown} more`)] : []),
  );
  const data = state.get("data");
  document.querySelector("[data-compared-made]").replaceChildren(
    make("p", {}, `n = ${told.n} of ${data}, seed ${told.seed}. McNemar (1947), exact. Each alone: `),
    ...told.names.map((name) => make("p", {}, make("code", {}, `modelkeep audit ${name} --data ${data} --check accuracy --seed ${told.seed}`))),
  );
}

async function compute() {
  if (!state.get("other")) return;
  const query = new URLSearchParams({ other: state.get("other"), seed: state.get("seed", "0") });
  try {
    showProblem(null);
    show(await getJson(`/api/compare?${query}`));
  } catch (problem) {
    showProblem(problem);
  }
}

if (form) {
  form.elements.model.value = state.get("other");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    showProblem(null);
    try {
      const { model } = await postJson("/api/compare/open", { model: form.elements.model.value, options: form.elements.options.value });
      state.set({ other: model });
      await compute();
    } catch (problem) {
      showProblem(problem);
    } finally {
      button.disabled = false;
    }
  });
  state.onChange((changed) => "seed" in changed && compute());
  compute();
}
