//! Steps of the packet generator with its pacer.

use super::core::{Call, Core};
use super::{BlockSteps, Encode, Step, WORDS, padded};
use rnic_transport::message::{CtrlPktEvent, Departure};

/// If no packets wait: the probability 1 / n of a long pause.
const LONG_PAUSE: u64 = 40;
/// If no packets wait: the probability 1 / n that the trace fills a queue.
const FULL_QUEUE: u64 = 40;
/// The probability 1 / n that time passes between two steps.
const TIME_PASSES: u64 = 4;
/// Interval of the pacer in nanoseconds. The pacer releases one packet per interval, and at most one packet between two
/// steps.
const PACE_NS: u64 = 40;
/// Duration in nanoseconds of a part of a long pause. Four parts are longer than half of the range of 32-bit times.
const PAUSE_NS: u64 = 900_000_000;
/// Number of packets in a queue from which on the generator accepts no further events; the queue has 64 slots.
const QUEUE_LIMIT: u32 = 60;
/// Number of waiting packets from which on the trace adds no further events.
const MAX_WAITING: u32 = 24;

/// An input of the generator at the time `now` in nanoseconds.
#[derive(Clone, Copy)]
struct Input {
    now: u32,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    /// The pacer may release a packet.
    AdvancePacer,
    /// An event of the ingress pipeline.
    Event(CtrlPktEvent),
    /// The generator sends a packet, if one waits.
    Transmit,
    /// Asks whether the generator accepts no further events.
    IsFull,
}

enum Output {
    Nothing,
    Packet(Departure),
    IsFull(bool),
}

/// The fields of a control packet in the order of the generator's queue.
fn fields(packet: &Departure) -> [u32; 7] {
    let contexts = u32::from(packet.src_context) << 16 | u32::from(packet.dst_context);
    let Departure { dst_ip, tx_msg_id, msg_len, pkt_offset, credit, rank, .. } = *packet;
    [dst_ip, contexts, tx_msg_id, msg_len, pkt_offset, credit, u32::from(rank)]
}

impl Encode for Input {
    fn words(&self) -> [u32; WORDS] {
        match &self.action {
            Action::AdvancePacer => padded(&[0, self.now]),
            Action::Event(event) => {
                let packet = Departure {
                    dst_ip: event.dst_ip,
                    dst_context: event.dst_context,
                    src_context: event.src_context,
                    tx_msg_id: event.tx_msg_id,
                    msg_len: event.msg_len,
                    pkt_offset: event.pkt_offset,
                    credit: event.credit,
                    rank: event.rank,
                    ..Departure::default()
                };
                let flags = u32::from(event.immediate) | u32::from(event.paced) << 8;
                let mut words = padded(&[1, self.now, flags]);
                words[3..].copy_from_slice(&fields(&packet));
                words
            }
            Action::Transmit => padded(&[2, self.now]),
            Action::IsFull => padded(&[3, self.now]),
        }
    }
}

impl Encode for Output {
    fn words(&self) -> [u32; WORDS] {
        match self {
            Output::Nothing => padded(&[]),
            Output::Packet(packet) => {
                let mut words = padded(&[1, u32::from(packet.flags), 0]);
                words[3..].copy_from_slice(&fields(packet));
                words
            }
            Output::IsFull(is_full) => padded(&[u32::from(*is_full)]),
        }
    }
}

pub(super) struct GeneratorSteps {
    core: Core,
    /// Maximum number of control packets that wait in the generator.
    waiting: u32,
    /// Number of [`Action::AdvancePacer`] so far.
    pacer_steps: u64,
}

impl GeneratorSteps {
    pub(super) fn new(rtx_needs_credit: bool, seed: u64) -> GeneratorSteps {
        GeneratorSteps { core: Core::new(rtx_needs_credit, seed), waiting: 0, pacer_steps: 0 }
    }

    fn push(&self, steps: &mut Vec<Step>, kind: &'static str, action: Action, output: &Output) {
        steps.push(Step::new(kind, &Input { now: self.core.now_word(), action }, output));
    }

    fn advance_pacer(&mut self, steps: &mut Vec<Step>) {
        self.pacer_steps += 1;
        self.push(steps, "pacer", Action::AdvancePacer, &Output::Nothing);
    }

    /// Adds an event with a random packet and the flags `immediate` and `paced`.
    fn event(&mut self, steps: &mut Vec<Step>, immediate: u8, paced: u8) {
        let random = &mut self.core.random;
        let event = CtrlPktEvent {
            dst_ip: random.bits32(),
            dst_context: random.bits32() as u16,
            src_context: random.bits32() as u16,
            tx_msg_id: random.bits32(),
            msg_len: random.bits32(),
            pkt_offset: random.bits32(),
            credit: random.bits32(),
            rank: random.bits32() as u8,
            immediate,
            paced,
        };
        self.core.call(Call::Control(event));
        self.waiting += u32::from(immediate != 0) + u32::from(paced != 0);
        let kind = match (immediate, paced) {
            (0, 0) => "event without flags",
            (0, _) => "paced",
            (_, 0) => "immediate",
            _ => "immediate and paced",
        };
        self.push(steps, kind, Action::Event(event), &Output::Nothing);
    }

    /// Adds a pause that is longer than half of the range of 32-bit times.
    fn long_pause(&mut self, steps: &mut Vec<Step>) {
        for _ in 0..4 {
            self.core.now += PAUSE_NS;
            self.push(steps, "pause", Action::AdvancePacer, &Output::Nothing);
        }
        self.event(steps, 0, 1);
    }

    /// Fills a queue up to [`QUEUE_LIMIT`].
    fn full_queue(&mut self, steps: &mut Vec<Step>) {
        self.core.now += 1_000;
        self.advance_pacer(steps);
        let (immediate, paced) = if self.core.random.one_in(2) { (1, 0) } else { (0, 1) };
        // The pacer is free, so the first paced packet does not wait.
        for _ in 0..QUEUE_LIMIT - 1 + u32::from(paced) {
            self.event(steps, immediate, paced);
        }
        self.push(steps, "room in a queue", Action::IsFull, &Output::IsFull(false));
        self.event(steps, immediate, paced);
        self.push(steps, "full queue", Action::IsFull, &Output::IsFull(true));
    }

    /// Chooses no flag or one flag at random.
    fn flag(&mut self) -> u8 {
        if self.core.random.one_in(3) { 0 } else { 1 << self.core.random.below(8) }
    }
}

impl BlockSteps for GeneratorSteps {
    fn extend(&mut self, steps: &mut Vec<Step>) {
        let is_idle = self.core.nic.next_transmit().is_none();
        if is_idle && self.core.random.one_in(LONG_PAUSE) {
            return self.long_pause(steps);
        }
        if is_idle && self.core.random.one_in(FULL_QUEUE) {
            return self.full_queue(steps);
        }
        if self.core.random.one_in(TIME_PASSES) {
            self.core.now += self.core.random.below(PACE_NS);
        }
        self.advance_pacer(steps);
        // In the second half of each 1,000 pacer steps, the trace adds few events, so that all packets leave.
        let is_busy = self.pacer_steps % 1_000 < 500;
        if self.waiting < MAX_WAITING && self.core.random.below(if is_busy { 5 } else { 50 }) < 2 {
            let immediate = self.flag();
            let paced = self.flag();
            return self.event(steps, immediate, paced);
        }
        match self.core.transmit() {
            Some(packet) => {
                let is_empty = self.core.nic.next_transmit().is_none();
                self.waiting = if is_empty { 0 } else { self.waiting.saturating_sub(1) };
                self.push(steps, "packet", Action::Transmit, &Output::Packet(packet));
            }
            None => self.push(steps, "nothing to send", Action::Transmit, &Output::Nothing),
        }
    }
}
