// A page with recordings: one or two runs side by side on the same time, each with its fabric and its matrix; the
// player; events; and the series of what a click or the search chooses.

import { button, choice, element, setText } from "./dom.js";
import { brief } from "./numbers.js";
import { colour } from "./theme.js";
import { node } from "./svg.js";
import { drawLines } from "./lines.js";
import { addDrawing, drawingWidth } from "./layout.js";
import { frameAt, pausesAt, portName } from "./recording.js";
import { drawFabric, hit, inks } from "./fabric.js";
import { drawMatrix, enableMatrix } from "./traffic.js";
import { makePlayer } from "./player.js";
import { chosenName, chosenText, fabricText, seriesOf } from "./details.js";

const MAX_EVENTS = 12;
const MAX_FOUND = 40;
const MATRIX_WIDTH = 300;
// The part of the run that the matrix covers if it shows recent traffic.
const RECENT = 0.04;

// The key of the picture: what its signs mean. Each has the shape that `fabric.js` draws.
const KEY = [
  ["use", "link, wider if busier; in cells of hosts, left sends and right receives"],
  ["queue", "queue at a port"],
  ["pause", "paused link: arrow from the cause to the paused port"],
  ["root", "root cause of pauses"],
  ["drop", "drop or loss"],
  ["trim", "trimmed packet"],
  ["flow", "path of the chosen flow"],
];

const keyItems = () => KEY.map(([kind, text]) => {
  const svg = node("svg", { width: 26, height: 14, viewBox: "0 0 26 14", "aria-hidden": "true", class: `sign ${kind}` });
  const shapes = {
    use: "M1 7H25",
    queue: "M4 5H20V10H4Z",
    pause: "M2 7H18M10 2V12M14 2V12M18 3L25 7L18 11Z",
    root: "M13 1.5A5.5 5.5 0 1 1 12.9 1.5Z",
    drop: "M8 2L18 12M18 2L8 12",
    trim: "M7 3H19L13 12Z",
    flow: "M2 7H24",
  };
  node("path", { d: shapes[kind] }, svg);
  return element("li", {}, svg, text);
});

// The marks of recordings above the slider. Pauses that overlap or are close become one mark.
const marksOf = (recordings) => {
  const marks = [];
  for (const recording of recordings) {
    const gap = recording.end / 2000;
    let last = null;
    for (const { from, to } of [...recording.pauses].sort((a, b) => a.from - b.from)) {
      const until = Math.min(to, recording.end);
      if (last && from <= last.to + gap) last.to = Math.max(last.to, until);
      else marks.push((last = { from, to: until, kind: "pause" }));
    }
    recording.losses.forEach((losses, frame) => {
      const time = recording.times[frame];
      if (losses && losses.length) marks.push({ from: time, to: time, kind: "loss" });
    });
    for (const { time } of recording.events) marks.push({ from: time, to: time, kind: "event" });
  }
  return marks;
};

const setWidth = (canvas, width) => {
  if (canvas.style.width !== `${width}px`) canvas.style.width = `${width}px`;
};

// One run of the page: its fabric and its matrix.
const makePanel = (view) => {
  const title = element("h3", {});
  const fabric = element("canvas", { class: "fabric", tabindex: "0", role: "img" });
  const matrix = element("canvas", { class: "matrix", tabindex: "0", role: "img" });
  const said = element("p", { class: "said" });
  const box = element("div", { class: "panel" }, title, element("div", { class: "pictures" }, fabric, matrix), said);
  const panel = { box, recording: null, width: 0 };
  // Takes the width that there is: it changes with the window and with the number of panels.
  panel.measure = () => { panel.width = drawingWidth(box, 1); };
  fabric.addEventListener("click", (event) => {
    const bounds = fabric.getBoundingClientRect();
    if (panel.recording && fabric.places) {
      view.choose(hit(panel.recording, fabric.places, event.clientX - bounds.left, event.clientY - bounds.top));
    }
  });
  enableMatrix(matrix);
  panel.draw = (time, { chosen, recent, colours, count, saying }) => {
    const { recording } = panel;
    setText(title, recording.name);
    const whole = panel.width;
    const beside = recording.matrix && whole >= 760;
    const width = beside ? whole - MATRIX_WIDTH - 16 : whole;
    const height = Math.round(Math.max(240, Math.min(count > 1 ? 380 : 470, width * 0.62)));
    setWidth(fabric, width);
    drawFabric(fabric, recording, time, { width, height, chosen, colours });
    matrix.hidden = !recording.matrix;
    if (recording.matrix) {
      const size = Math.min(MATRIX_WIDTH, whole);
      setWidth(matrix, size);
      const span = recording.end * RECENT;
      drawMatrix(matrix, recording, recent ? Math.max(0, time - span) : 0, time, size, colours);
    }
    if (!saying || !recording.times.length) return;
    const text = fabricText(recording, time, pausesAt(recording, time), frameAt(recording, time));
    setText(said, text);
    fabric.setAttribute("aria-label", `Fabric of ${recording.name} at ${brief("time", time)}: ${text}`);
    const label = `Matrix of the bytes from hosts (rows) to hosts of ${recording.name}. Arrow keys move.`;
    matrix.setAttribute("aria-label", label);
  };
  return panel;
};

// The list of all things that can be chosen and whose name contains a text.
const found = (recording, text) => {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const things = [];
  const look = (count, kind) => {
    for (let id = 0; id < count && things.length < MAX_FOUND; id++) {
      const name = chosenName(recording, { kind, id });
      if (name.toLowerCase().includes(wanted)) things.push([{ kind, id }, name]);
    }
  };
  look(recording.nodes.name.length, "node");
  for (const id of recording.flows.keys()) {
    const name = chosenName(recording, { kind: "flow", id });
    if (things.length < MAX_FOUND && name.toLowerCase().includes(wanted)) things.push([{ kind: "flow", id }, name]);
  }
  look(recording.count, "port");
  return things;
};

// The series of the chosen thing, with a line at the time of the player.
const makeDetails = (view) => {
  const heading = element("h2", {}, "Details");
  const text = element("p", { class: "state" });
  const legend = element("p", { class: "names" });
  const row = element("div", { class: "row of2" });
  const box = element("section", { class: "details" }, heading, text, legend, row);
  let cursors = [];
  const describe = (time) => {
    const { chosen } = view;
    const texts = view.shown().map((recording) => {
      const lines = chosen ? chosenText(recording, chosen, time, pausesAt(recording, time)) : "";
      return view.shown().length > 1 && lines ? `${recording.name}: ${lines}` : lines;
    });
    setText(text, texts.filter(Boolean).join("\n"));
    for (const { line, px, left, right } of cursors) {
      const x = Math.max(left, Math.min(right, px(time)));
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  };
  const draw = () => {
    const { chosen } = view;
    cursors = [];
    row.replaceChildren();
    legend.replaceChildren();
    if (!chosen) {
      heading.textContent = "Details";
      text.textContent = "Click a link, a switch or a host, or search for one.";
      return;
    }
    heading.textContent = chosenName(view.shown()[0], chosen);
    const [from, to] = view.player.window();
    const { series, figures } = seriesOf(view.shown(), chosen, from, to);
    if (series.length > 1) {
      legend.append(...series.map((name, i) => {
        const dot = element("i");
        dot.style.background = colour(i);
        return element("span", {}, dot, name);
      }));
    }
    for (const figure of figures) {
      const plot = element("div", { class: "plot" });
      row.append(element("figure", {}, element("figcaption", {}, element("strong", {}, figure.title)), plot));
      const axes = drawLines(plot, figure, { series, hidden: new Set(), view: 0 }, drawingWidth(plot, 2));
      if (!axes) continue;
      const { svg, frame, px } = axes;
      const line = node("line", { y1: frame.top, y2: frame.bottom, class: "now" }, svg);
      cursors.push({ line, px, left: frame.left, right: frame.right });
    }
    describe(view.player.time());
  };
  return { box, draw, describe };
};

// Shows these buttons, each `{ key, text, click, attributes }`. Buttons that stay are the same elements, so that they
// keep the focus and can be clicked while a run continues.
const showButtons = (box, wanted) => {
  const keys = new Set(wanted.map(({ key }) => key));
  const known = new Map();
  for (const item of [...box.children]) {
    if (keys.has(item.dataset.key)) known.set(item.dataset.key, item);
    else item.remove();
  }
  wanted.forEach(({ key, text, click, attributes }, i) => {
    const item = known.get(key) ?? button(text, null, click, { "data-key": key, ...attributes });
    if (box.children[i] !== item) box.insertBefore(item, box.children[i] ?? null);
  });
};

const eventButton = (view, recording, { time, text, port }) => {
  const where = port === undefined || port === null ? "" : ` at ${portName(recording, port)}`;
  const name = view.shown().length > 1 ? `${recording.name}: ` : "";
  const click = () => {
    if (where) view.choose({ kind: "port", id: port });
    view.player.seek(time);
  };
  return { text: `${name}${text}${where}, ${brief("time", time)}`, click, attributes: { "data-time": time } };
};

// The button of a flow; of a flow that is still under way it leaves the time as it is.
const flowButton = (view, recording, flow) => {
  const click = () => {
    view.choose({ kind: "flow", id: flow.id });
    const hasEnd = flow.start !== undefined && flow.finish !== undefined;
    if (hasEnd) view.player.seek((flow.start + (flow.finish ?? recording.end)) / 2);
  };
  return { text: `${flow.why ? `${flow.why}: ` : ""}flow ${flow.id}`, click, attributes: { "data-flow": flow.id } };
};

// Buttons of the events of the shown runs, and of flows of the first one. In a run that continues, flows under way,
// whose finish is undefined, are before the others.
const addEvents = (box, view) => {
  const isOpen = ({ finish }) => Number(finish === undefined);
  const wanted = view.shown().flatMap((recording, i) => {
    const events = recording.events.slice(0, MAX_EVENTS).map((event) => eventButton(view, recording, event));
    const flows = i > 0 ? [] : [...recording.flows.values()].sort((one, other) => isOpen(other) - isOpen(one));
    const buttons = [...events, ...flows.slice(0, MAX_EVENTS).map((flow) => flowButton(view, recording, flow))];
    return buttons.map((made) => ({ ...made, key: `${view.runs.join()} ${i} ${made.text}` }));
  });
  showButtons(box, wanted);
};

const runChoice = (label, runs, selected, none, choose) => {
  const option = (name, value) => element("option", { value, selected: value === selected ? "" : null }, name);
  const options = runs.map((run, index) => option(run.name, index));
  const select = element("select", { "aria-label": label }, none ? [option(none, -1), ...options] : options);
  select.addEventListener("change", () => choose(Number(select.value)));
  return element("label", {}, `${label} `, select);
};

const makeSearch = (view) => {
  const results = element("div", { class: "results", "aria-live": "polite" });
  const input = element("input", { type: "search", placeholder: "host, switch, link, flow", "aria-label": "Search" });
  input.addEventListener("input", () => {
    const things = found(view.shown()[0], input.value);
    const made = things.slice(0, MAX_EVENTS).map(([thing, name]) => button(name, null, () => view.choose(thing)));
    results.replaceChildren(...made);
    if (things.length > MAX_EVENTS) results.append(element("span", {}, "\u2026"));
  });
  return element("div", { class: "search" }, input, results);
};

// Fills `parent` with the page. `recordings` are the runs; `first` and `second` the indices of those that are shown,
// `second` is -1 for one run. Returns `{ update, player, choose, chosen, shown }`: `update` draws again after frames
// have been appended.
export const makeView = (parent, recordings, { first = 0, second = -1 } = {}) => {
  const view = { chosen: null, recent: false, runs: [first, second], pending: 0, colours: inks() };
  view.shown = () => view.runs.filter((run) => run >= 0).map((run) => recordings[run]);
  const panels = [makePanel(view), makePanel(view)];
  const details = makeDetails(view);
  const events = element("div", { class: "events", role: "group", "aria-label": "Events and flows" });
  const time = element("div", { class: "player" });
  let marks = null;
  let drawnWindow = "";
  const end = () => view.shown().reduce((most, recording) => Math.max(most, recording.end), 0);
  const draw = (saying) => {
    view.pending = 0;
    const shown = view.shown();
    const now = view.player.time();
    panels.forEach((panel, i) => {
      if (i >= shown.length) return;
      panel.recording = shown[i];
      if (saying) panel.measure();
      panel.draw(now, { ...view, count: shown.length, saying });
    });
    const wanted = view.player.window().join();
    if (saying && wanted !== drawnWindow) {
      drawnWindow = wanted;
      details.draw();
    } else details.describe(now);
  };
  // Draws once per frame of the screen at most. The texts follow when the player rests.
  let resting = 0;
  const request = () => {
    if (!view.pending) view.pending = requestAnimationFrame(() => draw(false));
    clearTimeout(resting);
    resting = setTimeout(() => draw(true), 150);
  };
  view.choose = (chosen) => {
    view.chosen = chosen;
    drawnWindow = "";
    draw(true);
  };
  view.player = makePlayer(time, {
    end: end(),
    colours: () => view.colours,
    marks: () => (marks ??= marksOf(view.shown())),
    // The arrow keys step through the frames of both runs of a comparison.
    frames: () => view.shown().flatMap(({ times }) => [...times]).sort((a, b) => a - b),
    show: request,
  });
  const changed = () => {
    marks = null;
    drawnWindow = "";
    addEvents(events, view);
    panels[0].box.parentElement.classList.toggle("two", view.shown().length > 1);
    panels.forEach(({ box }, i) => { box.hidden = i >= view.shown().length; });
    view.player.extend(end());
    draw(true);
  };
  const chooseRun = (place) => (run) => {
    view.runs[place] = run;
    changed();
  };
  const mode = element("div", {});
  const press = choice(mode, "Matrix", [[false, "Matrix so far"], [true, "Matrix now"]], false, (recent) => {
    view.recent = recent;
    press(recent);
    draw(true);
  });
  const several = recordings.length > 1;
  parent.replaceChildren(
    element(
      "div",
      { class: "choices" },
      several ? runChoice("Run", recordings, first, null, chooseRun(0)) : null,
      several ? runChoice("Compare with", recordings, second, "nothing", chooseRun(1)) : null,
      recordings.some(({ matrix }) => matrix) ? mode : null,
    ),
    time,
    events,
    element("div", { class: "panels" }, panels.map(({ box }) => box)),
    element("ul", { class: "key", "aria-label": "Signs in the picture" }, keyItems()),
    makeSearch(view),
    details.box,
  );
  const recolour = () => {
    view.colours = inks();
    drawnWindow = "";
    view.player.redraw();
    draw(true);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addDrawing(() => {
    drawnWindow = "";
    view.player.redraw();
    draw(true);
  });
  changed();
  const chosen = () => view.chosen;
  return { update: changed, player: view.player, choose: view.choose, chosen, shown: view.shown };
};
