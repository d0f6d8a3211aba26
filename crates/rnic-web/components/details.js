// The series of a chosen node, port or flow of recordings, as figures of the kind "lines", and their texts.

import { brief } from "./numbers.js";
import { lastAtMost, portAt, portName } from "./recording.js";

const MAX_POINTS = 400;

const axis = (name, unit) => ({ name, unit, scale: "range" });

const figure = (title, unit, lines) => ({
  kind: "lines",
  title,
  caption: "",
  x: axis("Time", "time"),
  y: { name: title, unit, scale: "zero" },
  dots: false,
  first: 0,
  stated: null,
  views: [{ name: "", lines }],
  empty: "Nothing to show at these times.",
});

// At most MAX_POINTS points of the frames from `from` to `to`: of several frames, the one with the largest value.
const sampled = (recording, from, to, value) => {
  const first = Math.max(0, lastAtMost(recording.times, from));
  const last = Math.min(recording.times.length - 1, lastAtMost(recording.times, to) + 1);
  const points = [];
  const size = Math.max(1, Math.ceil((last - first + 1) / MAX_POINTS));
  for (let frame = first; frame <= last; frame += size) {
    let best = null;
    for (let i = frame; i < Math.min(frame + size, last + 1); i++) {
      const point = [recording.times[i], value(i)];
      if (!best || point[1] > best[1]) best = point;
    }
    points.push(best);
  }
  return points;
};

const portsOf = (recording, node) => {
  const { node: nodes, peer } = recording.ports;
  const own = nodes.flatMap((of, port) => (of === node ? [port] : []));
  return { out: own, into: own.map((port) => peer[port]) };
};

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// What the figures show of a chosen thing: for each a title, a unit, and curves with a name and a value by frame.
const quantities = (recording, chosen) => {
  const at = (frame, port) => frame * recording.count + port;
  const percent = (port) => (frame) => (100 * recording.used[at(frame, port)]) / 255;
  if (chosen.kind === "port") {
    return [
      ["Utilisation", "percent", [["", percent(chosen.id)]]],
      ["Queue", "bytes", [["", (frame) => recording.queued[at(frame, chosen.id)]]]],
    ];
  }
  const { out, into } = portsOf(recording, chosen.id);
  const mean = (ports) => (frame) => sum(ports.map((port) => percent(port)(frame))) / (ports.length || 1);
  const queues = recording.nodes.kind[chosen.id] === "host" ? into : out;
  return [
    ["Utilisation of its links", "percent", [["sent", mean(out)], ["received", mean(into)]]],
    ["Queues", "bytes", [["", (frame) => sum(queues.map((port) => recording.queued[at(frame, port)]))]]],
  ];
};

const goodput = (flow, from, to) => {
  const points = [];
  for (let i = 1; i < flow.points.length; i++) {
    const [[start, before], [time, bytes]] = [flow.points[i - 1], flow.points[i]];
    if (time <= start || time < from || start > to) continue;
    // 1 Gbit/s are 1,000 bits per microsecond.
    points.push([time, ((bytes - before) * 8) / (time - start) / 1000]);
  }
  const size = Math.max(1, Math.ceil(points.length / MAX_POINTS));
  return points.filter((_, i) => i % size === 0);
};

// Figures of a chosen thing in one or two recordings from one time to another, and the names of their series.
export const seriesOf = (recordings, chosen, from, to) => {
  const series = [];
  const number = (name) => {
    if (!series.includes(name)) series.push(name);
    return series.indexOf(name);
  };
  const figures = new Map();
  const add = (title, unit, line) => {
    if (!figures.has(title)) figures.set(title, figure(title, unit, []));
    figures.get(title).views[0].lines.push(line);
  };
  for (const recording of recordings) {
    const several = recordings.length > 1;
    const named = (name) => (several ? [recording.name, name].filter(Boolean).join(", ") : name || "this");
    if (chosen.kind === "flow") {
      const flow = recording.flows.get(chosen.id);
      if (flow) add("Goodput, Gbit/s", "number", { series: number(named("")), points: goodput(flow, from, to) });
      continue;
    }
    const found = chosen.id < (chosen.kind === "port" ? recording.count : recording.nodes.name.length);
    for (const [title, unit, curves] of found ? quantities(recording, chosen) : []) {
      for (const [name, value] of curves) {
        add(title, unit, { series: number(named(name)), points: sampled(recording, from, to, value) });
      }
    }
  }
  return { series, figures: [...figures.values()] };
};

// The name of a chosen thing.
export const chosenName = (recording, { kind, id }) => {
  if (kind === "flow") {
    const flow = recording.flows.get(id);
    return flow ? `flow ${id}, host ${flow.src} \u2192 host ${flow.dst}` : `flow ${id}`;
  }
  return kind === "port" ? portName(recording, id) : recording.nodes.name[id];
};

const stateText = (recording, port, time) => {
  const { used, queued, ...counts } = portAt(recording, port, time);
  const losses = ["dropped", "lost", "trimmed", "marked"].filter((kind) => counts[kind] > 0);
  const counted = losses.map((kind) => `${counts[kind].toLocaleString("en")} ${kind}`);
  return [`${brief("percent", 100 * used)} used`, `queue ${brief("bytes", queued)}`, ...counted].join(", ");
};

// A sentence about the state of a chosen thing at a time.
export const chosenText = (recording, chosen, time, pauses) => {
  if (chosen.kind === "flow") {
    const flow = recording.flows.get(chosen.id);
    if (!flow) return "";
    const last = flow.points[lastAtMost(flow.points.map((point) => point[0]), time)];
    const of = flow.bytes === undefined ? "" : ` of ${brief("bytes", flow.bytes)}`;
    return last ? `${brief("bytes", last[1])}${of} delivered` : "not started";
  }
  const ports = chosen.kind === "port" ? [chosen.id] : portsOf(recording, chosen.id).out;
  const paused = pauses.filter(({ port }) => ports.includes(port)).map(({ port, priority, kind, root }) => {
    const cause = root >= 0 ? `; cause: ${kind} at ${portName(recording, root)}` : "";
    return `${portName(recording, port)} is paused (priority ${priority}${cause})`;
  });
  const described = ports.length > 8 ? [] : ports;
  const states = described.map((port) => `${portName(recording, port)}: ${stateText(recording, port, time)}`);
  return [...states, ...paused.slice(0, 4)].join("\n");
};

// One sentence about the whole fabric at a time, for readers who do not see the picture.
export const fabricText = (recording, time, pauses, frame) => {
  const at = frame * recording.count;
  let [longest, busy] = [-1, 0];
  for (let port = 0; port < recording.count; port++) {
    if (recording.used[at + port] > 242) busy += 1;
    const queued = recording.queued[at + port];
    if (queued > 0 && (longest < 0 || queued > recording.queued[at + longest])) longest = port;
  }
  const paused = new Set(pauses.map(({ port }) => port)).size;
  return [
    `${busy} of ${recording.count} link directions more than 95 % used`,
    paused === 1 ? "1 paused" : `${paused} paused`,
    longest < 0
      ? "no queues"
      : `longest queue ${brief("bytes", recording.queued[at + longest])} at ${portName(recording, longest)}`,
  ].join(", ");
};
