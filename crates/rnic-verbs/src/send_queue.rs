//! The send queue: work requests in order, and the packets that they become.

use crate::memory::Memory;
use crate::queue::Sges;
use crate::types::{AccessError, Pd, SendFlags, SendOp, Service};
use rnic_transport::Psn;
use rnic_wire::{
    AtomicEth, Bth, Extra, Headers, ICRC_LEN, Ieth, ImmDt, Opcode, Operation, Position, ReadEth, RecvEth, Reth,
    SendEth, pad_count,
};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The local bytes of a work request.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    Gather(Sges),
    Inline(SmallVec<[u8; 64]>),
}

/// A posted send.
#[derive(Clone, Debug)]
pub(crate) struct Wqe {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) local: Local,
    pub(crate) len: u32,
    pub(crate) flags: SendFlags,
    /// Its first packet, counted from the first of the queue pair.
    pub(crate) first: u64,
    /// Sequence numbers that it takes.
    pub(crate) packets: u32,
    /// Packets of the answer that it waits for, and how many have come.
    pub(crate) answers: u32,
    pub(crate) answered: u32,
    /// Its first answer, counted from the first of the queue pair; of a send without answers, that of the next with any.
    pub(crate) answer: u64,
    /// Number of the receive that it takes, or of the read or atomic that it is.
    pub(crate) serial: u32,
}

impl Wqe {
    /// A send that is not released.
    pub(crate) fn new(wr_id: u64, op: SendOp, local: Local, len: u32, flags: SendFlags) -> Wqe {
        Wqe { wr_id, op, local, len, flags, first: 0, packets: 0, answers: 0, answered: 0, answer: 0, serial: 0 }
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }

    fn answer_end(&self) -> u64 {
        self.answer + u64::from(self.answers)
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered == self.answers
    }
}

/// Packets of a message of `len` bytes.
pub(crate) fn packets(len: u32, mtu: u32) -> u32 {
    len.div_ceil(mtu).max(1)
}

/// Sends that are not completed, in order. The first of them are *released*: their sequence numbers are assigned, and the flow may
/// send them.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    wqes: VecDeque<Wqe>,
    released: usize,
    /// Reads and atomics that are released and not completed.
    fetching: u32,
    next_packet: u64,
    next_answer: u64,
    next_receive: u32,
    next_fetch: u32,
    /// Messages released.
    messages: u32,
    /// Where the last search for a packet ended.
    near_packet: usize,
    /// Where the last search for an answer ended.
    near_answer: usize,
}

impl SendQueue {
    pub(crate) fn len(&self) -> usize {
        self.wqes.len()
    }

    pub(crate) fn push(&mut self, wqe: Wqe) {
        self.wqes.push_back(wqe);
    }

    /// The oldest send.
    pub(crate) fn front(&self) -> Option<&Wqe> {
        self.wqes.front()
    }

    /// The next send to release.
    pub(crate) fn waiting(&self) -> Option<&Wqe> {
        self.wqes.get(self.released)
    }

    pub(crate) fn released(&self) -> usize {
        self.released
    }

    pub(crate) fn fetching(&self) -> u32 {
        self.fetching
    }

    /// One past the last packet that is released.
    pub(crate) fn next_packet(&self) -> u64 {
        self.next_packet
    }

    /// Whether the next message goes beyond the peer's credits, the last of which is for message `limit`. Without credits one message
    /// may go out if nothing else is outstanding.
    pub(crate) fn lacks_credits(&self, limit: Option<u32>) -> bool {
        let beyond = |limit| Psn::new(self.messages.wrapping_add(1)).distance_from(Psn::new(limit)) > 0;
        self.released > 0 && limit.is_some_and(beyond)
    }

    /// Assigns sequence numbers to the next send and returns how many packets it is.
    pub(crate) fn release(&mut self, service: Service, mtu: u32) -> u32 {
        let Some(wqe) = self.wqes.get_mut(self.released) else { return 0 };
        let fetching = wqe.op.is_fetching();
        wqe.answers = match wqe.op {
            SendOp::Read { .. } => packets(wqe.len, mtu),
            op => u32::from(op.is_atomic()),
        };
        wqe.packets = match (service, fetching) {
            (Service::Irn, true) => 1,
            (_, true) => wqe.answers,
            _ => packets(wqe.len, mtu),
        };
        wqe.first = self.next_packet;
        self.next_packet = wqe.end();
        wqe.answer = self.next_answer;
        self.next_answer = wqe.answer_end();
        if fetching {
            wqe.serial = self.next_fetch;
            self.next_fetch = self.next_fetch.wrapping_add(1);
            self.fetching += 1;
        } else if wqe.op.takes_receive() {
            wqe.serial = self.next_receive;
            self.next_receive = self.next_receive.wrapping_add(1);
        }
        self.released += 1;
        self.messages = self.messages.wrapping_add(1);
        wqe.packets
    }

    /// Takes back the release of the sends that have not begun: those from packet `sent` on.
    pub(crate) fn hold(&mut self, sent: u64) {
        while let Some(wqe) = self.released.checked_sub(1).and_then(|last| self.wqes.get(last)) {
            if wqe.first < sent {
                break;
            }
            self.next_packet = wqe.first;
            self.next_answer = wqe.answer;
            if wqe.op.is_fetching() {
                self.next_fetch = wqe.serial;
                self.fetching -= 1;
            } else if wqe.op.takes_receive() {
                self.next_receive = wqe.serial;
            }
            self.released -= 1;
            self.messages = self.messages.wrapping_sub(1);
        }
    }

    /// The send that packet `packet` belongs to.
    pub(crate) fn find(&mut self, packet: u64) -> Option<&mut Wqe> {
        let at = self.search(self.near_packet, |wqe| wqe.end() <= packet);
        self.near_packet = at;
        self.wqes.get_mut(at).filter(|wqe| at < self.released && (wqe.first..wqe.end()).contains(&packet))
    }

    /// The read or atomic that answer `answer` belongs to.
    pub(crate) fn find_answer(&mut self, answer: u64) -> Option<&mut Wqe> {
        let at = self.search(self.near_answer, |wqe| wqe.answer_end() <= answer);
        self.near_answer = at;
        self.wqes.get_mut(at).filter(|wqe| at < self.released && (wqe.answer..wqe.answer_end()).contains(&answer))
    }

    /// The first released send that is not `before`; looks at `near` and the next first.
    fn search(&self, near: usize, before: impl Fn(&Wqe) -> bool) -> usize {
        let is_before = |at: usize| self.wqes.get(at).is_some_and(&before);
        for at in near..self.released.min(near + 2) {
            if !is_before(at) && (at == 0 || is_before(at - 1)) {
                return at;
            }
        }
        let (mut low, mut high) = (0, self.released);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The oldest read or atomic that lacks an answer. For it to be found at once, nothing but this may look for answers.
    pub(crate) fn unanswered(&mut self) -> Option<&mut Wqe> {
        if self.fetching == 0 {
            return None;
        }
        while self.near_answer < self.released && self.wqes.get(self.near_answer).is_some_and(Wqe::is_answered) {
            self.near_answer += 1;
        }
        if self.near_answer < self.released { self.wqes.get_mut(self.near_answer) } else { None }
    }

    /// Takes the oldest send if it is done, given that `acked` packets are acknowledged.
    pub(crate) fn pop_done(&mut self, acked: u64) -> Option<Wqe> {
        let front = self.wqes.front()?;
        if self.released == 0 || front.end() > acked || !front.is_answered() {
            return None;
        }
        self.pop()
    }

    /// Takes the oldest send.
    pub(crate) fn pop(&mut self) -> Option<Wqe> {
        let wqe = self.wqes.pop_front()?;
        if self.released > 0 {
            self.released -= 1;
            self.fetching -= u32::from(wqe.op.is_fetching());
        }
        self.near_packet = self.near_packet.saturating_sub(1);
        self.near_answer = self.near_answer.saturating_sub(1);
        Some(wqe)
    }
}

/// What every packet of a queue pair needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) service: Service,
    pub(crate) peer_qpn: u32,
    pub(crate) mtu: u32,
}

impl Route {
    const fn wire(&self) -> rnic_wire::Service {
        match self.service {
            Service::Rc => rnic_wire::Service::Rc,
            Service::Irn => rnic_wire::Service::Irn,
            Service::Uc => rnic_wire::Service::Uc,
        }
    }

    /// The headers of a packet; services have all operations that queue pairs ask for.
    pub(crate) fn headers(&self, operation: Operation, position: Position, extra: Extra, psn: u32) -> Headers {
        let opcode = Opcode::new(self.wire(), operation, position, extra).unwrap_or(Opcode::CNP);
        debug_assert!(opcode != Opcode::CNP, "{operation:?} {position:?} {extra:?} of {:?}", self.service);
        Headers::new(Bth::new(opcode, self.peer_qpn, psn))
    }

    /// Packet `index` of a send: its headers, and which of its bytes it carries.
    pub(crate) fn request(&self, wqe: &Wqe, index: u32, psn: u32) -> (Headers, u32, u32) {
        let irn = self.service == Service::Irn;
        let done = index * self.mtu;
        let read = irn.then_some(ReadEth { read_wqe_sn: wqe.serial });
        let atomic = |operation, va, rkey, swap_add, compare| {
            let headers = self.headers(operation, Position::Only, Extra::None, psn);
            let atomic = Some(AtomicEth { va, rkey, swap_add, compare });
            (Headers { atomic, read, ..headers }, 0, 0)
        };
        let (operation, extra, target) = match wqe.op {
            SendOp::FetchAdd { addr, rkey, add } => return atomic(Operation::FetchAdd, addr, rkey, add, 0),
            SendOp::CompareSwap { addr, rkey, compare, swap } => {
                return atomic(Operation::CompareSwap, addr, rkey, swap, compare);
            }
            SendOp::Read { addr, rkey } => {
                let headers = self.headers(Operation::ReadRequest, Position::Only, Extra::None, psn);
                let reth = Reth { va: addr.wrapping_add(u64::from(done)), rkey, dma_len: wqe.len - done };
                return (Headers { reth: Some(reth), read, ..headers }, 0, 0);
            }
            SendOp::Send => (Operation::Send, Extra::None, None),
            SendOp::SendImm(_) => (Operation::Send, Extra::Immediate, None),
            SendOp::SendInv(_) => (Operation::Send, Extra::Invalidate, None),
            SendOp::Write { addr, rkey } => (Operation::Write, Extra::None, Some((addr, rkey))),
            SendOp::WriteImm { addr, rkey, .. } => (Operation::Write, Extra::Immediate, Some((addr, rkey))),
        };
        let (position, len) = place(wqe.len, index, self.mtu);
        let ends = matches!(position, Position::Last | Position::Only);
        let starts = matches!(position, Position::First | Position::Only);
        let mut headers = self.headers(operation, position, if ends { extra } else { Extra::None }, psn);
        headers.bth.solicited = ends && wqe.flags.solicited;
        match target {
            Some((addr, rkey)) if irn || starts => {
                let va = addr.wrapping_add(u64::from(done));
                headers.reth = Some(Reth { va, rkey, dma_len: wqe.len - done });
            }
            None if irn => headers.send = Some(SendEth { recv_wqe_sn: wqe.serial, offset: done }),
            _ => {}
        }
        if ends {
            match wqe.op {
                SendOp::SendImm(imm) => headers.imm = Some(ImmDt(imm)),
                SendOp::WriteImm { imm, .. } => {
                    headers.imm = Some(ImmDt(imm));
                    headers.recv = irn.then_some(RecvEth { recv_wqe_sn: wqe.serial });
                }
                SendOp::SendInv(rkey) => headers.ieth = Some(Ieth { rkey }),
                _ => {}
            }
        }
        (headers, done, len)
    }
}

/// Position and payload length of packet `index` of a message of `len` bytes.
pub(crate) fn place(len: u32, index: u32, mtu: u32) -> (Position, u32) {
    let done = index * mtu;
    let here = (len - done).min(mtu);
    let last = done + here == len;
    let position = match (index == 0, last) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    (position, here)
}

/// Writes a packet with `len` bytes of payload, which `fill` provides, and room for its ICRC; returns its length.
pub(crate) fn write(
    headers: &Headers, len: u32, out: &mut [u8], fill: impl FnOnce(&mut [u8]) -> Result<(), AccessError>,
) -> Result<usize, AccessError> {
    let mut headers = *headers;
    let pad = pad_count(len as usize);
    headers.bth.pad = pad as u8;
    let start = headers.emit(out);
    let end = start + len as usize;
    fill(&mut out[start..end])?;
    out[end..end + pad + ICRC_LEN].fill(0);
    Ok(end + pad + ICRC_LEN)
}

impl Local {
    /// Copies bytes from `offset` on into a packet.
    pub(crate) fn gather(&self, memory: &Memory, pd: Pd, offset: u32, out: &mut [u8]) -> Result<(), AccessError> {
        match self {
            Local::Inline(bytes) => {
                out.copy_from_slice(&bytes[offset as usize..offset as usize + out.len()]);
                Ok(())
            }
            Local::Gather(sges) => memory.gather(pd, sges, offset, out),
        }
    }

    /// Copies the answer's bytes to where they belong.
    pub(crate) fn scatter(&self, memory: &mut Memory, pd: Pd, offset: u32, data: &[u8]) -> Result<(), AccessError> {
        match self {
            Local::Inline(_) => Err(AccessError::Rights),
            Local::Gather(sges) => memory.scatter(pd, sges, offset, data),
        }
    }
}
