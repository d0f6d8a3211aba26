// The values of a figure as CSV (RFC 4180).

import { columnName } from "./numbers.js";

const cell = (value) => {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\n`).join("");

const ROWS = {
  bars: (figure, series) => [
    ["group", "name", columnName("value", figure.unit), "low", "high", "note"],
    ...figure.groups.flatMap((group) => group.bars.map((bar) => [
      group.name, bar.name || series[bar.series], bar.value, ...(bar.interval || ["", ""]), bar.note,
    ])),
  ],
  lines: ({ views, x, y, title }, series) => [
    ["view", "series", columnName(x.name || "x", x.unit), columnName(y.name || title, y.unit), "low", "high", "note"],
    ...views.flatMap((view) => view.lines.flatMap((line) => line.points.map((point) => [
      view.name, series[line.series], point[0], point[1], ...(point[2] || ["", ""]), point[3],
    ]))),
  ],
  spans: ({ rows, x }, series) => [
    ["row", "series", columnName("from", x.unit), columnName("to", x.unit)],
    ...rows.flatMap((row) => row.spans.map(([of, from, to]) => [row.name, series[of], from, to])),
  ],
};

// All values of the figure, those of hidden series and other views included. `series` has the names of the series.
export const figureCsv = (figure, series) => csv(ROWS[figure.kind](figure, series));
