"use strict";
// Draws the boards (figures with a shared legend) from the page's JSON data into their frames in the HTML. figure.rs
// writes this data and so decides what the figures show.
(() => {
  document.documentElement.classList.add("js");
  const { boards } = JSON.parse(document.getElementById("data").textContent);
  const colour = (series) => `var(--c${series % 8})`;
  // Dash patterns: series beyond the eight colours repeat the colours with the next pattern.
  const dash = (series) => ["", "6 4", "2 4", "8 3 2 3"][Math.floor(series / 8) % 4];
  // Width of a printed page in pixels. `side[n]`: number of figures side by side on it, for a row of n figures.
  const PAPER = 690;
  const side = [1, 1, 2, 3, 2];

  // ---- Numbers with units -------------------------------------------------------------------------------------
  // Numbers with three digits keep their trailing zeros, as in the tables; numbers with six digits do not.
  const digits = (v, n) => (n === 3 && v !== 0
    ? v.toLocaleString("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 })
    : v.toLocaleString("en", { maximumSignificantDigits: n }));
  const scaled = (units) => (v, n) => {
    if (v === 0) return "0";
    // The value is rounded before the unit is chosen, so that 999.9 does not become 1,000 of the smaller unit.
    const size = Number(Math.abs(v).toPrecision(n));
    const [factor, unit] = units.find(([f]) => size >= f) || units[units.length - 1];
    return `${digits(v / factor, n)}\u00a0${unit}`;
  };
  const formats = {
    number: digits,
    time: scaled([[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"], [1e-3, "ns"]]),
    bytes: scaled([[1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]]),
    percent: (v, n) => `${digits(v, n)}\u00a0%`,
    factor: (v, n) => `${digits(v, n)}\u00d7`,
  };
  const exact = (unit, v) => formats[unit](v, 6);
  const brief = (unit, v) => formats[unit](v, 3);
  const rangeText = (unit, [low, high]) => (low === high ? exact(unit, low) : `${exact(unit, low)} \u2013 ${exact(unit, high)}`);
  const textWidth = (text) => text.length * 6.5;

  // ---- Scales: `at` maps values to 0..1, `ticks` are candidate sets of tick values, most ticks first -------------
  const decimals = (steps, low, high) => {
    const found = [];
    for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) {
      for (const s of steps) {
        // The number is parsed from a decimal literal, because 10 ** -1 * 2 would have a rounding error.
        const v = Number(`${s}e${d}`);
        if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
      }
    }
    return found;
  };
  const logScale = (low, high) => {
    if (high / low < 1.5) [low, high] = [low / 1.3, high * 1.3];
    const [a, b] = [Math.log(low), Math.log(high)];
    const sets = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]].map((steps) => decimals(steps, low, high));
    for (const step of [2, 3, 4, 6]) sets.push(decimals([1], low, high).filter((_, i) => i % step === 0));
    return { at: (v) => (Math.log(v) - a) / (b - a), ticks: [...sets.filter((s) => s.length > 1), [low, high]], apart: 22 };
  };
  const linearScale = (low, high, own) => {
    const sets = own ? [own] : [];
    const power = 10 ** Math.floor(Math.log10((high - low) / 10));
    for (const step of [1, 2, 5, 10, 20, 50, 100].map((s) => s * power)) {
      const set = [];
      for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) set.push(Number((i * step).toPrecision(9)));
      sets.push(set);
    }
    return { at: (v) => (v - low) / (high - low), ticks: sets, apart: 34 };
  };
  const NINES = [50, 75, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 99.999];
  const ninesScale = (low, high) => {
    const nines = (p) => -Math.log10(1 - Math.min(p, 99.9999) / 100);
    const [a, b] = [nines(low), nines(high > low ? high : (low + 100) / 2)];
    const inside = (set) => set.filter((p) => p >= low && p <= high);
    const sets = [NINES, [50, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999], [50, 90, 99, 99.9, 99.99, 99.999]];
    return { at: (p) => (nines(p) - a) / (b - a), ticks: sets.map(inside), apart: 18 };
  };
  const above = (v) => Math.min(...[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((s) => s * 10 ** Math.floor(Math.log10(v))).filter((s) => s >= v * 0.9999));
  // `round` extends a logarithmic axis so that it begins and ends at a tick with a label.
  const ends = (low, high) => {
    const outer = decimals([1, 2, 5], low / 5, high * 5);
    return [outer.filter((v) => v <= low * 1.001).pop() ?? low, outer.find((v) => v >= high * 0.999) ?? high];
  };
  const scaleFor = (kind, values, round) => {
    if (!values.length) values = [0, 1];
    let low = values.reduce((a, b) => Math.min(a, b), Infinity);
    let high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    if (kind === "nines") return ninesScale(low, high);
    if (kind === "zero") return linearScale(0, high > 0 ? above(high) : 1);
    if (low > 0 && (kind === "log" || (kind === "auto" && high / low >= 5))) return logScale(...(round ? ends(low, high) : [low, high]));
    const distinct = [...new Set(values)].sort((a, b) => a - b);
    const pad = high > low ? (high - low) * 0.06 : Math.max(Math.abs(high), 1) * 0.1;
    return linearScale(low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad, kind === "linear" && distinct.length <= 10 ? distinct : null);
  };
  // The set with the most ticks whose labels do not overlap, as [value, text].
  const fitting = (sets, unit, place, size) => {
    let best = [];
    for (const set of sets) {
      const labels = set.map((v) => [v, exact(unit, v)]);
      const clear = labels.every(([v, text], i) => {
        if (i === 0) return true;
        const [before, other] = labels[i - 1];
        return Math.abs(place(v) - place(before)) >= (size(text) + size(other)) / 2;
      });
      if (clear && labels.length > 1) return labels;
      if (clear && labels.length > best.length) best = labels;
    }
    return best;
  };

  // ---- SVG ----------------------------------------------------------------------------------------------------
  const node = (name, attributes, parent, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  };
  const wrap = (text, width, most) => {
    const room = Math.max(4, Math.floor(width / 6.5));
    const lines = [""];
    for (const word of text.split(/\s+/)) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + 1 + word.length > room) lines.push(word);
      else lines[last] += (lines[last] ? " " : "") + word;
    }
    const shorten = (line) => (line.length > room ? `${line.slice(0, room - 1)}\u2026` : line);
    if (lines.length > most) lines[most - 1] += " \u2026";
    return lines.slice(0, most).map(shorten);
  };

  // Draws an empty figure, with axes and their labels. Returns the functions that map values to positions.
  const canvas = (box, { label, height, width, x, y, yUnit, xUnit, yTitle, xTitle, below = 0, key = [] }) => {
    const keys = key.filter(Boolean);
    const frame = { top: (yTitle ? 26 : 14) + (keys.length ? 20 : 0), right: width - 10, bottom: height - (xTitle ? 44 : 8) - below };
    const yLabels = fitting(y.ticks, yUnit, (v) => (frame.bottom - frame.top) * y.at(v), () => y.apart);
    frame.left = Math.max(20, ...yLabels.map(([, text]) => textWidth(text) + 12));
    const px = (v) => frame.left + (frame.right - frame.left) * x.at(v);
    const py = (v) => frame.bottom - (frame.bottom - frame.top) * y.at(v);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "group", "aria-label": label }, box);
    if (yTitle) node("text", { x: 0, y: 12, class: "axis-title" }, svg, yTitle);
    let left = 0;
    for (const [style, text] of keys) {
      const at = frame.top - 16;
      if (style === "stated") node("rect", { x: left, y: at - 6, width: 20, height: 12, class: style }, svg);
      else node("line", { x1: left, x2: left + 20, y1: at, y2: at, class: style }, svg);
      node("text", { x: left + 26, y: at + 4 }, svg, wrap(text, width - left - 26, 1)[0]);
      left += 26 + textWidth(text) + 18;
    }
    for (const [v, text] of yLabels) {
      node("line", { x1: frame.left, x2: frame.right, y1: py(v), y2: py(v), class: "grid" }, svg);
      node("text", { x: frame.left - 7, y: py(v) + 4, "text-anchor": "end" }, svg, text);
    }
    if (xTitle) {
      node("text", { x: frame.right, y: height - 5, "text-anchor": "end", class: "axis-title" }, svg, xTitle);
      for (const [v, text] of fitting(x.ticks, xUnit, px, (t) => textWidth(t) + 12)) {
        node("line", { x1: px(v), x2: px(v), y1: frame.bottom, y2: frame.bottom + 5, class: "axis" }, svg);
        const half = textWidth(text) / 2;
        const end = px(v) + half > width;
        node("text", { x: end ? width : px(v), y: frame.bottom + 19, "text-anchor": end ? "end" : "middle" }, svg, text);
      }
    }
    node("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom, class: "axis" }, svg);
    return { svg, frame, px, py };
  };
  const across = ({ svg, frame, py }, reference) => {
    if (!reference) return;
    const y = py(reference.value);
    node("line", { x1: frame.left, x2: frame.right, y1: y, y2: y, class: "reference" }, svg);
  };
  const keyOf = (figure, unit, stated) => [
    stated && ["stated", "stated"],
    figure.reference && ["reference", `${figure.reference.name} (${exact(unit, figure.reference.value)})`],
  ];
  const band = (svg, stated, x1, x2, py) => {
    const [top, bottom] = [py(stated[1]), py(stated[0])];
    node("rect", { x: x1, y: top, width: x2 - x1, height: Math.max(1, bottom - top), class: "stated" }, svg);
    for (const y of [top, bottom]) node("line", { x1, x2, y1: y, y2: y, class: "stated-end" }, svg);
  };

  // If the largest bar is this many times the smallest, a linear axis would flatten the small bars.
  const FLAT = 10;
  const flattens = (bars) => {
    const values = bars.map((b) => b.value).filter((v) => v > 0);
    return values.length > 1 && Math.max(...values) >= FLAT * Math.min(...values);
  };
  const barsOf = (figure, board) => figure.groups.flatMap((g) => g.bars).filter((b) => !board || !board.hidden.has(b.series));
  // Whether the axis is logarithmic: as the reader chose, or if a linear axis would flatten visible bars.
  const isLog = (figure, board) => board.log.get(figure) ?? flattens(barsOf(figure, board));

  const drawBars = (box, figure, board, width) => {
    const stated = figure.groups.flatMap((g) => g.stated || []);
    // The axis fits the visible bars, so hiding a very large bar makes the others readable.
    const reach = barsOf(figure, board).flatMap((b) => [b.value || 0, ...(b.interval || [])]).concat(stated, figure.reference ? figure.reference.value : 0);
    const positive = reach.filter((v) => v > 0);
    const log = isLog(figure, board) && positive.length > 0;
    const [least, most] = [Math.min(...positive), Math.max(...positive)];
    const shown = figure.groups.map((g) => g.bars.filter((b) => !board.hidden.has(b.series)));
    const named = figure.groups.some((g) => g.name);
    const inner = width - 60;
    // The width of each group, in units of a bar: its bars and a gap.
    const slots = shown.map((group) => Math.max(1, group.length) + (figure.groups.length > 1 ? 0.9 : 0.3));
    const step = inner / slots.reduce((a, b) => a + b, 0);
    const lines = figure.groups.map((g, i) => (g.name ? wrap(g.name, slots[i] * step - 6, 3) : []));
    const below = named ? 8 + 15 * Math.max(...lines.map((l) => l.length)) : 0;
    const c = canvas(box, {
      label: `${figure.title}: bars. Arrow keys move between them.`,
      width, height: (width < 420 ? 230 : 270) + below, below,
      x: { at: (v) => v, ticks: [] }, yUnit: figure.unit, yTitle: log ? "logarithmic axis" : undefined,
      y: log ? logScale(...ends(least * 0.7, most * 1.2)) : scaleFor("zero", [...reach.map((v) => v * 1.07), 0]),
      key: keyOf(figure, figure.unit, stated.length > 0),
    });
    const { svg, frame } = c;
    // A value of zero or less has no place on a logarithmic axis; it is below the axis.
    const py = (v) => (log && v <= 0 ? Infinity : c.py(v));
    const inFrame = (v) => Math.min(frame.bottom, py(v));
    const unit = (frame.right - frame.left) / slots.reduce((a, b) => a + b, 0);
    // The value is written above each bar if there is room above all bars, else above none.
    const labelled = shown.flat().every((b) => b.value === null || textWidth(brief(figure.unit, b.value)) * 1.15 < Math.min(unit, 96));
    const spots = [];
    let left = frame.left;
    figure.groups.forEach((group, g) => {
      const size = Math.min(unit, 96);
      let x = left + (slots[g] * unit - shown[g].length * size) / 2;
      if (group.stated) band(svg, group.stated, left + unit * 0.1, left + slots[g] * unit - unit * 0.1, inFrame);
      for (const bar of shown[g]) {
        const name = bar.name || board.series[bar.series];
        const about = [group.name, name].filter(Boolean).join(": ");
        const notes = [bar.interval && `interval ${rangeText(figure.unit, bar.interval)}`, bar.note, group.stated && `stated ${rangeText(figure.unit, group.stated)}`];
        const text = bar.value === null ? "no result" : exact(figure.unit, bar.value);
        const tip = [about, text, ...notes].filter(Boolean).join("\n");
        const centre = x + size / 2;
        const thick = Math.max(1, size * (shown[g].length > 20 ? 0.8 : 0.7));
        const mark = { class: "mark", "data-series": bar.series, "data-name": name, "data-group": group.name };
        if (bar.value === null) {
          node("text", { ...mark, class: "mark none", x: centre, y: frame.bottom - 6, "text-anchor": "middle", fill: colour(bar.series) }, svg, "\u2715");
          spots.push({ x: centre, y: frame.bottom - 10, series: bar.series, tip });
        } else {
          const y = inFrame(bar.value);
          node("rect", { ...mark, "data-value": bar.value, x: centre - thick / 2, y, width: thick, height: Math.max(0.5, frame.bottom - y), fill: colour(bar.series) }, svg);
          let top = y;
          if (bar.interval) {
            // An interval that reaches below the axis has no cap there.
            const [low, high] = bar.interval.map(py);
            const cap = Math.min(5, thick / 3);
            const foot = low > frame.bottom ? `V${frame.bottom}` : `V${low}M${centre - cap} ${low}h${2 * cap}`;
            node("path", { class: "whisker", "data-series": bar.series, d: `M${centre - cap} ${high}h${2 * cap}M${centre} ${high}${foot}` }, svg);
            top = Math.min(top, high);
          }
          if (labelled) {
            node("text", { x: centre, y: top - 5, "text-anchor": "middle", class: "over value", "data-series": bar.series }, svg, brief(figure.unit, bar.value));
          }
          spots.push({ x: centre, y: top, wide: size / 2, series: bar.series, tip });
        }
        x += size;
      }
      lines[g].forEach((line, i) => node("text", { x: left + (slots[g] * unit) / 2, y: frame.bottom + 17 + 15 * i, "text-anchor": "middle", class: "group" }, svg, line));
      left += slots[g] * unit;
    });
    across(c, figure.reference);
    hover(svg, spots, (spot, x, y) => (Math.abs(spot.x - x) <= (spot.wide || 12) ? Math.abs(spot.x - x) : Infinity));
  };

  const drawLines = (box, figure, board, width) => {
    const all = figure.views.flatMap((v) => v.lines.flatMap((l) => l.points)).filter((p) => p[0] !== null && p[1] !== null);
    // All views share their axes, which fit the visible series.
    const visible = figure.views.flatMap((v) => v.lines.filter((l) => !board.hidden.has(l.series)).flatMap((l) => l.points)).filter((p) => p[0] !== null && p[1] !== null);
    const reach = visible.length ? visible : all;
    const [xReach, yReach] = figure.reach || [[], []];
    const xs = reach.map((p) => p[0]).concat(xReach);
    const ys = reach.flatMap((p) => [p[1], ...(p[2] || [])]).concat(figure.stated || [], figure.reference ? figure.reference.value : [], yReach);
    if (!all.length) {
      box.appendChild(document.createElement("p")).textContent = "Nothing to show: no run has enough measured flows.";
      return;
    }
    const view = figure.views[board.view.get(figure) ?? figure.first] || figure.views[0];
    const yTitle = view.name ? `${figure.y.name}, ${view.name.toLowerCase()}` : figure.y.name;
    const c = canvas(box, {
      label: `${figure.title}: curves. Arrow keys move along a curve and between curves.`,
      width, height: width < 420 ? 280 : width < 600 ? 310 : 380,
      x: scaleFor(figure.x.scale, xs), y: scaleFor(figure.y.scale, ys, true),
      xUnit: figure.x.unit, yUnit: figure.y.unit, xTitle: figure.x.name, yTitle,
      key: keyOf(figure, figure.y.unit, figure.stated),
    });
    const { svg, frame, px, py } = c;
    if (figure.stated) band(svg, figure.stated, frame.left, frame.right, py);
    across(c, figure.reference);
    const spots = [];
    const place = (x, y) => `${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
    for (const { series, points } of view.lines) {
      const known = points.filter((p) => p[0] !== null && p[1] !== null);
      if (board.hidden.has(series) || !known.length) continue;
      const mark = { "data-series": series, "data-name": board.series[series] };
      if (known.some((p) => p[2])) {
        const ends = (i) => known.map((p) => place(p[0], p[2] ? p[2][i] : p[1]));
        node("path", { d: `M${ends(1).join("L")}L${ends(0).reverse().join("L")}Z`, class: "band", fill: colour(series), ...mark }, svg);
      }
      node("path", { d: `M${known.map((p) => place(p[0], p[1])).join("L")}`, class: "mark series", stroke: colour(series), "stroke-dasharray": dash(series), "data-points": known.length, ...mark }, svg);
      for (const p of known) {
        const tip = [
          board.series[series],
          `${exact(figure.y.unit, p[1])} at ${exact(figure.x.unit, p[0])}`,
          p[2] && `interval ${rangeText(figure.y.unit, p[2])}`,
          p[3],
        ].filter(Boolean).join("\n");
        spots.push({ x: px(p[0]), y: py(p[1]), series, tip });
        if (figure.dots || known.length === 1) node("circle", { cx: px(p[0]), cy: py(p[1]), r: 3, fill: colour(series), class: "dot", ...mark, "data-x": p[0], "data-y": p[1] }, svg);
      }
    }
    hover(svg, spots, (spot, x, y) => { const d = Math.hypot(spot.x - x, spot.y - y); return d < 70 ? d : Infinity; });
  };

  // Draws a row for each port, with its intervals of time as bars. Rows of roots (causes of pauses) are thinner.
  const drawSpans = (box, figure, board, width) => {
    const size = 17;
    const rows = figure.rows.filter((row) => row.root === null || !board.hidden.has(row.root));
    const left = Math.min(width * 0.36, 14 + Math.max(0, ...rows.map((row) => textWidth(row.name) * (row.root === null ? 1 : 1.1) + (row.root === null ? 0 : 16))));
    const top = 8 + 15 * figure.marks.length;
    const bottom = top + size * rows.length + 6;
    const right = width - 10;
    const ends = rows.flatMap((row) => row.spans.flatMap((span) => [span[1], span[2]])).concat(figure.reach, figure.marks.map((mark) => mark.value));
    const low = ends.reduce((a, b) => Math.min(a, b), Infinity);
    const high = ends.reduce((a, b) => Math.max(a, b), -Infinity);
    const x = linearScale(low, high > low ? high : low + 1);
    const px = (v) => left + (right - left) * x.at(v);
    const svg = node("svg", { viewBox: `0 0 ${width} ${bottom + 44}`, tabindex: 0, role: "group", "aria-label": `${figure.title}: intervals of time. Arrow keys move between them.` }, box);
    for (const [v, text] of fitting(x.ticks, figure.x.unit, px, (t) => textWidth(t) + 12)) {
      node("line", { x1: px(v), x2: px(v), y1: top, y2: bottom, class: "grid" }, svg);
      const end = px(v) + textWidth(text) / 2 > width;
      node("text", { x: end ? width : px(v), y: bottom + 17, "text-anchor": end ? "end" : "middle" }, svg, text);
    }
    node("text", { x: right, y: bottom + 38, "text-anchor": "end", class: "axis-title" }, svg, figure.x.name);
    node("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }, svg);
    const spots = [];
    rows.forEach((row, i) => {
      const middle = top + size * (i + 0.5);
      const root = row.root !== null;
      if (root) node("rect", { x: 0, y: middle - 5, width: 10, height: 10, fill: colour(row.root), "data-series": row.root }, svg);
      node("text", { x: root ? 15 : 0, y: middle + 4, class: root ? "group value" : "group" }, svg, wrap(row.name, left - 20, 1)[0]);
      for (const [series, from, to] of row.spans) {
        if (board.hidden.has(series)) continue;
        const [x1, x2, half] = [px(from), Math.max(px(to), px(from) + 1), root ? 2 : 6];
        node("rect", { x: x1, y: middle - half, width: x2 - x1, height: 2 * half, fill: colour(series), class: "mark", "data-series": series, "data-name": row.name, "data-from": from, "data-to": to }, svg);
        const what = root ? `${row.name} keeps others paused` : `${row.name} is paused\nby ${board.series[series]}`;
        spots.push({ x: (x1 + x2) / 2, y: middle, x1, x2, series, tip: `${what}\n${exact(figure.x.unit, from)} \u2013 ${exact(figure.x.unit, to)}` });
      }
    });
    figure.marks.forEach((mark, i) => {
      const at = px(mark.value);
      const over = at + textWidth(mark.name) > width;
      node("line", { x1: at, x2: at, y1: 2 + 15 * i, y2: bottom, class: "reference" }, svg);
      node("text", { x: over ? at - 5 : at + 5, y: 12 + 15 * i, "text-anchor": over ? "end" : "start", class: "value" }, svg, mark.name);
    });
    hover(svg, spots, (spot, at, y) => (Math.abs(spot.y - y) <= size / 2 && at >= spot.x1 - 3 && at <= spot.x2 + 3 ? Math.abs(spot.x - at) : Infinity));
  };

  // ---- Saving figures as files ----------------------------------------------------------------------------------
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  const fileName = (title, ending) => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.${ending}`;
  const columnName = (name, unit) => [name, { time: "us", bytes: "bytes", percent: "%", factor: "ratio" }[unit]].filter(Boolean).join(", ");
  // All values of the figure as CSV, hidden series and other views included.
  const asCsv = (figure, series) => {
    const rows = {
      bars: () => [["group", "name", columnName("value", figure.unit), "low", "high", "note"],
        ...figure.groups.flatMap((g) => g.bars.map((b) => [g.name, b.name || series[b.series], b.value, ...(b.interval || ["", ""]), b.note]))],
      lines: () => [["view", "series", columnName(figure.x.name || "x", figure.x.unit), columnName(figure.y.name || figure.title, figure.y.unit), "low", "high", "note"],
        ...figure.views.flatMap((v) => v.lines.flatMap((l) => l.points.map((p) => [v.name, series[l.series], p[0], p[1], ...(p[2] || ["", ""]), p[3]])))],
      spans: () => [["row", "series", columnName("from", figure.x.unit), columnName("to", figure.x.unit)],
        ...figure.rows.flatMap((row) => row.spans.map(([of, from, to]) => [row.name, series[of], from, to]))],
    }[figure.kind]();
    const cell = (value) => {
      const text = String(value ?? "");
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
  };
  // The figure with its heading and legend as an SVG file. The file has no style sheet, so each element gets its style.
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "paint-order", "font-size", "font-weight", "text-anchor"];
  const asSvg = (svg, figure, board) => {
    const copy = svg.cloneNode(true);
    const originals = svg.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((element, i) => {
      const style = getComputedStyle(originals[i]);
      if (style.visibility === "hidden") return element.remove();
      for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
      for (const name of ["class", ...Object.keys(element.dataset).map((key) => `data-${key}`)]) element.removeAttribute(name);
    });
    const { width, height } = svg.viewBox.baseVal;
    const { color: text, backgroundColor: ground, fontFamily: font } = getComputedStyle(document.body);
    const page = getComputedStyle(document.documentElement);
    const whole = node("svg", { "font-family": font });
    const back = node("rect", { width: "100%", fill: ground }, whole);
    node("text", { x: 0, y: 14, "font-size": 14, "font-weight": 600, fill: text }, whole, figure.title);
    let [x, y] = [0, 36];
    board.series.forEach((name, series) => {
      if (board.hidden.has(series)) return;
      const wide = textWidth(name) + 34;
      if (x > 0 && x + wide > width) [x, y] = [0, y + 18];
      node("rect", { x, y: y - 10, width: 11, height: 11, fill: page.getPropertyValue(`--c${series % 8}`) }, whole);
      node("text", { x: x + 17, y, "font-size": 12, fill: text }, whole, name);
      x += wide;
    });
    const top = y + 14;
    for (const [name, value] of Object.entries({ y: top, width, height, overflow: "visible" })) copy.setAttribute(name, value);
    for (const name of ["tabindex", "role"]) copy.removeAttribute(name);
    whole.appendChild(copy);
    for (const element of [whole, back]) element.setAttribute("height", top + height + 8);
    // The last label of an axis may be wider than its place.
    whole.setAttribute("width", width + 16);
    return new XMLSerializer().serializeToString(whole);
  };

  // ---- Tooltips -----------------------------------------------------------------------------------------------
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";
  tip.setAttribute("role", "status");
  let shownBy = null;
  const showTip = (owner, text, x, y) => {
    if (shownBy && shownBy !== owner && shownBy.leave) shownBy.leave();
    shownBy = owner;
    tip.textContent = text;
    tip.classList.add("on");
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - width - 8))}px`;
    tip.style.top = `${y - height - 14 < 8 ? y + 18 : y - height - 14}px`;
  };
  const hideTip = () => {
    if (shownBy && shownBy.leave) shownBy.leave();
    shownBy = null;
    tip.classList.remove("on");
  };

  // Highlights the spot (a bar, point or interval) that is nearest to the pointer or selected by keys, and shows its
  // tooltip. `distance` is infinite for a pointer that is too far from a spot.
  const hover = (svg, spots, distance) => {
    const halo = node("circle", { r: 5, class: "halo", visibility: "hidden" }, svg);
    const owner = { leave: () => halo.setAttribute("visibility", "hidden") };
    let current = -1;
    const tell = (index) => {
      current = index;
      const spot = spots[index];
      const bounds = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / bounds.width;
      halo.setAttribute("cx", spot.x);
      halo.setAttribute("cy", spot.y);
      halo.setAttribute("fill", colour(spot.series));
      showTip(owner, spot.tip, bounds.left + spot.x / scale, bounds.top + spot.y / scale);
      halo.setAttribute("visibility", "visible");
    };
    const point = (event) => {
      const bounds = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / bounds.width;
      const [x, y] = [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
      let best = -1;
      let least = Infinity;
      spots.forEach((spot, i) => {
        const d = distance(spot, x, y);
        if (d < least) { best = i; least = d; }
      });
      if (best >= 0) tell(best);
      else if (shownBy === owner) hideTip();
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    // On a touch screen, lifting the finger counts as leaving the figure. The tooltip stays, so that it can be read.
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
    svg.addEventListener("blur", hideTip);
    svg.addEventListener("keydown", (event) => {
      if (!spots.length) return;
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const jump = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) tell(current < 0 ? (step > 0 ? 0 : spots.length - 1) : (current + step + spots.length) % spots.length);
      else if (event.key === "Home") tell(0);
      else if (event.key === "End") tell(spots.length - 1);
      else if (jump) {
        const order = [...new Set(spots.map((s) => s.series))];
        const here = spots[Math.max(0, current)];
        const next = order[(order.indexOf(here.series) + jump + order.length) % order.length];
        const own = spots.map((s, i) => [s, i]).filter(([s]) => s.series === next);
        tell(own.reduce((a, b) => (Math.abs(b[0].x - here.x) < Math.abs(a[0].x - here.x) ? b : a))[1]);
      } else return;
      event.preventDefault();
    });
  };
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".plot svg, [data-tip]")) hideTip(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });
  for (const element of document.querySelectorAll("[data-tip]")) {
    const show = (event) => showTip(element, element.dataset.tip, event.clientX, event.clientY);
    element.addEventListener("pointermove", show);
    element.addEventListener("pointerdown", show);
    element.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
  }

  // ---- Boards -------------------------------------------------------------------------------------------------
  let printing = false;
  const drawings = [];
  const drawAll = () => { hideTip(); drawings.forEach((d) => d()); };
  const button = (parent, text, pressed, click) => {
    const element = parent.appendChild(document.createElement("button"));
    element.type = "button";
    element.textContent = text;
    if (pressed !== null) element.setAttribute("aria-pressed", String(pressed));
    element.addEventListener("click", click);
    return element;
  };
  for (const element of document.querySelectorAll(".board")) {
    const data = boards[Number(element.dataset.board)];
    const hidden = new Set(data.series.map((_, i) => i).filter((i) => i >= data.shown));
    const board = { series: data.series, hidden, view: new Map(), log: new Map() };
    const own = [];
    const redraw = () => { hideTip(); own.forEach((d) => d()); };
    for (const frame of element.querySelectorAll("figure")) {
      const figure = data.figures[Number(frame.dataset.figure)];
      const box = frame.querySelector(".plot");
      if (figure.views && figure.views.length > 1) {
        const choice = document.createElement("div");
        choice.className = "choice";
        choice.setAttribute("role", "group");
        choice.setAttribute("aria-label", `${figure.title}: what to show`);
        box.before(choice);
        figure.views.forEach((view, i) => button(choice, view.name, i === figure.first, (event) => {
          board.view.set(figure, i);
          for (const other of choice.children) other.setAttribute("aria-pressed", String(other === event.target));
          redraw();
        }));
      }
      const axes = [];
      if (figure.kind === "bars" && flattens(barsOf(figure))) {
        const choice = document.createElement("div");
        choice.className = "choice";
        choice.setAttribute("role", "group");
        choice.setAttribute("aria-label", `${figure.title}: axis`);
        box.before(choice);
        axes.push(...["Linear", "Logarithmic"].map((name, i) => button(choice, name, false, () => {
          board.log.set(figure, i === 1);
          redraw();
        })));
      }
      const saving = document.createElement("div");
      saving.className = "save";
      frame.prepend(saving);
      const saver = (kind, type, text) => {
        const element = button(saving, kind, null, () => {
          if (box.querySelector("svg")) save(fileName(figure.title, kind.toLowerCase()), type, text());
        });
        element.setAttribute("aria-label", `${figure.title}: save as ${kind} file`);
      };
      saver("SVG", "image/svg+xml", () => asSvg(box.querySelector("svg"), figure, board));
      saver("CSV", "text/csv", () => asCsv(figure, board.series));
      const draw = () => {
        axes.forEach((axis, i) => axis.setAttribute("aria-pressed", String(isLog(figure, board) === (i === 1))));
        const beside = Math.min(4, frame.parentElement.children.length);
        const focused = box.contains(document.activeElement);
        const width = printing ? (PAPER - 18 * (side[beside] - 1)) / side[beside] : box.clientWidth;
        box.replaceChildren();
        ({ bars: drawBars, lines: drawLines, spans: drawSpans })[figure.kind](box, figure, board, Math.max(200, Math.round(width)));
        if (focused && box.firstChild.focus) box.firstChild.focus();
      };
      own.push(draw);
      drawings.push(draw);
    }

    const legend = element.querySelector(".legend");
    const switches = [...legend.querySelectorAll("button")];
    const show = () => switches.forEach((s, i) => s.setAttribute("aria-pressed", String(!hidden.has(i))));
    switches.forEach((item, series) => {
      item.addEventListener("click", () => {
        if (!hidden.delete(series)) hidden.add(series);
        show();
        redraw();
      });
      const others = (faint) => {
        if (hidden.has(series)) return;
        for (const mark of element.querySelectorAll("svg [data-series]")) mark.classList.toggle("faint", faint && mark.dataset.series !== String(series));
      };
      item.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") others(true); });
      item.addEventListener("pointerleave", () => others(false));
    });
    if (switches.length > 8) {
      const all = (on) => () => { hidden.clear(); if (!on) switches.forEach((_, i) => hidden.add(i)); show(); redraw(); };
      legend.prepend(button(legend, "All", null, all(true)), button(legend, "None", null, all(false)));
    }
    show();
  }
  drawAll();

  // ---- Width, tables that scroll, printing ----------------------------------------------------------------------
  const tables = [...document.querySelectorAll(".wide")];
  const hint = () => tables.forEach((wide) => {
    const inside = wide.querySelector(".scroll");
    const more = inside.scrollWidth - inside.clientWidth;
    wide.classList.toggle("more", more > 2);
    wide.classList.toggle("end", inside.scrollLeft >= more - 2);
  });
  tables.forEach((wide) => wide.querySelector(".scroll").addEventListener("scroll", hint, { passive: true }));
  document.querySelectorAll("details").forEach((d) => d.addEventListener("toggle", hint));
  hint();
  let drawnWidth = innerWidth;
  addEventListener("resize", () => {
    hint();
    if (innerWidth === drawnWidth || printing) return;
    drawnWidth = innerWidth;
    drawAll();
  });
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.numbers)")];
    opened.forEach((d) => { d.open = true; });
    printing = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    opened.forEach((d) => { d.open = false; });
    printing = false;
    drawAll();
  });
})();
