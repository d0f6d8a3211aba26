// SVG elements and the width of their text.

// An SVG element with attributes and a text, appended to `parent` if there is one.
export const node = (name, attributes, parent, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
};

// Mean width of a character in pixels, for text of 12 pixels height.
const CHARACTER = 6.5;

export const textWidth = (text) => text.length * CHARACTER;

// The text in at most `most` lines of `width` pixels. Words that are too long, and the last line if words are left
// over, end with an ellipsis.
export const wrap = (text, width, most) => {
  const room = Math.max(4, Math.floor(width / CHARACTER));
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const last = lines.length - 1;
    if (lines[last] && lines[last].length + 1 + word.length > room) lines.push(word);
    else lines[last] += (lines[last] ? " " : "") + word;
  }
  const shorten = (line) => (line.length > room ? `${line.slice(0, room - 1)}\u2026` : line);
  if (lines.length > most) lines[most - 1] += " \u2026";
  return lines.slice(0, most).map(shorten);
};
