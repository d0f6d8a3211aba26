//! The content of the view in the terminal: the progress of each run, and for the fabric of each run, the busiest ports
//! and the rates of drops, trims and pauses.

use crate::run_state::{RunState, Stage};
use rnic_fabric::{PortId, Topology};
use rnic_spec::{Frame, FramePort, RunEvent};
use rnic_transport::Time;
use rnic_untrusted::text::escaped;
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Number of ports that are kept as the hottest.
const HOTTEST: usize = 32;
/// Number of intervals whose rates are kept.
const RATES: usize = 240;
/// Number of warnings that are kept.
const WARNINGS: usize = 16;

/// All runs of a scenario.
pub(super) struct Board {
    /// Escaped for a terminal.
    pub(super) title: String,
    pub(super) runs: Vec<Run>,
    /// The run whose fabric is shown.
    pub(super) selected: usize,
    /// Whether the user has selected a run. Otherwise the view shows the run that began last.
    pub(super) is_chosen: bool,
    pub(super) has_help: bool,
    /// The latest warnings, escaped for a terminal.
    pub(super) warnings: VecDeque<String>,
}

/// One run.
#[derive(Default)]
pub(super) struct Run {
    /// Escaped for a terminal.
    pub(super) name: String,
    pub(super) state: RunState,
    pub(super) fabric: Fabric,
}

/// The fabric of a run at its latest frame.
#[derive(Default)]
pub(super) struct Fabric {
    topology: Option<Arc<Topology>>,
    ports: Vec<FramePort>,
    time: Time,
    /// The hottest ports in the latest interval, hottest first.
    pub(super) hottest: Vec<Hot>,
    /// Number of paused transmitters.
    pub(super) paused: usize,
    /// Number of flows under way.
    pub(super) under_way: usize,
    /// Pauses that have ended since the latest frame.
    pauses: u64,
    /// Packets dropped or lost, packets trimmed, and pauses that ended: in total, and per second of simulated time in
    /// each of the latest intervals.
    pub(super) totals: [u64; 3],
    pub(super) rates: [VecDeque<u64>; 3],
}

/// A port in the latest interval.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Hot {
    /// Escaped for a terminal.
    pub(super) name: String,
    /// Part of the interval for which the port was sending.
    pub(super) used: f64,
    /// Bytes in its queue.
    pub(super) queued: u64,
    pub(super) is_paused: bool,
}

impl Board {
    pub(super) fn new<'a>(title: &str, names: impl Iterator<Item = &'a str>) -> Board {
        let run = |name| Run { name: escaped(name).into_owned(), ..Run::default() };
        Board {
            title: escaped(title).into_owned(),
            runs: names.map(run).collect(),
            selected: 0,
            is_chosen: false,
            has_help: false,
            warnings: VecDeque::new(),
        }
    }

    /// Takes an event of a run at a time in nanoseconds.
    pub(super) fn event(&mut self, run: usize, event: &RunEvent, nanoseconds: u64) {
        let Some(found) = self.runs.get_mut(run) else { return };
        found.state.event(event, nanoseconds);
        match event {
            RunEvent::Started { warnings, .. } => {
                warnings.iter().for_each(|warning| self.warn(run, warning));
                if !self.is_chosen {
                    self.selected = run;
                }
            }
            RunEvent::Failed { reason } => self.warn(run, reason),
            _ => {}
        }
    }

    fn warn(&mut self, run: usize, warning: &str) {
        let Some(found) = self.runs.get(run) else { return };
        if self.warnings.len() == WARNINGS {
            self.warnings.pop_front();
        }
        self.warnings.push_back(format!("{}: {}", found.name, escaped(warning)));
    }

    /// Selects the next (`1`) or the previous run (`-1`).
    pub(super) fn select(&mut self, step: isize) {
        let last = self.runs.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(step).min(last);
        self.is_chosen = true;
    }
}

impl Run {
    /// The state of the run as text.
    pub(super) fn text(&self) -> String {
        let state = &self.state;
        match state.stage {
            Stage::Running => state.text(),
            Stage::Finished => format!("{}  {}", state.stage.name(), state.text()),
            stage => stage.name().to_string(),
        }
    }
}

impl Fabric {
    pub(super) fn begin(&mut self, topology: &Arc<Topology>) {
        *self = Fabric {
            topology: Some(topology.clone()),
            ports: vec![FramePort::default(); topology.ports.len()],
            ..Fabric::default()
        };
    }

    /// A pause has ended.
    pub(super) fn pause(&mut self) {
        self.pauses += 1;
    }

    /// Takes a frame of the run.
    pub(super) fn take(&mut self, frame: &Frame) {
        let interval = frame.time.saturating_sub(self.time).as_ps();
        let paused: BTreeSet<u32> = frame.pauses.iter().map(|pause| pause.port).collect();
        let mut new = [0, 0, std::mem::take(&mut self.pauses)];
        let mut busy: Vec<(u64, u64, u32)> = Vec::with_capacity(frame.ports.len());
        for port in &frame.ports {
            let Some(slot) = self.ports.get_mut(port.port as usize) else { continue };
            let before = std::mem::replace(slot, *port);
            new[0] += (port.dropped + port.lost).saturating_sub(before.dropped + before.lost);
            new[1] += port.trimmed.saturating_sub(before.trimmed);
            busy.push((port.busy_ps.saturating_sub(before.busy_ps), port.queued, port.port));
        }
        // A paused port that waits has not changed, and is hot nevertheless.
        let changed: BTreeSet<u32> = busy.iter().map(|(_, _, port)| *port).collect();
        let waiting = paused.difference(&changed).filter_map(|port| self.ports.get(*port as usize));
        busy.extend(waiting.map(|port| (0, port.queued, port.port)));
        busy.sort_unstable_by_key(|(busy, queued, port)| (Reverse(*busy), Reverse(*queued), *port));
        busy.truncate(HOTTEST);
        if interval > 0 {
            self.hottest = busy.into_iter().map(|hot| self.hot(hot, interval, &paused)).collect();
        }
        for (kind, count) in new.into_iter().enumerate() {
            self.totals[kind] += count;
            if interval > 0 {
                let per_second = u128::from(count) * 1_000_000_000_000 / u128::from(interval);
                let rates = &mut self.rates[kind];
                if rates.len() == RATES {
                    rates.pop_front();
                }
                rates.push_back(u64::try_from(per_second).unwrap_or(u64::MAX));
            }
        }
        (self.time, self.paused, self.under_way) = (frame.time, paused.len(), frame.delivered.len());
    }

    fn hot(&self, (busy, queued, port): (u64, u64, u32), interval: u64, paused: &BTreeSet<u32>) -> Hot {
        let name =
            self.topology.as_ref().map_or_else(|| format!("port {port}"), |topology| topology.port_name(PortId(port)));
        let used = (busy as f64 / interval as f64).min(1.0);
        Hot { name: escaped(&name).into_owned(), used, queued, is_paused: paused.contains(&port) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The start of a run with these warnings.
    pub(in super::super) fn started(warnings: &[&str]) -> RunEvent {
        let warnings = warnings.iter().map(ToString::to_string).collect();
        RunEvent::Started { run: "a".into(), seed: 1, parameters: Vec::new(), warnings }
    }
    use rnic_spec::FramePause;

    fn port(port: u32, queued: u64, busy_us: u64, dropped: u64) -> FramePort {
        FramePort { port, queued, busy_ps: busy_us * 1_000_000, dropped, ..FramePort::default() }
    }

    #[test]
    fn ports_and_rates_are_those_of_the_latest_interval() {
        let mut fabric = Fabric { ports: vec![FramePort::default(); 4], ..Fabric::default() };
        fabric.take(&Frame {
            time: Time::from_us(10),
            ports: vec![port(0, 0, 10, 0), port(1, 9_000, 5, 2)],
            ..Frame::default()
        });
        fabric.pause();
        let pause = FramePause { port: 1, priority: 3, since: Time::from_us(12), waits_for: None, root: None };
        let ports = vec![port(2, 100, 5, 4)];
        fabric.take(&Frame { time: Time::from_us(20), ports, pauses: vec![pause], ..Frame::default() });
        let hot = |name: &str, used, queued, is_paused| Hot { name: name.to_string(), used, queued, is_paused };
        assert_eq!(fabric.hottest, [hot("port 2", 0.5, 100, false), hot("port 1", 0.0, 9_000, true)]);
        // 2 drops and then 4 in 10 us each: 200,000 and 400,000 per second.
        assert_eq!(fabric.rates[0], [200_000, 400_000]);
        assert_eq!((fabric.rates[2].clone(), fabric.totals, fabric.paused), ([0, 100_000].into(), [6, 0, 1], 1));
    }

    #[test]
    fn the_memory_of_a_board_is_bounded() {
        let mut board = Board::new("t", ["a"].into_iter());
        for number in 0..1_000 {
            board.warn(0, &number.to_string());
            let time = Time::from_us(number + 1);
            board.runs[0].fabric.take(&Frame { time, ..Frame::default() });
        }
        assert_eq!((board.warnings.len(), board.runs[0].fabric.rates[0].len()), (WARNINGS, RATES));
        board.warn(7, "no such run");
        board.select(-5);
        board.select(1);
        assert_eq!(board.selected, 0);
    }
}
