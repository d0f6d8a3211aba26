// Colours and dash patterns of series. theme.css defines the colours, for light and dark pages and for paper.

const COLOURS = 8;
const DASHES = ["", "6 4", "2 4", "8 3 2 3"];

// The name of the style property with the colour of a series.
export const colourName = (series) => `--c${series % COLOURS}`;

export const colour = (series) => `var(${colourName(series)})`;

// The dash pattern of a series. Series beyond the eight colours repeat the colours with the next pattern.
export const dash = (series) => DASHES[Math.floor(series / COLOURS) % DASHES.length];
