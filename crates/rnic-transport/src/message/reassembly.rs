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
    /// A message that a newer one in its sender's slot ended: its local number and who it was.
    superseded: Option<(u16, NicEvent)>,
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
            superseded: None,
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
                // The sender has put another message into the slot: it is done with the one before.
                self.superseded = Some((rx_msg_id, self.expire(rx_msg_id)));
                self.begin(cfg, now, request, number)
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
        self.free(rx_msg_id, Fate::Complete);
        done
    }

    /// The message is no longer waited for.
    fn expire(&mut self, rx_msg_id: u16) -> NicEvent {
        let state = &self.messages[usize::from(rx_msg_id)];
        let event = NicEvent::ReceiveExpired { src_ip: state.src_ip, tx_msg_id: state.tx_msg_id };
        self.free(rx_msg_id, Fate::Expired);
        event
    }

    fn free(&mut self, rx_msg_id: u16, fate: Fate) {
        let state = &mut self.messages[usize::from(rx_msg_id)];
        state.live = false;
        self.known[state.known].fate = fate;
        self.buffers.release(state.buffer);
        self.timers.cancel(rx_msg_id);
        self.slots.release(rx_msg_id);
    }

    /// The message that the packet just asked about has ended, if one has.
    #[inline]
    pub(super) fn superseded(&mut self) -> Option<(u16, NicEvent)> {
        self.superseded.take()
    }

    /// When the next timer expires, or earlier.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The next message whose timer has expired by `now`.
    pub(super) fn timeout(&mut self, now: Time) -> Option<(u16, NicEvent)> {
        let rx_msg_id = self.timers.expired(now)?;
        Some((rx_msg_id, self.expire(rx_msg_id)))
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
