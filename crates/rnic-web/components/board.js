// A board: figures with a shared legend. Hiding a series in the legend hides it in all figures of the board.
//
// The data of a board is `{ series, shown, figures }`: the names of the series, the number of series that are visible
// at first, and the figures. `figure.rs` writes these data for reports.

import { button, choice, element } from "./dom.js";
import { colour } from "./theme.js";
import { hideTip } from "./tip.js";
import { drawBars, isFlat, isLog } from "./bars.js";
import { drawLines } from "./lines.js";
import { drawSpans } from "./spans.js";
import { figureCsv } from "./csv.js";
import { figureSvg, fileName, save, savePng } from "./files.js";
import { addDrawing, drawingWidth } from "./layout.js";

const DRAW = { bars: drawBars, lines: drawLines, spans: drawSpans };
// A legend with more series has buttons that show or hide all of them.
const FEW = 8;

// The HTML of a board with its figures in one row, as `board.rs` writes it for reports.
export const boardFrame = ({ series, figures }) => {
  const entries = series.map((name, i) => {
    const dot = element("i");
    // A content security policy may forbid style attributes, but not the style of an object.
    dot.style.background = colour(i);
    return element("button", { type: "button", "aria-pressed": "true", "data-series": i }, dot, name);
  });
  const frames = figures.map(({ title, caption }, i) => {
    const heading = element("figcaption", {}, element("strong", {}, title), element("span", {}, caption));
    return element("figure", { "data-figure": i }, heading, element("div", { class: "plot" }));
  });
  return element(
    "div",
    { class: "board" },
    element("div", { class: "legend", role: "group", "aria-label": "Show or hide" }, entries),
    element("div", { class: `row of${Math.min(4, figures.length)}` }, frames),
  );
};

// Buttons above a drawing that select one of several options. Returns the function that sets the pressed button.
const addChoice = (box, label, options, pressed, choose) => {
  const group = document.createElement("div");
  box.before(group);
  return choice(group, label, options, pressed, choose);
};

// Prepares the frame of a figure, and returns the function that draws the figure. `figure` and `board` are functions
// that return the current data; `redraw` draws the whole board again.
const addFigure = (frame, figure, board, redraw) => {
  const box = frame.querySelector(".plot");
  const own = { view: undefined, log: undefined };
  const { kind, title, views, first } = figure();
  if (views && views.length > 1) {
    const names = views.map((view, i) => [i, view.name]);
    const press = addChoice(box, `${title}: what to show`, names, first, (view) => {
      own.view = view;
      press(view);
      redraw();
    });
  }
  let pressAxis = () => {};
  if (kind === "bars" && isFlat(figure())) {
    const axes = [[false, "Linear"], [true, "Logarithmic"]];
    pressAxis = addChoice(box, `${title}: axis`, axes, null, (log) => {
      own.log = log;
      redraw();
    });
  }
  const saver = (format, write) => button(format, null, () => {
    if (box.querySelector("svg")) write(fileName(title, format.toLowerCase()));
  }, { "aria-label": `${title}: save as ${format} file` });
  const svg = () => figureSvg(box.querySelector("svg"), figure(), board());
  frame.prepend(element(
    "div",
    { class: "save" },
    saver("SVG", (name) => save(name, "image/svg+xml", svg())),
    saver("PNG", (name) => savePng(name, svg())),
    saver("CSV", (name) => save(name, "text/csv", figureCsv(figure(), board().series))),
  ));
  return () => {
    const state = { ...board(), ...own };
    if (kind === "bars") pressAxis(isLog(figure(), state));
    const focused = box.contains(document.activeElement);
    const width = drawingWidth(box, frame.parentElement.children.length);
    box.replaceChildren();
    DRAW[kind](box, figure(), state, width);
    if (focused && box.firstChild.focus) box.firstChild.focus();
  };
};

// Lets the buttons of the legend show and hide series, and highlight the series that the pointer is on.
const addLegend = (root, legend, hidden, redraw) => {
  const switches = [...legend.querySelectorAll("button")];
  const update = () => {
    switches.forEach((item, i) => item.setAttribute("aria-pressed", String(!hidden.has(i))));
    redraw();
  };
  switches.forEach((item, series) => {
    item.addEventListener("click", () => {
      if (!hidden.delete(series)) hidden.add(series);
      update();
    });
    const fadeOthers = (faint) => {
      if (hidden.has(series)) return;
      for (const mark of root.querySelectorAll("svg [data-series]")) {
        mark.classList.toggle("faint", faint && mark.dataset.series !== String(series));
      }
    };
    item.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") fadeOthers(true); });
    item.addEventListener("pointerleave", () => fadeOthers(false));
  });
  if (switches.length > FEW) {
    const all = button("All", null, () => {
      hidden.clear();
      update();
    });
    const none = button("None", null, () => {
      switches.forEach((_, i) => hidden.add(i));
      update();
    });
    legend.prepend(all, none);
  }
  update();
};

// Draws the figures of a board into its HTML. Returns a function that replaces the data of the board and draws the
// figures again; the series and the kinds of the figures must stay the same.
export const showBoard = (root, first) => {
  let data = first;
  const hidden = new Set(data.series.map((_, i) => i).filter((i) => i >= data.shown));
  const board = () => ({ series: data.series, hidden });
  const drawings = [];
  const redraw = () => {
    hideTip();
    for (const draw of drawings) draw();
  };
  for (const frame of root.querySelectorAll("figure")) {
    const index = Number(frame.dataset.figure);
    const draw = addFigure(frame, () => data.figures[index], board, redraw);
    drawings.push(draw);
    addDrawing(draw);
  }
  addLegend(root, root.querySelector(".legend"), hidden, redraw);
  return (changed) => {
    data = changed;
    redraw();
  };
};
