// What each key does in a run.

/** What the key of `event` does in `view`, or null. */
export function keyAction(view, event) {
  const { target, key } = event;
  if (document.querySelector("dialog[open]") || (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target !== view.slider)) return null;
  if ((event.ctrlKey || event.metaKey) && !event.altKey) {
    const name = `${event.shiftKey ? "shift " : ""}${key.toLowerCase()}`;
    return { z: () => view.undo(), "shift z": () => view.redo(), y: () => view.redo() }[name] ?? null;
  }
  if (event.altKey) return null;
  // A focused button takes the space bar for itself.
  if (key === " ") return /^(BUTTON|SUMMARY|A)$/.test(target.tagName) ? null : () => view.play();
  if (/^[1-9]$/.test(key)) return () => view.select(Number(key) - 1);
  const { selected, tab, diagram } = view, far = event.shiftKey ? 10 : 1;
  const actions = {
    ArrowRight: () => view.forward(far), PageDown: () => view.forward(1), ArrowLeft: () => view.go(tab.at - far), PageUp: () => view.go(tab.at - 1),
    Home: () => view.go(0), End: () => view.go(view.model.steps), n: () => view.entry(1), p: () => view.entry(-1),
    "+": () => diagram.zoom(1.4), "=": () => diagram.zoom(1.4), "-": () => diagram.zoom(0.7), 0: () => diagram.fit(),
    ArrowUp: () => view.select(selected - 1), ArrowDown: () => view.select(selected + 1),
    q: () => view.act(`q${selected}`), x: () => view.act(`x${selected}`), f: () => view.act(`f${selected}`), v: () => view.act(`v${selected}`), d: () => view.deliverNext(),
    "[": () => view.active > 0 && view.choose(view.active - 1), "]": () => view.active < view.tabs.length - 1 && view.choose(view.active + 1),
    Escape: () => view.tip.hide(),
  };
  const own = key.length === 1 ? key.toLowerCase() : key;
  // A key that is held down moves on, but does not act again and again.
  if (event.repeat && /^[qxfvd]$/.test(own)) return () => {};
  return Object.hasOwn(actions, own) ? actions[own] : null;
}
