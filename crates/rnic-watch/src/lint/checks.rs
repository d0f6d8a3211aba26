//! The checks, and their findings.

use super::fixes::Fix;
use super::places::Position;
use super::report::FailOn;
use std::fmt;

/// How severe a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// A fact that limits the checks.
    Note,
    /// The operator probably does not want this setting.
    Warning,
    /// A setting differs from the desired state.
    Drift,
    /// Packets can be lost or delayed in a lossless class, or pauses can spread or never end.
    Danger,
}

impl Severity {
    /// All severities, from the least to the most severe.
    pub const ALL: [Severity; 4] = [Severity::Note, Severity::Warning, Severity::Drift, Severity::Danger];

    /// The name of the severity in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Drift => "drift",
            Severity::Danger => "danger",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    /// Name of the check, as in `[[accept]]` and in metrics.
    pub name: &'static str,
    /// Severity of the check's findings.
    pub severity: Severity,
    /// Description of the check's findings: one sentence without a full stop.
    pub about: &'static str,
}

macro_rules! checks {
    ($($constant:ident $name:literal $severity:ident $about:literal;)*) => {
        $(pub(crate) const $constant: Check =
            Check { name: $name, severity: Severity::$severity, about: $about };)*
        /// All checks.
        pub const CHECKS: &[Check] = &[$($constant),*];
    };
}

checks! {
    DRIFT "drift" Drift "A setting differs from the desired state";
    MISSING "missing-device" Drift "The desired state names a device of which there is no configuration";
    NEIGHBOUR "neighbour" Drift "A port is connected to another port than planned";
    DANGLING "dangling-reference" Danger "The configuration refers to an object that does not exist";
    TRUST "trust" Danger "A port ignores DSCPs, so that RDMA packets are not in their class";
    PG "pg-not-lossless" Danger "The priority group of RDMA packets has no lossless buffer profile";
    PFC "pfc-off" Danger "PFC is off in the priority of RDMA packets";
    PFC_QUEUE "pfc-queue" Danger "A received pause stops another queue than that of RDMA packets";
    PRIORITY "priority-mismatch" Danger "The two ends of a link use different priorities for the same DSCP";
    PFC_ENDS "pfc-mismatch" Danger "The two ends of a link have PFC in different priorities";
    MIXED "mixed-class" Danger "Lossy traffic shares the buffer or the queue of RDMA packets";
    EGRESS "egress-drop" Warning "The egress queue of RDMA packets can drop before the ingress pauses";
    ECN "ecn-off" Danger "The queue of RDMA packets does not mark packets";
    ECN_AFTER "ecn-after-xoff" Danger "Pauses begin before marking, whatever the traffic";
    ECN_WORST "ecn-worst-case" Danger "Pauses can begin before marking: the bound of the buffer model";
    HEADROOM "headroom" Danger "The PFC headroom is too small for the link";
    SHARED_HEADROOM "shared-headroom" Warning "Headrooms share a pool that is smaller than their sum";
    BUFFER "buffer" Danger "The buffer cannot hold the headrooms, or a threshold is out of bounds";
    ALPHA "alpha" Warning "alpha of a lossless group differs from that of most switches of the role";
    THRESHOLD "pause-threshold" Danger "The pause threshold is so low that single packets cause pauses";
    WATCHDOG "watchdog-missing" Danger "A port with PFC has no PFC watchdog";
    WATCHDOG_WEAK "watchdog-weak" Warning "The PFC watchdog only reports, its times are out of order, or it watches priorities without PFC";
    UNREACHED "unreached-group" Warning "A lossless priority group has headroom, but no packet is mapped to it";
    WRED_DROP "wred-drop" Danger "WRED drops RDMA packets before the ingress pauses";
    FLOODING "flooding" Danger "Packets of a lossless class can be flooded in a VLAN";
    MULTICAST "multicast" Warning "Multicast of a lossless class can be flooded in a VLAN";
    DSCP_0 "dscp-0" Danger "DSCP 0 is used for RDMA, or is in a lossless class";
    DSCP_APPS "dscp-apps" Warning "Only connections of rdma_cm get the DSCP of RDMA";
    TOS "tos" Danger "The host sends RDMA with another DSCP than the fleet";
    CNP "cnp-class" Warning "Congestion notification packets wait behind RDMA packets";
    DCQCN "dcqcn-off" Danger "DCQCN is off in the priority of RDMA packets";
    GLOBAL_PAUSE "global-pause" Danger "Pauses of the whole link are on, which stop all priorities";
    ETS "ets" Warning "The transmission class of RDMA packets has no bandwidth of its own";
    MTU "mtu-mismatch" Danger "One end of a link sends packets that the other end drops";
    HOST_MTU "host-mtu" Warning "Hosts have different MTUs";
    SPEED "speed-mismatch" Danger "The two ends of a link have different speeds";
    DROPS "lossless-drops" Warning "A counter says that packets of a lossless priority were dropped";
    STORM "pause-storm" Warning "A counter says that the NIC has sent a pause storm";
    REWRITE "dscp-rewrite" Warning "The switch changes the DSCP of packets that leave a port";
    LOSSY "lossy-class" Danger "A host sends RDMA with a DSCP that is lossy at the host or its switch";
    ROCE_MODE "roce-v1" Danger "Connections of rdma_cm use RoCE v1, which has no DSCP and cannot be routed";
    ROCE_OFF "roce-off" Warning "RoCE v2 is off in a NIC with PFC";
    APP "app-priority" Danger "UDP port 4791 has a priority without PFC, or another priority than the DSCP of RDMA";
    NO_DEVICE "no-rdma-device" Warning "No RDMA device belongs to an interface with a QoS configuration";
    LINK_LAYER "link-layer" Warning "A port of an RDMA device has the link layer InfiniBand, so that it has no RoCE";
    ROLES "overlapping-roles" Warning "A device matches several roles of the desired state";
    ROLLOUT "rollout-order" Warning "A setting is on in a tier of the fabric, and off in a tier below it";
    INTERNAL "internal-port" Note "A port without an external link was not checked";
    UNCHECKED "unchecked" Note "A check was impossible, because a value is missing";
}

/// A finding of a check. Equal findings on several ports of a device are joined into one.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The check that found it.
    pub check: Check,
    /// The switch or host; empty for the whole fleet.
    pub device: String,
    /// The ports; empty for the whole device.
    pub ports: Vec<String>,
    /// Path of the setting, such as `queue.3.ecn_min`, or empty.
    pub path: String,
    /// If settings differ: the desired value.
    pub wanted: Option<String>,
    /// If settings differ: the running value; `None` if the setting is absent.
    pub found: Option<String>,
    /// One sentence without a full stop.
    pub text: String,
    /// Seconds since 1970 at which the finding was first seen; `None` if no state is kept.
    pub since: Option<u64>,
    /// Where the setting is: one place for each port, without duplicates; empty if no single place has it.
    pub positions: Vec<Position>,
    /// A proposed change; `None` if rnic knows none.
    pub fix: Option<Fix>,
    /// Path and canonical value of the setting that would end the finding.
    pub(crate) suggestion: Option<(String, String)>,
    /// The operator's reason for accepting the finding; `None` if the finding is not accepted.
    pub accepted: Option<String>,
}

impl Finding {
    pub(crate) fn new(check: Check, device: &str, text: impl Into<String>) -> Finding {
        Finding {
            check,
            device: device.to_string(),
            ports: Vec::new(),
            path: String::new(),
            wanted: None,
            found: None,
            text: text.into(),
            since: None,
            positions: Vec::new(),
            fix: None,
            suggestion: None,
            accepted: None,
        }
    }

    pub(crate) fn at(mut self, port: &str) -> Finding {
        self.ports = vec![port.to_string()];
        self
    }

    pub(crate) fn path(mut self, path: impl Into<String>) -> Finding {
        self.path = path.into();
        self
    }

    /// Suggests a value, in its canonical text, for the setting with this path.
    pub(crate) fn suggest(mut self, path: impl Into<String>, value: impl Into<String>) -> Finding {
        self.suggestion = Some((path.into(), value.into()));
        self
    }

    /// The location of the finding: device, ports and path.
    pub fn place(&self) -> String {
        self.place_of(&[&self.device])
    }

    /// The location of an equal finding on these devices: the number of devices and the names of some, the ports, and
    /// the path of the setting.
    pub fn place_of(&self, devices: &[&str]) -> String {
        let mut place = match devices {
            [] => String::new(),
            [device] => (*device).to_string(),
            [first, .., last] if devices.len() > 4 => format!("{first} to {last} ({} devices)", devices.len()),
            devices => format!("{} ({} devices)", devices.join(", "), devices.len()),
        };
        match self.ports.as_slice() {
            [] => {}
            [first, .., last] if self.ports.len() > 4 => {
                place += &format!(" {first} to {last} ({} ports)", self.ports.len());
            }
            ports => place += &format!(" {}", ports.join(", ")),
        }
        if !self.path.is_empty() {
            place += &format!(" {}", self.path);
        }
        place
    }

    /// Whether the finding makes the check of the fleet fail.
    pub fn fails(&self, on: FailOn) -> bool {
        let severity = self.check.severity;
        let fails = match on {
            FailOn::Danger => severity >= Severity::Drift,
            FailOn::Warning => severity >= Severity::Warning,
            FailOn::Unchecked => severity >= Severity::Warning || self.check == UNCHECKED,
        };
        self.accepted.is_none() && fails
    }
}

/// Joins findings that differ only in their port, and sorts them: the most severe first, then by device.
pub(crate) fn grouped(findings: Vec<Finding>) -> Vec<Finding> {
    let mut groups: Vec<Finding> = Vec::new();
    let mut known: std::collections::BTreeMap<_, usize> = std::collections::BTreeMap::new();
    for finding in findings {
        let key = (
            finding.check.name,
            finding.device.clone(),
            finding.path.clone(),
            finding.found.clone(),
            finding.text.clone(),
            (finding.ports.is_empty(), finding.suggestion.clone(), finding.accepted.clone()),
        );
        match known.get(&key) {
            Some(index) => groups[*index].ports.extend(finding.ports),
            None => {
                known.insert(key, groups.len());
                groups.push(finding);
            }
        }
    }
    for group in &mut groups {
        group.ports.sort_by_key(|port| natural(port));
        group.ports.dedup();
    }
    groups.sort_by(|a, b| {
        let order = |finding: &Finding| {
            (
                std::cmp::Reverse(finding.check.severity),
                finding.device.clone(),
                finding.check.name,
                finding.path.clone(),
            )
        };
        order(a).cmp(&order(b))
    });
    groups
}

/// A key that sorts `Ethernet4` before `Ethernet12`.
pub(crate) fn natural(name: &str) -> (String, u64, String) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let end = name[digits..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |end| digits + end);
    (name[..digits].to_string(), name[digits..end].parse().unwrap_or(0), name[end..].to_string())
}
