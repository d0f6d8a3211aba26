// Tables: built from data, and a hint beside tables that are wider than the page.

import { element } from "./dom.js";

// The title of a column of numbers, which is aligned at the right.
export const number = (title) => ({ title, number: true });

// A table in a frame that scrolls on narrow screens. `columns` are titles, or numbers made by `number`. `rows` are
// arrays of cells: text, elements, or null for an empty cell.
export const table = (columns, rows) => {
  const styles = columns.map((column) => (column.number ? "number" : null));
  const head = columns.map((column, i) => element("th", { scope: "col", class: styles[i] }, column.title ?? column));
  const body = rows.map((row) => element("tr", {}, row.map((cell, i) => element("td", { class: styles[i] }, cell))));
  const whole = element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, body));
  return element("div", { class: "scroll", tabindex: 0 }, whole);
};

// Shows a hint at each `.wide` element whose table is wider than the page.
export const enableHints = () => {
  const wides = [...document.querySelectorAll(".wide")];
  const hint = () => wides.forEach((wide) => {
    const inside = wide.querySelector(".scroll");
    const more = inside.scrollWidth - inside.clientWidth;
    wide.classList.toggle("more", more > 2);
    wide.classList.toggle("end", inside.scrollLeft >= more - 2);
  });
  for (const wide of wides) wide.querySelector(".scroll").addEventListener("scroll", hint, { passive: true });
  for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", hint);
  addEventListener("resize", hint);
  hint();
};
