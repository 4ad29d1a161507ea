// A curve in a chart that is as wide as its place, so that its text keeps its size; a line marks where one is.

import { make } from "./core.js";

const LEFT = 52, RIGHT = 24, TOP = 26, BOTTOM = 42;

/** Draw `lines` of points [x, y] into `place`; `band` is [x, low, high]; scales are "linear" or "log". Gives `mark(x, y)`. */
export function drawChart(place, { lines, band = [], x, y, label, height = 260 }) {
  let marked = null;
  function draw() {
    const width = Math.max(place.clientWidth, 240);
    const across = scaleOf(x, LEFT, width - RIGHT), up = scaleOf(y, height - BOTTOM, TOP);
    const svg = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    for (const tick of ticksOf(x, width < 420 ? 4 : 7)) {
      svg.append(make("svg:line", { x1: across(tick), x2: across(tick), y1: TOP, y2: height - BOTTOM, class: "grid" }),
        make("svg:text", { x: across(tick), y: height - BOTTOM + 17, "text-anchor": "middle" }, (x.tell ?? plain)(tick)));
    }
    for (const tick of ticksOf(y, 5)) {
      svg.append(make("svg:line", { x1: LEFT, x2: width - RIGHT, y1: up(tick), y2: up(tick), class: "grid" }),
        make("svg:text", { x: LEFT - 7, y: up(tick) + 4, "text-anchor": "end" }, (y.tell ?? plain)(tick)));
    }
    svg.append(make("svg:text", { x: (LEFT + width - RIGHT) / 2, y: height - 6, "text-anchor": "middle", class: "axis" }, x.name));
    if (y.name) svg.append(make("svg:text", { x: 0, y: 12, class: "axis" }, y.name));
    if (band.length) {
      const edge = [...band.map(([at, low]) => [at, low]), ...[...band].reverse().map(([at, , high]) => [at, high])];
      svg.append(make("svg:polygon", { points: corners(edge, across, up), class: "band" }));
    }
    for (const { points, kind } of lines) {
      svg.append(make("svg:polyline", { points: corners(points, across, up), class: `line ${kind}` }));
    }
    if (marked) {
      const [at, value] = marked;
      svg.append(make("svg:line", { x1: across(at), x2: across(at), y1: TOP, y2: height - BOTTOM, class: "mark" }),
        make("svg:circle", { cx: across(at), cy: up(value), r: 5, class: "mark" }));
    }
    place.replaceChildren(svg);
  }
  draw();
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth !== width) draw();
    width = place.clientWidth;
  }).observe(place);
  return (at, value) => {
    marked = [at, value];
    draw();
  };
}

const plain = (value) => String(Number(value.toPrecision(3)));
const corners = (points, across, up) => points.map(([at, value]) => `${across(at).toFixed(1)},${up(value).toFixed(1)}`).join(" ");

function scaleOf({ kind = "linear", low, high }, from, to) {
  const place = kind === "log" ? (value) => Math.log(Math.max(value, low)) : (value) => value;
  const first = place(low), last = place(high);
  return (value) => from + ((Math.min(Math.max(place(value), first), last) - first) / (last - first || 1)) * (to - from);
}

function ticksOf({ kind = "linear", low, high }, most) {
  if (kind === "log") {
    const ticks = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += 1) ticks.push(10 ** power);
    return ticks;
  }
  const rough = (high - low) / most, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return ticks;
}
