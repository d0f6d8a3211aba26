//! Solves the delay differential equations of the fluid models by the Runge-Kutta method of fourth order with a fixed
//! time step; past values between two steps are interpolated by a cubic polynomial.
//!
//! The numerical error is of fourth order in the time step where the solution is smooth. It is of first or second order
//! where the right-hand side has a kink: at a threshold, when a rate reaches its bound, or when a flow starts.

use std::collections::VecDeque;

/// A system of delay differential equations.
pub(crate) trait System {
    /// Number of components of the state, which are the unknowns of the equations.
    fn width(&self) -> usize;
    /// Number of components of the state, counted from the first, whose past values the equations need.
    fn remembered(&self) -> usize;
    /// Number of time steps for which past values are kept; `None`: all past values are kept.
    fn memory(&self) -> Option<usize>;
    /// Computes the derivatives of the state, per second, at the time `step` + `part`, which is in units of time steps;
    /// `part` is 0 to 1.
    fn slopes(&self, step: usize, part: f64, state: &[f64], past: &History, slopes: &mut [f64]);
    /// Limits the state after `step` time steps to its bounds (a queue, for example, is not negative), and sets the
    /// state of flows that start there.
    fn bound(&self, step: usize, state: &mut [f64]);
}

/// Past values and derivatives of the state, at points in time that are one time step apart. Only those components of
/// the state are stored whose past the equations need.
pub(crate) struct History {
    width: usize,
    first: usize,
    step: f64,
    values: VecDeque<f64>,
    slopes: VecDeque<f64>,
}

impl History {
    fn push(&mut self, values: &[f64], slopes: &[f64], memory: Option<usize>) {
        self.values.extend(&values[..self.width]);
        self.slopes.extend(&slopes[..self.width]);
        if memory.is_some_and(|memory| self.values.len() > (memory + 2) * self.width) {
            self.values.drain(..self.width);
            self.slopes.drain(..self.width);
            self.first += 1;
        }
    }

    /// Number of the latest point in time that the history has; point 0 is time 0.
    fn last(&self) -> usize {
        self.first + self.values.len() / self.width - 1
    }

    /// The value of a component of the state at the time `point` + `part`, by cubic Hermite interpolation. The unit of
    /// this time is one time step. The history must have the point after `point`, unless `part` is 0.
    pub(crate) fn at(&self, component: usize, point: usize, part: f64) -> f64 {
        let here = (point - self.first) * self.width + component;
        if part == 0.0 {
            return self.values[here];
        }
        let next = here + self.width;
        let (v0, v1) = (self.values[here], self.values[next]);
        let (s0, s1) = (self.slopes[here] * self.step, self.slopes[next] * self.step);
        let rest = 1.0 - part;
        let straight = rest * v0 + part * v1;
        straight + part * rest * (rest * (s0 - (v1 - v0)) - part * (s1 - (v1 - v0)))
    }

    /// The value of a component of the state at a time in units of time steps. Before the first point it is the value
    /// at the first point, and after the last point it is the value at the last point.
    pub(crate) fn at_time(&self, component: usize, steps: f64) -> f64 {
        let point = steps.floor();
        if point < self.first as f64 {
            return self.at(component, self.first, 0.0);
        }
        let point = point as usize;
        match point < self.last() {
            true => self.at(component, point, steps - point as f64),
            false => self.at(component, self.last(), 0.0),
        }
    }
}

/// Solves the system of equations at the points in time 0 to `steps`, which are `step` seconds apart, and passes the
/// state at each point to `show`.
pub(crate) fn solve(system: &impl System, step: f64, steps: usize, mut show: impl FnMut(usize, &[f64])) {
    let width = system.width();
    let mut history =
        History { width: system.remembered(), first: 0, step, values: VecDeque::new(), slopes: VecDeque::new() };
    let mut state = vec![0.0; width];
    let mut stage = vec![0.0; width];
    let mut k = [vec![0.0; width], vec![0.0; width], vec![0.0; width], vec![0.0; width]];
    system.bound(0, &mut state);
    show(0, &state);
    for n in 0..steps {
        system.slopes(n, 0.0, &state, &history, &mut k[0]);
        history.push(&state, &k[0], system.memory());
        for (last, part) in [(0, 0.5), (1, 0.5), (2, 1.0)] {
            for i in 0..width {
                stage[i] = state[i] + part * step * k[last][i];
            }
            system.slopes(n, part, &stage, &history, &mut k[last + 1]);
        }
        for i in 0..width {
            state[i] += step / 6.0 * (k[0][i] + 2.0 * (k[1][i] + k[2][i]) + k[3][i]);
        }
        system.bound(n + 1, &mut state);
        show(n + 1, &state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delay differential equation x' = -x(t - 1) with x = 1 before 0: the solution is a polynomial on each
    /// interval of length 1.
    struct Decay {
        delay: usize,
    }

    impl System for Decay {
        fn width(&self) -> usize {
            1
        }
        fn remembered(&self) -> usize {
            1
        }
        fn memory(&self) -> Option<usize> {
            Some(self.delay)
        }
        fn slopes(&self, step: usize, part: f64, _state: &[f64], past: &History, slopes: &mut [f64]) {
            slopes[0] = if step < self.delay { -1.0 } else { -past.at(0, step - self.delay, part) };
        }
        fn bound(&self, step: usize, state: &mut [f64]) {
            if step == 0 {
                state[0] = 1.0;
            }
        }
    }

    #[test]
    fn a_solution_by_hand() {
        // x(1) = 0, x(2) = -1/2, x(3) = -1/6, x(4) = 5/24, x(5) = 19/120: sums of (-1)^k (n - k + 1)^k / k!.
        let expected = [1.0, 0.0, -0.5, -1.0 / 6.0, 5.0 / 24.0, 19.0 / 120.0];
        let error = |delay: usize| {
            let mut worst = 0.0f64;
            solve(&Decay { delay }, 1.0 / delay as f64, 5 * delay, |step, state| {
                if step % delay == 0 {
                    worst = worst.max((state[0] - expected[step / delay]).abs());
                }
            });
            worst
        };
        let (coarse, fine) = (error(4), error(8));
        assert!(fine < 1e-5, "{fine:e}");
        let order = (coarse / fine).log2();
        assert!((3.5..5.5).contains(&order), "{coarse:e} {fine:e} {order}");
    }

    #[test]
    fn the_past_between_points_is_a_cubic() {
        let cubic = |t: f64| t * t * t - 2.0 * t * t + 3.0;
        let slope = |t: f64| 3.0 * t * t - 4.0 * t;
        let mut history = History { width: 1, first: 0, step: 0.5, values: VecDeque::new(), slopes: VecDeque::new() };
        for point in 0..4 {
            let t = f64::from(point) * 0.5;
            history.push(&[cubic(t)], &[slope(t)], None);
        }
        for t in [0.0, 0.1, 0.5, 0.8, 1.3] {
            assert!((history.at_time(0, t / 0.5) - cubic(t)).abs() < 1e-14, "{t}");
        }
        assert_eq!((history.at_time(0, -3.0), history.at_time(0, 9.0)), (cubic(0.0), cubic(1.5)));
    }
}
