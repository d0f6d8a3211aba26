"use strict";
(() => {
  document.documentElement.classList.add("js");
  const { curves } = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const colour = (run) => `var(--c${run % 8})`;
  // Runs beyond the palette repeat its colours with dashes.
  const dash = (run) => ["", "6 4", "2 4", "8 3 2 3"][Math.floor(run / 8) % 4];

  // ---- Numbers with units -------------------------------------------------------------------------------------
  const digits = (v) => String(Number(v.toPrecision(6)));
  const scaled = (v, units) => {
    const [factor, unit] = units.find(([f]) => v >= f) || units[units.length - 1];
    return `${digits(v / factor)}\u00a0${unit}`;
  };
  const time = (us) => (us === 0 ? "0" : scaled(us, [[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"], [1e-3, "ns"]]));
  const bytes = (b) => scaled(b, [[1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]]);

  // ---- Scales -------------------------------------------------------------------------------------------------
  const logTicks = (low, high, room) => {
    const ticks = (steps) => {
      const found = [];
      for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) {
        for (const s of steps) {
          // Written as a decimal literal: 10 ** -1 * 2 would carry binary noise.
          const v = Number(`${s}e${d}`);
          if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
        }
      }
      return found;
    };
    for (const steps of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]]) {
      const found = ticks(steps);
      if (found.length >= 2 && found.length <= room) return found;
    }
    const decades = ticks([1]);
    const step = Math.max(1, Math.ceil(decades.length / Math.max(1, room)));
    return decades.length ? decades.filter((_, i) => i % step === 0) : [low, high];
  };
  const linearTicks = (low, high, room) => {
    const raw = (high - low) / Math.max(1, room - 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw);
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i++) found.push(Number((i * step).toPrecision(6)));
    return found;
  };
  // The next of 1, 2, 5, 10, 20, 50, ... below and above.
  const below = (v) => Math.max(...[1, 2, 5].map((s) => s * 10 ** Math.floor(Math.log10(v / s) + 1e-9)));
  const above = (v) => Math.min(...[1, 2, 5].map((s) => s * 10 ** Math.ceil(Math.log10(v / s) - 1e-9)));
  // A scale that suits the values: logarithmic where they span a factor of five or more; `round`: ends at round numbers.
  const scaleFor = (values, { forceLog = false, round = false } = {}) => {
    let low = values.reduce((a, b) => Math.min(a, b));
    let high = values.reduce((a, b) => Math.max(a, b));
    if (low > 0 && (forceLog || high / low >= 5)) {
      if (high / low < 1.2) { low /= 1.5; high *= 1.5; }
      if (round) { low = below(low); high = above(high); }
      const [a, b] = [Math.log(low), Math.log(high)];
      return { at: (v) => (Math.log(v) - a) / (b - a), ticks: (room) => logTicks(low, high, room) };
    }
    const pad = high > low ? (high - low) * 0.05 : Math.max(high, 1) * 0.1;
    low = Math.max(0, low - pad);
    high += pad;
    return { at: (v) => (v - low) / (high - low), ticks: (room) => linearTicks(low, high, room) };
  };

  // ---- SVG ----------------------------------------------------------------------------------------------------
  const node = (name, attributes, parent, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  };

  // Draws `figure` ({label, title, series: [{run, points: [{x, y, tip}]}], x, y, xTicks, yTicks, xText, yText}) into `box`.
  const draw = (box, figure, height) => {
    box.replaceChildren();
    const width = Math.max(240, Math.round(box.clientWidth));
    const room = Math.max(3, Math.floor(width / 85));
    const yTicks = figure.yTicks || figure.y.ticks(Math.floor(height / 42));
    const longest = Math.max(...yTicks.map((v) => figure.yText(v).length));
    const frame = { left: 12 + longest * 7.2, right: width - 16, top: figure.title ? 46 : 24, bottom: height - 44 };
    const px = (v) => frame.left + figure.x.at(v) * (frame.right - frame.left);
    const py = (v) => frame.bottom - figure.y.at(v) * (frame.bottom - frame.top);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": figure.label }, box);
    if (figure.title) node("text", { x: 0, y: 14, class: "title" }, svg, figure.title);
    node("text", { x: 0, y: frame.top - 12 }, svg, figure.yTitle);
    node("text", { x: frame.right, y: height - 4, "text-anchor": "end" }, svg, figure.xTitle);
    for (const v of yTicks) {
      node("line", { x1: frame.left, x2: frame.right, y1: py(v), y2: py(v), class: "grid" }, svg);
      node("text", { x: frame.left - 8, y: py(v) + 4, "text-anchor": "end" }, svg, figure.yText(v));
    }
    for (const v of figure.x.ticks(room)) {
      node("line", { x1: px(v), x2: px(v), y1: frame.bottom, y2: frame.bottom + 5, class: "axis" }, svg);
      node("text", { x: px(v), y: frame.bottom + 19, "text-anchor": "middle" }, svg, figure.xText(v));
    }
    node("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom, class: "axis" }, svg);
    if (!figure.series.some((s) => s.points.length)) {
      const centre = { x: (frame.left + frame.right) / 2, y: (frame.top + frame.bottom) / 2, "text-anchor": "middle" };
      node("text", centre, svg, "too few flows of any size");
    }
    const spots = [];
    for (const { run, points } of figure.series) {
      if (hidden.has(run) || !points.length) continue;
      const path = points.map((p, i) => `${i ? "L" : "M"}${px(p.x).toFixed(1)} ${py(p.y).toFixed(1)}`).join("");
      node("path", { d: path, class: "series", stroke: colour(run), "stroke-dasharray": dash(run) }, svg);
      for (const p of points) {
        spots.push({ x: px(p.x), y: py(p.y), run, tip: p.tip });
        if (figure.dots) node("circle", { cx: px(p.x), cy: py(p.y), r: 2.5, fill: colour(run) }, svg);
      }
    }
    hover(svg, spots);
  };

  // ---- Tooltips -----------------------------------------------------------------------------------------------
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";
  tip.setAttribute("role", "status");
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.style.display = "block";
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y - height - 14 < 8 ? y + 18 : y - height - 14}px`;
  };
  const hideTip = () => { tip.style.display = "none"; };

  // Marks and tells the point nearest to the pointer.
  const hover = (svg, spots) => {
    const mark = node("circle", { r: 5, class: "halo", visibility: "hidden" }, svg);
    const leave = () => { mark.setAttribute("visibility", "hidden"); hideTip(); };
    const move = (event) => {
      const bounds = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / bounds.width;
      const [x, y] = [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
      let best = null;
      let distance = 60 * 60;
      for (const spot of spots) {
        const d = (spot.x - x) ** 2 + (spot.y - y) ** 2;
        if (d < distance) { best = spot; distance = d; }
      }
      if (!best) return leave();
      mark.setAttribute("cx", best.x);
      mark.setAttribute("cy", best.y);
      mark.setAttribute("fill", colour(best.run));
      mark.setAttribute("visibility", "visible");
      showTip(best.tip, bounds.left + best.x / scale, bounds.top + best.y / scale);
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", leave);
  };
  for (const element of document.querySelectorAll("[data-tip]")) {
    const show = (event) => showTip(element.dataset.tip, event.clientX, event.clientY);
    element.addEventListener("pointermove", show);
    element.addEventListener("pointerdown", show);
    element.addEventListener("pointerleave", hideTip);
  }

  // ---- The two figures ----------------------------------------------------------------------------------------
  // Percentiles by their distance from 100 %: each further nine takes the same height.
  const nines = (percentile) => -Math.log10(1 - percentile / 100);
  const tail = () => {
    const series = curves.map((curve, run) => ({
      run,
      points: curve.tail.map(([p, fct]) => ({ x: fct, y: p, tip: `${curve.run}\n${digits(p)} % within ${time(fct)}` })),
    }));
    const values = series.flatMap((s) => s.points.map((p) => p.x));
    if (!values.length) return null;
    return {
      label: "Tail of the completion time of single-packet messages, one curve per run. Key values are in the table by flow size.",
      series,
      x: scaleFor(values),
      y: { at: (p) => (nines(p) - 1) / 2 },
      yTicks: [90, 95, 98, 99, 99.5, 99.8, 99.9],
      yText: (p) => `${p}\u00a0%`,
      xText: time,
      yTitle: "Percentile of messages",
      xTitle: "Flow completion time",
    };
  };
  const sizes = () => {
    const of = (column, name) => curves.map((curve, run) => ({
      run,
      points: curve.sizes.filter((s) => s[column] !== null).map((s) => ({
        x: s[0],
        y: s[column],
        tip: `${curve.run}\n${name} slowdown ${digits(s[column])}\naround ${bytes(s[0])}, ${s[1].toLocaleString("en")} flows`,
      })),
    }));
    const boxes = [...document.querySelectorAll('[data-figure="sizes"] .plot')];
    const all = boxes.map((box) => of(Number(box.dataset.column), box.dataset.name));
    const points = all.flat().flatMap((s) => s.points);
    if (!points.length) return null;
    const [x, y] = [scaleFor(points.map((p) => p.x), { forceLog: true }), scaleFor(points.map((p) => p.y), { round: true })];
    return boxes.map((box, i) => [box, {
      label: `${box.dataset.name} of the slowdown by flow size, one curve per run. Key values are in the table by flow size.`,
      title: box.dataset.name,
      series: all[i], x, y, dots: true,
      yText: digits, xText: bytes, yTitle: "Slowdown", xTitle: "Flow size",
    }]);
  };
  const tailBox = document.querySelector('[data-figure="tail"] .plot');
  const drawings = [];
  if (tailBox) {
    const figure = tail();
    if (figure) drawings.push(() => draw(tailBox, figure, tailBox.clientWidth < 560 ? 300 : 360));
    else tailBox.closest("figure").classList.add("hidden");
    const panels = sizes();
    if (panels) drawings.push(() => panels.forEach(([box, panel]) => draw(box, panel, 290)));
    else document.querySelector('[data-figure="sizes"]').classList.add("hidden");
  }
  const drawAll = () => drawings.forEach((drawing) => drawing());
  drawAll();
  let drawnWidth = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === drawnWidth) return;
    drawnWidth = innerWidth;
    drawAll();
  });

  // ---- Legend, printing ---------------------------------------------------------------------------------------
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const run = Number(button.dataset.run);
      const show = hidden.delete(run);
      if (!show) hidden.add(run);
      button.setAttribute("aria-pressed", String(show));
      for (const bar of document.querySelectorAll(`.bar[data-run="${run}"]`)) bar.classList.toggle("hidden", !show);
      drawAll();
    });
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
})();
