//! Faults of a run's fabric and its hosts, and the watchdogs against pause storms, as plain data. Pause storms
//! themselves are in [`crate::Storm`].

use rnic_transport::{BitRate, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Faults of a fabric and its hosts, apart from pause storms and replaced routes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// `[[fabric.drop]]`: switch ports that drop one data packet in a given number.
    pub drops: Vec<DropRule>,
    /// `[[fabric.dead]]`: hosts that are dead, and whose MAC table entry is missing.
    pub dead: Vec<DeadHost>,
    /// `[[fabric.receiver]]`: hosts whose NICs process received packets slowly.
    pub receivers: Vec<SlowReceiver>,
    /// Keys of `[[fabric.link]]`: links that fail or lose a part of their rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkFault>,
    /// Time from a failure or return of a link to new routes in all switches; `None`: 10 ms
    /// ([`Faults::CONVERGENCE`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convergence: Option<Time>,
    /// Time after which the switches at both ends of a failed link stop using it where another port of equal cost is
    /// left; `None`: they learn of it with all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_repair: Option<Time>,
}

/// A fault of the links between two nodes (`down`, `down_at`, `slow_rate` and related keys of `[[fabric.link]]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkFault {
    /// Name of one node.
    pub from: String,
    /// Name of the other node.
    pub to: String,
    /// Rate during the fault, at most the link's own; `None`: the link is down.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<BitRate>,
    /// Whether only the direction from `from` to `to` has this rate. A link that is down carries nothing in either
    /// direction.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub one_way: bool,
    /// Whether the output queues of the slow directions shrink in the same proportion as the rate: buffers and mark
    /// thresholds. Only switches with output buffers have such queues.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub scales_queues: bool,
    /// Simulated time at which the fault begins. A fault that begins at 0 is known to routing from the start.
    pub start: Time,
    /// Time after `start` at which the link is as before; `None`: never.
    pub duration: Option<Time>,
    /// The fault comes again each time this interval has passed, more than `duration`; `None`: it occurs once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub every: Option<Time>,
}

impl LinkFault {
    /// Whether the fault is present at `now`.
    pub fn is_active(&self, now: Time) -> bool {
        if now < self.start {
            return false;
        }
        let since = now - self.start;
        match (self.duration, self.every) {
            (None, _) => true,
            (Some(duration), None) => since < duration,
            (Some(duration), Some(every)) => since.as_ps() % every.as_ps().max(1) < duration.as_ps(),
        }
    }

    /// The first instant after `now` at which the fault begins or ends; [`Time::MAX`] if it does neither any more.
    pub fn next_change(&self, now: Time) -> Time {
        if now < self.start {
            return self.start;
        }
        let since = now - self.start;
        match (self.duration, self.every) {
            (None, _) => Time::MAX,
            (Some(duration), None) if since < duration => self.start + duration,
            (Some(_), None) => Time::MAX,
            (Some(duration), Some(every)) => {
                let every = every.as_ps().max(1);
                let (turns, phase) = (since.as_ps() / every, since.as_ps() % every);
                let begun = self.start + Time::from_ps(turns * every);
                if phase < duration.as_ps() { begun + duration } else { begun + Time::from_ps(every) }
            }
        }
    }
}

impl Faults {
    /// Default of [`Faults::convergence`].
    pub const CONVERGENCE: Time = Time::from_ms(10);

    /// Whether there is no fault.
    pub fn is_empty(&self) -> bool {
        *self == Faults::default()
    }
}

/// A rule by which a switch drops data packets (`[[fabric.drop]]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropRule {
    /// Name of the switch.
    pub at: String,
    /// Name of the neighbouring node from which the dropped packets arrive.
    pub from: String,
    /// The switch drops the last of this many data packets that arrive from `from`.
    pub every: u64,
}

/// A dead host (`[[fabric.dead]]`): its switch has no MAC table entry for it any more, but still an ARP entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadHost {
    /// Index of the host.
    pub host: u32,
    /// Simulated time from which the MAC table entry is missing.
    pub start: Time,
    /// Time after `start` at which the host is back, so that the switch learns its address again; `None`: never.
    pub duration: Option<Time>,
    /// What the switch does with packets for the host.
    pub unknown_mac: UnknownMacAction,
}

/// What a switch does with packets for a host whose MAC table entry is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownMacAction {
    /// It sends a copy to every other port.
    #[default]
    Flood,
    /// It drops the packet.
    Drop,
}

/// Hosts whose NICs process received packets slowly (`[[fabric.receiver]]`), because the NIC must fetch entries of its
/// memory translation table (MTT) from the host's memory. The NIC pauses its switch when its receive buffer fills.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowReceiver {
    /// Indices of the hosts.
    pub hosts: Vec<u32>,
    /// Bytes of memory that one entry of the translation table covers.
    pub page: Bytes,
    /// Number of entries that the NIC's cache of the translation table holds.
    pub entries: u32,
    /// Time for which a missing entry stops the receive pipeline.
    pub miss: Time,
    /// Bytes of memory that each flow writes in a circle.
    pub memory: Bytes,
    /// Size of the receive buffer of the NIC.
    pub buffer: Bytes,
    /// The NIC pauses its switch while the receive buffer holds more than this.
    pub xoff: Bytes,
    /// The NIC ends the pause when the receive buffer holds at most this.
    pub xon: Bytes,
}

/// Watchdogs against pause storms: the tables `[fabric.nic_watchdog]` and `[fabric.watchdog]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Watchdogs {
    /// Watchdog of every NIC; `None`: NICs have none.
    pub nic: Option<NicWatchdog>,
    /// PFC watchdog of every switch; `None`: switches have none.
    pub switch: Option<SwitchWatchdog>,
}

impl Watchdogs {
    /// Whether there is no watchdog.
    pub fn is_empty(&self) -> bool {
        *self == Watchdogs::default()
    }
}

/// Watchdog of a NIC: a NIC whose receive pipeline has been stopped for a time, and that pauses its switch, stops
/// pausing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicWatchdog {
    /// Time for which the receive pipeline is stopped before the NIC stops pausing.
    pub detection: Time,
}

/// PFC watchdog of a switch, like that of SONiC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchWatchdog {
    /// Time for which a queue must be stuck before the watchdog acts.
    pub detection: Time,
    /// Time without pauses after which the watchdog restores the port.
    pub restoration: Time,
    /// Time between two checks of all queues.
    pub interval: Time,
    /// What the watchdog does.
    pub action: WatchdogAction,
    /// The ports that the watchdog watches.
    pub ports: WatchedPorts,
}

/// What a switch's PFC watchdog does about a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogAction {
    /// It ignores the pauses, and drops the packets of the priority to and from the port.
    #[default]
    Drop,
    /// It ignores the pauses, and forwards packets.
    Forward,
    /// It only reports the storm.
    Alert,
}

impl WatchdogAction {
    /// Name of the action in scenario and result files.
    pub fn name(self) -> &'static str {
        match self {
            WatchdogAction::Drop => "drop",
            WatchdogAction::Forward => "forward",
            WatchdogAction::Alert => "alert",
        }
    }
}

/// The ports that a switch's PFC watchdog watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchedPorts {
    /// The ports to hosts.
    #[default]
    Hosts,
    /// All ports.
    All,
}
