// HTML elements. Text becomes text nodes and never markup, because names come from files and from other hosts.

// An element with attributes and children, which are elements or texts. Attributes and children that are null or
// undefined are left out. The attribute `click` is a function.
export const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "click") made.addEventListener("click", value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : String(child));
  }
  return made;
};

export const byId = (id) => document.getElementById(id);

// Sets the text of an element, unless it has this text: a text that is set again would lay the page out again.
export const setText = (parent, text) => {
  if (parent.textContent !== text) parent.textContent = text;
};

// A button. `pressed` is null for a button that is not a switch.
export const button = (text, pressed, click, attributes = {}) => element(
  "button",
  { type: "button", "aria-pressed": pressed === null ? null : String(pressed), ...attributes, click },
  text,
);

// Adds a group of buttons of which one is pressed. `options` are pairs of a value and its text; `choose` gets the value
// of a button that is clicked. Returns the function that sets the pressed button by its value.
export const choice = (parent, label, options, pressed, choose) => {
  const buttons = options.map(([value, text]) => button(text, value === pressed, () => choose(value), { "data-value": value }));
  const press = (chosen) => buttons.forEach((item, i) => item.setAttribute("aria-pressed", String(options[i][0] === chosen)));
  parent.classList.add("choice");
  parent.setAttribute("role", "group");
  parent.setAttribute("aria-label", label);
  parent.replaceChildren(...buttons);
  return press;
};
