import { clampedWindow, speedsFor, zoomedWindow } from "./player.js";
import { ramp } from "./fabric.js";

test("a window stays within the run", () => {
  equal(clampedWindow(-10, 20, 100), [0, 30]);
  equal(clampedWindow(90, 120, 100), [70, 100]);
  equal(clampedWindow(-10, 300, 100), [0, 100]);
  equal(clampedWindow(50, 50, 100), [50, 50.001]);
});
test("zoom keeps the place of the time", () => {
  equal(zoomedWindow([0, 100], 25, 0.5, 100), [12.5, 62.5]);
  equal(zoomedWindow([12.5, 62.5], 25, 2, 100), [0, 100]);
});
test("speeds are round numbers", () => {
  const speeds = speedsFor(100000);
  near(speeds[0], 1000);
  near(speeds[speeds.length - 1], 50000);
  equal(speeds.length, 6);
});
test("colours between two", () => {
  equal(ramp("#000000", "#ff8000", 3), ["rgb(0,0,0)", "rgb(128,64,0)", "rgb(255,128,0)"]);
});
