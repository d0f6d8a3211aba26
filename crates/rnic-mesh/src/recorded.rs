//! A mesh that was recorded: the probes of a simulated run, as the controller's page would have shown them.
//!
//! Incidents of a simulation last milliseconds, and the windows of a controller minutes. So the time of the run is
//! stretched. Round-trip times are not.

use crate::evaluation::evaluate;
use crate::inventory::Inventory;
use crate::presence::Presence;
use crate::record::{Health, PROTOCOL, ProbeResult, Registration};
use crate::registry::Registry;
use crate::verdict::Mesh;
use rnic_endpoint::DatagramAddress;
use rnic_transport::Time;
use std::sync::Arc;

/// A probe of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Index of the prober.
    pub prober: u32,
    /// Index of the target.
    pub target: u32,
    /// When it was posted.
    pub at: Time,
    /// Round-trip time; `None`: there was no response.
    pub rtt: Option<Time>,
}

/// A mesh and the time to which it belongs, for [`controller::show`](crate::controller::show).
pub struct Recording {
    /// The state after the last verdict.
    pub mesh: Mesh,
    /// Agents, all of which are up.
    pub registry: Registry,
    /// Time of the page at the end of the run, in ms.
    pub now: u64,
    /// What the page says about it.
    pub note: String,
}

/// What the clock of the verdicts shows at simulated time 0, in ms.
const START_MS: u64 = 7_200_000;

/// Judges the probes of a run of length `end`, each second of which takes `stretch` seconds on the page. Verdicts are
/// made as often as the inventory says, in the time of the page. A probe without a response counts as lost, unless it
/// was posted less than `patience` before the end.
pub fn record(
    inventory: &Arc<Inventory>, mut probes: Vec<Probe>, (end, patience): (Time, Time), stretch: f64, note: &str,
) -> Recording {
    probes.sort_by_key(|probe| probe.at);
    let ms = |at: Time| START_MS + (at.as_ps() as f64 * stretch / 1e9) as u64;
    let mut mesh = Mesh::new(inventory.clone());
    let every = (inventory.settings.evaluate.as_ps() / 1_000_000_000).max(1);
    let mut evaluated = START_MS;
    for probe in probes {
        let at = ms(probe.at);
        while evaluated + every <= at {
            evaluated += every;
            evaluate(&mut mesh, evaluated);
        }
        let ns = |time: Time| time.as_ps() / 1_000;
        let result = match probe.rtt {
            Some(rtt) => ProbeResult::Answered { total_ns: ns(rtt), prober_ns: 0, split_ns: Some((0, ns(rtt))) },
            None if probe.at + patience > end => continue,
            None => ProbeResult::Timeout,
        };
        mesh.restore((probe.prober, probe.target), (0, 0), result, at, Presence::Up);
    }
    let now = ms(end);
    while evaluated + every <= now {
        evaluated += every;
        evaluate(&mut mesh, evaluated);
    }
    evaluate(&mut mesh, now);
    let mut registry = Registry::new(inventory.clone(), &[0; 32]);
    for host in &inventory.hosts {
        let address = DatagramAddress { addr: (host.address, 4_791).into(), qpn: 1, qkey: 1 };
        let (host, health) = (host.name.clone(), Health::default());
        let (protocol, incarnation, have, digest) = (PROTOCOL, 1, 0, 0);
        registry.restore(Registration { protocol, host, incarnation, address, have, digest, health }, now);
    }
    Recording { mesh, registry, now, note: note.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Scope;
    use crate::window::Window;

    /// Half of the run one host is dead: the last minute of the page shows losses, the windows before do not, and the
    /// host is the suspect.
    #[test]
    fn a_dead_host_is_seen() {
        let host = |n: u32| format!("[[host]]\nname=\"h{n}\"\naddress=\"10.0.0.{n}\"\ntor=\"t{}\"\n", n % 2);
        let text = (1..=6).map(host).collect::<String>();
        let inventory = Arc::new(Inventory::parse(&text).unwrap());
        let ms = Time::from_ms;
        let mut probes = Vec::new();
        for at in 0..200 {
            for (prober, target) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let dead = at >= 100 && (prober == 2 || target == 2);
                let rtt = (!dead).then_some(Time::from_us(10));
                probes.push(Probe { prober, target, at: Time::from_us(100 * at), rtt });
            }
        }
        // 20 ms become 20 minutes.
        let recording = record(&inventory, probes, (ms(20), ms(0)), 60_000.0, "a test");
        let (mesh, now) = (recording.mesh, recording.now);
        assert_eq!(now, START_MS + 20 * 60_000);
        assert_eq!(mesh.findings()[0].parts, ["host h3"]);
        let sum = |window| Scope::ALL.map(|scope| mesh.scope(scope, window, now)).iter().map(|c| c.lost).sum::<u64>();
        assert!(sum(Window::Minute) > 50 && sum(Window::Hour) == 1_000, "{}", sum(Window::Hour));
        assert!(mesh.alarms().on().count() > 0);
        assert!(recording.registry.is_up(2, 1, now));
    }
}
