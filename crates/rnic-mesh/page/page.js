// The page of the mesh. It asks the controller every few seconds, and builds all text with textContent: names come from
// agents and files.
'use strict';

const METRICS = [['p50-us', 'p50'], ['p99-us', 'p99'], ['p999-us', 'p99.9'], ['loss', 'loss']];
const WINDOWS = [['1m', '1 min'], ['10m', '10 min'], ['1h', '1 h']];
const state = { metric: 'p99-us', window: '1m', tors: null, pair: null };

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'click') made.addEventListener('click', value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : String(child));
  }
  return made;
}

function time(us) {
  if (us === null || us === undefined) return '\u2013';
  if (us < 1000) return `${us < 10 ? us.toFixed(1) : us.toFixed(0)} \u00b5s`;
  const ms = us / 1000;
  return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}

function percent(share) {
  if (share === 0) return '0 %';
  const value = share * 100;
  return `${value < 1 ? value.toFixed(2) : value.toFixed(1)} %`;
}

const loss = (row) => (row.probes ? percent(row.lost / row.probes) : '\u2013');
const show = (metric, value) => (value === null ? '\u2013' : metric === 'loss' ? percent(value) : time(value));

function age(ms) {
  const s = Math.round(ms / 1000);
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return `${Math.round(s / 3600)} h`;
}

function table(head, rows) {
  const numeric = (cell) => (typeof cell === 'object' && cell !== null && 'number' in cell && !(cell instanceof Node));
  const td = (cell) => numeric(cell) ? element('td', { class: 'number' }, cell.number) : element('td', {}, cell);
  const th = (title) => element('th', { scope: 'col', class: title.startsWith('#') ? 'number' : null }, title.replace(/^#/, ''));
  return element('table', {},
    element('thead', {}, element('tr', {}, head.map(th))),
    element('tbody', {}, rows.map((row) => element('tr', {}, row.map(td)))));
}

const number = (text) => ({ number: text });

// Colour of a value: from green over yellow to red, on a logarithmic scale. Loss is red from 10 % on; a time is red from
// ten times the median of all cells on.
function colour(metric, value, median) {
  if (value === null) return ['var(--panel)', 'var(--weak)'];
  let part;
  if (metric === 'loss') part = value === 0 ? 0 : Math.min(1, Math.max(0.15, (Math.log10(value) + 4) / 3));
  else part = Math.min(1, Math.max(0, Math.log10(value / Math.max(median, 1e-9)) / 1 * 0.75 + 0.15));
  const hue = 140 - 140 * part;
  return [`hsl(${hue.toFixed(0)} 60% ${(82 - 22 * part).toFixed(0)}%)`, '#101418'];
}

function paint(cell, [back, text]) {
  cell.style.background = back;
  cell.style.color = text;
}

function drawMap(data) {
  const map = $('map');
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
  const values = data.cells.map((cell) => cell[2]).filter((value) => value !== null).sort((a, b) => a - b);
  const median = values.length ? values[Math.floor(values.length / 2)] : 1;
  const by = new Map(data.cells.map((cell) => [`${cell[0]} ${cell[1]}`, cell]));
  const many = data.tors.length > 16;
  map.className = many ? 'many' : '';
  const head = element('tr', {}, element('td'), data.tors.map((name) => element('th', { scope: 'col' }, element('span', {}, name))));
  const rows = data.tors.map((from, a) => element('tr', {}, element('th', { scope: 'row' }, from), data.tors.map((to, b) => {
    const cell = by.get(`${a} ${b}`);
    if (!cell) return element('td', { class: 'none' });
    const [, , value, probes, lost] = cell;
    const text = show(data.metric, value);
    const title = `${from} to ${to}: ${text}; ${probes} probes, ${lost} lost`;
    const button = element('button', { type: 'button', title, 'aria-label': title, 'data-key': `${from} ${to}`,
      class: many ? null : 'few', click: () => { state.tors = [from, to]; state.pair = null; detail(true); } }, many ? '' : text);
    paint(button, colour(data.metric, value, median));
    return element('td', {}, button);
  })));
  map.replaceChildren(element('thead', {}, head), element('tbody', {}, rows));
  if (focused) for (const button of map.querySelectorAll('button')) if (button.dataset.key === focused) button.focus();
  $('legend').textContent = data.metric === 'loss'
    ? 'Green: nothing lost; red: 10 % and more.'
    : `Green: around the median of all cells (${time(median)}) and below; red: ten times of it and more.`;
}

const SYMPTOMS = { loss: 'Loss', delay: 'Delay', 'slow-host': 'Slow host' };

function drawFindings(data) {
  const cards = data.findings.map((finding) => element('div', { class: `card ${finding.symptom}`, 'data-symptom': finding.symptom },
    element('strong', {}, `${SYMPTOMS[finding.symptom]}: ${finding.parts.join(' or ')}`),
    finding.symptom === 'slow-host'
      ? `its software takes ${finding.score.toFixed(0)} times as long as that of the median host`
      : `${finding.bad} of ${finding.probes} probes through it were ${finding.symptom === 'loss' ? 'lost' : 'slow'}`));
  $('findings').replaceChildren(...(cards.length ? cards : [element('p', { class: 'good' }, 'No part of the network explains failures.')]));
  const rows = data.alarms.map((alarm) => [alarm.rule, alarm.about, number(show(alarm.metric, alarm.value)), number(show(alarm.metric, alarm.raise)), number(age(alarm.age_ms))]);
  const ended = data.ended.map((alarm) => [alarm.rule, alarm.about, number(age(alarm.age_ms)), number(age(alarm.ended_ms))]);
  const parts = [rows.length ? table(['Rule', 'About', '#Value', '#Bound', '#Since'], rows) : element('p', { class: 'good' }, 'No alarm is on.')];
  if (ended.length) {
    parts.push(element('details', {}, element('summary', {}, `${ended.length} ended`), table(['Rule', 'About', '#Began before', '#Ended before'], ended)));
  }
  const open = $('alarms').querySelector('details');
  $('alarms').replaceChildren(...parts);
  if (open && open.open && parts[1]) parts[1].open = true;
}

function svg(name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// p50 and p99 over time on a logarithmic axis, and bars of lost probes below.
function chart(history) {
  const fine = history.filter((point) => point.length_ms === 10000);
  const points = (history.length - fine.length > 3 ? history.filter((point) => point.length_ms > 10000) : fine)
    .filter((point) => point.probes > 0).sort((a, b) => b.age_ms - a.age_ms);
  const [width, height, left, bottom] = [720, 220, 64, 44];
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': 'Round-trip times and lost probes over time' });
  const values = points.flatMap((point) => [point.p50_us, point.p99_us]).filter((value) => value !== null && value > 0);
  if (!values.length) {
    picture.append(svg('text', { x: 20, y: 40 }, 'No answered probes in this time.'));
    return picture;
  }
  const low = Math.log10(Math.min(...values)) - 0.1;
  const high = Math.max(Math.log10(Math.max(...values)) + 0.1, low + 0.5);
  const oldest = Math.max(...points.map((point) => point.age_ms), 60000);
  const x = (point) => left + (width - left - 10) * (1 - Math.max(0, point.age_ms - point.length_ms / 2) / oldest);
  const y = (value) => 10 + (height - bottom - 10) * (1 - (Math.log10(value) - low) / (high - low));
  for (let step = 0; step <= 3; step += 1) {
    const value = 10 ** (low + (high - low) * step / 3);
    picture.append(svg('line', { class: 'axis', x1: left, x2: width - 10, y1: y(value), y2: y(value) }));
    picture.append(svg('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, time(value)));
  }
  for (const [name, key] of [['p50', 'p50_us'], ['p99', 'p99_us']]) {
    const known = points.filter((point) => point[key] !== null);
    picture.append(svg('polyline', { class: name, points: known.map((point) => `${x(point).toFixed(1)},${y(point[key]).toFixed(1)}`).join(' ') }));
  }
  for (const point of points.filter((p) => p.lost > 0)) {
    const size = Math.max(3, 24 * point.lost / point.probes);
    const bar = svg('rect', { class: 'lost', x: x(point) - 2, width: 4, y: height - 18 - size, height: size });
    bar.append(svg('title', {}, `${point.lost} of ${point.probes} probes lost`));
    picture.append(bar);
  }
  picture.append(svg('text', { x: left, y: height - 4 }, `${age(oldest)} ago`));
  picture.append(svg('text', { x: width - 10, y: height - 4, 'text-anchor': 'end' }, 'now; solid: p99, dashed: p50, bars: share of lost probes'));
  return picture;
}

const get = async (path) => {
  const response = await fetch(path, { cache: 'no-store' });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
};
const query = (from, to) => `from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`;

async function detail(jump) {
  if (!state.tors) return;
  const [from, to] = state.tors;
  const data = await get(`api/tors?${query(from, to)}`);
  if (!state.tors || state.tors[0] !== from || state.tors[1] !== to) return;
  $('detail').hidden = false;
  $('detail-title').textContent = `${from} to ${to}`;
  $('series').replaceChildren(chart(data.history));
  const rows = data.pairs.map((pair) => [
    element('button', { type: 'button', class: 'link', click: () => { state.pair = [pair.prober, pair.target]; paths(true); } }, `${pair.prober} to ${pair.target}`),
    number(pair.probes), number(loss(pair)), number(time(pair.mean_us)), number(time(pair.max_us)),
  ]);
  const parts = [element('p', { class: 'weak' }, `${data.all} pairs of hosts, the worst first; last ten minutes`), table(['Pair', '#Probes', '#Lost', '#Mean', '#Max'], rows)];
  $('pairs').replaceChildren(...parts);
  if (jump) {
    $('paths').replaceChildren();
    $('detail').scrollIntoView({ block: 'start' });
  }
  if (state.pair) await paths(false);
}

async function paths(jump) {
  const [from, to] = state.pair;
  const data = await get(`api/pair?${query(from, to)}`);
  const way = (hops) => (hops && hops.length ? hops.join(' \u2192 ') : 'not traced');
  const rows = data.paths.map((path) => [number(path.path), number(path.source_port), number(path.probes), number(loss(path)), number(path.slow), way(path.hops), way(path.back)]);
  const minutes = data.minutes.map((m) => [number(age(m.age_ms)), number(m.probes), number(loss(m)), number(time(m.mean_us)), number(time(m.max_us))]);
  $('paths').replaceChildren(
    element('h3', {}, `${from} to ${to}`),
    element('div', { class: 'scroll' }, table(['#Path', '#Source port', '#Probes', '#Lost', '#Slow', 'There', 'Back'], rows)),
    element('div', { class: 'scroll' }, table(['#Ago', '#Probes', '#Lost', '#Mean', '#Max'], minutes)));
  if (jump) $('paths').scrollIntoView({ block: 'nearest' });
}

async function refresh() {
  try {
    const [data, agents] = await Promise.all([get(`api/overview?window=${state.window}&metric=${state.metric}`), get('api/agents')]);
    const trouble = data.storage ? ` Storage: ${data.storage}` : '';
    const note = data.note ? `${data.note}. ` : '';
    $('status').textContent = `${note}${data.agents.up} of ${data.agents.known} agents up, ${data.probes} results.${trouble}`;
    $('status').className = trouble ? 'bad' : '';
    drawFindings(data);
    drawMap(data);
    $('scopes').replaceChildren(table(['Scope', '#Probes', '#Lost', '#p50', '#p99', '#p99.9'],
      data.scopes.map((scope) => [scope.scope, number(scope.probes), number(loss(scope)), number(time(scope.p50_us)), number(time(scope.p99_us)), number(time(scope.p999_us))])));
    $('agents-summary').textContent = `${data.agents.waiting} results wait at agents, ${data.agents.discarded} were discarded there; ${data.gone} results said nothing about the network; ${data.refused} requests refused.`;
    // Agents that need attention first; a page of ten thousand rows helps nobody.
    const order = { silent: 0, 'never seen': 1, up: 2 };
    const sorted = [...agents].sort((a, b) => order[a.state] - order[b.state]);
    $('agents').replaceChildren(table(['Host', 'ToR', 'State', 'Times', '#Seen', '#Probes', '#Answered', '#Waiting', '#Strangers', '#Prober', '#Responder'], sorted.slice(0, 200).map((agent) => {
      const health = agent.health || {};
      const text = element('span', { class: agent.state === 'up' ? 'good' : 'bad' }, agent.state);
      return [agent.host, agent.tor, text, health.hardware_times ? 'hardware' : 'software', number(agent.seen_ms === undefined ? '\u2013' : age(agent.seen_ms)), number(health.probes ?? '\u2013'),
        number(health.answered ?? '\u2013'), number(health.waiting ?? '\u2013'), number(health.strange ?? '\u2013'), number(time(agent.prober_us)), number(time(agent.responder_us))];
    })));
    await detail(false);
  } catch (error) {
    $('status').textContent = `The controller does not answer: ${error.message}`;
    $('status').className = 'bad';
  }
}

function choice(id, options) {
  const draw = () => $(id).replaceChildren(...options.map(([value, text]) => element('button', {
    type: 'button', 'aria-pressed': String(state[id] === value), 'data-value': value,
    click: () => { state[id] = value; draw(); refresh(); },
  }, text)));
  draw();
}

choice('metric', METRICS);
choice('window', WINDOWS);
refresh();
setInterval(refresh, 5000);
