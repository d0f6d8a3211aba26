//! Steps of packetization: the state of the messages that are being sent, with its timers and buffers.

use super::core::{Call, Core, MTU, SEGMENTS, SMALL_BUFFER, TimerSteps};
use super::{BlockSteps, Encode, Step, WORDS, padded};
use rnic_transport::Time;
use rnic_transport::message::{CreditToBtxEvent, DeliveredEvent, Departure, Message, NicEvent};
use std::collections::BTreeMap;

/// Number of the most recently sent messages to which events refer.
const REMEMBERED: usize = 24;
/// The probability 1 / n that an event refers to a random message ID.
const ANY_MESSAGE: u64 = 20;
/// The probability 1 / n that an event has a random packet number.
const ANY_NUMBER: u64 = 12;
/// Numbers of new messages and of opportunities to send among 100 inputs.
const NEW_MESSAGES: u64 = 14;
const TRANSMISSIONS: u64 = 46;
/// Number of acknowledgements among 100 inputs; the others are credits and requests.
const ACKNOWLEDGEMENTS: u64 = 22;

/// An input of packetization at the time `now` in nanoseconds.
struct Input {
    now: u32,
    action: Action,
}

enum Action {
    Send(Message),
    Delivered(DeliveredEvent),
    Credit(CreditToBtxEvent),
    Transmit,
    CheckTimer { slot: u32 },
}

enum Output {
    /// ID of the new message; `None` if no buffer is free.
    Sent(Option<u32>),
    /// Whether the message is complete.
    Delivered {
        is_complete: bool,
    },
    Credited,
    Packet(Option<Departure>),
    Timer(TimerState),
}

enum TimerState {
    NotExpired,
    /// The message is retransmitted.
    Timeout,
    /// The message is aborted, after the maximum number of timeouts.
    Aborted,
}

impl Encode for Input {
    fn words(&self) -> [u32; WORDS] {
        let now = self.now;
        match &self.action {
            Action::Send(message) => {
                let contexts = u32::from(message.src_context) << 16 | u32::from(message.dst_context);
                padded(&[0, now, 0, message.dst_ip, contexts, message.bytes])
            }
            Action::Delivered(event) => {
                let DeliveredEvent { tx_msg_id, before, pkt_offset, bitmap } = *event;
                padded(&[1, now, tx_msg_id, before, pkt_offset, 0, bitmap as u32, (bitmap >> 32) as u32])
            }
            Action::Credit(event) => {
                let CreditToBtxEvent { tx_msg_id, pkt_offset, bitmap, credit } = *event;
                // If the flag is not set, the block must ignore the credit.
                let (more, credit) = (u32::from(credit.is_some()), credit.unwrap_or(9));
                padded(&[2, now, tx_msg_id, more, pkt_offset, credit, bitmap as u32, (bitmap >> 32) as u32])
            }
            Action::Transmit => padded(&[3, now]),
            Action::CheckTimer { slot } => padded(&[4, now, *slot]),
        }
    }
}

impl Encode for Output {
    fn words(&self) -> [u32; WORDS] {
        match self {
            Output::Sent(None) => padded(&[0, 0]),
            Output::Sent(Some(id)) => padded(&[0, 1, *id]),
            Output::Delivered { is_complete } => padded(&[1, u32::from(*is_complete)]),
            Output::Credited => padded(&[2, 0]),
            Output::Packet(None) => padded(&[3, 0]),
            Output::Packet(Some(packet)) => {
                let contexts = u32::from(packet.src_context) << 16 | u32::from(packet.dst_context);
                let Departure { tx_msg_id, dst_ip, msg_len, pkt_offset, credit, .. } = *packet;
                let last = u32::from(packet.is_rtx) << 15 | u32::from(packet.is_new_msg) << 14 | packet.payload;
                padded(&[3, 1, tx_msg_id, dst_ip, contexts, msg_len, pkt_offset, credit, last])
            }
            Output::Timer(TimerState::NotExpired) => padded(&[4, 0]),
            Output::Timer(TimerState::Aborted) => padded(&[4, 2]),
            Output::Timer(TimerState::Timeout) => padded(&[4, 4]),
        }
    }
}

pub(super) struct PacketizationSteps {
    core: Core,
    /// IDs of sent messages, the newest last.
    sent: Vec<u32>,
    /// ID of the message with each tag.
    ids: BTreeMap<u32, u32>,
    next_tag: u32,
}

impl PacketizationSteps {
    pub(super) fn new(rtx_needs_credit: bool, seed: u64) -> PacketizationSteps {
        let core = Core::new(rtx_needs_credit, seed);
        PacketizationSteps { core, sent: Vec::new(), ids: BTreeMap::new(), next_tag: 0 }
    }

    fn push(&self, steps: &mut Vec<Step>, kind: &'static str, action: Action, output: &Output) {
        steps.push(Step::new(kind, &Input { now: self.core.now_word(), action }, output));
    }

    /// The time until the next input in nanoseconds: mostly 0.
    fn pause_ns(&mut self) -> u64 {
        match self.core.random.below(40) {
            0 => self.core.random.below(9_000),
            1..4 => self.core.random.below(600),
            4..12 => self.core.random.below(40),
            _ => 0,
        }
    }

    /// Chooses a message length near the size of a packet, of a buffer or of the longest message, or any length.
    fn length(&mut self) -> u32 {
        let random = &mut self.core.random;
        match random.below(8) {
            0 => random.below(3) as u32 * MTU,
            1 => SMALL_BUFFER + random.below(3) as u32 - 1,
            2 => SEGMENTS * MTU + random.below(3) as u32 - 1,
            3 => random.below(5_000) as u32,
            _ => random.below(u64::from(SEGMENTS * MTU)) as u32,
        }
    }

    fn send(&mut self, steps: &mut Vec<Step>) {
        let bytes = self.length();
        let random = &mut self.core.random;
        let message = Message {
            dst_ip: random.below(4) as u32 + 0x0a00_0000,
            dst_context: random.below(1 << 16) as u16,
            src_context: random.below(1 << 16) as u16,
            bytes,
            tag: self.next_tag,
        };
        let id = self.core.nic.send(&self.core.cfg, Time::from_ns(self.core.now), &message).ok();
        if let Some(id) = id {
            self.ids.insert(self.next_tag, id);
            self.next_tag += 1;
            self.ids.remove(&self.next_tag.wrapping_sub(1_000));
            self.sent.push(id);
            if self.sent.len() > REMEMBERED {
                self.sent.remove(0);
            }
        }
        let kind = if id.is_some() { "message" } else { "no buffer" };
        self.push(steps, kind, Action::Send(message), &Output::Sent(id));
    }

    fn transmit(&mut self, steps: &mut Vec<Step>) {
        let packet = self.core.transmit();
        let kind = match &packet {
            None => "nothing to send",
            Some(packet) if packet.is_rtx => "retransmission",
            Some(_) => "packet",
        };
        self.push(steps, kind, Action::Transmit, &Output::Packet(packet));
    }

    /// Chooses the ID of a sent message, or any ID.
    fn message_id(&mut self) -> u32 {
        let any = self.core.random.bits32() & 0x0003_000f;
        if self.sent.is_empty() || self.core.random.one_in(ANY_MESSAGE) {
            return any;
        }
        self.sent[self.core.random.below(self.sent.len() as u64) as usize]
    }

    /// Chooses a packet number that is valid in a message of any length, or any number.
    fn packet_number(&mut self) -> u32 {
        if self.core.random.one_in(ANY_NUMBER) {
            return self.core.random.bits32();
        }
        self.core.random.below(u64::from(SEGMENTS) + 3) as u32
    }

    /// Chooses the packets that an event names: one, or any.
    fn bitmap(&mut self) -> u64 {
        let random = &mut self.core.random;
        match random.below(3) {
            0 => 1,
            1 => random.bits64() & random.bits64(),
            _ => random.bits64() >> random.below(64),
        }
    }

    fn acknowledge(&mut self, steps: &mut Vec<Step>, tx_msg_id: u32) {
        let bitmap = self.bitmap();
        let before = if self.core.random.one_in(2) { 0 } else { self.packet_number() };
        let event = DeliveredEvent { tx_msg_id, before, pkt_offset: self.packet_number(), bitmap };
        self.core.call(Call::Delivered(event));
        let is_complete = !self.core.events().is_empty();
        let kind = if is_complete { "message delivered" } else { "acknowledgement" };
        self.push(steps, kind, Action::Delivered(event), &Output::Delivered { is_complete });
    }

    fn credit(&mut self, steps: &mut Vec<Step>, tx_msg_id: u32) {
        let bitmap = self.bitmap();
        let bitmap = if self.core.random.one_in(2) { 0 } else { bitmap };
        let pkt_offset = self.packet_number();
        let credit = (!self.core.random.one_in(3)).then(|| self.packet_number());
        let event = CreditToBtxEvent { tx_msg_id, pkt_offset, bitmap, credit };
        self.core.call(Call::Credit(event));
        self.push(steps, "credit or request", Action::Credit(event), &Output::Credited);
    }
}

impl BlockSteps for PacketizationSteps {
    fn extend(&mut self, steps: &mut Vec<Step>) {
        let ns = self.pause_ns();
        self.wait(steps, ns);
        let choice = self.core.random.below(100);
        if choice < NEW_MESSAGES {
            self.send(steps);
        } else if choice < NEW_MESSAGES + TRANSMISSIONS {
            self.transmit(steps);
        } else {
            let tx_msg_id = self.message_id();
            if choice < NEW_MESSAGES + TRANSMISSIONS + ACKNOWLEDGEMENTS {
                self.acknowledge(steps, tx_msg_id);
            } else {
                self.credit(steps, tx_msg_id);
            }
        }
    }
}

impl TimerSteps for PacketizationSteps {
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn check_timer(&mut self, steps: &mut Vec<Step>, slot: u32, now: u32, events: &[NicEvent]) {
        let is_in_slot = |tag: &u32| self.ids.get(tag).is_some_and(|id| id & 0xffff == slot);
        let mut state = TimerState::NotExpired;
        for event in events {
            match event {
                NicEvent::Timeout { tag } if is_in_slot(tag) => state = TimerState::Timeout,
                NicEvent::Aborted { tag } if is_in_slot(tag) => state = TimerState::Aborted,
                _ => {}
            }
        }
        let kind = match state {
            TimerState::NotExpired => "timer",
            TimerState::Timeout => "timeout",
            TimerState::Aborted => "abort",
        };
        steps.push(Step::new(kind, &Input { now, action: Action::CheckTimer { slot } }, &Output::Timer(state)));
    }
}
