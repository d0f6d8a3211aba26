// The picture of a fabric at an instant of a recording, on a canvas: nodes by their tiers, links with their
// utilisation, queues as bars at the ports, pauses, losses, and the path of a flow.
//
// Everything is told by shape as well as by colour: a busy link is wide, a paused one has bars across it and an arrow
// from the cause to the paused port, a drop is a cross and a trimmed packet a triangle.

import { frameAt, lossesIn, pausesAt, cycleAt } from "./recording.js";

// Number of steps of the utilisation that are drawn apart.
const LEVELS = 12;
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
  return { ...colours, use: ramp(idle, colours.busy, LEVELS) };
};

// Gives the canvas the size of its box, sharp on this screen. Returns its context, in pixels of the page.
export const fitted = (canvas, width, height) => {
  const ratio = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  canvas.style.height = `${height}px`;
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
  return { x, y, links, hostRoom: recording.cells ? room : 0, hostSize, width, height };
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

const isCell = (recording, port) => {
  if (!recording.cells) return false;
  const { nodes, ports } = recording;
  return nodes.kind[ports.node[port]] === "host" || nodes.kind[ports.node[ports.peer[port]]] === "host";
};

const stroked = (context, links) => {
  context.beginPath();
  for (const link of links) {
    context.moveTo(link.x1, link.y1);
    context.lineTo(link.x2, link.y2);
  }
  context.stroke();
};

// All links without traffic, as a picture: it is drawn once, because it takes most of the time in a large fabric.
const idleLinks = (recording, places, colours) => {
  const idle = colours.use[0];
  if (places.idle && places.idle.colour === idle) return places.idle.canvas;
  const canvas = document.createElement("canvas");
  const context = fitted(canvas, places.width, places.height);
  context.strokeStyle = idle;
  context.lineWidth = 0.6;
  stroked(context, places.links.filter((_, port) => !isCell(recording, port)));
  places.idle = { colour: idle, canvas };
  return canvas;
};

const drawLinks = (context, recording, places, colours, at) => {
  context.drawImage(idleLinks(recording, places, colours), 0, 0, places.width, places.height);
  const found = Array.from({ length: LEVELS }, () => []);
  for (let port = 0; port < recording.count; port++) {
    if (isCell(recording, port)) continue;
    const used = recording.used[at + port];
    found[used === 0 ? 0 : 1 + Math.floor((used * (LEVELS - 2)) / 255)].push(places.links[port]);
  }
  const most = Math.max(1.6, Math.min(5, 1500 / recording.count));
  found.forEach((links, level) => {
    if (!links.length || level === 0) return;
    context.strokeStyle = colours.use[level];
    context.lineWidth = 0.6 + (most - 0.6) * (level / (LEVELS - 1));
    stroked(context, links);
  });
};

// Hosts as cells: the left half is what the host sends, the right half what it receives.
const drawCells = (context, recording, places, colours, at) => {
  const { ports, nodes } = recording;
  const size = places.hostRoom * 0.86;
  const found = Array.from({ length: LEVELS }, () => []);
  for (let port = 0; port < recording.count; port++) {
    if (!isCell(recording, port)) continue;
    const sends = nodes.kind[ports.node[port]] === "host";
    const host = sends ? ports.node[port] : ports.node[ports.peer[port]];
    const used = recording.used[at + port];
    const level = used === 0 ? 0 : 1 + Math.floor((used * (LEVELS - 2)) / 255);
    found[level].push(places.x[host] - (sends ? size / 2 : 0), places.y[host] - size / 2);
  }
  found.forEach((spots, level) => {
    context.fillStyle = colours.use[level];
    for (let i = 0; i < spots.length; i += 2) context.fillRect(spots[i], spots[i + 1], size / 2 - 0.4, size);
  });
};

const drawQueues = (context, recording, places, colours, at) => {
  if (!recording.maxQueued) return;
  context.fillStyle = colours.queue;
  for (let port = 0; port < recording.count; port++) {
    const queued = recording.queued[at + port];
    if (!queued) continue;
    const part = queued / recording.maxQueued;
    if (isCell(recording, port)) {
      const size = places.hostRoom * 0.86;
      const host = recording.ports.node[recording.ports.peer[port]];
      const height = Math.max(1, size * part);
      context.fillRect(places.x[host] + size / 4, places.y[host] + size / 2 - height, size / 4, height);
      continue;
    }
    const link = places.links[port];
    const long = Math.max(2, Math.min(44, link.length * 0.4) * part);
    context.save();
    context.translate(link.x1 + link.ux * 9, link.y1 + link.uy * 9);
    context.rotate(Math.atan2(link.uy, link.ux));
    context.fillRect(0, 0, long, 5);
    context.restore();
  }
};

const nodeSize = (recording, places, node) => {
  const crowd = recording.nodes.name.length;
  if (recording.nodes.kind[node] === "host") return places.hostSize;
  return crowd > 600 ? 4 : crowd > 100 ? 5.5 : 8;
};

const drawNodes = (context, recording, places, colours) => {
  const { kind, name } = recording.nodes;
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
  drawNames(context, recording, places, colours, name);
};

// The names of nodes, where there is room for them.
const drawNames = (context, recording, places, colours, name) => {
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.fillStyle = colours.muted;
  context.strokeStyle = colours.ground;
  context.lineWidth = 3;
  const taken = [];
  name.forEach((text, node) => {
    if (recording.cells && recording.nodes.kind[node] === "host") return;
    const short = text.length > 14 ? `${text.slice(0, 13)}\u2026` : text;
    const half = short.length * 3.2;
    const below = places.y[node] > places.height * 0.6;
    const away = nodeSize(recording, places, node);
    const [x, y] = [places.x[node], places.y[node] + (below ? away + 12 : -away - 4)];
    if (taken.some((other) => Math.abs(other.x - x) < other.half + half + 4 && Math.abs(other.y - y) < 11)) return;
    taken.push({ x, y, half });
    const inside = Math.max(half, Math.min(places.width - half, x));
    context.strokeText(short, inside, y);
    context.fillText(short, inside, y);
  });
};

const arrow = (context, x1, y1, x2, y2) => {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
  context.beginPath();
  context.moveTo(x2, y2);
  for (const side of [2.6, -2.6]) context.lineTo(x2 + 9 * Math.cos(angle + side), y2 + 9 * Math.sin(angle + side));
  context.closePath();
  context.fill();
};

// Bars across each paused link and an arrow from the node that pauses to the paused port; the root causes as rings.
const drawPauses = (context, recording, places, colours, time) => {
  const pauses = pausesAt(recording, time);
  const cycle = new Set(cycleAt(recording, time));
  context.strokeStyle = colours.pause;
  context.fillStyle = colours.pause;
  const roots = new Set();
  for (const { port, root } of pauses) {
    const link = places.links[port];
    if (root >= 0) roots.add(root);
    if (isCell(recording, port)) {
      const size = places.hostRoom * 0.86;
      const { node, peer } = recording.ports;
      const host = recording.nodes.kind[node[port]] === "host" ? node[port] : node[peer[port]];
      context.lineWidth = 1.6;
      context.strokeRect(places.x[host] - size / 2, places.y[host] - size / 2, size, size);
      continue;
    }
    context.lineWidth = cycle.has(port) ? 4 : 2.2;
    const [ox, oy] = [-link.uy * 3, link.ux * 3];
    const tail = [link.x2 - link.ux * 11 + ox, link.y2 - link.uy * 11 + oy];
    const head = [link.x1 + link.ux * 12 + ox, link.y1 + link.uy * 12 + oy];
    arrow(context, ...tail, ...head);
    const [mx, my] = [(link.x1 + link.x2) / 2, (link.y1 + link.y2) / 2];
    context.lineWidth = 2.4;
    for (const shift of [-3, 3]) {
      context.beginPath();
      context.moveTo(mx + link.ux * shift - link.uy * 7, my + link.uy * shift + link.ux * 7);
      context.lineTo(mx + link.ux * shift + link.uy * 7, my + link.uy * shift - link.ux * 7);
      context.stroke();
    }
  }
  context.lineWidth = 2.4;
  for (const root of roots) {
    const link = places.links[root];
    context.beginPath();
    if (isCell(recording, root)) {
      const { node, peer } = recording.ports;
      const host = recording.nodes.kind[node[root]] === "host" ? node[root] : node[peer[root]];
      context.arc(places.x[host], places.y[host], places.hostRoom * 0.8, 0, 7);
    } else context.arc(link.x1 + link.ux * 12, link.y1 + link.uy * 12, 10, 0, 7);
    context.stroke();
  }
};

const drawLosses = (context, recording, places, colours, frame) => {
  context.lineWidth = 2.2;
  context.strokeStyle = colours.text;
  context.fillStyle = colours.text;
  for (const [port, kind] of lossesIn(recording, frame)) {
    const link = places.links[port];
    const away = isCell(recording, port) ? 0 : 15;
    const cell = isCell(recording, port) && recording.nodes.kind[recording.ports.node[port]] !== "host";
    const x = cell ? link.x2 : link.x1 + link.ux * away;
    const y = cell ? link.y2 : link.y1 + link.uy * away;
    context.beginPath();
    if (kind === "trimmed") {
      context.moveTo(x - 5, y - 4);
      context.lineTo(x + 5, y - 4);
      context.lineTo(x, y + 5);
      context.closePath();
      context.fill();
    } else {
      for (const side of [-1, 1]) {
        context.moveTo(x - 5, y - 5 * side);
        context.lineTo(x + 5, y + 5 * side);
      }
      context.stroke();
    }
  }
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
  drawNodes(context, recording, places, colours);
  drawQueues(context, recording, places, colours, at);
  drawPauses(context, recording, places, colours, time);
  drawLosses(context, recording, places, colours, frame);
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
    if (isCell(recording, port)) return;
    const along = Math.max(0, Math.min(link.length, (x - link.x1) * link.ux + (y - link.y1) * link.uy));
    const away = Math.hypot(link.x1 + along * link.ux - x, link.y1 + along * link.uy - y);
    if (away < best.away) best = { id: port, away };
  });
  return best.id < 0 ? null : { kind: "port", id: best.id };
};
