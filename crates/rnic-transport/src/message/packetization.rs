//! Packetization: messages being sent, and which of their packets may leave.
//!
//! The document's state of a message: `deliveredBitmap`, `credit`, `toBtx`, `maxTxPktOffset`, `timeoutCnt`, and its three events. `toBtx`
//! begins with every bit set, and the lowest one below the credit leaves first. So it is kept in two parts: packets to be sent again
//! (`rtx`), all of which were sent before, and those never sent, which are all packets from `sent` on.

use super::bits::{Bits, runs};
use super::buffers::{Buffer, Buffers, NoBuffer};
use super::nic::{Message, NicConfig, Order};
use super::slots::{Directory, Slots};
use super::timers::Timers;
use super::{CreditToBtxEvent, DeliveredEvent, Departure, flags, slot};
use crate::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A message being sent, or the place for one.
#[derive(Clone, Debug, Default)]
struct TxMessage {
    message: Message,
    /// Its number: slot and generation. Old events name another one.
    tx_msg_id: u32,
    /// There is a message here.
    live: bool,
    buffer: Buffer,
    /// Its packets.
    packets: u32,
    /// Packets before this one may be sent.
    credit: u32,
    /// Packets before this one have been sent: `maxTxPktOffset` + 1.
    sent: u32,
    /// Packets before this one have arrived.
    delivered_to: u32,
    delivered: Bits,
    /// Packets to be sent again.
    rtx: Bits,
    /// The last packet sent is to be sent again, whether it has arrived or not.
    probe: bool,
    /// `sent` when the timer was set, but at least 1: what the timeout is about.
    timed: u32,
    /// Timeouts in a row without a word of the receiver.
    timeouts: u32,
    /// There was an event from the receiver since the timer was set.
    heard: bool,
    /// A packet has left since the timer was set.
    left: bool,
    /// It is among those that may send.
    listed: bool,
}

impl TxMessage {
    #[inline]
    fn may_send(&self) -> bool {
        self.live && (self.rtx.count() > 0 || self.sent < self.credit || self.probe)
    }

    /// The next packet: the lowest bit of `toBtx` below the credit; else the probe.
    #[inline]
    fn next_packet(&mut self) -> Option<u32> {
        if let Some(again) = self.rtx.lowest() {
            self.rtx.clear(again);
            return Some(again);
        }
        if self.sent < self.credit {
            self.sent += 1;
            return Some(self.sent - 1);
        }
        std::mem::take(&mut self.probe).then(|| self.sent - 1)
    }

    /// Algorithm 1 for the packets of one word.
    #[inline]
    fn deliver(&mut self, word: u32, mask: u64) {
        self.delivered.set_mask(word, mask);
        self.rtx.clear_mask(word, mask);
    }

    /// Algorithm 3: what was sent when the timer was set and has not arrived is to be sent again.
    fn send_again(&mut self) {
        for (word, mask) in runs(self.delivered_to, self.timed.min(self.sent)) {
            self.rtx.set_mask(word, mask & !self.delivered.word(word));
        }
    }
}

/// Messages that may send, by number: one that has been freed is found out by that.
#[derive(Clone, Debug, Default)]
struct Ready {
    ring: VecDeque<u32>,
    /// Packets never sent, slot, number.
    shortest: BinaryHeap<Reverse<(u32, usize, u32)>>,
}

impl Ready {
    #[inline]
    fn push(&mut self, order: Order, left: u32, tx_msg_id: u32) {
        match order {
            Order::RoundRobin => self.ring.push_back(tx_msg_id),
            Order::ShortestFirst => self.shortest.push(Reverse((left, slot(tx_msg_id), tx_msg_id))),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.ring.pop_front().or_else(|| self.shortest.pop().map(|Reverse((_, _, tx_msg_id))| tx_msg_id))
    }

    fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.shortest.is_empty()
    }
}

/// What a timeout led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timeout {
    /// Nothing, or packets to be sent again.
    Goes,
    /// The last packet is sent again to get an answer.
    Probes,
    /// The message with this tag was given up.
    GaveUp(u32),
}

/// Messages being sent.
#[derive(Clone, Debug)]
pub(super) struct Packetization {
    messages: Vec<TxMessage>,
    slots: Slots,
    /// Generation of the latest message of each slot.
    generations: Vec<u16>,
    /// (receiver, slot) to its number in `latest`.
    receivers: Directory,
    /// Generation of the latest message that a receiver was sent in a slot.
    latest: Vec<u16>,
    buffers: Buffers,
    timers: Timers,
    ready: Ready,
}

/// The generation of a slot's next message: the one after `previous`, unless a receiver that has heard of `known` last would
/// take that for an old one. Then it is one that the receiver takes for new and that the slot has not used for its last 2^14 messages.
fn next_generation(previous: u16, known: Option<u16>) -> u16 {
    let next = previous.wrapping_add(1);
    match known {
        Some(known) if !is_newer(next, known) => known.wrapping_add(1 << 14),
        _ => next,
    }
}

/// Whether generation `a` comes after `b`: up to 2^15 - 1 steps count as after.
#[inline]
pub(super) fn is_newer(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) > 0
}

impl Packetization {
    pub(super) fn new(cfg: &NicConfig) -> Packetization {
        Packetization {
            messages: Vec::new(),
            slots: Slots::default(),
            generations: Vec::new(),
            receivers: Directory::default(),
            latest: Vec::new(),
            buffers: Buffers::new(&cfg.tx_buffers),
            timers: Timers::default(),
            ready: Ready::default(),
        }
    }

    /// A message to send; returns its number.
    pub(super) fn send(&mut self, cfg: &NicConfig, now: Time, message: &Message) -> Result<u32, NoBuffer> {
        let buffer = self.buffers.allocate(message.bytes)?;
        let Some(slot) = self.slots.allocate() else {
            self.buffers.release(buffer);
            return Err(NoBuffer::NoneFree { bytes: message.bytes });
        };
        let place = usize::from(slot);
        if place == self.messages.len() {
            self.messages.push(TxMessage::default());
            self.generations.push(0);
        }
        let generation = self.generation(message.dst_ip, slot);
        let tx_msg_id = u32::from(generation) << 16 | u32::from(slot);
        let packets = message.bytes.div_ceil(cfg.mtu).max(1);
        let state = &mut self.messages[place];
        let (mut delivered, mut rtx) = (std::mem::take(&mut state.delivered), std::mem::take(&mut state.rtx));
        delivered.reset(packets);
        rtx.reset(packets);
        let credit = cfg.rtt_pkts.clamp(1, packets);
        *state = TxMessage {
            message: *message,
            tx_msg_id,
            live: true,
            buffer,
            packets,
            credit,
            delivered,
            rtx,
            timed: 1,
            ..TxMessage::default()
        };
        self.timers.set(slot, now.saturating_add(cfg.timeout), cfg.timer_scan);
        self.list(cfg.order, place);
        Ok(tx_msg_id)
    }

    fn generation(&mut self, dst_ip: u32, slot: u16) -> u16 {
        let (number, is_new) = self.receivers.number(dst_ip, slot);
        if is_new {
            self.latest.push(0);
        }
        let previous = &mut self.generations[usize::from(slot)];
        let generation = next_generation(*previous, (!is_new).then_some(self.latest[number]));
        *previous = previous.wrapping_add(1);
        self.latest[number] = generation;
        generation
    }

    /// The place of a message that is still being sent.
    #[inline]
    fn find(&self, tx_msg_id: u32) -> Option<usize> {
        let place = slot(tx_msg_id);
        self.messages.get(place).filter(|state| state.live && state.tx_msg_id == tx_msg_id).map(|_| place)
    }

    /// Puts the message among those that may send, if it may and is not there.
    #[inline]
    fn list(&mut self, order: Order, place: usize) {
        let state = &mut self.messages[place];
        if state.may_send() && !state.listed {
            state.listed = true;
            self.ready.push(order, state.packets - state.sent, state.tx_msg_id);
        }
    }

    /// Frees the slot, the buffer and the timer of a message; returns its tag.
    fn free(&mut self, place: usize) -> u32 {
        let state = &mut self.messages[place];
        state.live = false;
        self.timers.cancel(place as u16);
        self.buffers.release(state.buffer);
        self.slots.release(place as u16);
        state.message.tag
    }

    /// `DeliveredEvent` (algorithm 1); returns the message's tag if now all of it has arrived. A packet that was never sent cannot have
    /// arrived, whatever the event says.
    #[inline]
    pub(super) fn delivered(&mut self, event: &DeliveredEvent) -> Option<u32> {
        let place = self.find(event.tx_msg_id)?;
        let state = &mut self.messages[place];
        state.heard = true;
        let before = event.before.min(state.sent);
        for (word, mask) in runs(state.delivered_to, before) {
            state.deliver(word, mask);
        }
        if event.bitmap != 0 && event.pkt_offset < state.sent {
            let left = state.sent - event.pkt_offset;
            let bitmap = if left < 64 { event.bitmap & ((1 << left) - 1) } else { event.bitmap };
            let (word, shift) = (event.pkt_offset >> 6, event.pkt_offset & 63);
            state.deliver(word, bitmap << shift);
            let high = bitmap.checked_shr(64 - shift).unwrap_or(0);
            if high != 0 {
                state.deliver(word + 1, high);
            }
        }
        state.delivered_to = state.delivered.first_clear(state.delivered_to, state.packets);
        (state.delivered.count() == state.packets).then(|| self.free(place))
    }

    /// `CreditToBtxEvent` (algorithm 2).
    #[inline]
    pub(super) fn credit_to_btx(&mut self, event: &CreditToBtxEvent, order: Order) {
        let Some(place) = self.find(event.tx_msg_id) else { return };
        let state = &mut self.messages[place];
        state.heard = true;
        if let Some(again) = event.rtx
            && again < state.sent
            && !state.delivered.get(again)
        {
            state.rtx.set(again);
        }
        state.credit = state.credit.max(event.credit.unwrap_or(0).min(state.packets));
        self.list(order, place);
    }

    /// The next data packet.
    pub(super) fn poll(&mut self, cfg: &NicConfig, now: Time) -> Option<(Departure, u32)> {
        loop {
            let tx_msg_id = self.ready.pop()?;
            let Some(place) = self.find(tx_msg_id) else { continue };
            let state = &mut self.messages[place];
            state.listed = false;
            let before = state.sent;
            // There is none if what it had to send has become unnecessary.
            let Some(offset) = state.next_packet() else { continue };
            state.left = true;
            let message = &state.message;
            let departure = Departure {
                now,
                dst_ip: message.dst_ip,
                dst_context: message.dst_context,
                src_context: message.src_context,
                tx_msg_id: state.tx_msg_id,
                msg_len: message.bytes,
                pkt_offset: offset,
                credit: state.credit,
                rank: 0,
                flags: flags::DATA,
                is_new_msg: before == 0,
                is_rtx: offset < before,
                payload: (message.bytes - offset * cfg.mtu).min(cfg.mtu),
            };
            let tag = message.tag;
            self.list(cfg.order, place);
            return Some((departure, tag));
        }
    }

    /// Whether a packet may be waiting.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next timer expires, or earlier.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// `TimeoutEvent` (algorithm 3) of the next message whose timer has expired by `now`.
    pub(super) fn timeout(&mut self, cfg: &NicConfig, now: Time) -> Option<Timeout> {
        let slot = self.timers.expired(now)?;
        let place = usize::from(slot);
        let state = &mut self.messages[place];
        if state.heard || state.sent > state.timed {
            state.timeouts = 0;
        } else if state.left || !state.may_send() {
            // Silence says nothing of the receiver while all that there is to send waits in this very NIC.
            state.timeouts += 1;
            if state.timeouts >= cfg.most_timeouts {
                return Some(Timeout::GaveUp(self.free(place)));
            }
        }
        state.send_again();
        let stuck = cfg.probe && !state.heard && !state.may_send();
        state.probe |= stuck;
        (state.heard, state.left, state.timed) = (false, false, state.sent.max(1));
        self.timers.set(slot, now.saturating_add(cfg.timeout), cfg.timer_scan);
        self.list(cfg.order, place);
        Some(if stuck { Timeout::Probes } else { Timeout::Goes })
    }

    /// Messages being sent.
    pub(super) fn active(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether every buffer is free.
    pub(super) fn all_free(&self) -> bool {
        self.buffers.all_free() && self.slots.in_use() == 0
    }
}
