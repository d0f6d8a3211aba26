import { boardFrame, showBoard } from "./board.js";

const HOSTILE = '<img src=x onerror="window.attacked = 1"></script>';
const axis = (name, unit, scale) => ({ name, unit, scale });
const lines = {
  kind: "lines",
  title: `Lines ${HOSTILE}`,
  caption: HOSTILE,
  x: axis("Time", "time", "zero"),
  y: axis(HOSTILE, "number", "zero"),
  dots: true,
  first: 0,
  reference: { value: 5, name: HOSTILE },
  stated: null,
  reach: null,
  views: [
    { name: "First", lines: [{ series: 0, points: [[0, 0], [5, 10, [8, 10], HOSTILE], [10, 5]] }, { series: 1, points: [[2, null]] }] },
    { name: HOSTILE, lines: [{ series: 1, points: [[0, 10], [10, 10]] }] },
  ],
};
const bars = {
  kind: "bars",
  title: "Bars",
  caption: "",
  unit: "number",
  reference: null,
  groups: [{ name: HOSTILE, stated: [1, 2], bars: [0, 1].map((series) => ({ series, name: "", value: [5, 10][series], interval: null, note: HOSTILE })) }],
};
const spans = {
  kind: "spans",
  title: "Spans",
  caption: "",
  x: axis("Time", "time", "linear"),
  reach: [0, 100],
  marks: [{ value: 50, name: HOSTILE }],
  rows: [{ name: HOSTILE, root: null, spans: [[0, 10, 30]] }, { name: "root", root: 1, spans: [[1, 0, 100]] }],
};
const data = { series: [HOSTILE, "IRN"], shown: 2, figures: [lines, bars, spans] };

const make = () => {
  const root = boardFrame(data);
  root.style.width = "900px";
  document.body.replaceChildren(root);
  return [root, showBoard(root, structuredClone(data))];
};
const key = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const tipText = () => {
  const tip = document.getElementById("tip");
  return tip && tip.classList.contains("on") ? tip.textContent : null;
};

test("names become text only", () => {
  const [root] = make();
  equal([root.querySelectorAll("img, script").length, window.attacked ?? null], [0, null]);
  equal(root.querySelector(".legend button").textContent, HOSTILE);
});
test("a curve is where its axes say", () => {
  const [root] = make();
  const svg = root.querySelector("svg");
  // The axes end at 10. The vertical labels "0" ... "10" take 2 * 6.5 + 12 = 25 pixels; axis title and key 46; the
  // horizontal axis with its title is 44 above the lower end.
  const { width, height } = svg.viewBox.baseVal;
  const [left, right, top, bottom] = [25, width - 10, 46, height - 44];
  const place = (x, y) => `${(left + (right - left) * x / 10).toFixed(1)} ${(bottom - (bottom - top) * y / 10).toFixed(1)}`;
  equal(svg.querySelector("path.series").getAttribute("d"), `M${place(0, 0)}L${place(5, 10)}L${place(10, 5)}`);
  equal(svg.querySelector("path.band").getAttribute("d"),
    `M${place(0, 0)}L${place(5, 10)}L${place(10, 5)}L${place(10, 5)}L${place(5, 8)}L${place(0, 0)}Z`);
  equal(svg.querySelectorAll("circle.dot").length, 3);
});
test("bars have their heights", () => {
  const [root] = make();
  const [low, high] = [...root.querySelectorAll("rect.mark[data-group]")].map((bar) => Number(bar.getAttribute("height")));
  near(high / low, 2);
});
test("intervals have their widths", () => {
  const [root] = make();
  const width = (bar) => Number(bar.getAttribute("width"));
  const [first, second] = [...root.querySelectorAll("rect.mark[data-from]")].map(width);
  near(second / first, 5);
});
test("keys select points, until the figure loses the focus", () => {
  const [root] = make();
  const svg = root.querySelector("svg");
  key(svg, "ArrowRight");
  equal(tipText(), `${HOSTILE}\n0 at 0`);
  key(svg, "ArrowRight");
  equal(tipText(), `${HOSTILE}\n10 at 5\u00a0\u00b5s\ninterval 8 \u2013 10\n${HOSTILE}`);
  equal([document.querySelectorAll("#tip *").length, svg.querySelector(".halo").getAttribute("visibility")], [0, "visible"]);
  svg.dispatchEvent(new FocusEvent("blur"));
  equal([tipText(), svg.querySelector(".halo").getAttribute("visibility")], [null, "hidden"]);
});
test("the pointer selects the bar below it", () => {
  const [root] = make();
  const bar = root.querySelectorAll("rect.mark[data-group]")[1].getBoundingClientRect();
  const svg = root.querySelectorAll("svg")[1];
  const at = { clientX: bar.left + bar.width / 2, clientY: bar.bottom - 1, pointerType: "mouse" };
  svg.dispatchEvent(new PointerEvent("pointermove", at));
  equal(tipText(), `${HOSTILE}: IRN\n10\n${HOSTILE}\nstated 1 \u2013 2`);
  svg.dispatchEvent(new PointerEvent("pointerleave", at));
  equal(tipText(), null);
});
test("the legend hides a series in all figures", () => {
  const [root] = make();
  const marks = () => [...root.querySelectorAll("figure")].map((figure) => figure.querySelectorAll('.mark[data-series="0"]').length);
  equal(marks(), [1, 1, 1]);
  root.querySelector('.legend [data-series="0"]').click();
  equal([marks(), root.querySelector(".legend button").getAttribute("aria-pressed")], [[0, 0, 0], "false"]);
});
test("a view is selected", () => {
  const [root] = make();
  const buttons = root.querySelectorAll(".choice button");
  equal([...buttons].map((item) => item.textContent), ["First", HOSTILE]);
  buttons[1].click();
  equal([...root.querySelectorAll("svg")[0].querySelectorAll("path.series")].map((path) => path.dataset.series), ["1"]);
  equal([...buttons].map((item) => item.getAttribute("aria-pressed")), ["false", "true"]);
});
test("bars of very different sizes have a logarithmic axis", () => {
  const flat = structuredClone(bars);
  flat.groups[0].bars[0].value = 1000;
  flat.groups[0].stated = null;
  const board = { series: ["a", "b"], shown: 2, figures: [flat] };
  const root = boardFrame(board);
  document.body.replaceChildren(root);
  showBoard(root, board);
  const pressed = () => [...root.querySelectorAll(".choice button")].map((item) => item.getAttribute("aria-pressed"));
  equal([pressed(), root.textContent.includes("logarithmic axis")], [["false", "true"], true]);
  root.querySelector(".choice button").click();
  equal([pressed(), root.textContent.includes("logarithmic axis")], [["true", "false"], false]);
});
test("changed data are drawn, and hidden series stay hidden", () => {
  const [root, update] = make();
  root.querySelector('.legend [data-series="0"]').click();
  const changed = structuredClone(data);
  changed.figures[1].groups[0].bars[1].value = 20;
  update(changed);
  equal([...root.querySelectorAll("rect.mark[data-group]")].map((bar) => bar.dataset.value), ["20"]);
});
test("lines lead from points with a note to the axis", () => {
  const shown = (count) => {
    const curves = Array.from({ length: count }, (_, series) => ({ series, points: [[1, 0], [2, 50, null, "median"], [9, 100]] }));
    const figure = { ...lines, stated: null, drops: true, first: 0, views: [{ name: "", lines: curves }] };
    const board = { series: curves.map((_, i) => `run ${i}`), shown: count, figures: [figure] };
    const root = boardFrame(board);
    document.body.replaceChildren(root);
    showBoard(root, board);
    return root;
  };
  const root = shown(2);
  const [drop, other] = root.querySelectorAll("line.drop");
  const numbers = (item, names) => names.map((name) => Number(item.getAttribute(name)));
  const axis = Math.max(...[...root.querySelectorAll("line.axis")].map((line) => Number(line.getAttribute("y1"))));
  const path = root.querySelector("path.series").getAttribute("d").split("L")[1].split(" ").map(Number);
  const [x1, x2, y1, y2] = numbers(drop, ["x1", "x2", "y1", "y2"]);
  equal([x1 === x2, x1.toFixed(1), y1.toFixed(1), y2 === axis], [true, path[0].toFixed(1), path[1].toFixed(1), true]);
  equal([drop.dataset.note, drop.dataset.series, other.dataset.series], ["median", "0", "1"]);
  // Lines of many curves would hide each other; hidden curves do not count.
  const many = shown(5);
  equal(many.querySelectorAll("line.drop").length, 0);
  many.querySelector('.legend [data-series="3"]').click();
  equal(many.querySelectorAll("line.drop").length, 4);
});
test("a figure without points says so", () => {
  const empty = { ...lines, empty: "Nothing.", views: [{ name: "", lines: [{ series: 0, points: [] }] }] };
  const board = { series: ["a"], shown: 1, figures: [empty] };
  const root = boardFrame(board);
  document.body.replaceChildren(root);
  showBoard(root, board);
  equal(root.querySelector(".plot").textContent, "Nothing.");
});
