// Prove: drag the radius; the proved share and the examples that lose their proof move with it.

import { drawChart } from "./chart.js";
import { getJson, make, onKey, showProblem, state } from "./core.js";
import { lastOnly, settle } from "./examples.js";
import { showMade } from "./made.js";
import { interval, number, percent, pictureOf } from "./shown.js";

const lab = document.getElementById("lab");
const at = (name) => lab.querySelector(`[data-at="${name}"]`);
const slider = at("radius");
const lastModel = lastOnly(), lastStep = lastOnly();
let found = null, norm = null, mark = null;

function refresh() {
  const wanted = state.get("norm", "l2");
  at("norm").value = wanted;
  if (wanted === norm && found) return move();
  norm = wanted;
  found = null;
  lab.setAttribute("aria-busy", "true");
  lastModel((signal) => getJson(`/api/prove/model?norm=${norm}`, { signal }), showModel, fail);
}

function fail(problem) {
  lab.removeAttribute("aria-busy");
  at("body").hidden = true;
  document.getElementById("instead").hidden = false;
  showProblem(problem);
  document.getElementById("verdict").hidden = true; // it was about something else
  settle(lab);
}

function showModel(told) {
  found = told;
  showProblem(null);
  lab.removeAttribute("aria-busy");
  at("body").hidden = false;
  document.getElementById("instead").hidden = true;
  slider.max = String(told.radii.length - 1);
  const shares = (pick) => told.radii.map((radius, i) => [radius, pick(told.verified[i])]);
  mark = drawChart(at("chart"), {
    lines: [{ points: shares((each) => each.value), kind: "main" }],
    band: told.radii.map((radius, i) => [radius, told.verified[i].low, told.verified[i].high]),
    x: { name: `radius (${told.norm})`, low: 0, high: told.radii.at(-1) },
    y: { name: "right and proved", low: 0, high: 1, tell: (value) => `${Math.round(100 * value)}\u00a0%` },
    label: `The share of right and proved answers falls from ${percent(told.clean.value)} at radius 0 to ${percent(told.verified.at(-1).value)} at ${number(told.radii.at(-1))}`,
  });
  at("bounds").replaceChildren(make("p", { class: "small" }, `The largest margin constant is ${number(told.constant)}; the median certified radius ${number(told.median)}.`),
    make("table", { class: "plain" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "layer"), make("th", { scope: "col" }, "at most stretches by"))),
      make("tbody", {}, ...told.layers.map(({ name, bound }) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, number(bound)))))));
  move();
}

function move() {
  const wanted = state.get("radius");
  const distances = found.radii.map((each) => Math.abs(each - Number(wanted === "" ? found.median : wanted)));
  const step = distances.indexOf(Math.min(...distances));
  const radius = found.radii[step];
  slider.value = String(step);
  slider.setAttribute("aria-valuetext", number(radius));
  at("here").textContent = number(radius);
  mark(radius, found.verified[step].value);
  lastStep((signal) => getJson(`/api/prove/at?${new URLSearchParams({ norm, radius })}`, { signal }), showPosition, fail);
}

function showPosition(told) {
  const verdict = document.getElementById("verdict");
  verdict.hidden = false;
  const share = told.verified;
  verdict.className = `verdict ${share.value > 0 ? "good" : "unclear"}`;
  verdict.firstElementChild.textContent = told.radius === 0
    ? `${percent(share.value)} of ${share.n} answers are right. Drag the radius to see how many are proved.`
    : share.value > 0
      ? `Proved: ${percent(share.value)} of ${share.n} answers are right and stay so under every change of up to ${number(told.radius)} (${norm}).`
      : `Nothing is proved at ${number(told.radius)} (${norm}). That does not say that the answers can be changed.`;
  at("verified").textContent = interval(told.verified);
  at("certified").textContent = interval(told.certified);
  at("clean").textContent = interval(told.clean);
  at("lost-name").textContent = told.lost_count ? `Right, but not proved here: ${told.lost_count}` : "Right, but not proved here: none";
  at("lost").replaceChildren(...told.lost.map((each) => {
    const name = `Example ${each.index}, '${each.label}', proved up to ${number(each.radius)}`;
    const query = new URLSearchParams({ ...state.all(), example: each.index, norm, radius: told.radius });
    const body = each.exhibit.picture ? pictureOf(each.exhibit, name, "thumb") : make("span", { class: "brief" }, `Example ${each.index}`);
    return make("a", { href: `/attack?${query}`, title: `${name}: attack it`, "aria-label": `${name}: attack it` }, body, make("span", { class: "said" }, `${each.label} · ${number(each.radius)}`));
  }));
  showMade({ ...found.made, command: told.command });
  settle(lab);
}

slider.addEventListener("input", () => found && state.set({ radius: found.radii[Number(slider.value)] }));
at("norm").addEventListener("change", () => state.set({ norm: at("norm").value, radius: "" }));
state.onChange(refresh);
const step = (by) => () => found && state.set({ radius: found.radii[Math.min(found.radii.length - 1, Math.max(0, Number(slider.value) + by))] });
onKey("]", "a larger radius", step(1));
onKey("[", "a smaller radius", step(-1));
refresh();
