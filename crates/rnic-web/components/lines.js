// Line charts: curves with bands, on two numeric axes.

import { exact, rangeText } from "./numbers.js";
import { scaleFor } from "./scale.js";
import { element } from "./dom.js";
import { node } from "./svg.js";
import { colour, dash } from "./theme.js";
import { drawFrame, drawReference, drawStated, keyOf } from "./frame.js";
import { hover } from "./hover.js";

const pointsOf = (lines) => lines.flatMap((line) => line.points).filter(([x, y]) => x !== null && y !== null);

// The scales of both axes. All views share them; they fit the visible series.
const scalesOf = (figure, hidden) => {
  const lines = figure.views.flatMap((view) => view.lines);
  const visible = pointsOf(lines.filter((line) => !hidden.has(line.series)));
  const reach = visible.length ? visible : pointsOf(lines);
  const [xReach, yReach] = figure.reach || [[], []];
  const reference = figure.reference ? [figure.reference.value] : [];
  const ys = reach.flatMap(([, y, interval]) => [y, ...(interval || [])]);
  return {
    x: scaleFor(figure.x.scale, [...reach.map(([x]) => x), ...xReach]),
    y: scaleFor(figure.y.scale, [...ys, ...(figure.stated || []), ...reference, ...yReach], true),
  };
};

// With more curves, lines from points to the axis would hide each other.
const MAX_DROPS = 4;

// Vertical lines from the points of a curve that have a note to the horizontal axis.
const drawDrops = ({ svg, frame, px, py }, points, series, mark) => {
  for (const [x, y, , note] of points) {
    if (!note) continue;
    const place = { x1: px(x), x2: px(x), y1: py(y), y2: frame.bottom };
    node("line", { ...place, class: "drop", stroke: colour(series), "data-note": note, ...mark }, svg);
  }
};

// Draws a figure of the kind "lines". `board` has the names of the series, the hidden series, and the index of the
// selected view. A point is `[x, y]` or `[x, y, [low, high] or null, note]`. Returns the axes
// (see `drawFrame`), or null without a point.
export const drawLines = (box, figure, board, width) => {
  if (!pointsOf(figure.views.flatMap((view) => view.lines)).length) {
    box.append(element("p", {}, figure.empty || "Nothing to show: no run has enough measured flows."));
    return null;
  }
  const view = figure.views[board.view ?? figure.first] || figure.views[0];
  const axes = drawFrame(box, {
    label: `${figure.title}: curves. Arrow keys move along a curve and between curves.`,
    width,
    height: width < 420 ? 280 : width < 600 ? 310 : 380,
    ...scalesOf(figure, board.hidden),
    xUnit: figure.x.unit,
    yUnit: figure.y.unit,
    xTitle: figure.x.name,
    yTitle: view.name ? `${figure.y.name}, ${view.name.toLowerCase()}` : figure.y.name,
    key: keyOf(figure, figure.y.unit, figure.stated),
  });
  const { svg, frame, px, py } = axes;
  if (figure.stated) drawStated(svg, figure.stated, frame.left, frame.right, py);
  drawReference(axes, figure.reference);
  const spots = [];
  const place = (x, y) => `${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
  const visible = view.lines.filter((line) => !board.hidden.has(line.series) && pointsOf([line]).length);
  for (const line of visible) {
    const { series } = line;
    const known = pointsOf([line]);
    const mark = { "data-series": series, "data-name": board.series[series] };
    if (known.some((point) => point[2])) {
      const ends = (i) => known.map(([x, y, interval]) => place(x, interval ? interval[i] : y));
      const outline = `M${ends(1).join("L")}L${ends(0).reverse().join("L")}Z`;
      node("path", { d: outline, class: "band", fill: colour(series), ...mark }, svg);
    }
    if (figure.drops && visible.length <= MAX_DROPS) drawDrops(axes, known, series, mark);
    node("path", {
      d: `M${known.map(([x, y]) => place(x, y)).join("L")}`,
      class: "mark series",
      stroke: colour(series),
      "stroke-dasharray": dash(series),
      "data-points": known.length,
      ...mark,
    }, svg);
    for (const [x, y, interval, note] of known) {
      const tip = [
        board.series[series],
        `${exact(figure.y.unit, y)} at ${exact(figure.x.unit, x)}`,
        interval && `interval ${rangeText(figure.y.unit, interval)}`,
        note,
      ].filter(Boolean).join("\n");
      spots.push({ x: px(x), y: py(y), series, tip });
      if (figure.dots || known.length === 1) {
        const dot = { cx: px(x), cy: py(y), r: 3, fill: colour(series), class: "dot" };
        node("circle", { ...dot, ...mark, "data-x": x, "data-y": y }, svg);
      }
    }
  }
  hover(svg, spots, (spot, x, y) => {
    const away = Math.hypot(spot.x - x, spot.y - y);
    return away < 70 ? away : Infinity;
  });
  return axes;
};
