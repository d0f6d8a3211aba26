// Drawings follow the width of the window and of the paper.

import { hideTip } from "./tip.js";

// Width of a printed page in pixels.
const PAPER = 690;
// Gap between figures on paper, in pixels.
const GAP = 18;
// Number of figures side by side on paper, for a row of as many figures as the index.
const SIDE_BY_SIDE = [1, 1, 2, 3, 2];

let printing = false;
const drawings = [];

const drawAll = () => {
  hideTip();
  for (const draw of drawings) draw();
};

// Calls `draw` whenever the available width changes.
export const addDrawing = (draw) => { drawings.push(draw); };

// The width for a figure in pixels. `box` is the element that contains its drawing, `count` the number of figures in
// its row.
export const drawingWidth = (box, count) => {
  const columns = SIDE_BY_SIDE[Math.min(4, count)];
  const width = printing ? (PAPER - GAP * (columns - 1)) / columns : box.clientWidth;
  return Math.max(200, Math.round(width));
};

// Starts to follow the window and the printer. Printing opens all details, except tables of numbers.
export const enableLayout = () => {
  let drawnWidth = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === drawnWidth || printing) return;
    drawnWidth = innerWidth;
    drawAll();
  });
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.numbers)")];
    for (const details of opened) details.open = true;
    printing = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    printing = false;
    drawAll();
  });
};
