// Selection of a spot (a bar, a point, an interval) of a figure by pointer or keys.

import { node } from "./svg.js";
import { colour } from "./theme.js";
import { hideTip, hideTipOf, showTip } from "./tip.js";
import { selectedBy } from "./keyboard.js";

// Highlights the spot that is nearest to the pointer or selected by keys, and shows its tooltip. A spot is
// `{ x, y, series, tip }` in the figure's coordinates. `distance` is infinite for a pointer that is too far from a spot.
export const hover = (svg, spots, distance) => {
  const halo = node("circle", { r: 5, class: "halo", visibility: "hidden" }, svg);
  const owner = { leave: () => halo.setAttribute("visibility", "hidden") };
  let current = -1;
  const select = (index) => {
    current = index;
    const spot = spots[index];
    const bounds = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / bounds.width;
    halo.setAttribute("cx", spot.x);
    halo.setAttribute("cy", spot.y);
    halo.setAttribute("fill", colour(spot.series));
    showTip(owner, spot.tip, bounds.left + spot.x / scale, bounds.top + spot.y / scale);
    halo.setAttribute("visibility", "visible");
  };
  const point = (event) => {
    const bounds = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / bounds.width;
    const [x, y] = [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
    let nearest = -1;
    let least = Infinity;
    spots.forEach((spot, i) => {
      const away = distance(spot, x, y);
      if (away < least) [nearest, least] = [i, away];
    });
    if (nearest >= 0) select(nearest);
    else hideTipOf(owner);
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  // On a touch screen, lifting the finger counts as leaving the figure. The tooltip stays, so that it can be read.
  svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
  svg.addEventListener("blur", hideTip);
  svg.addEventListener("keydown", (event) => {
    const index = selectedBy(event.key, spots, current);
    if (index < 0) return;
    select(index);
    event.preventDefault();
  });
};
