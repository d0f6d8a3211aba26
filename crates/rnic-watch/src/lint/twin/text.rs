//! The text of a scenario file.

use super::graph::Graph;
use super::{Config, LENGTH};
use crate::lint::fleet::{Fleet, Link};
use crate::lint::neighbours::End;
use rnic_model::buffers::PS_PER_METRE;
use rnic_transport::{BitRate, Time};
use rnic_untrusted::text::escaped;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum number of bytes that each sender of the incast sends, and maximum of all senders together.
const INCAST: (u64, u64) = (10_000_000, 1_000_000_000);

/// The contents of the scenario.
pub(super) struct Text<'t> {
    pub(super) fleet: &'t Fleet,
    pub(super) graph: &'t Graph,
    pub(super) configs: &'t [(Config, Vec<String>)],
    pub(super) pfc: bool,
    pub(super) dcqcn: Option<String>,
    pub(super) separate: bool,
    pub(super) differences: &'t [String],
}

/// Quotes a text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

impl Text<'_> {
    pub(super) fn write(&self) -> String {
        let mut text =
            "# A scenario of a running fabric, written by rnic lint from the configurations of its devices.\n"
                .to_string();
        for difference in self.differences {
            let _ = writeln!(text, "# Difference from the fabric: {difference}.");
        }
        let names =
            |names: &mut dyn Iterator<Item = &String>| names.map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let rate = self.rates().into_iter().max().unwrap_or(BitRate::from_gbps(100));
        let _ = write!(
            text,
            "title = \"Incast in the running fabric\"\nseed = 1\n\n[fabric]\ntopology = \"graph\"\nhosts = [{}]\nswitches = [{}]\n\
             rate = \"{rate}\"\ndelay = \"{}\"\nmtu = \"{} B\"\n\n[fabric.switch]\n{}",
            names(&mut self.graph.hosts.iter().map(|(node, _, _)| node)),
            names(&mut self.graph.switches.iter()),
            delay(LENGTH),
            self.graph.mtu,
            self.switch(&self.configs[0].0).join("\n"),
        );
        text.push('\n');
        for link in &self.graph.links {
            let [a, b] = link.ends.each_ref().map(|end| quoted(&self.graph.node(end)));
            let rate = self.rate(link).map_or(String::new(), |rate| format!("rate = \"{rate}\"\n"));
            let _ = write!(
                text,
                "\n[[fabric.link]]    # {} {} to {} {}\nfrom = {a}\nto = {b}\n{rate}delay = \"{}\"\n",
                printable(&link.ends[0].device),
                printable(&link.ends[0].port),
                printable(&link.ends[1].device),
                printable(&link.ends[1].port),
                delay(link.length.unwrap_or(LENGTH))
            );
        }
        let senders = self.graph.hosts.len() as u64 - 1;
        let bytes = INCAST.0.min(INCAST.1 / senders);
        let _ = write!(
            text,
            "\n# All other hosts send {bytes} B each to the first host at the same time.\n[traffic]\npattern = \"incast\"\nsenders = {senders}\ntotal = \"{} B\"\n\
             \n[limits]\nmax_time = \"10 s\"\n\n[watch]\ninterval = \"10 us\"\nqueues = \"all\"\n{}\n[transport]\n{}pfc = {}\n",
            bytes * senders,
            if self.pfc { "pauses = true\n" } else { "" },
            self.congestion_control(),
            self.pfc,
        );
        for (index, (config, names)) in self.configs.iter().enumerate() {
            let name = if self.configs.len() == 1 {
                "as configured".to_string()
            } else {
                let others = names.len().saturating_sub(3);
                let more = if others > 0 { format!(" and {others} more") } else { String::new() };
                let shown: Vec<String> = names.iter().take(3).map(|name| printable(name)).collect();
                format!("switches as {}{more}", shown.join(", "))
            };
            let _ = write!(text, "\n[[run]]\nname = {}\ntransport = \"roce\"\n", quoted(&name));
            if self.separate {
                text.push_str("control_priority = true\n");
            }
            if index > 0 {
                let _ = writeln!(text, "set = {{ \"fabric.switch\" = {{ {} }} }}", self.switch(config).join(", "));
            }
        }
        text
    }

    fn congestion_control(&self) -> String {
        match &self.dcqcn {
            Some(parameters) => format!("cc = \"dcqcn\"\ndcqcn = {parameters}\n"),
            None => "cc = \"none\"\n".to_string(),
        }
    }

    /// The keys of `[fabric.switch]`. The buffer is as large as the shared bytes of the configuration and the headrooms
    /// of the simulated ports and priorities, so that the simulated pool has the shared bytes of the configuration.
    fn switch(&self, config: &Config) -> Vec<String> {
        let priorities = u64::from(config.lossless.max(1)) + u64::from(self.separate);
        let mut ports: BTreeMap<&str, u64> = BTreeMap::new();
        for end in self.graph.links.iter().flat_map(|link| &link.ends) {
            *ports.entry(&end.device).or_default() += 1;
        }
        let switches = self.graph.switches.iter().filter_map(|name| ports.get(name.as_str()));
        let ports = switches.copied().max().unwrap_or(1);
        let headrooms = if self.pfc { ports * priorities * config.headroom } else { 0 };
        let buffer = if config.shared == 0 { 12_000_000 } else { config.shared + headrooms };
        let mut keys = vec![
            "queueing = \"shared\"".to_string(),
            format!("buffer = \"{buffer} B\""),
            format!("priorities = {priorities}"),
        ];
        if self.pfc {
            if config.headroom > 0 {
                keys.push(format!("headroom = \"{} B\"", config.headroom));
            }
            match (config.alpha, config.xoff) {
                (Some(exponent), _) => {
                    keys.push(format!("beta = {}", 2f64.powi(i32::from(exponent)) * priorities as f64));
                }
                (None, Some(xoff)) => keys.push(format!("xoff = \"{xoff} B\"")),
                (None, None) => {}
            }
            keys.extend(config.xon_offset.map(|offset| format!("xon_offset = \"{offset} B\"")));
        }
        keys.push(match config.ecn {
            Some((min, max, percent)) => {
                format!("ecn = {{ kmin = \"{min} B\", kmax = \"{max} B\", pmax = {} }}", percent as f64 / 100.0)
            }
            None => "ecn = false".to_string(),
        });
        if self.separate {
            keys.push(match config.weights {
                None => "scheduler = \"strict\"".to_string(),
                Some((rdma, cnp)) => format!("weights = [{}, {}]", rdma.min(1_000), cnp.min(1_000)),
            });
        }
        keys
    }

    fn rate(&self, link: &Link) -> Option<BitRate> {
        let of = |end: &End| match self.fleet.switches.get(&end.device) {
            Some(switch) => switch.ports.get(&end.port)?.speed,
            None => self.fleet.hosts.get(&end.device)?.interfaces.get(&end.port)?.speed,
        };
        link.ends.iter().filter_map(of).min()
    }

    fn rates(&self) -> Vec<BitRate> {
        self.graph.links.iter().filter_map(|link| self.rate(link)).collect()
    }
}

/// A name for a comment or a string of the scenario: control characters are escaped, and quotation marks and
/// backslashes, which TOML would interpret, are removed.
fn printable(name: &str) -> String {
    escaped(name).replace(['"', '\\'], "")
}

/// Propagation delay of a link; a link is at least one metre long.
fn delay(metres: u64) -> Time {
    Time::from_ps(metres.max(1) * PS_PER_METRE)
}
