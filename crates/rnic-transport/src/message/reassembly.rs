//! Reassembly: the block of a NanoTransport NIC that keeps the state of messages that are being received. It also
//! remembers, for each sender and each slot there (the low 16 bits of a message's id), whether the latest message was
//! delivered.

use super::bits::Bits;
use super::buffers::{Buffer, Buffers};
use super::nic::{Completed, NicConfig, NicEvent};
use super::packetization::is_newer;
use super::slots::{Directory, Slots};
use super::timers::Timers;
use super::{RxMsgInfo, RxMsgInfoRequest, slot};
use crate::Time;

/// The receiver's state of the newest message that has arrived from a slot of a sender (the low 16 bits of the
/// message's id).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// No message has been accepted from the slot yet.
    Unknown,
    /// The message with this `rx_msg_id` is being received.
    Active(u16),
    /// The message was delivered.
    Complete,
    /// The reception of the message expired.
    Expired,
}

/// The receiver's state of one slot of a sender, from which messages come one after another.
#[derive(Clone, Copy, Debug)]
struct SenderSlot {
    /// Generation (high 16 bits of the id) of the newest message from the slot.
    generation: u16,
    fate: Fate,
}

/// The state of a message that is being received, or a free slot for such a message.
#[derive(Clone, Debug, Default)]
struct RxMessage {
    /// Whether the slot is in use.
    live: bool,
    src_ip: u32,
    tx_msg_id: u32,
    /// Index in `sender_slots` of the slot from which the message comes.
    sender_slot: usize,
    bytes: u32,
    packets: u32,
    /// Index of the first missing packet.
    ack_no: u32,
    received: Bits,
    buffer: Buffer,
}

/// A data packet that has been marked as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marked {
    pub(super) rx_msg_id: u16,
    pub(super) pkt_offset: u32,
    pub(super) is_last_pkt: bool,
}

/// The effect of `GetRxMsgInfo` on the receiver's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// Nothing was marked, and no buffer was missing.
    None,
    /// The packet has been newly marked as received.
    Marked(Marked),
    /// No buffer was free for the message.
    NoBuffer,
}

/// All messages that a NIC is receiving.
#[derive(Clone, Debug)]
pub(super) struct Reassembly {
    /// The states of the messages, indexed by `rx_msg_id`.
    messages: Vec<RxMessage>,
    slots: Slots,
    /// Maps a sender and one of its slots to an index into `sender_slots`.
    senders: Directory,
    sender_slots: Vec<SenderSlot>,
    buffers: Buffers,
    timers: Timers,
    /// Messages whose reception ended because their sender began a newer message in the same slot: `rx_msg_id`, and the
    /// event for the owner of the NIC.
    superseded: Vec<(u16, NicEvent)>,
}

/// The response to a `GetRxMsgInfo` request that failed.
const FAIL: RxMsgInfo =
    RxMsgInfo { fail: true, rx_msg_id: 0, is_new_msg: false, is_new_pkt: false, is_last_pkt: false, ack_no: 0 };

impl Reassembly {
    pub(super) fn new(cfg: &NicConfig) -> Reassembly {
        Reassembly {
            messages: Vec::new(),
            slots: Slots::default(),
            senders: Directory::default(),
            sender_slots: Vec::new(),
            buffers: Buffers::new(&cfg.rx_buffers),
            timers: Timers::default(),
            superseded: Vec::new(),
        }
    }

    /// Handles a `GetRxMsgInfo` request of the transport program; returns the response, and its effect on the
    /// receiver's state.
    pub(super) fn info(&mut self, cfg: &NicConfig, now: Time, request: &RxMsgInfoRequest) -> (RxMsgInfo, Effect) {
        let generation = (request.tx_msg_id >> 16) as u16;
        let (sender_slot, is_new) = self.senders.index(request.src_ip, slot(request.tx_msg_id) as u16);
        if is_new {
            self.sender_slots.push(SenderSlot { generation, fate: Fate::Unknown });
        }
        let known = self.sender_slots[sender_slot];
        match known.fate {
            Fate::Unknown => self.begin(cfg, now, request, sender_slot),
            Fate::Active(rx_msg_id) if known.generation == generation => {
                self.lookup(cfg, now, request, rx_msg_id, false)
            }
            Fate::Complete if known.generation == generation => (complete(cfg, request), Effect::None),
            Fate::Active(rx_msg_id) if is_newer(generation, known.generation) => {
                // The sender has begun a newer message in the slot, so it has finished the older message. The new
                // message may use the buffer of the older message. It must not use the `rx_msg_id` of the older
                // message, because the program does not know yet that this id is free.
                let event = self.end(rx_msg_id, Fate::Expired);
                self.superseded.push((rx_msg_id, event));
                let begun = self.begin(cfg, now, request, sender_slot);
                self.slots.release(rx_msg_id);
                begun
            }
            _ if is_newer(generation, known.generation) => self.begin(cfg, now, request, sender_slot),
            _ => (FAIL, Effect::None),
        }
    }

    /// Begins the reception of a message with its first packet to arrive.
    fn begin(
        &mut self, cfg: &NicConfig, now: Time, request: &RxMsgInfoRequest, sender_slot: usize,
    ) -> (RxMsgInfo, Effect) {
        let packets = request.msg_len.div_ceil(cfg.mtu).max(1);
        if request.pkt_offset >= packets {
            return (FAIL, Effect::None);
        }
        let Ok(buffer) = self.buffers.allocate(request.msg_len) else { return (FAIL, Effect::NoBuffer) };
        let Some(rx_msg_id) = self.slots.allocate() else {
            self.buffers.release(buffer);
            return (FAIL, Effect::NoBuffer);
        };
        let index = usize::from(rx_msg_id);
        if index == self.messages.len() {
            self.messages.push(RxMessage::default());
        }
        let mut received = std::mem::take(&mut self.messages[index].received);
        received.reset(packets);
        self.messages[index] = RxMessage {
            live: true,
            src_ip: request.src_ip,
            tx_msg_id: request.tx_msg_id,
            sender_slot,
            bytes: request.msg_len,
            packets,
            ack_no: 0,
            received,
            buffer,
        };
        let generation = (request.tx_msg_id >> 16) as u16;
        self.sender_slots[sender_slot] = SenderSlot { generation, fate: Fate::Active(rx_msg_id) };
        self.lookup(cfg, now, request, rx_msg_id, true)
    }

    /// Looks up a packet of a message that is being received, and marks the packet as received if the request demands
    /// it.
    #[inline]
    fn lookup(
        &mut self, cfg: &NicConfig, now: Time, request: &RxMsgInfoRequest, rx_msg_id: u16, is_new_msg: bool,
    ) -> (RxMsgInfo, Effect) {
        let state = &mut self.messages[usize::from(rx_msg_id)];
        if request.msg_len != state.bytes || request.pkt_offset >= state.packets {
            return (FAIL, Effect::None);
        }
        let is_new_pkt = if request.mark_received {
            state.received.set(request.pkt_offset)
        } else {
            !state.received.get(request.pkt_offset)
        };
        state.ack_no = state.received.first_clear(state.ack_no, state.packets);
        let is_last_pkt = state.ack_no == state.packets;
        let info = RxMsgInfo { fail: false, rx_msg_id, is_new_msg, is_new_pkt, is_last_pkt, ack_no: state.ack_no };
        self.timers.set(rx_msg_id, now.saturating_add(cfg.rx_timeout), cfg.timer_granularity);
        let marked = Marked { rx_msg_id, pkt_offset: request.pkt_offset, is_last_pkt };
        (info, if request.mark_received && is_new_pkt { Effect::Marked(marked) } else { Effect::None })
    }

    /// Payload length in bytes of a packet of a message that is being received.
    pub(super) fn payload(&self, cfg: &NicConfig, packet: &Marked) -> u32 {
        let state = &self.messages[usize::from(packet.rx_msg_id)];
        (state.bytes - packet.pkt_offset * cfg.mtu).min(cfg.mtu)
    }

    /// Undoes the marking of a packet as received, because the program's verdict contradicted it.
    pub(super) fn unmark(&mut self, packet: &Marked) {
        let state = &mut self.messages[usize::from(packet.rx_msg_id)];
        state.received.clear(packet.pkt_offset);
        state.ack_no = state.ack_no.min(packet.pkt_offset);
    }

    /// Delivers a complete message and frees its state.
    pub(super) fn complete(&mut self, rx_msg_id: u16) -> Completed {
        let state = &self.messages[usize::from(rx_msg_id)];
        let done = Completed { src_ip: state.src_ip, tx_msg_id: state.tx_msg_id, bytes: state.bytes };
        self.end(rx_msg_id, Fate::Complete);
        self.slots.release(rx_msg_id);
        done
    }

    /// Frees the state of a message except its `rx_msg_id`; returns the event for the owner of the NIC, which is needed
    /// if the message was not delivered.
    fn end(&mut self, rx_msg_id: u16, fate: Fate) -> NicEvent {
        let state = &mut self.messages[usize::from(rx_msg_id)];
        state.live = false;
        self.sender_slots[state.sender_slot].fate = fate;
        self.buffers.release(state.buffer);
        self.timers.cancel(rx_msg_id);
        NicEvent::ReceiveExpired { src_ip: state.src_ip, tx_msg_id: state.tx_msg_id }
    }

    /// Takes the next message that was superseded by a newer message in the same slot.
    #[inline]
    pub(super) fn superseded(&mut self) -> Option<(u16, NicEvent)> {
        self.superseded.pop()
    }

    /// The time at which to call [`Reassembly::timeout`] next; `None` if no message is being received. No reception
    /// expires before this time. The time may be too early, because a timer that was restarted or turned off is still
    /// listed with its old time. Then the call finds no expired timer.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Ends the reception of the next message whose timer has expired by `now`; returns its `rx_msg_id`, and the event
    /// for the owner of the NIC.
    pub(super) fn timeout(&mut self, now: Time) -> Option<(u16, NicEvent)> {
        let rx_msg_id = self.timers.expired(now)?;
        let event = self.end(rx_msg_id, Fate::Expired);
        self.slots.release(rx_msg_id);
        Some((rx_msg_id, event))
    }

    /// Number of messages that are being received.
    pub(super) fn active(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether all buffers and slots are free.
    pub(super) fn all_free(&self) -> bool {
        self.buffers.all_free() && self.slots.in_use() == 0 && self.messages.iter().all(|state| !state.live)
    }
}

/// The response to a `GetRxMsgInfo` request about a message that has been delivered: it acknowledges all packets of the
/// message. A packet beyond the end of the message is refused.
#[cold]
fn complete(cfg: &NicConfig, request: &RxMsgInfoRequest) -> RxMsgInfo {
    let ack_no = request.msg_len.div_ceil(cfg.mtu).max(1);
    if request.pkt_offset >= ack_no {
        return FAIL;
    }
    RxMsgInfo { fail: false, rx_msg_id: RxMsgInfo::COMPLETE, ack_no, ..FAIL }
}

#[cfg(test)]
mod tests {
    use super::super::buffers::BufferClass;
    use super::*;

    fn cfg() -> NicConfig {
        NicConfig { mtu: 100, rx_timeout: us(50), ..NicConfig::default() }
    }

    const fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    /// Packet `pkt_offset` of a message of 250 bytes with generation `generation` in slot 3 of NIC 7.
    fn packet(generation: u32, pkt_offset: u32) -> RxMsgInfoRequest {
        let tx_msg_id = generation << 16 | 3;
        RxMsgInfoRequest { src_ip: 7, src_context: 1, tx_msg_id, msg_len: 250, pkt_offset, mark_received: true }
    }

    /// The fields of [`RxMsgInfo`] that a test compares: `rx_msg_id`, `is_new_msg`, `is_new_pkt`, `is_last_pkt`,
    /// `ack_no`.
    type Short = (u16, bool, bool, bool, u32);

    fn ask(block: &mut Reassembly, at: u64, request: &RxMsgInfoRequest) -> Option<Short> {
        let (info, _) = block.info(&cfg(), us(at), request);
        (!info.fail).then_some((info.rx_msg_id, info.is_new_msg, info.is_new_pkt, info.is_last_pkt, info.ack_no))
    }

    #[test]
    fn a_message_of_three_packets_out_of_order() {
        let mut block = Reassembly::new(&cfg());
        assert_eq!(ask(&mut block, 0, &packet(1, 1)), Some((0, true, true, false, 0)));
        assert_eq!(ask(&mut block, 0, &packet(1, 1)), Some((0, false, false, false, 0)));
        let trimmed = RxMsgInfoRequest { mark_received: false, ..packet(1, 0) };
        assert_eq!(ask(&mut block, 0, &trimmed), Some((0, false, true, false, 0)));
        assert_eq!(ask(&mut block, 0, &packet(1, 0)), Some((0, false, true, false, 2)));
        assert_eq!(ask(&mut block, 0, &packet(1, 2)), Some((0, false, true, true, 3)));
        let last = Marked { rx_msg_id: 0, pkt_offset: 2, is_last_pkt: true };
        assert_eq!(block.payload(&cfg(), &last), 50);
        assert_eq!(block.complete(0), Completed { src_ip: 7, tx_msg_id: 1 << 16 | 3, bytes: 250 });
        assert_eq!(ask(&mut block, 0, &packet(1, 2)), Some((RxMsgInfo::COMPLETE, false, false, false, 3)));
        assert_eq!(ask(&mut block, 0, &packet(1, 3)), None, "beyond the end of the delivered message");
        assert_eq!(ask(&mut block, 0, &packet(1, u32::MAX)), None);
        assert!(block.all_free() && block.deadline().is_none());
    }

    #[test]
    fn an_unmarked_packet_is_missing() {
        let mut block = Reassembly::new(&cfg());
        ask(&mut block, 0, &packet(1, 0));
        let (_, effect) = block.info(&cfg(), us(0), &packet(1, 1));
        let Effect::Marked(marked) = effect else { panic!("{effect:?}") };
        block.unmark(&marked);
        assert_eq!(ask(&mut block, 0, &packet(1, 2)), Some((0, false, true, false, 1)));
    }

    #[test]
    fn invalid_packets_are_refused() {
        let mut block = Reassembly::new(&cfg());
        assert_eq!(ask(&mut block, 0, &packet(1, 3)), None, "beyond the end of the message");
        assert_eq!(block.active(), 0);
        ask(&mut block, 0, &packet(1, 0));
        assert_eq!(ask(&mut block, 0, &packet(1, u32::MAX)), None);
        assert_eq!(ask(&mut block, 0, &RxMsgInfoRequest { msg_len: 260, ..packet(1, 0) }), None, "another length");
    }

    /// Messages of generations 9, 8 and 10 (successive numbers of the messages in a sender's slot) arrive from one
    /// slot. Generation 8 is refused because it is older than 9. Generation 10 ends the reception of generation 9.
    #[test]
    fn a_newer_message_of_the_slot_ends_the_older() {
        let mut block = Reassembly::new(&cfg());
        ask(&mut block, 0, &packet(9, 0));
        assert_eq!(ask(&mut block, 0, &packet(8, 0)), None);
        assert_eq!(block.superseded(), None);
        assert_eq!(ask(&mut block, 0, &packet(10, 0)), Some((1, true, true, false, 1)), "another rx_msg_id");
        let event = NicEvent::ReceiveExpired { src_ip: 7, tx_msg_id: 9 << 16 | 3 };
        assert_eq!(block.superseded(), Some((0, event)));
        assert_eq!(ask(&mut block, 0, &packet(9, 0)), None);
        assert_eq!(block.active(), 1);
        // Messages of another sender, and of another slot, are independent.
        assert_eq!(
            ask(&mut block, 0, &RxMsgInfoRequest { src_ip: 8, ..packet(1, 0) }),
            Some((0, true, true, false, 1))
        );
        let other = RxMsgInfoRequest { tx_msg_id: 4, ..packet(1, 0) };
        assert_eq!(ask(&mut block, 0, &other), Some((2, true, true, false, 1)));
    }

    #[test]
    fn generations_wrap() {
        let mut block = Reassembly::new(&cfg());
        for generation in 0..200_000u32 {
            for number in 0..3 {
                let last = number == 2;
                let info = ask(&mut block, 0, &packet(generation & 0xffff, number));
                assert_eq!(info, Some((0, number == 0, true, last, number + 1)));
            }
            block.complete(0);
        }
    }

    /// Every packet of a message restarts the message's timer; 50 us after the last packet the reception of the message
    /// expires for good.
    #[test]
    fn incomplete_messages_expire() {
        let mut block = Reassembly::new(&cfg());
        ask(&mut block, 0, &packet(1, 0));
        ask(&mut block, 30, &packet(1, 0));
        assert_eq!((block.timeout(us(50)), block.deadline()), (None, Some(us(80))));
        assert_eq!(block.timeout(us(80)).map(|(number, _)| number), Some(0));
        assert!(block.all_free());
        assert_eq!(ask(&mut block, 81, &packet(1, 1)), None, "the expired message is not received again");
        assert_eq!(ask(&mut block, 82, &packet(2, 1)), Some((0, true, true, false, 0)));
    }

    #[test]
    fn without_a_free_buffer_a_packet_is_refused_and_a_later_one_accepted() {
        let cfg = NicConfig { rx_buffers: vec![BufferClass { bytes: 250, count: 1 }], ..cfg() };
        let mut block = Reassembly::new(&cfg);
        ask(&mut block, 0, &packet(1, 0));
        let other = RxMsgInfoRequest { src_ip: 8, ..packet(5, 0) };
        assert_eq!(block.info(&cfg, us(0), &other), (FAIL, Effect::NoBuffer));
        block.timeout(us(50));
        assert_eq!(ask(&mut block, 60, &other), Some((0, true, true, false, 1)));
        let long = RxMsgInfoRequest { src_ip: 9, msg_len: 251, ..packet(1, 0) };
        assert_eq!(block.info(&cfg, us(0), &long), (FAIL, Effect::NoBuffer));
    }
}
