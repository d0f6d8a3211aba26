//! Writes the request and response packets of queue pairs.

use crate::send_queue::Wqe;
use crate::types::{AccessError, SendOp, Service};
use rnic_transport::Psn;
use rnic_wire::{
    AtomicEth, Bth, Extra, ICRC_LEN, Ieth, ImmDt, Opcode, Operation, Position, ReadEth, RecvEth, Reth, SendEth,
    pad_count,
};

/// Properties of a connection that determine the headers of all its packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) service: Service,
    pub(crate) peer_qpn: u32,
    pub(crate) mtu: u32,
}

/// The PSN of a request packet, and the header fields that can differ between two transmissions of the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxContext {
    pub(crate) psn: Psn,
    /// Whether the packet requests an ACK (BTH bit A).
    pub(crate) ask: bool,
    /// IRN: number of earlier transmissions of the packet.
    pub(crate) attempt: u8,
}

impl TxContext {
    pub(crate) fn apply(&self, bth: Bth) -> Bth {
        Bth { ack_request: self.ask, attempt: self.attempt, ..bth }
    }
}

impl Route {
    const fn wire(&self) -> rnic_wire::Service {
        match self.service {
            Service::Rc => rnic_wire::Service::Rc,
            Service::Irn => rnic_wire::Service::Irn,
            Service::Uc => rnic_wire::Service::Uc,
            Service::Ud => rnic_wire::Service::Ud,
        }
    }

    /// Returns the base transport header (BTH) of a packet to the peer. Callers pass only combinations of arguments for
    /// which the transport service has an opcode.
    pub(crate) fn bth(&self, operation: Operation, position: Position, extra: Extra, psn: u32) -> Bth {
        let opcode = Opcode::new(self.wire(), operation, position, extra).unwrap_or(Opcode::CNP);
        debug_assert!(opcode != Opcode::CNP, "{operation:?} {position:?} {extra:?} of {:?}", self.service);
        Bth::new(opcode, self.peer_qpn, psn)
    }

    /// Returns the base transport header of an operation that is always one packet without payload.
    pub(crate) fn only(&self, operation: Operation, psn: u32) -> Bth {
        self.bth(operation, Position::Only, Extra::None, psn)
    }

    /// Begins packet `index` of the send request `wqe`, and writes its headers into `out`; the caller adds the payload.
    /// Also returns the part of the message that is the payload: offset and length in bytes. For a read or atomic
    /// request both are 0.
    // A call would return the writer through memory, which takes longer to read back than the whole header to write.
    #[inline(always)]
    pub(crate) fn request<'a>(
        &self, wqe: &Wqe, index: u32, tx: TxContext, out: &'a mut [u8],
    ) -> (Writer<'a>, u32, u32) {
        let irn = self.service == Service::Irn;
        let done = index * wqe.payload;
        let fetch = |operation, header: &[u8], out: &'a mut [u8]| {
            let bth = tx.apply(self.only(operation, tx.psn.value()));
            let mut writer = Writer::begin(&bth, 0, out);
            writer.put(header);
            if irn {
                writer.put(&ReadEth { read_wqe_sn: wqe.serial }.emit());
            }
            (writer, 0, 0)
        };
        let (operation, extra, target) = match wqe.op {
            SendOp::FetchAdd { addr: va, rkey, add: swap_add } => {
                return fetch(Operation::FetchAdd, &AtomicEth { va, rkey, swap_add, compare: 0 }.emit(), out);
            }
            SendOp::CompareSwap { addr: va, rkey, compare, swap: swap_add } => {
                return fetch(Operation::CompareSwap, &AtomicEth { va, rkey, swap_add, compare }.emit(), out);
            }
            SendOp::Read { addr, rkey } => {
                let reth = Reth { va: addr.wrapping_add(u64::from(done)), rkey, dma_len: wqe.len - done };
                return fetch(Operation::ReadRequest, &reth.emit(), out);
            }
            // Local operations have no packets.
            SendOp::Send | SendOp::Bind | SendOp::LocalInv(_) => (Operation::Send, Extra::None, None),
            SendOp::SendImm(_) => (Operation::Send, Extra::Immediate, None),
            SendOp::SendInv(_) => (Operation::Send, Extra::Invalidate, None),
            SendOp::Write { addr, rkey } => (Operation::Write, Extra::None, Some((addr, rkey))),
            SendOp::WriteImm { addr, rkey, .. } => (Operation::Write, Extra::Immediate, Some((addr, rkey))),
        };
        let (position, len) = segment(wqe.len, index, wqe.payload);
        let ends = matches!(position, Position::Last | Position::Only);
        let starts = matches!(position, Position::First | Position::Only);
        let mut bth = tx.apply(self.bth(operation, position, if ends { extra } else { Extra::None }, tx.psn.value()));
        // A plain Write generates no completion at the peer, so the bit would have no meaning.
        bth.solicited = ends && wqe.flags.solicited && wqe.op.takes_receive();
        let mut writer = Writer::begin(&bth, len, out);
        match target {
            Some((addr, rkey)) if irn || starts => {
                let va = addr.wrapping_add(u64::from(done));
                writer.put(&Reth { va, rkey, dma_len: wqe.len - done }.emit());
            }
            None if irn => writer.put(&SendEth { recv_wqe_sn: wqe.serial, offset: done }.emit()),
            _ => {}
        }
        if ends {
            match wqe.op {
                SendOp::SendImm(imm) => writer.put(&ImmDt(imm).emit()),
                SendOp::WriteImm { imm, .. } => {
                    writer.put(&ImmDt(imm).emit());
                    if irn {
                        writer.put(&RecvEth { recv_wqe_sn: wqe.serial }.emit());
                    }
                }
                SendOp::SendInv(rkey) => writer.put(&Ieth { rkey }.emit()),
                _ => {}
            }
        }
        (writer, done, len)
    }
}

/// Returns the position (First, Middle, Last or Only) and the payload length of packet `index` of a message of `len`
/// bytes, all packets of which have `payload` bytes except the last. `index * payload` must not exceed `len`.
pub(crate) fn segment(len: u32, index: u32, payload: u32) -> (Position, u32) {
    let done = index * payload;
    let here = (len - done).min(payload);
    let last = done + here == len;
    let position = match (index == 0, last) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    (position, here)
}

/// Writes a packet into a buffer: the base transport header, the extension headers in the order of the specification,
/// and the payload. The bytes of the ICRC are zero; the owner of the device fills them in.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Begins a packet with `len` bytes of payload, and writes its base transport header with the padding count.
    #[inline]
    pub(crate) fn begin(bth: &Bth, len: u32, out: &'a mut [u8]) -> Writer<'a> {
        let bth = Bth { pad: pad_count(len as usize) as u8, ..*bth };
        let mut writer = Writer { out, at: 0 };
        writer.put(&bth.emit());
        writer
    }

    #[inline]
    pub(crate) fn put(&mut self, header: &[u8]) {
        self.out[self.at..self.at + header.len()].copy_from_slice(header);
        self.at += header.len();
    }

    /// Ends a packet without payload; returns its length in bytes, with the four bytes of the ICRC.
    pub(crate) fn end(self) -> usize {
        let end = self.at + ICRC_LEN;
        self.out[self.at..end].fill(0);
        end
    }

    /// Ends a packet with `len` bytes of payload, which `fill` writes; returns its length in bytes, with padding and
    /// ICRC.
    #[inline]
    pub(crate) fn end_with(
        self, len: u32, fill: impl FnOnce(&mut [u8]) -> Result<(), AccessError>,
    ) -> Result<usize, AccessError> {
        let end = self.at + len as usize;
        fill(&mut self.out[self.at..end])?;
        let rest = pad_count(len as usize) + ICRC_LEN;
        self.out[end..end + rest].fill(0);
        Ok(end + rest)
    }
}
