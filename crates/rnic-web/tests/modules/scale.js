import { fitting, roundAbove, roundEnds, scaleFor } from "./scale.js";

for (const { about, kind, values, round, at, unit, pixels, apart, labels } of AXES.scales) {
  test(`scale ${about}`, () => {
    const scale = scaleFor(kind, values, round);
    for (const [value, position] of at) near(scale.at(value), position);
    const fit = fitting(scale.ticks, unit, (value) => pixels * scale.at(value), () => apart);
    equal(fit.map(([, text]) => text), labels);
  });
}
test("the round number above", () => {
  equal([1, 1.01, 17, 85, 999, 0.031].map(roundAbove), [1, 1.2, 20, 100, 1000, 0.04]);
});
test("round ends", () => {
  equal(roundEnds(3, 700), [2, 1000]);
  equal(roundEnds(2, 1000), [2, 1000]);
});
test("long labels need more room than short ones", () => {
  const sets = [[1, 2, 3], [1, 5]];
  const size = (text) => 10 * text.length;
  equal(fitting(sets, "number", (value) => 10 * value, size).length, 3);
  equal(fitting(sets, "time", (value) => 10 * value, size).length, 2);
});
