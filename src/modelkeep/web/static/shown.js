// Examples as they are: a picture, the features of a table, a text; probabilities and signed values as bars.

import { make } from "./core.js";
import { paintMap, paintPicture } from "./pictures.js";

export const percent = (value) => {
  const hundredths = 100 * value;
  if (hundredths > 99.9 && value < 1) return ">\u00a099.9\u00a0%";
  if (hundredths < 0.1 && value > 0) return "<\u00a00.1\u00a0%";
  return `${hundredths.toFixed(hundredths < 10 && hundredths > 0 ? 1 : 0)}\u00a0%`;
};

export const number = (value) => {
  const given = Number(value);
  if (!Number.isFinite(given)) return given > 0 ? "no limit" : "unknown";
  return given === 0 ? "0" : String(Number(given.toPrecision(3)));
};

/** An estimate with its interval. */
export const interval = (estimate) => `${percent(estimate.value)} (${percent(estimate.low)} to ${percent(estimate.high)})`;

/** A canvas with a picture, named for those who do not see it. */
export function pictureOf(exhibit, label, kind = "picture") {
  const canvas = make("canvas", { role: "img", "aria-label": label, class: kind });
  paintPicture(canvas, exhibit.picture);
  return canvas;
}

/** A figure with a caption above its picture, words or features. */
export function figureOf(caption, ...parts) {
  return make("figure", { class: "shown" }, make("figcaption", {}, caption), ...parts);
}

/** One example, whole. */
export function exhibitOf(exhibit, label) {
  if (exhibit.kind === "picture") return pictureOf(exhibit, label);
  if (exhibit.kind === "text") return make("p", { class: "words" }, exhibit.text);
  if (exhibit.kind === "table") {
    const rows = exhibit.features.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, number(value))));
    return make("div", { class: "fold" }, make("table", { class: "plain" }, make("tbody", {}, ...rows)));
  }
  return make("p", { class: "small" }, "Examples of this shape are neither pictures, tables nor texts, so none is drawn.");
}

/** What `tell_influence` said: a map over the picture, coloured words, or bars of features. */
export function influenceOf(told, exhibit, label) {
  if (told.map) {
    const canvas = make("canvas", { role: "img", "aria-label": label, class: "picture" });
    paintMap(canvas, told.map, exhibit?.picture);
    return canvas;
  }
  if (told.words) {
    const most = Math.max(...told.words.map(([, value]) => Math.abs(value)), 1e-12);
    const words = told.words.map(([word, value]) => {
      const span = make("span", { title: number(value) }, word);
      span.style.background = `rgba(${value > 0 ? "201, 71, 65" : "55, 131, 187"}, ${(Math.abs(value) / most).toFixed(2)})`;
      return span;
    });
    return make("p", { class: "words", "aria-label": label }, ...words.flatMap((word) => [word, " "]));
  }
  if (told.features) return signedBars(told.features.slice(0, 10).map(([name, value]) => ({ name, value })), label);
  return make("p", { class: "small" }, "Nothing of this shape can be drawn.");
}

/** Signed values as bars around a middle line, each with its number. */
export function signedBars(rows, label, extra = () => null) {
  const most = Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-12);
  const lines = rows.map((row) => {
    const bar = make("span", { class: `bar ${row.value > 0 ? "for" : "against"}` });
    bar.style.width = `${(50 * Math.abs(row.value)) / most}%`;
    bar.style[row.value > 0 ? "left" : "right"] = "50%";
    return make("li", {}, make("span", { class: "name" }, row.name), make("span", { class: "signed" }, bar), make("span", { class: "value" }, signed(row.value)), extra(row));
  });
  return make("ul", { class: "bars", "aria-label": label }, ...lines);
}

export const signed = (value) => `${value > 0 ? "+" : ""}${number(value)}`.replace("-", "−");

/** The likeliest classes as bars. */
export function answerBars(shares, label, wanted = "") {
  const lines = shares.map(({ name, probability }, place) => {
    const bar = make("span", { class: place === 0 ? "bar top" : "bar" });
    bar.style.width = `${100 * probability}%`;
    const marks = name === wanted ? make("small", {}, " label") : null;
    return make("li", {}, make("span", { class: "name" }, name, marks), make("span", { class: "share" }, bar), make("span", { class: "value" }, percent(probability)));
  });
  return make("ul", { class: "bars answer", "aria-label": label }, ...lines);
}
