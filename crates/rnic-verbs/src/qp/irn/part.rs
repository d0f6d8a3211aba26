//! A request packet without its payload: what is to happen when its turn comes.

use rnic_wire::{AtomicEth, Operation, Packet, Reth};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    /// It is the first, and the last, packet of its message.
    pub(crate) begins: bool,
    pub(crate) ends: bool,
    pub(crate) solicited: bool,
    pub(crate) imm: Option<u32>,
    /// Bytes of payload.
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `serial` numbers the receive, `rkey` is to be invalidated.
    Send {
        serial: u32,
        offset: u32,
        rkey: Option<u32>,
    },
    /// `left` counts bytes from this packet on; with a `serial` it uses up that receive.
    Write {
        addr: u64,
        rkey: u32,
        left: u32,
        serial: Option<u32>,
    },
    /// `serial` numbers reads and atomics.
    Read {
        reth: Reth,
        serial: u32,
    },
    Atomic {
        request: AtomicEth,
        compare: bool,
        serial: u32,
    },
}

impl Part {
    /// What `packet` is; `None` if it is no request.
    pub(crate) fn of(packet: &Packet<'_>) -> Option<Part> {
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let kind = match opcode.operation() {
            Operation::Send => {
                let send = headers.send?;
                let rkey = headers.ieth.map(|ieth| ieth.rkey);
                Kind::Send { serial: send.recv_wqe_sn, offset: send.offset, rkey }
            }
            Operation::Write => {
                let reth = headers.reth?;
                let serial = headers.recv.map(|recv| recv.recv_wqe_sn);
                Kind::Write { addr: reth.va, rkey: reth.rkey, left: reth.dma_len, serial }
            }
            Operation::ReadRequest => Kind::Read { reth: headers.reth?, serial: headers.read?.read_wqe_sn },
            operation @ (Operation::CompareSwap | Operation::FetchAdd) => Kind::Atomic {
                request: headers.atomic?,
                compare: operation == Operation::CompareSwap,
                serial: headers.read?.read_wqe_sn,
            },
            _ => return None,
        };
        Some(Part {
            kind,
            begins: opcode.starts_message(),
            ends: opcode.ends_message(),
            solicited: headers.bth.solicited,
            imm: headers.imm.map(|imm| imm.0),
            len: packet.payload.len() as u32,
        })
    }

    /// Whether a receive is in use for it.
    pub(crate) fn uses_receive(&self) -> bool {
        matches!(self.kind, Kind::Send { .. } | Kind::Write { serial: Some(_), .. })
    }
}

/// Packets that have arrived before their turn.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// The first is the one after the next whose turn it is.
    parts: VecDeque<Option<Part>>,
}

impl Parked {
    /// More places than this are given back as soon as they are empty.
    const KEEP: usize = 256;

    /// Keeps a packet that is `ahead` of the next one, at least 1.
    pub(crate) fn park(&mut self, ahead: usize, part: Part) {
        if self.parts.len() < ahead {
            self.parts.resize(ahead, None);
        }
        self.parts[ahead - 1] = Some(part);
    }

    /// The next one has had its turn: takes the one after it, if it is there.
    pub(crate) fn next(&mut self) -> Option<Part> {
        let next = self.parts.pop_front()?;
        if self.parts.is_empty() && self.parts.capacity() > Parked::KEEP {
            self.parts = VecDeque::new();
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
        /// Packets come out in order, each when all before it have, whatever order they came in.
        #[test]
        fn agrees_with_a_map(arrivals in prop::collection::vec(0u64..40, 1..300)) {
            let (mut parked, mut map, mut turn) = (Parked::default(), BTreeMap::new(), 0);
            for (number, ahead) in arrivals.into_iter().enumerate() {
                let part = Part {
                    kind: Kind::Send { serial: 0, offset: number as u32, rkey: None },
                    begins: true,
                    ends: true,
                    solicited: false,
                    imm: None,
                    len: 0,
                };
                if ahead > 0 {
                    parked.park(ahead as usize, part);
                    map.insert(turn + ahead, number as u32);
                    continue;
                }
                turn += 1;
                while let Some(next) = parked.next() {
                    let Kind::Send { offset, .. } = next.kind else { unreachable!() };
                    prop_assert_eq!(Some(offset), map.remove(&turn));
                    turn += 1;
                }
                prop_assert_eq!(map.get(&turn), None);
            }
        }
    }
}
