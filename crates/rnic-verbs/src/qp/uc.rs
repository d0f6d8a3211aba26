//! The unreliable connection (InfiniBand volume 1, section 9.8): Sends and Writes without acknowledgements. A message of which a
//! packet is lost is dropped whole.

use super::sending::Due;
use crate::common::{Common, Ctx};
use crate::flow::Pace;
use crate::memory::Want;
use crate::send_queue::write;
use crate::types::{Opcode, State, Status, VerbsError};
use crate::{Congestion, Dropped};
use rnic_transport::{FlowConfig, Notifier, Psn, Time};
use rnic_wire::{Operation, Packet};

/// A message of the peer that has begun.
#[derive(Clone, Copy, Debug)]
enum Incoming {
    /// Nothing, or what is left of a message that is lost.
    None,
    Send {
        done: u32,
    },
    Write {
        addr: u64,
        rkey: u32,
        done: u32,
        left: u32,
    },
}

/// State of an unreliable connection.
pub(crate) struct Uc {
    first: Psn,
    /// Packets sent, and to be sent.
    next: u64,
    total: u64,
    pace: Box<dyn Pace>,
    expected: Psn,
    incoming: Incoming,
    notifier: Notifier,
    cnp_interval: Option<Time>,
    cnp_due: bool,
}

impl Uc {
    pub(crate) fn new(c: &Common, cfg: &FlowConfig, congestion: &Congestion, now: Time) -> Result<Uc, VerbsError> {
        let connection = c.connection.ok_or(VerbsError::Unknown("connection"))?;
        Ok(Uc {
            first: Psn::new(c.attributes.send_psn),
            next: 0,
            total: 0,
            pace: congestion.pace(cfg, now).map_err(VerbsError::Congestion)?,
            expected: Psn::new(connection.recv_psn),
            incoming: Incoming::None,
            notifier: Notifier::new(),
            cnp_interval: cfg.cnp_interval,
            cnp_due: false,
        })
    }

    pub(crate) fn start(&mut self, c: &Common) {
        self.first = Psn::new(c.attributes.send_psn);
    }

    pub(crate) fn release(&mut self, c: &mut Common) {
        while c.state == State::ReadyToSend && c.sends.waiting().is_some() {
            self.total += u64::from(c.sends.release(c.init.service, c.route.mtu));
        }
    }

    pub(crate) fn handle(
        &mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, packet: &Packet<'_>, marked: bool,
    ) -> Result<(), Dropped> {
        let operation = packet.headers.bth.opcode.operation();
        if operation == Operation::Cnp {
            ctx.counters.cnps_received += 1;
            self.pace.on_cnp(now);
            return Ok(());
        }
        if let Some(interval) = self.cnp_interval {
            self.cnp_due |= self.notifier.on_packet(interval, now, marked);
        }
        let psn = Psn::new(packet.headers.bth.psn);
        let opcode = packet.headers.bth.opcode;
        let begins = super::begins(opcode.position());
        if psn.is_before(self.expected) {
            // Networks of the specification repeat nothing; ours may, and may bring an old packet late.
            return Err(Dropped::Duplicate);
        }
        let in_order = psn == self.expected;
        self.expected = psn.plus(1);
        if !in_order || begins != matches!(self.incoming, Incoming::None) {
            // Something was lost: the message in progress, and this packet if it does not begin another.
            self.incoming = Incoming::None;
            if !begins {
                return Err(Dropped::OutOfOrder);
            }
        }
        let taken = self.take(c, ctx, packet);
        if taken.is_err() {
            self.incoming = Incoming::None;
        }
        taken
    }

    fn take(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, packet: &Packet<'_>) -> Result<(), Dropped> {
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let len = packet.payload.len() as u32;
        let ends = super::ends(opcode.position());
        let imm = headers.imm.map(|imm| imm.0);
        let solicited = headers.bth.solicited;
        match opcode.operation() {
            Operation::Send => {
                let done = match self.incoming {
                    Incoming::None => 0,
                    Incoming::Send { done } => done,
                    Incoming::Write { .. } => return Err(Dropped::Refused),
                };
                let pd = c.pd;
                let receive = c.receive(ctx, 0).ok_or(Dropped::NoReceive)?;
                if u64::from(done) + u64::from(len) > receive.room {
                    c.fail_receive(ctx, Status::LocalLength);
                    return Err(Dropped::Refused);
                }
                if ctx.memory.scatter(pd, &receive.scatter, done, packet.payload).is_err() {
                    c.fail_receive(ctx, Status::LocalProtection);
                    return Err(Dropped::Refused);
                }
                let done = done + len;
                self.incoming = if ends { Incoming::None } else { Incoming::Send { done } };
                if ends {
                    c.received(ctx, Status::Success, Opcode::Recv, done, imm, None, solicited);
                }
            }
            Operation::Write => {
                let (addr, rkey, done, left) = match (self.incoming, headers.reth) {
                    (Incoming::None, Some(reth)) => {
                        let all = u64::from(reth.dma_len);
                        let admitted =
                            all == 0 || ctx.memory.remote(c.pd, reth.rkey, reth.va, all, Want::RemoteWrite).is_ok();
                        if !c.access.remote_write || !admitted {
                            return Err(Dropped::Refused);
                        }
                        (reth.va, reth.rkey, 0, reth.dma_len)
                    }
                    (Incoming::Write { addr, rkey, done, left }, _) => (addr, rkey, done, left),
                    _ => return Err(Dropped::Refused),
                };
                if len > left || ends != (len == left) {
                    return Err(Dropped::Refused);
                }
                if imm.is_some() && c.receive(ctx, 0).is_none() {
                    return Err(Dropped::NoReceive);
                }
                if len > 0 {
                    let span = ctx.memory.remote(c.pd, rkey, addr, u64::from(len), Want::RemoteWrite);
                    ctx.memory.slice_mut(span.map_err(|_| Dropped::Refused)?).copy_from_slice(packet.payload);
                }
                let (done, left) = (done + len, left - len);
                let addr = addr.wrapping_add(u64::from(len));
                self.incoming = if ends { Incoming::None } else { Incoming::Write { addr, rkey, done, left } };
                if ends && imm.is_some() {
                    c.received(ctx, Status::Success, Opcode::RecvWithImmediate, done, imm, None, solicited);
                }
            }
            _ => return Err(Dropped::Opcode),
        }
        Ok(())
    }

    pub(crate) fn emit(&mut self, c: &mut Common, ctx: &mut Ctx<'_>, now: Time, out: &mut [u8]) -> usize {
        if std::mem::take(&mut self.cnp_due) {
            ctx.counters.cnps_sent += 1;
            return super::cnp(c, out);
        }
        if !c.sends_packets() || self.next == self.total || self.pace.not_before() > now {
            return 0;
        }
        let packet = self.next;
        let (route, pd) = (c.route, c.pd);
        let Some(wqe) = c.sends.find(packet) else { return 0 };
        let psn = self.first.plus(packet as u32).value();
        let (headers, offset, len) = route.request(wqe, (packet - wqe.first) as u32, psn);
        match write(&headers, len, out, |payload| wqe.local.gather(ctx.memory, pd, offset, payload)) {
            Ok(bytes) => {
                self.next += 1;
                ctx.counters.sent(false, len);
                self.pace.sent(now, bytes as u32 + super::AROUND_PACKET);
                c.retire(ctx, self.next);
                bytes
            }
            Err(_) => {
                // Receiving goes on.
                if let Some(wqe) = c.sends.pop() {
                    c.sent(ctx, &wqe, Status::LocalProtection);
                }
                c.state = State::SendQueueError;
                c.flush_sends(ctx);
                self.next = self.total;
                0
            }
        }
    }

    pub(crate) fn next_transmit(&self, c: &Common) -> Due {
        let mut due = Due::never();
        if self.cnp_due {
            due.at_once();
        }
        if c.sends_packets() && self.next < self.total {
            due.at(self.pace.not_before());
        }
        due
    }

    pub(crate) fn deadline(&self) -> Due {
        let mut due = Due::never();
        due.maybe(self.pace.deadline());
        due
    }

    pub(crate) fn on_deadline(&mut self, now: Time) {
        self.pace.on_deadline(now);
    }
}
