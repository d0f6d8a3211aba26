// The script of a replay: inflates the runs in the page and shows them.

import { inflated, readRun } from "./columns.js";
import { makeView } from "./view.js";
import { element } from "./dom.js";
import { enableTips } from "./tip.js";
import { enableLayout } from "./layout.js";

const start = async () => {
  const main = document.querySelector("main");
  try {
    const { runs, shown: [first, second] } = JSON.parse(document.getElementById("data").textContent);
    if (!runs.length) throw new Error("no run was recorded");
    const recordings = [];
    for (const { data, ...head } of runs) recordings.push(readRun(head, await inflated(data)));
    const view = makeView(main, recordings, { first, second });
    // The address of an instant is that of the page and `#` with the time in microseconds.
    const asked = Number.parseFloat(location.hash.slice(1));
    const [event] = view.shown().flatMap(({ events }) => events.map(({ time }) => time)).sort((a, b) => a - b);
    view.player.seek(Number.isFinite(asked) ? asked : event ?? view.shown()[0].end / 2);
    addEventListener("hashchange", () => {
      const time = Number.parseFloat(location.hash.slice(1));
      if (Number.isFinite(time)) view.player.seek(time);
    });
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
