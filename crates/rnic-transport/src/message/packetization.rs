//! Packetization: the block of a NanoTransport NIC that keeps the state of messages that are being sent, and chooses
//! the next data packet.
//!
//! In the NanoTransport paper the state of a message consists of `deliveredBitmap`, `credit`, `toBtx`, `maxTxPktOffset`
//! and `timeoutCnt`, and three events change it (algorithms 1 to 3). `toBtx` is a bitmap of the packets to send; all
//! its bits are set at first, and the lowest set bit below the credit is sent first. Here `toBtx` consists of two
//! parts: the bitmap `rtx` of packets to retransmit, and all packets from `sent` on, which have never been sent.

use super::bits::{Bits, runs};
use super::buffers::{Buffer, Buffers, NoBuffer};
use super::nic::{Message, NicConfig, Order};
use super::slots::{Directory, Slots};
use super::timers::Timers;
use super::{CreditToBtxEvent, DeliveredEvent, Departure, flags, slot};
use crate::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The state of a message that is being sent, or a free slot for such a message.
#[derive(Clone, Debug, Default)]
struct TxMessage {
    message: Message,
    /// Id of the message: slot (low 16 bits) and generation (high 16 bits, different for consecutive messages in the
    /// slot). Events for an earlier message in the slot have another id.
    tx_msg_id: u32,
    /// Whether the slot is in use.
    live: bool,
    buffer: Buffer,
    /// Number of packets of the message.
    packets: u32,
    /// The message's credit: packets before this index may be sent.
    credit: u32,
    /// Packets before this index have been sent: `maxTxPktOffset` of the NanoTransport paper, plus 1.
    sent: u32,
    /// All packets before this index have arrived at the receiver.
    delivered_to: u32,
    /// The packets that have arrived at the receiver.
    delivered: Bits,
    /// The packets to retransmit.
    rtx: Bits,
    /// Whether to send a probe: to retransmit the last packet sent, even if it has arrived, to get a response.
    probe: bool,
    /// The value of `sent` when the retransmission timer was set, but at least 1. The timeout retransmits only packets
    /// before this index.
    timed: u32,
    /// Number of consecutive timeouts without a response from the receiver.
    timeouts: u32,
    /// Whether a response of the receiver has arrived since the retransmission timer was set.
    heard: bool,
    /// Whether a packet of the message has left the NIC since the retransmission timer was set.
    left: bool,
    /// Whether the message is in the queue of messages that may send.
    listed: bool,
}

impl TxMessage {
    #[inline]
    fn may_send(&self) -> bool {
        self.live && (self.rtx.count() > 0 || self.sent < self.credit || self.probe)
    }

    /// The index of the next packet to send: the first packet to retransmit, else the first unsent packet within the
    /// credit, else the probe (the last packet sent).
    #[inline]
    fn next_packet(&mut self) -> Option<u32> {
        if let Some(packet) = self.rtx.lowest() {
            self.rtx.clear(packet);
            return Some(packet);
        }
        if self.sent < self.credit {
            self.sent += 1;
            return Some(self.sent - 1);
        }
        std::mem::take(&mut self.probe).then(|| self.sent - 1)
    }

    /// Marks packets as delivered (algorithm 1 of the NanoTransport paper): the packets in `mask` of one 64-bit word of
    /// the bitmaps.
    #[inline]
    fn deliver(&mut self, word: u32, mask: u64) {
        self.delivered.set_mask(word, mask);
        self.rtx.clear_mask(word, mask);
    }

    /// The packets of a bitmap that begins with packet `offset`, as far as they have been sent: the words of the
    /// state's bitmaps that have such packets, and their bits.
    #[inline]
    fn sent_packets(&self, offset: u32, bitmap: u64) -> impl Iterator<Item = (u32, u64)> + use<> {
        let left = self.sent.saturating_sub(offset);
        let bitmap = if left < 64 { bitmap & ((1 << left) - 1) } else { bitmap };
        let (word, shift) = (offset >> 6, offset & 63);
        let words = [(word, bitmap << shift), (word + 1, bitmap.checked_shr(64 - shift).unwrap_or(0))];
        words.into_iter().filter(|(_, mask)| *mask != 0)
    }

    /// Algorithm 3 of the NanoTransport paper: marks for retransmission all packets that had been sent when the
    /// retransmission timer was set and have not arrived.
    fn retransmit_timed(&mut self) {
        for (word, mask) in runs(self.delivered_to, self.timed.min(self.sent)) {
            self.rtx.set_mask(word, mask & !self.delivered.word(word));
        }
    }
}

/// The queue of messages that may send, by their ids. It may still contain ids of messages that have ended; such an id
/// is not the id of the message that is now in the slot.
#[derive(Clone, Debug, Default)]
struct Ready {
    /// Message ids in round-robin order.
    ring: VecDeque<u32>,
    /// For shortest-first order: number of unsent packets, slot, message id; the smallest entry is first.
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

/// The effect of a retransmission timeout of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timeout {
    /// No packet will be retransmitted.
    Idle,
    /// Packets of the message with this tag will be retransmitted.
    Retransmits(u32),
    /// The last packet of the message with this tag will be retransmitted as a probe, to get a response.
    Probes(u32),
    /// The message with this tag was aborted.
    Aborted(u32),
}

/// All messages that a NIC is sending.
#[derive(Clone, Debug)]
pub(super) struct Packetization {
    /// The states of the messages, indexed by slot (the low 16 bits of a message's id).
    messages: Vec<TxMessage>,
    slots: Slots,
    /// Number of messages that have been sent from each slot, modulo 2^16; the generation of the next message follows
    /// from it.
    generations: Vec<u16>,
    /// Maps a receiver and a slot of this NIC to an index into `latest`.
    receivers: Directory,
    /// Generation (high 16 bits of the id) of the latest message from a slot to a receiver, for each such pair.
    latest: Vec<u16>,
    buffers: Buffers,
    timers: Timers,
    ready: Ready,
}

/// The generation (high 16 bits of the id) of the next message in a slot that has had `previous` messages, modulo 2^16.
/// `known` is the generation of the slot's latest message to the same receiver.
///
/// Normally the result is `previous` + 1. But if many messages went from the slot to other receivers in the meantime,
/// the receiver would consider this generation older than `known`. In this case the result is a generation that the
/// receiver considers newer and that the slot has not used for its last 2^14 messages.
fn next_generation(previous: u16, known: Option<u16>) -> u16 {
    let next = previous.wrapping_add(1);
    match known {
        Some(known) if !is_newer(next, known) => known.wrapping_add(1 << 14),
        _ => next,
    }
}

/// Whether message generation `a` (a 16-bit number that wraps around) is newer than `b`, that is, 1 to 2^15 - 1 steps
/// after it.
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

    /// Begins to send a message; returns its id.
    pub(super) fn send(&mut self, cfg: &NicConfig, now: Time, message: &Message) -> Result<u32, NoBuffer> {
        let buffer = self.buffers.allocate(message.bytes)?;
        let Some(slot) = self.slots.allocate() else {
            self.buffers.release(buffer);
            return Err(NoBuffer::NoneFree { bytes: message.bytes });
        };
        let index = usize::from(slot);
        if index == self.messages.len() {
            self.messages.push(TxMessage::default());
            self.generations.push(0);
        }
        let generation = self.generation(message.dst_ip, slot);
        let tx_msg_id = u32::from(generation) << 16 | u32::from(slot);
        let packets = message.bytes.div_ceil(cfg.mtu).max(1);
        let state = &mut self.messages[index];
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
        self.timers.set(slot, now.saturating_add(cfg.timeout), cfg.timer_granularity);
        self.list(cfg.order, index);
        Ok(tx_msg_id)
    }

    fn generation(&mut self, dst_ip: u32, slot: u16) -> u16 {
        let (pair, is_new) = self.receivers.index(dst_ip, slot);
        if is_new {
            self.latest.push(0);
        }
        let previous = &mut self.generations[usize::from(slot)];
        let generation = next_generation(*previous, (!is_new).then_some(self.latest[pair]));
        *previous = previous.wrapping_add(1);
        self.latest[pair] = generation;
        generation
    }

    /// The slot of message `tx_msg_id`, if the message is still being sent.
    #[inline]
    fn find(&self, tx_msg_id: u32) -> Option<usize> {
        let index = slot(tx_msg_id);
        self.messages.get(index).filter(|state| state.live && state.tx_msg_id == tx_msg_id).map(|_| index)
    }

    /// Puts the message into the queue of messages that may send, if it may send and is not in the queue.
    #[inline]
    fn list(&mut self, order: Order, index: usize) {
        let state = &mut self.messages[index];
        if state.may_send() && !state.listed {
            state.listed = true;
            self.ready.push(order, state.packets - state.sent, state.tx_msg_id);
        }
    }

    /// Frees the slot, the buffer and the timer of a message that has ended; returns the message's tag.
    fn free(&mut self, index: usize) -> u32 {
        let state = &mut self.messages[index];
        state.live = false;
        self.timers.cancel(index as u16);
        self.buffers.release(state.buffer);
        self.slots.release(index as u16);
        state.message.tag
    }

    /// Handles a `DeliveredEvent` (algorithm 1 of the NanoTransport paper); returns the message's tag if all its
    /// packets have arrived. Ignores packets that have not been sent yet.
    #[inline]
    pub(super) fn delivered(&mut self, event: &DeliveredEvent) -> Option<u32> {
        let index = self.find(event.tx_msg_id)?;
        let state = &mut self.messages[index];
        state.heard = true;
        let before = event.before.min(state.sent);
        for (word, mask) in runs(state.delivered_to, before) {
            state.deliver(word, mask);
        }
        for (word, mask) in state.sent_packets(event.pkt_offset, event.bitmap) {
            state.deliver(word, mask);
        }
        state.delivered_to = state.delivered.first_clear(state.delivered_to, state.packets);
        (state.delivered.count() == state.packets).then(|| self.free(index))
    }

    /// Handles a `CreditToBtxEvent` (algorithm 2 of the NanoTransport paper): a message may send or retransmit packets.
    #[inline]
    pub(super) fn credit_to_btx(&mut self, event: &CreditToBtxEvent, cfg: &NicConfig) {
        let Some(index) = self.find(event.tx_msg_id) else { return };
        let state = &mut self.messages[index];
        state.heard = true;
        for (word, mask) in state.sent_packets(event.pkt_offset, event.bitmap) {
            state.rtx.set_mask(word, mask & !state.delivered.word(word));
        }
        let credit = event.credit.unwrap_or(0).min(state.packets);
        let raised = credit > state.credit;
        state.credit = state.credit.max(credit);
        if raised || !cfg.rtx_needs_credit {
            self.list(cfg.order, index);
        }
    }

    /// The next data packet to send, and its message's tag.
    pub(super) fn poll(&mut self, cfg: &NicConfig, now: Time) -> Option<(Departure, u32)> {
        loop {
            let tx_msg_id = self.ready.pop()?;
            let Some(index) = self.find(tx_msg_id) else { continue };
            let state = &mut self.messages[index];
            state.listed = false;
            let before = state.sent;
            // The message has nothing to send if its packets have been acknowledged since it entered the queue.
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
            self.list(cfg.order, index);
            return Some((departure, tag));
        }
    }

    /// Whether a message may have a packet to send.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The time at which to call [`Packetization::timeout`] next; `None` if no retransmission timer runs. No timer
    /// expires before this time. The time may be too early, because a timer that was postponed or turned off is still
    /// listed with its old time. Then the call finds no expired timer.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Handles the `TimeoutEvent` (algorithm 3 of the NanoTransport paper) of the next message whose retransmission
    /// timer has expired by `now`.
    pub(super) fn timeout(&mut self, cfg: &NicConfig, now: Time) -> Option<Timeout> {
        let slot = self.timers.expired(now)?;
        let index = usize::from(slot);
        let state = &mut self.messages[index];
        if state.heard || state.sent > state.timed {
            state.timeouts = 0;
        } else if state.left || !state.may_send() {
            // A timeout does not count while all packets of the message still wait in this NIC: the receiver has
            // nothing to respond to.
            state.timeouts += 1;
            if state.timeouts >= cfg.max_timeouts {
                return Some(Timeout::Aborted(self.free(index)));
            }
        }
        let waiting = state.rtx.count();
        state.retransmit_timed();
        let retransmits = state.rtx.count() > waiting;
        let tag = state.message.tag;
        let stuck = cfg.probe && !state.heard && !state.may_send();
        state.probe |= stuck;
        (state.heard, state.left, state.timed) = (false, false, state.sent.max(1));
        self.timers.set(slot, now.saturating_add(cfg.timeout), cfg.timer_granularity);
        self.list(cfg.order, index);
        Some(match (stuck, retransmits) {
            (true, _) => Timeout::Probes(tag),
            (false, true) => Timeout::Retransmits(tag),
            (false, false) => Timeout::Idle,
        })
    }

    /// Number of messages that are being sent.
    pub(super) fn active(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether all buffers and slots are free.
    pub(super) fn all_free(&self) -> bool {
        self.buffers.all_free() && self.slots.in_use() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The NIC of the tests: segments of 100 bytes, an initial credit of 4 packets, a timeout of 10 us.
    fn cfg() -> NicConfig {
        NicConfig { mtu: 100, rtt_pkts: 4, timeout: us(10), max_timeouts: 3, probe: false, ..NicConfig::default() }
    }

    const fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    fn block(cfg: &NicConfig, bytes: u32) -> (Packetization, u32) {
        let mut block = Packetization::new(cfg);
        let id = block.send(cfg, Time::ZERO, &Message { bytes, tag: 42, dst_ip: 8, ..Message::default() }).unwrap();
        (block, id)
    }

    /// Polls all packets that may be sent now. Returns the index of each packet, and whether the packet is a
    /// retransmission.
    fn drain(block: &mut Packetization, cfg: &NicConfig) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| block.poll(cfg, Time::ZERO))
            .map(|(packet, _)| (packet.pkt_offset, packet.is_rtx))
            .collect()
    }

    fn ack(id: u32, before: u32, pkt_offset: u32, bitmap: u64) -> DeliveredEvent {
        DeliveredEvent { tx_msg_id: id, before, pkt_offset, bitmap }
    }

    fn credit(block: &mut Packetization, id: u32, rtx: Option<u32>, credit: Option<u32>) {
        let (pkt_offset, bitmap) = (rtx.unwrap_or(0), rtx.is_some().into());
        let event = CreditToBtxEvent { tx_msg_id: id, pkt_offset, bitmap, credit };
        block.credit_to_btx(&event, &NicConfig::default());
    }

    /// One event requests packets in two words of the bitmap; packet 61 has arrived, and packets from 70 on have not
    /// been sent.
    #[test]
    fn one_event_requests_several_packets() {
        let cfg = NicConfig { rtt_pkts: 70, ..cfg() };
        let (mut block, id) = block(&cfg, 9_000);
        assert_eq!(drain(&mut block, &cfg).len(), 70);
        block.delivered(&ack(id, 0, 61, 1));
        let event =
            CreditToBtxEvent { tx_msg_id: id, pkt_offset: 60, bitmap: 1 | 2 | 1 << 5 | 1 << 9 | 1 << 10, credit: None };
        block.credit_to_btx(&event, &cfg);
        assert_eq!(drain(&mut block, &cfg), [(60, true), (65, true), (69, true)]);
        block.credit_to_btx(&CreditToBtxEvent { pkt_offset: 70, ..event }, &cfg);
        block.credit_to_btx(&CreditToBtxEvent { pkt_offset: u32::MAX, credit: Some(71), ..event }, &cfg);
        assert_eq!(drain(&mut block, &cfg), [(70, false)]);
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

    /// Algorithm 1 of the NanoTransport paper: acknowledgements of packets accumulate in any order, and the last one
    /// frees the message.
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
        assert_eq!(
            block.delivered(&ack(id, 0, 126, u64::MAX)),
            Some(42),
            "bits beyond the end of the message are ignored"
        );
        assert!(block.all_free());
        assert_eq!(block.delivered(&ack(id, 130, 0, 0)), None);
        assert_eq!(block.deadline(), None);
    }

    #[test]
    fn acknowledgements_of_unsent_packets_are_ignored() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 1_000);
        assert_eq!(drain(&mut block, &cfg).len(), 4);
        assert_eq!(block.delivered(&ack(id, u32::MAX, u32::MAX, u64::MAX)), None);
        assert_eq!(block.delivered(&ack(id, 0, 3, u64::MAX)), None);
        credit(&mut block, id, Some(9), Some(u32::MAX));
        credit(&mut block, id, Some(u32::MAX), None);
        assert_eq!(drain(&mut block, &cfg), (4..10).map(|packet| (packet, false)).collect::<Vec<_>>());
    }

    /// Algorithm 2 of the NanoTransport paper: the lowest packet is sent first; credit never shrinks; packets that have
    /// arrived are not retransmitted.
    #[test]
    fn credit_and_retransmissions() {
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
        assert_eq!(drain(&mut block, &cfg), [], "2 had arrived; 3 arrived before its retransmission was sent");
        credit(&mut block, id, None, Some(10));
        assert_eq!(drain(&mut block, &cfg).len(), 4);
    }

    /// Algorithm 3 of the NanoTransport paper with a message of ten packets and a credit of 4. The first timeout
    /// retransmits packet 0 only, because `maxTxPktOffset` (the highest index sent) was 0 when the timer was set.
    #[test]
    fn timeouts_retransmit_packets_sent_before_the_timer_was_set() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 1_000);
        drain(&mut block, &cfg);
        assert_eq!((block.deadline(), block.timeout(&cfg, us(9))), (Some(us(10)), None));
        assert_eq!(block.timeout(&cfg, us(10)), Some(Timeout::Retransmits(42)));
        assert_eq!(drain(&mut block, &cfg), [(0, true)]);
        credit(&mut block, id, None, Some(6));
        drain(&mut block, &cfg);
        block.delivered(&ack(id, 0, 1, 0b11));
        assert_eq!(block.timeout(&cfg, us(20)), Some(Timeout::Retransmits(42)));
        assert_eq!(drain(&mut block, &cfg), [(0, true), (3, true)], "4 and 5 were sent after the timer was set");
        // The next timeout concerns all six packets. The third timeout without a response aborts the message.
        assert_eq!(block.timeout(&cfg, us(30)), Some(Timeout::Retransmits(42)));
        assert_eq!(drain(&mut block, &cfg), [(0, true), (3, true), (4, true), (5, true)]);
        assert_eq!(block.timeout(&cfg, us(40)), Some(Timeout::Retransmits(42)));
        drain(&mut block, &cfg);
        assert_eq!(block.timeout(&cfg, us(50)), Some(Timeout::Aborted(42)));
        assert!(block.all_free() && block.deadline().is_none());
    }

    #[test]
    fn a_response_of_the_receiver_resets_the_count_of_timeouts() {
        let cfg = cfg();
        let (mut block, id) = block(&cfg, 400);
        drain(&mut block, &cfg);
        for round in 1..10 {
            assert_eq!(block.timeout(&cfg, us(10 * round)), Some(Timeout::Retransmits(42)));
            drain(&mut block, &cfg);
            if round % 2 == 0 {
                credit(&mut block, id, None, Some(1));
            }
        }
    }

    /// Timeouts do not count while the message's packets wait in the NIC because other messages use the link.
    #[test]
    fn timeouts_do_not_count_while_packets_wait_in_the_nic() {
        let cfg = cfg();
        let (mut block, _) = block(&cfg, 400);
        for round in 1..20 {
            assert_eq!(block.timeout(&cfg, us(10 * round)), Some(Timeout::Idle));
        }
        // Now the message's packets are sent. The first timeout does not count, because packets were sent since the
        // previous timeout. The next three timeouts count.
        let ends: Vec<_> = (20..24)
            .filter_map(|round| {
                drain(&mut block, &cfg);
                block.timeout(&cfg, us(10 * round))
            })
            .collect();
        assert_eq!(
            ends,
            [Timeout::Retransmits(42), Timeout::Retransmits(42), Timeout::Retransmits(42), Timeout::Aborted(42)]
        );
    }

    /// All packets that the credit allows have arrived, and the control packet with further credit was lost. So the
    /// sender retransmits the last packet to get a response.
    #[test]
    fn a_probe_retransmits_the_last_packet() {
        let cfg = NicConfig { probe: true, ..cfg() };
        let (mut block, id) = block(&cfg, 1_000);
        drain(&mut block, &cfg);
        block.delivered(&ack(id, 4, 0, 0));
        assert_eq!(block.timeout(&cfg, us(10)), Some(Timeout::Idle), "the receiver has responded");
        assert_eq!(block.timeout(&cfg, us(20)), Some(Timeout::Probes(42)));
        assert_eq!(drain(&mut block, &cfg), [(3, true)]);
        credit(&mut block, id, None, Some(5));
        assert_eq!(drain(&mut block, &cfg), [(4, false)]);
    }

    #[test]
    fn messages_send_round_robin_or_shortest_first() {
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
    fn slots_are_reused_with_a_new_generation() {
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

    /// Generations are 16-bit numbers of the messages in a slot. The last generation that the receiver has seen is 10,
    /// so it considers the generations up to 10 + 32,767 newer.
    #[test]
    fn the_receiver_considers_the_next_generation_newer() {
        assert_eq!(next_generation(0, None), 1);
        assert_eq!(next_generation(50_000, None), 50_001);
        assert_eq!(next_generation(10, Some(10)), 11);
        assert_eq!(next_generation(32_776, Some(10)), 32_777);
        assert_eq!(next_generation(32_777, Some(10)), 16_394, "32,778 would look old");
        assert_eq!(next_generation(9, Some(10)), 16_394, "after a wrap-around");
        assert_eq!(next_generation(u16::MAX, Some(u16::MAX)), 0);
        assert!(is_newer(0, u16::MAX) && !is_newer(7, 7) && !is_newer(7, 8));
    }
}
