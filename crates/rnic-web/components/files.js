// Figures as files: the drawing as SVG, and the download of a text.

import { node, textWidth } from "./svg.js";
import { colourName } from "./theme.js";

// Offers a text to the reader as a file.
export const save = (name, type, text) => saveBlob(name, new Blob([text], { type }));

const saveBlob = (name, blob) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};

// Pixels of a PNG file per unit of the drawing, so that it is sharp on paper and on slides.
const SHARPNESS = 3;

// Offers a drawing, the text of an SVG file, to the reader as a PNG file.
export const savePng = (name, svg) => {
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width * SHARPNESS, image.height * SHARPNESS];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => saveBlob(name, blob), "image/png");
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
};

export const fileName = (title, ending) => {
  const words = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `${words}.${ending}`;
};

const STYLES = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "paint-order",
  "font-size", "font-weight", "text-anchor",
];

// A copy of the drawing in which each element has its style as attributes, because the file has no style sheet.
const styledCopy = (svg) => {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((item, i) => {
    const style = getComputedStyle(originals[i]);
    if (style.visibility === "hidden") {
      item.remove();
      return;
    }
    for (const name of STYLES) item.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", ...Object.keys(item.dataset).map((key) => `data-${key}`)]) item.removeAttribute(name);
  });
  return copy;
};

// The figure with its heading and legend as the text of an SVG file. `board` has the names of the series and the hidden
// series.
export const figureSvg = (svg, figure, board) => {
  const copy = styledCopy(svg);
  const { width, height } = svg.viewBox.baseVal;
  const { color: text, backgroundColor: ground, fontFamily: font } = getComputedStyle(document.body);
  const page = getComputedStyle(document.documentElement);
  const whole = node("svg", { "font-family": font });
  const back = node("rect", { width: "100%", fill: ground }, whole);
  node("text", { x: 0, y: 14, "font-size": 14, "font-weight": 600, fill: text }, whole, figure.title);
  let [x, y] = [0, 36];
  board.series.forEach((name, series) => {
    if (board.hidden.has(series)) return;
    const wide = textWidth(name) + 34;
    if (x > 0 && x + wide > width) [x, y] = [0, y + 18];
    node("rect", { x, y: y - 10, width: 11, height: 11, fill: page.getPropertyValue(colourName(series)) }, whole);
    node("text", { x: x + 17, y, "font-size": 12, fill: text }, whole, name);
    x += wide;
  });
  const top = y + 14;
  for (const [name, value] of Object.entries({ y: top, width, height, overflow: "visible" })) copy.setAttribute(name, value);
  for (const name of ["tabindex", "role"]) copy.removeAttribute(name);
  whole.appendChild(copy);
  for (const item of [whole, back]) item.setAttribute("height", top + height + 8);
  // The last label of an axis may be wider than its place.
  whole.setAttribute("width", width + 16);
  return new XMLSerializer().serializeToString(whole);
};
