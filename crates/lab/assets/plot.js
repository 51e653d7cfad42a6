// Curves with confidence bands, drawn as SVG.

import { digits, h, s } from "./dom.js";

const WIDE = 420, HIGH = 260, LEFT = 46, RIGHT = 12, TOP = 12, BOTTOM = 34;

/** Round numbers from 0 or below `least` to above `most`. */
function ticks(least, most) {
  const span = most - least || 1, rough = span / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
  const first = Math.floor(least / step) * step;
  return Array.from({ length: Math.ceil((most - first) / step) + 1 }, (_, at) => Number((first + at * step).toPrecision(12)));
}

/** `plot` has title, x, y and curves of points [x, y, half-width]; `log` makes the horizontal axis logarithmic. */
export function plotOf(plot, { log = false } = {}) {
  const all = plot.curves.flatMap((curve) => curve.points).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  if (all.length === 0) return h("p", { class: "faint" }, "No points.");
  const xs = all.map(([x]) => x), useLog = log && Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) > 5;
  const across = (x) => (useLog ? Math.log(x) : x);
  const low = across(Math.min(...xs)), high = across(Math.max(...xs));
  const rows = ticks(Math.min(0, ...all.map(([, y]) => y)), Math.max(...all.map(([, y, half]) => y + (half || 0))));
  const px = (x) => LEFT + ((across(x) - low) / (high - low || 1)) * (WIDE - LEFT - RIGHT);
  const py = (y) => HIGH - BOTTOM - ((y - rows[0]) / (rows.at(-1) - rows[0])) * (HIGH - TOP - BOTTOM);
  const shownAt = new Set();
  const columns = useLog ? [...new Set(xs)].sort((one, other) => one - other) : ticks(low, high).filter((x) => x >= low - 1e-9 && x <= high + 1e-9);
  const spaced = columns.filter((x, at) => at === 0 || !columns.slice(0, at).some((before) => px(x) - px(before) < 30 && shownAt.has(before)) ? shownAt.add(x) : false);
  const told = plot.curves.map((curve) => `${curve.name}: ${curve.points.map(([x, y]) => `${digits(y)} at ${digits(x)}`).join(", ")}`).join("; ");
  const curve = ({ points, published, name }, at) => {
    const sorted = [...points].sort((one, other) => one[0] - other[0]);
    const band = sorted.map(([x, y, half]) => `${px(x).toFixed(1)},${py(y + (half || 0)).toFixed(1)}`)
      .concat([...sorted].reverse().map(([x, y, half]) => `${px(x).toFixed(1)},${py(y - (half || 0)).toFixed(1)}`));
    return s("g", { class: `kind-${at % 8}`, "data-curve": name, "data-published": String(Boolean(published)) },
      !published && s("polygon", { points: band.join(" "), fill: "currentcolor", opacity: 0.18 }),
      !published && s("polyline", { points: sorted.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" "), fill: "none", stroke: "currentcolor", "stroke-width": 1.8 }),
      sorted.map(([x, y, half]) => s(published ? "rect" : "circle", published
        ? { x: px(x) - 4, y: py(y) - 4, width: 8, height: 8, fill: "none", stroke: "currentcolor", "stroke-width": 1.8, transform: `rotate(45 ${px(x)} ${py(y)})` }
        : { cx: px(x), cy: py(y), r: 2.6, fill: "currentcolor" }, s("title", {}, `${name}: ${digits(y)}${half ? ` ± ${digits(half)}` : ""} at ${digits(x)}`))));
  };
  return h("figure", { class: "plot picture", style: "margin:0", "data-plot": plot.title },
    h("h3", {}, plot.title),
    s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${plot.title}. ${plot.y} against ${plot.x}. ${told}` },
      rows.map((y) => [s("line", { x1: LEFT, x2: WIDE - RIGHT, y1: py(y), y2: py(y), class: "edge", "stroke-width": 1 }), s("text", { x: LEFT - 6, y: py(y) + 4, "text-anchor": "end", class: "faint" }, digits(y))]),
      spaced.map((x) => s("text", { x: px(x), y: HIGH - BOTTOM + 15, "text-anchor": "middle", class: "faint" }, digits(x))),
      s("text", { x: (LEFT + WIDE) / 2, y: HIGH - 4, "text-anchor": "middle" }, plot.x.length > 60 ? `${plot.x.slice(0, 58)}…` : plot.x),
      plot.curves.map(curve)),
    h("p", { class: "legend" }, plot.curves.map(({ name, published }, at) => h("span", { class: `kind-${at % 8}` }, published ? `◇ ${name} (published)` : name))),
    h("p", { class: "small faint" }, plot.y));
}
