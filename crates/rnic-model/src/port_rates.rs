//! PFC and ECN thresholds of a configured switch whose ports have several rates, such as 25 Gbps down and 100 Gbps up.
//!
//! The inequalities are those of [`buffers`](super::buffers) ("Congestion Control for Large-Scale RDMA Deployments",
//! SIGCOMM 2015, section 4). With n ports, k priorities, of which l are lossless, a buffer of B bytes and h bytes of
//! headroom reserved for each port and lossless priority:
//!
//! ```text
//! pool                             P = B - l n h
//! dynamic pause threshold          t_PFC = beta (P - s)/k       s: shared bytes in use
//! marking before pausing, dynamic  t_ECN < beta P/(k n (beta + 1))
//! marking before pausing, static   t_ECN < t_PFC/n
//! ```
//!
//! In bytes these bounds do not depend on the rates of the ports. The headroom that a port needs does: the bytes that
//! still arrive after the switch has decided to pause it.

use crate::buffers::PAUSE_FRAME;
use rnic_transport::{BitRate, Bytes, Time};

/// Ports of a switch that are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortGroup {
    /// Number of these ports.
    pub ports: u32,
    /// Rate of each port.
    pub rate: BitRate,
    /// One-way propagation delay of the link of each port.
    pub delay: Time,
}

impl PortGroup {
    /// The headroom that one priority of a port needs: the bytes that can arrive after the switch has decided to pause
    /// it. `frame` is the length of the longest frame and `gap` the space around each frame on a link, in bytes.
    /// `reaction` is the time from the arrival of a pause frame until the link's other end stops transmitting.
    pub fn headroom(&self, frame: u64, gap: u64, reaction: Time) -> Bytes {
        let on_the_way = self.rate.bytes_in(self.delay * 2) + self.rate.bytes_in(reaction);
        Bytes(on_the_way + frame + 2 * (frame + gap) + PAUSE_FRAME + gap)
    }
}

/// The threshold at which a switch pauses an input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Threshold {
    /// This number of bytes.
    Static(Bytes),
    /// This factor times the free bytes of the pool, divided by the number of priorities.
    Dynamic(f64),
}

/// A switch with a shared buffer, as it is configured.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfiguredSwitch {
    /// The ports, in groups of equal ports; at least one port in all.
    pub groups: Vec<PortGroup>,
    /// Size of the shared buffer.
    pub buffer: Bytes,
    /// Number of priorities; at least one.
    pub priorities: u32,
    /// Number of lossless priorities, for which headroom is reserved.
    pub lossless: u32,
    /// Headroom that is reserved for each port and lossless priority.
    pub headroom: Bytes,
    /// The pause threshold.
    pub threshold: Threshold,
}

/// What follows from the configuration of a switch, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Size of the pool that all ports share; negative or zero if the headrooms fill the buffer.
    pub pool: f64,
    /// Pause threshold of an input in one priority while the switch is empty.
    pub t_pfc: f64,
    /// Upper bound (exclusive) of the marking threshold for which the switch marks before it pauses.
    pub t_ecn: f64,
}

impl ConfiguredSwitch {
    /// Number of ports of the switch.
    pub fn ports(&self) -> u32 {
        self.groups.iter().map(|group| group.ports).sum()
    }

    /// The pool and the thresholds of the switch.
    pub fn bounds(&self) -> Bounds {
        let (ports, priorities) = (f64::from(self.ports()), f64::from(self.priorities));
        let pool = self.buffer.0 as f64 - f64::from(self.lossless) * ports * self.headroom.0 as f64;
        match self.threshold {
            Threshold::Static(xoff) => Bounds { pool, t_pfc: xoff.0 as f64, t_ecn: xoff.0 as f64 / ports },
            Threshold::Dynamic(beta) => Bounds {
                pool,
                t_pfc: beta * pool / priorities,
                t_ecn: beta * pool / (priorities * ports * (beta + 1.0)),
            },
        }
    }

    /// The largest marking threshold in whole bytes with which the switch marks before it pauses; `None` if it is less
    /// than `frame`, the length of one frame.
    pub fn largest_t_ecn(&self, frame: u64) -> Option<Bytes> {
        let bound = self.bounds().t_ecn;
        let largest = Bytes((bound.ceil() - 1.0).max(0.0) as u64);
        (largest.0 >= frame).then_some(largest)
    }

    /// The smallest buffer with which the marking threshold `t_ecn` would be below the bound; `None` if the pause
    /// threshold is static, so that it does not depend on the buffer.
    pub fn buffer_for(&self, t_ecn: Bytes) -> Option<Bytes> {
        let Threshold::Dynamic(beta) = self.threshold else { return None };
        let queues = u64::from(self.priorities) * u64::from(self.ports());
        let pool = t_ecn.0 as f64 * queues as f64 * (beta + 1.0) / beta;
        let reserved = u64::from(self.lossless) * u64::from(self.ports()) * self.headroom.0;
        Some(Bytes(reserved.saturating_add(pool as u64 + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{FRAME_GAP, FRAMING, Switch, reaction};

    /// 24 ports of 25 Gbps and 2 of 100 Gbps, 100 m each.
    fn leaf(buffer: u64, headroom: u64, threshold: Threshold) -> ConfiguredSwitch {
        let group = |ports, gbps| PortGroup { ports, rate: BitRate::from_gbps(gbps), delay: Time::from_ps(500_000) };
        ConfiguredSwitch {
            groups: vec![group(24, 25), group(2, 100)],
            buffer: Bytes(buffer),
            priorities: 2,
            lossless: 1,
            headroom: Bytes(headroom),
            threshold,
        }
    }

    #[test]
    fn headroom_depends_on_the_rate() {
        let switch = leaf(0, 0, Threshold::Dynamic(8.0));
        // Frames of 4,158 B with gaps of 20 B: 4,158 + 2 x 4,178 + 84 = 12,598 B. In 1 us, 25 Gbps are 3,125 B and
        // 100 Gbps are 12,500 B.
        let of = |group: usize, reaction| switch.groups[group].headroom(4_158, 20, reaction);
        assert_eq!((of(0, Time::ZERO), of(1, Time::ZERO)), (Bytes(15_723), Bytes(25_098)));
        // 80 pause quanta of 64 B at 25 Gbps, and 394 at 100 Gbps.
        let reaction = [25, 100].map(|gbps| reaction(BitRate::from_gbps(gbps)));
        assert_eq!((of(0, reaction[0]), of(1, reaction[1])), (Bytes(15_723 + 5_120), Bytes(25_098 + 25_216)));
    }

    #[test]
    fn the_headroom_is_that_of_switches_with_one_rate_and_of_simulated_switches() {
        let switch = Switch::published();
        let group = PortGroup { ports: 32, rate: switch.rate, delay: switch.delay };
        assert_eq!(group.headroom(switch.mtu.0 + FRAMING, FRAME_GAP, switch.reaction), switch.headroom());
        let link = rnic_fabric::config::LinkSpec { rate: group.rate, delay: group.delay, loss: 0.0 };
        assert_eq!(group.headroom(1_086, 24, Time::ZERO), rnic_fabric::required_headroom(&link, 1_086, 24));
    }

    #[test]
    fn bounds_by_hand() {
        // A pool of 3,000,000 - 26 x 25,000 = 2,350,000 B. An empty switch pauses an input at 8 x 2,350,000/2 B. One
        // input may fill 26 queues: 8 x 2,350,000/(2 x 26 x 9) = 40,170.94 B.
        let dynamic = leaf(3_000_000, 25_000, Threshold::Dynamic(8.0));
        let Bounds { pool, t_pfc, t_ecn } = dynamic.bounds();
        assert_eq!((pool, t_pfc), (2_350_000.0, 9_400_000.0));
        assert!((t_ecn - 40_170.940_171).abs() < 1e-6, "{t_ecn}");
        assert_eq!(dynamic.largest_t_ecn(4_158), Some(Bytes(40_170)));
        assert_eq!(dynamic.largest_t_ecn(40_171), None);
        // The bound is exclusive: 52,000/26 = 2,000 B.
        let fixed = leaf(3_000_000, 25_000, Threshold::Static(Bytes(52_000)));
        assert_eq!((fixed.bounds().t_ecn, fixed.largest_t_ecn(1_000)), (2_000.0, Some(Bytes(1_999))));
        assert_eq!(fixed.buffer_for(Bytes(5_000)), None);
        // For 100,000 B: 650,000 B of headroom and 100,000 x 52 x 9/8 = 5,850,000 B of pool, and one byte.
        let needed = dynamic.buffer_for(Bytes(100_000)).unwrap();
        assert_eq!(needed, Bytes(6_500_001));
        assert!(ConfiguredSwitch { buffer: needed, ..dynamic.clone() }.bounds().t_ecn > 100_000.0);
        assert!(ConfiguredSwitch { buffer: Bytes(needed.0 - 1), ..dynamic }.bounds().t_ecn <= 100_000.0);
    }

    #[test]
    fn a_switch_with_one_rate_has_the_known_bounds() {
        let switch = Switch::published();
        let one = ConfiguredSwitch {
            groups: vec![PortGroup { ports: switch.ports, rate: switch.rate, delay: switch.delay }],
            buffer: switch.buffer,
            priorities: switch.priorities,
            lossless: switch.priorities,
            headroom: Bytes(22_400),
            threshold: Threshold::Dynamic(switch.beta),
        };
        let limits = switch.thresholds(Bytes(22_400));
        let Bounds { pool, t_pfc, t_ecn } = one.bounds();
        assert_eq!((pool, t_pfc), (limits.shared, limits.dynamic_t_pfc));
        assert!((t_ecn - limits.dynamic_t_ecn).abs() < 1e-9);
    }

    #[test]
    fn headrooms_may_fill_the_buffer() {
        let full = leaf(650_000, 25_000, Threshold::Dynamic(8.0));
        assert_eq!((full.bounds().pool, full.largest_t_ecn(1)), (0.0, None));
        assert_eq!(leaf(1, 25_000, Threshold::Dynamic(8.0)).largest_t_ecn(1), None);
    }
}
