// Attack: drag the radius; picture, answer, certificate and nearest adversarial example move with it.

import { getJson, make, onKey, showProblem, state } from "./core.js";
import { chooseParts, lastOnly, listExamples, settle } from "./examples.js";
import { showMade } from "./made.js";
import { paintMap, paintPicture } from "./pictures.js";
import { answerBars, exhibitOf, figureOf, number, pictureOf, signedBars } from "./shown.js";

const lab = document.getElementById("lab");
const at = (name) => lab.querySelector(`[data-at="${name}"]`);
const slider = at("radius");
const lastTrail = lastOnly(), lastStep = lastOnly();
const LEVEL = { start: "unclear", open: "unclear", wrong: "unclear", proved: "good", found: "high" };
const SLOW = 1000; // milliseconds of one attack, from which on none is run ahead
let model = null, list = null, trail = null, asked = null, known = new Map(), filling = null;

const chosen = () => ({ example: Number(state.get("example", String(list.first((line) => line.right)))), norm: state.get("norm", "l2"), seed: state.get("seed", "0") });
const query = (step) => new URLSearchParams(step === undefined ? asked : { ...asked, step });

function refresh() {
  const wanted = chosen();
  list.mark(wanted.example);
  at("norm").value = wanted.norm;
  if (asked && Object.keys(wanted).every((name) => wanted[name] === asked[name])) return moveTo(stepOf(state.get("radius")));
  asked = wanted;
  trail = null;
  filling?.abort();
  filling = null;
  lab.setAttribute("aria-busy", "true");
  lastTrail((signal) => getJson(`/api/attack/trail?${query()}`, { signal }), showTrail, fail);
}

function fail(problem) {
  lab.removeAttribute("aria-busy");
  showProblem(problem);
  document.getElementById("verdict").hidden = true; // it was about something else
  settle(lab);
}

function stepOf(radius) {
  const last = trail.radii.length - 1;
  if (radius === "") return trail.nearest === null ? Math.round(last / 2) : Math.min(last, trail.radii.findIndex((each) => each >= trail.nearest));
  const distances = trail.radii.map((each) => Math.abs(each - Number(radius)));
  return distances.indexOf(Math.min(...distances));
}

function showTrail(found) {
  trail = found;
  known = new Map();
  slider.max = String(trail.radii.length - 1);
  const kept = ["model", "data", "slice", "seed"].filter((name) => state.get(name)).map((name) => [name, state.get(name)]);
  at("onwards").href = `/explain?${new URLSearchParams([...kept, ["example", trail.index]])}`;
  at("zones").replaceChildren(...trail.radii.slice(1).map(() => make("span")));
  at("end").textContent = number(trail.radii.at(-1));
  const original = exhibitOf(trail.exhibit, `Example ${trail.index}, label ${trail.label}`);
  const folded = trail.exhibit.kind === "table" ? make("details", {}, make("summary", {}, "All features"), original) : original;
  at("original").replaceChildren(figureOf("Original", folded), answerBars(trail.before, "The answer before", trail.label));
  const proved = trail.certified === null ? trail.why_not : Number(trail.certified) === 0 ? "Nothing: the certificate does not reach any distance here." : `No change shorter than ${number(trail.certified)} (${trail.norm}) alters the answer.`;
  at("proved").textContent = proved;
  at("found").textContent = trail.wrong
    ? "Nothing to look for: the answer is wrong already."
    : trail.nearest === null
      ? `Nothing found by FMN, which proves nothing.${trail.health.length ? ` ${trail.health.join(" ")}` : ""}`
      : `The nearest that FMN found is ${number(trail.nearest)} away (${trail.norm}) and is answered '${trail.nearest_answer}'.`;
  at("proved").parentElement.classList.toggle("none", !(Number(trail.certified) > 0));
  at("found").parentElement.classList.toggle("none", trail.nearest === null);
  moveTo(stepOf(state.get("radius")));
}

function moveTo(step) {
  if (!trail) return;
  slider.value = String(step);
  const radius = trail.radii[step];
  slider.setAttribute("aria-valuetext", `${number(radius)}`);
  at("here").textContent = number(radius);
  for (const [i, cell] of [...at("zones").children].entries()) cell.classList.toggle("here", i + 1 === step);
  if (known.has(step)) return showPosition(step, known.get(step));
  const began = performance.now();
  lastStep((signal) => getJson(`/api/attack/at?${query(step)}`, { signal }), (found) => {
    showPosition(step, found);
    // A slow model is asked only for what is dragged to: who waits in another view shall not wait for this one, too.
    if (!filling && performance.now() - began < SLOW) fill();
  }, fail);
}

function remember(step, found) {
  known.set(step, found);
  const cell = at("zones").children[step - 1];
  if (cell) cell.dataset.state = found.state;
}

function showPosition(step, found) {
  remember(step, found);
  showProblem(null);
  lab.removeAttribute("aria-busy");
  const verdict = document.getElementById("verdict");
  verdict.hidden = false;
  verdict.className = `verdict ${LEVEL[found.state]}`;
  verdict.firstElementChild.textContent = found.sentence;
  const moved = found.distance > 0;
  const name = found.state !== "found" && moved ? "On the way" : "Result";
  if (found.shown?.picture) {
    showPictures(found, name);
  } else {
    at("change").replaceChildren();
    const bars = (found.features ?? []).filter(([, , , by]) => by !== 0).map(([feature, before, after, by]) => ({ name: feature, value: by, before, after }));
    const table = bars.length ? signedBars(bars, "Changes by feature, in standard deviations", ({ before, after }) => make("small", {}, `${number(before)} → ${number(after)}`)) : make("p", { class: "small" }, "No feature is changed.");
    at("result").replaceChildren(figureOf(`${name}: changes in standard deviations`, table), answerBars(found.answer, "The answer after", trail.label));
  }
  showMade(found.made, "The command attacks examples of all the data; the Python line attacks this one.");
  settle(lab);
}

/** The same two canvases all the time: to make new ones at each step of a drag would flicker. */
function showPictures(found, name) {
  let change = at("change").querySelector("canvas"), result = at("result").querySelector("canvas");
  if (!change || !result) {
    change = make("canvas", { role: "img", class: "picture" });
    at("change").replaceChildren(figureOf("Change", change), make("p", { class: "small" }));
    result = pictureOf(found.shown, name);
    at("result").replaceChildren(figureOf(name, result));
  }
  paintMap(change, found.change);
  paintPicture(result, found.shown.picture);
  change.setAttribute("aria-label", `The change, at most ${number(found.change.limit)} per pixel; red is brighter, blue is darker`);
  at("change").querySelector("p").textContent = found.distance > 0 ? `${number(found.distance)} (${trail.norm}) away from the original. Red is brighter, blue is darker; the colours end at ${number(found.change.limit)}.${found.state === "found" ? "" : " It lies on the way to the nearest that was found."}` : "Nothing is changed.";
  result.setAttribute("aria-label", `${name}, answered ${found.answer[0].name}`);
  at("result").querySelector("figcaption").textContent = name;
  at("result").querySelector(".bars")?.remove();
  at("result").append(answerBars(found.answer, "The answer after", trail.label));
}

/** Ask for the other positions in the background, the coarse ones first, so that a drag finds them there. */
async function fill() {
  const mine = new AbortController();
  filling = mine;
  const steps = [];
  for (const by of [8, 4, 2, 1]) for (let step = by; step < trail.radii.length; step += by) if (!steps.includes(step)) steps.push(step);
  for (const step of steps) {
    if (mine.signal.aborted) return;
    if (known.has(step)) continue;
    try {
      remember(step, await getJson(`/api/attack/at?${query(step)}`, { signal: mine.signal }));
    } catch {
      return; // another example was chosen, or the server is gone, which the next drag will say
    }
    await new Promise((go) => setTimeout(go, 0));
  }
  lab.dataset.filled = String(asked.example);
}

async function start() {
  try {
    model = await getJson("/api/attack/model");
  } catch (problem) {
    lab.hidden = true;
    document.getElementById("instead").hidden = false;
    document.getElementById("verdict").hidden = true;
    showProblem(problem);
    return;
  }
  const choose = chooseParts(lab);
  list = listExamples(at("examples"), model, (index) => {
    state.set({ example: index, radius: "" }, { push: true });
    choose("attack");
  });
  at("norm").addEventListener("change", () => state.set({ norm: at("norm").value, radius: "" }));
  slider.addEventListener("input", () => trail && state.set({ radius: trail.radii[Number(slider.value)] }));
  state.onChange((changed) => Object.keys(changed).every((name) => name === "only") || refresh());
  const step = (by) => () => trail && state.set({ radius: trail.radii[Math.min(trail.radii.length - 1, Math.max(0, Number(slider.value) + by))] });
  onKey("]", "a larger radius", step(1));
  onKey("[", "a smaller radius", step(-1));
  refresh();
}

start();
