// The parts of a picture of sites: circles, and arrows between them.

import { s } from "./dom.js";

/** A site at its place, in the colour of its phase. */
export function node(place, site, at) {
  return [s("circle", { cx: place.x, cy: place.y, r: 15, class: "node", "data-phase": site.phase }),
    s("text", { x: place.x, y: place.y + 4, "text-anchor": "middle", class: `on-node on-${site.phase}` }, `S${at}`)];
}

/** The place that bends an arrow; the `nth` of those between the same two is bent more. */
function bending(from, to, bend, nth) {
  const dx = to.x - from.x, dy = to.y - from.y, far = Math.hypot(dx, dy) || 1, by = bend + 26 * nth;
  return { x: (from.x + to.x) / 2 - (dy / far) * by, y: (from.y + to.y) / 2 + (dx / far) * by };
}

/** A place on such an arrow where something can be written: for each of those between the same two another, so that they do not meet. */
export function beside(from, to, bend = 14, nth = 0) {
  if (from === to) return { x: from.x + 15, y: from.y - 28 - 4 * nth };
  const by = bending(from, to, bend, nth), part = Math.min(0.36 + 0.14 * nth, 0.78), rest = 1 - part;
  const at = (axis) => rest * rest * from[axis] + 2 * rest * part * by[axis] + part * part * to[axis];
  return { x: at("x"), y: at("y") };
}

/** An arrow between two places that ends at the rim of the circle, bent if another goes back. */
export function arrow(from, to, attributes, bend = 14, nth = 0) {
  if (from === to) return s("g", attributes, s("circle", { class: "arrow", cx: from.x + 15, cy: from.y - 15, r: 9 + 4 * nth }));
  const { x: mx, y: my } = bending(from, to, bend, nth);
  const ax = to.x - mx, ay = to.y - my, reach = Math.hypot(ax, ay) || 1;
  const ex = to.x - (ax / reach) * 17, ey = to.y - (ay / reach) * 17;
  const angle = Math.atan2(ay, ax);
  const tip = [[0, 0], [-9, -4.5], [-9, 4.5]].map(([x, y]) => `${(ex + x * Math.cos(angle) - y * Math.sin(angle)).toFixed(1)},${(ey + x * Math.sin(angle) + y * Math.cos(angle)).toFixed(1)}`);
  return s("g", attributes, s("path", { class: "arrow", d: `M${from.x.toFixed(1)} ${from.y.toFixed(1)}Q${mx.toFixed(1)} ${my.toFixed(1)} ${ex.toFixed(1)} ${ey.toFixed(1)}` }), s("polygon", { class: "head", points: tip.join(" ") }));
}
