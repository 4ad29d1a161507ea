// Jobs as a page shows them: the line, how far it is, what it wrote, and a button that stops it.

import { getJson, make, postJson, showProblem } from "./core.js";

const LEVELS = { running: "low", done: "good", failed: "high", stopped: "medium", interrupted: "medium" };

function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${(seconds / 3600).toFixed(1)} h`;
}

function bars(tasks) {
  return tasks.map(({ name, done, total, note }) => {
    const share = total ? `${Math.round(done)} of ${Math.round(total)}` : `${Math.round(done)}`;
    const bar = make("progress", total ? { max: total, value: done, "aria-label": name } : { "aria-label": name });
    return make("div", { class: "task" }, make("span", {}, name), bar, make("small", {}, `${share} ${note}`));
  });
}

/** A job as an element; `told` is what the server says of it. */
export function showJob(told) {
  const stop = make("button", { type: "button", onclick: () => cancel(told.id) }, "Stop");
  const reports = told.reports.map((path) =>
    make("a", { href: `/reports/${path}`, target: "_blank", rel: "noopener" }, path.split("/").pop()),
  );
  const log = make("details", { class: "log" }, make("summary", {}, "What it printed"), make("pre", {}));
  log.addEventListener("toggle", () => log.open && fill(log, told.id));
  return make(
    "article",
    { class: `job finding ${LEVELS[told.state]}`, id: `job-${told.id}`, "data-state-of-job": told.state },
    make(
      "p",
      { class: "head" },
      make("span", { class: `chip ${LEVELS[told.state]}` }, told.state),
      make("small", {}, `job ${told.id}, ${span(told.seconds)}`),
      told.state === "running" ? stop : null,
    ),
    make("code", {}, told.line),
    ...bars(told.tasks),
    told.why ? make("p", { class: "why" }, told.why) : null,
    reports.length ? make("p", { class: "links" }, ...reports) : null,
    log,
  );
}

async function fill(log, id) {
  try {
    const { said } = await getJson(`/api/jobs/${id}`);
    log.querySelector("pre").textContent = said || "Nothing yet.";
  } catch (problem) {
    showProblem(problem);
  }
}

async function cancel(id) {
  try {
    await postJson(`/api/jobs/${id}/cancel`);
  } catch (problem) {
    showProblem(problem);
  }
}

/** Keep `place` showing the jobs that `keep` lets through; what is open stays open. */
export function followJobs(place, keep = () => true, nothing = "") {
  const shown = new Map();
  function update({ jobs }) {
    const wanted = jobs.filter(keep);
    for (const told of wanted) {
      const text = JSON.stringify(told);
      const known = shown.get(told.id);
      if (known?.text === text) continue;
      const made = showJob(told);
      if (known?.made.querySelector(".log")?.open) made.querySelector(".log").open = true;
      const held = known?.made.contains(document.activeElement);
      known?.made.replaceWith(made);
      if (held) made.querySelector("button")?.focus();
      shown.set(told.id, { text, made });
    }
    const elements = wanted.map(({ id }) => shown.get(id).made);
    const order = [...place.children];
    if (elements.length !== order.length || elements.some((each, i) => each !== order[i])) {
      place.replaceChildren(...elements);
    }
    if (!elements.length && nothing) place.replaceChildren(make("p", {}, nothing));
  }
  document.addEventListener("modelkeep:jobs", (event) => update(event.detail));
  if (window.modelkeepJobs) update(window.modelkeepJobs);
}

/** Start a command; the server answers with the job. */
export function startJob(verb, values) {
  return postJson("/api/jobs", { verb, values });
}
