// The script of a replay: inflates the runs in the page and shows them.

import { inflated, readRun } from "./columns.js";
import { makeView } from "./view.js";
import { element } from "./dom.js";
import { enableTips } from "./tip.js";
import { enableLayout } from "./layout.js";

const start = async () => {
  const main = document.querySelector("main");
  try {
    const { runs, shown } = JSON.parse(document.getElementById("data").textContent);
    const recordings = [];
    for (const { data, ...head } of runs) recordings.push(readRun(head, await inflated(data)));
    const [first, second] = shown;
    const view = makeView(main, recordings, { first, second });
    enableTips();
    enableLayout();
    globalThis.replay = view;
    // The state for tests and for whoever measures: everything has been read and drawn.
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    main.replaceChildren(element("p", { class: "notice" }, `This replay cannot be shown: ${error.message}`));
  }
};
start();
