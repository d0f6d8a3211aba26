// The page of `rnic perf --serve`: it asks for new points at an interval, draws them, and sends the sliders' values.

import { brief } from "./numbers.js";
import { byId, element } from "./dom.js";
import { drawLines } from "./lines.js";
import { number, table } from "./table.js";

const POLL = 500;
const KEPT = 240;
const token = location.hash.slice(1);
const TITLES = { irn: "IRN (selective retransmission)", rc: "RC (go-back-N)" };
const title = (name) => TITLES[name] || name;

// The figures: the title, the values of a point as lines, the unit of the vertical axis, and its name.
const FIGURES = [
  ["Throughput", (point) => point.gbps, "number", "Gbps of completed messages"],
  ["Retransmissions", (point) => point.retransmitted, "number", "packets per second"],
  ["Latency, median", (point) => point.p50_us, "time", "from posting to completion"],
  ["Latency, 99th percentile", (point) => point.p99_us, "time", "from posting to completion"],
];

// The figures with a line for each queue pair of the client: the title, the value of a queue pair, the unit of the
// vertical axis, and its name.
const PAIR_FIGURES = [
  ["Round-trip time", (pair) => pair.rtt_us, "time", "of each queue pair, smoothed"],
  ["Window", (pair) => pair.window, "number", "maximum packets in flight of each queue pair"],
];

// The columns of the table of queue pairs.
const PAIR_COLUMNS = [
  ["round-trip time", (pair) => (pair.rtt_us === null ? "" : brief("time", pair.rtt_us))],
  ["window", (pair) => brief("number", pair.window)],
  ["packets in flight", (pair) => brief("number", pair.in_flight)],
];

// The columns of the table of the last second.
const COLUMNS = [
  ["Gbps", (point) => point.gbps],
  ["messages/s", (point) => point.messages],
  ["packets sent/s", (point) => point.sent],
  ["lost/s (injected)", (point) => point.lost],
  ["retransmitted/s", (point) => point.retransmitted],
  ["timeouts/s", (point) => point.timeouts],
  ["NAKs/s", (point) => point.naks],
  ["duplicates/s", (point) => point.duplicates],
];

// Name, text, unit and step of each slider.
const SLIDERS = [
  ["loss", "Loss", "%", 0.1],
  ["reorder", "Reordering", "%", 0.5],
  ["duplicate", "Duplication", "%", 0.5],
  ["delay", "Delay, random up to", "ms", 0.1],
];

const rows = [];
let next = 0;
let sliders = null;

const ask = async (path, options = {}) => {
  const response = await fetch(path, { ...options, headers: { "x-rnic-token": token }, cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
};

const say = (text, bad) => {
  byId("status").textContent = text;
  byId("status").className = bad ? "bad" : "";
};

// One request at a time; a value that changes in the meantime is sent next.
let sending = false;
let changed = false;
const send = async () => {
  changed = true;
  if (sending) return;
  sending = true;
  try {
    while (changed) {
      changed = false;
      const values = Object.fromEntries(SLIDERS.map(([name]) => [name, Number(sliders[name].value)]));
      await ask("api/faults", { method: "POST", body: JSON.stringify(values) });
    }
  } catch (error) {
    say(error.message, true);
  }
  sending = false;
};

const makeSliders = (faults, limits) => {
  sliders = {};
  for (const [name, text, unit, step] of SLIDERS) {
    const output = element("output", {}, `${faults[name]} ${unit}`);
    const input = element("input", { type: "range", id: name, min: 0, max: limits[name], step, value: faults[name] });
    input.addEventListener("input", () => {
      output.textContent = `${input.value} ${unit}`;
      send();
    });
    sliders[name] = input;
    byId("sliders").append(element("label", {}, text, output, input));
  }
};

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const pairName = (pair) => `queue pair 0x${pair.qpn.toString(16).padStart(6, "0")}`;

// A line for each queue pair of a series. A measurement that begins again has other queue pairs.
const pairLines = (series, latest, value) => {
  const lines = new Map();
  for (const row of rows) {
    for (const pair of row.points[series].queue_pairs) {
      if (!lines.has(pair.qpn)) lines.set(pair.qpn, { series, points: [] });
      lines.get(pair.qpn).points.push([row.seconds - latest, value(pair), null, pairName(pair)]);
    }
  }
  return [...lines.values()];
};

const drawFigure = ([name, , unit, axis], lines, names, empty) => {
  const box = element("div", { class: "plot" });
  drawLines(box, {
    title: name,
    views: [{ name: "", lines }],
    first: 0,
    x: { name: "seconds from now", unit: "number", scale: "linear" },
    y: { name: "", unit, scale: "linear" },
    reach: [[-60, 0], [0]],
    empty,
  }, { series: names.map(title), hidden: new Set(), view: 0 }, 500);
  return element("figure", {}, element("figcaption", {}, element("strong", {}, name), element("span", {}, axis)), box);
};

const drawPairs = (names) => {
  const body = names.flatMap((name, series) => rows[rows.length - 1].points[series].queue_pairs.map((pair) => [
    `${title(name)}, ${pairName(pair)}`, ...PAIR_COLUMNS.map(([, text]) => text(pair)),
  ]));
  const head = ["", ...PAIR_COLUMNS.map(([text]) => number(text))];
  byId("pairs").replaceChildren(body.length ? table(head, body) : "No queue pair has a reliable connection.");
};

const draw = (names) => {
  byId("legend").replaceChildren(...names.map((name, i) => element(
    "span", {}, element("span", { class: `swatch series${i}` }), title(name),
  )));
  const latest = rows.length ? rows[rows.length - 1].seconds : 0;
  const wholes = FIGURES.map((figure) => drawFigure(figure, names.map((_, series) => ({
    series,
    points: rows.map((row) => [row.seconds - latest, figure[1](row.points[series])]),
  })), names, "No message completed in the last minute."));
  const pairs = PAIR_FIGURES.map((figure) => drawFigure(
    figure, names.flatMap((_, series) => pairLines(series, latest, figure[1])), names,
    "No queue pair of the last minute has a reliable connection.",
  ));
  byId("figures").replaceChildren(...wholes, ...pairs);
  const second = rows.slice(-4);
  if (!second.length) return;
  const of = (series) => COLUMNS.map(([, value]) => brief("number", mean(second.map((row) => value(row.points[series])))));
  const body = names.map((name, series) => [title(name), ...of(series)]);
  byId("now").replaceChildren(table(["", ...COLUMNS.map(([text]) => number(text))], body));
  drawPairs(names);
};

const poll = async () => {
  try {
    const data = await ask(`api/points?after=${next}`);
    // A command that was started again counts from 0.
    if (data.next < next) rows.length = 0;
    next = data.next;
    rows.push(...data.rows);
    rows.splice(0, Math.max(0, rows.length - KEPT));
    if (!sliders) makeSliders(data.faults, data.limits);
    const failures = data.names.map((name, i) => data.failures[i] && `${title(name)}: ${data.failures[i]}`).filter(Boolean);
    say(failures.length ? `Last failure: ${failures.join("; ")}` : "Measuring", failures.length > 0);
    draw(data.names);
  } catch (error) {
    say(error.message || "The command does not answer", true);
  }
  setTimeout(poll, POLL);
};

poll();
