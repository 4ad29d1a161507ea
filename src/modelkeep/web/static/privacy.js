// Privacy: drag the false-positive rate along the ROC, and see the records that fall.

import { drawChart } from "./chart.js";
import { getJson, make, onKey, showProblem, state } from "./core.js";
import { lastOnly, settle } from "./examples.js";
import { showMade } from "./made.js";
import { interval, number, percent, pictureOf } from "./shown.js";

const lab = document.getElementById("lab");
const at = (name) => lab.querySelector(`[data-at="${name}"]`);
const slider = at("rate");
const lastCurve = lastOnly(), lastStep = lastOnly();
let model = null, curve = null, shownFor = "", mark = null;

const rateText = (rate) => `${Number((100 * rate).toPrecision(2))}\u00a0%`;
const chosen = () => ({ attack: state.get("attack") || [...model.fast, ...model.stored][0].name, seed: state.get("seed", "0") });

function refresh() {
  const wanted = chosen();
  at("attack").value = wanted.attack;
  const key = JSON.stringify(wanted);
  if (key === shownFor && curve) return move();
  shownFor = key;
  curve = null;
  lab.setAttribute("aria-busy", "true");
  lastCurve((signal) => getJson(`/api/privacy/curve?${new URLSearchParams(wanted)}`, { signal }), showCurve, fail);
}

function fail(problem) {
  lab.removeAttribute("aria-busy");
  showProblem(problem);
  document.getElementById("verdict").hidden = true; // it was about something else
  settle(lab);
}

function showCurve(told) {
  curve = told;
  showProblem(null);
  lab.removeAttribute("aria-busy");
  slider.max = String(told.rates.length - 1);
  const low = Math.min(told.rates[0], 0.5 / told.members);
  mark = drawChart(at("chart"), {
    lines: [{ points: [[told.rates[0], told.rates[0]], [1, 1]], kind: "chance" }, { points: told.corners, kind: "main" }],
    x: { name: "others that are accused wrongly", low: told.rates[0], high: 1, kind: "log", tell: rateText },
    y: { name: "members that are found", low, high: 1, kind: "log", tell: rateText },
    label: `Members found against others accused, both on logarithmic scales, by ${told.attack}; the area under the curve is ${told.auc.value.toFixed(3)}`,
    height: 300,
  });
  at("auc").textContent = `${told.auc.value.toFixed(3)} (${told.auc.low.toFixed(3)} to ${told.auc.high.toFixed(3)})`;
  at("records").textContent = `${told.members.toLocaleString("en")} members, ${told.others.toLocaleString("en")} others`;
  move();
}

function move() {
  const wanted = Number(state.get("rate", "0.01"));
  const distances = curve.rates.map((each) => Math.abs(Math.log(each / wanted)));
  const step = distances.indexOf(Math.min(...distances));
  const rate = curve.rates[step];
  slider.value = String(step);
  slider.setAttribute("aria-valuetext", rateText(rate));
  at("here").textContent = rateText(rate);
  lastStep((signal) => getJson(`/api/privacy/at?${new URLSearchParams({ ...chosen(), rate })}`, { signal }), showPosition, fail);
}

function showPosition(told) {
  mark(told.rate, told.found.value);
  const verdict = document.getElementById("verdict");
  verdict.hidden = false;
  verdict.className = `verdict ${told.claimed ? "high" : "unclear"}`;
  verdict.firstElementChild.textContent = told.sentence;
  at("found").textContent = told.enough ? interval(told.found) : `inconclusive: needs ${told.needed.toLocaleString("en")} others`;
  at("fallen-name").textContent = `Members that fall: ${told.members.toLocaleString("en")}`;
  const rest = told.members - told.records.length;
  at("fallen").replaceChildren(...told.records.map((each) => recordOf(each, told.non_members)), ...(rest > 0 ? [make("p", { class: "small" }, `and ${rest.toLocaleString("en")} more`)] : []));
  if (!told.records.length) at("fallen").replaceChildren(make("p", { class: "small" }, "None: no member scores above every other record. Allow more false accusations."));
  showMade(curve.made, "The interval is that of this rate alone; a rate that is chosen by its outcome needs a wider one, which `modelkeep privacy` gives.");
  settle(lab);
}

function recordOf(each, others) {
  const share = `${each.as_high} of ${others} others score as high`;
  const name = `Record ${each.row}${each.label ? `, '${each.label}'` : ""}, score ${number(each.score)}: ${share}`;
  const body = each.exhibit?.picture ? pictureOf(each.exhibit, name, "thumb") : make("span", { class: "brief" }, each.exhibit?.text ? each.exhibit.text.slice(0, 60) : `row ${each.row}`);
  return make("div", { class: "record", title: `${name}${each.hash ? `; ${each.hash}` : ""}` }, body, make("span", { class: "said" }, `${each.label ? `${each.label} · ` : ""}${each.as_high === 0 ? "none as high" : `${percent(each.as_high / others)} as high`}`));
}

async function start() {
  try {
    model = await getJson(`/api/privacy/model?seed=${state.get("seed", "0")}`);
  } catch (problem) {
    lab.hidden = true;
    document.getElementById("verdict").hidden = true;
    showProblem(problem);
    return;
  }
  const attacks = [...model.fast, ...model.stored];
  at("why-not").hidden = attacks.length > 0;
  at("body").hidden = attacks.length === 0;
  if (!attacks.length) {
    at("why-not").querySelector("[data-why]").textContent = model.why_not;
    document.getElementById("verdict").firstElementChild.textContent = "Not looked at yet: it is not known which records the model was trained on.";
    settle(lab);
    return;
  }
  at("attack").append(...attacks.map(({ name, title }) => make("option", { value: name }, title)));
  at("attack").addEventListener("change", () => state.set({ attack: at("attack").value }));
  slider.addEventListener("input", () => curve && state.set({ rate: curve.rates[Number(slider.value)] }));
  state.onChange(refresh);
  const step = (by) => () => curve && state.set({ rate: curve.rates[Math.min(curve.rates.length - 1, Math.max(0, Number(slider.value) + by))] });
  onKey("]", "more false accusations", step(1));
  onKey("[", "fewer false accusations", step(-1));
  refresh();
}

start();
