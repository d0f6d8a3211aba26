//! An attacker who sees all packets and shows other packets to the hosts. None of them may have an effect.

use super::{Passed, World};
use crate::network::{Dice, Flight, seal};
use rnic_wire::{ICRC_LEN, ProtectedHeader};
use std::collections::VecDeque;

/// The attacker: the packets that have arrived so far, and a source of random choices.
pub(super) struct Attacker {
    dice: Dice,
    /// Protected packets that have arrived, the newest last.
    seen: VecDeque<Flight>,
}

impl Attacker {
    /// Maximum number of packets that the attacker remembers.
    const SEEN: usize = 256;

    pub(super) fn new(seed: u64) -> Attacker {
        Attacker { dice: Dice::new(seed), seen: VecDeque::new() }
    }

    /// Makes a hostile packet from `flight`, which is about to arrive, and from earlier packets.
    fn packet(&mut self, flight: &Flight) -> Flight {
        let dice = &mut self.dice;
        let mut hostile = flight.clone();
        hostile.marked = dice.chance(500);
        let bytes = &mut hostile.bytes;
        match dice.below(5) {
            // A packet that has arrived before, perhaps of an earlier connection.
            0 if !self.seen.is_empty() => return self.seen[dice.below(self.seen.len() as u64) as usize].clone(),
            // Another number: of this epoch, of the next, or anywhere.
            1 => {
                let number = match dice.below(3) {
                    0 => dice.below(1 << 12),
                    1 => rnic_endpoint::secure::EPOCH + dice.below(1 << 12),
                    _ => dice.word(),
                };
                bytes[8..16].copy_from_slice(&number.to_be_bytes());
                // The number may be the packet's own.
                bytes[16] ^= 1;
            }
            // A plain packet with the bytes of the protected one, and a correct ICRC.
            2 => {
                bytes.drain(..ProtectedHeader::LEN + ProtectedHeader::LENGTH_LEN);
                bytes.truncate(bytes.len() - ProtectedHeader::TAG_LEN + ICRC_LEN);
            }
            // Random bytes after the header.
            3 => {
                let len = bytes.len() - 8;
                bytes[8..].copy_from_slice(&dice.bytes(len));
            }
            _ => {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] ^= dice.within(1, 255) as u8;
            }
        }
        hostile
    }
}

impl World {
    /// Shows hostile packets to the destination of `flight`, before this packet itself arrives.
    ///
    /// # Errors
    /// If a device processes one of them.
    pub(super) fn attack(&mut self, flight: &Flight) -> Result<(), String> {
        let Some(mut attacker) = self.attacker.take() else { return Ok(()) };
        let is_protected = ProtectedHeader::parse(&flight.bytes).is_some();
        for _ in 0..if is_protected { attacker.dice.within(0, 3) } else { 0 } {
            let mut hostile = attacker.packet(flight);
            if !ProtectedHeader::begins(&hostile.bytes) {
                let [from, to] = [hostile.from, hostile.to].map(|host| self.hosts[host].addr);
                seal(from, to, &mut hostile.bytes);
            }
            self.report.hostile += 1;
            if self.pass(&hostile) == Passed::Processed {
                return Err(format!("a hostile packet was processed: {hostile:?}"));
            }
        }
        if is_protected {
            if attacker.seen.len() == Attacker::SEEN {
                attacker.seen.pop_front();
            }
            attacker.seen.push_back(flight.clone());
        }
        self.attacker = Some(attacker);
        Ok(())
    }
}
