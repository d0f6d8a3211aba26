//! PFC and ECN thresholds of a switch with a shared buffer ("Congestion Control for Large-Scale RDMA Deployments",
//! SIGCOMM 2015, section 4).
//!
//! With n ports, k lossless priorities (8 in the paper), a buffer of B bytes, and t_flight bytes of headroom per port
//! and priority:
//!
//! ```text
//! static pause threshold           t_PFC <= (B - k n t_flight)/(k n)
//! marking before pausing, static   n t_ECN < t_PFC
//! dynamic pause threshold          t_PFC = beta (B - k n t_flight - s)/k       s: shared bytes in use
//! marking before pausing, dynamic  t_ECN < beta (B - k n t_flight)/(k n (beta + 1))
//! ```
//!
//! A (PFC) pause threshold limits the queued bytes that arrived at one input port; an (ECN) marking threshold limits
//! the bytes queued for one output port. The worst case for marking is that one input feeds all n outputs: when each
//! output holds t_ECN bytes, which is not marked yet, the input holds n t_ECN bytes.
//!
//! beta is the paper's parameter of dynamic pause thresholds. The parameter alpha of switches (dynamic thresholds after
//! Choudhury and Hahne: alpha times the free buffer) is beta/k.

use crate::ModelError;
use crate::error::require;
use rnic_transport::{BitRate, Bytes, Time};

/// Length of a pause frame in bytes: the minimum of Ethernet.
pub const PAUSE_FRAME: u64 = 64;
/// Bytes around each frame on a link: preamble, start-of-frame delimiter and inter-frame gap.
pub const FRAME_GAP: u64 = 20;
/// Bytes of Ethernet header, VLAN tag and frame check sequence around a packet.
pub const FRAMING: u64 = 22;
/// Bytes per pause quantum, which is 512 bit times (IEEE 802.3, 31B.2).
pub const QUANTUM: u64 = 64;
/// Propagation delay of fibre in picoseconds per metre: 5,000 ps, which are 5 ns.
pub const PS_PER_METRE: u64 = 5_000;

/// Maximum reaction time of a transmitter to a pause frame (IEEE 802.3, 31B.3.7): (rate in Gbps, pause quanta), with
/// the values of SONiC's headroom calculation.
const REACTION: [(u64, u64); 8] =
    [(1, 2), (10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905)];

/// A switch with a shared buffer, whose thresholds are computed and checked.
///
/// ```
/// use rnic_model::buffers::{Given, Switch};
/// use rnic_transport::Bytes;
///
/// let switch = Switch::published();
/// let limits = switch.thresholds(Bytes(22_400)); // the paper's headroom
/// assert_eq!(limits.t_pfc, 24_475.0);
///
/// // The misconfiguration in the paper: marking begins only at 120 KB.
/// let given = Given { t_pfc: Some(Bytes(24_470)), t_ecn: Some(Bytes(120_000)), headroom: Some(Bytes(22_400)) };
/// assert!(switch.judge(&given).iter().any(|finding| finding.is_unsafe));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Switch {
    /// n, the number of ports; 1 to 65,536.
    pub ports: u32,
    /// Rate of every port.
    pub rate: BitRate,
    /// B, the size of the shared buffer.
    pub buffer: Bytes,
    /// k, the number of lossless priorities, which PFC protects; 1 to 8.
    pub priorities: u32,
    /// Maximum length of a packet; a frame is [`FRAMING`] bytes longer.
    pub mtu: Bytes,
    /// One-way propagation delay of a link.
    pub delay: Time,
    /// Reaction time of a link's other end: from the arrival of a pause frame's last bit until it stops transmitting.
    pub reaction: Time,
    /// XON offset: the switch resumes an input when its buffer use is this far below the pause threshold.
    pub xon_offset: Bytes,
    /// The factor of the dynamic pause threshold: the threshold of an input in one priority is `beta` times the free
    /// buffer, divided by k.
    pub beta: f64,
}

impl Switch {
    /// The switch of the DCQCN paper (SIGCOMM 2015): 32 ports of 40 Gbps, a buffer of 12 MB, 8 priorities, an MTU of
    /// 1500 bytes, beta 8. The paper does not state link lengths and reaction time; here they are 100 m, and IEEE
    /// 802.3's maximum at 40 Gbps.
    pub fn published() -> Switch {
        let rate = BitRate::from_gbps(40);
        Switch {
            ports: 32,
            rate,
            buffer: Bytes(12_000_000),
            priorities: 8,
            mtu: Bytes(1_500),
            delay: Time::from_ps(100 * PS_PER_METRE),
            reaction: reaction(rate),
            xon_offset: Bytes(3_000),
            beta: 8.0,
        }
    }

    /// Whether the switch has all values that the DCQCN paper states, so that the paper's thresholds apply to it.
    pub fn is_published(&self) -> bool {
        let paper = Switch::published();
        let stated = |switch: &Switch| (switch.ports, switch.rate, switch.buffer, switch.priorities);
        stated(self) == stated(&paper) && self.mtu == paper.mtu && self.beta == paper.beta
    }

    /// Checks that all values of the switch are in range.
    ///
    /// # Errors
    /// One sentence about the first value that is out of range.
    pub fn check(&self) -> Result<(), ModelError> {
        let Switch { ports, rate, buffer, priorities, mtu, delay, reaction, .. } = self;
        require((1..=65_536).contains(ports), || {
            format!("the switch cannot have {ports} ports; accepted: 1 to 65,536")
        })?;
        require((1..=8).contains(priorities), || {
            format!("there cannot be {priorities} lossless priorities; accepted: 1 to 8")
        })?;
        require((1_000_000..=10_000_000_000_000).contains(&rate.as_bps()), || {
            format!("the ports cannot have a rate of {rate}; accepted: 1 Mbps to 10 Tbps")
        })?;
        require((1..1 << 50).contains(&buffer.0), || {
            format!("the buffer cannot be {buffer}; accepted: 1 B to 1,000 TB")
        })?;
        require((1..1 << 30).contains(&mtu.0), || format!("the MTU cannot be {mtu}; accepted: 1 B to 1 GB"))?;
        for (what, time) in [("delay", delay), ("reaction time", reaction)] {
            require(*time <= Time::from_ms(1_000), || format!("the {what} cannot be {time}; accepted: at most 1 s"))?;
        }
        require(self.beta.is_finite() && self.beta > 0.0, || {
            format!("beta cannot be {}; accepted: any number above 0", self.beta)
        })
    }

    /// The terms whose sum is the PFC headroom: the bytes that can still arrive at an input after the switch decided to
    /// pause it.
    pub fn headroom_terms(&self) -> [Term; 6] {
        let frame = self.mtu.0 + FRAMING;
        let bytes = |time: Time| self.rate.bytes_in(time);
        let Switch { mtu, delay, rate, reaction, .. } = self;
        let mtu = mtu.0;
        let on_link = format!("{mtu} + {FRAMING} + {FRAME_GAP} B");
        [
            Term {
                name: "the packet that crosses the threshold",
                formula: format!("{mtu} + {FRAMING} B"),
                bytes: frame,
            },
            Term {
                name: "the pause frame waits for a packet in transmission",
                formula: on_link.clone(),
                bytes: frame + FRAME_GAP,
            },
            Term {
                name: "the pause frame itself",
                formula: format!("{PAUSE_FRAME} + {FRAME_GAP} B"),
                bytes: PAUSE_FRAME + FRAME_GAP,
            },
            Term { name: "round-trip propagation", formula: format!("2 * {delay} * {rate}"), bytes: bytes(*delay * 2) },
            Term { name: "the peer's reaction", formula: format!("{reaction} * {rate}"), bytes: bytes(*reaction) },
            Term { name: "the peer finishes a packet", formula: on_link, bytes: frame + FRAME_GAP },
        ]
    }

    /// t_flight, the PFC headroom per port and priority: the sum of [`Switch::headroom_terms`].
    pub fn headroom(&self) -> Bytes {
        Bytes(self.headroom_terms().iter().map(|term| term.bytes).sum())
    }

    /// The one-way propagation delay of a link for which the computed headroom ([`Switch::headroom`]) would equal
    /// `headroom`. `None` if no delay is short enough: the terms of the headroom that do not depend on the delay
    /// already exceed `headroom`.
    pub fn delay_for(&self, headroom: Bytes) -> Option<Time> {
        let fixed = Switch { delay: Time::ZERO, ..*self }.headroom().0;
        let rest = headroom.0.checked_sub(fixed)?;
        Some(Time::from_ps(self.rate.time_for(rest).as_ps() / 2))
    }

    /// The pause and marking thresholds of the switch, if each port and priority has this headroom.
    pub fn thresholds(&self, headroom: Bytes) -> Thresholds {
        let queues = f64::from(self.ports) * f64::from(self.priorities);
        let shared = self.buffer.0 as f64 - queues * headroom.0 as f64;
        let t_pfc = shared / queues;
        Thresholds {
            headroom,
            shared,
            t_pfc,
            static_t_ecn: t_pfc / f64::from(self.ports),
            dynamic_t_ecn: self.beta * shared / (queues * (self.beta + 1.0)),
            dynamic_t_pfc: self.beta * shared / f64::from(self.priorities),
            alpha: self.beta / f64::from(self.priorities),
        }
    }

    /// Compares the configured thresholds in `given` with the computed ones, and returns what is wrong with them or
    /// with the switch itself.
    pub fn judge(&self, given: &Given) -> Vec<Finding> {
        let needed = self.headroom();
        let headroom = given.headroom.unwrap_or(needed);
        let limits = self.thresholds(headroom);
        let mut findings = Vec::new();
        let mut say = |is_unsafe, text: String| findings.push(Finding { is_unsafe, text });
        if let Some(headroom) = given.headroom.filter(|headroom| *headroom < needed) {
            say(
                true,
                format!(
                    "a headroom of {headroom} loses packets: {needed} can still arrive after the switch decides to pause an input"
                ),
            );
        }
        let frame = self.mtu.0 as f64;
        if limits.shared <= 0.0 {
            let queues = u64::from(self.ports) * u64::from(self.priorities);
            say(
                true,
                format!(
                    "{queues} headrooms of {headroom} take {} of the buffer of {}, so not every port and priority can be lossless; use fewer lossless priorities or shorter links",
                    Bytes(queues.saturating_mul(headroom.0)),
                    self.buffer
                ),
            );
            return findings;
        }
        if let Some(t_pfc) = given.t_pfc {
            let value = t_pfc.0 as f64;
            if value > limits.t_pfc {
                say(
                    true,
                    format!(
                        "a pause threshold of {t_pfc} is above {}: when all ports reach it in all priorities, their headrooms do not fit into the buffer and packets are lost",
                        kilobytes(limits.t_pfc)
                    ),
                );
            }
            if t_pfc < self.xon_offset {
                say(
                    true,
                    format!(
                        "a pause threshold of {t_pfc} is less than the XON offset of {}, so pauses would never end",
                        self.xon_offset
                    ),
                );
            } else if value < frame {
                say(
                    true,
                    format!(
                        "a pause threshold of {t_pfc} is less than one packet, so every queued packet causes a pause"
                    ),
                );
            }
        }
        if let Some(t_ecn) = given.t_ecn {
            let value = t_ecn.0 as f64;
            match given.t_pfc {
                Some(t_pfc) if value * f64::from(self.ports) >= t_pfc.0 as f64 => say(
                    true,
                    format!(
                        "with a marking threshold of {t_ecn} the switch can pause before it marks: if one port feeds {} queues and each is just below the threshold, they hold {}, but the port is paused from {t_pfc} on",
                        self.ports,
                        kilobytes(value * f64::from(self.ports))
                    ),
                ),
                None if value >= limits.dynamic_t_ecn => say(
                    true,
                    format!(
                        "a marking threshold of {t_ecn} is not below {}: with dynamic pause thresholds the switch can pause before it marks",
                        kilobytes(limits.dynamic_t_ecn)
                    ),
                ),
                _ => {}
            }
            if value < frame {
                say(
                    false,
                    format!(
                        "a marking threshold of {t_ecn} is less than one packet, so every queued packet may be marked"
                    ),
                );
            }
        }
        if limits.dynamic_t_ecn < frame {
            say(
                false,
                "even with dynamic pause thresholds the switch cannot be guaranteed to mark before it pauses: the bound of the marking threshold is less than one packet"
                    .to_string(),
            );
        }
        findings
    }
}

/// The maximum reaction time of a link's other end to a pause frame. IEEE 802.3 lists this time in pause quanta for
/// some rates. The function uses the value of the highest listed rate that is at most `rate`, and for slower ports the
/// value of 1 Gbps.
pub fn reaction(rate: BitRate) -> Time {
    rate.time_for(reaction_quanta(rate) * QUANTUM)
}

/// The maximum reaction time of a link's other end to a pause frame, in pause quanta; see [`reaction`].
pub fn reaction_quanta(rate: BitRate) -> u64 {
    let gbps = rate.as_bps() / 1_000_000_000;
    REACTION.iter().rev().find(|(listed, _)| *listed <= gbps).map_or(REACTION[0].1, |(_, quanta)| *quanta)
}

/// Formats a size in kilobytes with three decimals, that is, to the byte.
pub fn kilobytes(bytes: f64) -> String {
    format!("{:.3} KB", bytes / 1e3)
}

/// One of the terms whose sum is the PFC headroom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// Description of the term.
    pub name: &'static str,
    /// Formula of the term, with the numbers and units of this switch.
    pub formula: String,
    /// Value of the term of the headroom, in bytes.
    pub bytes: u64,
}

/// Pause and marking thresholds of a switch, in bytes. If the headrooms alone fill the buffer, all thresholds are
/// negative or zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// t_flight, the PFC headroom per port and priority.
    pub headroom: Bytes,
    /// Size of the shared buffer without the headrooms of all ports and priorities.
    pub shared: f64,
    /// Maximum static pause threshold.
    pub t_pfc: f64,
    /// Upper bound (exclusive) of the marking threshold for which the switch marks before it pauses, with the static
    /// pause threshold `t_pfc`.
    pub static_t_ecn: f64,
    /// Upper bound (exclusive) of the marking threshold for which the switch marks before it pauses, with dynamic pause
    /// thresholds.
    pub dynamic_t_ecn: f64,
    /// Dynamic pause threshold of an input in one priority while the switch is empty.
    pub dynamic_t_pfc: f64,
    /// Ratio of the dynamic pause threshold of an input in one priority to the free buffer: beta divided by the number
    /// of priorities.
    pub alpha: f64,
}

/// Thresholds that are configured in a switch, for [`Switch::judge`] to check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// Configured static pause threshold. `None`: pause thresholds are dynamic.
    pub t_pfc: Option<Bytes>,
    /// Marking threshold.
    pub t_ecn: Option<Bytes>,
    /// Configured headroom per port and priority. `None`: the computed [`Switch::headroom`].
    pub headroom: Option<Bytes>,
}

/// A finding of [`Switch::judge`] about a configured threshold or about the switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whether packets can be lost, the switch can pause before it marks, or pauses would never end.
    pub is_unsafe: bool,
    /// The finding in one sentence, without a full stop.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        text.parse().unwrap()
    }

    #[test]
    fn the_papers_thresholds_follow_from_its_headroom() {
        let limits = Switch::published().thresholds(bytes("22.4 KB"));
        // Shared bytes: 12,000,000 - 256 * 22,400 = 6,265,600, for 256 pairs of port and priority. Divided by 256 they
        // give 24,475 bytes for t_PFC; a 32nd of it is 764.84 bytes, and 8/9 of it is 21,755.56 bytes.
        assert_eq!((limits.shared, limits.t_pfc), (6_265_600.0, 24_475.0));
        assert_eq!((limits.static_t_ecn, limits.dynamic_t_pfc, limits.alpha), (764.843_75, 6_265_600.0, 1.0));
        assert!((limits.dynamic_t_ecn - 195_800.0 / 9.0).abs() < 1e-9);
        // The paper truncates to two decimals of 1,000 bytes.
        let truncated = |value: f64| (value / 10.0).floor() / 100.0;
        assert_eq!((truncated(limits.t_pfc), truncated(limits.dynamic_t_ecn)), (24.47, 21.75));
        // With binary units the results would be 25.6 and 22.75, so the paper does not use them.
        let binary = Switch { buffer: bytes("12 MiB"), ..Switch::published() }.thresholds(bytes("22.4 KiB"));
        assert!((binary.t_pfc / 1_024.0 - 25.6).abs() < 0.01);
    }

    #[test]
    fn headroom_by_hand() {
        let switch = Switch::published();
        let terms = switch.headroom_terms().map(|term| term.bytes);
        // 40 Gbps are 5 bytes per nanosecond; 100 m are 500 ns; the reaction time is 118 quanta of 64 bytes.
        assert_eq!(terms, [1_522, 1_542, 84, 5_000, 7_552, 1_542]);
        assert_eq!(switch.headroom(), Bytes(17_242));
        assert_eq!(switch.reaction, Time::from_ps(1_510_400));
        // 22,400 - 12,242 = 10,158 bytes take 2,031.6 ns, the round-trip propagation delay.
        assert_eq!(switch.delay_for(bytes("22.4 KB")), Some(Time::from_ps(1_015_800)));
        assert_eq!(switch.delay_for(bytes("12 KB")), None);
    }

    #[test]
    fn without_a_reaction_time_the_headroom_is_that_of_simulated_switches() {
        use rnic_fabric::config::LinkSpec;
        for (gbps, delay, mtu) in [(40, Time::from_us(2), 1_500), (100, Time::from_ps(333_333), 4_096)] {
            let rate = BitRate::from_gbps(gbps);
            let switch = Switch { rate, delay, mtu: Bytes(mtu), reaction: Time::ZERO, ..Switch::published() };
            let link = LinkSpec { rate, delay, loss: 0.0 };
            let frame = (mtu + FRAMING) as u32;
            assert_eq!(switch.headroom(), rnic_fabric::required_headroom(&link, frame, FRAME_GAP as u32));
        }
    }

    #[test]
    fn reactions_by_rate() {
        let quanta = |gbps| reaction_quanta(BitRate::from_gbps(gbps));
        assert_eq!([1, 10, 25, 40, 56, 100, 400, 800].map(quanta), [2, 67, 80, 118, 147, 394, 905, 905]);
        assert_eq!(reaction_quanta(BitRate::from_bps(1_000)), 2);
        assert_eq!(reaction(BitRate::from_gbps(10)), Time::from_ps(67 * 51_200));
    }

    #[track_caller]
    fn verdict(given: Given, parts: &[&str]) {
        let findings = Switch::published().judge(&given);
        let texts: Vec<String> = findings.iter().map(|f| format!("{} {}", f.is_unsafe, f.text)).collect();
        assert_eq!(texts.len(), parts.len(), "{texts:?}");
        for (text, part) in texts.iter().zip(parts) {
            assert!(text.contains(part), "{text} does not say {part}");
        }
    }

    #[test]
    fn values_are_judged() {
        let kb = |value: f64| Some(Bytes((value * 1e3) as u64));
        let paper = Given { headroom: kb(22.4), ..Given::default() };
        verdict(paper, &[]);
        verdict(Given { headroom: kb(17.242), ..paper }, &[]);
        verdict(Given { headroom: kb(17.241), ..paper }, &["true a headroom of 17.241 KB loses packets: 17.242 KB"]);
        verdict(Given { t_pfc: kb(24.475), ..paper }, &[]);
        verdict(Given { t_pfc: kb(24.476), ..paper }, &["true a pause threshold of 24.476 KB is above 24.475 KB"]);
        verdict(
            Given { t_pfc: kb(2.9), ..paper },
            &["true a pause threshold of 2.9 KB is less than the XON offset of 3 KB"],
        );
        verdict(Given { t_ecn: kb(21.755), ..paper }, &[]);
        verdict(
            Given { t_ecn: kb(21.756), ..paper },
            &["true a marking threshold of 21.756 KB is not below 21.756 KB"],
        );
        // The paper's misconfiguration: a pause threshold of 24.47 KB and a marking threshold of 120 KB.
        verdict(
            Given { t_pfc: kb(24.47), t_ecn: kb(120.0), ..paper },
            &["one port feeds 32 queues and each is just below the threshold, they hold 3840.000 KB"],
        );
        // 32 times 764 bytes are 24,448, which is below the pause threshold; 32 times 765 bytes are 24,480, which is
        // above it.
        let below = Given { t_pfc: kb(24.475), t_ecn: Some(Bytes(764)), ..paper };
        verdict(below, &["false a marking threshold of 764 B is less than one packet"]);
        verdict(Given { t_ecn: Some(Bytes(765)), ..below }, &["true with a marking threshold of 765 B", "false"]);
        verdict(
            Given { headroom: kb(46.875), ..paper },
            &["true 256 headrooms of 46.875 KB take 12 MB of the buffer of 12 MB"],
        );
    }

    #[test]
    fn impossible_switches_are_refused() {
        for (switch, part) in [
            (Switch { ports: 0, ..Switch::published() }, "cannot have 0 ports"),
            (Switch { priorities: 0, ..Switch::published() }, "cannot be 0 lossless priorities"),
            (Switch { priorities: 9, ..Switch::published() }, "1 to 8"),
            (Switch { delay: Time::MAX, ..Switch::published() }, "the delay cannot be never"),
            (Switch { mtu: Bytes(0), ..Switch::published() }, "the MTU cannot be 0 B"),
            (Switch { beta: f64::NAN, ..Switch::published() }, "cannot be NaN"),
            (Switch { rate: BitRate::from_bps(0), ..Switch::published() }, "a rate of 0 bps"),
        ] {
            let error = switch.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
