//! The events of a replay, to which readers jump: the first pause, loss, drop and trim, a deadlock, faults, watchdogs.

use super::picture::INSIDE;
use super::recorder::{First, Seen};
use rnic_spec::{LinkFault, RunRecord, RunSpec};
use rnic_transport::Time;
use serde_json::{Value, json};

/// Largest number of faults and actions of watchdogs.
const MAX_FAULTS: usize = 32;

/// The events of a run in order of time, in the form that the page reads. Times are in microseconds.
pub(super) fn of(seen: &Seen, spec: &RunSpec, report: &RunRecord) -> Vec<Value> {
    let end = report.output.end;
    let mut events: Vec<(Time, &str, String, Option<u32>)> = Vec::new();
    let mut first = |first: First, kind: &'static str, text: &str| {
        if let Some((time, port)) = first {
            events.push((time, kind, text.to_string(), Some(port)));
        }
    };
    first(seen.first_pause, "pause", "first pause");
    first(seen.first_cycle, "deadlock", "cycle of pauses (deadlock)");
    first(seen.first_drop, "drop", "first drop");
    first(seen.first_loss, "loss", "first packet lost on a link");
    first(seen.first_trim, "trim", "first trimmed packet");
    let storms = spec.fabric.storms.iter().map(|storm| {
        let name = seen.topology.names.get(storm.host as usize).map_or("a host", String::as_str);
        (storm.start, "fault", format!("{name} begins to send pause frames"), Some(seen.host_port(storm.host)))
    });
    events.extend(storms.take(MAX_FAULTS));
    events.extend(spec.fabric.faults.links.iter().flat_map(|fault| of_link(fault, end)).take(MAX_FAULTS));
    let watchdogs = report.output.watchdog.iter().take(MAX_FAULTS);
    events
        .extend(watchdogs.map(|action| (action.detected, "watchdog", "watchdog acts".to_string(), Some(action.port))));
    events.retain(|(time, ..)| *time <= end);
    events.sort_by_key(|(time, ..)| *time);
    let event = |(time, kind, text, port): (Time, &str, String, Option<u32>)| {
        let drawn = port.and_then(|port| seen.picture.drawn.get(port as usize)).filter(|port| **port != INSIDE);
        json!({ "time": time.as_ps() as f64 / 1e6, "kind": kind, "text": text, "port": drawn })
    };
    events.into_iter().map(event).collect()
}

/// The first changes of a link's fault.
fn of_link(fault: &LinkFault, end: Time) -> Vec<(Time, &'static str, String, Option<u32>)> {
    let link = format!("link {}\u{2013}{}", fault.from, fault.to);
    let begins = if fault.rate.is_some() { "loses rate" } else { "fails" };
    let mut changes = vec![(fault.start, "fault", format!("{link} {begins}"), None)];
    let returns = fault.duration.map(|duration| fault.start.saturating_add(duration)).filter(|time| *time < end);
    changes.extend(returns.map(|time| (time, "fault", format!("{link} is as before"), None)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_link_begins_and_ends() {
        let fault = LinkFault {
            from: "leaf0".into(),
            to: "spine1".into(),
            rate: None,
            one_way: false,
            scales_queues: false,
            start: Time::from_us(10),
            duration: Some(Time::from_us(5)),
            every: None,
        };
        let texts = |end| of_link(&fault, Time::from_us(end)).into_iter().map(|change| change.2).collect::<Vec<_>>();
        assert_eq!(texts(100), ["link leaf0\u{2013}spine1 fails", "link leaf0\u{2013}spine1 is as before"]);
        assert_eq!(texts(12).len(), 1);
    }
}
