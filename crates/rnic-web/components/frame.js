// The frame of a figure: axes with labels, grid, key, and what lies across the whole figure.

import { exact } from "./numbers.js";
import { fitting } from "./scale.js";
import { node, textWidth, wrap } from "./svg.js";

// The entries of the figure's key: the band of stated values and the reference line.
export const keyOf = (figure, unit, stated) => [
  stated && ["stated", "stated"],
  figure.reference && ["reference", `${figure.reference.name} (${exact(unit, figure.reference.value)})`],
];

const drawKey = (svg, keys, y, width) => {
  let left = 0;
  for (const [style, text] of keys) {
    if (style === "stated") node("rect", { x: left, y: y - 6, width: 20, height: 12, class: style }, svg);
    else node("line", { x1: left, x2: left + 20, y1: y, y2: y, class: style }, svg);
    node("text", { x: left + 26, y: y + 4 }, svg, wrap(text, width - left - 26, 1)[0]);
    left += 26 + textWidth(text) + 18;
  }
};

// Ticks with labels below the figure. A label that would leave the figure at the right ends there instead.
export const drawXLabels = (svg, labels, px, y, width) => {
  for (const [value, text] of labels) {
    const end = px(value) + textWidth(text) / 2 > width;
    node("text", { x: end ? width : px(value), y, "text-anchor": end ? "end" : "middle" }, svg, text);
  }
};

// The space in pixels that a label takes along a horizontal axis.
export const besideLabels = (text) => textWidth(text) + 12;

// Draws an empty figure, with axes and their labels. Returns the functions that map values to positions. `x` and `y`
// are scales. `below` is additional space below the horizontal axis, in pixels.
export const drawFrame = (box, { label, height, width, x, y, yUnit, xUnit, yTitle, xTitle, below = 0, key = [] }) => {
  const keys = key.filter(Boolean);
  const frame = {
    top: (yTitle ? 26 : 14) + (keys.length ? 20 : 0),
    right: width - 10,
    bottom: height - (xTitle ? 44 : 8) - below,
  };
  const yLabels = fitting(y.ticks, yUnit, (value) => (frame.bottom - frame.top) * y.at(value), () => y.apart);
  frame.left = Math.max(20, ...yLabels.map(([, text]) => textWidth(text) + 12));
  const px = (value) => frame.left + (frame.right - frame.left) * x.at(value);
  const py = (value) => frame.bottom - (frame.bottom - frame.top) * y.at(value);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "group", "aria-label": label }, box);
  if (yTitle) node("text", { x: 0, y: 12, class: "axis-title" }, svg, yTitle);
  drawKey(svg, keys, frame.top - 16, width);
  for (const [value, text] of yLabels) {
    node("line", { x1: frame.left, x2: frame.right, y1: py(value), y2: py(value), class: "grid" }, svg);
    node("text", { x: frame.left - 7, y: py(value) + 4, "text-anchor": "end" }, svg, text);
  }
  if (xTitle) {
    node("text", { x: frame.right, y: height - 5, "text-anchor": "end", class: "axis-title" }, svg, xTitle);
    const xLabels = fitting(x.ticks, xUnit, px, besideLabels);
    for (const [value] of xLabels) {
      node("line", { x1: px(value), x2: px(value), y1: frame.bottom, y2: frame.bottom + 5, class: "axis" }, svg);
    }
    drawXLabels(svg, xLabels, px, frame.bottom + 19, width);
  }
  node("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom, class: "axis" }, svg);
  return { svg, frame, px, py };
};

// Draws the reference value, if the figure has one, as a horizontal line.
export const drawReference = ({ svg, frame, py }, reference) => {
  if (!reference) return;
  const y = py(reference.value);
  node("line", { x1: frame.left, x2: frame.right, y1: y, y2: y, class: "reference" }, svg);
};

// Draws a range of stated values as a horizontal band.
export const drawStated = (svg, stated, x1, x2, py) => {
  const [top, bottom] = [py(stated[1]), py(stated[0])];
  node("rect", { x: x1, y: top, width: x2 - x1, height: Math.max(1, bottom - top), class: "stated" }, svg);
  for (const y of [top, bottom]) node("line", { x1, x2, y1: y, y2: y, class: "stated-end" }, svg);
};
