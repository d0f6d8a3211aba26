import { appendFrame, cycleAt, frameAt, groupName, lastAtMost, lossesIn, makeRecording, matrixBetween, pausesAt, portAt, portName } from "./recording.js";
import { readRun } from "./columns.js";

// Two hosts at a switch: ports 0 and 1 of the hosts, 2 and 3 of the switch.
const head = () => ({
  name: "a run",
  nodes: { name: ["h0", "h1", "s0"], kind: ["host", "host", "switch"], hosts: [1, 1, 0], x: [0, 1, 0.5], y: [1, 1, 0] },
  ports: { node: [0, 1, 2, 2], peer: [2, 3, 0, 1], gbps: [40, 40, 40, 40], links: [1, 1, 1, 1] },
  matrix: { groups: 2, size: 1, hosts: 2 },
});
const recorded = () => {
  const recording = makeRecording(head());
  appendFrame(recording, { time: 0, started: [{ id: 7, src: 0, dst: 1, path: [0, 3] }] });
  appendFrame(recording, {
    time: 10,
    ports: [[0, 0.5, 0, 0, 0, 0, 0], [3, 1, 5000, 0, 0, 0, 2]],
    pauses: [[0, 3, 8, -1, "congestion", 3]],
    cycle: [0, 3],
    flows: [[7, 1000]],
    matrix: [[10, [[1, 1000]]]],
  });
  appendFrame(recording, { time: 20, ports: [[3, 0.2, 0, 4, 0, 1, 2]], flows: [[7, 3000]], matrix: [[15, [[1, 3000]]], [20, [[1, 3000]]]] });
  return recording;
};
test("the last number that is at most a value", () => {
  equal([0, 1, 2, 5, 9].map((value) => lastAtMost([1, 2, 5], value)), [-1, 0, 1, 2, 2]);
});
test("a frame shows the interval that ends with it", () => {
  const recording = recorded();
  equal([0, 0.1, 10, 10.1, 20, 99].map((time) => frameAt(recording, time)), [0, 1, 1, 2, 2, 2]);
  near(portAt(recording, 0, 5).used, 128 / 255);
  equal(portAt(recording, 0, 15).used, 0);
  const { queued, dropped, trimmed, marked, recent } = portAt(recording, 3, 20);
  equal([queued, dropped, trimmed, marked, recent], [0, 4, 1, 2, [4, 0, 1, 0]]);
  equal(portAt(recording, 3, 10).queued, 5000);
  equal(recording.maxQueued, 5000);
});
test("losses are in the frame that counts them", () => {
  equal([0, 1, 2].map((frame) => lossesIn(recorded(), frame)), [[], [], [[3, "dropped"], [3, "trimmed"]]]);
});
test("a pause lasts from its start to the first frame without it", () => {
  const recording = recorded();
  equal([7.9, 8, 19.9, 20].map((time) => pausesAt(recording, time).length), [0, 1, 1, 0]);
  const { port, priority, root, kind } = pausesAt(recording, 9)[0];
  equal([port, priority, root, kind], [0, 3, 3, "congestion"]);
  equal([cycleAt(recording, 9), cycleAt(recording, 10), cycleAt(recording, 20)], [[], [0, 3], []]);
});
test("a new pause of a port ends the earlier one", () => {
  const recording = makeRecording(head());
  appendFrame(recording, { time: 1, pauses: [[0, 0, 0.5, -1, "", -1]] });
  appendFrame(recording, { time: 3, pauses: [[0, 0, 2.5, -1, "", -1]] });
  equal(recording.pauses.map(({ from, to }) => [from, to === Infinity ? "open" : to]), [[0.5, 2.5], [2.5, "open"]]);
});
test("the matrix between two times", () => {
  const recording = recorded();
  equal([...matrixBetween(recording, 0, 20)], [0, 3000, 0, 0]);
  equal([...matrixBetween(recording, 10, 12.5)], [0, 1000, 0, 0]);
  equal([...matrixBetween(recording, 10, 20)], [0, 2000, 0, 0]);
  equal([...matrixBetween(recording, 0, 5)], [0, 0, 0, 0]);
});
test("flows end, and are forgotten", () => {
  const recording = recorded();
  appendFrame(recording, { time: 25, started: [{ id: 8, src: 1, dst: 0, path: [], start: 22, why: "largest" }] });
  appendFrame(recording, { time: 30, ended: [[7, 26, 4000], [9, 26, 1]], flows: [[8, 50]] });
  const { finish, points } = recording.flows.get(7);
  equal([finish, points], [26, [[0, 0], [10, 1000], [20, 3000], [26, 4000]]]);
  equal(recording.flows.get(8).points, [[22, 0], [30, 50]]);
  // Of an aborted flow the last frame has the bytes.
  appendFrame(recording, { time: 35, ended: [[8, 33, 0]], forgotten: [7] });
  equal(recording.flows.get(8).points.at(-1), [33, 50]);
  equal([...recording.flows.keys()], [8]);
});
test("many frames keep their ports", () => {
  const recording = makeRecording(head());
  for (let time = 0; time < 200; time++) appendFrame(recording, { time, ports: [[1, 0, time]] });
  equal([0, 63, 64, 199].map((time) => portAt(recording, 1, time).queued), [0, 63, 64, 199]);
});
test("a port outside the fabric is ignored", () => {
  const recording = makeRecording(head());
  appendFrame(recording, { time: 0, ports: [[4, 1, 9, 0, 0, 0, 0], [-1, 1, 9, 0, 0, 0, 0]] });
  equal([...recording.queued.slice(0, 4)], [0, 0, 0, 0]);
});
test("names of ports and groups", () => {
  equal(portName(recorded(), 3), "s0 \u2192 h1");
  equal([0, 1, 2].map((group) => groupName({ size: 4, hosts: 9 }, group)), ["hosts 0\u20133", "hosts 4\u20137", "host 8"]);
});
test("columns", () => {
  const fields = {
    frames: 2, queueUnit: 256, matrixInstants: 2, end: 20, events: [],
    flows: [{ id: 7, src: 0, dst: 1, path: [0, 3], start: 0, finish: 20, bytes: 3000 }],
  };
  // 10 us are 10,000,000 ps: 128 + 0x2d * 2^7 + 0x62 * 2^14 + 4 * 2^21 = 10,000,000.
  const us10 = [0x80, 0xad, 0xe2, 0x04];
  const bytes = [
    0, ...us10,
    0, 51, 0, 0, 0, 0, 255, 0, // used: port 0 reaches 51; port 3 has 255 throughout
    0, 0, 0, 0, 0, 0, 6, 3, // queued: port 3 has 3 units, then -2 more: 1
    0, 0, 0, 1, 1, 4, 0, 0, 2, // port 3: in frame 1, 4 dropped and 2 marked
    1, 0, 3, 6, 0, 1, 4, // a pause of port 0, priority 3, from 3 ps on, open, by congestion at port 3
    0, 0, 1, 0, 3, 0, 1, 4, 1, 2, // frame 1: its cause, and a cycle of port 2
    100, ...us10, 1, 1, 5, ...us10, 0, // the matrix: cell 1 gets 500 bytes until 10 us, and no more until 20 us
    1, 1, 50, // the flow has 50 bytes in frame 1
  ];
  const recording = readRun({ ...head(), ...fields }, new Uint8Array(bytes));
  equal(recording.times, [0, 10]);
  near(portAt(recording, 0, 10).used, 0.2);
  equal([0, 10].map((time) => portAt(recording, 3, time).queued), [768, 256]);
  equal(portAt(recording, 3, 10).recent, [4, 0, 0, 2]);
  const { port, from, waits, root } = pausesAt(recording, 15)[0];
  equal([port, from, waits, root], [0, 0.000003, -1, 3]);
  equal([cycleAt(recording, 9), cycleAt(recording, 10)], [[], [2]]);
  equal([...matrixBetween(recording, 0, 20)], [0, 500, 0, 0]);
  equal(recording.flows.get(7).points, [[0, 0], [10, 50], [20, 3000]]);
  let refused = "";
  try {
    readRun({ ...head(), ...fields }, new Uint8Array(bytes.slice(0, 30)));
  } catch (error) {
    refused = error.message;
  }
  equal(refused, "the data of the run is truncated");
});
