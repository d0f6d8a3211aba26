import { textWidth, wrap } from "./svg.js";

// A character takes 6.5 pixels, so 65 pixels are 10 characters.
test("text is wrapped between words", () => {
  equal(textWidth("ten chars!"), 65);
  equal(wrap("one two three", 65, 3), ["one two", "three"]);
  equal(wrap("one two three", 65, 1), ["one two \u2026"]);
});
test("a word that is too long ends with an ellipsis", () => equal(wrap("abcdefghijklm", 65, 2), ["abcdefghi\u2026"]));
test("at least four characters are shown", () => equal(wrap("abcdef", 1, 1), ["abc\u2026"]));
