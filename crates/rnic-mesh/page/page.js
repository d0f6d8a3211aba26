// The page of the mesh. It asks the controller every few seconds, and builds all text with text nodes: names come from
// agents and files.

import { brief } from "./numbers.js";
import { choice, element } from "./dom.js";
import { number, table } from "./table.js";
import { enableTips } from "./tip.js";
import { enableLayout } from "./layout.js";
import { boardFrame, showBoard } from "./board.js";

const METRICS = [["p50-us", "p50"], ["p99-us", "p99"], ["p999-us", "p99.9"], ["loss", "loss"]];
const WINDOWS = [["1m", "1 min"], ["10m", "10 min"], ["1h", "1 h"]];
const state = { metric: "p99-us", window: "1m", tors: null, pair: null };

const $ = (id) => document.getElementById(id);

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

// Colour of a value: from green over yellow to red, on a logarithmic scale. Loss is red from 10 % on; a time is red from
// ten times the median of all cells on.
function colour(metric, value, median) {
  if (value === null) return ["var(--panel)", "var(--muted)"];
  let part;
  if (metric === "loss") part = value === 0 ? 0 : Math.min(1, Math.max(0.15, (Math.log10(value) + 4) / 3));
  else part = Math.min(1, Math.max(0, Math.log10(value / Math.max(median, 1e-9)) / 1 * 0.75 + 0.15));
  const hue = 140 - 140 * part;
  return [`hsl(${hue.toFixed(0)} 60% ${(82 - 22 * part).toFixed(0)}%)`, "#101418"];
}

function paint(cell, [back, text]) {
  cell.style.background = back;
  cell.style.color = text;
}

function drawMap(data) {
  const map = $("map");
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
  const values = data.cells.map((cell) => cell[2]).filter((value) => value !== null).sort((a, b) => a - b);
  const median = values.length ? values[Math.floor(values.length / 2)] : 1;
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
    const button = element("button", { type: "button", title, "aria-label": title, "data-key": `${from} ${to}`,
      class: many ? null : "few", click: () => { state.tors = [from, to]; state.pair = null; detail(true); } }, many ? "" : text);
    paint(button, colour(data.metric, value, median));
    return element("td", {}, button);
  })));
  map.replaceChildren(element("thead", {}, head), element("tbody", {}, rows));
  if (focused) for (const button of map.querySelectorAll("button")) if (button.dataset.key === focused) button.focus();
  let legend = "No answered probes in this window.";
  if (data.metric === "loss") legend = "Green: nothing lost; red: 10 % and more.";
  else if (values.length) legend = `Green: around the median of all cells (${time(median)}) and below; red: ten times of it and more.`;
  $("legend").textContent = legend;
}

const SYMPTOMS = { loss: "Loss", delay: "Delay", "slow-host": "Slow host" };

function drawFindings(data) {
  const cards = data.findings.map((finding) => element("div", { class: `card ${finding.symptom}`, "data-symptom": finding.symptom },
    element("strong", {}, `${SYMPTOMS[finding.symptom]}: ${finding.parts.join(" or ")}`),
    finding.symptom === "slow-host"
      ? `its software takes ${finding.score.toFixed(0)} times as long as that of the median host`
      : `${finding.bad} of ${finding.probes} probes through it were ${finding.symptom === "loss" ? "lost" : "slow"}`));
  $("findings").replaceChildren(...(cards.length ? cards : [element("p", { class: "good" }, "No part of the network explains failures.")]));
  const rows = data.alarms.map((alarm) => [alarm.rule, alarm.about, show(alarm.metric, alarm.value), show(alarm.metric, alarm.raise), age(alarm.age_ms)]);
  const ended = data.ended.map((alarm) => [alarm.rule, alarm.about, age(alarm.age_ms), age(alarm.ended_ms)]);
  const parts = [rows.length ? table(["Rule", "About", ...["Value", "Bound", "Since"].map(number)], rows) : element("p", { class: "good" }, "No alarm is on.")];
  if (ended.length) {
    parts.push(element("details", {}, element("summary", {}, `${ended.length} ended`), table(["Rule", "About", number("Began before"), number("Ended before")], ended)));
  }
  const open = $("alarms").querySelector("details");
  $("alarms").replaceChildren(...parts);
  if (open && open.open && parts[1]) parts[1].open = true;
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
  $("series").replaceChildren(root);
  updateSeries = showBoard(root, data);
}

const get = async (path) => {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
};
const query = (from, to) => `from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`;

async function detail(jump) {
  if (!state.tors) return;
  const [from, to] = state.tors;
  const data = await get(`api/tors?${query(from, to)}`);
  if (!state.tors || state.tors[0] !== from || state.tors[1] !== to) return;
  $("detail").hidden = false;
  $("detail-title").textContent = `${from} to ${to}`;
  drawSeries(data.history);
  const rows = data.pairs.map((pair) => [
    element("button", { type: "button", class: "link", click: () => { state.pair = [pair.prober, pair.target]; paths(true); } }, `${pair.prober} to ${pair.target}`),
    pair.probes, loss(pair), time(pair.mean_us), time(pair.max_us),
  ]);
  const parts = [element("p", { class: "weak" }, `${data.all} pairs of hosts, the worst first; last ten minutes`), table(["Pair", ...["Probes", "Lost", "Mean", "Max"].map(number)], rows)];
  $("pairs").replaceChildren(...parts);
  if (jump) {
    $("paths").replaceChildren();
    $("detail").scrollIntoView({ block: "start" });
  }
  if (state.pair) await paths(false);
}

async function paths(jump) {
  const [from, to] = state.pair;
  const data = await get(`api/pair?${query(from, to)}`);
  const way = (hops) => (hops && hops.length ? hops.join(" \u2192 ") : "not traced");
  const rows = data.paths.map((path) => [path.path, path.source_port, path.probes, loss(path), path.slow, way(path.hops), way(path.back)]);
  const minutes = data.minutes.map((m) => [age(m.age_ms), m.probes, loss(m), time(m.mean_us), time(m.max_us)]);
  $("paths").replaceChildren(
    element("h3", {}, `${from} to ${to}`),
    table([...["Path", "Source port", "Probes", "Lost", "Slow"].map(number), "There", "Back"], rows),
    table(["Ago", "Probes", "Lost", "Mean", "Max"].map(number), minutes));
  if (jump) $("paths").scrollIntoView({ block: "nearest" });
}

async function refresh() {
  try {
    const [data, agents] = await Promise.all([get(`api/overview?window=${state.window}&metric=${state.metric}`), get("api/agents")]);
    const trouble = data.storage ? ` Storage: ${data.storage}` : "";
    const note = data.note ? `${data.note}. ` : "";
    $("status").textContent = `${note}${data.agents.up} of ${data.agents.known} agents up, ${data.probes} results.${trouble}`;
    $("status").className = trouble ? "bad" : "";
    drawFindings(data);
    drawMap(data);
    $("scopes").replaceChildren(table(["Scope", ...["Probes", "Lost", "p50", "p99", "p99.9"].map(number)],
      data.scopes.map((scope) => [scope.scope, scope.probes, loss(scope), time(scope.p50_us), time(scope.p99_us), time(scope.p999_us)])));
    $("agents-summary").textContent = `${data.agents.waiting} results wait at agents, ${data.agents.discarded} were discarded there; ${data.gone} results said nothing about the network; ${data.refused} requests refused.`;
    // Agents that need attention first; a page of ten thousand rows helps nobody.
    const order = { silent: 0, "never seen": 1, up: 2 };
    const sorted = [...agents].sort((a, b) => order[a.state] - order[b.state]);
    const columns = ["Host", "ToR", "State", "Times", ...["Seen", "Probes", "Answered", "Waiting", "Strangers", "Prober", "Responder"].map(number)];
    $("agents").replaceChildren(table(columns, sorted.slice(0, 200).map((agent) => {
      const health = agent.health || {};
      const text = element("span", { class: agent.state === "up" ? "good" : "bad" }, agent.state);
      const counts = [health.probes, health.answered, health.waiting, health.strange].map((count) => count ?? "\u2013");
      return [agent.host, agent.tor, text, health.hardware_times ? "hardware" : "software",
        agent.seen_ms === undefined ? "\u2013" : age(agent.seen_ms), ...counts, time(agent.prober_us), time(agent.responder_us)];
    })));
    await detail(false);
  } catch (error) {
    $("status").textContent = `The controller does not answer: ${error.message}`;
    $("status").className = "bad";
  }
}

function select(id, label, options) {
  const press = choice($(id), label, options, state[id], (value) => {
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
