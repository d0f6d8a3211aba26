// The matrix of a recording: bytes from each group of hosts (rows) to each group (columns), on a canvas of constant
// size. A ring is a line beside the diagonal, an all-to-all a full square, an incast a column.

import { brief } from "./numbers.js";
import { hideTipOf, showTip } from "./tip.js";
import { fitted, inks } from "./fabric.js";
import { groupName, matrixBetween } from "./recording.js";

const LEFT = 26;

// Draws the matrix of the bytes from one time to another. Returns the bytes of the cells.
export const drawMatrix = (canvas, recording, from, to, width, colours = inks()) => {
  const context = fitted(canvas, width, width);
  const { groups, size, hosts } = recording.matrix;
  const cells = matrixBetween(recording, from, to);
  const most = cells.reduce((a, b) => Math.max(a, b), 0);
  const side = (width - LEFT - 4) / groups;
  const { shades } = colours;
  const pixels = new ImageData(groups, groups);
  const { data } = pixels;
  for (let cell = 0; cell < groups * groups; cell++) {
    // The square root keeps groups with little traffic visible.
    const shade = cells[cell] > 0 ? Math.max(3, Math.round((shades.length - 1) * Math.sqrt(cells[cell] / most))) : 0;
    const [red, green, blue] = shades[shade];
    const at = cell * 4;
    [data[at], data[at + 1], data[at + 2], data[at + 3]] = [red, green, blue, 255];
  }
  // A pixel for each cell, which the context enlarges.
  const small = (canvas.small ??= document.createElement("canvas"));
  [small.width, small.height] = [groups, groups];
  small.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, LEFT, LEFT, groups * side, groups * side);
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.beginPath();
  const lines = side > 6 ? groups : 1;
  for (let line = 0; line <= lines; line++) {
    const at = LEFT + (line * groups * side) / lines;
    context.moveTo(LEFT, at);
    context.lineTo(LEFT + groups * side, at);
    context.moveTo(at, LEFT);
    context.lineTo(at, LEFT + groups * side);
  }
  context.stroke();
  context.fillStyle = colours.muted;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  context.fillText(`0 \u2013 receivers \u2192 ${hosts - 1}`, LEFT, 14);
  context.save();
  context.translate(14, LEFT + groups * side);
  context.rotate(-Math.PI / 2);
  context.textAlign = "right";
  context.fillText(`${hosts - 1} \u2190 senders \u2013 0`, groups * side, 0);
  context.restore();
  canvas.matrix = { cells, side, groups, size, hosts };
  return cells;
};

// Lets pointer and arrow keys show the bytes of a cell of the matrix that `drawMatrix` has drawn.
export const enableMatrix = (canvas) => {
  const owner = {};
  let at = [0, 0];
  const show = () => {
    const { cells, side, groups, size, hosts } = canvas.matrix;
    const [row, column] = at.map((index) => Math.max(0, Math.min(groups - 1, index)));
    at = [row, column];
    const bounds = canvas.getBoundingClientRect();
    const [from, to] = [row, column].map((group) => groupName({ size, hosts }, group));
    const text = `${from} \u2192 ${to}\n${brief("bytes", cells[row * groups + column])}`;
    showTip(owner, text, bounds.left + LEFT + (column + 0.5) * side, bounds.top + LEFT + (row + 0.5) * side);
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!canvas.matrix) return;
    const bounds = canvas.getBoundingClientRect();
    const { side, groups } = canvas.matrix;
    const index = (pixels) => Math.floor((pixels - LEFT) / side);
    const [row, column] = [index(event.clientY - bounds.top), index(event.clientX - bounds.left)];
    if (Math.min(row, column) < 0 || Math.max(row, column) >= groups) hideTipOf(owner);
    else {
      at = [row, column];
      show();
    }
  });
  canvas.addEventListener("pointerleave", () => hideTipOf(owner));
  canvas.addEventListener("blur", () => hideTipOf(owner));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !canvas.matrix) return;
    at = [at[0] + step[0], at[1] + step[1]];
    show();
    event.preventDefault();
    event.stopPropagation();
  });
};
