// The time of a page with recordings: a slider, buttons and keys that play, step and zoom.

import { brief, exact } from "./numbers.js";
import { button, element, setText } from "./dom.js";
import { fitted } from "./fabric.js";

// The shortest part of a run that the slider can show, as a fraction of the run.
const MIN_PART = 1e-5;
const HEIGHT = 34;

// Keeps `[from, to]` within `[0, end]`, with the same length if possible.
export const clampedWindow = (from, to, end) => {
  const length = Math.min(end, Math.max(to - from, end * MIN_PART));
  const start = Math.max(0, Math.min(from, end - length));
  return [start, start + length];
};

// The window around `time` that is `factor` times as long; `time` keeps its relative place.
export const zoomedWindow = ([from, to], time, factor, end) => {
  const length = (to - from) * factor;
  const place = to > from ? (time - from) / (to - from) : 0.5;
  return clampedWindow(time - place * length, time - place * length + length, end);
};

// Speeds of the player for a run of `end` microseconds, in microseconds per second: round numbers that take from about
// two minutes to two seconds for the run.
export const speedsFor = (end) => {
  const speeds = [];
  const lowest = Math.max(end, 1e-3) / 120;
  for (let power = 10 ** Math.floor(Math.log10(lowest)); power <= lowest * 100; power *= 10) {
    for (const step of [1, 2, 5]) if (step * power >= lowest && step * power <= lowest * 80) speeds.push(step * power);
  }
  return speeds;
};

// Adds the player to `parent`. `marks` yields the intervals to mark above the slider, each `{ from, to, kind }` with a
// kind "pause", "loss" or "event", and the same list until they change; `colours` yields the colours of the page
// (`inks`), likewise. `frames` yields the instants to which the arrow keys step. `show` is called with each
// new time. Returns `{ seek, time, window, extend, stop, redraw }`: `extend` sets the end of a run that continues; a
// player at the end follows it.
export const makePlayer = (parent, { end, colours, marks = () => [], frames = () => [], show }) => {
  const state = { time: 0, end, window: [0, end], speed: 0, playing: false, last: 0, request: 0 };
  const strip = element("canvas", { class: "strip", "aria-hidden": "true" });
  const slider = element("input", { type: "range", class: "time", step: "any", "aria-label": "Time in the run" });
  const shown = element("output", { class: "clock" });
  const play = button("Play", null, () => (state.playing ? stop() : start()), { class: "play", title: "space" });
  const option = (value) => {
    const selected = value === state.speed ? "" : null;
    return element("option", { value: String(value), selected }, `${brief("time", value)} per second`);
  };
  const speed = element("select", { "aria-label": "Speed", class: "speed" });
  // Offers the speeds for the run as far as it is known.
  const offer = () => {
    const speeds = speedsFor(state.end);
    state.offered = state.end;
    state.speed = speeds[Math.min(speeds.length - 1, Math.floor(speeds.length / 3))];
    speed.replaceChildren(...speeds.map(option));
  };
  offer();
  speed.addEventListener("change", () => { state.speed = Number(speed.value); });
  const range = element("span", { class: "range" });
  const zoom = (factor) => {
    state.window = zoomedWindow(state.window, state.time, factor, state.end);
    redraw();
  };
  const controls = element(
    "div",
    { class: "controls" },
    button("\u25c2", null, () => step(-1), { "aria-label": "Previous frame", title: "left arrow" }),
    play,
    button("\u25b8", null, () => step(1), { "aria-label": "Next frame", title: "right arrow" }),
    speed,
    shown,
    button("Zoom in", null, () => zoom(0.5), { title: "+" }),
    button("Zoom out", null, () => zoom(2), { title: "-" }),
    range,
  );
  parent.replaceChildren(strip, slider, controls);

  const redraw = () => {
    const [from, to] = state.window;
    if (Number(slider.min) !== from || Number(slider.max) !== to) [slider.min, slider.max] = [from, to];
    slider.value = state.time;
    slider.setAttribute("aria-valuetext", exact("time", state.time));
    setText(shown, exact("time", state.time));
    setText(range, `${brief("time", from)} \u2013 ${brief("time", to)} of ${brief("time", state.end)}`);
    drawStrip(strip, state, marks(), colours());
  };
  const seek = (time) => {
    state.time = Math.max(0, Math.min(state.end, time));
    const [from, to] = state.window;
    if (state.time < from || state.time > to) {
      const half = (to - from) / 2;
      state.window = clampedWindow(state.time - half, state.time + half, state.end);
    }
    redraw();
    show(state.time);
  };
  const tick = (now) => {
    if (!state.playing) return;
    const passed = Math.min(0.1, (now - state.last) / 1000);
    state.last = now;
    seek(state.time + passed * state.speed);
    if (state.time >= state.end) stop();
    else state.request = requestAnimationFrame(tick);
  };
  const stop = () => {
    state.playing = false;
    cancelAnimationFrame(state.request);
    play.textContent = "Play";
    redraw();
    show(state.time);
  };
  const start = () => {
    if (state.time >= state.end) state.time = state.window[0] > 0 ? state.window[0] : 0;
    state.playing = true;
    state.last = performance.now();
    play.textContent = "Pause";
    state.request = requestAnimationFrame(tick);
  };
  const step = (direction) => {
    if (state.playing) stop();
    const times = frames();
    const next = direction > 0 ? times.find((time) => time > state.time) : times.findLast((time) => time < state.time);
    if (next !== undefined) seek(next);
  };
  slider.addEventListener("input", () => {
    if (state.playing) stop();
    seek(Number(slider.value));
  });
  strip.addEventListener("pointerdown", (event) => {
    const bounds = strip.getBoundingClientRect();
    const [from, to] = state.window;
    seek(from + ((event.clientX - bounds.left) / bounds.width) * (to - from));
  });
  strip.addEventListener("wheel", (event) => {
    zoom(event.deltaY > 0 ? 1.25 : 0.8);
    event.preventDefault();
  }, { passive: false });
  const keys = {
    " ": () => (state.playing ? stop() : start()),
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    Home: () => seek(0),
    End: () => seek(state.end),
    "+": () => zoom(0.5),
    "-": () => zoom(2),
  };
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest?.("select, button, summary, input:not([type=range])");
    if (event.ctrlKey || event.metaKey || event.altKey || inField || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
  const extend = (later) => {
    const wasWhole = state.window[0] === 0 && state.window[1] >= state.end;
    const follows = state.time >= state.end;
    state.end = later;
    if (later > 2 * state.offered && !state.playing) offer();
    if (wasWhole) state.window = [0, later];
    if (follows && !state.playing) seek(later);
    else redraw();
  };
  redraw();
  return { seek, time: () => state.time, window: () => state.window, extend, stop, redraw };
};

// The marks of the window above the slider: pauses as bars at the bottom, losses in the middle, events as lines. They are
// drawn once for a window; `marks` is the same list until they change.
const drawMarks = (context, [from, to], width, marks, colours) => {
  const rows = { pause: [20, 9, colours.pause], loss: [10, 8, colours.text], event: [0, 9, colours.flow] };
  const at = (value) => ((value - from) / (to - from || 1)) * width;
  context.fillStyle = colours.line;
  context.fillRect(0, HEIGHT - 2, width, 1);
  for (const { from: start, to: stop, kind } of marks) {
    if (stop < from || start > to) continue;
    const [y, height, colour] = rows[kind];
    context.fillStyle = colour;
    const left = Math.max(0, at(start));
    context.fillRect(left, y, Math.max(kind === "pause" ? 1 : 2, Math.min(width, at(stop)) - left), height);
  }
};

const drawStrip = (strip, { window: [from, to], time }, marks, colours) => {
  const width = strip.clientWidth || 600;
  const drawn = strip.drawn ?? {};
  if (drawn.marks !== marks || drawn.colours !== colours || drawn.key !== `${from} ${to} ${width}`) {
    const canvas = document.createElement("canvas");
    drawMarks(fitted(canvas, width, HEIGHT), [from, to], width, marks, colours);
    strip.drawn = { marks, colours, key: `${from} ${to} ${width}`, canvas };
  }
  const context = fitted(strip, width, HEIGHT);
  context.drawImage(strip.drawn.canvas, 0, 0, width, HEIGHT);
  context.fillStyle = colours.chosen;
  context.fillRect(((time - from) / (to - from || 1)) * width - 1, 0, 2, HEIGHT);
};
