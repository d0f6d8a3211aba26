import { fileName } from "./files.js";

test("a title becomes the name of a file", () => {
  equal(fileName("99th percentile FCT", "svg"), "99th-percentile-fct.svg");
  equal(fileName("../<b>\u0000", "csv"), "b.csv");
});
