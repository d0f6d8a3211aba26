//! Steps of reassembly: the state of the messages that are being received, with its timers and buffers.

use super::core::{Call, Core, Follows, MTU, SEGMENTS, Stores, TimerSteps};
use super::{BlockSteps, Encode, Step, WORDS, padded};
use rnic_transport::message::{NicEvent, RxMsgInfo, RxMsgInfoRequest};
use std::collections::BTreeMap;

/// The probability 1 / n that another sender, or another slot of the sender, takes over a row of the table.
const ROW_TAKEN_OVER: u64 = 150;
/// The probability 1 / n that a sender begins a new message.
const NEW_MESSAGE: u64 = 40;
/// For a new message: the probability 1 / n that its generation is not the next one.
const GENERATIONS_SKIPPED: u64 = 8;
/// The probability 1 / n that a packet is beyond the end of its message.
const BEYOND_THE_END: u64 = 80;
/// The probability 1 / n that a request does not mark its packet as received.
const NOT_MARKED: u64 = 8;

/// A message as identified by its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Reception {
    src_ip: u32,
    tx_msg_id: u32,
    bytes: u32,
}

/// An input of reassembly at the time `now` in nanoseconds.
struct Input {
    now: u32,
    action: Action,
}

enum Action {
    /// Asks to which message a packet belongs.
    Request(RxMsgInfoRequest),
    /// The program's verdict on a packet after the response to its request.
    Verdict {
        /// Whether the request marked the packet as received.
        marked: bool,
        stores: Option<Stores>,
        response: RxMsgInfo,
        pkt_offset: u32,
    },
    /// The buffer of a complete message is freed.
    Complete {
        rx_msg_id: u16,
    },
    CheckTimer {
        slot: u32,
    },
}

enum Output {
    Response {
        info: RxMsgInfo,
        marked: bool,
        /// The reception that ended because its sender began a newer message.
        superseded: Option<Reception>,
    },
    Verdict {
        /// Whether the verdict contradicts the response.
        is_wrong: bool,
        is_stored: bool,
        completes: bool,
    },
    Completed(Reception),
    /// The reception that expired.
    Timer(Option<Reception>),
}

impl Encode for Input {
    fn words(&self) -> [u32; WORDS] {
        let now = self.now;
        match &self.action {
            Action::Request(request) => {
                let RxMsgInfoRequest { src_ip, tx_msg_id, msg_len, pkt_offset, mark_received, .. } = *request;
                padded(&[u32::from(mark_received) << 2, now, src_ip, tx_msg_id, msg_len, pkt_offset])
            }
            Action::Verdict { marked, stores, response, pkt_offset } => {
                // If the verdict does not store the packet, the block must ignore these words.
                let RxMsgInfo { rx_msg_id, is_last_pkt, .. } = *response;
                let named = stores.unwrap_or(Stores { rx_msg_id, pkt_offset: *pkt_offset, is_last_pkt });
                let flags = 1
                    | u32::from(*marked) << 2
                    | u32::from(stores.is_some()) << 3
                    | u32::from(named.is_last_pkt) << 4
                    | u32::from(is_last_pkt) << 5;
                let ids = u32::from(named.rx_msg_id) | u32::from(rx_msg_id) << 16;
                padded(&[flags, now, 0, 0, 0, named.pkt_offset, ids, *pkt_offset])
            }
            Action::Complete { rx_msg_id } => padded(&[2, now, 0, 0, 0, 0, u32::from(*rx_msg_id)]),
            Action::CheckTimer { slot } => padded(&[3, now, 0, 0, 0, 0, *slot]),
        }
    }
}

impl Encode for Output {
    fn words(&self) -> [u32; WORDS] {
        match self {
            Output::Response { info, marked, superseded } => {
                let flags = u32::from(info.fail)
                    | u32::from(info.is_new_msg) << 1
                    | u32::from(info.is_new_pkt) << 2
                    | u32::from(info.is_last_pkt) << 3
                    | u32::from(*marked) << 4
                    | u32::from(superseded.is_some()) << 5;
                let Reception { src_ip, tx_msg_id, bytes } = superseded.unwrap_or_default();
                padded(&[0, flags, u32::from(info.rx_msg_id), info.ack_no, src_ip, tx_msg_id, bytes])
            }
            Output::Verdict { is_wrong, is_stored, completes } => {
                padded(&[1, u32::from(*is_wrong) | u32::from(*is_stored) << 2 | u32::from(*completes) << 3])
            }
            Output::Completed(Reception { src_ip, tx_msg_id, bytes }) => {
                padded(&[2, 0, 0, 0, *src_ip, *tx_msg_id, *bytes])
            }
            Output::Timer(None) => padded(&[3]),
            Output::Timer(Some(Reception { src_ip, tx_msg_id, bytes })) => {
                padded(&[3, 1 << 5, 0, 0, *src_ip, *tx_msg_id, *bytes])
            }
        }
    }
}

/// A sender's slot for messages: its address and the low bits of its message IDs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    ip: u32,
    slot: u16,
}

/// Low bits of a sender's address and slot, which select a row of the block's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    ip: u32,
    slot: u16,
}

impl Row {
    /// The sender that uses the row after `n` takeovers. Another sender and another slot of the same sender take over
    /// alternately.
    fn sender(self, takeovers: u32) -> Sender {
        let high_ip = takeovers.div_ceil(2) << 8;
        let high_slot = ((takeovers / 2) << 4) as u16 & 0xfff0;
        Sender { ip: 0x0a00_0100 + self.ip + high_ip, slot: self.slot + high_slot }
    }
}

/// The newest message of a sender's slot.
#[derive(Clone, Copy, Default)]
struct Sending {
    generation: u16,
    bytes: u32,
}

pub(super) struct ReassemblySteps {
    core: Core,
    /// The newest message of each sender's slot.
    newest: BTreeMap<Sender, Sending>,
    takeovers: BTreeMap<Row, u32>,
    /// The message in each slot of the receiver.
    receiving: BTreeMap<u16, Reception>,
}

impl ReassemblySteps {
    pub(super) fn new(rtx_needs_credit: bool, seed: u64) -> ReassemblySteps {
        let core = Core::new(rtx_needs_credit, seed);
        ReassemblySteps { core, newest: BTreeMap::new(), takeovers: BTreeMap::new(), receiving: BTreeMap::new() }
    }

    fn push(&self, steps: &mut Vec<Step>, kind: &'static str, action: Action, output: &Output) {
        steps.push(Step::new(kind, &Input { now: self.core.now_word(), action }, output));
    }

    /// The time until the next input in nanoseconds: mostly 0.
    fn pause_ns(&mut self) -> u64 {
        match self.core.random.below(200) {
            0 => self.core.random.below(60_000),
            1..20 => self.core.random.below(2_000),
            _ => 0,
        }
    }

    /// Chooses a sender. In some periods only few senders are active, so that messages become complete.
    fn sender(&mut self) -> Sender {
        let few_hosts = self.core.now % 100_000 < 50_000;
        let few_slots = self.core.now % 70_000 < 35_000;
        let row = Row {
            ip: self.core.random.below(if few_hosts { 3 } else { 16 }) as u32,
            slot: self.core.random.below(if few_slots { 2 } else { 16 }) as u16,
        };
        // Another sender, or another slot, can take over a row whose message has ended. The previous sender does not
        // use the row again: only the core, not the hardware, would still know its last message.
        let is_taken_over = self.core.random.one_in(ROW_TAKEN_OVER);
        let takeovers = self.takeovers.get(&row).copied().unwrap_or(0);
        let sender = row.sender(takeovers);
        let is_active = |message: &Reception| message.src_ip == sender.ip && message.tx_msg_id as u16 == sender.slot;
        if !is_taken_over || self.receiving.values().any(is_active) {
            return sender;
        }
        self.takeovers.insert(row, takeovers + 1);
        self.newest.remove(&sender);
        row.sender(takeovers + 1)
    }

    /// Returns the newest message of a sender, or begins a new one.
    fn message(&mut self, sender: Sender) -> Sending {
        let known = self.newest.get(&sender).copied();
        let continued = known.filter(|_| !self.core.random.one_in(NEW_MESSAGE));
        if let Some(message) = continued {
            return message;
        }
        let random = &mut self.core.random;
        let bytes = match random.below(4) {
            0 => SEGMENTS * MTU + random.below(3) as u32 - 1,
            1 => random.below(3) as u32 * MTU,
            2 => random.below(5_000) as u32,
            _ => random.below(u64::from(SEGMENTS * MTU)) as u32,
        };
        let first_generation = random.bits32() as u16;
        let generation = match known {
            None => first_generation,
            Some(known) => {
                let skipped = if random.one_in(GENERATIONS_SKIPPED) { random.below(40_000) as u16 } else { 0 };
                known.generation.wrapping_add(1 + skipped)
            }
        };
        let message = Sending { generation, bytes };
        self.newest.insert(sender, message);
        message
    }

    fn request(&mut self) -> RxMsgInfoRequest {
        let sender = self.sender();
        let Sending { mut generation, mut bytes } = self.message(sender);
        let random = &mut self.core.random;
        // Some packets belong to an earlier message, or contradict earlier packets.
        match random.below(60) {
            0 => generation = generation.wrapping_sub(random.below(3) as u16),
            1 => bytes = bytes.wrapping_add(1),
            _ => {}
        }
        let packets = bytes.div_ceil(MTU).max(1);
        let pkt_offset = match random.one_in(BEYOND_THE_END) {
            true => packets + random.below(3) as u32,
            false => random.below(u64::from(packets)) as u32,
        };
        RxMsgInfoRequest {
            src_ip: sender.ip,
            src_context: 0,
            tx_msg_id: u32::from(generation) << 16 | u32::from(sender.slot),
            msg_len: bytes,
            pkt_offset,
            mark_received: !random.one_in(NOT_MARKED),
        }
    }

    /// Chooses whether the program's verdict follows the response; mostly it does.
    fn follows(&mut self) -> Follows {
        match self.core.random.below(50) {
            0 => Follows::Drops,
            1 => Follows::NamesAnother,
            _ => Follows::Yes,
        }
    }

    /// Records the core's response to a request.
    fn respond(&mut self, steps: &mut Vec<Step>, request: RxMsgInfoRequest, info: RxMsgInfo, marked: bool) {
        let expired: Vec<u16> = std::mem::take(&mut self.core.nic.program_mut().expired);
        self.core.events();
        let superseded = expired.first().and_then(|id| self.receiving.remove(id));
        let is_delivered = info.rx_msg_id == RxMsgInfo::COMPLETE;
        if !info.fail && !is_delivered {
            let RxMsgInfoRequest { src_ip, tx_msg_id, msg_len, .. } = request;
            self.receiving.insert(info.rx_msg_id, Reception { src_ip, tx_msg_id, bytes: msg_len });
        }
        let kind = if info.fail {
            "request fails"
        } else if superseded.is_some() {
            "superseded"
        } else if is_delivered {
            "of a delivered message"
        } else if info.is_new_msg {
            "new message"
        } else if info.is_new_pkt {
            "new packet"
        } else {
            "duplicate"
        };
        self.push(steps, kind, Action::Request(request), &Output::Response { info, marked, superseded });
    }

    /// Records that a message is complete.
    fn complete(&mut self, steps: &mut Vec<Step>, rx_msg_id: u16, message: Reception) {
        self.receiving.remove(&rx_msg_id);
        // A complete message does not expire, although its data are still in the buffer.
        let later = (self.core.now + 1_000 * self.core.random.below(100)) as u32;
        let check = Input { now: later, action: Action::CheckTimer { slot: u32::from(rx_msg_id) } };
        steps.push(Step::new("timer", &check, &Output::Timer(None)));
        self.push(steps, "complete", Action::Complete { rx_msg_id }, &Output::Completed(message));
    }
}

impl BlockSteps for ReassemblySteps {
    fn extend(&mut self, steps: &mut Vec<Step>) {
        let ns = self.pause_ns();
        self.wait(steps, ns);
        let request = self.request();
        let follows = self.follows();
        let errors = self.core.nic.counters().program_errors;
        let received = self.core.call(Call::Info(request, follows));
        let info = self.core.nic.program().info;
        let marked = !info.fail && info.is_new_pkt && request.mark_received;
        self.respond(steps, request, info, marked);
        if info.fail {
            return;
        }
        let stores = self.core.nic.program().verdict;
        let is_wrong = self.core.nic.counters().program_errors > errors;
        let kind = if is_wrong { "contradiction" } else { "verdict" };
        let action = Action::Verdict { marked, stores, response: info, pkt_offset: request.pkt_offset };
        let is_stored = marked && !is_wrong && stores.is_some();
        let completes = received.completed.is_some();
        self.push(steps, kind, action, &Output::Verdict { is_wrong, is_stored, completes });
        if let Some(completed) = received.completed {
            let message =
                Reception { src_ip: completed.src_ip, tx_msg_id: completed.tx_msg_id, bytes: completed.bytes };
            self.complete(steps, info.rx_msg_id, message);
        }
    }
}

impl TimerSteps for ReassemblySteps {
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn check_timer(&mut self, steps: &mut Vec<Step>, slot: u32, now: u32, _events: &[NicEvent]) {
        let expired = self.core.nic.program().expired.iter().any(|id| u32::from(*id) == slot);
        let reception = if expired { self.receiving.remove(&(slot as u16)) } else { None };
        let kind = if reception.is_some() { "reception expires" } else { "timer" };
        let input = Input { now, action: Action::CheckTimer { slot } };
        steps.push(Step::new(kind, &input, &Output::Timer(reception)));
    }
}
