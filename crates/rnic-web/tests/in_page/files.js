import { boardFrame, showBoard } from "./board.js";
import { figureSvg } from "./files.js";

const HOSTILE = '<img src=x onerror="window.attacked = 1"></script> & "';

test("a saved figure is an SVG document with its own style", () => {
  const axis = (name) => ({ name, unit: "number", scale: "zero" });
  const views = [{ name: "", lines: [{ series: 0, points: [[0, 0], [1, 1]] }, { series: 1, points: [[0, 1], [1, 0]] }] }];
  const figure = { kind: "lines", title: HOSTILE, x: axis("x"), y: axis("y"), dots: false, first: 0, views };
  const data = { series: [HOSTILE, "b"], shown: 2, figures: [figure] };
  const root = boardFrame(data);
  document.body.replaceChildren(root);
  showBoard(root, data);
  const text = figureSvg(root.querySelector("svg"), figure, { series: data.series, hidden: new Set([1]) });
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  equal(parsed.querySelectorAll("parsererror, img, script").length, 0);
  const texts = [...parsed.querySelectorAll("text")].map((item) => item.textContent);
  equal([texts[0], texts[1], texts.includes("b")], [HOSTILE, HOSTILE, false]);
  equal(parsed.querySelectorAll("[class], [data-series], [tabindex]").length, 0);
  // The first colour of theme.css, #1d5fa8.
  equal(parsed.querySelector("path").getAttribute("stroke"), "rgb(29, 95, 168)");
  equal(parsed.querySelectorAll("circle").length, 0);
});
