// What one can take away: the address, a picture, the trace, a table.

import { h, patch, toast } from "./dom.js";
import { href } from "./address.js";
import { SvgPen } from "./svg_pen.js";

function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** The diagram as it is seen, as SVG text. */
export function svgOf(diagram) {
  const [wide, high] = [diagram.canvas.clientWidth, diagram.canvas.clientHeight];
  const pen = new SvgPen(wide, high, diagram.colours.paper);
  const seen = diagram.seen;
  diagram.render(pen, wide, high);
  diagram.seen = seen;
  return pen.text();
}

/** Buttons that share and export. */
export function exportPanel(box, view) {
  const query = new URLSearchParams(view.parts).toString();
  const name = `${view.model.spec.replace(/[^a-z0-9-]+/g, "_")}-${view.tab.at}`;
  patch(box, h("h3", {}, "Share and export"), h("div", { class: "row" },
    h("button", { class: "tiny", id: "copy", onclick: async () => {
      try {
        await navigator.clipboard.writeText(href());
        toast("The address is in the clipboard; it carries everything you see.");
      } catch {
        toast("The browser does not give access to the clipboard: copy the address bar.");
      }
    } }, "Copy address"),
    h("button", { class: "tiny", id: "svg", onclick: () => download(`${name}.svg`, new Blob([svgOf(view.diagram)], { type: "image/svg+xml" })) }, "SVG"),
    h("button", { class: "tiny", id: "png", onclick: () => view.canvas.toBlob((blob) => download(`${name}.png`, blob)) }, "PNG"),
    h("a", { class: "small", href: `/api/trace?${query}`, download: `${name}.jsonl`, id: "trace" }, "JSON trace"),
    h("a", { class: "small", href: `/api/csv?${query}`, download: `${name}.csv`, id: "csv" }, "CSV")));
}
