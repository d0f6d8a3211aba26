//! Posts parts to the primary.

use super::Channel;
use super::counted::{self, PARTS};
use super::queue::Part;
use crate::error::{Failure, HostError};
use rnic_transport::Time;
use rnic_verbs::{SendFlags, SendOp, SendRequest, Status, Verbs, VerbsError};

impl Channel {
    /// Posts parts while congestion control and the send queue allow it.
    pub(super) fn pump(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        let (chunk, is_counted) = (u64::from(self.config.chunk), self.counted.is_some());
        self.next_read = None;
        while let Some(mut part) = self.queue.next(chunk, is_counted) {
            if is_counted && self.queue.oldest().1 >= PARTS as usize {
                break;
            }
            let Some(pacing) = &mut self.pacing else { break };
            if let Err(until) = pacing.admits(&part, now) {
                self.next_read = until;
                break;
            }
            let Some(request) = self.queue.request(&part) else { break };
            let asked = part.is_last && request.flags.signaled;
            let many = self.unsignaled.1 + 1 >= self.config.send_wr / 2;
            let signaled = asked || many || self.unsignaled.0 + part.len >= chunk;
            let flags = SendFlags {
                signaled,
                solicited: part.is_last && request.flags.solicited,
                fence: part.offset == 0 && request.flags.fence,
            };
            (part.number, part.asks) = (self.next_part, signaled);
            let op = if is_counted { counted::part_op(request.op, &part, signaled) } else { Some(request.op) };
            let Some(op) = op.map(|op| if is_counted { op } else { part_op(op, &part) }) else { break };
            let (wr_id, slot) = (part.number, self.epoch as usize % 2);
            let qpn = self.qpns[slot];
            let posted = request
                .local
                .with_slice(part.offset, part.len, |data| nic.post_send(qpn, &SendRequest { wr_id, op, data, flags }));
            match posted {
                Ok(()) => {}
                Err(VerbsError::Full(_)) => break,
                Err(VerbsError::Memory { .. } | VerbsError::Access(_)) => {
                    return self.end(nic, now, Status::LocalProtection, Failure::Refused);
                }
                Err(_) => return self.end(nic, now, Status::LocalQpOperation, Failure::Refused),
            }
            self.next_part += 1;
            self.unsignaled = if signaled { (0, 0) } else { (self.unsignaled.0 + part.len, self.unsignaled.1 + 1) };
            self.counters.parts += 1;
            self.counters.signaled += u64::from(signaled);
            pacing.posted(&mut part, &op, now);
            if let Some(counted) = &mut self.counted {
                counted.sent(slot, part.packets);
            }
            self.queue.posted(part);
        }
        Ok(())
    }
}

/// The operation of a part: a slice of the request's operation.
fn part_op(op: SendOp, part: &Part) -> SendOp {
    match op {
        SendOp::Write { addr, rkey } | SendOp::WriteImm { addr, rkey, .. } if !part.is_last => {
            SendOp::Write { addr: addr + part.offset, rkey }
        }
        SendOp::Write { addr, rkey } => SendOp::Write { addr: addr + part.offset, rkey },
        SendOp::WriteImm { addr, rkey, imm } => SendOp::WriteImm { addr: addr + part.offset, rkey, imm },
        SendOp::Read { addr, rkey } => SendOp::Read { addr: addr + part.offset, rkey },
        other => other,
    }
}
