import { brief, columnName, exact, rangeText } from "./numbers.js";

for (const { unit, value, text } of AXES.labels) test(`label ${text}`, () => equal(exact(unit, value), text));

test("three digits keep their trailing zeros", () => {
  equal(brief("number", 5), "5.00");
  equal(brief("number", 0), "0");
  equal(brief("time", 1999.9), "2.00\u00a0ms");
  equal(brief("time", 999.9), "1.00\u00a0ms");
  equal(brief("bytes", 1000), "1.00\u00a0KB");
  equal(brief("percent", 0.05), "0.0500\u00a0%");
  equal(brief("number", 34170), "34,200");
  equal(exact("minutes", -2.5), "-2.5\u00a0min");
});
test("a value that is not finite is a dash", () => {
  equal([null, undefined, NaN, Infinity].map((value) => brief("time", value)), Array(4).fill("\u2013"));
  equal(exact("number", null), "\u2013");
});
test("a range of one value is the value", () => {
  equal(rangeText("factor", [1.5, 1.5]), "1.5\u00d7");
  equal(rangeText("time", [500, 1500]), "500\u00a0\u00b5s \u2013 1.5\u00a0ms");
});
test("columns state their unit", () => {
  equal([columnName("Time", "time"), columnName("Flows", "number")], ["Time, us", "Flows"]);
});
