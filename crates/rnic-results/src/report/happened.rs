//! What happened in each run, in sentences made of its numbers: which links were busiest, where switches dropped
//! packets, which ports paused which other ports and why, and the common properties of the slowest flows.

use super::super::pauses::{PauseSummary, host_name, port_name};
use super::super::stats::{fct_us, slowdown};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::text::{count, duration, percent, three_digits};
use super::html::{escape, inline};
use rnic_spec::{FlowRecord, PortRecord, PriorityCounters, RunOutput, RunRecord};
use std::collections::BTreeMap;

/// Maximum number of runs that are described. If there are more runs, only the run with the highest 99th percentile of
/// the slowdown is described.
const RUNS: usize = 6;
/// The slowest flows are those with at least the 99th percentile of the slowdown; with fewer flows than this, no
/// sentence describes the slowest flows.
const MIN_FLOWS: usize = 100;
/// Minimum share of a total (such as drops) at one node or port for which a sentence names this node or port.
const NOTABLE: f64 = 0.25;

/// The section of the page; empty if no run has anything to say.
pub(super) fn section(summary: &ScenarioSummary, reports: &[RunRecord]) -> String {
    let all: Vec<(&RunSummary, &RunRecord)> = summary.runs.iter().zip(reports).collect();
    let p99 = |run: &RunSummary| run.slowdown.map_or(0.0, |slowdown| slowdown.p99);
    let (chosen, note) = if all.len() > RUNS {
        let worst = all.iter().max_by(|a, b| p99(a.0).total_cmp(&p99(b.0)));
        let note = "<p class=\"tally\">Of all runs, the one with the highest 99th percentile of the slowdown.</p>\n";
        (worst.into_iter().copied().collect(), note)
    } else {
        (all, "")
    };
    let paragraph = |(run, report): &(&RunSummary, &RunRecord)| {
        let sentences = sentences(run, &report.output);
        let text = inline(&sentences.join(" "));
        (!sentences.is_empty()).then(|| format!("<p><strong>{}.</strong> {text}</p>\n", escape(&run.name)))
    };
    let paragraphs: String = chosen.iter().filter_map(paragraph).collect();
    if paragraphs.is_empty() {
        return String::new();
    }
    format!("<section id=\"happened\"><h2>What happened</h2>\n{note}{paragraphs}</section>\n")
}

/// The sentences about one run; none about what its numbers do not contain.
pub(super) fn sentences(run: &RunSummary, output: &RunOutput) -> Vec<String> {
    if run.failure.is_some() {
        return Vec::new();
    }
    let packets = run.fidelity.is_packet();
    let parts = [
        busiest(run),
        drops(run, output).filter(|_| packets),
        losses(run, output).filter(|_| packets),
        pauses(run, output).filter(|_| packets),
        slowest(run, output),
    ];
    parts.into_iter().flatten().collect()
}

/// The tier whose links were busiest, and the busiest link.
fn busiest(run: &RunSummary) -> Option<String> {
    let tier = run.tiers.iter().max_by(|a, b| a.utilisation.mean.total_cmp(&b.utilisation.mean))?;
    let link = run.tiers.iter().max_by(|a, b| a.utilisation.max.total_cmp(&b.utilisation.max))?;
    (link.utilisation.max > 0.0).then(|| {
        format!(
            "The links from {} to {} were the busiest: they were sending for {} of the run on average; of single links {} was \
             the busiest, with {}.",
            tier.from,
            tier.to,
            percent(tier.utilisation.mean),
            link.busiest,
            percent(link.utilisation.max)
        )
    })
}

/// How many packets switches dropped, and at which switch most of them.
fn drops(run: &RunSummary, output: &RunOutput) -> Option<String> {
    let total = run.totals.dropped;
    let share = run.drop_rate.map_or(String::new(), |rate| format!(" ({} of the data packets)", percent(rate)));
    let (node, most) = by(&output.ports, |port| port.node.clone(), |of| of.drops)?;
    let at = mostly(most, total).map_or(String::new(), |share| format!(", {share} of them at {node}"));
    (total > 0).then(|| format!("Switches dropped {}{share}{at}.", packets(total)))
}

/// How many packets were lost on links, and on which link most of them.
fn losses(run: &RunSummary, output: &RunOutput) -> Option<String> {
    let total = run.totals.lost;
    let (link, most) = by(&output.ports, super::super::tiers::link, |of| of.lost)?;
    let at = mostly(most, total).map_or(String::new(), |share| format!(", {share} of them {link}"));
    (total > 0).then(|| format!("Links lost {}{at}.", packets(total)))
}

/// Which transmitters PFC paused longest, and the causes if the run recorded them.
fn pauses(run: &RunSummary, output: &RunOutput) -> Option<String> {
    let total = run.totals.paused_ps;
    if total == 0 {
        return None;
    }
    let paused_ps = |port: &PortRecord| port.priorities.iter().map(|of| of.paused_ps).sum::<u64>();
    let ports = output.ports.iter().filter(|port| paused_ps(port) > 0).count() as u64;
    let (port, most) =
        output.ports.iter().enumerate().map(|(index, port)| (index, paused_ps(port))).max_by_key(|of| of.1)?;
    let ports = if ports == 1 { "1 port".to_string() } else { format!("{} ports", count(ports)) };
    let us = |ps: u64| duration(ps as f64 / 1e6);
    let text = format!(
        "PFC paused {ports} for {} in sum; longest {}, for {}.",
        us(total),
        port_name(&output.ports, port as u32),
        us(most)
    );
    Some(match &run.pauses {
        Some(causes) => [vec![text], of_causes(causes)].concat().join(" "),
        None => format!("{text} This run did not record why; `pauses = true` in [watch] does."),
    })
}

/// The cause that held ports longest, and the victims.
fn of_causes(pauses: &PauseSummary) -> Vec<String> {
    let causes = pauses.roots.len() as u64;
    let root = pauses.roots.first().map(|root| {
        let of = if causes == 1 {
            "The cause was".to_string()
        } else {
            format!("Of {} causes, the longest was", count(causes))
        };
        let ports = if root.max_ports == 1 { "1 port".to_string() } else { format!("{} ports", root.max_ports) };
        format!(
            "{of} {}: it kept up to {ports} paused at the same time, and for {} at least one.",
            root.name,
            duration(root.held.as_us())
        )
    });
    let victims = match pauses.victims {
        0 => None,
        1 => Some("1 flow was a victim: it waited for a cause that was not on its path.".to_string()),
        victims => {
            Some(format!("{} flows were victims: they waited for a cause that was not on their path.", count(victims)))
        }
    };
    let cycle = pauses.cycle.as_ref().map(|cycle| {
        let end = if cycle.at_end { "; it was closed at the end of the run" } else { "" };
        format!("The pauses formed a cycle at {}{end}.", duration(cycle.first.as_us()))
    });
    [root, victims, cycle].into_iter().flatten().collect()
}

/// What the slowest flows have in common, and the slowest of them.
fn slowest(run: &RunSummary, output: &RunOutput) -> Option<String> {
    let of_run = run.slowdown.filter(|slowdown| slowdown.count >= MIN_FLOWS)?;
    let mut slow = Slow::default();
    for flow in output.flows.iter().filter(|flow| flow.measured) {
        if let Some(slowdown) = slowdown(&flow).filter(|slowdown| *slowdown >= of_run.p99) {
            slow.add(&flow, slowdown);
        }
    }
    let (flow, slowdown) = slow.slowest?;
    let host = |host: u32| host_name(&output.ports, host);
    let mut sentences = vec![format!(
        "The 99th percentile of the slowdown is {}; {} flows are at least as slow.",
        three_digits(of_run.p99),
        count(slow.flows)
    )];
    sentences.extend(run.fidelity.is_packet().then(|| slow.why(run.totals.paused_ps > 0)));
    let receiver = slow.receivers.iter().max_by_key(|(host, flows)| (**flows, std::cmp::Reverse(**host)));
    sentences.extend(receiver.and_then(|(receiver, flows)| {
        let share = mostly(*flows, slow.flows).filter(|_| *flows > 1)?;
        Some(format!("{} of them, {share}, were flows to {}.", count(*flows), host(*receiver)))
    }));
    let timeouts = match flow.timeouts {
        0 => String::new(),
        1 => ", with 1 retransmission timeout".to_string(),
        timeouts => format!(", with {} retransmission timeouts", count(timeouts.into())),
    };
    let fct = fct_us(&flow).map_or(String::new(), duration);
    sentences.push(format!(
        "The slowest was flow {} from {} to {} with {} B: it took {fct}, {} times as long as alone{timeouts}.",
        flow.id,
        host(flow.src),
        host(flow.dst),
        count(flow.bytes),
        three_digits(slowdown)
    ));
    Some(sentences.join(" "))
}

/// The slowest flows of a run.
#[derive(Default)]
struct Slow {
    flows: u64,
    /// Number of flows with a retransmission timeout.
    timeouts: u64,
    /// Number of flows with retransmissions, but without a timeout.
    retransmitted: u64,
    /// Number of flows to each host.
    receivers: BTreeMap<u32, u64>,
    /// The slowest flow, and its slowdown.
    slowest: Option<(FlowRecord, f64)>,
}

impl Slow {
    fn add(&mut self, flow: &FlowRecord, slowdown: f64) {
        self.flows += 1;
        self.timeouts += u64::from(flow.timeouts > 0);
        self.retransmitted += u64::from(flow.timeouts == 0 && flow.retransmitted > 0);
        *self.receivers.entry(flow.dst).or_default() += 1;
        if self.slowest.is_none_or(|(_, max)| slowdown > max) {
            self.slowest = Some((*flow, slowdown));
        }
    }

    /// Returns the causes for which these flows were slow, as far as their records contain them. `has_pauses` says that
    /// the run had pauses.
    fn why(&self, has_pauses: bool) -> String {
        let rest = self.flows - self.timeouts - self.retransmitted;
        let waited = match has_pauses {
            true => "retransmitted nothing, so they waited in queues, for pauses or for their share of a rate",
            false => "retransmitted nothing, so they waited in queues or for their share of a rate",
        };
        let part = |flows: u64, what: &str| (flows > 0).then(|| format!("{} {what}", count(flows)));
        let parts = [
            part(self.timeouts, "waited for a retransmission timeout"),
            part(self.retransmitted, "retransmitted packets without a timeout"),
            part(rest, waited),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("Of these, {}.", parts.join("; "))
    }
}

/// The name with the largest sum over its ports and priorities, and this sum.
fn by(
    ports: &[PortRecord], name: impl Fn(&PortRecord) -> String, value: impl Fn(&PriorityCounters) -> u64,
) -> Option<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for port in ports {
        let sum = port.priorities.iter().map(&value).sum::<u64>();
        if sum > 0 {
            *sums.entry(name(port)).or_default() += sum;
        }
    }
    sums.into_iter().rev().max_by_key(|(_, sum)| *sum)
}

/// The share of `part` in `total` as text, if it is notable.
fn mostly(part: u64, total: u64) -> Option<String> {
    let share = part as f64 / total.max(1) as f64;
    (share >= NOTABLE).then(|| percent(share))
}

fn packets(number: u64) -> String {
    if number == 1 { "1 packet".to_string() } else { format!("{} packets", count(number)) }
}

#[cfg(test)]
mod tests {
    use super::super::super::{fixture, summarise};
    use super::*;
    use rnic_transport::Time;

    fn of(change: impl FnOnce(&mut RunOutput)) -> Vec<String> {
        let (scenario, mut reports) = fixture::two_runs();
        change(&mut reports[0].output);
        let summary = summarise(&scenario, &reports);
        sentences(&summary.runs[0], &reports[0].output)
    }

    /// A hundred flows that take twice as long as on an empty fabric, except flow 7, which takes eight times as long.
    fn hundred(output: &mut RunOutput) {
        let flow = |id| FlowRecord { dst: 1 - id % 2, src: id % 2, ..fixture::flow(id, 1_000) };
        let slow = FlowRecord { finish: Some(Time::from_us(40)), timeouts: 2, ..flow(7) };
        output.ports[1].node = "h1".into();
        output.flows = (0..100).map(|id| if id == 7 { slow } else { flow(id) }).collect();
    }

    #[test]
    fn links_and_drops_by_hand() {
        let found = of(|output| {
            let counters = &mut output.ports[1].priorities[0];
            (counters.drops, counters.lost, output.totals.dropped, output.totals.lost) = (29, 2, 40, 2);
            output.ports.iter_mut().flat_map(|port| &mut port.priorities).for_each(|of| of.paused_ps = 0);
            output.totals.paused_ps = 0;
        });
        // h0 sends to s0 for 300 of 600 us. Port 1 is the one of s0 to h1; another port of s0 dropped one packet.
        assert!(
            found[0].starts_with("The links from host to switch were the busiest: they were sending for 50.0 %"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("Switches dropped 40 packets (") && found[1].ends_with(", 75.0 % of them at s0."),
            "{found:?}"
        );
        assert_eq!(found[2], "Links lost 2 packets, 100 % of them s0:h1.");
    }

    #[test]
    fn the_slowest_flows_have_their_causes() {
        let found = of(hundred);
        let last = found.last().unwrap();
        // The nearest rank of the 99th percentile of 100 values is the 99th: the slowdown is 2 for all but one flow, so
        // that all flows are at least as slow.
        assert!(
            last.starts_with("The 99th percentile of the slowdown is 2.00; 100 flows are at least as slow."),
            "{last}"
        );
        assert!(
            last.contains("Of these, 1 waited for a retransmission timeout; 99 retransmitted nothing, so"),
            "{last}"
        );
        let slowest = "The slowest was flow 7 from h1 to h0 with 1,000 B: it took 40.0 us, 8.00 times as long as alone, with \
                       2 retransmission timeouts.";
        assert!(last.ends_with(slowest), "{last}");
    }

    #[test]
    fn pauses_without_causes_say_so() {
        let found = of(|output| {
            output.totals.paused_ps = 3_000_000;
            output.ports.iter_mut().flat_map(|port| &mut port.priorities).for_each(|of| of.paused_ps = 0);
            output.ports[0].priorities[0].paused_ps = 2_000_000;
            output.ports[2].priorities[0].paused_ps = 1_000_000;
        });
        let text = "PFC paused 2 ports for 3.00 us in sum; longest h0:0->s0, for 2.00 us. This run did not record why; `pauses \
                    = true` in [watch] does.";
        assert!(found.contains(&text.to_string()), "{found:?}");
    }

    #[test]
    fn a_failed_run_has_no_sentences() {
        assert!(of(|output| output.status = rnic_spec::RunStatus::Failed("stuck".into())).is_empty());
    }

    #[test]
    fn of_many_runs_one_is_described() {
        let slowdown = |run: &str, load: &str, _| if run == "IRN" && load == "0.7" { 9.0 } else { 2.0 };
        let (scenario, reports) = fixture::sweep_records(&["0.3", "0.5", "0.7", "0.9"], &[1], slowdown);
        let html = section(&summarise(&scenario, &reports), &reports);
        assert_eq!(html.matches("<strong>").count(), 1);
        assert!(
            html.contains("Of all runs, the one with the highest") && html.contains("<strong>IRN, load=0.7, seed=1."),
            "{html}"
        );
    }
}
