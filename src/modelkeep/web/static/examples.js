// The examples of a view as a list to choose from, errors first: pictures in a grid, tables and texts as lines.

import { getJson, make, state } from "./core.js";
import { paintPicture } from "./pictures.js";
import { percent } from "./shown.js";

const CHUNK = 48;

/** Fill `root` with the examples; `pick(index)` is called when one is chosen. Gives functions to mark one and to step. */
export function listExamples(root, { examples, kind, classes, of }, pick) {
  let shown = [];
  let count = 0;
  const only = make("select", { "aria-label": "Which examples", "data-only": true },
    make("option", { value: "" }, "all, errors first"), make("option", { value: "errors" }, "errors only"),
    ...classes.slice(0, 200).map((name) => make("option", { value: `=${name}` }, `label ${name}`)));
  const list = make("div", { role: "listbox", "aria-label": "Examples", class: `examples ${kind}` });
  const more = make("button", { type: "button" }, "More");
  const told = make("p", { class: "small" });
  root.replaceChildren(make("div", { class: "row" }, only), told, list, more);

  function fits(line) {
    const wanted = state.get("only");
    if (wanted === "errors") return !line.right;
    return wanted.startsWith("=") ? line.label === wanted.slice(1) : true;
  }

  function restart() {
    only.value = state.get("only");
    shown = examples.filter(fits);
    count = 0;
    list.replaceChildren();
    const errors = examples.filter((line) => !line.right).length;
    const looked = examples.length < of ? `${examples.length} of ${of} examples are looked at` : `${of} examples`;
    told.textContent = `${looked}, ${errors} ${errors === 1 ? "error" : "errors"}.` + (shown.length ? "" : " None is left here: choose others above.");
    grow();
  }

  async function grow() {
    const lines = shown.slice(count, count + CHUNK);
    count += lines.length;
    more.hidden = count >= shown.length;
    const options = lines.map((line) => optionOf(line));
    list.append(...options);
    mark(current());
    if (!lines.length || kind === "numbers" || kind === "table") return;
    const thumbs = await getJson(`/api/explain/thumbs?index=${lines.map((line) => line.index).join(",")}`);
    thumbs.forEach((thumb, i) => {
      if (thumb.picture) paintPicture(options[i].querySelector("canvas"), thumb.picture);
      else if (thumb.text) options[i].querySelector(".brief").textContent = thumb.text.slice(0, 90);
    });
  }

  function optionOf(line) {
    const said = line.right ? line.label : `${line.label} → ${line.predicted}`;
    const name = `Example ${line.index}: label ${line.label}, answer ${line.predicted}, ${percent(line.probability)}${line.right ? "" : ", an error"}`;
    const body = kind === "picture" ? make("canvas", { "aria-hidden": "true" }) : make("span", { class: "brief" }, `${line.index}`);
    const option = make("div", { role: "option", tabindex: "-1", "aria-selected": "false", "aria-label": name, title: name, "data-index": line.index, class: line.right ? "" : "error" }, body, make("span", { class: "said" }, said));
    option.addEventListener("click", () => pick(line.index));
    return option;
  }

  const current = () => Number(state.get("example", "-1"));

  /** Show which example is chosen; it is the one that Tab reaches. */
  function mark(index) {
    const options = [...list.children];
    const chosen = options.find((option) => Number(option.dataset.index) === index);
    for (const option of options) {
      option.setAttribute("aria-selected", String(option === chosen));
      option.tabIndex = option === (chosen ?? options[0]) ? 0 : -1;
    }
  }

  list.addEventListener("keydown", (event) => {
    const options = [...list.children];
    const here = options.indexOf(event.target);
    const columns = options.filter((option) => option.offsetTop === options[0].offsetTop).length;
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -here, End: options.length - 1 - here };
    if (!(event.key in moves) || here < 0) return;
    event.preventDefault();
    const next = options[Math.min(options.length - 1, Math.max(0, here + moves[event.key]))];
    next.focus();
    next.click();
  });
  only.addEventListener("change", () => {
    state.set({ only: only.value });
    restart();
  });
  more.addEventListener("click", grow);
  restart();
  return { mark, first: (fit = () => true) => (shown.find(fit) ?? shown[0] ?? examples[0])?.index };
}

/** On a narrow screen one part of a view is seen at a time: these buttons choose it. */
export function chooseParts(lab) {
  const buttons = [...lab.querySelectorAll("[data-part]")];
  function choose(name) {
    lab.dataset.pane = name;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.part === name));
  }
  for (const button of buttons) button.addEventListener("click", () => choose(button.dataset.part));
  choose(lab.dataset.pane);
  return choose;
}

/** Only the last of several requests counts: `run(ask, show)` ends the one before. */
export function lastOnly() {
  let ending = null;
  return async (ask, show, fail) => {
    ending?.abort();
    const mine = new AbortController();
    ending = mine;
    try {
      const told = await ask(mine.signal);
      if (ending === mine) show(told);
    } catch (error) {
      if (error.name !== "AbortError" && ending === mine) fail(error);
    }
  };
}

/** Say that the view shows what was asked for, once it is painted; tests and the benchmark wait for it. */
export function settle(lab) {
  requestAnimationFrame(() => setTimeout(() => (lab.dataset.settled = String(Number(lab.dataset.settled ?? 0) + 1))));
}
