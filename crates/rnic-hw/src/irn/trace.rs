//! Traces: IRN flows over a network that loses, reorders and duplicates packets, with peers that may send any response.

use super::record::{self, SenderInputs, push_received, push_receiver, push_result, push_sender};
use super::sender::{Response, TracedSender, timeouts};
use super::{Block, Parameters};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rnic_transport::pdu::Stamp;
use rnic_transport::random::below;
use rnic_transport::recovery::{IrnReceiver, ReceiveRecovery};
use rnic_transport::{FlowConfig, Pdu, PduKind, Psn, Time};
use std::collections::BTreeMap;

/// Number of steps with each event, by the name of the event.
pub(super) type EventCounts = BTreeMap<&'static str, u64>;

/// Steps of one block, and their expected results.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) steps: Vec<u32>,
    pub(super) expected: Vec<u32>,
    pub(super) count: usize,
}

/// The batches of all blocks; `None` for a block that is not compared.
pub(super) type Batches = [Option<Batch>; 6];

/// A step of a sender's block: number and result.
struct SenderStep<'s> {
    block: Block,
    inputs: SenderInputs,
    before: &'s record::Sender,
    outputs: [u32; 2],
    after: &'s record::Sender,
}

impl SenderStep<'_> {
    fn push(&self, batches: &mut Batches, queue_pair: u32) {
        let tag = record::tag(self.block as u32, queue_pair);
        for (block, tag) in [(self.block, 0), (Block::Senders, tag)] {
            let Some(batch) = &mut batches[block as usize] else { continue };
            push_sender(&mut batch.steps, &SenderInputs { tag, ..self.inputs }, self.before);
            push_result(&mut batch.expected, block, self.outputs, self.after, tag);
            batch.count += 1;
        }
    }
}

/// How a flow's network and peer behave, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Profile {
    loss: u64,
    response_loss: u64,
    reordering: u64,
    duplication: u64,
    hostile: u64,
    /// Maximum time between two steps, in nanoseconds.
    max_gap_ns: u64,
}

/// Random numbers of a trace.
#[derive(Debug)]
pub(super) struct Random(pub(super) Pcg64Mcg);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        below(self.0.next_u64(), bound)
    }
    fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1_000) < thousandths
    }
    fn psn(&mut self) -> Psn {
        Psn::new(self.0.next_u64() as u32)
    }
    /// A PSN at most `max_distance` before or after `psn`.
    fn near(&mut self, psn: Psn, max_distance: u32) -> Psn {
        psn.plus(Psn::MODULUS - max_distance).plus(self.below(2 * u64::from(max_distance) + 1) as u32)
    }
}

/// One flow with its network.
#[derive(Debug)]
pub(super) struct Flow {
    parameters: Parameters,
    queue_pair: u32,
    cfg: FlowConfig,
    profile: Profile,
    now: u64,
    end: Psn,
    sender: TracedSender,
    receiver: IrnReceiver,
    /// The receiver's registers, including the MSN and the marks of packets, which the core does not have.
    shadow: record::Receiver,
    salt: u64,
    /// Data packets in flight: PSN and timestamp.
    data: Vec<(Psn, u32)>,
    responses: Vec<Response>,
    steps_left: u64,
}

impl Flow {
    pub(super) fn new(parameters: Parameters, queue_pair: u32, random: &mut Random, batches: &mut Batches) -> Flow {
        let near_wrap = random.chance(500);
        let first = if near_wrap { Psn::new(Psn::MODULUS - 1 - random.below(600) as u32) } else { random.psn() };
        let cfg = FlowConfig { first_psn: first, ..parameters.flow_config() };
        let per_mille = |random: &mut Random, share: u64, bound: u64| {
            if random.chance(share) { random.below(bound) } else { 0 }
        };
        let profile = Profile {
            loss: per_mille(random, 600, 200),
            response_loss: per_mille(random, 500, 200),
            reordering: per_mille(random, 500, 400),
            duplication: per_mille(random, 300, 100),
            hostile: per_mille(random, 250, 150),
            max_gap_ns: [500, 2_000, 50_000][random.below(3) as usize],
        };
        let words = parameters.window() as usize / 64;
        let flow = Flow {
            queue_pair,
            profile,
            now: if near_wrap { (1 << 32) - random.below(3_000_000) } else { random.below(1 << 34) },
            end: first,
            sender: TracedSender::new(parameters, &cfg),
            receiver: IrnReceiver::new(&cfg, u64::MAX, Time::ZERO),
            shadow: record::Receiver {
                expected: first.value(),
                msn: random.psn().value(),
                first: vec![0; words],
                second: vec![0; words],
            },
            salt: random.0.next_u64(),
            data: Vec::new(),
            responses: Vec::new(),
            steps_left: 100 + random.below(8_000),
            parameters,
            cfg,
        };
        flow.connect(batches);
        flow
    }

    /// The steps that write the contexts of a new connection.
    fn connect(&self, batches: &mut Batches) {
        let tag = record::tag(0, self.queue_pair);
        let psn = self.cfg.first_psn.value();
        if let Some(batch) = &mut batches[Block::Senders as usize] {
            let state = self.registers();
            let inputs = SenderInputs { psn, tag, ..SenderInputs::default() };
            push_sender(&mut batch.steps, &inputs, &state);
            push_result(&mut batch.expected, Block::Senders, [0, 0], &state, tag);
            batch.count += 1;
        }
        if let Some(batch) = &mut batches[Block::Receivers as usize] {
            push_receiver(&mut batch.steps, psn, 0, &self.shadow, tag);
            push_received(&mut batch.expected, [0, psn, 0], &self.shadow, tag);
            batch.count += 1;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.steps_left == 0
    }

    /// One step of one block.
    pub(super) fn step(&mut self, random: &mut Random, batches: &mut Batches, counts: &mut EventCounts) {
        self.steps_left -= 1;
        self.now += random.below(self.profile.max_gap_ns);
        let (first_missing, in_flight) = self.sender.window();
        let queued = self.end.since(first_missing);
        if queued < in_flight + 2 && random.chance(300) {
            let packets = 1 + random.below(300) as u32;
            self.end = self.end.plus(packets);
            self.sender.extend(packets);
        }
        match random.below(100) {
            0..25 => self.tx_free(random, batches, counts),
            25..50 => self.receive_data(random, batches, counts),
            50..75 => self.receive_ack(random, batches, counts),
            _ => self.timeout(random, batches, counts),
        }
    }

    fn tx_free(&mut self, random: &mut Random, batches: &mut Batches, counts: &mut EventCounts) {
        let window = if random.chance(150) { random.below(u64::from(self.cfg.bdp_cap) + 3) as u32 } else { 0xff_ffff };
        let inputs = self.inputs(SenderInputs { window, psn: self.end.value(), ..SenderInputs::default() });
        let before = self.registers();
        let pick = self.sender.tx_free(&self.cfg, self.now, window, self.end);
        let after = self.registers();
        // If no packet can be sent, the block's output still has the PSN of the next new packet.
        let (psn, last, retransmission) = pick.unwrap_or((Psn::new(before.next), false, false));
        let flags = u32::from(pick.is_some()) | u32::from(last) << 1 | u32::from(retransmission) << 2;
        let outputs = [flags, psn.value()];
        SenderStep { block: Block::TxFree, inputs, before: &before, outputs, after: &after }
            .push(batches, self.queue_pair);
        let (_, in_flight) = self.sender.window();
        count(
            counts,
            match pick {
                Some((_, _, false)) if last => "new packet, the last",
                Some((_, _, false)) => "new packet",
                Some(_) if before.retransmit_first => "retransmission of the first missing packet",
                Some(_) => "retransmission of a lost packet",
                None if in_flight >= self.cfg.bdp_cap => "no packet: BDP cap",
                None if in_flight >= window => "no packet: congestion window",
                None => "no packet: send queue empty",
            },
        );
        if pick.is_some() {
            let packet = (psn, self.now as u32);
            if !random.chance(self.profile.loss) {
                self.data.push(packet);
            }
            if random.chance(self.profile.duplication) {
                self.data.push(packet);
            }
        }
    }

    /// Takes the next packet that arrives from the packets in flight: the oldest, or with reordering any other.
    fn next_arrival<T: Copy>(in_flight: &mut Vec<T>, random: &mut Random, profile: Profile) -> Option<T> {
        if in_flight.is_empty() {
            return None;
        }
        let index = if random.chance(profile.reordering) { random.below(in_flight.len() as u64) as usize } else { 0 };
        Some(if random.chance(profile.duplication) { in_flight[index] } else { in_flight.remove(index) })
    }

    /// Marks of a packet: whether it ends a message, and whether the message completes a Receive.
    fn marks(&self, psn: Psn) -> u32 {
        let hash = (u64::from(psn.value()) ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
        [0, 0, 0, 1, 1, 3, 2, 3][hash as usize]
    }

    fn receive_data(&mut self, random: &mut Random, batches: &mut Batches, counts: &mut EventCounts) {
        let expected = Psn::new(self.shadow.expected);
        let packet = if random.chance(self.profile.hostile) {
            let max_distance = self.parameters.window() + 3;
            let psn = if random.chance(100) { random.psn() } else { random.near(expected, max_distance) };
            Some((psn, random.0.next_u64() as u32))
        } else {
            Flow::next_arrival(&mut self.data, random, self.profile)
        };
        // If no packet is in flight, an old packet arrives again.
        let (psn, stamp) = packet.unwrap_or((expected.plus(Psn::MODULUS - 1), self.now as u32));
        let tags = [(Block::ReceiveData, 0), (Block::Receivers, record::tag(1, self.queue_pair))];
        for (block, tag) in tags {
            if let Some(batch) = &mut batches[block as usize] {
                push_receiver(&mut batch.steps, psn.value(), self.marks(psn), &self.shadow, tag);
            }
        }
        let stamp = Stamp::at(Time::from_ns(stamp.into()));
        let pdu = Pdu::data_with(psn, stamp);
        let outcome = self.receiver.on_data(&self.cfg, Time::from_ns(self.now), pdu);
        let receives = self.shadow_receive(psn, outcome.discarded, counts);
        let nack = outcome.reply.is_some_and(|reply| reply.kind() == PduKind::Nack);
        let flags = u32::from(outcome.reply.is_some()) | u32::from(nack) << 1 | u32::from(outcome.discarded) << 2;
        for (block, tag) in tags {
            if let Some(batch) = &mut batches[block as usize] {
                push_received(&mut batch.expected, [flags, psn.value(), receives], &self.shadow, tag);
                batch.count += 1;
            }
        }
        count(
            counts,
            match (outcome.reply.is_some(), nack, outcome.discarded) {
                (false, ..) => "data beyond the window",
                (_, true, false) => "data out of order",
                (_, true, true) => "data out of order, duplicate",
                (_, false, false) => "data in order",
                (_, false, true) => "data before the expected packet",
            },
        );
        if let Some(reply) = outcome.reply.filter(|_| !random.chance(self.profile.response_loss)) {
            let trigger = nack.then(|| reply.trigger());
            self.responses.push(Response { expected: reply.psn(), trigger, stamp: reply.stamp().as_ns() });
        }
    }

    /// Updates the receiver's shadow registers from the core's registers, and returns the number of completed Receives.
    fn shadow_receive(&mut self, psn: Psn, discarded: bool, counts: &mut EventCounts) -> u32 {
        let bits = self.parameters.window();
        let marks = self.marks(psn);
        let registers = self.receiver.registers();
        let before = Psn::new(self.shadow.expected);
        let after = registers.expected;
        let locate = |psn: Psn| ((psn.value() & (bits - 1)) as usize / 64, 1_u64 << (psn.value() % 64));
        if !discarded {
            let (word, bit) = locate(psn);
            let first = marks != 1;
            let second = marks & 1 != 0;
            self.shadow.first[word] |= if first { bit } else { 0 };
            self.shadow.second[word] |= if second { bit } else { 0 };
        }
        let mut receives = 0;
        let run = after.since(before);
        for passed in (0..run).map(|offset| before.plus(offset)) {
            let marks = self.marks(passed);
            self.shadow.msn = Psn::new(self.shadow.msn + (marks & 1)).value();
            receives += u32::from(marks == 3);
            let (word, bit) = locate(passed);
            self.shadow.first[word] &= !bit;
            self.shadow.second[word] &= !bit;
        }
        self.shadow.expected = after.value();
        let arrived = self.shadow.first.iter().zip(&self.shadow.second).map(|(first, second)| first | second);
        assert!(arrived.eq(registers.arrived.words().iter().copied()), "the shadow follows the core");
        if run > 1 {
            count(counts, "data in order that completes a run");
        }
        if after.value() < before.value() {
            count(counts, "PSN wrap at the receiver");
        }
        receives
    }

    fn receive_ack(&mut self, random: &mut Random, batches: &mut Batches, counts: &mut EventCounts) {
        let (first_missing, in_flight) = self.sender.window();
        let reply = if random.chance(self.profile.hostile) {
            let max_distance = in_flight + 3;
            let psn = |random: &mut Random| {
                if random.chance(50) { random.psn() } else { random.near(first_missing, max_distance) }
            };
            let expected = psn(random);
            let trigger = random.chance(600).then(|| psn(random));
            let stamp = (self.now as u32).wrapping_sub(random.below(1 << 18) as u32);
            Some(Response { expected, trigger, stamp })
        } else {
            Flow::next_arrival(&mut self.responses, random, self.profile)
        };
        let stale = Response { expected: first_missing, trigger: None, stamp: self.now as u32 };
        let reply = reply.unwrap_or(stale);
        let inputs = self.inputs(SenderInputs {
            psn: reply.expected.value(),
            trigger: reply.trigger.unwrap_or_default().value(),
            stamp: reply.stamp,
            nack: reply.trigger.is_some(),
            ..SenderInputs::default()
        });
        let before = self.registers();
        let (acked, loss) = self.sender.receive_ack(&self.cfg, self.now, reply);
        let after = self.registers();
        let outputs = [u32::from(loss), acked];
        SenderStep { block: Block::ReceiveAck, inputs, before: &before, outputs, after: &after }
            .push(batches, self.queue_pair);
        let advance = reply.expected.distance_from(first_missing);
        count(
            counts,
            match reply.trigger {
                _ if advance < 0 => "old response",
                _ if advance > in_flight as i32 => "response about packets never sent",
                _ if loss => "NACK that begins a recovery",
                _ if acked > 0 && before.in_recovery && !after.in_recovery => "response that ends a recovery",
                _ if acked > 0 && after.retransmit_first => "partial acknowledgement with retransmission",
                _ if acked > 0 && before.in_recovery => "acknowledgement in a recovery",
                _ if acked > 0 => "acknowledgement",
                Some(_) if before.sacked != after.sacked => "selective acknowledgement",
                Some(_) => "NACK without news",
                None => "acknowledgement without news",
            },
        );
        if after.first_missing < before.first_missing {
            count(counts, "PSN wrap at the sender");
        }
    }

    fn timeout(&mut self, random: &mut Random, batches: &mut Batches, counts: &mut EventCounts) {
        if random.chance(60) {
            self.now += random.below(400_000);
        }
        if random.chance(100) {
            self.approach_timeout(random);
        }
        let inputs = self.inputs(SenderInputs::default());
        let before = self.registers();
        let (_, in_flight) = self.sender.window();
        let (expired, extended) = self.sender.timeout(&self.cfg, self.now);
        let flags = u32::from(in_flight > 0) | u32::from(expired) << 1 | u32::from(extended) << 2;
        let outputs = [flags, 0];
        let after = self.registers();
        SenderStep { block: Block::Timeout, inputs, before: &before, outputs, after: &after }
            .push(batches, self.queue_pair);
        let few = in_flight <= u32::from(timeouts(&self.cfg).2);
        count(
            counts,
            match (in_flight, expired, extended) {
                (0, ..) => "timer not running",
                (_, true, _) if few => "timer expired, few packets in flight",
                (_, true, _) => "timer expired",
                (_, _, true) => "timer extended",
                _ => "timer running",
            },
        );
    }

    /// Advances the time to a timeout, or to one nanosecond before or after it, if the timeout is within 500 us.
    fn approach_timeout(&mut self, random: &mut Random) {
        let (low, high, _) = timeouts(&self.cfg);
        let timeout = if random.chance(500) { low } else { high };
        let target = self.registers().timer_start.wrapping_add(timeout - 1 + random.below(3) as u32);
        let wait = target.wrapping_sub(self.now as u32);
        if wait < 500_000 {
            self.now += u64::from(wait);
        }
    }

    fn registers(&self) -> record::Sender {
        self.sender.registers(self.parameters.window())
    }

    /// Adds the inputs that every block has.
    fn inputs(&self, inputs: SenderInputs) -> SenderInputs {
        let (rto_low, rto_high, low_packets) = timeouts(&self.cfg);
        SenderInputs { now: self.now as u32, rto_low, rto_high, low_packets, ..inputs }
    }
}

fn count(counts: &mut EventCounts, event: &'static str) {
    *counts.entry(event).or_default() += 1;
}
