import { selectedBy } from "./keyboard.js";

// Two series: 0 at 0, 10, 20 and 1 at 9, 19.
const spots = [[0, 0], [10, 0], [20, 0], [9, 1], [19, 1]].map(([x, series]) => ({ x, series }));

test("arrows move along the spots and around their ends", () => {
  equal(selectedBy("ArrowRight", spots, 0), 1);
  equal(selectedBy("ArrowRight", spots, 4), 0);
  equal(selectedBy("ArrowLeft", spots, 0), 4);
});
test("the first key begins at an end", () => {
  equal(selectedBy("ArrowRight", spots, -1), 0);
  equal(selectedBy("ArrowLeft", spots, -1), 4);
  equal([selectedBy("Home", spots, 3), selectedBy("End", spots, 0)], [0, 4]);
});
test("up and down move to the nearest spot of the next series", () => {
  equal(selectedBy("ArrowDown", spots, 2), 4);
  equal(selectedBy("ArrowUp", spots, 3), 1);
  equal(selectedBy("ArrowDown", spots, -1), 3);
});
test("other keys select nothing", () => {
  equal(selectedBy("a", spots, 1), -1);
  equal(selectedBy("ArrowRight", [], -1), -1);
});
