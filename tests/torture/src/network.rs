//! A simulated network in virtual time that drops, duplicates, corrupts, delays and CE-marks packets; and the source of
//! random choices.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rnic_transport::Time;
use rnic_transport::random::below;
use rnic_wire::IcrcSeed;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A source of random choices: a seeded random number generator, or bytes that a fuzzer chose.
pub struct Dice(Source);

enum Source {
    Seed(Pcg64Mcg),
    Input(std::vec::IntoIter<u8>),
}

impl Dice {
    /// Creates a source that derives all choices from `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(Source::Seed(Pcg64Mcg::seed_from_u64(seed)))
    }
    /// Creates a source that takes its choices from the bytes of `input`, with as few bytes per choice as possible.
    /// When all bytes are used up, each choice is 0.
    pub fn of(input: Vec<u8>) -> Dice {
        Dice(Source::Input(input.into_iter()))
    }
    /// Whether all bytes of the input are used up. Always `false` for a source with a seed.
    pub fn is_spent(&self) -> bool {
        match &self.0 {
            Source::Seed(_) => false,
            Source::Input(bytes) => bytes.len() == 0,
        }
    }
    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound <= 1 {
            return 0;
        }
        match &mut self.0 {
            Source::Seed(generator) => below(generator.next_u64(), bound),
            Source::Input(bytes) => {
                let needed = 8 - (bound - 1).leading_zeros() / 8;
                let number = bytes.take(needed as usize).fold(0, |number, byte| number << 8 | u64::from(byte));
                number % bound
            }
        }
    }
    /// Returns a number from `least` to `most`.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
    /// Returns `true` with a probability of `per_mille` / 1000.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
    /// Returns one of `these`.
    ///
    /// # Panics
    /// If `these` is empty.
    pub fn pick<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }
    /// Returns 64 random bits.
    pub fn word(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(generator) => generator.next_u64(),
            Source::Input(bytes) => bytes.take(8).fold(0, |number, byte| number << 8 | u64::from(byte)),
        }
    }
    /// Returns `len` random bytes, to fill memory. They cost only one choice.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Pcg64Mcg::seed_from_u64(self.word()).fill_bytes(&mut bytes);
        bytes
    }
}

/// The faults of a network. Each probability is a number of packets per thousand.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Packets per thousand that are dropped.
    pub loss: u64,
    /// Packets per thousand that are duplicated.
    pub duplicate: u64,
    /// Packets per thousand in which one bit is flipped.
    pub corrupt: u64,
    /// Packets per thousand that are delayed by up to [`Faults::late`], so that other packets overtake them.
    pub reorder: u64,
    /// Maximum additional delay of a reordered packet.
    pub late: Time,
    /// Packets per thousand that carry a CE mark, as if from a congested switch.
    pub mark: u64,
    /// Maximum number of packets in flight between two hosts; further packets are dropped.
    pub room: usize,
}

impl Faults {
    /// A network without faults.
    pub const NONE: Faults =
        Faults { loss: 0, duplicate: 0, corrupt: 0, reorder: 0, late: Time::ZERO, mark: 0, room: usize::MAX };

    /// Returns random probabilities of faults. Each kind of fault has the probability 0 in some networks.
    pub fn random(dice: &mut Dice) -> Faults {
        let mut maybe = |most| if dice.chance(600) { dice.below(most) } else { 0 };
        Faults {
            loss: maybe(60),
            duplicate: maybe(60),
            corrupt: maybe(30),
            reorder: maybe(300),
            mark: maybe(200),
            late: Time::from_us(dice.within(1, 200)),
            room: if dice.chance(300) { dice.within(8, 64) as usize } else { usize::MAX },
        }
    }
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub struct Flight {
    /// The host that sent the packet.
    pub from: usize,
    /// The destination host.
    pub to: usize,
    /// Whether a switch CE-marked the packet.
    pub marked: bool,
    /// The UDP payload: the packet from the base transport header to the ICRC.
    pub bytes: Vec<u8>,
}

/// Counts of packets and of the faults that the network caused.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of packets sent.
    pub packets: u64,
    /// Number of packets dropped by random loss, during a partition, or because too many packets were in flight.
    pub lost: u64,
    /// Number of packets duplicated.
    pub duplicated: u64,
    /// Number of packets in which a bit was flipped.
    pub corrupted: u64,
    /// Number of packets that were delayed, so that others overtook them.
    pub reordered: u64,
}

/// A network with packets in flight.
pub struct Network {
    /// The probabilities of faults.
    pub faults: Faults,
    /// End of the current network partition: until this time the network drops all packets.
    pub partition: Time,
    /// The faults so far.
    pub damage: Damage,
    flights: BTreeMap<(Time, u64), Flight>,
    serial: u64,
    dice: Dice,
}

impl Network {
    /// One-way delay of a packet that is not delayed further.
    pub const DELAY: Time = Time::from_us(5);

    /// Creates a network without packets.
    pub fn new(faults: Faults, seed: u64) -> Network {
        Network {
            faults,
            partition: Time::ZERO,
            damage: Damage::default(),
            flights: BTreeMap::new(),
            serial: 0,
            dice: Dice::new(seed),
        }
    }

    /// Sends a packet.
    pub fn send(&mut self, now: Time, mut flight: Flight) {
        self.damage.packets += 1;
        let faults = self.faults;
        if now < self.partition || self.dice.chance(faults.loss) || self.flights.len() >= faults.room {
            self.damage.lost += 1;
            return;
        }
        flight.marked = self.dice.chance(faults.mark);
        if self.dice.chance(faults.duplicate) {
            self.damage.duplicated += 1;
            self.launch(now, flight.clone());
        }
        if self.dice.chance(faults.corrupt) {
            self.damage.corrupted += 1;
            let bit = self.dice.below(flight.bytes.len() as u64 * 8) as usize;
            flight.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.launch(now, flight);
    }

    fn launch(&mut self, now: Time, flight: Flight) {
        let mut at = now + Network::DELAY;
        if self.dice.chance(self.faults.reorder) {
            self.damage.reordered += 1;
            at += Time::from_ps(self.dice.below(self.faults.late.as_ps().max(1)));
        }
        self.serial += 1;
        self.flights.insert((at, self.serial), flight);
    }

    /// Returns the arrival time of the next packet.
    pub fn next(&self) -> Option<Time> {
        self.flights.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes and returns the next packet to arrive.
    pub fn deliver(&mut self) -> Option<Flight> {
        self.flights.pop_first().map(|(_, flight)| flight)
    }
}

/// Writes the ICRC into the last bytes of a packet between these addresses.
pub fn seal(from: SocketAddr, to: SocketAddr, packet: &mut [u8]) {
    let end = packet.len() - rnic_wire::ICRC_LEN;
    let icrc = seed_of(from, to).icrc(0, &packet[..end]);
    packet[end..].copy_from_slice(&icrc.to_le_bytes());
}

/// Whether the ICRC of a packet between these addresses is right.
pub fn is_intact(from: SocketAddr, to: SocketAddr, packet: &[u8]) -> bool {
    seed_of(from, to).check(0, packet)
}

fn seed_of(from: SocketAddr, to: SocketAddr) -> IcrcSeed {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from_ip), IpAddr::V4(to_ip)) => IcrcSeed::ipv4(from_ip, to_ip, from.port(), to.port()),
        (IpAddr::V6(from_ip), IpAddr::V6(to_ip)) => IcrcSeed::ipv6(from_ip, to_ip, from.port(), to.port()),
        _ => panic!("hosts have addresses of one kind"),
    }
}
