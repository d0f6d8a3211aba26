import { colour, dash } from "./theme.js";

test("series beyond the eighth have the same colours and other dashes", () => {
  equal([0, 7, 8, 9].map(colour), ["var(--c0)", "var(--c7)", "var(--c0)", "var(--c1)"]);
  equal([0, 7, 8, 16, 24, 32].map(dash), ["", "", "6 4", "2 4", "8 3 2 3", ""]);
});
