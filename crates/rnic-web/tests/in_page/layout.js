import { addDrawing, drawingWidth, enableLayout } from "./layout.js";
import { element } from "./dom.js";
import { enableHints } from "./table.js";
import { enableTips } from "./tip.js";

test("figures have the width of their box, on paper a part of 690 pixels", () => {
  const box = element("div");
  box.style.width = "333.4px";
  const closed = element("details", {}, element("summary", {}, "more"));
  const numbers = element("details", { class: "numbers" });
  document.body.replaceChildren(box, closed, numbers);
  const widths = [];
  enableLayout();
  addDrawing(() => widths.push(drawingWidth(box, 3)));
  equal(drawingWidth(box, 1), 333);
  dispatchEvent(new Event("beforeprint"));
  equal([closed.open, numbers.open], [true, false]);
  // (690 - 2 * 18) / 3 = 218; (690 - 18) / 2 = 336.
  equal([drawingWidth(box, 1), drawingWidth(box, 2), drawingWidth(box, 4)], [690, 336, 336]);
  dispatchEvent(new Event("afterprint"));
  equal([widths, closed.open], [[218, 333], false]);
  box.style.width = "20px";
  equal(drawingWidth(box, 1), 200);
});
test("a table that is too wide has a hint", () => {
  const inside = (width) => {
    const content = element("div", {}, "text");
    content.style.width = width;
    const wide = element("div", { class: "wide" }, element("div", { class: "scroll" }, content));
    wide.style.width = "200px";
    return wide;
  };
  const [narrow, broad] = [inside("100px"), inside("400px")];
  document.body.replaceChildren(narrow, broad);
  enableHints();
  equal([narrow, broad].map((wide) => wide.classList.contains("more")), [false, true]);
});
test("elements with a tip show it, and Escape hides it", () => {
  const text = "<b>exact</b>";
  const item = element("span", { "data-tip": text }, "brief");
  document.body.replaceChildren(item);
  enableTips();
  item.dispatchEvent(new PointerEvent("pointermove", { clientX: 5, clientY: 5, bubbles: true }));
  const tip = document.getElementById("tip");
  equal([tip.textContent, tip.children.length, tip.classList.contains("on")], [text, 0, true]);
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  equal(tip.classList.contains("on"), false);
});
