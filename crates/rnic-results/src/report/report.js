// The script of the reports: draws the boards from the page's JSON data, which `figure.rs` writes, into their frames in
// the HTML.

import { enableTips } from "./tip.js";
import { showBoard } from "./board.js";
import { enableLayout } from "./layout.js";
import { enableHints } from "./table.js";

document.documentElement.classList.add("js");
const { boards } = JSON.parse(document.getElementById("data").textContent);
for (const root of document.querySelectorAll(".board")) showBoard(root, boards[Number(root.dataset.board)]);
enableTips();
enableHints();
enableLayout();
