//! A NIC that takes messages and delivers messages: the blocks, and the program between them.

use super::buffers::{BufferClass, NoBuffer};
use super::generator::Generator;
use super::packetization::{Packetization, Timeout};
use super::reassembly::{Effect, Marked, Reassembly};
use super::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Pipeline, RxMsgInfo,
    RxMsgInfoRequest, Verdict,
};
use crate::Time;
use std::collections::VecDeque;

/// Which message sends next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// One packet of each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest packets that were never sent; of several, the one in the lowest slot.
    ShortestFirst,
}

/// What is the same for all NICs of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicConfig {
    /// Most payload of a packet, in bytes; at least 1.
    pub mtu: u32,
    /// Packets that a new message may send before it hears of the receiver; at least 1.
    pub rtt_pkts: u32,
    /// Time between two looks at a message being sent.
    pub timeout: Time,
    /// A message is given up when this many timeouts in a row passed without a word of its receiver.
    pub most_timeouts: u32,
    /// A message of which nothing has arrived for so long is no longer waited for.
    pub garbage: Time,
    /// After a silent timeout with nothing to send, the last packet goes out once more: the answer brings credit that was lost.
    pub probe: bool,
    /// Which message sends next.
    pub order: Order,
    /// Time between two paced control packets: that of a full data frame on the receiving link.
    pub pace: Time,
    /// Buffers for messages being sent; none: as many as it takes.
    pub tx_buffers: Vec<BufferClass>,
    /// Buffers for messages being received; none: as many as it takes.
    pub rx_buffers: Vec<BufferClass>,
    /// Timers are looked at whenever so much time has passed; zero: they are exact.
    pub timer_scan: Time,
}

impl Default for NicConfig {
    /// The incast of the NanoTransport paper: 200 Gbps, segments of 1,024 bytes in frames of 1,088, 7 us.
    fn default() -> NicConfig {
        NicConfig {
            mtu: 1_024,
            rtt_pkts: 9,
            timeout: Time::from_us(7),
            most_timeouts: 5,
            garbage: Time::from_us(49),
            probe: true,
            order: Order::RoundRobin,
            pace: Time::from_ps(43_520),
            tx_buffers: Vec::new(),
            rx_buffers: Vec::new(),
            timer_scan: Time::ZERO,
        }
    }
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// Address of the NIC that it goes to.
    pub dst_ip: u32,
    /// Context (port) there.
    pub dst_context: u16,
    /// Context (port) here.
    pub src_context: u16,
    /// Length in bytes; a message without bytes is one packet.
    pub bytes: u32,
    /// The owner's own number for it; it comes back in [`NicEvent`] and [`Outgoing`].
    pub tag: u32,
}

/// A packet to put on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing<H> {
    /// Address of the NIC that it goes to.
    pub dst_ip: u32,
    /// Its header.
    pub header: H,
    /// Priority, 0 served first.
    pub band: u8,
    /// Bytes of payload: 0 in a control packet.
    pub payload: u32,
    /// A data packet that has been sent before.
    pub is_rtx: bool,
    /// It comes from the packet generator.
    pub is_control: bool,
    /// Data: the message's tag. Control: 0.
    pub tag: u32,
}

/// A message that has arrived whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Address of the NIC that sent it.
    pub src_ip: u32,
    /// Number that it gave the message.
    pub tx_msg_id: u32,
    /// Length in bytes.
    pub bytes: u32,
}

/// What an arriving packet brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Payload bytes that had not been received before.
    pub new_bytes: u32,
    /// The message that it completed.
    pub completed: Option<Completed>,
    /// It carried payload that had been received before, or for which there is no place.
    pub useless: bool,
}

/// What the owner of a NIC should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicEvent {
    /// Every packet of the message is known to have arrived; its buffer is free.
    Sent {
        /// The message's tag.
        tag: u32,
    },
    /// A timeout makes packets of the message leave again.
    Timeout {
        /// The message's tag.
        tag: u32,
    },
    /// The message was given up after [`NicConfig::most_timeouts`]; its buffer is free. It may have arrived all the same.
    GaveUp {
        /// The message's tag.
        tag: u32,
    },
    /// A message is no longer waited for: nothing of it arrived for [`NicConfig::garbage`], or its sender has given it up.
    ReceiveExpired {
        /// Address of the NIC that sent it.
        src_ip: u32,
        /// Number that it gave the message.
        tx_msg_id: u32,
    },
}

/// What a NIC has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Timeouts of messages being sent, with or without an effect.
    pub timeouts: u64,
    /// Packets sent once more because nothing else was left to do.
    pub probes: u64,
    /// Messages for which there was no buffer to send from.
    pub tx_failures: u64,
    /// Packets for whose message there was no buffer to receive into.
    pub rx_failures: u64,
    /// Messages that were given up.
    pub given_up: u64,
    /// Messages no longer waited for.
    pub expired: u64,
    /// Packets of which the program said something else than the blocks.
    pub program_errors: u64,
}

/// The blocks of a NIC.
#[derive(Clone, Debug)]
struct Engine {
    packetization: Packetization,
    reassembly: Reassembly,
    generator: Generator,
    events: VecDeque<NicEvent>,
    counters: Counters,
}

/// The blocks, while the ingress pipeline has a packet.
struct Call<'a> {
    engine: &'a mut Engine,
    cfg: &'a NicConfig,
    now: Time,
    /// The packet counts as received, and did not before.
    marked: Option<Marked>,
    /// The program wanted to count it as received, and it did not become so.
    useless: bool,
}

impl Blocks for Call<'_> {
    #[inline]
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo {
        let (info, effect) = self.engine.reassembly.info(self.cfg, self.now, request);
        match effect {
            Effect::Marked(packet) => self.marked = Some(packet),
            Effect::NoBuffer => self.engine.counters.rx_failures += 1,
            Effect::None => {}
        }
        self.useless = request.mark_received && self.marked.is_none();
        info
    }

    #[inline]
    fn delivered(&mut self, event: &DeliveredEvent) {
        if let Some(tag) = self.engine.packetization.delivered(event) {
            self.engine.events.push_back(NicEvent::Sent { tag });
        }
    }

    #[inline]
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent) {
        self.engine.packetization.credit_to_btx(event, self.cfg.order);
    }

    #[inline]
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.engine.generator.ctrl_pkt(event, self.now, self.cfg.pace);
    }
}

/// One NIC: its blocks and its program.
#[derive(Clone, Debug)]
pub struct MessageNic<P> {
    program: P,
    engine: Engine,
}

impl<P: Pipeline> MessageNic<P> {
    /// A NIC without messages. The program knows the NIC's address.
    pub fn new(cfg: &NicConfig, program: P) -> MessageNic<P> {
        debug_assert!(cfg.mtu > 0, "a packet has room for payload");
        let engine = Engine {
            packetization: Packetization::new(cfg),
            reassembly: Reassembly::new(cfg),
            generator: Generator::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
        };
        MessageNic { program, engine }
    }

    /// Takes a message to send; returns its `tx_msg_id`: its slot in the low 16 bits, the slot's generation in the high ones.
    pub fn send(&mut self, cfg: &NicConfig, now: Time, message: &Message) -> Result<u32, NoBuffer> {
        let sent = self.engine.packetization.send(cfg, now, message);
        self.engine.counters.tx_failures += u64::from(sent.is_err());
        sent
    }

    /// A packet has arrived; `arrival.now` is the time.
    pub fn receive(&mut self, cfg: &NicConfig, header: &P::Header, arrival: &Arrival<'_>) -> Received {
        let mut call = Call { engine: &mut self.engine, cfg, now: arrival.now, marked: None, useless: false };
        let verdict = self.program.ingress(&mut call, header, arrival);
        let (marked, useless) = (call.marked, call.useless);
        while let Some((rx_msg_id, event)) = self.engine.reassembly.superseded() {
            self.expire(rx_msg_id, event);
        }
        self.reassemble(cfg, verdict, marked, useless)
    }

    /// Puts a packet's payload into its message's buffer, if program and block agree about it.
    #[inline]
    fn reassemble(&mut self, cfg: &NicConfig, verdict: Verdict, marked: Option<Marked>, useless: bool) -> Received {
        let wanted = match verdict {
            Verdict::Consumed => None,
            Verdict::Reassemble { rx_msg_id, pkt_offset, is_last_pkt } => {
                Some(Marked { rx_msg_id, pkt_offset, is_last_pkt })
            }
        };
        let engine = &mut self.engine;
        match marked {
            Some(packet) if wanted == Some(packet) => {
                let new_bytes = engine.reassembly.payload(cfg, &packet);
                let completed = packet.is_last_pkt.then(|| engine.reassembly.complete(packet.rx_msg_id));
                Received { new_bytes, completed, useless: false }
            }
            Some(packet) => {
                engine.reassembly.unmark(&packet);
                engine.counters.program_errors += 1;
                Received { useless: true, ..Received::default() }
            }
            None => {
                engine.counters.program_errors += u64::from(wanted.is_some());
                Received { useless, ..Received::default() }
            }
        }
    }

    fn expire(&mut self, rx_msg_id: u16, event: NicEvent) {
        self.engine.counters.expired += 1;
        self.engine.events.push_back(event);
        self.program.expired(rx_msg_id);
    }

    /// When there will be a packet to send, if nothing else happens: [`Time::ZERO`] if there is one now.
    /// [`MessageNic::poll_transmit`] may find none at that time: it became unnecessary.
    #[inline]
    pub fn next_transmit(&self) -> Option<Time> {
        if self.engine.packetization.may_send() { Some(Time::ZERO) } else { self.engine.generator.next() }
    }

    /// The next packet to send: control before data.
    pub fn poll_transmit(&mut self, cfg: &NicConfig, now: Time) -> Option<Outgoing<P::Header>> {
        let control = self.engine.generator.poll(now, cfg.pace);
        let is_control = control.is_some();
        let (departure, tag) = match control {
            Some(departure) => (departure, 0),
            None => self.engine.packetization.poll(cfg, now)?,
        };
        let Framed { header, band } = self.program.egress(&departure);
        let Departure { dst_ip, payload, is_rtx, .. } = departure;
        Some(Outgoing { dst_ip, header, band, payload, is_rtx, is_control, tag })
    }

    /// When [`MessageNic::on_deadline`] wants to be called; there may turn out to be nothing to do.
    pub fn deadline(&self) -> Option<Time> {
        let engine = &self.engine;
        [engine.packetization.deadline(), engine.reassembly.deadline()].into_iter().flatten().min()
    }

    /// Lets timers that have expired by `now` have their effect.
    pub fn on_deadline(&mut self, cfg: &NicConfig, now: Time) {
        let Engine { packetization, events, counters, .. } = &mut self.engine;
        while let Some(timeout) = packetization.timeout(cfg, now) {
            counters.timeouts += 1;
            match timeout {
                Timeout::Idle => {}
                Timeout::Resends(tag) => events.push_back(NicEvent::Timeout { tag }),
                Timeout::Probes(tag) => {
                    counters.probes += 1;
                    events.push_back(NicEvent::Timeout { tag });
                }
                Timeout::GaveUp(tag) => {
                    counters.given_up += 1;
                    events.push_back(NicEvent::GaveUp { tag });
                }
            }
        }
        while let Some((rx_msg_id, event)) = self.engine.reassembly.timeout(now) {
            self.expire(rx_msg_id, event);
        }
    }

    /// What has happened to messages since the last call, oldest first.
    pub fn poll_event(&mut self) -> Option<NicEvent> {
        self.engine.events.pop_front()
    }

    /// What it has counted.
    pub fn counters(&self) -> Counters {
        self.engine.counters
    }

    /// Messages being sent and messages being received.
    pub fn active(&self) -> (usize, usize) {
        (self.engine.packetization.active(), self.engine.reassembly.active())
    }

    /// Whether no message and no control packet is under way and every buffer is back in its free list.
    pub fn is_idle(&self) -> bool {
        let engine = &self.engine;
        engine.packetization.all_free() && engine.reassembly.all_free() && engine.generator.is_empty()
    }

    /// The program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// The program, for instance to change its tables.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }
}
