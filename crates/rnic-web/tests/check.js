// Functions for the tests of the modules. `outcome` collects the number of the tests and the failures.
const outcome = globalThis.outcome ??= { tests: 0, failures: [] };
const test = (name, run) => {
  outcome.tests += 1;
  try {
    run();
  } catch (error) {
    outcome.failures.push(`${name}: ${error.message}`);
  }
};
const equal = (found, expected) => {
  const [left, right] = [found, expected].map((value) => JSON.stringify(value));
  if (left !== right) throw new Error(`${left} instead of ${right}`);
};
const near = (found, expected) => {
  if (!(Math.abs(found - expected) < 1e-6)) throw new Error(`${found} instead of ${expected}`);
};
