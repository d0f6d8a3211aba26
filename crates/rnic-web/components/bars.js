// Vertical bars in groups, with whiskers and bands of stated values. On a logarithmic axis, which has no zero, the length
// of a bar would mean nothing, so a point marks each value there.

import { brief, exact, rangeText } from "./numbers.js";
import { logScale, roundEnds, scaleFor } from "./scale.js";
import { node, textWidth, wrap } from "./svg.js";
import { colour } from "./theme.js";
import { drawFrame, drawReference, drawStated, keyOf } from "./frame.js";
import { hover } from "./hover.js";

// If the largest bar is this many times the smallest, a linear axis would flatten the small bars.
const FLAT = 10;
// Maximum width of a bar with its gap, in pixels.
const WIDEST = 96;
// Radius of the point of a value on a logarithmic axis, in pixels.
const RADIUS = 5;

const visibleBars = (figure, hidden) => figure.groups.flatMap((group) => group.bars).filter((bar) => !hidden.has(bar.series));

// Whether a linear axis would flatten bars of the figure.
export const isFlat = (figure, hidden = new Set()) => {
  const values = visibleBars(figure, hidden).map((bar) => bar.value).filter((value) => value > 0);
  return values.length > 1 && Math.max(...values) >= FLAT * Math.min(...values);
};

// Whether the axis is logarithmic: as the reader chose, or if a linear axis would flatten visible bars.
export const isLog = (figure, board) => board.log ?? isFlat(figure, board.hidden);

// The vertical scale. It fits the visible bars, so hiding a very large bar makes the others readable.
const yScale = (figure, board) => {
  const stated = figure.groups.flatMap((group) => group.stated || []);
  const bars = visibleBars(figure, board.hidden).flatMap((bar) => [bar.value || 0, ...(bar.interval || [])]);
  const reach = [...bars, ...stated, figure.reference ? figure.reference.value : 0];
  const positive = reach.filter((value) => value > 0);
  const log = isLog(figure, board) && positive.length > 0;
  const y = log
    ? logScale(...roundEnds(Math.min(...positive) * 0.7, Math.max(...positive) * 1.2))
    : scaleFor("zero", [...reach.map((value) => value * 1.07), 0]);
  return { log, y };
};

const tipOf = (figure, group, bar, name) => [
  [group.name, name].filter(Boolean).join(": "),
  bar.value === null ? "no result" : exact(figure.unit, bar.value),
  bar.interval && `interval ${rangeText(figure.unit, bar.interval)}`,
  bar.note,
  group.stated && `stated ${rangeText(figure.unit, group.stated)}`,
].filter(Boolean).join("\n");

// Draws the whisker of a bar. An interval that reaches below the axis has no cap there. Returns its upper end.
const drawWhisker = (svg, bar, centre, thick, bottom, py) => {
  const [low, high] = bar.interval.map(py);
  const cap = Math.min(5, thick / 3);
  const foot = low > bottom ? `V${bottom}` : `V${low}M${centre - cap} ${low}h${2 * cap}`;
  const d = `M${centre - cap} ${high}h${2 * cap}M${centre} ${high}${foot}`;
  node("path", { class: "whisker", "data-series": bar.series, d }, svg);
  return high;
};

// Draws a figure of the kind "bars". `board` has the names of the series, the hidden series, and whether the reader
// chose a logarithmic axis.
export const drawBars = (box, figure, board, width) => {
  const { log, y } = yScale(figure, board);
  const shown = figure.groups.map((group) => group.bars.filter((bar) => !board.hidden.has(bar.series)));
  // The width of each group, in units of a bar: its bars and a gap.
  const slots = shown.map((bars) => Math.max(1, bars.length) + (figure.groups.length > 1 ? 0.9 : 0.3));
  const slotCount = slots.reduce((a, b) => a + b, 0);
  const step = (width - 60) / slotCount;
  const names = figure.groups.map((group, i) => (group.name ? wrap(group.name, slots[i] * step - 6, 3) : []));
  const below = figure.groups.some((group) => group.name) ? 8 + 15 * Math.max(...names.map((lines) => lines.length)) : 0;
  const hasStated = figure.groups.some((group) => group.stated);
  const axes = drawFrame(box, {
    label: `${figure.title}: ${log ? "points" : "bars"}. Arrow keys move between them.`,
    width,
    height: (width < 420 ? 230 : 270) + below,
    below,
    x: { at: (value) => value, ticks: [] },
    y,
    yUnit: figure.unit,
    yTitle: log ? "logarithmic axis" : undefined,
    key: keyOf(figure, figure.unit, hasStated),
  });
  const { svg, frame } = axes;
  // A value of zero or less has no place on a logarithmic axis; it is below the axis.
  const py = (value) => (log && value <= 0 ? Infinity : axes.py(value));
  const inFrame = (value) => Math.min(frame.bottom, py(value));
  const unit = (frame.right - frame.left) / slotCount;
  const size = Math.min(unit, WIDEST);
  // The value is written above each bar if there is room above all bars, else above none.
  const hasRoom = (bar) => bar.value === null || textWidth(brief(figure.unit, bar.value)) * 1.15 < size;
  const labelled = shown.flat().every(hasRoom);
  const spots = [];
  let left = frame.left;
  figure.groups.forEach((group, g) => {
    const right = left + slots[g] * unit;
    if (group.stated) drawStated(svg, group.stated, left + unit * 0.1, right - unit * 0.1, inFrame);
    const thick = Math.max(1, size * (shown[g].length > 20 ? 0.8 : 0.7));
    let centre = left + (slots[g] * unit - shown[g].length * size) / 2 + size / 2;
    for (const bar of shown[g]) {
      const { series } = bar;
      const name = bar.name || board.series[series];
      const tip = tipOf(figure, group, bar, name);
      const mark = { class: "mark", "data-series": series, "data-name": name, "data-group": group.name, fill: colour(series) };
      if (bar.value === null) {
        node("text", { ...mark, class: "mark none", x: centre, y: frame.bottom - 6, "text-anchor": "middle" }, svg, "\u2715");
        spots.push({ x: centre, y: frame.bottom - 10, series, tip });
      } else {
        const end = inFrame(bar.value);
        const whisker = bar.interval ? drawWhisker(svg, bar, centre, thick, frame.bottom, py) : end;
        if (log) {
          const point = { cx: centre, cy: end, r: Math.min(RADIUS, thick / 2), "data-value": bar.value };
          node("circle", { ...mark, ...point }, svg);
        } else {
          const height = Math.max(0.5, frame.bottom - end);
          const place = { x: centre - thick / 2, y: end, width: thick, height, "data-value": bar.value };
          // The whisker lies over the bar.
          svg.insertBefore(node("rect", { ...mark, ...place }), bar.interval ? svg.lastChild : null);
        }
        const top = Math.min(log ? end - RADIUS : end, whisker);
        if (labelled) {
          const over = { x: centre, y: top - 5, "text-anchor": "middle", class: "over value", "data-series": series };
          node("text", over, svg, brief(figure.unit, bar.value));
        }
        spots.push({ x: centre, y: top, wide: size / 2, series, tip });
      }
      centre += size;
    }
    names[g].forEach((line, i) => {
      const place = { x: (left + right) / 2, y: frame.bottom + 17 + 15 * i, "text-anchor": "middle", class: "group" };
      node("text", place, svg, line);
    });
    left = right;
  });
  drawReference(axes, figure.reference);
  hover(svg, spots, (spot, x) => (Math.abs(spot.x - x) <= (spot.wide || 12) ? Math.abs(spot.x - x) : Infinity));
};
