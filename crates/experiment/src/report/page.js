"use strict";
// Figures are drawn already. This adds what follows the pointer: values, series that can be put
// away, and other axes (drawings that are there, but hidden).
document.documentElement.classList.add("scripted");
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("role", "status");
document.body.append(tip);

const pointsOf = (series) => series.dataset.points.split(";").filter(Boolean).map((point) => {
  const [px, py, x, y] = point.split("|");
  return { px: +px, py: +py, x, y, name: series.dataset.name };
});

for (const figure of document.querySelectorAll("figure")) {
  const drawings = [...figure.querySelectorAll("svg.figure")];
  const shown = { x: figure.dataset.x, y: figure.dataset.y };
  const show = () => {
    for (const drawing of drawings) {
      const box = drawing.parentElement;
      box.hidden = box.dataset.x !== shown.x || box.dataset.y !== shown.y;
    }
  };
  for (const button of figure.querySelectorAll(".switches button")) {
    button.addEventListener("click", () => {
      const axis = button.dataset.axis;
      shown[axis] = shown[axis] === "log" ? "linear" : "log";
      button.setAttribute("aria-pressed", shown[axis] === "log");
      show();
    });
  }
  const toggle = (indexes) => {
    for (const drawing of drawings) {
      const key = drawing.querySelector(`[data-key="${indexes}"]`);
      const off = key.classList.toggle("off");
      key.setAttribute("aria-pressed", !off);
      for (const index of indexes.split(" ")) {
        drawing.querySelector(`[data-series="${index}"]`).classList.toggle("off", off);
      }
    }
  };
  for (const drawing of drawings) {
    for (const key of drawing.querySelectorAll(".key")) {
      key.setAttribute("role", "button");
      key.setAttribute("tabindex", "0");
      key.setAttribute("aria-pressed", "true");
      key.addEventListener("click", () => toggle(key.dataset.key));
      key.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          toggle(key.dataset.key);
        }
      });
    }
    const series = [...drawing.querySelectorAll(".series")].map((element) => {
      return { element, points: pointsOf(element) };
    });
    drawing.addEventListener("pointermove", (event) => {
      const place = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(drawing.getScreenCTM().inverse());
      let best = null;
      let distance = 60;
      for (const { element, points } of series) {
        if (element.classList.contains("off")) continue;
        for (const point of points) {
          const from = Math.hypot(point.px - place.x, (point.py - place.y) * 0.7);
          if (from < distance) [best, distance] = [point, from];
        }
      }
      tip.hidden = best === null;
      if (best === null) return;
      tip.replaceChildren();
      const name = document.createElement("strong");
      name.textContent = best.name;
      const value = document.createElement("div");
      value.textContent = `${best.x}: ${best.y}`;
      tip.append(...(best.name ? [name] : []), value);
      const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
      const top = event.clientY + 18 + tip.offsetHeight > window.innerHeight
        ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18;
      tip.style.left = `${left}px`;
      tip.style.top = `${top}px`;
    });
    drawing.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
}
