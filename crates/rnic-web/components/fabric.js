// The picture of a fabric at an instant of a recording, on a canvas: nodes by their tiers, links with their
// utilisation, queues as bars at the ports, pauses, losses, and the path of a flow.
//
// Everything is told by shape as well as by colour: a busy link is wide, a paused one has bars across it and an arrow
// from the cause to the paused port, a drop is a cross and a trimmed packet a triangle.

import { frameAt, lossesIn, pausesAt, cycleAt } from "./recording.js";

// Number of steps of the utilisation that are drawn apart.
const LEVELS = 12;
// With more ports no line is wider than a pixel, because thousands of wider lines that cross take five times as long;
// and signs are smaller, so that hundreds of them do not hide the links.
const MANY_PORTS = 1500;
const SMALL_SIGNS = 0.55;
// Number of shades of a cell of the matrix.
const SHADES = 32;
const MARGIN = { left: 14, right: 14, top: 26, bottom: 26 };

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const parsed = (text) => [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));

// Colours between two of the page, as a list of `count` of red, green and blue.
export const levels = (from, to, count) => {
  const [low, high] = [parsed(from), parsed(to)];
  return Array.from({ length: count }, (_, i) => (
    low.map((value, c) => Math.round(value + (high[c] - value) * (i / (count - 1))))
  ));
};

// The same as colours of CSS.
export const ramp = (from, to, count) => levels(from, to, count).map((parts) => `rgb(${parts.join(",")})`);

// The colours of the page now, light or dark.
export const inks = () => {
  const names = { ground: "--bg", text: "--text", muted: "--muted", line: "--line", strong: "--strong-line" };
  const used = { queue: "--c1", pause: "--c4", chosen: "--c3", flow: "--c2", busy: "--c0" };
  const found = Object.entries({ ...names, ...used }).map(([key, name]) => [key, colourOf(name)]);
  const colours = Object.fromEntries(found);
  const idle = colours.line.startsWith("#") ? colours.line : "#cccccc";
  return { ...colours, use: ramp(idle, colours.busy, LEVELS), shades: levels(colours.ground, colours.text, SHADES) };
};

// Gives the canvas the size of its box, sharp on this screen. Returns its context, in pixels of the page.
export const fitted = (canvas, width, height) => {
  const ratio = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    // A style that is set again would lay the page out again.
    [canvas.width, canvas.height] = [w, h];
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
};

// Places of nodes and of the ends of ports in a picture of this size.
export const placesOf = (recording, width, height) => {
  const { nodes, ports } = recording;
  const inside = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  const x = nodes.x.map((part) => MARGIN.left + part * inside.w);
  const y = nodes.y.map((part) => MARGIN.top + part * inside.h);
  const links = ports.node.map((node, port) => {
    const other = ports.node[ports.peer[port]];
    const [dx, dy] = [x[other] - x[node], y[other] - y[node]];
    const length = Math.hypot(dx, dy) || 1;
    // Each direction is drawn on its right-hand side.
    const [ox, oy] = [(-dy / length) * 1.8, (dx / length) * 1.8];
    const ends = { x1: x[node] + ox, y1: y[node] + oy, x2: x[other] + ox, y2: y[other] + oy };
    return { ...ends, ux: dx / length, uy: dy / length, length };
  });
  const room = distance(nodes, x, y);
  const hostSize = Math.max(1.5, Math.min(5, room * 0.36));
  // For each port that is drawn in the cell of a host, the host; -1 for a port with a line.
  const isHost = nodes.kind.map((kind) => kind === "host");
  const cellOf = (node, port) => (isHost[node] ? node : isHost[ports.node[ports.peer[port]]] ? ports.node[ports.peer[port]] : -1);
  const cell = Int32Array.from(ports.node, (node, port) => (recording.cells ? cellOf(node, port) : -1));
  const byLevel = Array.from({ length: LEVELS }, () => []);
  return { x, y, links, cell, byLevel, hostRoom: recording.cells ? room : 0, hostSize, width, height, layers: {} };
};

// Lists of what is drawn at each step of the utilisation: the same, emptied, in each drawing, for a list that grows anew
// takes longer than its drawing.
const emptied = ({ byLevel }) => {
  for (const list of byLevel) list.length = 0;
  return byLevel;
};

// The distance of neighbouring hosts, in pixels.
const distance = (nodes, x, y) => {
  const hosts = nodes.kind.map((_, node) => node).filter((node) => nodes.kind[node] === "host");
  let least = 24;
  for (let i = 1; i < hosts.length; i++) {
    const [a, b] = [hosts[i - 1], hosts[i]];
    const away = Math.max(Math.abs(x[a] - x[b]), Math.abs(y[a] - y[b]));
    if (away > 0.5) least = Math.min(least, away);
  }
  return Math.max(2, least);
};

const stroked = (context, links) => {
  context.beginPath();
  for (const link of links) {
    context.moveTo(link.x1, link.y1);
    context.lineTo(link.x2, link.y2);
  }
  context.stroke();
};

// A part of the picture that does not change over time: it is drawn once, because it takes most of the time in a large
// fabric. `key` has the colours of which it is made.
const drawLayer = (context, places, name, key, draw) => {
  if (places.layers[name]?.key !== key) {
    const canvas = document.createElement("canvas");
    draw(fitted(canvas, places.width, places.height));
    places.layers[name] = { key, canvas };
  }
  context.drawImage(places.layers[name].canvas, 0, 0, places.width, places.height);
};

// The step of the utilisation of a port; 0 is idle.
const levelOf = (used) => (used === 0 ? 0 : 1 + Math.floor((used * (LEVELS - 2)) / 255));

const drawLinks = (context, recording, places, colours, at) => {
  drawLayer(context, places, "idle", colours.use[0], (layer) => {
    layer.strokeStyle = colours.use[0];
    layer.lineWidth = 0.6;
    stroked(layer, places.links.filter((_, port) => places.cell[port] < 0));
  });
  const found = emptied(places);
  for (let port = 0; port < recording.count; port++) {
    const used = recording.used[at + port];
    if (used > 0 && places.cell[port] < 0) found[levelOf(used)].push(places.links[port]);
  }
  const most = recording.count > MANY_PORTS ? 1 : Math.max(1.6, Math.min(5, 1500 / recording.count));
  found.forEach((links, level) => {
    if (!links.length) return;
    context.strokeStyle = colours.use[level];
    context.lineWidth = 0.6 + (most - 0.6) * (level / (LEVELS - 1));
    stroked(context, links);
  });
};

// Hosts as cells: the left half is what the host sends, the right half what it receives.
const drawCells = (context, recording, places, colours, at) => {
  const size = places.hostRoom * 0.86;
  const found = emptied(places);
  for (let port = 0; port < recording.count; port++) {
    const host = places.cell[port];
    if (host < 0) continue;
    const sends = recording.ports.node[port] === host;
    found[levelOf(recording.used[at + port])].push(places.x[host] - (sends ? size / 2 : 0), places.y[host] - size / 2);
  }
  found.forEach((spots, level) => {
    context.fillStyle = colours.use[level];
    for (let i = 0; i < spots.length; i += 2) context.fillRect(spots[i], spots[i + 1], size / 2 - 0.4, size);
  });
};

// Queues as bars from the ports along their links, in one path.
const drawQueues = (context, recording, places, colours, at) => {
  if (!recording.maxQueued) return;
  const size = places.hostRoom * 0.86;
  context.fillStyle = colours.queue;
  context.beginPath();
  for (let port = 0; port < recording.count; port++) {
    const queued = recording.queued[at + port];
    if (!queued) continue;
    const part = queued / recording.maxQueued;
    const host = places.cell[port];
    if (host >= 0) {
      const height = Math.max(1, size * part);
      context.rect(places.x[host] + size / 4, places.y[host] + size / 2 - height, size / 4, height);
      continue;
    }
    const { x1, y1, ux, uy, length } = places.links[port];
    const long = Math.max(2, Math.min(44, length * 0.4) * part);
    const [x, y] = [x1 + ux * 9, y1 + uy * 9];
    context.moveTo(x, y);
    context.lineTo(x + ux * long, y + uy * long);
    context.lineTo(x + ux * long - uy * 5, y + uy * long + ux * 5);
    context.lineTo(x - uy * 5, y + ux * 5);
    context.closePath();
  }
  context.fill();
};

const nodeSize = (recording, places, node) => {
  const crowd = recording.nodes.name.length;
  if (recording.nodes.kind[node] === "host") return places.hostSize;
  return crowd > 600 ? 4 : crowd > 100 ? 5.5 : 8;
};

const drawNodes = (context, recording, places, colours) => {
  const { kind } = recording.nodes;
  context.lineWidth = 1.2;
  context.strokeStyle = colours.text;
  context.fillStyle = colours.ground;
  kind.forEach((what, node) => {
    if (what === "host" && recording.cells) return;
    const size = nodeSize(recording, places, node);
    context.beginPath();
    if (what === "host") context.arc(places.x[node], places.y[node], size, 0, 7);
    else context.rect(places.x[node] - size, places.y[node] - size * 0.7, size * 2, size * 1.4);
    context.fill();
    context.stroke();
  });
};

// The names of nodes, where there is room for them.
const drawNames = (context, recording, places, colours) => {
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.fillStyle = colours.muted;
  context.strokeStyle = colours.ground;
  context.lineWidth = 3;
  const taken = [];
  recording.nodes.name.forEach((text, node) => {
    if (recording.cells && recording.nodes.kind[node] === "host") return;
    // A group of nodes has the names of its first and its last node.
    const short = text.length > 18 ? `${text.slice(0, 17)}\u2026` : text;
    const half = context.measureText(short).width / 2;
    const below = places.y[node] > places.height * 0.6;
    const away = nodeSize(recording, places, node);
    const y = places.y[node] + (below ? away + 12 : -away - 4);
    const x = Math.max(half, Math.min(places.width - half, places.x[node]));
    if (taken.some((other) => Math.abs(other.x - x) < other.half + half + 4 && Math.abs(other.y - y) < 11)) return;
    taken.push({ x, y, half });
    context.strokeText(short, x, y);
    context.fillText(short, x, y);
  });
};

// Adds the lines of arrows to the path, each `[x1, y1, x2, y2]`.
const addLines = (context, arrows) => {
  for (const [x1, y1, x2, y2] of arrows) {
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
  }
};

// The size of signs at links and ports, relative to the size in a small fabric.
const signsOf = (recording) => (recording.count > MANY_PORTS ? SMALL_SIGNS : 1);

// Adds the heads of arrows, `long` pixels long, to the path.
const addHeads = (context, arrows, long) => {
  for (const [x1, y1, x2, y2] of arrows) {
    const angle = Math.atan2(y2 - y1, x2 - x1);
    context.moveTo(x2, y2);
    for (const side of [2.6, -2.6]) context.lineTo(x2 + long * Math.cos(angle + side), y2 + long * Math.sin(angle + side));
    context.closePath();
  }
};

const strokePath = (context, width, add) => {
  context.lineWidth = width;
  context.beginPath();
  add();
  context.stroke();
};

// The arrow of a paused link, from the node that pauses to the paused port.
const arrowOf = ({ x1, y1, x2, y2, ux, uy }) => {
  const [ox, oy] = [-uy * 3, ux * 3];
  return [x2 - ux * 11 + ox, y2 - uy * 11 + oy, x1 + ux * 12 + ox, y1 + uy * 12 + oy];
};

// The bars across the middle of a paused link, `sign` times as large as in a small fabric.
const addBars = (context, { x1, y1, x2, y2, ux, uy }, sign) => {
  for (const shift of [-3 * sign, 3 * sign]) {
    const [x, y] = [(x1 + x2) / 2 + ux * shift, (y1 + y2) / 2 + uy * shift];
    const half = 7 * sign;
    context.moveTo(x - uy * half, y + ux * half);
    context.lineTo(x + uy * half, y - ux * half);
  }
};

// Bars across each paused link and an arrow from the node that pauses to the paused port; the root causes as rings. All
// signs of a kind are one path.
const drawPauses = (context, recording, places, colours, time) => {
  const pauses = pausesAt(recording, time);
  const cycle = new Set(cycleAt(recording, time));
  const ports = pauses.map(({ port }) => port);
  const inCells = ports.filter((port) => places.cell[port] >= 0);
  const onLinks = ports.filter((port) => places.cell[port] < 0);
  const arrows = (wanted) => onLinks.filter((port) => cycle.has(port) === wanted).map((port) => arrowOf(places.links[port]));
  context.strokeStyle = colours.pause;
  context.fillStyle = colours.pause;
  const [size, sign] = [places.hostRoom * 0.86, signsOf(recording)];
  strokePath(context, 1.6 * sign, () => {
    for (const host of inCells.map((port) => places.cell[port])) {
      context.rect(places.x[host] - size / 2, places.y[host] - size / 2, size, size);
    }
  });
  for (const [wanted, width] of [[false, 2.2], [true, 4]]) {
    const found = arrows(wanted);
    strokePath(context, width * sign, () => addLines(context, found));
    context.beginPath();
    addHeads(context, found, 9 * sign);
    context.fill();
  }
  strokePath(context, 2.4 * sign, () => { for (const port of onLinks) addBars(context, places.links[port], sign); });
  strokePath(context, 2.4 * sign, () => {
    for (const root of new Set(pauses.map((pause) => pause.root).filter((port) => port >= 0))) {
      const [host, link] = [places.cell[root], places.links[root]];
      const [x, y, radius] = host >= 0
        ? [places.x[host], places.y[host], places.hostRoom * 0.8]
        : [link.x1 + link.ux * 12 * sign, link.y1 + link.uy * 12 * sign, 10 * sign];
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 7);
    }
  });
};

// Crosses for packets that were dropped or lost, triangles for trimmed ones.
const drawLosses = (context, recording, places, colours, frame) => {
  context.strokeStyle = colours.text;
  context.fillStyle = colours.text;
  const spots = lossesIn(recording, frame).map(([port, kind]) => {
    const [link, host] = [places.links[port], places.cell[port]];
    const away = host >= 0 ? 0 : 15;
    const isEnd = host >= 0 && recording.ports.node[port] !== host;
    const [x, y] = isEnd ? [link.x2, link.y2] : [link.x1 + link.ux * away, link.y1 + link.uy * away];
    return { x, y, isTrim: kind === "trimmed" };
  });
  strokePath(context, 2.2, () => {
    for (const { x, y } of spots.filter(({ isTrim }) => !isTrim)) {
      addLines(context, [[x - 5, y - 5, x + 5, y + 5], [x - 5, y + 5, x + 5, y - 5]]);
    }
  });
  context.beginPath();
  for (const { x, y } of spots.filter(({ isTrim }) => isTrim)) {
    context.moveTo(x - 5, y - 4);
    context.lineTo(x + 5, y - 4);
    context.lineTo(x, y + 5);
    context.closePath();
  }
  context.fill();
};

const drawPath = (context, places, path, colour) => {
  context.strokeStyle = colour;
  context.globalAlpha = 0.55;
  context.lineWidth = 7;
  context.lineCap = "round";
  context.beginPath();
  for (const port of path) {
    const link = places.links[port];
    context.moveTo(link.x1, link.y1);
    context.lineTo(link.x2, link.y2);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.lineCap = "butt";
};

const drawChosen = (context, recording, places, colours, chosen) => {
  if (!chosen) return;
  if (chosen.kind === "port") drawPath(context, places, [chosen.id], colours.chosen);
  if (chosen.kind !== "node") return;
  context.strokeStyle = colours.chosen;
  context.lineWidth = 3;
  context.beginPath();
  context.arc(places.x[chosen.id], places.y[chosen.id], nodeSize(recording, places, chosen.id) + 6, 0, 7);
  context.stroke();
};

// Draws the fabric at a time. `chosen` is null or `{ kind, id }` with a kind "node", "port" or "flow". Returns the
// places, which `hit` needs.
export const drawFabric = (canvas, recording, time, { width, height, chosen = null, colours = inks() }) => {
  const context = fitted(canvas, width, height);
  const kept = canvas.places;
  const places = kept && kept.of === recording && kept.width === width && kept.height === height
    ? kept
    : { ...placesOf(recording, width, height), of: recording };
  canvas.places = places;
  if (!recording.times.length) return places;
  const frame = frameAt(recording, time);
  const at = frame * recording.count;
  const flow = chosen && chosen.kind === "flow" ? recording.flows.get(chosen.id) : null;
  if (flow) drawPath(context, places, flow.path, colours.flow);
  drawChosen(context, recording, places, colours, chosen);
  drawLinks(context, recording, places, colours, at);
  if (recording.cells) drawCells(context, recording, places, colours, at);
  const key = `${colours.text} ${colours.ground} ${colours.muted}`;
  drawLayer(context, places, "nodes", key, (layer) => drawNodes(layer, recording, places, colours));
  drawQueues(context, recording, places, colours, at);
  drawPauses(context, recording, places, colours, time);
  drawLosses(context, recording, places, colours, frame);
  drawLayer(context, places, "names", key, (layer) => drawNames(layer, recording, places, colours));
  return places;
};

// The node or port at a position of the picture, as `{ kind, id }`; null if there is none.
export const hit = (recording, places, x, y) => {
  const near = { id: -1, away: Math.max(9, places.hostRoom / 2) };
  places.x.forEach((nodeX, node) => {
    const away = Math.hypot(nodeX - x, places.y[node] - y);
    if (away < near.away) Object.assign(near, { id: node, away });
  });
  if (near.id >= 0) return { kind: "node", id: near.id };
  let best = { id: -1, away: 6 };
  places.links.forEach((link, port) => {
    if (places.cell[port] >= 0) return;
    const along = Math.max(0, Math.min(link.length, (x - link.x1) * link.ux + (y - link.y1) * link.uy));
    const away = Math.hypot(link.x1 + along * link.ux - x, link.y1 + along * link.uy - y);
    if (away < best.away) best = { id: port, away };
  });
  return best.id < 0 ? null : { kind: "port", id: best.id };
};
