// Intervals of time as horizontal bars, in rows.

import { exact } from "./numbers.js";
import { fitting, linearScale } from "./scale.js";
import { node, textWidth, wrap } from "./svg.js";
import { colour } from "./theme.js";
import { besideLabels, drawXLabels } from "./frame.js";
import { hover } from "./hover.js";

// Height of a row in pixels.
const ROW = 17;

// Width of the names of the rows in pixels.
const nameWidth = (rows, width) => {
  const wanted = rows.map(({ name, root }) => (root === null ? textWidth(name) : textWidth(name) * 1.1 + 16));
  return Math.min(width * 0.36, 14 + Math.max(0, ...wanted));
};

const timeScale = (figure, rows) => {
  const ends = rows.flatMap((row) => row.spans.flatMap(([, from, to]) => [from, to]));
  const times = [...ends, ...figure.reach, ...figure.marks.map((mark) => mark.value)];
  const low = times.reduce((a, b) => Math.min(a, b), Infinity);
  const high = times.reduce((a, b) => Math.max(a, b), -Infinity);
  return linearScale(low, high > low ? high : low + 1);
};

// Draws a figure of the kind "spans": a row for each port, with its intervals. Rows of roots (causes of pauses) are
// thinner.
export const drawSpans = (box, figure, board, width) => {
  const rows = figure.rows.filter((row) => row.root === null || !board.hidden.has(row.root));
  const left = nameWidth(rows, width);
  const top = 8 + 15 * figure.marks.length;
  const bottom = top + ROW * rows.length + 6;
  const right = width - 10;
  const x = timeScale(figure, rows);
  const px = (value) => left + (right - left) * x.at(value);
  const label = `${figure.title}: intervals of time. Arrow keys move between them.`;
  const svg = node("svg", { viewBox: `0 0 ${width} ${bottom + 44}`, tabindex: 0, role: "group", "aria-label": label }, box);
  const labels = fitting(x.ticks, figure.x.unit, px, besideLabels);
  for (const [value] of labels) {
    node("line", { x1: px(value), x2: px(value), y1: top, y2: bottom, class: "grid" }, svg);
  }
  drawXLabels(svg, labels, px, bottom + 17, width);
  node("text", { x: right, y: bottom + 38, "text-anchor": "end", class: "axis-title" }, svg, figure.x.name);
  node("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }, svg);
  const spots = [];
  rows.forEach((row, i) => {
    const middle = top + ROW * (i + 0.5);
    const root = row.root !== null;
    if (root) {
      const square = { x: 0, y: middle - 5, width: 10, height: 10 };
      node("rect", { ...square, fill: colour(row.root), "data-series": row.root }, svg);
    }
    const style = root ? "group value" : "group";
    node("text", { x: root ? 15 : 0, y: middle + 4, class: style }, svg, wrap(row.name, left - 20, 1)[0]);
    for (const [series, from, to] of row.spans) {
      if (board.hidden.has(series)) continue;
      const x1 = px(from);
      const x2 = Math.max(px(to), x1 + 1);
      const half = root ? 2 : 6;
      const mark = { class: "mark", "data-series": series, "data-name": row.name, "data-from": from, "data-to": to };
      const bar = { x: x1, y: middle - half, width: x2 - x1, height: 2 * half, fill: colour(series) };
      node("rect", { ...bar, ...mark }, svg);
      const what = root ? `${row.name} keeps others paused` : `${row.name} is paused\nby ${board.series[series]}`;
      const tip = `${what}\n${exact(figure.x.unit, from)} \u2013 ${exact(figure.x.unit, to)}`;
      spots.push({ x: (x1 + x2) / 2, y: middle, x1, x2, series, tip });
    }
  });
  figure.marks.forEach((mark, i) => {
    const at = px(mark.value);
    const over = at + textWidth(mark.name) > width;
    node("line", { x1: at, x2: at, y1: 2 + 15 * i, y2: bottom, class: "reference" }, svg);
    const anchor = over ? { x: at - 5, "text-anchor": "end" } : { x: at + 5, "text-anchor": "start" };
    node("text", { ...anchor, y: 12 + 15 * i, class: "value" }, svg, mark.name);
  });
  hover(svg, spots, (spot, at, y) => {
    const inside = Math.abs(spot.y - y) <= ROW / 2 && at >= spot.x1 - 3 && at <= spot.x2 + 3;
    return inside ? Math.abs(spot.x - at) : Infinity;
  });
};
