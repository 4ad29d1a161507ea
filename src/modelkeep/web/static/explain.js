// Explain: an example, a slice, a quantity, a distribution; influence, units and exemplars appear at once.

import { getJson, make, onKey, showProblem, state } from "./core.js";
import { chooseParts, lastOnly, listExamples, settle } from "./examples.js";
import { showMade } from "./made.js";
import { answerBars, exhibitOf, figureOf, influenceOf, number, percent, pictureOf, signed } from "./shown.js";

const lab = document.getElementById("lab");
const at = (name) => lab.querySelector(`[data-at="${name}"]`);
const last = lastOnly(), lastUnit = lastOnly();
let model = null, list = null, told = null;

const chosen = () => ({
  example: Number(state.get("example", String(list.first()))),
  slice: state.get("slice") || model.usual,
  why: state.get("why"),
  against: state.get("against"),
  distribution: state.get("over") || model.usual_distribution,
  seed: state.get("seed", "0"),
});

/** What another view needs to show the same example of the same model. */
const kept = () => Object.fromEntries(["model", "data", "seed"].filter((name) => state.get(name)).map((name) => [name, state.get(name)]));

function refresh() {
  const asked = chosen();
  list.mark(asked.example);
  markPlace(asked.slice);
  for (const name of ["why", "against"]) at(name).value = asked[name];
  at("over").value = asked.distribution;
  lab.setAttribute("aria-busy", "true");
  last((signal) => getJson(`/api/explain/example?${new URLSearchParams(asked)}`, { signal }), showExplanation, fail);
}

const named = (quantity) => (quantity.startsWith("predicted") ? `the ${quantity}` : quantity);

function fail(problem) {
  lab.removeAttribute("aria-busy");
  showProblem(problem);
  document.getElementById("verdict").hidden = true; // it was about something else
  settle(lab);
}

function showExplanation(found) {
  told = found;
  showProblem(null);
  lab.removeAttribute("aria-busy");
  const { example } = chosen();
  const [top] = found.answer;
  const right = top.name === found.label;
  const verdict = document.getElementById("verdict");
  verdict.hidden = false;
  verdict.className = `verdict ${right ? "unclear" : "high"}`;
  verdict.firstElementChild.textContent = right
    ? `Example ${example} is answered '${top.name}' (${percent(top.probability)}), which is its label.`
    : `Example ${example} is answered '${top.name}' (${percent(top.probability)}), but its label is '${found.label}'.`;
  const what = found.seen?.what ?? "influence";
  const whole = found.of > 1 ? ` over ${found.of} examples` : "";
  const picture = found.exhibit.kind === "picture";
  const entire = exhibitOf(found.exhibit, `Example ${example}, label ${found.label}`);
  const figures = picture ? [figureOf(`Example ${example}`, entire)] : [];
  if (found.seen) {
    const under = found.of > 1 ? null : found.exhibit;
    figures.push(figureOf(`What speaks for ${named(found.quantity)}${whole}`, influenceOf(found.seen, under, `${what} on ${found.quantity}: red speaks for it, blue against it`)));
  }
  if (!picture) figures.push(make("details", {}, make("summary", {}, `Example ${example} as it is`), entire));
  at("figures").classList.toggle("rows", !picture);
  at("figures").replaceChildren(...figures);
  at("onwards").href = `/attack?${new URLSearchParams({ ...kept(), example })}`;
  at("quantity").textContent = `${named(found.quantity)} = ${number(found.value)}, over ${found.distribution.startsWith("the ") ? "" : "the "}${found.distribution}` + (found.gap === null ? "." : `; the attributions miss ${number(Math.abs(found.gap))} of its change.`);
  at("answer").replaceChildren(answerBars(found.answer, "The answer", found.label));
  showMade(found.made, found.made.command ? "" : "Over all examples of a class only Python explains.");
  showUnits(found);
  showChosenUnit();
}

function showUnits(found) {
  const place = at("units");
  at("units-name").textContent = found.units.length ? `Strongest units at ${found.slice}` : "Units";
  if (!found.units.length) {
    place.replaceChildren(make("p", { class: "small" }, `At '${found.slice}' each value is its own unit, and the picture shows them all. Choose a slice inside the network for its units.`));
    return;
  }
  const most = Math.max(...found.units.map((unit) => Math.abs(unit.influence)), 1e-12);
  const inner = found.exemplars.length > 0;
  const lines = found.units.map((unit, i) => {
    const bar = make("span", { class: `bar ${unit.influence > 0 ? "for" : "against"}` });
    bar.style.width = `${(50 * Math.abs(unit.influence)) / most}%`;
    bar.style[unit.influence > 0 ? "left" : "right"] = "50%";
    const head = make("span", { class: "head" }, make("span", { class: "name" }, unit.name), make("span", { class: "signed" }, bar), make("span", { class: "value" }, signed(unit.influence)));
    const row = inner
      ? make("button", { type: "button", class: "unit", "data-index": unit.index, "aria-pressed": "false", title: "What in the example makes it active?", onclick: () => chooseUnit(unit.index) }, head)
      : make("div", { class: "unit" }, head);
    const thumbs = (found.exemplars[i] ?? []).map((each) => exemplarOf(each));
    return make("li", {}, row, thumbs.length ? make("div", { class: "exemplars" }, ...thumbs) : null);
  });
  const said = `Influence on ${named(found.quantity)} per ${found.per}.` + (inner ? " Below each, the examples that activate it most." : "");
  place.replaceChildren(make("p", { class: "small" }, said), make("ul", { class: "units-list" }, ...lines));
}

function exemplarOf({ index, label, exhibit }) {
  const name = `Example ${index}, label ${label}`;
  const body = exhibit.picture ? pictureOf(exhibit, name, "thumb") : make("span", {}, exhibit.text ? exhibit.text.slice(0, 40) : `${index}`);
  return make("button", { type: "button", title: `${name}: explain it`, "aria-label": `${name}: explain it`, onclick: () => state.set({ example: index }, { push: true }) }, body);
}

function chooseUnit(index) {
  state.set({ unit: state.get("unit") === String(index) ? "" : index });
}

/** Mark the unit that the address names, and show what makes it active; the list keeps the focus. */
function showChosenUnit() {
  const unit = state.get("unit");
  at("figures").querySelector("[data-unit]")?.remove();
  let known = false;
  for (const button of at("units").querySelectorAll("button.unit")) {
    const mine = button.dataset.index === unit;
    known ||= mine;
    button.setAttribute("aria-pressed", String(mine));
  }
  if (known) showUnit(Number(unit));
  else settle(lab);
}

function showUnit(unit) {
  const { example, slice, distribution, seed } = chosen();
  const query = new URLSearchParams({ example, slice, unit, distribution, seed });
  lastUnit((signal) => getJson(`/api/explain/unit?${query}`, { signal }), (found) => {
    const under = told.of > 1 ? null : told.exhibit;
    const figure = figureOf(`What makes ${found.quantity.replace(/^unit \((\d+),\)/, "unit $1")} active`, influenceOf(found, under, `Influence on ${found.quantity}`));
    figure.dataset.unit = String(unit);
    at("figures").querySelector("[data-unit]")?.remove();
    at("figures").append(figure);
    settle(lab);
  }, fail);
}

/** The network as a list from the input down; lines at the side join what does not read the place above it. */
function drawNetwork() {
  const list = at("network");
  const order = new Map(model.places.map((place, i) => [place.name, i]));
  list.replaceChildren(...model.places.map((place, i) => {
    const skips = place.reads.filter((name) => order.get(name) !== i - 1);
    const shape = place.shape ? place.shape.join("×") : "";
    const said = `${place.name}, ${place.kind}, ${shape}${skips.length ? `, reads ${skips.join(" and ")}` : ""}`;
    const option = make("div", { role: "option", tabindex: "-1", "aria-selected": "false", "aria-label": said, "data-place": place.name, title: said },
      placeName(place.name), make("span", { class: "kind" }, `${place.kind === "input" ? "" : `${place.kind} `}${shape}`),
      skips.length ? make("span", { class: "skips" }, `↰ ${skips.join(", ")}`) : null);
    if (i > 0 && !place.reads.includes(model.places[i - 1].name)) option.classList.add("apart");
    option.addEventListener("click", () => state.set({ slice: place.name, unit: "" }));
    return option;
  }));
  list.addEventListener("keydown", (event) => {
    const places = [...list.children];
    const here = places.indexOf(event.target);
    const moves = { ArrowDown: 1, ArrowUp: -1, Home: -here, End: places.length - 1 - here };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = places[Math.min(places.length - 1, Math.max(0, here + moves[event.key]))];
    next.focus();
    next.click();
  });
}

/** The name of a place: where it stands in small letters, and what it is. */
function placeName(name) {
  const end = name.lastIndexOf(".") + 1;
  return make("span", { class: "place" }, end ? make("small", {}, name.slice(0, end)) : null, name.slice(end));
}

function markPlace(name) {
  const places = [...at("network").children];
  const mine = places.find((place) => place.dataset.place === name);
  for (const place of places) {
    place.setAttribute("aria-selected", String(place === mine));
    place.tabIndex = place === (mine ?? places[0]) ? 0 : -1;
  }
  if (mine) at("network").scrollTop = Math.max(0, mine.offsetTop - at("network").clientHeight / 2);
}

function step(by) {
  const lines = [...lab.querySelectorAll(".examples [role=option]")];
  const here = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
  lines[Math.min(lines.length - 1, Math.max(0, here + by))]?.click();
}

async function start() {
  try {
    model = await getJson("/api/explain/model");
  } catch (problem) {
    lab.hidden = true;
    document.getElementById("instead").hidden = false;
    document.getElementById("verdict").hidden = true;
    showProblem(problem);
    return;
  }
  const options = (first) => [...first, ...model.classes.map((name) => make("option", { value: name }, name))];
  at("why").append(...options([make("option", { value: "" }, "the answer")]));
  at("against").append(...options([make("option", { value: "" }, "nothing"), make("option", { value: model.others }, "all others")]));
  for (const [name, key] of [["why", "why"], ["against", "against"], ["over", "over"]]) at(name).addEventListener("change", () => state.set({ [key]: at(name).value }));
  const choose = chooseParts(lab);
  list = listExamples(at("examples"), model, (index) => {
    state.set({ example: index }, { push: true });
    choose("why");
  });
  drawNetwork();
  state.onChange((changed) => {
    if (Object.keys(changed).every((name) => name === "only")) return;
    if (Object.keys(changed).every((name) => name === "unit") && told) return showChosenUnit();
    refresh();
  });
  onKey("j", "the next example", () => step(1));
  onKey("k", "the example before", () => step(-1));
  refresh();
}

start();
