//! Trimming: a switch removes the payload of a data packet for which the output has no room. It then forwards the
//! header, returns the header to the sender, or drops the header.

use super::Switch;
use crate::buffer::{Buffer, TrimSpec, TrimmedPriority};
use crate::packet::{Body, MIN_FRAME, Packet};
use crate::port::Ports;
use crate::routing::Routes;

impl<B: Body, U: Buffer<B>> Switch<B, U> {
    /// Trims a data packet for which its output has no room. The result is the header, and an output that has room for
    /// the header: the same output, or the output that leads back to the sender. `None`: the switch drops the packet.
    pub(super) fn trimmed(
        &mut self, links: &mut Ports<B>, routes: &Routes, input: usize, output: usize, packet: Packet<B>, now: u64,
    ) -> Option<(Packet<B>, usize)> {
        let trim = *self.buffer.trim()?;
        if packet.flags & (Packet::<B>::CONTROL | Packet::<B>::RETURNED) != 0 {
            return None;
        }
        let highest = self.priorities as u8 - 1;
        let last_hop = links.ports[self.first_port + output].leads_to_host;
        let header = if packet.is_trimmed() { packet } else { trim_payload(&trim, highest, packet, last_hop) };
        let goes_on = self.admits(links, input, output, &header, now);
        let sent = if goes_on { (header, output) } else { self.returned(&trim, links, routes, input, header, now)? };
        let counters = &mut links.counters[(self.first_port + output) * self.priorities + packet.priority as usize];
        counters.trimmed += u64::from(!packet.is_trimmed());
        counters.returned += u64::from(!goes_on);
        Some(sent)
    }

    /// Addresses a trimmed packet's header to the packet's sender; the result is the new header, and the output that
    /// leads to the sender. `None` if `trim` does not return headers, if the header does not name its sender, or if
    /// that output has no room.
    fn returned(
        &mut self, trim: &TrimSpec, links: &Ports<B>, routes: &Routes, input: usize, header: Packet<B>, now: u64,
    ) -> Option<(Packet<B>, usize)> {
        let sender = header.body.source().filter(|_| trim.return_to_sender)?;
        let flags = header.flags | Packet::<B>::RETURNED;
        let back = Packet { dst: sender, flags, priority: self.priorities as u8 - 1, ..header };
        let output = self.route(routes, &back, now);
        self.admits(links, input, output, &back, now).then_some((back, output))
    }
}

/// The data packet without its payload, in the priority that `trim` sets for headers. `last_hop` says whether the
/// packet was about to leave to a host.
fn trim_payload<B: Body>(trim: &TrimSpec, highest: u8, packet: Packet<B>, last_hop: bool) -> Packet<B> {
    let priority = match trim.headers {
        TrimmedPriority::Highest => highest,
        TrimmedPriority::Above => highest.min(packet.priority + 1),
        TrimmedPriority::Below => packet.priority.saturating_sub(1),
    };
    let bytes = packet.bytes.min(trim.to.max(MIN_FRAME));
    let mut body = packet.body;
    body.trimmed(last_hop);
    Packet { bytes, priority, flags: packet.flags | Packet::<B>::TRIMMED, body, ..packet }
}
