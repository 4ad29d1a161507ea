// What all views share: the server, the state in the address, live streams, the keyboard.

const CSRF = document.querySelector('meta[name="csrf"]')?.content ?? "";
const KEPT = ["model", "data", "slice", "seed"];

/** The state of this tab. It stands in the query of its address, so that a link or a reload brings it back. */
export const state = {
  get(name, otherwise = "") {
    return new URLSearchParams(location.search).get(name) ?? otherwise;
  },
  all() {
    return Object.fromEntries(new URLSearchParams(location.search));
  },
  /** Write values; an empty one is taken out. Tells who listens, and adds to the history only if asked to. */
  set(values, { push = false } = {}) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(values)) {
      if (value === "" || value === null || value === undefined) query.delete(name);
      else query.set(name, String(value));
    }
    const text = query.toString();
    const address = location.pathname + (text ? `?${text}` : "") + location.hash;
    history[push ? "pushState" : "replaceState"](null, "", address);
    keepLinks();
    for (const listen of listeners) listen(values);
  },
  /** Call `listen(changed)` after each change. */
  onChange(listen) {
    listeners.add(listen);
    return () => listeners.delete(listen);
  },
};
const listeners = new Set();
window.addEventListener("popstate", () => {
  for (const listen of listeners) listen(state.all());
});

/** Links to other views keep the model, the data, the slice and the seed. */
export function keepLinks(root = document) {
  for (const link of root.querySelectorAll("a[data-keep]")) {
    const address = new URL(link.getAttribute("href"), location.origin);
    for (const name of KEPT) {
      const value = state.get(name);
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    link.setAttribute("href", address.pathname + address.search + address.hash);
  }
}

/** What could not be done, in the server's words. */
export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Addresses of our own, with this tab's model and data, unless they name others. */
function own(url) {
  const address = new URL(url, location.origin);
  for (const name of ["model", "data"]) {
    const value = state.get(name);
    if (value && !address.searchParams.has(name)) address.searchParams.set(name, value);
  }
  return address.pathname + address.search;
}

async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(own(url), { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("modelkeep ui does not answer. Is it still running in its terminal?", 0);
  }
  let told = null;
  try {
    told = await answer.json();
  } catch {
    // a page in place of JSON: its status says enough
  }
  if (!answer.ok) throw new Problem(told?.error ?? `The server answered ${answer.status}.`, answer.status);
  return told;
}

/** JSON by GET; `signal` ends it early. Throws a Problem with the server's sentence. */
export function getJson(url, { signal } = {}) {
  return ask(url, { signal });
}

/** JSON by POST, from this page only. Throws a Problem with the server's sentence. */
export function postJson(url, body = {}, { signal } = {}) {
  const headers = { "Content-Type": "application/json", "X-ModelKeep-CSRF": CSRF };
  return ask(url, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** Server-sent events: `onEvent(value)` for each. Returns a function that ends it. */
export function live(url, onEvent, onLost = () => {}) {
  const source = new EventSource(own(url));
  source.onmessage = (event) => onEvent(JSON.parse(event.data));
  source.onerror = () => onLost(source.readyState === EventSource.CLOSED);
  const end = () => source.close();
  window.addEventListener("pagehide", end, { once: true });
  return end;
}

/** Show a sentence above the view; without one, take it away. */
export function showProblem(error) {
  const place = document.getElementById("problem");
  place.hidden = !error;
  place.textContent = error ? error.message ?? String(error) : "";
  if (error) place.scrollIntoView({ block: "nearest" });
}

/** An element with attributes and children; text stays text. */
export function make(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}

const keys = new Map();

/** A key that does something on this page; `?` lists them all. Keys in fields stay with the field. */
export function onKey(key, does, act) {
  keys.set(key, { does, act });
}

export function listKeys() {
  return [...keys].map(([key, { does }]) => [key, does]);
}

document.addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (field || event.ctrlKey || event.metaKey || event.altKey) return;
  const known = keys.get(event.key);
  if (known) {
    event.preventDefault();
    known.act();
  }
});
