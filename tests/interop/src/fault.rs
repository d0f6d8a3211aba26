//! Faults on a link: loss, reordering, duplication and corruption of RoCE frames, either random or by a script.
//!
//! Other frames (ARP, neighbour discovery, TCP) always pass without faults, so that a case tests only the recovery of
//! RoCE.

use crate::frame::roce_payload;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum time for which a frame is held back if no later frames overtake it.
pub const HOLD: Duration = Duration::from_millis(20);

/// A fault that happens to one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The frame is lost.
    Drop,
    /// The frame arrives twice.
    Duplicate,
    /// The frame arrives after this number of later RoCE frames, or after [`HOLD`] if fewer frames follow.
    Delay(u32),
    /// The bit with this index in the UDP payload arrives flipped. An index beyond the payload is taken modulo the
    /// payload's length in bits.
    Flip(u32),
}

/// The faults of one direction of a link.
#[derive(Clone, Default, PartialEq, Debug)]
pub enum Faults {
    /// Every frame arrives.
    #[default]
    None,
    /// Random faults: at most one fault happens to each RoCE frame. The values are probabilities from 0 to 1, and their
    /// sum is at most 1.
    Random {
        /// Seed of the random numbers. The same seed gives the same faults to the same sequence of frames.
        seed: u64,
        /// Probability that a frame is lost.
        loss: f64,
        /// Probability that one to four later frames overtake a frame.
        reorder: f64,
        /// Probability that a frame arrives twice.
        duplicate: f64,
        /// Probability that one bit of a frame's UDP payload is flipped.
        corrupt: f64,
    },
    /// Scripted faults: the key is the number of a RoCE frame, counted from 0 in this direction, and the value is its
    /// fault.
    Script(BTreeMap<u64, Fault>),
}

impl Faults {
    /// Random loss with probability `loss`, and no other faults.
    pub fn loss(seed: u64, loss: f64) -> Faults {
        Faults::Random { seed, loss, reorder: 0.0, duplicate: 0.0, corrupt: 0.0 }
    }

    /// Scripted faults, as pairs of a frame's number and its fault.
    pub fn script(faults: impl IntoIterator<Item = (u64, Fault)>) -> Faults {
        Faults::Script(faults.into_iter().collect())
    }
}

/// Counts of frames and faults in one direction.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FaultCounts {
    /// Number of RoCE frames in this direction, with or without faults.
    pub frames: u64,
    /// Number of frames that were lost.
    pub dropped: u64,
    /// Number of frames that were sent twice.
    pub duplicated: u64,
    /// Number of frames that were held back, so that later frames overtook them.
    pub delayed: u64,
    /// Number of frames in which a bit was flipped.
    pub corrupted: u64,
}

/// Applies faults to the frames of one direction of a link.
#[derive(Debug)]
pub struct Injector {
    faults: Faults,
    random: Pcg64Mcg,
    held: Vec<Held>,
    counts: FaultCounts,
}

#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    /// Number of RoCE frames that must still overtake this frame.
    behind: u32,
    /// Latest time at which the frame is sent.
    until: Instant,
}

impl Injector {
    /// Creates an injector that has not seen any frames.
    pub fn new(faults: Faults) -> Injector {
        let seed = if let Faults::Random { seed, .. } = faults { seed } else { 0 };
        // The multiplier of Knuth's MMIX generator spreads small seeds over the state.
        let state = u128::from(seed).wrapping_mul(6_364_136_223_846_793_005) | 1;
        Injector { faults, random: Pcg64Mcg::new(state), held: Vec::new(), counts: FaultCounts::default() }
    }

    /// Processes a frame that arrives at time `now`. Returns the frames that leave the injector now, in order.
    pub fn pass(&mut self, mut frame: Vec<u8>, now: Instant) -> Vec<Vec<u8>> {
        let mut out = self.expired(now);
        let Some(payload) = roce_payload(&frame) else {
            out.push(frame);
            return out;
        };
        let fault = self.next_fault();
        self.counts.frames += 1;
        // This frame overtakes all frames that are held back.
        let mut released = Vec::new();
        self.held.retain_mut(|held| {
            held.behind -= 1;
            if held.behind == 0 {
                released.push(std::mem::take(&mut held.frame));
            }
            held.behind > 0
        });
        match fault {
            None => out.push(frame),
            Some(Fault::Drop) => self.counts.dropped += 1,
            Some(Fault::Duplicate) => {
                self.counts.duplicated += 1;
                out.push(frame.clone());
                out.push(frame);
            }
            Some(Fault::Delay(behind)) => {
                self.counts.delayed += 1;
                self.held.push(Held { frame, behind: behind.max(1), until: now + HOLD });
            }
            Some(Fault::Flip(bit)) => {
                self.counts.corrupted += 1;
                let bits = (frame.len() - payload) * 8;
                if bits > 0 {
                    let bit = bit as usize % bits;
                    frame[payload + bit / 8] ^= 0x80 >> (bit % 8);
                }
                out.push(frame);
            }
        }
        out.extend(released);
        out
    }

    /// Returns the held frames whose maximum holding time is over.
    pub fn expired(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let (expired, held) = std::mem::take(&mut self.held).into_iter().partition(|held| held.until <= now);
        self.held = held;
        expired.into_iter().map(|held: Held| held.frame).collect()
    }

    /// Returns the earliest time at which a held frame must be sent; `None` if no frame is held.
    pub fn deadline(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).min()
    }

    /// Returns the counts of frames and faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Chooses the fault of the next RoCE frame. Random faults always take two random numbers per frame, so that the
    /// fault of one frame does not change the faults of later frames.
    fn next_fault(&mut self) -> Option<Fault> {
        match &self.faults {
            Faults::None => None,
            Faults::Script(script) => script.get(&self.counts.frames).copied(),
            Faults::Random { loss, reorder, duplicate, corrupt, .. } => {
                let choice = unit(self.random.next_u64());
                let detail = self.random.next_u64();
                let kinds = [
                    (*loss, Fault::Drop),
                    (*reorder, Fault::Delay(1 + (detail % 4) as u32)),
                    (*duplicate, Fault::Duplicate),
                    (*corrupt, Fault::Flip(detail as u32)),
                ];
                let mut sum = 0.0;
                kinds.into_iter().find_map(|(probability, fault)| {
                    sum += probability;
                    (choice < sum).then_some(fault)
                })
            }
        }
    }
}

/// Converts random bits to a number in [0, 1), from their upper 53 bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{IPV4, Udp, ethernet};

    /// Builds a RoCE frame whose payload is `number`.
    fn roce(number: u8) -> Vec<u8> {
        let packet = Udp::roce("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), 1, &[number; 16]).emit();
        ethernet([2; 6], [4; 6], IPV4, &packet)
    }

    fn numbers(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().map(|frame| *frame.last().unwrap()).collect()
    }

    /// Passes ten numbered frames to the injector; returns the numbers of the frames that arrive.
    fn arrivals(injector: &mut Injector, now: Instant) -> Vec<u8> {
        (0..10).flat_map(|number| numbers(&injector.pass(roce(number), now))).collect()
    }

    #[test]
    fn a_script_is_followed() {
        let faults = [(1, Fault::Drop), (3, Fault::Duplicate), (5, Fault::Delay(2))];
        let mut injector = Injector::new(Faults::script(faults));
        assert_eq!(arrivals(&mut injector, Instant::now()), [0, 2, 3, 3, 4, 6, 7, 5, 8, 9]);
        let counts = FaultCounts { frames: 10, dropped: 1, duplicated: 1, delayed: 1, corrupted: 0 };
        assert_eq!(injector.counts(), counts);
    }

    #[test]
    fn a_flip_changes_the_named_bit_of_the_payload() {
        let mut injector = Injector::new(Faults::script([(0, Fault::Flip(9))]));
        let out = injector.pass(roce(0), Instant::now());
        let mut expected = roce(0);
        expected[42 + 1] = 0x40;
        assert_eq!(out, [expected]);
    }

    #[test]
    fn a_held_frame_goes_when_its_time_is_up() {
        let mut injector = Injector::new(Faults::script([(0, Fault::Delay(3))]));
        let start = Instant::now();
        assert!(injector.pass(roce(0), start).is_empty());
        assert_eq!(injector.deadline(), Some(start + HOLD));
        assert!(injector.expired(start + HOLD / 2).is_empty());
        assert_eq!(numbers(&injector.expired(start + HOLD)), [0]);
        assert_eq!(injector.deadline(), None);
    }

    #[test]
    fn other_frames_always_pass_and_do_not_count() {
        let mut injector = Injector::new(Faults::loss(1, 1.0));
        let arp = ethernet([0xff; 6], [4; 6], crate::frame::ARP, &[0; 28]);
        assert_eq!(injector.pass(arp.clone(), Instant::now()), [arp]);
        assert!(injector.pass(roce(0), Instant::now()).is_empty());
        assert_eq!(injector.counts().frames, 1);
    }

    #[test]
    fn same_seed_same_faults_and_about_the_asked_share() {
        let faults = |seed| Faults::Random { seed, loss: 0.1, reorder: 0.05, duplicate: 0.05, corrupt: 0.05 };
        let run = |seed| {
            let mut injector = Injector::new(faults(seed));
            let now = Instant::now();
            let frames: Vec<_> = (0..10_000_u32).flat_map(|number| injector.pass(roce(number as u8), now)).collect();
            (frames, injector.counts())
        };
        let (frames, counts) = run(7);
        assert_eq!(frames, run(7).0);
        assert_ne!(frames, run(8).0);
        // Binomial with n = 10,000: standard deviations 30 and 22; five of them.
        assert!(counts.dropped.abs_diff(1000) < 150, "{counts:?}");
        for count in [counts.delayed, counts.duplicated, counts.corrupted] {
            assert!(count.abs_diff(500) < 110, "{counts:?}");
        }
    }
}
