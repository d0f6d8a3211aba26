//! What is left of a packet that finds no room: its header goes on, goes back, or nothing does.

use super::{Queueing, Switch};
use crate::config::{Headers, TrimSpec};
use crate::packet::{Body, MIN_FRAME, Packet};
use crate::port::Ports;
use crate::routing::Routes;

impl<B: Body, Q: Queueing<B>> Switch<B, Q> {
    /// What is left of a data packet that has no room at its output, and the output that has room for that: the same for its header, or one
    /// on the way back.
    pub(super) fn trimmed(
        &mut self, links: &mut Ports<B>, routes: &Routes, input: usize, output: usize, packet: Packet<B>,
    ) -> Option<(Packet<B>, usize)> {
        let trim = *self.queueing.trim()?;
        if packet.flags & (Packet::<B>::CONTROL | Packet::<B>::RETURNED) != 0 {
            return None;
        }
        let highest = self.priorities as u8 - 1;
        let header = if packet.is_trimmed() { packet } else { cut(&trim, highest, packet) };
        let goes_on = self.queueing.admits(input, output, &header);
        let left = if goes_on { (header, output) } else { self.turned_back(&trim, routes, input, header)? };
        let counters = &mut links.counters[(self.first_port + output) * self.priorities + packet.priority as usize];
        counters.trimmed += u64::from(!packet.is_trimmed());
        counters.returned += u64::from(!goes_on);
        Some(left)
    }

    /// A header on its way to its sender, if that is wanted and known, and has room.
    fn turned_back(
        &mut self, trim: &TrimSpec, routes: &Routes, input: usize, header: Packet<B>,
    ) -> Option<(Packet<B>, usize)> {
        let sender = header.body.source().filter(|_| trim.return_to_sender)?;
        let flags = header.flags | Packet::<B>::RETURNED;
        let back = Packet { dst: sender, flags, priority: self.priorities as u8 - 1, ..header };
        let output = self.route(routes, &back);
        self.queueing.admits(input, output, &back).then_some((back, output))
    }
}

/// A data packet without its payload.
fn cut<B: Body>(trim: &TrimSpec, highest: u8, packet: Packet<B>) -> Packet<B> {
    let priority = match trim.headers {
        Headers::Highest => highest,
        Headers::Above => highest.min(packet.priority + 1),
    };
    let bytes = packet.bytes.min(trim.to.max(MIN_FRAME));
    Packet { bytes, priority, flags: packet.flags | Packet::<B>::TRIMMED, ..packet }
}
