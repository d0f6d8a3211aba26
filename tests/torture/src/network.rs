//! A network that does its worst, in virtual time.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Random choices, all from one seed, or all from bytes that somebody else chose.
pub struct Dice(Source);

enum Source {
    Seed(Pcg64Mcg),
    Input(std::vec::IntoIter<u8>),
}

impl Dice {
    /// The choices that follow from `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(Source::Seed(Pcg64Mcg::seed_from_u64(seed)))
    }
    /// The choices that `input` makes, each with as few bytes as it needs; when they are used up, 0.
    pub fn of(input: Vec<u8>) -> Dice {
        Dice(Source::Input(input.into_iter()))
    }
    /// Whether an input is used up.
    pub fn is_spent(&self) -> bool {
        match &self.0 {
            Source::Seed(_) => false,
            Source::Input(bytes) => bytes.len() == 0,
        }
    }
    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound <= 1 {
            return 0;
        }
        match &mut self.0 {
            Source::Seed(generator) => ((u128::from(generator.next_u64()) * u128::from(bound)) >> 64) as u64,
            Source::Input(bytes) => {
                let needed = 8 - (bound - 1).leading_zeros() / 8;
                let number = bytes.take(needed as usize).fold(0, |number, byte| number << 8 | u64::from(byte));
                number % bound
            }
        }
    }
    /// A number from `least` to `most`.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
    /// One of `these`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }
    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(generator) => generator.next_u64(),
            Source::Input(bytes) => bytes.take(8).fold(0, |number, byte| number << 8 | u64::from(byte)),
        }
    }
    /// Contents of memory: any bytes, for one word.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Pcg64Mcg::seed_from_u64(self.word()).fill_bytes(&mut bytes);
        bytes
    }
}

/// How bad the network is; probabilities per thousand packets.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Packets lost.
    pub loss: u64,
    /// Packets that come twice.
    pub duplicate: u64,
    /// Packets of which one bit arrives wrong.
    pub corrupt: u64,
    /// Packets that take up to `late` longer, and so overtake or are overtaken.
    pub reorder: u64,
    /// How much longer.
    pub late: Time,
    /// Packets that a switch marks.
    pub mark: u64,
    /// More packets than this do not fit between two hosts; the rest is dropped.
    pub room: usize,
}

impl Faults {
    /// A network without faults.
    pub const NONE: Faults =
        Faults { loss: 0, duplicate: 0, corrupt: 0, reorder: 0, late: Time::ZERO, mark: 0, room: usize::MAX };

    /// Faults that `dice` choose; some networks have only some kinds.
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

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Host that sent it.
    pub from: usize,
    /// Host that it goes to.
    pub to: usize,
    /// Whether a switch marked it.
    pub marked: bool,
    /// What the UDP datagram carries.
    pub bytes: Vec<u8>,
}

/// What the network did.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Packets that went in.
    pub packets: u64,
    /// Lost, in a partition, for want of room.
    pub lost: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// With a wrong bit.
    pub corrupted: u64,
    /// Late.
    pub reordered: u64,
}

/// Packets between hosts.
pub struct Network {
    /// How bad it is.
    pub faults: Faults,
    /// Nothing gets through before this time.
    pub partition: Time,
    /// What it did.
    pub damage: Damage,
    flights: BTreeMap<(Time, u64), Flight>,
    serial: u64,
    dice: Dice,
}

impl Network {
    /// One-way delay of a packet that is not late.
    pub const DELAY: Time = Time::from_us(5);

    /// A network without packets.
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

    /// A packet goes in.
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

    /// When the next packet comes out.
    pub fn next(&self) -> Option<Time> {
        self.flights.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next packet out.
    pub fn deliver(&mut self) -> Option<Flight> {
        self.flights.pop_first().map(|(_, flight)| flight)
    }
}
