//! Random steps of a fixed-function block, and what the transport core does in each.
//!
//! The core is a [`MessageNic`] whose program has no rules of its own: the header of a packet says which function of
//! the blocks it calls, and the header of a departing packet is what the blocks pass to the egress pipeline.

use super::blocks::Block;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rnic_transport::Time;
use rnic_transport::message::PacketHeader;
use rnic_transport::message::{
    Arrival, Blocks, BufferClass, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Message,
    MessageNic, NicConfig, NicEvent, Pipeline, RxMsgInfo, RxMsgInfoRequest, Verdict,
};
use std::collections::BTreeMap;

/// Words of a step and of a result.
pub(super) const WORDS: usize = 10;
/// Packets of the longest message.
const SEGMENTS: u32 = 38;
const MTU: u32 = 1_024;
/// Messages of each direction.
const SLOTS: u32 = 16;

/// A step of a block and its result in the core.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: &'static str,
    pub(super) words: [u32; WORDS],
    pub(super) expected: [u32; WORDS],
}

/// A packet that says which function of the blocks it calls, or with which metadata it departed.
#[derive(Clone, Copy, Default)]
enum Scripted {
    #[default]
    Nothing,
    Delivered(DeliveredEvent),
    Credit(CreditToBtxEvent),
    Control(CtrlPktEvent),
    /// A request, and whether the program's verdict follows its answer.
    Info(RxMsgInfoRequest, Follows),
    Departed(Departure),
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Follows {
    #[default]
    Yes,
    Drops,
    NamesAnother,
}

/// The program that does what a packet says.
#[derive(Default)]
struct Script {
    info: RxMsgInfo,
    verdict: Option<(u16, u32, bool)>,
    expired: Vec<u16>,
}

impl PacketHeader for Scripted {}

impl Pipeline for Script {
    type Header = Scripted;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &Scripted, _: &Arrival<'_>) -> Verdict {
        self.verdict = None;
        match header {
            Scripted::Delivered(event) => blocks.delivered(event),
            Scripted::Credit(event) => blocks.credit_to_btx(event),
            Scripted::Control(event) => blocks.ctrl_pkt(event),
            Scripted::Info(request, follows) => {
                self.info = blocks.get_rx_msg_info(request);
                let wanted = !self.info.fail && self.info.is_new_pkt && request.mark_received;
                let pkt_offset = request.pkt_offset + u32::from(*follows == Follows::NamesAnother);
                if (wanted && *follows != Follows::Drops) || (!wanted && *follows == Follows::NamesAnother) {
                    let (rx_msg_id, is_last_pkt) = (self.info.rx_msg_id, self.info.is_last_pkt);
                    self.verdict = Some((rx_msg_id, pkt_offset, is_last_pkt));
                    return Verdict::Reassemble { rx_msg_id, pkt_offset, is_last_pkt };
                }
            }
            Scripted::Nothing | Scripted::Departed(_) => {}
        }
        Verdict::Consumed
    }

    fn egress(&mut self, departure: &Departure) -> Framed<Scripted> {
        Framed { header: Scripted::Departed(*departure), priority: 0 }
    }

    fn expired(&mut self, rx_msg_id: u16) {
        self.expired.push(rx_msg_id);
    }
}

/// The newest message of a sender's slot, as the trace knows it.
#[derive(Clone, Copy, Default)]
struct Sending {
    generation: u16,
    bytes: u32,
}

/// The source of a block's steps.
pub(super) struct Source {
    block: Block,
    random: Pcg64Mcg,
    cfg: NicConfig,
    nic: MessageNic<Script>,
    now: u64,
    /// Ids of sent messages, the newest last.
    sent: Vec<u32>,
    /// Message of each tag.
    tags: BTreeMap<u32, u32>,
    next_tag: u32,
    senders: BTreeMap<(u32, u16), Sending>,
    /// How often another sender or slot took over a row of the table, by low bits of sender and slot.
    takers: BTreeMap<(u32, u16), u32>,
    /// Message that each slot of the receiver has.
    receiving: BTreeMap<u16, (u32, u32, u32)>,
    /// Control packets that wait in the generator, at most.
    waiting: u32,
    seen: BTreeMap<&'static str, u64>,
}

impl Source {
    pub(super) fn new(block: Block, rtx_needs_credit: bool, seed: u64) -> Source {
        let small = BufferClass { bytes: 4_096, count: 7 };
        let buffers = vec![small, BufferClass { bytes: SEGMENTS * MTU, count: 8 }];
        let cfg = NicConfig {
            mtu: MTU,
            rtt_pkts: 9,
            timeout: Time::from_us(7),
            max_timeouts: 3,
            rx_timeout: Time::from_us(49),
            rtx_needs_credit,
            pace: Time::from_ns(40),
            tx_buffers: buffers.clone(),
            rx_buffers: buffers,
            ..NicConfig::default()
        };
        Source {
            block,
            random: Pcg64Mcg::new((u128::from(seed) << 64 | 0x5d4c_3b2a_1908_f7e6) | 1),
            nic: MessageNic::new(&cfg, Script::default()),
            cfg,
            now: 0,
            sent: Vec::new(),
            tags: BTreeMap::new(),
            next_tag: 0,
            senders: BTreeMap::new(),
            takers: BTreeMap::new(),
            receiving: BTreeMap::new(),
            waiting: 0,
            seen: BTreeMap::new(),
        }
    }

    /// How often each kind of step occurred.
    pub(super) fn seen(&self) -> Vec<(&'static str, u64)> {
        self.seen.iter().map(|(kind, count)| (*kind, *count)).collect()
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    fn push(&mut self, steps: &mut Vec<Step>, kind: &'static str, words: &[u32], expected: &[u32]) {
        let fill = |from: &[u32]| {
            let mut all = [0; WORDS];
            all[..from.len()].copy_from_slice(from);
            all
        };
        *self.seen.entry(kind).or_default() += 1;
        steps.push(Step { kind, words: fill(words), expected: fill(expected) });
    }

    /// Adds the next steps.
    pub(super) fn extend(&mut self, steps: &mut Vec<Step>) {
        match self.block {
            Block::Packetization => self.packetization(steps),
            Block::Reassembly => self.reassembly(steps),
            Block::Generator => self.generator(steps),
            Block::Arbiter => self.arbiter(steps),
        }
    }

    fn receive(&mut self, header: Scripted) -> rnic_transport::message::Received {
        let now = Time::from_ns(self.now);
        let arrival = Arrival { now, frame_bytes: 64, trimmed: false, returned: false, marked: false, telemetry: None };
        self.nic.receive(&self.cfg, &header, &arrival)
    }

    /// Time passes; the timers that expire meanwhile are looked at in the order of slots, at their time.
    fn wait(&mut self, steps: &mut Vec<Step>, ns: u64) {
        let until = self.now + ns;
        while let Some(deadline) = self.nic.deadline().filter(|deadline| *deadline <= Time::from_ns(until)) {
            self.now = deadline.as_ps() / 1_000;
            // One nanosecond earlier no timer expires.
            let looked = self.below(u64::from(SLOTS)) as u32;
            self.look(steps, looked, (self.now - 1) as u32, &[]);
            self.nic.on_deadline(&self.cfg, deadline);
            let events: Vec<NicEvent> = std::iter::from_fn(|| self.nic.poll_event()).collect();
            for slot in 0..SLOTS {
                self.look(steps, slot, self.now as u32, &events);
            }
            self.nic.program_mut().expired.clear();
        }
        self.now = until;
    }

    /// A look at the timer of a slot, after which the core had `events`.
    fn look(&mut self, steps: &mut Vec<Step>, slot: u32, now: u32, events: &[NicEvent]) {
        if self.block == Block::Reassembly {
            let position = self.nic.program().expired.iter().position(|id| u32::from(*id) == slot);
            let message = position.and_then(|_| self.receiving.remove(&(slot as u16)));
            let words = [3, now, 0, 0, 0, 0, slot];
            match message {
                Some((src_ip, tx_msg_id, bytes)) => {
                    self.push(steps, "reception expires", &words, &[3, 1 << 5, 0, 0, src_ip, tx_msg_id, bytes]);
                }
                None => self.push(steps, "timer", &words, &[3]),
            }
            return;
        }
        let of_slot = |tag: &u32| self.tags.get(tag).is_some_and(|id| id & 0xffff == slot);
        let mut flags = 0;
        let mut kind = "timer";
        for event in events {
            match event {
                NicEvent::Timeout { tag } if of_slot(tag) => (flags, kind) = (4, "timeout"),
                NicEvent::Aborted { tag } if of_slot(tag) => (flags, kind) = (2, "abort"),
                _ => {}
            }
        }
        self.push(steps, kind, &[4, now, slot], &[4, flags]);
    }

    fn packetization(&mut self, steps: &mut Vec<Step>) {
        let ns = match self.below(40) {
            0 => self.below(9_000),
            1..4 => self.below(600),
            4..12 => self.below(40),
            _ => 0,
        };
        self.wait(steps, ns);
        let now = self.now as u32;
        match self.below(100) {
            0..14 => {
                let bytes = match self.below(8) {
                    0 => self.below(3) as u32 * MTU,
                    1 => 4_096 + self.below(3) as u32 - 1,
                    2 => SEGMENTS * MTU + self.below(3) as u32 - 1,
                    3 => self.below(5_000) as u32,
                    _ => self.below(u64::from(SEGMENTS * MTU)) as u32,
                };
                let message = Message {
                    dst_ip: self.below(4) as u32 + 0x0a00_0000,
                    dst_context: self.below(1 << 16) as u16,
                    src_context: self.below(1 << 16) as u16,
                    bytes,
                    tag: self.next_tag,
                };
                let contexts = u32::from(message.src_context) << 16 | u32::from(message.dst_context);
                let words = [0, now, 0, message.dst_ip, contexts, bytes];
                match self.nic.send(&self.cfg, Time::from_ns(self.now), &message) {
                    Ok(id) => {
                        self.tags.insert(self.next_tag, id);
                        self.next_tag += 1;
                        self.tags.remove(&self.next_tag.wrapping_sub(1_000));
                        self.sent.push(id);
                        if self.sent.len() > 24 {
                            self.sent.remove(0);
                        }
                        self.push(steps, "message", &words, &[0, 1, id]);
                    }
                    Err(_) => self.push(steps, "no buffer", &words, &[0, 0]),
                }
            }
            14..60 => {
                let packet = self.nic.poll_transmit(&self.cfg, Time::from_ns(self.now));
                let words = [3, now];
                let Some(Scripted::Departed(d)) = packet.map(|packet| packet.header) else {
                    self.push(steps, "nothing to send", &words, &[3, 0]);
                    return;
                };
                let contexts = u32::from(d.src_context) << 16 | u32::from(d.dst_context);
                let last = u32::from(d.is_rtx) << 15 | u32::from(d.is_new_msg) << 14 | d.payload;
                let kind = if d.is_rtx { "retransmission" } else { "packet" };
                let expected = [3, 1, d.tx_msg_id, d.dst_ip, contexts, d.msg_len, d.pkt_offset, d.credit, last];
                self.push(steps, kind, &words, &expected);
            }
            kind => {
                let mut id = self.random.next_u32() & 0x0003_000f;
                if !self.sent.is_empty() && self.below(20) != 0 {
                    let chosen = self.below(self.sent.len() as u64) as usize;
                    id = self.sent[chosen];
                }
                let number = |source: &mut Self| match source.below(12) {
                    0 => source.random.next_u32(),
                    _ => source.below(u64::from(SEGMENTS) + 3) as u32,
                };
                if kind < 82 {
                    let bitmap = match self.below(3) {
                        0 => 1,
                        1 => self.random.next_u64() & self.random.next_u64(),
                        _ => self.random.next_u64() >> self.below(64),
                    };
                    let before = if self.below(2) == 0 { 0 } else { number(self) };
                    let event = DeliveredEvent { tx_msg_id: id, before, pkt_offset: number(self), bitmap };
                    self.receive(Scripted::Delivered(event));
                    let complete = std::iter::from_fn(|| self.nic.poll_event()).count() as u32;
                    let words = [1, now, id, before, event.pkt_offset, 0, bitmap as u32, (bitmap >> 32) as u32];
                    let kind = if complete == 1 { "message delivered" } else { "acknowledgement" };
                    self.push(steps, kind, &words, &[1, complete]);
                } else {
                    let rtx = (self.below(2) == 0).then(|| number(self));
                    let credit = (self.below(3) != 0).then(|| number(self));
                    self.receive(Scripted::Credit(CreditToBtxEvent { tx_msg_id: id, rtx, credit }));
                    let flags = u32::from(rtx.is_some()) | u32::from(credit.is_some()) << 1;
                    let words = [2, now, id, flags, rtx.unwrap_or(7), credit.unwrap_or(9)];
                    self.push(steps, "credit or request", &words, &[2, 0]);
                }
            }
        }
    }

    fn reassembly(&mut self, steps: &mut Vec<Step>) {
        let ns = match self.below(200) {
            0 => self.below(60_000),
            1..20 => self.below(2_000),
            _ => 0,
        };
        self.wait(steps, ns);
        let now = self.now as u32;
        // Few senders at a time are busy, so that messages get complete.
        let low_ip = self.below(if self.now % 100_000 < 50_000 { 3 } else { 16 }) as u32;
        let low_slot = self.below(if self.now % 70_000 < 35_000 { 2 } else { 16 }) as u16;
        // The table has a row for the low bits of both. Now and then another sender, or another slot, takes over a row
        // whose message has ended; the earlier one does not return, because only the core would still know it.
        let takes_over = self.below(150) == 0;
        let turn = self.takers.get(&(low_ip, low_slot)).copied().unwrap_or(0);
        let place = |turn: u32| {
            let (ip, slot) = (turn.div_ceil(2) << 8, ((turn / 2) << 4) as u16 & 0xfff0);
            (0x0a00_0100 + low_ip + ip, low_slot + slot)
        };
        let (mut src_ip, mut slot) = place(turn);
        let is_active = |(ip, id, _): &(u32, u32, u32)| *ip == src_ip && *id as u16 == slot;
        if takes_over && !self.receiving.values().any(is_active) {
            self.takers.insert((low_ip, low_slot), turn + 1);
            self.senders.remove(&(src_ip, slot));
            (src_ip, slot) = place(turn + 1);
        }
        let mut known = self.senders.get(&(src_ip, slot)).copied();
        let begins = known.is_none() || self.below(40) == 0;
        if begins {
            let bytes = match self.below(4) {
                0 => SEGMENTS * MTU + self.below(3) as u32 - 1,
                1 => self.below(3) as u32 * MTU,
                2 => self.below(5_000) as u32,
                _ => self.below(u64::from(SEGMENTS * MTU)) as u32,
            };
            let generation = known.map_or(self.random.next_u32() as u16, |known| {
                known.generation.wrapping_add(1 + if self.below(8) == 0 { self.below(40_000) as u16 } else { 0 })
            });
            known = Some(Sending { generation, bytes });
            self.senders.insert((src_ip, slot), Sending { generation, bytes });
        }
        let Sending { mut generation, mut bytes } = known.unwrap_or_default();
        match self.below(60) {
            0 => generation = generation.wrapping_sub(self.below(3) as u16),
            1 => bytes = bytes.wrapping_add(1),
            _ => {}
        }
        let packets = u64::from(bytes.div_ceil(MTU).max(1));
        let pkt_offset =
            if self.below(80) == 0 { packets as u32 + self.below(3) as u32 } else { self.below(packets) as u32 };
        let request = RxMsgInfoRequest {
            src_ip,
            src_context: 0,
            tx_msg_id: u32::from(generation) << 16 | u32::from(slot),
            msg_len: bytes,
            pkt_offset,
            mark_received: self.below(8) != 0,
        };
        let follows = match self.below(50) {
            0 => Follows::Drops,
            1 => Follows::NamesAnother,
            _ => Follows::Yes,
        };
        let errors = self.nic.counters().program_errors;
        let received = self.receive(Scripted::Info(request, follows));
        let info = self.nic.program().info;
        let marked = !info.fail && info.is_new_pkt && request.mark_received;
        let superseded: Vec<u16> = std::mem::take(&mut self.nic.program_mut().expired);
        while self.nic.poll_event().is_some() {}
        let gone = superseded.first().and_then(|id| self.receiving.remove(id));
        if !info.fail && info.rx_msg_id != RxMsgInfo::COMPLETE {
            self.receiving.insert(info.rx_msg_id, (src_ip, request.tx_msg_id, bytes));
        }
        let flags = u32::from(info.fail)
            | u32::from(info.is_new_msg) << 1
            | u32::from(info.is_new_pkt) << 2
            | u32::from(info.is_last_pkt) << 3
            | u32::from(marked) << 4
            | u32::from(gone.is_some()) << 5;
        let id = u32::from(info.rx_msg_id);
        // A message id that has been superseded and reused does not exist here: the core keeps the id until the end.
        let (ip, old_id, old_bytes) = gone.unwrap_or_default();
        let mark = u32::from(request.mark_received) << 2;
        let words = [mark, now, src_ip, request.tx_msg_id, bytes, pkt_offset];
        let kind = match (info.fail, gone.is_some(), info.rx_msg_id == RxMsgInfo::COMPLETE) {
            (true, _, _) => "request fails",
            (_, true, _) => "superseded",
            (_, _, true) => "of a delivered message",
            _ if info.is_new_msg => "new message",
            _ if info.is_new_pkt => "new packet",
            _ => "duplicate",
        };
        self.push(steps, kind, &words, &[0, flags, id, info.ack_no, ip, old_id, old_bytes]);
        if info.fail {
            return;
        }
        // The verdict about the packet.
        let verdict = self.nic.program().verdict;
        let (wanted_id, wanted_offset, wanted_last) = verdict.unwrap_or((info.rx_msg_id, pkt_offset, info.is_last_pkt));
        let word = 1
            | u32::from(marked) << 2
            | u32::from(verdict.is_some()) << 3
            | u32::from(wanted_last) << 4
            | u32::from(info.is_last_pkt) << 5;
        let words = [word, now, 0, 0, 0, wanted_offset, u32::from(wanted_id) | id << 16, pkt_offset];
        let wrong = u32::from(self.nic.counters().program_errors > errors);
        let stored = u32::from(marked && wrong == 0 && verdict.is_some());
        let last = u32::from(received.completed.is_some());
        let kind = if wrong == 1 { "contradiction" } else { "verdict" };
        self.push(steps, kind, &words, &[1, wrong | stored << 2 | last << 3]);
        if let Some(completed) = received.completed {
            self.receiving.remove(&info.rx_msg_id);
            // A complete message does not expire, although it is still in its buffer.
            let later = (self.now + 1_000 * self.below(100)) as u32;
            self.push(steps, "timer", &[3, later, 0, 0, 0, 0, id], &[3]);
            let words = [2, now, 0, 0, 0, 0, id];
            let expected = [2, 0, 0, 0, completed.src_ip, completed.tx_msg_id, completed.bytes];
            self.push(steps, "complete", &words, &expected);
        }
    }

    fn generator(&mut self, steps: &mut Vec<Step>) {
        let is_idle = self.nic.next_transmit().is_none();
        if is_idle && self.below(40) == 0 {
            // A pause longer than half of the range of times.
            for _ in 0..4 {
                self.now += 900_000_000;
                self.push(steps, "pause", &[0, self.now as u32], &[]);
            }
            return self.control(steps, 0, 1);
        }
        if is_idle && self.below(40) == 0 {
            return self.full_queue(steps);
        }
        // Between two steps the pacer releases one packet at most.
        self.now += if self.below(4) == 0 { self.below(40) } else { 0 };
        let now = self.now as u32;
        self.push(steps, "pacer", &[0, now], &[]);
        // Without events for some time, all packets leave.
        let is_busy = self.seen["pacer"] % 1_000 < 500;
        if self.waiting < 24 && self.below(if is_busy { 5 } else { 50 }) < 2 {
            let mut flag = || if self.below(3) == 0 { 0 } else { 1 << self.below(8) };
            let (immediate, paced) = (flag(), flag());
            return self.control(steps, immediate, paced);
        }
        match self.nic.poll_transmit(&self.cfg, Time::from_ns(self.now)).map(|packet| packet.header) {
            Some(Scripted::Departed(d)) => {
                self.waiting = if self.nic.next_transmit().is_none() { 0 } else { self.waiting.saturating_sub(1) };
                let mut expected = vec![1, u32::from(d.flags), 0];
                expected.extend(fields(&d));
                self.push(steps, "packet", &[2, now], &expected);
            }
            _ => self.push(steps, "nothing to send", &[2, now], &[]),
        }
    }

    /// Fills a queue up to the bound from which the generator wants no further events: 60 of 64 packets.
    fn full_queue(&mut self, steps: &mut Vec<Step>) {
        self.now += 1_000;
        self.push(steps, "pacer", &[0, self.now as u32], &[]);
        let (immediate, paced) = if self.below(2) == 0 { (1, 0) } else { (0, 1) };
        // The pacer is free, so the first paced packet does not wait.
        for _ in 0..59 + u32::from(paced) {
            self.control(steps, immediate, paced);
        }
        let now = self.now as u32;
        self.push(steps, "room in a queue", &[3, now], &[]);
        self.control(steps, immediate, paced);
        self.push(steps, "full queue", &[3, now], &[1]);
    }

    /// An event with a random packet.
    fn control(&mut self, steps: &mut Vec<Step>, immediate: u8, paced: u8) {
        let now = self.now as u32;
        let event = CtrlPktEvent {
            dst_ip: self.random.next_u32(),
            dst_context: self.random.next_u32() as u16,
            src_context: self.random.next_u32() as u16,
            tx_msg_id: self.random.next_u32(),
            msg_len: self.random.next_u32(),
            pkt_offset: self.random.next_u32(),
            credit: self.random.next_u32(),
            rank: self.random.next_u32() as u8,
            immediate,
            paced,
        };
        self.receive(Scripted::Control(event));
        self.waiting += u32::from(immediate != 0) + u32::from(paced != 0);
        let mut words = vec![1, now, u32::from(immediate) | u32::from(paced) << 8];
        words.extend(fields(&Departure {
            dst_ip: event.dst_ip,
            dst_context: event.dst_context,
            src_context: event.src_context,
            tx_msg_id: event.tx_msg_id,
            msg_len: event.msg_len,
            pkt_offset: event.pkt_offset,
            credit: event.credit,
            rank: event.rank,
            ..Departure::default()
        }));
        let kind = match (immediate, paced) {
            (0, 0) => "event without flags",
            (0, _) => "paced",
            (_, 0) => "immediate",
            _ => "immediate and paced",
        };
        self.push(steps, kind, &words, &[]);
    }

    fn arbiter(&mut self, steps: &mut Vec<Step>) {
        let requests = self.random.next_u32() & self.random.next_u32() & 0xffff;
        let requests = requests & (0xffff << self.below(17));
        let kind = if requests == 0 { "no request" } else { "request" };
        // The lowest bit.
        self.push(steps, kind, &[0, 0, requests], &[requests & requests.wrapping_neg()]);
    }
}

/// The fields of a control packet in the order of the generator's queue, as words.
fn fields(d: &Departure) -> [u32; 7] {
    let contexts = u32::from(d.src_context) << 16 | u32::from(d.dst_context);
    [d.dst_ip, contexts, d.tx_msg_id, d.msg_len, d.pkt_offset, d.credit, u32::from(d.rank)]
}
