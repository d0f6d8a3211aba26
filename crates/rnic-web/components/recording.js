// The recording of a run: the states of its fabric at successive instants, the frames. Components that draw a run over
// time (fabric.js, traffic.js, player.js) read a recording, and do not depend on where its frames come from: a file
// (columns.js) or a server that sends them during the run (`appendFrame`).
//
// Times are in microseconds from the start of the run. `makeRecording` takes the parts of a run that do not change:
//
//   name     the run's name
//   nodes    columns `name`, `kind` ("host", "switch" or "group", which stands for several nodes), `hosts` (number of
//            hosts that the node stands for), `x` and `y` (0 to 1, from the left and from the top)
//   cells    whether hosts are drawn as cells in rows, because there are too many for lines to each of them
//   ports    columns `node` (the node that sends), `peer` (index of the port that sends in the opposite direction),
//            `gbps` (the rate of one link), `links` (number of links that the port stands for)
//   matrix   `groups` of `size` consecutive hosts each, `hosts` in total; null without a matrix
//
// `appendFrame` takes one frame, in order of time, as an object. All parts except `time` may be absent:
//
//   time     the instant
//   ports    ports that changed since the previous frame, `[port, used, queued, dropped, lost, trimmed, marked]` each:
//            fraction of the time since the previous frame for which it was sending, bytes in its queue, and packets
//            since the start of the run
//   pauses   all pauses at the instant, each `[port, priority, since, waits, kind, root]`: the next port in the chain to
//            the root cause or -1, "congestion", "nic", "cycle" or "", and the port of the root cause or -1
//   cycle    ports of a cycle of pauses (a deadlock)
//   started  flows that are shown from now on, each `{ id, src, dst, path }`, and if they are known `bytes`, `start`,
//            `why` and `onePath` (whether all packets take this path); `path` are ports, or empty if it is unknown
//   flows    flows under way, each `[id, delivered bytes]`
//   ended    flows that have ended, each `[id, time, delivered bytes]`
//   forgotten  ids of flows that are no longer shown
//   matrix   instants of the matrix, in order of time, each `[time, cells]`, with the cells that changed, each
//            `[sending group * groups + receiving group, bytes since the start]`
//   events   each `{ time, kind, text, port }`, for the list of events; `port` may be absent

const FIRST_SIZE = 64;

export const makeRecording = ({ name, nodes, ports, cells = false, matrix = null }) => ({
  name,
  nodes,
  cells,
  ports,
  matrix,
  count: ports.node.length,
  end: 0,
  times: [],
  // Utilisation (0 to 255) and queue (bytes) of port p in frame f: element f * count + p.
  used: new Uint8Array(FIRST_SIZE * ports.node.length),
  queued: new Float32Array(FIRST_SIZE * ports.node.length),
  maxQueued: 0,
  // The changes of a port's counters: [frame, dropped, lost, trimmed, marked].
  counters: ports.node.map(() => []),
  // By frame: the ports that dropped, lost or trimmed packets, and how.
  losses: [],
  pauses: [],
  // The causes of pauses in each frame: [port, priority, waits, kind, root].
  causes: [],
  cycles: [],
  flows: new Map(),
  events: [],
  // Bytes of each cell of the matrix at each of the instants `matrixTimes`.
  matrixTimes: [],
  matrixBytes: [],
  open: new Map(),
});

const grown = (array, length) => {
  if (array.length >= length) return array;
  const larger = new array.constructor(Math.max(length, array.length * 2));
  larger.set(array);
  return larger;
};

const samePause = (port, priority) => port * 8 + priority;

const KINDS = ["dropped", "lost", "trimmed"];

// Notes the counters of a port in a frame, if they have changed.
export const noteTotals = (recording, port, frame, totals) => {
  const changes = recording.counters[port];
  const last = changes.length ? changes[changes.length - 1] : [0, 0, 0, 0, 0];
  if (totals.every((total, i) => total === last[i + 1])) return;
  changes.push([frame, ...totals]);
  const losses = recording.losses[frame] || (recording.losses[frame] = []);
  KINDS.forEach((kind, i) => { if (totals[i] > last[i + 1]) losses.push([port, kind]); });
};

// Updates the list of pauses by all pauses of a frame.
const notePauses = (recording, time, pauses) => {
  const now = new Set();
  for (const [port, priority, since, , kind, root] of pauses) {
    const key = samePause(port, priority);
    const open = recording.open.get(key);
    if (open && open.from !== since) open.to = Math.min(open.to, since);
    if (!open || open.from !== since) {
      const pause = { port, priority, from: since, to: Infinity, kind, root };
      recording.pauses.push(pause);
      recording.open.set(key, pause);
    }
    now.add(key);
  }
  for (const [key, open] of recording.open) {
    if (now.has(key)) continue;
    open.to = time;
    recording.open.delete(key);
  }
};

// Adds an instant of the matrix, with the cells that changed since the instant before, each `[cell, bytes]`.
export const noteMatrix = (recording, time, changed) => {
  const { matrixTimes, matrixBytes } = recording;
  const cells = matrixBytes.length
    ? matrixBytes[matrixBytes.length - 1].slice()
    : new Float32Array(recording.matrix.groups ** 2);
  for (const [cell, bytes] of changed) cells[cell] = bytes;
  matrixTimes.push(time);
  matrixBytes.push(cells);
};

export const appendFrame = (recording, frame) => {
  const { count, times } = recording;
  const index = times.length;
  const { time, ports = [], pauses = [], cycle = [], started = [], flows = [], events = [] } = frame;
  const { ended = [], forgotten = [], matrix = [] } = frame;
  times.push(time);
  recording.end = Math.max(recording.end, time);
  recording.used = grown(recording.used, (index + 1) * count);
  recording.queued = grown(recording.queued, (index + 1) * count);
  const at = index * count;
  // A port without a change keeps its queue, and has not sent.
  if (index > 0) recording.queued.copyWithin(at, at - count, at);
  for (const [port, used, queued, ...totals] of ports) {
    if (!(port >= 0 && port < count)) continue;
    recording.used[at + port] = Math.round(255 * Math.min(1, Math.max(0, used)));
    recording.queued[at + port] = queued;
    recording.maxQueued = Math.max(recording.maxQueued, queued);
    if (totals.length) noteTotals(recording, port, index, totals);
  }
  notePauses(recording, time, pauses);
  recording.causes.push(pauses.map(([port, priority, , waits, kind, root]) => [port, priority, waits, kind, root]));
  recording.cycles.push(cycle);
  for (const flow of started) recording.flows.set(flow.id, { points: [[flow.start ?? time, 0]], ...flow });
  for (const [id, bytes] of flows) recording.flows.get(id)?.points.push([time, bytes]);
  for (const [id, finish, bytes] of ended) {
    const flow = recording.flows.get(id);
    if (!flow) continue;
    flow.finish = finish;
    flow.points.push([finish, Math.max(bytes, flow.points[flow.points.length - 1][1])]);
  }
  for (const id of forgotten) recording.flows.delete(id);
  if (recording.matrix) for (const [instant, cells] of matrix) noteMatrix(recording, instant, cells);
  recording.events.push(...events);
};

// The index of the last of the ascending numbers that is at most `value`; -1 if there is none.
export const lastAtMost = (numbers, value) => {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
};

// The counters of a port in a frame: [dropped, lost, trimmed, marked], packets since the start of the run.
const totalsIn = (recording, port, frame) => {
  const changes = recording.counters[port];
  for (let i = changes.length - 1; i >= 0; i--) if (changes[i][0] <= frame) return changes[i].slice(1);
  return [0, 0, 0, 0];
};

// The state of a port at a time: `used` (0 to 1, in the interval that contains the time), `queued` (bytes), and the
// packets that were dropped, lost, trimmed and marked since the start, and `recent`, the same since the last frame.
export const portAt = (recording, port, time) => {
  const frame = frameAt(recording, time);
  const [dropped, lost, trimmed, marked] = totalsIn(recording, port, frame);
  const before = totalsIn(recording, port, frame - 1);
  const recent = [dropped, lost, trimmed, marked].map((total, i) => total - before[i]);
  const at = frame * recording.count + port;
  return { used: recording.used[at] / 255, queued: recording.queued[at], dropped, lost, trimmed, marked, recent };
};

// The index of the frame that shows a time: the first frame that is not before it, because the utilisation and the
// counters of a frame are of the interval that ends with it.
export const frameAt = (recording, time) => {
  const { times } = recording;
  const last = lastAtMost(times, time);
  if (last >= 0 && times[last] === time) return last;
  return Math.max(0, Math.min(times.length - 1, last + 1));
};

// Ports that dropped, lost or trimmed packets in a frame, each `[port, kind]`; `kind` is "dropped", "lost" or "trimmed".
export const lossesIn = (recording, frame) => recording.losses[frame] || [];

// The pauses at a time, each with its cause: `{ port, priority, from, to, waits, kind, root }`; `waits` and `root` are
// -1 if they are unknown.
export const pausesAt = (recording, time) => {
  const frame = frameAt(recording, time);
  const causes = new Map();
  for (const near of [frame - 1, frame]) {
    for (const [port, priority, waits, kind, root] of recording.causes[near] || []) {
      causes.set(samePause(port, priority), { waits, kind, root });
    }
  }
  return recording.pauses
    .filter(({ from, to }) => from <= time && time < to)
    .map((pause) => ({ waits: -1, ...pause, ...causes.get(samePause(pause.port, pause.priority)) }));
};

// The ports of a cycle of pauses at a time.
export const cycleAt = (recording, time) => {
  const last = lastAtMost(recording.times, time);
  return recording.cycles[last] || [];
};

// Bytes of the cells of the matrix from one time to another, as an array of groups * groups.
export const matrixBetween = (recording, from, to) => {
  const { matrixTimes, matrixBytes } = recording;
  const until = (time) => {
    const last = lastAtMost(matrixTimes, time);
    if (last < 0) return null;
    const next = matrixBytes[last + 1];
    const part = next ? (time - matrixTimes[last]) / (matrixTimes[last + 1] - matrixTimes[last]) : 0;
    return { before: matrixBytes[last], next: next || matrixBytes[last], part };
  };
  const [high, low] = [until(to), from > 0 ? until(from) : null];
  const value = ({ before, next, part }, cell) => before[cell] + part * (next[cell] - before[cell]);
  const cells = new Float32Array(recording.matrix ? recording.matrix.groups ** 2 : 0);
  if (!high) return cells;
  for (let cell = 0; cell < cells.length; cell++) {
    cells[cell] = Math.max(0, value(high, cell) - (low ? value(low, cell) : 0));
  }
  return cells;
};

// The name of a port: its link, in the direction in which it sends.
export const portName = (recording, port) => {
  const { node, peer } = recording.ports;
  return `${recording.nodes.name[node[port]]} \u2192 ${recording.nodes.name[node[peer[port]]]}`;
};

// The name of group `group` of the matrix.
export const groupName = ({ size, hosts }, group) => {
  const [first, last] = [group * size, Math.min(hosts, (group + 1) * size) - 1];
  return first === last ? `host ${first}` : `hosts ${first}\u2013${last}`;
};
