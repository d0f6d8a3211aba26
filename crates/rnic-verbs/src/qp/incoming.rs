//! Processing of the packets of Sends and Writes that arrive in order, which the responders of RC and UC share.
//!
//! Each packet is checked as in InfiniBand volume 1, section 9.7.4.1: the sequence of opcodes, whether the queue pair
//! allows the operation, lengths, whether a receive is posted, and the rights to the memory. All checks of a packet
//! precede the write of its payload to memory.

use crate::common::{Common, Ctx, Delivery, MAX_MESSAGE, Refusal};
use crate::memory::Right;
use rnic_wire::{Operation, Packet};

/// A message of the peer of which some packets have arrived. `done` is the number of its bytes received so far. For a
/// Write, `addr` is the address at which the next packet's payload goes, and `left` is the number of bytes to come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Incoming {
    Send { done: u32 },
    Write { addr: u64, rkey: u32, done: u32, left: u32 },
}

impl Incoming {
    /// Processes a packet of a Send or Write that arrived in order, and updates `incoming`, the message in progress.
    /// Returns whether the packet ends its message.
    pub(crate) fn take(
        incoming: &mut Option<Incoming>, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>,
    ) -> Result<bool, Refusal> {
        match packet.headers.bth.opcode.operation() {
            Operation::Send => Incoming::take_send(incoming, c, ctx, packet),
            Operation::Write => Incoming::take_write(incoming, c, ctx, packet),
            _ => Err(Refusal::INVALID),
        }
    }

    fn take_send(
        incoming: &mut Option<Incoming>, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>,
    ) -> Result<bool, Refusal> {
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let len = packet.payload.len() as u32;
        let done = match (*incoming, opcode.starts_message()) {
            (None, true) => 0,
            (Some(Incoming::Send { done }), false) => done,
            _ => return Err(Refusal::INVALID),
        };
        let at = c.at();
        let receive = c.receive(ctx, 0, false).ok_or(Refusal::NotReady)?;
        let bytes = u64::from(done) + u64::from(len);
        if bytes > receive.room.min(u64::from(MAX_MESSAGE)) {
            return Err(Refusal::TOO_LONG);
        }
        let invalidated = headers.ieth.map(|ieth| ieth.rkey);
        if let Some(rkey) = invalidated {
            ctx.memory.may_invalidate(at, rkey).map_err(|_| Refusal::ACCESS)?;
        }
        ctx.memory.scatter(&receive.scatter, done, packet.payload).map_err(|_| Refusal::RECEIVE)?;
        let bytes = bytes as u32;
        if !opcode.ends_message() {
            *incoming = Some(Incoming::Send { done: bytes });
            return Ok(false);
        }
        if let Some(rkey) = invalidated {
            ctx.memory.invalidate(at, rkey).map_err(|_| Refusal::ACCESS)?;
        }
        *incoming = None;
        let imm = headers.imm.map(|imm| imm.0);
        let solicited = headers.bth.solicited;
        c.received(ctx, &Delivery { bytes, imm, invalidated, solicited, ..Delivery::default() });
        Ok(true)
    }

    fn take_write(
        incoming: &mut Option<Incoming>, c: &mut Common, ctx: &mut Ctx, packet: &Packet<'_>,
    ) -> Result<bool, Refusal> {
        let headers = &packet.headers;
        let opcode = headers.bth.opcode;
        let len = packet.payload.len() as u32;
        let ends = opcode.ends_message();
        let (addr, rkey, done, left) = match (*incoming, headers.reth) {
            (None, Some(reth)) => (reth.va, reth.rkey, 0, reth.dma_len),
            (Some(Incoming::Write { addr, rkey, done, left }), None) => (addr, rkey, done, left),
            _ => return Err(Refusal::INVALID),
        };
        if !c.access.remote_write {
            return Err(Refusal::INVALID);
        }
        if left > MAX_MESSAGE || len > left || ends != (len == left) {
            return Err(Refusal::INVALID);
        }
        let imm = headers.imm.map(|imm| imm.0);
        if imm.is_some() && c.receive(ctx, 0, false).is_none() {
            return Err(Refusal::NotReady);
        }
        if left > 0 {
            // The check covers the rest of the message, so that no byte is written of a message that exceeds the
            // region.
            let refusal = if imm.is_some() { Refusal::ACCESS_WITH_RECEIVE } else { Refusal::ACCESS };
            let span = ctx.memory.remote(c.at(), rkey, addr, left, Right::Write);
            span.and_then(|span| ctx.memory.write(span, packet.payload)).map_err(|_| refusal)?;
        }
        let bytes = done + len;
        if !ends {
            *incoming =
                Some(Incoming::Write { addr: addr.wrapping_add(u64::from(len)), rkey, done: bytes, left: left - len });
            return Ok(false);
        }
        *incoming = None;
        if imm.is_some() {
            let solicited = headers.bth.solicited;
            c.received(ctx, &Delivery { write: true, bytes, imm, solicited, ..Delivery::default() });
        }
        Ok(true)
    }
}
