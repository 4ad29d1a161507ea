// The drawer: hashes, seed, number of examples, and the lines that make a result again.

import { make } from "./core.js";

const short = (hash) => (hash ? make("code", { title: hash }, hash.slice(0, 16)) : "unknown");

/** Fill the drawer of this page; `note` says what the command does otherwise than the view. */
export function showMade(made, note = "") {
  const place = document.querySelector("[data-made]");
  const rows = [
    ["Model", short(made.model_hash)],
    ["Data", short(made.data_hash)],
    ["Seed", String(made.seed)],
    ["Examples", String(made.n)],
    ["Computed in", `${made.seconds < 1 ? `${(1000 * made.seconds).toFixed(0)} ms` : `${made.seconds.toFixed(1)} s`}`],
    ["ModelKeep", made.version],
  ];
  const list = make("dl", { class: "facts" }, ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const lines = [["Command", made.command], ["Python", made.python]].filter(([, line]) => line);
  place.replaceChildren(list, ...lines.flatMap(([name, line]) => lineOf(name, line)), ...(note ? [make("p", { class: "small" }, note)] : []));
}

function lineOf(name, line) {
  const button = make("button", { type: "button", "aria-label": `Copy the ${name} line` }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(line);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return [make("p", { class: "small name" }, name), make("div", { class: "command" }, make("pre", {}, make("code", {}, line)), button)];
}
