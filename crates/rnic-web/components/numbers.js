// Numbers with units, as text. A value that is null or not finite is written as a dash.

// Numbers with three digits keep their trailing zeros, as in the tables; numbers with six digits do not.
const digits = (value, count) => (count === 3 && value !== 0
  ? value.toLocaleString("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 })
  : value.toLocaleString("en", { maximumSignificantDigits: count }));

const scaled = (units) => (value, count) => {
  if (value === 0) return "0";
  // The value is rounded before the unit is chosen, so that 999.9 does not become 1,000 of the smaller unit.
  const size = Number(Math.abs(value).toPrecision(count));
  const [factor, unit] = units.find(([least]) => size >= least) || units[units.length - 1];
  return `${digits(value / factor, count)}\u00a0${unit}`;
};

// The units of `figure.rs`, and minutes for axes that show how long ago something was.
const FORMATS = {
  number: digits,
  time: scaled([[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"], [1e-3, "ns"]]),
  bytes: scaled([[1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]]),
  percent: (value, count) => `${digits(value, count)}\u00a0%`,
  factor: (value, count) => `${digits(value, count)}\u00d7`,
  minutes: (value, count) => (value === 0 ? "0" : `${digits(value, count)}\u00a0min`),
};

const format = (unit, value, count) => (Number.isFinite(value) ? FORMATS[unit](value, count) : "\u2013");

// The value with at most six significant digits, for axes and tooltips.
export const exact = (unit, value) => format(unit, value, 6);

// The value with three significant digits, for labels and tables.
export const brief = (unit, value) => format(unit, value, 3);

// Both ends of a range with at most six significant digits.
export const rangeText = (unit, [low, high]) => (low === high
  ? exact(unit, low)
  : `${exact(unit, low)} \u2013 ${exact(unit, high)}`);

// The heading of a column of values in a file, which states the unit.
export const columnName = (name, unit) => {
  const suffix = { time: "us", bytes: "bytes", percent: "%", factor: "ratio", minutes: "min" }[unit];
  return [name, suffix].filter(Boolean).join(", ");
};
