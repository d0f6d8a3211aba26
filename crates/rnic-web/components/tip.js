// The tooltip of the page.

let tip = null;
let shownBy = null;

const leave = () => {
  if (shownBy && shownBy.leave) shownBy.leave();
  shownBy = null;
};

// Shows a text next to a position in the window. `owner` is any object; if it has a function `leave`, this function is
// called when the tooltip disappears or shows the text of another owner.
export const showTip = (owner, text, x, y) => {
  if (shownBy !== owner) leave();
  shownBy = owner;
  if (!tip) {
    tip = document.createElement("div");
    tip.id = "tip";
    tip.setAttribute("role", "status");
  }
  if (!tip.isConnected) document.body.appendChild(tip);
  tip.textContent = text;
  tip.classList.add("on");
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - width - 8))}px`;
  tip.style.top = `${y - height - 14 < 8 ? y + 18 : y - height - 14}px`;
};

export const hideTip = () => {
  leave();
  if (tip) tip.classList.remove("on");
};

// Hides the tooltip, if it is of this owner.
export const hideTipOf = (owner) => { if (shownBy === owner) hideTip(); };

// Lets elements with the attribute `data-tip` show its text, and lets clicks elsewhere, Escape and scrolling hide the
// tooltip.
export const enableTips = () => {
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".plot svg, [data-tip]")) hideTip();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });
  for (const item of document.querySelectorAll("[data-tip]")) {
    const show = (event) => showTip(item, item.dataset.tip, event.clientX, event.clientY);
    item.addEventListener("pointermove", show);
    item.addEventListener("pointerdown", show);
    // On a touch screen, lifting the finger counts as leaving. The tooltip stays, so that it can be read.
    item.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
  }
};
