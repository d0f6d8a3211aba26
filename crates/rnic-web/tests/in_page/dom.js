import { choice, element } from "./dom.js";
import { number, table } from "./table.js";

const HOSTILE = '<img src=x onerror="window.attacked = 1"></script>';

test("text is never markup", () => {
  const made = element("p", { title: HOSTILE }, HOSTILE, element("b", {}, HOSTILE));
  equal(made.querySelectorAll("*").length, 1);
  equal([made.title, made.textContent], [HOSTILE, HOSTILE + HOSTILE]);
});
test("null attributes and children are left out, and zero is text", () => {
  const made = element("p", { id: null, class: undefined }, null, undefined, 0, ["a", null]);
  equal([made.attributes.length, made.textContent], [0, "0a"]);
});
test("one button of a choice is pressed", () => {
  const parent = document.createElement("div");
  let chosen = null;
  const press = choice(parent, HOSTILE, [["a", "A"], ["b", HOSTILE]], "a", (value) => { chosen = value; });
  const pressed = () => [...parent.children].map((button) => button.getAttribute("aria-pressed"));
  equal(pressed(), ["true", "false"]);
  parent.children[1].click();
  press(chosen);
  equal([chosen, pressed(), parent.querySelectorAll("img").length], ["b", ["false", "true"], 0]);
});
test("columns of numbers are aligned at the right", () => {
  const made = table(["Host", number("Probes")], [[HOSTILE, 0], [element("i", {}, "h1"), null]]);
  equal([...made.querySelectorAll("th")].map((cell) => cell.textContent), ["Host", "Probes"]);
  equal([...made.querySelectorAll("td")].map((cell) => cell.textContent), [HOSTILE, "0", "h1", ""]);
  equal([...made.querySelectorAll("td")].map((cell) => cell.className), ["", "number", "", "number"]);
  equal(made.querySelectorAll("img, script").length, 0);
});
