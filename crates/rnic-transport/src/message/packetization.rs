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
    /// It changes nothing.
    Idle,
    /// Packets of the message with this tag are to be sent again.
    Resends(u32),
    /// The last packet of the message with this tag is sent again to get an answer.
    Probes(u32),
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
        let waiting = state.rtx.count();
        state.send_again();
        let resends = state.rtx.count() > waiting;
        let tag = state.message.tag;
        let stuck = cfg.probe && !state.heard && !state.may_send();
        state.probe |= stuck;
        (state.heard, state.left, state.timed) = (false, false, state.sent.max(1));
        self.timers.set(slot, now.saturating_add(cfg.timeout), cfg.timer_scan);
        self.list(cfg.order, place);
        Some(match (stuck, resends) {
            (true, _) => Timeout::Probes(tag),
            (false, true) => Timeout::Resends(tag),
            (false, false) => Timeout::Idle,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 100 bytes, 4 unscheduled packets, 10 us.
    fn cfg() -> NicConfig {
        NicConfig { mtu: 100, rtt_pkts: 4, timeout: us(10), most_timeouts: 3, probe: false, ..NicConfig::default() }
    }

    const fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    fn block(cfg: &NicConfig, bytes: u32) -> (Packetization, u32) {
        let mut block = Packetization::new(cfg);
        let id = block.send(cfg, Time::ZERO, &Message { bytes, tag: 42, dst_ip: 8, ..Message::default() }).unwrap();
        (block, id)
    }

    /// All packets that may leave: number, again.
    fn drain(block: &mut Packetization, cfg: &NicConfig) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| block.poll(cfg, Time::ZERO))
            .map(|(packet, _)| (packet.pkt_offset, packet.is_rtx))
            .collect()
    }

    fn ack(id: u32, before: u32, pkt_offset: u32, bitmap: u64) -> DeliveredEvent {
        DeliveredEvent { tx_msg_id: id, before, pkt_offset, bitmap }
    }

    fn credit(block: &mut Packetization, id: u32, rtx: Option<u32>, credit: Option<u32>) {
        block.credit_to_btx(&CreditToBtxEvent { tx_msg_id: id, rtx, credit }, Order::RoundRobin);
    }

    #[test]
    fn segments_and_their_metadata() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 350);
        assert_eq!(id, 1 << 16, "slot 0, generation 1");
        let packets: Vec<_> = std::iter::from_fn(|| block.poll(&cfg, us(1))).collect();
        assert_eq!(packets.iter().map(|(packet, _)| packet.payload).collect::<Vec<_>>(), [100, 100, 100, 50]);
        assert!(packets.iter().map(|(packet, _)| packet.is_new_msg).eq([true, false, false, false]));
        let (last, tag) = packets[3];
        assert_eq!((last.msg_len, last.credit, last.flags, last.dst_ip, tag), (350, 4, flags::DATA, 8, 42));
        assert!(!block.may_send());
    }

    #[test]
    fn a_message_without_bytes_is_one_packet() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 0);
        assert_eq!(block.poll(&cfg, us(1)).map(|(packet, _)| packet.payload), Some(0));
        assert_eq!(drain(&mut block, &cfg), []);
        assert_eq!(block.delivered(&ack(id, 0, 0, 1)), Some(42));
        assert!(block.all_free());
    }

    /// Algorithm 1: bits add up whatever the order, and the last one frees the message.
    #[test]
    fn delivered_packets_add_up() {
        let cfg = NicConfig { rtt_pkts: 200, ..cfg() };
        let (mut block, id) = block(&cfg, 13_000);
        assert_eq!(drain(&mut block, &cfg).len(), 130);
        assert_eq!(block.delivered(&ack(id, 60, 0, 0)), None);
        assert_eq!(block.delivered(&ack(id, 0, 62, u64::MAX)), None); // 62 to 125, over two words
        assert_eq!(block.messages[0].delivered_to, 60);
        assert_eq!(block.delivered(&ack(id, 0, 60, 0b11)), None);
        assert_eq!((block.messages[0].delivered_to, block.messages[0].delivered.count()), (126, 126));
        assert_eq!(block.delivered(&ack(id ^ 1 << 16, 130, 0, 0)), None, "another generation");
        assert_eq!(block.delivered(&ack(id + 1, 130, 0, 0)), None, "no such slot");
        assert_eq!(block.delivered(&ack(id, 0, 126, u64::MAX)), Some(42), "bits beyond the end mean nothing");
        assert!(block.all_free());
        assert_eq!(block.delivered(&ack(id, 130, 0, 0)), None);
        assert_eq!(block.deadline(), None);
    }

    #[test]
    fn what_was_never_sent_has_not_arrived() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 1_000);
        assert_eq!(drain(&mut block, &cfg).len(), 4);
        assert_eq!(block.delivered(&ack(id, u32::MAX, u32::MAX, u64::MAX)), None);
        assert_eq!(block.delivered(&ack(id, 0, 3, u64::MAX)), None);
        credit(&mut block, id, Some(9), Some(u32::MAX));
        credit(&mut block, id, Some(u32::MAX), None);
        assert_eq!(drain(&mut block, &cfg), (4..10).map(|packet| (packet, false)).collect::<Vec<_>>());
    }

    /// Algorithm 2: the lowest packet first; credit never shrinks; what has arrived is not sent again.
    #[test]
    fn credit_and_packets_to_send_again() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 1_000);
        assert_eq!(drain(&mut block, &cfg), [(0, false), (1, false), (2, false), (3, false)]);
        credit(&mut block, id, Some(2), Some(6));
        credit(&mut block, id, Some(1), Some(5));
        assert_eq!(drain(&mut block, &cfg), [(1, true), (2, true), (4, false), (5, false)]);
        block.delivered(&ack(id, 3, 0, 0));
        credit(&mut block, id, Some(2), None);
        credit(&mut block, id, Some(3), None);
        block.delivered(&ack(id, 0, 3, 1));
        assert_eq!(drain(&mut block, &cfg), [], "2 had arrived; 3 arrived while it waited");
        credit(&mut block, id, None, Some(10));
        assert_eq!(drain(&mut block, &cfg).len(), 4);
    }

    /// Algorithm 3. Ten packets, credit 4. The timer of the start is about packet 0 alone, as `maxTxPktOffset` was 0 then.
    #[test]
    fn timeouts_send_again_what_was_sent_before_the_timer_was_set() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 1_000);
        drain(&mut block, &cfg);
        assert_eq!((block.deadline(), block.timeout(&cfg, us(9))), (Some(us(10)), None));
        assert_eq!(block.timeout(&cfg, us(10)), Some(Timeout::Resends(42)));
        assert_eq!(drain(&mut block, &cfg), [(0, true)]);
        credit(&mut block, id, None, Some(6));
        drain(&mut block, &cfg);
        block.delivered(&ack(id, 0, 1, 0b11));
        assert_eq!(block.timeout(&cfg, us(20)), Some(Timeout::Resends(42)));
        assert_eq!(drain(&mut block, &cfg), [(0, true), (3, true)], "4 and 5 left after the timer was set");
        // Now it is about all six. Three timeouts in silence end it.
        assert_eq!(block.timeout(&cfg, us(30)), Some(Timeout::Resends(42)));
        assert_eq!(drain(&mut block, &cfg), [(0, true), (3, true), (4, true), (5, true)]);
        assert_eq!(block.timeout(&cfg, us(40)), Some(Timeout::Resends(42)));
        drain(&mut block, &cfg);
        assert_eq!(block.timeout(&cfg, us(50)), Some(Timeout::GaveUp(42)));
        assert!(block.all_free() && block.deadline().is_none());
    }

    #[test]
    fn a_word_of_the_receiver_starts_the_count_anew() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 400);
        drain(&mut block, &cfg);
        for round in 1..10 {
            assert_eq!(block.timeout(&cfg, us(10 * round)), Some(Timeout::Resends(42)));
            drain(&mut block, &cfg);
            if round % 2 == 0 {
                credit(&mut block, id, None, Some(1));
            }
        }
    }

    /// While another message has the wire, silence is not the receiver's: the count stands still.
    #[test]
    fn waiting_in_the_nic_is_not_silence() {
        let cfg = cfg();
        let (mut block, _) = block(&cfg, 400);
        for round in 1..20 {
            assert_eq!(block.timeout(&cfg, us(10 * round)), Some(Timeout::Idle));
        }
        // Now its packets leave. The first timeout sees that more was sent than before, the next three are silence.
        let ends: Vec<_> = (20..24)
            .filter_map(|round| {
                drain(&mut block, &cfg);
                block.timeout(&cfg, us(10 * round))
            })
            .collect();
        assert_eq!(ends, [Timeout::Resends(42), Timeout::Resends(42), Timeout::Resends(42), Timeout::GaveUp(42)]);
    }

    /// All that the credit allows has arrived, and the credit for the rest is lost.
    #[test]
    fn a_probe_is_the_last_packet_once_more() {
        let cfg = NicConfig { probe: true, ..cfg() };
        let (mut block, id) = block(&cfg, 1_000);
        drain(&mut block, &cfg);
        block.delivered(&ack(id, 4, 0, 0));
        assert_eq!(block.timeout(&cfg, us(10)), Some(Timeout::Idle), "the receiver was heard of");
        assert_eq!(block.timeout(&cfg, us(20)), Some(Timeout::Probes(42)));
        assert_eq!(drain(&mut block, &cfg), [(3, true)]);
        credit(&mut block, id, None, Some(5));
        assert_eq!(drain(&mut block, &cfg), [(4, false)]);
    }

    #[test]
    fn messages_take_turns_or_the_shortest_goes_first() {
        for (order, expected) in
            [(Order::RoundRobin, [0, 1, 2, 0, 1, 0, 1, 1]), (Order::ShortestFirst, [2, 0, 0, 0, 1, 1, 1, 1])]
        {
            let cfg = NicConfig { order, ..cfg() };
            let mut block = Packetization::new(&cfg);
            for (tag, bytes) in [(0, 300), (1, 400), (2, 100)] {
                block.send(&cfg, Time::ZERO, &Message { bytes, tag, ..Message::default() }).unwrap();
            }
            let tags: Vec<_> = std::iter::from_fn(|| block.poll(&cfg, us(1))).map(|(_, tag)| tag).collect();
            assert_eq!(tags, expected, "{order:?}");
        }
    }

    #[test]
    fn slots_are_used_again_in_a_new_generation() {
        let cfg = cfg();
        let mut block = Packetization::new(&cfg);
        let message = Message { bytes: 1, dst_ip: 5, ..Message::default() };
        for round in 1..200_000u32 {
            let id = block.send(&cfg, Time::ZERO, &message).unwrap();
            assert_eq!(id, (round & 0xffff) << 16, "generations wrap");
            drain(&mut block, &cfg);
            assert!(block.delivered(&ack(id, 1, 0, 0)).is_some());
        }
        assert!(block.timers.next().is_none() && block.messages.len() == 1);
    }

    /// A receiver last heard of generation 10. What it takes for newer reaches up to 10 + 32,767.
    #[test]
    fn a_generation_is_new_to_its_receiver() {
        assert_eq!(next_generation(0, None), 1);
        assert_eq!(next_generation(50_000, None), 50_001);
        assert_eq!(next_generation(10, Some(10)), 11);
        assert_eq!(next_generation(32_776, Some(10)), 32_777);
        assert_eq!(next_generation(32_777, Some(10)), 16_394, "32,778 would look old");
        assert_eq!(next_generation(9, Some(10)), 16_394, "a whole turn later");
        assert_eq!(next_generation(u16::MAX, Some(u16::MAX)), 0);
        assert!(is_newer(0, u16::MAX) && !is_newer(7, 7) && !is_newer(7, 8));
    }
}
