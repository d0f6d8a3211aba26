//! Request packets as an IRN responder stores them: without their payload, which is placed in memory on arrival. The
//! responder stores packets that arrive out of order, and processes them when all earlier packets have been processed.

use rnic_wire::{AtomicEth, Operation, Packet, Reth};
use std::collections::VecDeque;

/// A received request packet without its payload, which is already in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestPacket {
    pub(crate) kind: RequestKind,
    /// Whether the packet is the first (or only) packet of its message.
    pub(crate) begins: bool,
    /// Whether the packet is the last (or only) packet of its message.
    pub(crate) ends: bool,
    pub(crate) solicited: bool,
    pub(crate) imm: Option<u32>,
    /// Length of the payload in bytes.
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    /// A packet of a Send. `serial` is the sequence number of the receive that the message consumes (recv_WQE_SN),
    /// `offset` the offset in bytes of the payload in the message, and `rkey` the remote key to invalidate, if any.
    Send { serial: u32, offset: u32, rkey: Option<u32> },
    /// A packet of a Write to address `addr`. `left` is the number of the message's bytes from this packet to its end.
    /// `serial` is the sequence number of the receive that the Write consumes; only the last packet of a Write with
    /// Immediate has it.
    Write { addr: u64, rkey: u32, left: u32, serial: Option<u32> },
    /// A read request. `serial` is its sequence number among reads and atomics (read_WQE_SN).
    Read { reth: Reth, serial: u32 },
    /// An atomic request. `serial` is its sequence number among reads and atomics (read_WQE_SN); `compare` selects
    /// compare-and-swap instead of fetch-and-add.
    Atomic { request: AtomicEth, compare: bool, serial: u32 },
}

impl RequestPacket {
    /// Extracts the request from a received packet; `None` if the packet is not a request.
    // A call would return the request through memory, which takes longer to read back than the whole extraction.
    #[inline(always)]
    pub(crate) fn of(packet: &Packet<'_>) -> Option<RequestPacket> {
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let kind = match opcode.operation() {
            Operation::Send => {
                let send = headers.send?;
                let rkey = headers.ieth.map(|ieth| ieth.rkey);
                RequestKind::Send { serial: send.recv_wqe_sn, offset: send.offset, rkey }
            }
            Operation::Write => {
                let reth = headers.reth?;
                let serial = headers.recv.map(|recv| recv.recv_wqe_sn);
                RequestKind::Write { addr: reth.va, rkey: reth.rkey, left: reth.dma_len, serial }
            }
            Operation::ReadRequest => RequestKind::Read { reth: headers.reth?, serial: headers.read?.read_wqe_sn },
            operation @ (Operation::CompareSwap | Operation::FetchAdd) => RequestKind::Atomic {
                request: headers.atomic?,
                compare: operation == Operation::CompareSwap,
                serial: headers.read?.read_wqe_sn,
            },
            _ => return None,
        };
        Some(RequestPacket {
            kind,
            begins: opcode.starts_message(),
            ends: opcode.ends_message(),
            solicited: headers.bth.solicited,
            imm: headers.imm.map(|imm| imm.0),
            len: packet.payload.len() as u32,
        })
    }

    /// Whether the packet states which receive its message consumes: true for every packet of a Send, and for the last
    /// packet of a Write with Immediate.
    pub(crate) fn uses_receive(&self) -> bool {
        matches!(self.kind, RequestKind::Send { .. } | RequestKind::Write { serial: Some(_), .. })
    }
}

/// Buffer of request packets that arrived out of order. A packet leaves the buffer when all earlier packets have been
/// processed.
#[derive(Debug, Default)]
pub(crate) struct ReorderBuffer {
    /// The entry at index `i` is for the packet `i + 1` packets after the next packet to process; `None` if it has not
    /// arrived.
    packets: VecDeque<Option<RequestPacket>>,
}

impl ReorderBuffer {
    /// Capacity, in packets, up to which an empty buffer keeps its memory; an empty buffer with a larger capacity frees
    /// it.
    const KEEP: usize = 256;

    /// Stores a packet that is `ahead` packets after the next packet to process; `ahead` is at least 1.
    pub(crate) fn insert(&mut self, ahead: usize, request: RequestPacket) {
        if self.packets.len() < ahead {
            self.packets.resize(ahead, None);
        }
        self.packets[ahead - 1] = Some(request);
    }

    /// After a packet was processed: takes the packet that follows it out of the buffer; `None` if it has not arrived.
    pub(crate) fn pop_next(&mut self) -> Option<RequestPacket> {
        let next = self.packets.pop_front()?;
        if self.packets.is_empty() && self.packets.capacity() > ReorderBuffer::KEEP {
            self.packets = VecDeque::new();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares the buffer with a map. Whatever the order of arrival, packets leave the buffer in order, each as
        /// soon as all packets before it have left.
        #[test]
        fn agrees_with_a_map(arrivals in prop::collection::vec(0u64..40, 1..300)) {
            let (mut buffer, mut map, mut next) = (ReorderBuffer::default(), BTreeMap::new(), 0);
            for (number, ahead) in arrivals.into_iter().enumerate() {
                let request = RequestPacket {
                    kind: RequestKind::Send { serial: 0, offset: number as u32, rkey: None },
                    begins: true,
                    ends: true,
                    solicited: false,
                    imm: None,
                    len: 0,
                };
                if ahead > 0 {
                    buffer.insert(ahead as usize, request);
                    map.insert(next + ahead, number as u32);
                    continue;
                }
                next += 1;
                while let Some(request) = buffer.pop_next() {
                    let RequestKind::Send { offset, .. } = request.kind else { unreachable!() };
                    prop_assert_eq!(Some(offset), map.remove(&next));
                    next += 1;
                }
                prop_assert_eq!(map.get(&next), None);
            }
        }
    }
}
