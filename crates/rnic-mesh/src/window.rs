//! Results of probes over the last minute, ten minutes and hour. Times are in ms of a monotonic clock.

use crate::histogram::Histogram;
use crate::record::ProbeResult;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Length in ms of the short slots, which cover the last minute.
const SHORT_MS: u64 = 10_000;
/// Length in ms of the long slots, which cover the last hour.
const LONG_MS: u64 = 60_000;

/// The interval before now over which an alarm or a view summarises results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Window {
    /// One minute.
    #[serde(rename = "1m")]
    Minute,
    /// Ten minutes.
    #[serde(rename = "10m")]
    TenMinutes,
    /// One hour.
    #[serde(rename = "1h")]
    Hour,
}

impl Window {
    /// All windows.
    pub const ALL: [Window; 3] = [Window::Minute, Window::TenMinutes, Window::Hour];

    /// The name in files and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Window::Minute => "1m",
            Window::TenMinutes => "10m",
            Window::Hour => "1h",
        }
    }

    /// The length in ms.
    pub const fn length_ms(self) -> u64 {
        match self {
            Window::Minute => 60_000,
            Window::TenMinutes => 600_000,
            Window::Hour => 3_600_000,
        }
    }
}

impl From<Window> for (Window, u64) {
    fn from(window: Window) -> (Window, u64) {
        (window, 0)
    }
}

/// Counts and round-trip times of some probes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cell {
    /// Number of probes whose results concern the network.
    pub probes: u64,
    /// Number of lost probes.
    pub lost: u64,
    /// Round-trip times of the network.
    pub network: Histogram,
}

impl Cell {
    fn add(&mut self, result: ProbeResult) {
        match result {
            ProbeResult::Gone => return,
            ProbeResult::Timeout | ProbeResult::Unreachable => self.lost += 1,
            ProbeResult::Answered { split_ns, .. } => {
                if let Some((_, network)) = split_ns {
                    self.network.add(network);
                }
            }
        }
        self.probes += 1;
    }

    /// Adds all probes of another cell.
    pub fn merge(&mut self, other: &Cell) {
        self.probes += other.probes;
        self.lost += other.lost;
        self.network.merge(&other.network);
    }

    /// Share of lost probes, 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.probes == 0 { 0.0 } else { self.lost as f64 / self.probes as f64 }
    }

    /// A quantile of the round-trip time of the network in microseconds.
    pub fn quantile_us(&self, part: f64) -> Option<f64> {
        self.network.quantile(part).map(|ns| ns / 1e3)
    }
}

/// The cells of a scope or a pair of ToR switches over time.
#[derive(Clone, Default, Debug)]
pub struct Series {
    short: VecDeque<(u64, Cell)>,
    long: VecDeque<(u64, Cell)>,
}

impl Series {
    /// Adds the result of a probe that the controller received at `now`.
    pub fn add(&mut self, now: u64, result: ProbeResult) {
        for (slots, slot, keep) in [(&mut self.short, now / SHORT_MS, 7), (&mut self.long, now / LONG_MS, 61)] {
            // The clock is monotonic, and older results of an earlier controller are added before newer ones.
            if slots.back().is_none_or(|(last, _)| *last < slot) {
                slots.push_back((slot, Cell::default()));
            }
            if let Some((_, cell)) = slots.back_mut() {
                cell.add(result);
            }
            while slots.front().is_some_and(|(first, _)| first + keep <= slot) {
                slots.pop_front();
            }
        }
    }

    fn cells(&self, (window, after): (Window, u64), now: u64) -> impl Iterator<Item = &Cell> {
        let (slots, length, count) = match window {
            Window::Minute => (&self.short, SHORT_MS, 6),
            Window::TenMinutes => (&self.long, LONG_MS, 10),
            Window::Hour => (&self.long, LONG_MS, 60),
        };
        let last = now / length;
        slots.iter().filter(move |(slot, _)| slot + count > last && slot * length >= after).map(|(_, cell)| cell)
    }

    /// All probes in a window before `now`, given as a [`Window`], or with a time in ms before which no cell begins.
    pub fn over(&self, window: impl Into<(Window, u64)>, now: u64) -> Cell {
        let mut sum = Cell::default();
        self.cells(window.into(), now).for_each(|cell| sum.merge(cell));
        sum
    }

    /// Numbers of all and of lost probes in a window before `now`.
    pub fn counts(&self, window: impl Into<(Window, u64)>, now: u64) -> (u64, u64) {
        let cells = self.cells(window.into(), now);
        cells.fold((0, 0), |(probes, lost), cell| (probes + cell.probes, lost + cell.lost))
    }

    /// Start in ms of the oldest cell of [`Window::Minute`].
    pub fn minute_start(&self, now: u64) -> u64 {
        (now / SHORT_MS).saturating_sub(5) * SHORT_MS
    }

    /// The cells over time, each with the age of its start and its length in ms. One-minute cells of the last hour come
    /// first, then ten-second cells of the last minute.
    pub fn history(&self, now: u64) -> impl Iterator<Item = (u64, u64, &Cell)> {
        fn of(slots: &VecDeque<(u64, Cell)>, length: u64, now: u64) -> impl Iterator<Item = (u64, u64, &Cell)> {
            slots.iter().map(move |(slot, cell)| (now.saturating_sub(slot * length), length, cell))
        }
        of(&self.long, LONG_MS, now).chain(of(&self.short, SHORT_MS, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(us: u64) -> ProbeResult {
        ProbeResult::Answered { total_ns: 0, prober_ns: 0, split_ns: Some((0, us * 1_000)) }
    }

    #[test]
    fn windows_forget() {
        let mut series = Series::default();
        for second in 0..7_200 {
            let result = if second < 3_600 { ProbeResult::Timeout } else { answered(10) };
            series.add(second * 1_000, result);
        }
        series.add(7_200_000, ProbeResult::Gone);
        let over = |window| {
            let cell = series.over(window, 7_200_000);
            (cell.probes, cell.lost)
        };
        // The current slot has just begun.
        assert_eq!(over(Window::Minute), (50, 0));
        assert_eq!(over(Window::TenMinutes), (9 * 60, 0));
        assert_eq!(over(Window::Hour), (59 * 60, 0));
        assert_eq!(series.over(Window::Minute, 9_000_000).probes, 0);
        assert_eq!(series.history(7_200_000).count(), 61 + 7);
    }
}
