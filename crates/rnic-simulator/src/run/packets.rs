//! The packets that `rnic run --trace-packets` writes: the life of each as a table (CSV), and their frames (pcapng).

use super::only_run;
use crate::args::PacketsOf;
use crate::error::CliError;
use crate::{output, set_up};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableStyle};
use rnic_results::text::{count, duration};
use rnic_sim::capture::{Capture, Event, PacketEvent};
use rnic_sim::{Catalogue, Events, Sharing};
use rnic_spec::{FlowLog, RunEvent, RunRecord, RunSpec, RunStatus, Scenario};
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Names of the files.
pub(super) const FILES: [&str; 2] = ["packets.csv", "packets.pcapng"];

/// Columns of `packets.csv`, one row per event.
const COLUMNS: [&str; 10] = ["time_ns", "node", "port", "event", "flow", "kind", "psn", "bytes", "priority", "wait_ns"];

/// Maximum number of ports in the printed table.
const SHOWN: usize = 12;

/// The packets of one run.
pub(super) struct Packets {
    capture: Capture,
    flows: FlowLog,
    what: String,
}

/// Checks that the packets can be recorded: before the simulation, so that a wrong option fails early.
pub(super) fn check(scenario: &Scenario, catalogue: &Catalogue, of: &PacketsOf, max: usize) -> Result<(), CliError> {
    let run = only_run(scenario, "--trace-packets writes the packets")?;
    let resolved = set_up(catalogue, run)?;
    let link = match of {
        PacketsOf::Link(link) => link.clone(),
        // A flow needs what a link needs, so the first link is tried.
        PacketsOf::Flow(_) => {
            let topology = &resolved.topology;
            let peer = topology.peer_node(rnic_fabric::PortId(0)) as usize;
            format!("{}:{}", topology.names[0], topology.names[peer])
        }
    };
    let tried = Capture::of_link(run, &resolved, &link, max);
    tried.map(|_| ()).map_err(|error| CliError::Input(format!("--trace-packets {of}: {error}")))
}

/// Simulates the run a second time and records the packets. `record` is the result of the first time, in which the
/// flow has got its hosts. The same run has the same packets again.
pub(super) fn record(
    catalogue: &Catalogue, run: &RunSpec, record: &RunRecord, (of, max): (&PacketsOf, usize),
    event: &mut dyn FnMut(RunEvent) -> ControlFlow<()>,
) -> Result<Packets, CliError> {
    let resolved = set_up(catalogue, run)?;
    let refused = |why: String| CliError::Input(format!("--trace-packets {of}: {why}"));
    let flows = &record.output.flows;
    let (capture, what) = match of {
        PacketsOf::Link(link) => (Capture::of_link(run, &resolved, link, max), format!("link {link}")),
        PacketsOf::Flow(id) => {
            let flow = flows.get(*id).ok_or_else(|| match flows.len() {
                0 => refused("no flow has started".to_string()),
                flows => refused(format!("no flow has the id {id}; accepted: 0 to {}", flows - 1)),
            })?;
            let name = |host: u32| &resolved.topology.names[host as usize];
            let what = format!("flow {id} from {} to {}", name(flow.src), name(flow.dst));
            (Capture::of_flow(run, &resolved, &flow, max), what)
        }
    };
    let mut capture = capture.map_err(|error| refused(error.to_string()))?;
    let events = Events::to(event);
    let second = rnic_sim::run::run(catalogue, run, &resolved, Some(&mut capture), &Sharing::among(1), &events);
    match second.output.status {
        RunStatus::Failed(why) if record.output.status == RunStatus::Completed => Err(CliError::Failed(vec![why])),
        _ => Ok(Packets { capture, flows: second.output.flows, what }),
    }
}

impl Packets {
    /// Writes the files into `folder`, and prints a table of the ports to standard output unless `is_silent`.
    pub(super) fn write(&self, folder: &Path, is_silent: bool) -> Result<Vec<PathBuf>, CliError> {
        let [table, frames] = FILES.map(|name| folder.join(name));
        let events = self.capture.events();
        let writing = |path: &Path| {
            let doing = format!("cannot write `{}`", path.display());
            move |error| CliError::Io { doing, error }
        };
        self.write_table(&table, &events).map_err(writing(&table))?;
        let file = File::create(&frames).map_err(writing(&frames))?;
        self.capture.write(BufWriter::new(file), &self.flows).map_err(writing(&frames))?;
        if !is_silent {
            let text = self.summary(&events);
            output::print(|out| writeln!(out, "{text}"))?;
        }
        Ok(vec![table, frames])
    }

    fn write_table(&self, path: &Path, events: &[PacketEvent]) -> io::Result<()> {
        let mut csv = csv::Writer::from_path(path)?;
        csv.write_record(COLUMNS)?;
        for event in events {
            let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
            csv.write_record([
                ns(event.time),
                self.capture.node_name(event.port).to_string(),
                self.capture.port_name(event.port),
                event.event.name().to_string(),
                number(event.flow),
                event.kind.to_string(),
                number(event.psn),
                event.bytes.to_string(),
                event.priority.to_string(),
                event.wait.map_or(String::new(), ns),
            ])?;
        }
        csv.flush()
    }

    /// What happened to the packets, as text with a table of ports.
    fn summary(&self, events: &[PacketEvent]) -> String {
        let sum = |event: Event| events.iter().filter(|of| of.event == event).count() as u64;
        let counted = [Event::Sent, Event::Marked, Event::Trimmed, Event::Dropped, Event::Lost].map(sum);
        let [sent, marked, trimmed, dropped, lost] = counted.map(count);
        let mut text = format!(
            "Packets of {}: {sent} transmissions on links, {marked} marked, {trimmed} trimmed, {dropped} dropped, {lost} \
             lost on links.",
            self.what
        );
        if self.capture.is_full() {
            let end = events.last().map_or(Time::ZERO, |event| event.time);
            let end = duration(end.as_us());
            text += &format!("\nThe record is full at {end}; --trace-packets-limit allows more.");
        }
        let ports = ports(events);
        if ports.is_empty() {
            return text;
        }
        let mut table = Table::new();
        table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        table.set_header(["port", "sent", "waited", "mean wait", "max wait", "marked", "dropped", "lost"]);
        for (port, of) in ports.iter().take(SHOWN) {
            let wait = |us: f64| if of.waited > 0 { duration(us) } else { String::new() };
            let cells = [
                self.capture.port_name(**port),
                count(of.sent),
                count(of.waited),
                wait(of.wait_us / of.waited as f64),
                wait(of.max_wait_us),
                count(of.marked),
                count(of.dropped),
                count(of.lost),
            ];
            let cell = |(column, text): (usize, String)| match column {
                0 => Cell::new(text),
                _ => Cell::new(text).set_alignment(CellAlignment::Right),
            };
            table.add_row(cells.into_iter().enumerate().map(cell));
        }
        text += &format!("\n{table}");
        if ports.len() > SHOWN {
            text += &format!("\n{} more ports are in {}", ports.len() - SHOWN, FILES[0]);
        }
        text
    }
}

/// What happened to the packets at one port.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct AtPort {
    sent: u64,
    waited: u64,
    wait_us: f64,
    max_wait_us: f64,
    marked: u64,
    dropped: u64,
    lost: u64,
}

/// What happened at each port; the ports at which packets waited longest in sum come first.
fn ports(events: &[PacketEvent]) -> Vec<(&rnic_fabric::PortId, AtPort)> {
    let mut ports: BTreeMap<&rnic_fabric::PortId, AtPort> = BTreeMap::new();
    for event in events.iter().filter(|event| event.event != Event::Arrived) {
        let at = ports.entry(&event.port).or_default();
        match event.event {
            Event::Sent => at.sent += 1,
            Event::Queued => {
                let wait = event.wait.unwrap_or_default().as_us();
                at.waited += 1;
                at.wait_us += wait;
                at.max_wait_us = at.max_wait_us.max(wait);
            }
            Event::Marked => at.marked += 1,
            Event::Dropped => at.dropped += 1,
            Event::Lost => at.lost += 1,
            Event::Arrived | Event::Trimmed | Event::Returned => {}
        }
    }
    let mut ports: Vec<_> = ports.into_iter().collect();
    ports.sort_by(|(_, a), (_, b)| b.wait_us.total_cmp(&a.wait_us));
    ports
}

/// A time in nanoseconds with all digits.
fn ns(time: Time) -> String {
    let ps = time.as_ps();
    format!("{}.{:03}", ps / 1_000, ps % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_fabric::PortId;

    #[test]
    fn times_have_all_digits() {
        assert_eq!([0, 1, 221_200, 5_000_000].map(Time::from_ps).map(ns), ["0.000", "0.001", "221.200", "5000.000"]);
    }

    #[test]
    fn ports_are_in_order_of_the_time_waited() {
        let event = |port, event, wait: u64| PacketEvent {
            time: Time::ZERO,
            port: PortId(port),
            event,
            flow: Some(0),
            kind: "data",
            psn: Some(0),
            bytes: 64,
            priority: 0,
            wait: (wait > 0).then(|| Time::from_us(wait)),
        };
        let events = [
            event(1, Event::Sent, 0),
            event(1, Event::Queued, 3),
            event(2, Event::Arrived, 0),
            event(3, Event::Queued, 2),
            event(3, Event::Queued, 4),
            event(3, Event::Dropped, 0),
        ];
        let [first, second] = [
            AtPort { waited: 2, wait_us: 6.0, max_wait_us: 4.0, dropped: 1, ..AtPort::default() },
            AtPort { sent: 1, waited: 1, wait_us: 3.0, max_wait_us: 3.0, ..AtPort::default() },
        ];
        assert_eq!(ports(&events), [(&PortId(3), first), (&PortId(1), second)]);
    }
}
