//! The frames from one partition of a fabric to another, which wait until the end of a window of simulated time.

use crate::ids::HostId;
use crate::packet::{Body, Packet};
use rnic_transport::codec::{Reader, put_u16, put_u32, put_u64};

/// A packet that goes from one partition of the fabric to another.
pub(crate) struct Crossing<B> {
    /// The port at which the packet arrives, numbered within the receiving partition.
    pub(crate) port: u32,
    pub(crate) at: u64,
    pub(crate) packet: Packet<B>,
}

/// The frames that one partition of the fabric has sent to another in the current window of simulated time.
pub(crate) struct Mailbox<B> {
    /// Arrival time of the first frame, `u64::MAX` if there is none.
    pub(crate) first_at: u64,
    pub(crate) frames: Vec<Crossing<B>>,
}

impl<B> Mailbox<B> {
    pub(crate) fn new() -> Mailbox<B> {
        Mailbox { first_at: u64::MAX, frames: Vec::new() }
    }

    /// Moves all frames from this outbox to the inbox `to` of the receiving partition, behind the frames that `to`
    /// still holds.
    pub(crate) fn deliver(&mut self, to: &mut Mailbox<B>) {
        to.first_at = to.first_at.min(self.first_at);
        self.first_at = u64::MAX;
        if to.frames.is_empty() {
            std::mem::swap(&mut self.frames, &mut to.frames);
        } else {
            to.frames.append(&mut self.frames);
        }
    }
}

impl<B: Body> Mailbox<B> {
    /// Moves all frames from this mailbox, which belongs to a partition of another rank, to the message `out`. Returns
    /// the arrival time of the first frame, `u64::MAX` if there is none.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> u64 {
        put_u32(out, self.frames.len() as u32);
        for Crossing { port, at, packet } in self.frames.drain(..) {
            put_u32(out, port);
            put_u64(out, at);
            put_u32(out, packet.dst.0);
            put_u32(out, packet.flow_hash);
            put_u16(out, packet.bytes);
            out.extend([packet.priority, packet.flags]);
            packet.body.write(out);
        }
        std::mem::replace(&mut self.first_at, u64::MAX)
    }

    /// Appends the frames of a message that [`Mailbox::write`] has made. `None`: the message is damaged, or names a
    /// port beyond the `ports` ports of the partition.
    pub(crate) fn read(&mut self, message: &mut Reader<'_>, ports: usize, priorities: usize) -> Option<()> {
        for _ in 0..message.u32()? {
            let (port, at, dst, flow_hash) = (message.u32()?, message.u64()?, HostId(message.u32()?), message.u32()?);
            let (bytes, priority, flags) = (message.u16()?, message.u8()?, message.u8()?);
            let packet = Packet { dst, flow_hash, bytes, priority, flags, body: B::read(message)? };
            if port as usize >= ports || usize::from(priority) >= priorities {
                return None;
            }
            self.first_at = self.first_at.min(at);
            self.frames.push(Crossing { port, at, packet });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_way_to_another_rank() {
        let mut sent = Mailbox::<u32>::new();
        for number in 0..3 {
            let packet = Packet {
                dst: HostId(number),
                flow_hash: 77,
                bytes: 1_000,
                priority: 1,
                flags: Packet::<u32>::MARKED,
                body: number * 9,
            };
            sent.frames.push(Crossing { port: number, at: 500 - u64::from(number), packet });
        }
        sent.first_at = 498;
        let frames: Vec<_> = sent.frames.iter().map(|crossing| (crossing.port, crossing.at, crossing.packet)).collect();
        let mut message = Vec::new();
        assert_eq!(sent.write(&mut message), 498);
        assert!(sent.frames.is_empty() && sent.first_at == u64::MAX);
        let mut received = Mailbox::<u32>::new();
        assert_eq!(received.read(&mut Reader::new(&message), 3, 2), Some(()));
        assert_eq!(received.first_at, 498);
        assert!(received.frames.iter().map(|crossing| (crossing.port, crossing.at, crossing.packet)).eq(frames));
        // A message that ends early, a port beyond the last one, a priority beyond the last one.
        assert_eq!(Mailbox::<u32>::new().read(&mut Reader::new(&message[..message.len() - 1]), 3, 2), None);
        assert_eq!(Mailbox::<u32>::new().read(&mut Reader::new(&message), 2, 2), None);
        assert_eq!(Mailbox::<u32>::new().read(&mut Reader::new(&message), 3, 1), None);
    }
}
