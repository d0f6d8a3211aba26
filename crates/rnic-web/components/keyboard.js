// Keyboard use of a figure: its spots (bars, points, intervals) are visited by arrow keys, Home and End.

// The index of the spot that a key selects, or -1 for a key without a meaning. `current` is the index of the selected
// spot, -1 for none. Left and right move along the spots; up and down move to the nearest spot of the next series.
export const selectedBy = (key, spots, current) => {
  if (!spots.length) return -1;
  const count = spots.length;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (step && current < 0) return step > 0 ? 0 : count - 1;
  if (step) return (current + step + count) % count;
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  const jump = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (!jump) return -1;
  const order = [...new Set(spots.map((spot) => spot.series))];
  const here = spots[Math.max(0, current)];
  const next = order[(order.indexOf(here.series) + jump + order.length) % order.length];
  const indices = spots.map((_, i) => i).filter((i) => spots[i].series === next);
  const distance = (i) => Math.abs(spots[i].x - here.x);
  return indices.reduce((a, b) => (distance(b) < distance(a) ? b : a));
};
