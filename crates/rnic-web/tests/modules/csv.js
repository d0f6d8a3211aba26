import { csv, figureCsv } from "./csv.js";

test("cells are quoted if they must be", () => {
  equal(csv([["a", 'say "x"', "1,5", "two\nlines", null, 0]]), 'a,"say ""x""","1,5","two\nlines",,0\n');
});
test("bars", () => {
  const bars = [
    { series: 0, name: "", value: 1.5, interval: [1, 2], note: "five seeds" },
    { series: 1, name: "own", value: null, interval: null, note: "" },
  ];
  const figure = { kind: "bars", unit: "time", groups: [{ name: "g", bars }] };
  const expected = 'group,name,"value, us",low,high,note\ng,IRN,1.5,1,2,five seeds\ng,own,,,,\n';
  equal(figureCsv(figure, ["IRN", "RoCE"]), expected);
});
test("lines", () => {
  const axis = (name, unit) => ({ name, unit });
  const views = [{ name: "p99", lines: [{ series: 0, points: [[1, 2], [3, null, [4, 5], "n"]] }] }];
  const figure = { kind: "lines", title: "T", x: axis("Load", "percent"), y: axis("", "bytes"), views };
  const expected = 'view,series,"Load, %","T, bytes",low,high,note\np99,a,1,2,,,\np99,a,3,,4,5,n\n';
  equal(figureCsv(figure, ["a"]), expected);
});
test("spans", () => {
  const figure = { kind: "spans", x: { unit: "time" }, rows: [{ name: "s0:h0", spans: [[0, 10, 30]] }] };
  equal(figureCsv(figure, ["congestion"]), 'row,series,"from, us","to, us"\ns0:h0,congestion,10,30\n');
});
