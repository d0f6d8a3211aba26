// The page of the mesh. It asks the controller every few seconds, and builds all text with text nodes: names come from
// agents and files.

import { brief } from "./numbers.js";
import { button, byId, choice, element, setText } from "./dom.js";
import { number, table } from "./table.js";
import { enableTips } from "./tip.js";
import { enableLayout } from "./layout.js";
import { boardFrame, showBoard } from "./board.js";

const METRICS = [["loss", "loss"], ["p50-us", "p50"], ["p99-us", "p99"], ["p999-us", "p99.9"]];
const WINDOWS = [["1m", "1 min"], ["10m", "10 min"], ["1h", "1 h"]];
const state = { metric: "loss", window: "1m", tors: null, pair: null, answered: null, name: "" };

const time = (us) => brief("time", us);
const percent = (share) => brief("percent", share * 100);
const loss = (row) => percent(row.probes ? row.lost / row.probes : NaN);
const show = (metric, value) => (metric === "loss" ? percent(value ?? NaN) : time(value));

function age(ms) {
  const s = Math.round(ms / 1000);
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return `${Math.round(s / 3600)} h`;
}

// Step of a value, 0 (good) to 4 (at the bound of an alarm or above); `scale` has the smallest values of steps 1 to 4. It
// does not depend on the other cells: if all paths are bad, all cells are.
const step = (scale, value) => scale.filter((bound) => value >= bound).length;
const stepClass = (scale, value) => (value === null ? "unknown" : `step${step(scale, value)}`);

const GLYPHS = { good: "\u2714", warning: "\u25b2", fault: "\u2716", stale: "?" };
// Icons differ in their shapes, so that tabs are told apart without colours.
const SHAPES = {
  good: '<circle cx="8" cy="8" r="7" fill="#2e7d4f"/><path d="M4 8l3 3 5-6" fill="none" stroke="#fff" stroke-width="2"/>',
  warning: '<path d="M8 1l7 13H1z" fill="#e0a100"/><path d="M8 6v4M8 11.5v1" stroke="#000" stroke-width="1.6"/>',
  fault: '<rect width="16" height="16" fill="#b3261e"/><path d="M4 4l8 8M12 4l-8 8" stroke="#fff" stroke-width="2.5"/>',
  stale: '<rect x="1" y="1" width="14" height="14" fill="none" stroke="#888" stroke-width="2" stroke-dasharray="3 2"/>',
};

const clock = (date) => date.toLocaleTimeString("en-GB");

// The overall state: headline, title and icon of the tab.
function drawState(level, text, details) {
  const name = state.name ? `${state.name}: RDMA Pingmesh` : "RDMA Pingmesh";
  byId("name").textContent = name;
  byId("state").className = `state ${level}`;
  byId("glyph").textContent = GLYPHS[level];
  // A text that has not changed is not set again, so that screen readers do not repeat it.
  setText(byId("headline"), text);
  byId("asof").textContent = details;
  document.title = `${GLYPHS[level]} ${text} \u2013 ${name}`;
  const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">${SHAPES[level]}</svg>`)}`;
  if (byId("icon").getAttribute("href") !== icon) byId("icon").setAttribute("href", icon);
  document.body.classList.toggle("outdated", level === "stale");
}

function drawMap(data) {
  const map = byId("map");
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
  const by = new Map(data.cells.map((cell) => [`${cell[0]} ${cell[1]}`, cell]));
  const many = data.tors.length > 16;
  map.className = many ? "many" : "";
  const head = element("tr", {}, element("td"), data.tors.map((name) => element("th", { scope: "col" }, element("span", {}, name))));
  const rows = data.tors.map((from, a) => element("tr", {}, element("th", { scope: "row" }, from), data.tors.map((to, b) => {
    const cell = by.get(`${a} ${b}`);
    if (!cell) return element("td", { class: "none" });
    const [, , value, probes, lost] = cell;
    const text = show(data.metric, value);
    const title = `${from} to ${to}: ${text}; ${probes} probes, ${lost} lost`;
    const sign = many ? (step(data.scale, value) > 3 ? "\u2716" : "") : text;
    const select = () => {
      state.tors = [from, to];
      state.pair = null;
      detail(true);
    };
    const style = `${many ? "" : "few"} ${stepClass(data.scale, value)}`;
    const attributes = { title, "aria-label": title, "data-key": `${from} ${to}`, class: style };
    return element("td", {}, button(sign, null, select, attributes));
  })));
  map.replaceChildren(element("thead", {}, head), element("tbody", {}, rows));
  if (focused) for (const item of map.querySelectorAll("button")) if (item.dataset.key === focused) item.focus();
  const bounds = data.scale.map((bound) => show(data.metric, bound));
  const names = data.metric === "loss"
    ? ["nothing lost", `up to ${bounds[1]}`, `from ${bounds[1]}`, `from ${bounds[2]}`, `\u2716 from ${bounds[3]}`]
    : [`below ${bounds[0]}`, `from ${bounds[0]}`, `from ${bounds[1]}`, `from ${bounds[2]}`, `\u2716 from ${bounds[3]}`];
  byId("legend").replaceChildren(...names.map((name, i) => element("span", { class: `step${i}` }, name)),
    element("span", { class: "unknown" }, "no probes"));
}

function drawFindings(data) {
  const since = (ms) => (ms === null ? "" : `for ${age(ms)}`);
  const paths = (finding) => (finding.worst && finding.tors ? button(`paths of ${finding.worst.join(" to ")}`, null, () => {
    state.tors = finding.tors;
    state.pair = finding.worst;
    detail(true);
  }, { class: "link" }) : null);
  const cards = data.findings.map((finding) => element("div", { class: `notice card ${finding.symptom}`, "data-symptom": finding.symptom },
    element("strong", {}, finding.text), element("span", { class: "when" }, since(finding.age_ms)), paths(finding)));
  const hidden = data.suspects_all - cards.length;
  if (hidden > 0) cards.push(element("p", { class: "weak" }, `and ${hidden} more`));
  byId("findings").replaceChildren(...(cards.length ? cards : [element("p", { class: "good" }, "No part of the network explains failures.")]));
  const past = data.past.map((row) => [row.text, age(row.age_ms), age(row.ended_ms)]);
  history(byId("past"), `${past.length} earlier suspects`, past.length ? table(["Suspect", number("Found before"), number("Last found before")], past) : null);
  const status = (alarm) => (alarm.recovering_ms === null ? "on" : `recovering for ${age(alarm.recovering_ms)}`);
  const rows = data.alarms.map((alarm) => [alarm.rule, alarm.about, status(alarm), show(alarm.metric, alarm.value), show(alarm.metric, alarm.raise), age(alarm.age_ms)]);
  const ended = data.ended.map((alarm) => [alarm.rule, alarm.about, age(alarm.age_ms), age(alarm.ended_ms)]);
  byId("alarms").replaceChildren(
    rows.length ? table(["Rule", "About", "State", ...["Value", "Bound", "Since"].map(number)], rows) : element("p", { class: "good" }, "No alarm is on."),
    byId("ended"));
  history(byId("ended"), `${ended.length} ended`, ended.length ? table(["Rule", "About", number("Began before"), number("Ended before")], ended) : null);
}

// Fills a box with details, which remain open or closed.
function history(box, title, content) {
  if (!content) {
    box.replaceChildren();
    return;
  }
  const known = box.querySelector("details");
  const summary = element("summary", {}, title);
  if (known) known.replaceChildren(summary, content);
  else box.replaceChildren(element("details", {}, summary, content));
}

// The time series of a pair of ToR switches as the data of a board: round-trip times and the share of lost probes. The
// minutes of the last hour, or the ten-second intervals if there are only a few minutes.
function seriesBoard(history) {
  const fine = history.filter((point) => point.length_ms === 10000);
  const points = (history.length - fine.length > 3 ? history.filter((point) => point.length_ms > 10000) : fine)
    .filter((point) => point.probes > 0).sort((a, b) => b.age_ms - a.age_ms);
  const span = Math.max(...points.map((point) => point.age_ms), 60000);
  // Ages in minutes, or in microseconds, whose labels are seconds.
  const [unit, perMs] = span > 300000 ? ["minutes", 1 / 60000] : ["time", 1000];
  const x = (point) => -Math.max(0, point.age_ms - point.length_ms / 2) * perMs;
  const times = (key) => points.filter((point) => point[key] > 0).map((point) => [x(point), point[key]]);
  const lost = points.map((point) => [x(point), 100 * point.lost / point.probes, null, `${point.lost} of ${point.probes} probes lost`]);
  const figure = (title, y, dots, lines) => ({
    kind: "lines", title, caption: "", dots, first: 0, reach: [[-span * perMs, 0], []], empty: "No answered probes in this time.",
    x: { name: "time before now", unit, scale: "range" }, y, views: [{ name: "", lines }],
  });
  return {
    series: ["p99", "lost", "p50"],
    shown: 3,
    figures: [
      figure("Round-trip time", { name: "time", unit: "time", scale: "log" }, false,
        [{ series: 0, points: times("p99_us") }, { series: 2, points: times("p50_us") }]),
      figure("Lost probes", { name: "share of the probes", unit: "percent", scale: "zero" }, true, [{ series: 1, points: lost }]),
    ],
  };
}

// Draws the time series, into the same board each time, so that hidden series stay hidden.
let updateSeries = null;
function drawSeries(history) {
  const data = seriesBoard(history);
  if (updateSeries) {
    updateSeries(data);
    return;
  }
  const root = boardFrame(data);
  byId("series").replaceChildren(root);
  updateSeries = showBoard(root, data);
}

const get = async (path) => {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
};
const query = (from, to) => `from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`;

async function detail(jump) {
  if (!state.tors) return;
  const [from, to] = state.tors;
  const data = await get(`api/tors?${query(from, to)}`);
  if (!state.tors || state.tors[0] !== from || state.tors[1] !== to) return;
  byId("detail").hidden = false;
  byId("detail-title").textContent = `${from} to ${to}`;
  drawSeries(data.history);
  const rows = data.pairs.map((pair) => [
    button(`${pair.prober} to ${pair.target}`, null, () => {
      state.pair = [pair.prober, pair.target];
      paths(true);
    }, { class: "link" }),
    pair.probes, loss(pair), time(pair.mean_us), time(pair.max_us),
  ]);
  const parts = [element("p", { class: "weak" }, `${data.all} pairs of hosts, the worst first; last ten minutes`), table(["Pair", ...["Probes", "Lost", "Mean", "Max"].map(number)], rows)];
  byId("pairs").replaceChildren(...parts);
  if (jump) {
    byId("paths").replaceChildren();
    byId("detail").scrollIntoView({ block: "start" });
  }
  if (state.pair) await paths(false);
}

async function paths(jump) {
  const [from, to] = state.pair;
  const data = await get(`api/pair?${query(from, to)}`);
  const way = (hops) => (hops && hops.length ? hops.join(" \u2192 ") : "not traced");
  const rows = data.paths.map((path) => [path.path, path.source_port, path.probes, loss(path), path.slow, way(path.hops), way(path.back)]);
  const minutes = data.minutes.map((m) => [age(m.age_ms), m.probes, loss(m), time(m.mean_us), time(m.max_us)]);
  byId("paths").replaceChildren(
    element("h3", {}, `${from} to ${to}`),
    table([...["Path", "Source port", "Probes", "Lost", "Slow"].map(number), "There", "Back"], rows),
    table(["Ago", "Probes", "Lost", "Mean", "Max"].map(number), minutes));
  if (jump) byId("paths").scrollIntoView({ block: "nearest" });
}

async function refresh() {
  try {
    const [data, agents] = await Promise.all([get(`api/overview?window=${state.window}&metric=${state.metric}`), get("api/agents")]);
    const trouble = data.storage ? ` Storage: ${data.storage}` : "";
    const note = data.note ? `${data.note}. ` : "";
    state.name = data.name;
    state.answered = new Date();
    byId("status").textContent = `${note}${data.agents.up} of ${data.agents.known} agents up, ${data.probes} results.${trouble}`;
    byId("status").className = trouble ? "bad" : "";
    const since = data.state.age_ms === null ? "" : `Since ${clock(new Date(Date.now() - data.state.age_ms))} (${age(data.state.age_ms)}). `;
    const verdict = data.verdict_ms === null ? "" : `; latest verdict ${age(data.verdict_ms)} ago`;
    // Verdicts are ten minutes apart at most, unless the controller hangs.
    const old = data.verdict_ms !== null && data.verdict_ms > 600000 && !data.note;
    if (old) drawState("stale", "The controller's verdicts are old: the state of the network is unknown", `Latest verdict ${age(data.verdict_ms)} ago.`);
    else drawState(data.state.level, data.state.text, `${since}As of ${clock(state.answered)}${verdict}.`);
    drawFindings(data);
    drawMap(data);
    byId("scopes").replaceChildren(table(["Scope", ...["Probes", "Lost", "p50", "p99", "p99.9"].map(number)],
      data.scopes.map((scope) => [scope.scope, scope.probes, loss(scope), time(scope.p50_us), time(scope.p99_us), time(scope.p999_us)])));
    byId("agents-summary").textContent = `${data.agents.waiting} results wait at agents, ${data.agents.discarded} were discarded there; ${data.gone} results said nothing about the network; ${data.refused} requests refused.`;
    // Agents that need attention first; a page of ten thousand rows helps nobody.
    const order = { silent: 0, "never seen": 1, up: 2 };
    const sorted = [...agents].sort((a, b) => order[a.state] - order[b.state]);
    const columns = ["Host", "ToR", "State", "Times", ...["Seen", "Probes", "Answered", "Waiting", "Strangers", "Prober", "Responder"].map(number)];
    byId("agents").replaceChildren(table(columns, sorted.slice(0, 200).map((agent) => {
      const health = agent.health || {};
      const text = element("span", { class: agent.state === "up" ? "good" : "bad" }, agent.state);
      const counts = [health.probes, health.answered, health.waiting, health.strange].map((count) => count ?? "\u2013");
      return [agent.host, agent.tor, text, health.hardware_times ? "hardware" : "software",
        agent.seen_ms === undefined ? "\u2013" : age(agent.seen_ms), ...counts, time(agent.prober_us), time(agent.responder_us)];
    })));
    await detail(false);
  } catch (error) {
    const last = state.answered
      ? `What is below is as of ${clock(state.answered)}, ${age(Date.now() - state.answered)} ago (${error.message}).`
      : `No data yet (${error.message}).`;
    drawState("stale", "The controller does not answer: the state of the network is unknown", last);
  }
}

function select(id, label, options) {
  const press = choice(byId(id), label, options, state[id], (value) => {
    state[id] = value;
    press(value);
    refresh();
  });
}

document.documentElement.classList.add("js");
select("metric", "Metric", METRICS);
select("window", "Window", WINDOWS);
enableTips();
enableLayout();
refresh();
setInterval(refresh, 5000);
