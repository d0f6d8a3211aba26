// Reads the columns of a recorded run from the bytes of a file. `rnic-results/src/replay/columns.rs` writes them and
// states their order. All numbers are LEB128 (7 bits per byte, the least significant first); a number that may be
// negative is written as 2 * n, or -2 * n - 1 if n is negative.

import { makeRecording, noteMatrix, noteTotals } from "./recording.js";

const CAUSES = ["", "congestion", "nic", "cycle"];
const PS_PER_US = 1e6;

const reader = (bytes) => {
  let at = 0;
  const number = () => {
    let [value, scale] = [0, 1];
    for (;;) {
      if (at >= bytes.length) throw new Error("the data of the run is truncated");
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  const signed = () => {
    const value = number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  return { number, signed, byte: () => bytes[at++] };
};

// The bytes that a text in base64 stands for, inflated.
export const inflated = async (text) => {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const readPorts = (recording, { number, signed, byte }, frames, unit) => {
  const { count } = recording;
  recording.used = new Uint8Array(frames * count);
  recording.queued = new Float32Array(frames * count);
  for (let port = 0; port < count; port++) {
    let used = 0;
    for (let frame = 0; frame < frames; frame++) {
      used = (used + byte()) & 255;
      recording.used[frame * count + port] = used;
    }
  }
  for (let port = 0; port < count; port++) {
    let queued = 0;
    for (let frame = 0; frame < frames; frame++) {
      queued += signed();
      recording.queued[frame * count + port] = queued * unit;
      if (queued * unit > recording.maxQueued) recording.maxQueued = queued * unit;
    }
  }
  for (let port = 0; port < count; port++) {
    let [frame, totals] = [0, [0, 0, 0, 0]];
    for (let left = number(); left > 0; left--) {
      frame += number();
      totals = totals.map((total) => total + number());
      noteTotals(recording, port, frame, totals);
    }
  }
};

const readPauses = (recording, { number, signed }, frames) => {
  let from = 0;
  for (let left = number(); left > 0; left--) {
    const [port, priority] = [number(), number()];
    from += signed();
    const length = number();
    const [kind, root] = [CAUSES[number()], number() - 1];
    const to = length ? (from + length - 1) / PS_PER_US : Infinity;
    recording.pauses.push({ port, priority, from: from / PS_PER_US, to, kind, root });
  }
  for (let frame = 0; frame < frames; frame++) {
    const causes = [];
    for (let left = number(); left > 0; left--) {
      causes.push([number(), number(), number() - 1, CAUSES[number()], number() - 1]);
    }
    recording.causes.push(causes);
    const cycle = [];
    for (let left = number(); left > 0; left--) cycle.push(number());
    recording.cycles.push(cycle);
  }
};

const readMatrix = (recording, { number }, instants) => {
  const unit = number();
  const bytes = new Float32Array(recording.matrix.groups ** 2);
  let time = 0;
  for (let instant = 0; instant < instants; instant++) {
    time += number();
    const changed = [];
    let cell = 0;
    for (let left = number(); left > 0; left--) {
      cell += number();
      bytes[cell] += number() * unit;
      changed.push([cell, bytes[cell]]);
    }
    noteMatrix(recording, time / PS_PER_US, changed);
  }
};

// The recording of a run. `head` has the fields of `makeRecording`, and `frames`, `queueUnit` (bytes),
// `matrixInstants`, `end` (microseconds), `flows` and `events`; `bytes` are the columns.
export const readRun = (head, bytes) => {
  const read = reader(bytes);
  const recording = makeRecording(head);
  let time = 0;
  for (let frame = 0; frame < head.frames; frame++) {
    time += read.number();
    recording.times.push(time / PS_PER_US);
  }
  recording.end = head.end;
  readPorts(recording, read, head.frames, head.queueUnit);
  readPauses(recording, read, head.frames);
  if (head.matrix) readMatrix(recording, read, head.matrixInstants);
  for (const flow of head.flows) {
    const points = [];
    let [frame, delivered] = [0, 0];
    for (let left = read.number(); left > 0; left--) {
      frame += read.number();
      delivered += read.number();
      points.push([recording.times[frame], delivered]);
    }
    if (flow.finish !== null) points.push([flow.finish, flow.bytes]);
    recording.flows.set(flow.id, { ...flow, points: [[flow.start, 0], ...points] });
  }
  recording.events = head.events;
  return recording;
};
