//! Reassembly: messages being received, which of their packets are there, and what is known of those that are over.

use super::bits::Bits;
use super::buffers::{Buffer, Buffers};
use super::nic::{Completed, NicConfig, NicEvent};
use super::packetization::is_newer;
use super::slots::{Directory, Slots};
use super::timers::Timers;
use super::{RxMsgInfo, RxMsgInfoRequest, slot};
use crate::Time;

/// What became of the newest message that a sender's slot is known to have held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// None is known: there was no buffer for the first.
    Unknown,
    /// It is being received.
    Active(u16),
    /// It was delivered.
    Complete,
    /// It is no longer waited for.
    Expired,
}

/// What is known of a sender's slot.
#[derive(Clone, Copy, Debug)]
struct Known {
    generation: u16,
    fate: Fate,
}

/// A message being received, or the place for one.
#[derive(Clone, Debug, Default)]
struct RxMessage {
    live: bool,
    src_ip: u32,
    tx_msg_id: u32,
    /// Number of what is known of its slot.
    known: usize,
    bytes: u32,
    packets: u32,
    /// First packet that is missing.
    ack_no: u32,
    received: Bits,
    buffer: Buffer,
}

/// A packet that was marked as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marked {
    pub(super) rx_msg_id: u16,
    pub(super) pkt_offset: u32,
    pub(super) is_last_pkt: bool,
}

/// What `GetRxMsgInfo` did beside answering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// The packet counts as received, and did not before.
    Marked(Marked),
    /// There was no buffer for the message.
    NoBuffer,
}

/// Messages being received.
#[derive(Clone, Debug)]
pub(super) struct Reassembly {
    messages: Vec<RxMessage>,
    slots: Slots,
    /// (sender, slot) to its number in `known`.
    senders: Directory,
    known: Vec<Known>,
    buffers: Buffers,
    timers: Timers,
    /// Messages that newer ones in their senders' slots ended: their local numbers and who they were.
    superseded: Vec<(u16, NicEvent)>,
}

const FAIL: RxMsgInfo =
    RxMsgInfo { fail: true, rx_msg_id: 0, is_new_msg: false, is_new_pkt: false, is_last_pkt: false, ack_no: 0 };

impl Reassembly {
    pub(super) fn new(cfg: &NicConfig) -> Reassembly {
        Reassembly {
            messages: Vec::new(),
            slots: Slots::default(),
            senders: Directory::default(),
            known: Vec::new(),
            buffers: Buffers::new(&cfg.rx_buffers),
            timers: Timers::default(),
            superseded: Vec::new(),
        }
    }

    /// `GetRxMsgInfo`.
    pub(super) fn info(&mut self, cfg: &NicConfig, now: Time, request: &RxMsgInfoRequest) -> (RxMsgInfo, Effect) {
        let generation = (request.tx_msg_id >> 16) as u16;
        let (number, is_new) = self.senders.number(request.src_ip, slot(request.tx_msg_id) as u16);
        if is_new {
            self.known.push(Known { generation, fate: Fate::Unknown });
        }
        let known = self.known[number];
        match known.fate {
            Fate::Unknown => self.begin(cfg, now, request, number),
            Fate::Active(rx_msg_id) if known.generation == generation => {
                self.answer(cfg, now, request, rx_msg_id, false)
            }
            Fate::Complete if known.generation == generation => (complete(cfg, request), Effect::None),
            Fate::Active(rx_msg_id) if is_newer(generation, known.generation) => {
                // The sender has put another message into the slot: it is done with the one before. Its buffer may serve the new
                // one, but not its number: the program has not heard yet that it is free.
                let event = self.end(rx_msg_id, Fate::Expired);
                self.superseded.push((rx_msg_id, event));
                let begun = self.begin(cfg, now, request, number);
                self.slots.release(rx_msg_id);
                begun
            }
            _ if is_newer(generation, known.generation) => self.begin(cfg, now, request, number),
            _ => (FAIL, Effect::None),
        }
    }

    /// The first packet of a message.
    fn begin(&mut self, cfg: &NicConfig, now: Time, request: &RxMsgInfoRequest, known: usize) -> (RxMsgInfo, Effect) {
        let packets = request.msg_len.div_ceil(cfg.mtu).max(1);
        if request.pkt_offset >= packets {
            return (FAIL, Effect::None);
        }
        let Ok(buffer) = self.buffers.allocate(request.msg_len) else { return (FAIL, Effect::NoBuffer) };
        let Some(rx_msg_id) = self.slots.allocate() else {
            self.buffers.release(buffer);
            return (FAIL, Effect::NoBuffer);
        };
        let place = usize::from(rx_msg_id);
        if place == self.messages.len() {
            self.messages.push(RxMessage::default());
        }
        let mut received = std::mem::take(&mut self.messages[place].received);
        received.reset(packets);
        self.messages[place] = RxMessage {
            live: true,
            src_ip: request.src_ip,
            tx_msg_id: request.tx_msg_id,
            known,
            bytes: request.msg_len,
            packets,
            ack_no: 0,
            received,
            buffer,
        };
        self.known[known] = Known { generation: (request.tx_msg_id >> 16) as u16, fate: Fate::Active(rx_msg_id) };
        self.answer(cfg, now, request, rx_msg_id, true)
    }

    /// A packet of a message being received.
    #[inline]
    fn answer(
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
        self.timers.set(rx_msg_id, now.saturating_add(cfg.garbage), cfg.timer_scan);
        let marked = Marked { rx_msg_id, pkt_offset: request.pkt_offset, is_last_pkt };
        (info, if request.mark_received && is_new_pkt { Effect::Marked(marked) } else { Effect::None })
    }

    /// Bytes of payload in a packet of a message being received.
    pub(super) fn payload(&self, cfg: &NicConfig, packet: &Marked) -> u32 {
        let state = &self.messages[usize::from(packet.rx_msg_id)];
        (state.bytes - packet.pkt_offset * cfg.mtu).min(cfg.mtu)
    }

    /// The packet does not count as received after all.
    pub(super) fn unmark(&mut self, packet: &Marked) {
        let state = &mut self.messages[usize::from(packet.rx_msg_id)];
        state.received.clear(packet.pkt_offset);
        state.ack_no = state.ack_no.min(packet.pkt_offset);
    }

    /// The whole message goes to the application.
    pub(super) fn complete(&mut self, rx_msg_id: u16) -> Completed {
        let state = &self.messages[usize::from(rx_msg_id)];
        let done = Completed { src_ip: state.src_ip, tx_msg_id: state.tx_msg_id, bytes: state.bytes };
        self.end(rx_msg_id, Fate::Complete);
        self.slots.release(rx_msg_id);
        done
    }

    /// Frees all that a message has but its number; returns what to say if it was not delivered.
    fn end(&mut self, rx_msg_id: u16, fate: Fate) -> NicEvent {
        let state = &mut self.messages[usize::from(rx_msg_id)];
        state.live = false;
        self.known[state.known].fate = fate;
        self.buffers.release(state.buffer);
        self.timers.cancel(rx_msg_id);
        NicEvent::ReceiveExpired { src_ip: state.src_ip, tx_msg_id: state.tx_msg_id }
    }

    /// The next message that was ended by the packet just asked about.
    #[inline]
    pub(super) fn superseded(&mut self) -> Option<(u16, NicEvent)> {
        self.superseded.pop()
    }

    /// When the next timer expires, or earlier.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The next message whose timer has expired by `now`.
    pub(super) fn timeout(&mut self, now: Time) -> Option<(u16, NicEvent)> {
        let rx_msg_id = self.timers.expired(now)?;
        let event = self.end(rx_msg_id, Fate::Expired);
        self.slots.release(rx_msg_id);
        Some((rx_msg_id, event))
    }

    /// Messages being received.
    pub(super) fn active(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether every buffer is free.
    pub(super) fn all_free(&self) -> bool {
        self.buffers.all_free() && self.slots.in_use() == 0 && self.messages.iter().all(|state| !state.live)
    }
}

/// A packet of a message that has been delivered: its sender is to know of all packets.
#[cold]
fn complete(cfg: &NicConfig, request: &RxMsgInfoRequest) -> RxMsgInfo {
    let ack_no = request.msg_len.div_ceil(cfg.mtu).max(1);
    RxMsgInfo { fail: false, rx_msg_id: RxMsgInfo::COMPLETE, ack_no, ..FAIL }
}

#[cfg(test)]
mod tests {
    use super::super::buffers::BufferClass;
    use super::*;

    fn cfg() -> NicConfig {
        NicConfig { mtu: 100, garbage: us(50), ..NicConfig::default() }
    }

    const fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    /// Packet `pkt_offset` of the message of 250 bytes with generation `generation` in slot 3 of NIC 7.
    fn packet(generation: u32, pkt_offset: u32) -> RxMsgInfoRequest {
        let tx_msg_id = generation << 16 | 3;
        RxMsgInfoRequest { src_ip: 7, src_context: 1, tx_msg_id, msg_len: 250, pkt_offset, mark_received: true }
    }

    /// rx_msg_id, new message, new packet, last packet, first packet missing.
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
        assert!(block.all_free() && block.deadline().is_none());
    }

    #[test]
    fn what_is_not_marked_is_missing() {
        let mut block = Reassembly::new(&cfg());
        ask(&mut block, 0, &packet(1, 0));
        let (_, effect) = block.info(&cfg(), us(0), &packet(1, 1));
        let Effect::Marked(marked) = effect else { panic!("{effect:?}") };
        block.unmark(&marked);
        assert_eq!(ask(&mut block, 0, &packet(1, 2)), Some((0, false, true, false, 1)));
    }

    #[test]
    fn packets_that_cannot_be() {
        let mut block = Reassembly::new(&cfg());
        assert_eq!(ask(&mut block, 0, &packet(1, 3)), None, "beyond the message");
        assert_eq!(block.active(), 0);
        ask(&mut block, 0, &packet(1, 0));
        assert_eq!(ask(&mut block, 0, &packet(1, u32::MAX)), None);
        assert_eq!(ask(&mut block, 0, &RxMsgInfoRequest { msg_len: 260, ..packet(1, 0) }), None, "another length");
    }

    /// Generations 9, 10, 8 of one slot: 10 ends 9, and 8 and 9 are old from then on.
    #[test]
    fn a_newer_message_of_the_slot_ends_the_older() {
        let mut block = Reassembly::new(&cfg());
        ask(&mut block, 0, &packet(9, 0));
        assert_eq!(ask(&mut block, 0, &packet(8, 0)), None);
        assert_eq!(block.superseded(), None);
        assert_eq!(ask(&mut block, 0, &packet(10, 0)), Some((1, true, true, false, 1)), "another number");
        let event = NicEvent::ReceiveExpired { src_ip: 7, tx_msg_id: 9 << 16 | 3 };
        assert_eq!(block.superseded(), Some((0, event)));
        assert_eq!(ask(&mut block, 0, &packet(9, 0)), None);
        assert_eq!(block.active(), 1);
        // Another sender's and another slot's messages are others.
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

    /// Every packet sets the timer anew; after 50 us of silence the message is over for good.
    #[test]
    fn garbage_is_collected() {
        let mut block = Reassembly::new(&cfg());
        ask(&mut block, 0, &packet(1, 0));
        ask(&mut block, 30, &packet(1, 0));
        assert_eq!((block.timeout(us(50)), block.deadline()), (None, Some(us(80))));
        assert_eq!(block.timeout(us(80)).map(|(number, _)| number), Some(0));
        assert!(block.all_free());
        assert_eq!(ask(&mut block, 81, &packet(1, 1)), None, "its first packet is lost");
        assert_eq!(ask(&mut block, 82, &packet(2, 1)), Some((0, true, true, false, 0)));
    }

    #[test]
    fn without_a_buffer_the_packet_is_refused_and_a_later_one_may_do() {
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
