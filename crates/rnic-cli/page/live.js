// The page of `rnic run --serve`: the progress of the runs, their fabrics while they are simulated, and the results.
// `live/stream.rs` states the events. All texts become text nodes.

import { byId, element } from "./dom.js";
import { table } from "./table.js";
import { enableTips } from "./tip.js";
import { enableLayout } from "./layout.js";
import { appendFrame, makeRecording } from "./recording.js";
import { makeView } from "./view.js";

const main = document.querySelector("main");
const token = new URLSearchParams(location.search).get("token");
const withToken = (path) => (token ? `${path}?token=${encodeURIComponent(token)}` : path);

// Until its fabric is known, a recording has no nodes and no ports.
const noFabric = (name) => ({
  name,
  nodes: { name: [], kind: [], hosts: [], x: [], y: [] },
  ports: { node: [], peer: [], gbps: [], links: [] },
});

const state = { recordings: [], shown: -1, end: 0, view: null, done: false, drawing: 0 };

// The runs that the page can draw: those that have frames. The page draws at most a few times per second.
const draw = () => {
  state.drawing = 0;
  const started = state.recordings.filter(({ times }) => times.length > 1);
  if (!started.length) return;
  if (!state.view) {
    main.replaceChildren();
    state.view = makeView(main, state.recordings, { first: state.recordings.indexOf(started[0]) });
    state.shown = state.recordings.indexOf(started[0]);
    state.view.player.seek(started[0].end);
    state.end = started[0].end;
  }
  // A reader who is at the end of a run follows to the run that began last.
  const newest = state.recordings.indexOf(started[started.length - 1]);
  const select = main.querySelector("select[aria-label=Run]");
  if (select && newest > state.shown && state.view.player.time() >= state.end) {
    select.value = String(newest);
    select.dispatchEvent(new Event("change"));
    state.view.player.seek(state.recordings[newest].end);
  }
  state.shown = newest;
  state.view.update();
  state.end = state.view.shown()[0].end;
  document.documentElement.dataset.frames = String(state.view.shown()[0].times.length);
};
const request = () => { state.drawing ||= setTimeout(draw, 150); };

const row = ({ name, stage, done, text }) => [
  name,
  element("progress", { max: "1", value: String(done), "aria-label": `Progress of ${name}` }),
  stage,
  text,
];

const showState = ({ runs, warnings }) => {
  byId("runs").replaceChildren(table(["Run", "Progress", "State", "Flows, simulated time, speed"], runs.map(row)));
  byId("warnings").replaceChildren(...warnings.map(({ run, text }) => element("li", {}, `${run}: ${text}`)));
  const count = (wanted) => runs.filter(({ stage }) => stage === wanted).length;
  if (!state.done) byId("status").textContent = `${count("running")} running, ${count("finished")} of ${runs.length} finished`;
};

const showResults = ({ table, files }) => {
  state.done = true;
  byId("status").textContent = "All runs have ended.";
  byId("table").textContent = table;
  byId("files").replaceChildren(...files.map((name) => (
    element("a", { href: withToken(`files/${encodeURIComponent(name)}`) }, name)
  )));
  byId("results").hidden = false;
  document.documentElement.dataset.ready = "true";
};

const start = ({ title, runs, recorded }) => {
  // After an interruption the server sends everything again.
  document.title = title || "rnic run";
  byId("title").textContent = title || "rnic run";
  Object.assign(state, { shown: -1, view: null, done: false });
  state.recordings = runs.slice(0, recorded).map((name) => makeRecording(noFabric(name)));
};

enableTips();
enableLayout();
const source = new EventSource(withToken("events"));
const on = (name, take) => source.addEventListener(name, ({ data }) => take(JSON.parse(data)));
on("hello", start);
on("state", showState);
on("results", showResults);
on("fabric", ({ run, fabric }) => Object.assign(state.recordings[run], makeRecording(fabric)));
on("frames", ({ run, frames }) => {
  for (const frame of frames) appendFrame(state.recordings[run], frame);
  request();
});
source.addEventListener("error", () => {
  byId("status").textContent = state.done
    ? "All runs have ended, and so has the command; the files are in its folder."
    : "The connection to the command is interrupted.";
});
globalThis.live = state;
