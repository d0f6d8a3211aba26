//! The frames from one partition of a fabric to another, which wait until the end of a window of simulated time.

use crate::ids::HostId;
use crate::packet::{Body, Packet};
use crate::rank_message::{append, take};
use crate::ranks::RankError;
use serde::{Deserialize, Serialize};

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
    /// Moves all frames from this mailbox, which belongs to a partition of another rank, to the end of `message`.
    /// Returns the arrival time of the first frame, `u64::MAX` if there is none.
    pub(crate) fn append_to(&mut self, message: &mut Vec<u8>) -> Result<u64, RankError> {
        let codec = B::RANK_CODEC.ok_or(RankError::NotEncodable)?;
        append(&self.frames.len(), message)?;
        for Crossing { port, at, packet } in self.frames.drain(..) {
            let Packet { dst: HostId(dst), flow_hash, bytes, priority, flags, body } = packet;
            append(&FrameHeader { port, at, dst, flow_hash, bytes, priority, flags }, message)?;
            codec.append(&body, message)?;
        }
        Ok(std::mem::replace(&mut self.first_at, u64::MAX))
    }

    /// Takes the frames that [`Mailbox::append_to`] has appended from the front of a message into this mailbox. `ports`
    /// and `priorities` are the numbers of ports of the partition, and of priorities.
    pub(crate) fn take_from(&mut self, message: &mut &[u8], ports: usize, priorities: usize) -> Result<(), RankError> {
        let codec = B::RANK_CODEC.ok_or(RankError::NotEncodable)?;
        for _ in 0..take::<usize>(message, "the number of frames")? {
            let FrameHeader { port, at, dst, flow_hash, bytes, priority, flags } = take(message, "a frame")?;
            let packet = Packet { dst: HostId(dst), flow_hash, bytes, priority, flags, body: codec.take(message)? };
            if port as usize >= ports || usize::from(priority) >= priorities {
                return Err(RankError::Damaged("the port or priority of a frame"));
            }
            self.first_at = self.first_at.min(at);
            self.frames.push(Crossing { port, at, packet });
        }
        Ok(())
    }
}

/// A frame in a message between ranks; the body of its packet follows.
#[derive(Serialize, Deserialize)]
struct FrameHeader {
    port: u32,
    at: u64,
    dst: u32,
    flow_hash: u32,
    bytes: u16,
    priority: u8,
    flags: u8,
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
        assert_eq!(sent.append_to(&mut message), Ok(498));
        assert!(sent.frames.is_empty() && sent.first_at == u64::MAX);
        let mut received = Mailbox::<u32>::new();
        let mut rest = &message[..];
        assert_eq!(received.take_from(&mut rest, 3, 2), Ok(()));
        assert!(rest.is_empty());
        assert_eq!(received.first_at, 498);
        assert!(received.frames.iter().map(|crossing| (crossing.port, crossing.at, crossing.packet)).eq(frames));
        let error = |mut message: &[u8], ports, priorities| {
            Mailbox::<u32>::new().take_from(&mut message, ports, priorities).unwrap_err()
        };
        let beyond = RankError::Damaged("the port or priority of a frame");
        assert_eq!(error(&message[..message.len() - 1], 3, 2), RankError::Damaged("the body of a packet"));
        assert_eq!(error(&message, 2, 2), beyond);
        assert_eq!(error(&message, 3, 1), beyond);
    }
}
