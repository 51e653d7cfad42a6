// A pen with the few strokes of a canvas that the diagram uses, which writes SVG.

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const short = (number) => Number(number.toFixed(2));

export class SvgPen {
  constructor(wide, high, paper) {
    this.wide = wide;
    this.high = high;
    this.parts = [`<rect width="${wide}" height="${high}" fill="${escaped(paper)}"/>`];
    this.path = "";
    Object.assign(this, { strokeStyle: "#000", fillStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic" });
    this.dash = [];
  }

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${short(x)} ${short(y)}`; }
  lineTo(x, y) { this.path += `L${short(x)} ${short(y)}`; }
  rect(x, y, w, h) { this.path += `M${short(x)} ${short(y)}h${short(w)}v${short(h)}h${short(-w)}z`; }
  arc(x, y, r) { this.path += `M${short(x - r)} ${short(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; }
  setLineDash(dash) { this.dash = dash; }

  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${escaped(this.strokeStyle)}" stroke-width="${this.lineWidth}" opacity="${this.globalAlpha}"${dash}/>`);
  }

  fill() { this.parts.push(`<path d="${this.path}" fill="${escaped(this.fillStyle)}" opacity="${this.globalAlpha}"/>`); }
  fillRect(x, y, w, h) { this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${escaped(this.fillStyle)}" opacity="${this.globalAlpha}"/>`); }

  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const lower = this.textBaseline === "middle" ? 4 : 0;
    const [, weight = "400", size] = this.font.match(/^(?:(\d+) )?(\d+)px/) ?? [];
    this.parts.push(`<text x="${short(x)}" y="${short(y + lower)}" text-anchor="${anchor}" font-family="system-ui, sans-serif" font-size="${size}" font-weight="${weight}" fill="${escaped(this.fillStyle)}" opacity="${this.globalAlpha}">${escaped(text)}</text>`);
  }

  text() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.wide}" height="${this.high}" viewBox="0 0 ${this.wide} ${this.high}">${this.parts.join("")}</svg>`;
  }
}
