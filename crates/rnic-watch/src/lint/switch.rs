//! The part of a switch's configuration that concerns RDMA, independent of the file format.

use rnic_transport::BitRate;
use std::collections::{BTreeMap, BTreeSet};

/// A map from DSCPs, traffic classes or priorities to traffic classes, queues or priority groups.
pub(crate) type Map = BTreeMap<u8, u8>;

/// The configuration of a switch.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Switch {
    pub(crate) name: String,
    pub(crate) ports: BTreeMap<String, Port>,
    pub(crate) pools: BTreeMap<String, Pool>,
    /// Poll interval of the PFC watchdog in milliseconds.
    pub(crate) poll_interval: Option<u64>,
    /// References to objects that do not exist: (path, description).
    pub(crate) dangling: Vec<(String, String)>,
}

impl Switch {
    /// The ports in use: ports that are administratively up and not internal.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&String, &Port)> {
        self.ports.iter().filter(|(_, port)| port.up && port.internal.is_none())
    }
}

/// A port of a switch.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Port {
    pub(crate) alias: Option<String>,
    pub(crate) up: bool,
    /// The role of a port without an external link, such as `Rec`; `None` for ports to hosts and switches.
    pub(crate) internal: Option<&'static str>,
    pub(crate) speed: Option<BitRate>,
    pub(crate) mtu: Option<u64>,
    /// Length of the link in metres.
    pub(crate) length: Option<u64>,
    pub(crate) dscp_to_tc: Option<Map>,
    pub(crate) tc_to_queue: Option<Map>,
    pub(crate) tc_to_pg: Option<Map>,
    pub(crate) pfc_to_queue: Option<Map>,
    pub(crate) pfc_to_pg: Option<Map>,
    /// Whether the switch writes another DSCP into packets that leave the port.
    pub(crate) rewrites_dscp: bool,
    /// Priorities with PFC.
    pub(crate) pfc: BTreeSet<u8>,
    /// Priorities that the PFC watchdog watches; `None` if the configuration does not say.
    pub(crate) watched: Option<BTreeSet<u8>>,
    pub(crate) watchdog: Option<Watchdog>,
    pub(crate) queues: BTreeMap<u8, Queue>,
    pub(crate) groups: BTreeMap<u8, Group>,
    /// Whether `groups` has all groups of the port. Otherwise SONiC may add groups at run time.
    pub(crate) groups_are_complete: bool,
    /// Whether the port also classifies packets by their VLAN priority.
    pub(crate) reads_pcp: bool,
    /// VLANs of which the port is a member. The switch may flood packets of these VLANs to the port.
    pub(crate) vlans: BTreeSet<String>,
    /// Kinds of traffic with a storm control: `broadcast`, `unknown-unicast`, `unknown-multicast`.
    pub(crate) storm_control: BTreeSet<String>,
    /// The configured neighbour: device and port.
    pub(crate) neighbour: Option<(String, Option<String>)>,
}

impl Port {
    /// The priority group of a traffic class. Without a map it is group 0.
    pub(crate) fn group_of(&self, tc: u8) -> u8 {
        self.tc_to_pg.as_ref().and_then(|map| map.get(&tc)).copied().unwrap_or(0)
    }

    /// The queue of a traffic class. Without a map the queue has the number of the traffic class.
    pub(crate) fn queue_of(&self, tc: u8) -> u8 {
        match &self.tc_to_queue {
            Some(map) => map.get(&tc).copied().unwrap_or(0),
            None => tc,
        }
    }

    /// The priority group for which the switch sends pauses of a PFC priority. Without a map the group has the number
    /// of the priority.
    pub(crate) fn group_of_pfc(&self, priority: u8) -> u8 {
        self.pfc_to_pg.as_ref().and_then(|map| map.get(&priority)).copied().unwrap_or(priority)
    }

    /// The queue that a received pause of a PFC priority stops. Without a map the queue has the number of the priority.
    pub(crate) fn queue_of_pfc(&self, priority: u8) -> u8 {
        self.pfc_to_queue.as_ref().and_then(|map| map.get(&priority)).copied().unwrap_or(priority)
    }

    /// The traffic class of a DSCP; `None` if the port does not trust DSCPs. A DSCP that the map omits has class 0.
    pub(crate) fn class_of(&self, dscp: u8) -> Option<u8> {
        Some(self.dscp_to_tc.as_ref()?.get(&dscp).copied().unwrap_or(0))
    }
}

/// An egress queue of a port.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) wred: Option<Wred>,
    pub(crate) buffer: Option<Profile>,
}

/// The schedule of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scheduler {
    /// `strict`, `dwrr` or `wrr`.
    pub(crate) kind: String,
    pub(crate) weight: u64,
}

/// WRED thresholds at which a queue marks or drops packets. The values are the values for green packets; all packets
/// are green unless a policer colours them.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wred {
    pub(crate) name: String,
    /// Whether the queue marks green packets.
    pub(crate) ecn: bool,
    /// Whether the queue drops green packets that are not ECN-capable.
    pub(crate) drops: bool,
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
    /// Mark or drop probability at the maximum threshold, in percent.
    pub(crate) percent: u64,
}

/// The buffer of an ingress priority group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    /// The buffer profile; `None` if the switch computes it, so that the configuration does not contain it.
    pub(crate) profile: Option<Profile>,
}

/// A buffer profile.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) size: u64,
    pub(crate) threshold: Option<Threshold>,
    pub(crate) xon: u64,
    pub(crate) xon_offset: Option<u64>,
    /// Headroom in bytes; 0 or absent for a lossy profile.
    pub(crate) xoff: Option<u64>,
    /// Whether the switch computes the headroom itself.
    pub(crate) computed: bool,
}

impl Profile {
    /// Whether a priority group with this profile pauses its peer.
    pub(crate) fn lossless(&self) -> bool {
        self.computed || self.xoff.is_some_and(|xoff| xoff > 0)
    }
}

/// The maximum share of a pool that a priority group or queue may occupy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Threshold {
    /// A static threshold in bytes.
    Static(u64),
    /// A dynamic threshold: alpha = 2^n times the free bytes of the pool.
    Dynamic(i8),
}

impl Threshold {
    /// alpha of a dynamic threshold.
    pub(crate) fn alpha(self) -> Option<f64> {
        match self {
            Threshold::Dynamic(n) => Some(2f64.powi(i32::from(n))),
            Threshold::Static(_) => None,
        }
    }
}

/// A buffer pool.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Pool {
    pub(crate) ingress: bool,
    /// Size in bytes; `None` if the switch computes it.
    pub(crate) size: Option<u64>,
    /// Size of the shared headroom pool in bytes; 0 if each group has its own headroom.
    pub(crate) xoff: u64,
}

/// The PFC watchdog of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Watchdog {
    /// `drop`, `forward` or `alert`.
    pub(crate) action: String,
    /// Detection time in milliseconds.
    pub(crate) detection: Option<u64>,
    /// Restoration time in milliseconds.
    pub(crate) restoration: Option<u64>,
}
