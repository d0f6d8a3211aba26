// Scales of axes. A scale has `at`, which maps a value to its position (0 at the low end of the axis, 1 at the high
// end), `ticks`, the candidate sets of tick values from the set with the most ticks on, and `apart`, the minimum
// distance of the ticks of a vertical axis in pixels.

import { exact } from "./numbers.js";

// The values s * 10^d from `low` to `high`, for each step s and each integer d.
const decimals = (steps, low, high) => {
  const found = [];
  for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) {
    for (const s of steps) {
      // The number is parsed from a decimal literal, because 10 ** -1 * 2 would have a rounding error.
      const value = Number(`${s}e${d}`);
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
};

// A logarithmic scale; both ends must be positive.
export const logScale = (low, high) => {
  if (high / low < 1.5) [low, high] = [low / 1.3, high * 1.3];
  const [from, to] = [Math.log(low), Math.log(high)];
  const sets = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]].map((steps) => decimals(steps, low, high));
  for (const step of [2, 3, 4, 6]) sets.push(decimals([1], low, high).filter((_, i) => i % step === 0));
  return {
    at: (value) => (Math.log(value) - from) / (to - from),
    ticks: [...sets.filter((set) => set.length > 1), [low, high]],
    apart: 22,
  };
};

// A linear scale. `own` are tick values to try first.
export const linearScale = (low, high, own) => {
  const sets = own ? [own] : [];
  const power = 10 ** Math.floor(Math.log10((high - low) / 10));
  for (const step of [1, 2, 5, 10, 20, 50, 100].map((s) => s * power)) {
    const set = [];
    const end = high + step * 1e-9;
    for (let i = Math.ceil(low / step - 1e-9); i * step <= end; i++) set.push(Number((i * step).toPrecision(9)));
    sets.push(set);
  }
  return { at: (value) => (value - low) / (high - low), ticks: sets, apart: 34 };
};

const NINES = [
  [50, 75, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 99.999],
  [50, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999],
  [50, 90, 99, 99.9, 99.99, 99.999],
];

// A scale for percentiles: 90, 99 and 99.9 are equidistant.
export const ninesScale = (low, high) => {
  const nines = (percentile) => -Math.log10(1 - Math.min(percentile, 99.9999) / 100);
  const [from, to] = [nines(low), nines(high > low ? high : (low + 100) / 2)];
  return {
    at: (percentile) => (nines(percentile) - from) / (to - from),
    ticks: NINES.map((set) => set.filter((percentile) => percentile >= low && percentile <= high)),
    apart: 18,
  };
};

// The smallest round number that is not less than `value`, which must be positive.
export const roundAbove = (value) => {
  const power = Math.floor(Math.log10(value));
  const candidates = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((step) => Number(`${step}e${power}`));
  return candidates.find((candidate) => candidate >= value * 0.9999) ?? value;
};

// Extends the range of a logarithmic axis so that it begins and ends at a tick with a label.
export const roundEnds = (low, high) => {
  const outer = decimals([1, 2, 5], low / 5, high * 5);
  return [
    outer.filter((value) => value <= low * 1.001).pop() ?? low,
    outer.find((value) => value >= high * 0.999) ?? high,
  ];
};

// The scale of a kind ("auto", "linear", "range", "zero", "log", "nines"; see `figure.rs`) that fits the values. `round`
// extends a logarithmic axis to ticks with labels.
export const scaleFor = (kind, values, round) => {
  const known = values.length ? values : [0, 1];
  const low = known.reduce((a, b) => Math.min(a, b), Infinity);
  const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  if (kind === "nines") return ninesScale(low, high);
  if (kind === "range" && high > low) return linearScale(low, high);
  if (kind === "zero") return linearScale(0, high > 0 ? roundAbove(high) : 1);
  if (low > 0 && (kind === "log" || (kind === "auto" && high / low >= 5))) {
    return logScale(...(round ? roundEnds(low, high) : [low, high]));
  }
  const distinct = [...new Set(known)].sort((a, b) => a - b);
  const pad = high > low ? (high - low) * 0.06 : Math.max(Math.abs(high), 1) * 0.1;
  const start = low >= 0 ? Math.max(0, low - pad) : low - pad;
  return linearScale(start, high + pad, kind === "linear" && distinct.length <= 10 ? distinct : null);
};

// The set with the most ticks whose labels do not overlap, as [value, text]. `place` maps a value to pixels; `size`
// maps a text to the pixels that its label takes along the axis.
export const fitting = (sets, unit, place, size) => {
  let best = [];
  for (const set of sets) {
    const labels = set.map((value) => [value, exact(unit, value)]);
    const clear = labels.every(([value, text], i) => {
      if (i === 0) return true;
      const [before, other] = labels[i - 1];
      return Math.abs(place(value) - place(before)) >= (size(text) + size(other)) / 2;
    });
    if (clear && labels.length > 1) return labels;
    if (clear && labels.length > best.length) best = labels;
  }
  return best;
};
