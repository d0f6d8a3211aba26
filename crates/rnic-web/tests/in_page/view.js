import { appendFrame, makeRecording } from "./recording.js";
import { makeView } from "./view.js";

const HOSTILE = '<img src=x onerror="window.attacked = 1"></script>';
const recordingOf = (name) => {
  const recording = makeRecording({
    name,
    nodes: { name: ["h0", HOSTILE, "s0"], kind: ["host", "host", "switch"], hosts: [1, 1, 0], x: [0, 1, 0.5], y: [1, 1, 0] },
    ports: { node: [0, 1, 2, 2], peer: [2, 3, 0, 1], gbps: [40, 40, 40, 40], links: [1, 1, 1, 1] },
    matrix: { groups: 2, size: 1, hosts: 2 },
  });
  appendFrame(recording, { time: 0, started: [{ id: 7, src: 0, dst: 1, path: [0, 3] }] });
  appendFrame(recording, {
    time: 10,
    ports: [[0, 1, 0, 0, 0, 0, 0], [3, 1, 5000, 2, 0, 0, 0]],
    pauses: [[0, 3, 8, -1, "congestion", 3]],
    flows: [[7, 1000]],
    matrix: [[10, [[1, 1000]]]],
    events: [{ time: 8, kind: "pause", text: HOSTILE, port: 0 }],
  });
  return recording;
};
const shownIn = (runs, options) => {
  const box = document.createElement("main");
  document.body.append(box);
  const recordings = runs.map(recordingOf);
  return { box, recordings, view: makeView(box, recordings, options) };
};
test("a view tells the state at a time", () => {
  const { box, view } = shownIn([HOSTILE]);
  box.querySelector(".events button").click();
  equal(view.player.time(), 8);
  view.player.seek(9);
  view.choose({ kind: "port", id: 0 });
  equal(box.querySelector(".said").textContent.split(", ").slice(0, 2), ["2 of 4 link directions more than 95 % used", "1 paused"]);
  const text = box.querySelector(".details .state").textContent;
  equal(text.split("\n")[1], `h0 \u2192 s0 is paused (priority 3; cause: congestion at s0 \u2192 ${HOSTILE})`);
  equal(box.querySelectorAll(".details svg").length, 2);
  equal(box.querySelectorAll("img, script").length, 0);
  equal(window.attacked, undefined);
  box.remove();
});
test("two runs side by side share the time", () => {
  const { box } = shownIn(["one", "two"], { second: 1 });
  equal([...box.querySelectorAll(".panel:not([hidden]) h3")].map((title) => title.textContent), ["one", "two"]);
  box.remove();
});
test("frames that arrive extend the run", () => {
  const { box, recordings, view } = shownIn(["one"]);
  view.player.seek(10);
  appendFrame(recordings[0], { time: 30, ports: [[3, 0.2, 0, 2, 0, 0, 0]] });
  view.update();
  equal([view.player.time(), box.querySelector("input.time").max], [30, "30"]);
  box.remove();
});
test("a run that continues shows its matrix and its flows", () => {
  const { box, recordings, view } = shownIn(["one"]);
  view.player.seek(10);
  const flows = () => [...box.querySelectorAll(".events [data-flow]")].map((item) => item.textContent);
  const cell = () => [...box.querySelector(".matrix").matrix.cells];
  const first = box.querySelector(".events [data-flow]");
  first.focus();
  const started = [{ id: 9, src: 1, dst: 0, path: [1, 2], start: 12, why: "most bytes", bytes: 100 }];
  appendFrame(recordings[0], { time: 20, started, flows: [[9, 50]], matrix: [[20, [[2, 50]]]] });
  view.update();
  equal([flows(), cell()], [["flow 7", "most bytes: flow 9"], [0, 1000, 50, 0]]);
  equal(document.activeElement, first);
  // A button leads to a flow under way without leaving the end of the run; its path is drawn.
  box.querySelector('.events [data-flow="9"]').click();
  equal([view.player.time(), view.chosen().id], [20, 9]);
  equal(box.querySelector(".details .state").textContent, "50.0\u00a0B of 100\u00a0B delivered");
  appendFrame(recordings[0], { time: 30, ended: [[7, 25, 2000]] });
  view.update();
  equal(flows(), ["most bytes: flow 9", "flow 7"]);
  appendFrame(recordings[0], { time: 40, forgotten: [7] });
  view.update();
  equal(flows(), ["most bytes: flow 9"]);
  box.remove();
});
test("the search finds nodes, flows and links", () => {
  const { box } = shownIn(["one"]);
  const input = box.querySelector("input[type=search]");
  input.value = "s0";
  input.dispatchEvent(new Event("input"));
  equal([...box.querySelectorAll(".search .results button")].map((item) => item.textContent), [
    "s0", "h0 \u2192 s0", `${HOSTILE} \u2192 s0`, "s0 \u2192 h0", `s0 \u2192 ${HOSTILE}`,
  ]);
  box.remove();
});
