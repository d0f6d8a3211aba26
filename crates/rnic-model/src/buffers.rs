//! Thresholds of a switch whose ports share a buffer ("Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 4).
//!
//! With n ports, k classes that must not lose packets (the paper: 8), a buffer of B bytes, and t_flight bytes of headroom for each port and
//! class:
//!
//! ```text
//! static pause threshold        t_PFC <= (B - k n t_flight)/(k n)
//! marks before pauses, static   n t_ECN < t_PFC
//! dynamic pause threshold       t_PFC = beta (B - k n t_flight - s)/k       s: shared bytes in use
//! marks before pauses, dynamic  t_ECN < beta (B - k n t_flight)/(k n (beta + 1))
//! ```
//!
//! Pauses count what came in by a port, marks what goes out by one. The worst case for marks is that one input feeds all n outputs: each
//! holds just t_ECN when that input holds n t_ECN.
//!
//! beta is the paper's. What switches call alpha (the dynamic thresholds of Choudhury and Hahne: alpha times the free buffer) is beta/k.

use crate::ModelError;
use crate::error::require;
use rnic_transport::{BitRate, Bytes, Time};

/// Bytes of a pause frame: a minimum Ethernet frame.
pub const PAUSE_FRAME: u64 = 64;
/// Bytes around each frame on a cable: preamble, start of frame, gap.
pub const FRAME_GAP: u64 = 20;
/// Ethernet header, VLAN tag and checksum around a packet of one MTU.
pub const FRAMING: u64 = 22;
/// Bytes of a pause quantum: 512 bit times (IEEE 802.3, 31B.2).
pub const QUANTUM: u64 = 64;
/// Light in fibre: 5 ns for each metre.
pub const PS_PER_METRE: u64 = 5_000;

/// Pause quanta within which a transmitter must have stopped (IEEE 802.3, 31B.3.7), by rate in Gbps, as the headroom calculation of
/// SONiC has them.
const REACTION: [(u64, u64); 8] =
    [(1, 2), (10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905)];

/// A switch with a shared buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Switch {
    /// n.
    pub ports: u32,
    /// Of every port.
    pub rate: BitRate,
    /// B.
    pub buffer: Bytes,
    /// k: classes that pauses protect.
    pub classes: u32,
    /// Largest packet; a frame has [`FRAMING`] bytes more.
    pub mtu: Bytes,
    /// Propagation on the cable, one way.
    pub delay: Time,
    /// What the peer needs from the last bit of a pause frame to the end of transmission.
    pub reaction: Time,
    /// How far below the pause threshold pauses end.
    pub resume_distance: Bytes,
    /// Share of the free buffer, times k, that one input may have in a class.
    pub beta: f64,
}

impl Switch {
    /// The paper's: 32 ports of 40 Gbps, 12 MB, 8 classes, an MTU of 1500 bytes, beta 8; with cables of 100 m and the reaction time of 40
    /// Gbps, which it does not state.
    pub fn published() -> Switch {
        let rate = BitRate::from_gbps(40);
        Switch {
            ports: 32,
            rate,
            buffer: Bytes(12_000_000),
            classes: 8,
            mtu: Bytes(1_500),
            delay: Time::from_ps(100 * PS_PER_METRE),
            reaction: reaction(rate),
            resume_distance: Bytes(3_000),
            beta: 8.0,
        }
    }

    /// Whether the paper's figures are of this switch: what it states is the same.
    pub fn is_published(&self) -> bool {
        let paper = Switch::published();
        (self.ports, self.rate, self.buffer, self.classes) == (paper.ports, paper.rate, paper.buffer, paper.classes)
            && self.mtu == paper.mtu
            && self.beta == paper.beta
    }

    /// # Errors
    /// One sentence about the first value that makes no sense.
    pub fn check(&self) -> Result<(), ModelError> {
        let Switch { ports, rate, buffer, classes, mtu, delay, reaction, .. } = self;
        require((1..=65_536).contains(ports), || format!("a switch cannot have {ports} ports; 1 to 65,536"))?;
        require((1..=8).contains(classes), || {
            format!("there cannot be {classes} lossless classes; pauses know 8 priorities, so 1 to 8")
        })?;
        require((1_000_000..=10_000_000_000_000).contains(&rate.as_bps()), || {
            format!("ports cannot have a rate of {rate}; 1 Mbps to 10 Tbps")
        })?;
        require((1..1 << 50).contains(&buffer.0), || format!("the buffer cannot be {buffer}; 1 B to 1,000 TB"))?;
        require((1..1 << 30).contains(&mtu.0), || format!("the MTU cannot be {mtu}; 1 B to 1 GB"))?;
        for (what, time) in [("delay", delay), ("reaction time", reaction)] {
            require(*time <= Time::from_ms(1_000), || format!("a {what} of {time} is impossible; at most 1 s"))?;
        }
        require(self.beta.is_finite() && self.beta > 0.0, || format!("beta is more than 0; it cannot be {}", self.beta))
    }

    /// The terms of the headroom: what may still come in after a pause is due.
    pub fn headroom_terms(&self) -> [Term; 6] {
        let frame = self.mtu.0 + FRAMING;
        let bytes = |time: Time| self.rate.bytes_in(time);
        let Switch { mtu, delay, rate, reaction, .. } = self;
        let mtu = mtu.0;
        let on_cable = format!("{mtu} + {FRAMING} + {FRAME_GAP} B");
        [
            Term {
                name: "the packet that reaches the threshold ends above it",
                formula: format!("{mtu} + {FRAMING} B"),
                bytes: frame,
            },
            Term {
                name: "the pause waits for a packet that is being sent",
                formula: on_cable.clone(),
                bytes: frame + FRAME_GAP,
            },
            Term {
                name: "the pause frame itself",
                formula: format!("{PAUSE_FRAME} + {FRAME_GAP} B"),
                bytes: PAUSE_FRAME + FRAME_GAP,
            },
            Term {
                name: "propagation there and back",
                formula: format!("2 * {delay} * {rate}"),
                bytes: bytes(*delay * 2),
            },
            Term { name: "the peer's reaction", formula: format!("{reaction} * {rate}"), bytes: bytes(*reaction) },
            Term { name: "the peer finishes a packet", formula: on_cable, bytes: frame + FRAME_GAP },
        ]
    }

    /// t_flight from first principles: the sum of [`Switch::headroom_terms`].
    pub fn headroom(&self) -> Bytes {
        Bytes(self.headroom_terms().iter().map(|term| term.bytes).sum())
    }

    /// The one-way propagation delay for which [`Switch::headroom`] would be this; `None` if the other terms alone are more.
    pub fn delay_for(&self, headroom: Bytes) -> Option<Time> {
        let fixed = Switch { delay: Time::ZERO, ..*self }.headroom().0;
        let rest = headroom.0.checked_sub(fixed)?;
        Some(Time::from_ps(self.rate.time_for(rest).as_ps() / 2))
    }

    /// The thresholds with this headroom for each port and class.
    pub fn thresholds(&self, headroom: Bytes) -> Thresholds {
        let queues = f64::from(self.ports) * f64::from(self.classes);
        let shared = self.buffer.0 as f64 - queues * headroom.0 as f64;
        let t_pfc = shared / queues;
        Thresholds {
            headroom,
            shared,
            t_pfc,
            static_t_ecn: t_pfc / f64::from(self.ports),
            dynamic_t_ecn: self.beta * shared / (queues * (self.beta + 1.0)),
            dynamic_t_pfc: self.beta * shared / f64::from(self.classes),
            alpha: self.beta / f64::from(self.classes),
        }
    }

    /// What is wrong with values that someone would set, or with the switch itself.
    pub fn judge(&self, given: &Given) -> Vec<Finding> {
        let needed = self.headroom();
        let headroom = given.headroom.unwrap_or(needed);
        let limits = self.thresholds(headroom);
        let mut findings = Vec::new();
        let mut say = |is_unsafe, text: String| findings.push(Finding { is_unsafe, text });
        if let Some(headroom) = given.headroom.filter(|headroom| *headroom < needed) {
            say(
                true,
                format!("a headroom of {headroom} loses packets: {needed} can still come in after a pause is due"),
            );
        }
        let frame = self.mtu.0 as f64;
        if limits.shared <= 0.0 {
            let queues = u64::from(self.ports) * u64::from(self.classes);
            say(
                true,
                format!(
                    "{queues} headrooms of {headroom} take {} of the {} there are, so not every port and class can be lossless; protect fewer classes or shorten the cables",
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
                        "a pause threshold of {t_pfc} is above {}: when all ports and classes reach it, their headrooms no longer fit into the buffer and packets are lost",
                        kilobytes(limits.t_pfc)
                    ),
                );
            }
            if t_pfc < self.resume_distance {
                say(
                    true,
                    format!(
                        "a pause threshold of {t_pfc} leaves no room for resuming {} below it, so pauses would never end",
                        self.resume_distance
                    ),
                );
            } else if value < frame {
                say(
                    true,
                    format!(
                        "a pause threshold of {t_pfc} is below one packet, so every packet that waits causes a pause"
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
                        "with a marking threshold of {t_ecn} pauses can come before marks: {} queues just below it, all fed by one port, hold {}, and that port is paused from {t_pfc} on",
                        self.ports,
                        kilobytes(value * f64::from(self.ports))
                    ),
                ),
                None if value >= limits.dynamic_t_ecn => say(
                    true,
                    format!(
                        "a marking threshold of {t_ecn} is not below {}: under dynamic pause thresholds pauses can come before marks",
                        kilobytes(limits.dynamic_t_ecn)
                    ),
                ),
                _ => {}
            }
            if value < frame {
                say(
                    false,
                    format!(
                        "a marking threshold of {t_ecn} is below one packet, so every packet that waits may be marked"
                    ),
                );
            }
        }
        if limits.dynamic_t_ecn < frame {
            say(
                false,
                "even under dynamic pause thresholds marks cannot be sure to come before pauses: the bound is below one packet"
                    .to_string(),
            );
        }
        findings
    }
}

/// The time within which a peer must have stopped: 802.3's pause quanta for the highest listed rate that is at most `rate`, for slower
/// ports those of 1 Gbps.
pub fn reaction(rate: BitRate) -> Time {
    rate.time_for(reaction_quanta(rate) * QUANTUM)
}

/// The quanta of [`reaction`].
pub fn reaction_quanta(rate: BitRate) -> u64 {
    let gbps = rate.as_bps() / 1_000_000_000;
    REACTION.iter().rev().find(|(listed, _)| *listed <= gbps).map_or(REACTION[0].1, |(_, quanta)| *quanta)
}

/// A size for people, to the byte.
pub fn kilobytes(bytes: f64) -> String {
    format!("{:.3} KB", bytes / 1e3)
}

/// One part of the headroom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// What comes in meanwhile.
    pub name: &'static str,
    /// How many bytes that is.
    pub formula: String,
    /// The result.
    pub bytes: u64,
}

/// Thresholds of a switch, in bytes; all but `headroom` are negative or zero if the headrooms alone fill the buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// t_flight, for each port and class.
    pub headroom: Bytes,
    /// What the headrooms leave of the buffer.
    pub shared: f64,
    /// Largest static pause threshold.
    pub t_pfc: f64,
    /// A marking threshold must be below this to come before that static pause threshold.
    pub static_t_ecn: f64,
    /// A marking threshold must be below this to come before dynamic pause thresholds.
    pub dynamic_t_ecn: f64,
    /// The dynamic pause threshold of an empty switch.
    pub dynamic_t_pfc: f64,
    /// Share of the free buffer that one input may have in a class: beta/k.
    pub alpha: f64,
}

/// Values that someone would set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// Static pause threshold.
    pub t_pfc: Option<Bytes>,
    /// Marking threshold; without `t_pfc` pauses are dynamic.
    pub t_ecn: Option<Bytes>,
    /// Headroom for each port and class.
    pub headroom: Option<Bytes>,
}

/// Something to know about a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whether packets can be lost, or pauses come before marks or never end.
    pub is_unsafe: bool,
    /// A sentence without its full stop.
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
        // 12,000,000 - 256 * 22,400 = 6,265,600; by 256 ports and classes 24,475; by 32 ports 764.84; 8/9 of 24,475 is 21,755.56.
        assert_eq!((limits.shared, limits.t_pfc), (6_265_600.0, 24_475.0));
        assert_eq!((limits.static_t_ecn, limits.dynamic_t_pfc, limits.alpha), (764.843_75, 6_265_600.0, 1.0));
        assert!((limits.dynamic_t_ecn - 195_800.0 / 9.0).abs() < 1e-9);
        // The paper cuts off after two decimals of 1,000 bytes.
        let cut = |value: f64| (value / 10.0).floor() / 100.0;
        assert_eq!((cut(limits.t_pfc), cut(limits.dynamic_t_ecn)), (24.47, 21.75));
        // By powers of two it would be 25.6 and 22.75: that is not what it did.
        let binary = Switch { buffer: bytes("12 MiB"), ..Switch::published() }.thresholds(bytes("22.4 KiB"));
        assert!((binary.t_pfc / 1_024.0 - 25.6).abs() < 0.01);
    }

    #[test]
    fn headroom_by_hand() {
        let switch = Switch::published();
        let terms = switch.headroom_terms().map(|term| term.bytes);
        // 40 Gbps is 5 bytes a nanosecond; 100 m are 500 ns; 118 quanta of 64 bytes.
        assert_eq!(terms, [1_522, 1_542, 84, 5_000, 7_552, 1_542]);
        assert_eq!(switch.headroom(), Bytes(17_242));
        assert_eq!(switch.reaction, Time::from_ps(1_510_400));
        // 22,400 - 12,242 = 10,158 bytes are 2,031.6 ns there and back.
        assert_eq!(switch.delay_for(bytes("22.4 KB")), Some(Time::from_ps(1_015_800)));
        assert_eq!(switch.delay_for(bytes("12 KB")), None);
    }

    #[test]
    fn without_a_reaction_time_it_is_what_simulated_switches_need() {
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
            &["true a pause threshold of 2.9 KB leaves no room for resuming 3 KB"],
        );
        verdict(Given { t_ecn: kb(21.755), ..paper }, &[]);
        verdict(
            Given { t_ecn: kb(21.756), ..paper },
            &["true a marking threshold of 21.756 KB is not below 21.756 KB"],
        );
        // The paper's misconfiguration: pauses at 24.47 KB, marks at 120 KB.
        verdict(Given { t_pfc: kb(24.47), t_ecn: kb(120.0), ..paper }, &["all fed by one port, hold 3840.000 KB"]);
        // 32 times 764 bytes are 24,448; 32 times 765 are 24,480.
        let below = Given { t_pfc: kb(24.475), t_ecn: Some(Bytes(764)), ..paper };
        verdict(below, &["false a marking threshold of 764 B is below one packet"]);
        verdict(Given { t_ecn: Some(Bytes(765)), ..below }, &["true with a marking threshold of 765 B", "false"]);
        verdict(Given { headroom: kb(46.875), ..paper }, &["true 256 headrooms of 46.875 KB take 12 MB of the 12 MB"]);
    }

    #[test]
    fn impossible_switches_are_refused() {
        for (switch, part) in [
            (Switch { ports: 0, ..Switch::published() }, "cannot have 0 ports"),
            (Switch { classes: 0, ..Switch::published() }, "cannot be 0 lossless classes"),
            (Switch { classes: 9, ..Switch::published() }, "1 to 8"),
            (Switch { delay: Time::MAX, ..Switch::published() }, "a delay of never is impossible"),
            (Switch { mtu: Bytes(0), ..Switch::published() }, "the MTU cannot be 0 B"),
            (Switch { beta: f64::NAN, ..Switch::published() }, "cannot be NaN"),
            (Switch { rate: BitRate::from_bps(0), ..Switch::published() }, "a rate of 0 bps"),
        ] {
            let error = switch.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
