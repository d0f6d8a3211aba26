//! A NIC of the NanoTransport architecture, which sends and receives messages: its fixed-function blocks and its
//! transport program.

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

/// The order in which a NIC with several messages to send takes packets from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The NIC sends one packet of each message in turn.
    #[default]
    RoundRobin,
    /// The NIC sends the message with the fewest unsent packets first. Of several such messages, it sends the message
    /// in the lowest slot (the low 16 bits of its id) first.
    ShortestFirst,
}

/// The configuration of a [`MessageNic`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicConfig {
    /// Maximum payload of a packet in bytes; at least 1.
    pub mtu: u32,
    /// Initial credit of a message: number of packets that it may send before the receiver responds; at least 1.
    pub rtt_pkts: u32,
    /// Retransmission timeout of a message, after which the sender retransmits unacknowledged packets.
    pub timeout: Time,
    /// Number of consecutive timeouts without a response from the receiver after which the sender aborts a message.
    pub max_timeouts: u32,
    /// Time without an arriving packet of a message after which the receiver ends the message's reception.
    pub rx_timeout: Time,
    /// Whether to send a probe after a timeout without a response, if the message has no packet that it may send. The
    /// probe is a retransmission of the last packet sent. The receiver's response to this probe grants again the credit
    /// that was lost with an earlier response.
    pub probe: bool,
    /// Order in which the NIC sends the packets of its messages.
    pub order: Order,
    /// Whether a packet that a NACK requests waits for the next control packet that raises the credit of its message,
    /// such as a GRANT, or for a timeout. If not, the NIC retransmits the packet as soon as the NACK arrives.
    pub rtx_needs_credit: bool,
    /// Time between two paced control packets, such as the PULLs of NDP: the serialisation time of a full data frame on
    /// the receiving link.
    pub pace: Time,
    /// Buffers for messages that are being sent; if empty, there is no limit.
    pub tx_buffers: Vec<BufferClass>,
    /// Buffers for messages that are being received; if empty, there is no limit.
    pub rx_buffers: Vec<BufferClass>,
    /// Granularity of the NIC's timers, which fire at multiples of this time. If it is zero, timers fire exactly when
    /// they expire.
    pub timer_granularity: Time,
}

impl Default for NicConfig {
    /// The settings of the NICs in the incast experiment of the NanoTransport paper: links of 200 Gbps, segments of
    /// 1,024 bytes in frames of 1,088 bytes, a timeout of 7 us.
    fn default() -> NicConfig {
        NicConfig {
            mtu: 1_024,
            rtt_pkts: 9,
            timeout: Time::from_us(7),
            max_timeouts: 5,
            rx_timeout: Time::from_us(49),
            probe: true,
            order: Order::RoundRobin,
            rtx_needs_credit: false,
            pace: Time::from_ps(43_520),
            tx_buffers: Vec::new(),
            rx_buffers: Vec::new(),
            timer_granularity: Time::ZERO,
        }
    }
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// Address of the destination NIC.
    pub dst_ip: u32,
    /// Context at the destination NIC: NanoTransport's name for a port.
    pub dst_context: u16,
    /// Context at this NIC: NanoTransport's name for a port.
    pub src_context: u16,
    /// Length of the message in bytes; a message of 0 bytes takes one packet.
    pub bytes: u32,
    /// An identifier that the owner of the NIC chooses for the message. The NIC returns it in [`NicEvent`] and
    /// [`Outgoing`].
    pub tag: u32,
}

/// A packet that the owner of a NIC must transmit now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing<H> {
    /// Address of the destination NIC.
    pub dst_ip: u32,
    /// Header of the packet.
    pub header: H,
    /// Priority of the packet in the network; switches serve priority 0 first.
    pub priority: u8,
    /// Payload in bytes; 0 in a control packet.
    pub payload: u32,
    /// Whether the packet is a retransmitted data packet.
    pub is_rtx: bool,
    /// Whether the packet is a control packet.
    pub is_control: bool,
    /// Data packet: the message's tag, which the owner of the NIC chose. Control packet: 0.
    pub tag: u32,
}

/// A message that a NIC has received completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Address of the sending NIC.
    pub src_ip: u32,
    /// Message id that the sending NIC assigned.
    pub tx_msg_id: u32,
    /// Length of the message in bytes.
    pub bytes: u32,
}

/// The effect of a received packet on the NIC's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Number of payload bytes in the packet that had not been received before.
    pub new_bytes: u32,
    /// The message that the packet completed, if any.
    pub completed: Option<Completed>,
    /// Whether the packet's payload was discarded, because it had been received before or there was no receive buffer
    /// for its message.
    pub useless: bool,
}

/// A notification for the owner of a [`MessageNic`] about a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicEvent {
    /// The receiver has acknowledged all packets of the message; its transmit buffer is free.
    Sent {
        /// The message's tag.
        tag: u32,
    },
    /// The retransmission timer of the message expired, and the NIC will retransmit packets of the message.
    Timeout {
        /// The message's tag.
        tag: u32,
    },
    /// The NIC aborted the message, as its sender, after [`NicConfig::max_timeouts`] timeouts without a response; its
    /// transmit buffer is free. The receiver may have received the message nevertheless.
    Aborted {
        /// The message's tag.
        tag: u32,
    },
    /// The reception of a message expired: no packet of it arrived for [`NicConfig::rx_timeout`], or its sender has
    /// begun a newer message in the same slot (with the same low 16 bits of the id).
    ReceiveExpired {
        /// Address of the sending NIC.
        src_ip: u32,
        /// Message id that the sending NIC assigned.
        tx_msg_id: u32,
    },
}

/// The counters of a [`MessageNic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of times that a message's retransmission timer expired, with or without a retransmission.
    pub timeouts: u64,
    /// Number of probes: retransmissions of a message's last packet because the message had no other packet to send
    /// ([`NicConfig::probe`]).
    pub probes: u64,
    /// Number of messages that could not be sent because no transmit buffer was free.
    pub tx_failures: u64,
    /// Number of packets that were discarded because no receive buffer was free for their message.
    pub rx_failures: u64,
    /// Number of messages that this NIC aborted as their sender.
    pub aborted: u64,
    /// Number of messages whose reception expired ([`NicEvent::ReceiveExpired`]).
    pub expired: u64,
    /// Number of packets for which the transport program's [`Verdict`] contradicted its call of `GetRxMsgInfo`: the
    /// verdict named another packet than the call, or only one of verdict and call accepted the payload.
    pub program_errors: u64,
}

/// The fixed-function blocks of a NIC, that is, everything but its transport program.
#[derive(Clone, Debug)]
struct Engine {
    packetization: Packetization,
    reassembly: Reassembly,
    generator: Generator,
    events: VecDeque<NicEvent>,
    counters: Counters,
}

/// The implementation of [`Blocks`] that the ingress pipeline calls while it processes one packet.
struct Call<'a> {
    engine: &'a mut Engine,
    cfg: &'a NicConfig,
    now: Time,
    /// The processed packet, if the program has newly marked it as received.
    marked: Option<Marked>,
    /// Whether the program tried to mark the processed packet as received, but it had been received before or there was
    /// no receive buffer.
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
        self.engine.packetization.credit_to_btx(event, self.cfg);
    }

    #[inline]
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.engine.generator.ctrl_pkt(event, self.now, self.cfg.pace);
    }
}

/// A NIC of a message transport, which runs the transport program `P`.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::message::programs::Ndp;
/// use rnic_transport::message::{Message, MessageNic, NicConfig, NicEvent};
///
/// let cfg = NicConfig { max_timeouts: 2, ..NicConfig::default() };
/// let mut nic = MessageNic::new(&cfg, Ndp::new(0, cfg.mtu, cfg.rtt_pkts));
/// nic.send(&cfg, Time::ZERO, &Message { dst_ip: 1, bytes: 20_000, tag: 7, ..Message::default() })?;
///
/// // The NIC sends `rtt_pkts` packets of the message without waiting for the receiver.
/// let sent = std::iter::from_fn(|| nic.poll_transmit(&cfg, Time::ZERO)).count();
/// assert_eq!(sent, 9);
///
/// // The receiver never responds, so the NIC aborts the message.
/// while let Some(deadline) = nic.deadline() {
///     nic.on_deadline(&cfg, deadline);
///     while nic.poll_transmit(&cfg, deadline).is_some() {}
/// }
/// assert!(std::iter::from_fn(|| nic.poll_event()).any(|event| event == NicEvent::Aborted { tag: 7 }));
/// # Ok::<(), rnic_transport::message::NoBuffer>(())
/// ```
#[derive(Clone, Debug)]
pub struct MessageNic<P> {
    program: P,
    engine: Engine,
}

impl<P: Pipeline> MessageNic<P> {
    /// A NIC without messages. Its address is part of `program`.
    pub fn new(cfg: &NicConfig, program: P) -> MessageNic<P> {
        debug_assert!(cfg.mtu > 0, "the MTU must be at least 1");
        let engine = Engine {
            packetization: Packetization::new(cfg),
            reassembly: Reassembly::new(cfg),
            generator: Generator::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
        };
        MessageNic { program, engine }
    }

    /// Begins to send a message. Returns its id, `tx_msg_id`: a slot in the low 16 bits, and in the high 16 bits a
    /// generation, which counts the messages that use this slot one after another.
    ///
    /// # Errors
    /// If no transmit buffer that fits the message is free.
    pub fn send(&mut self, cfg: &NicConfig, now: Time, message: &Message) -> Result<u32, NoBuffer> {
        let sent = self.engine.packetization.send(cfg, now, message);
        self.engine.counters.tx_failures += u64::from(sent.is_err());
        sent
    }

    /// Handles a received packet; `arrival.now` is the current time.
    #[inline]
    pub fn receive(&mut self, cfg: &NicConfig, header: &P::Header, arrival: &Arrival<'_>) -> Received {
        let mut call = Call { engine: &mut self.engine, cfg, now: arrival.now, marked: None, useless: false };
        let verdict = self.program.ingress(&mut call, header, arrival);
        let (marked, useless) = (call.marked, call.useless);
        while let Some((rx_msg_id, event)) = self.engine.reassembly.superseded() {
            self.expire(rx_msg_id, event);
        }
        self.reassemble(cfg, verdict, marked, useless)
    }

    /// Writes a packet's payload to its message's buffer, if the program's verdict agrees with its call of
    /// `GetRxMsgInfo`.
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

    /// The earliest time at which the NIC has a packet to send; [`Time::ZERO`] if it has a packet now.
    /// [`MessageNic::poll_transmit`] may return `None` at that time, if the packet has become unnecessary.
    #[inline]
    pub fn next_transmit(&self) -> Option<Time> {
        if self.engine.packetization.may_send() { Some(Time::ZERO) } else { self.engine.generator.next() }
    }

    /// The next packet to send; control packets precede data packets.
    #[inline]
    pub fn poll_transmit(&mut self, cfg: &NicConfig, now: Time) -> Option<Outgoing<P::Header>> {
        let control = self.engine.generator.poll(now, cfg.pace);
        let is_control = control.is_some();
        let (departure, tag) = match control {
            Some(departure) => (departure, 0),
            None => self.engine.packetization.poll(cfg, now)?,
        };
        let Framed { header, priority } = self.program.egress(&departure);
        let Departure { dst_ip, payload, is_rtx, .. } = departure;
        Some(Outgoing { dst_ip, header, priority, payload, is_rtx, is_control, tag })
    }

    /// The time at which the owner must call [`MessageNic::on_deadline`]; `None` if no timer runs. The time may be too
    /// early, because a timer that was restarted or turned off is still listed with its old time. Then the call fires
    /// no timer.
    pub fn deadline(&self) -> Option<Time> {
        let engine = &self.engine;
        [engine.packetization.deadline(), engine.reassembly.deadline()].into_iter().flatten().min()
    }

    /// Fires all timers that have expired by `now`.
    pub fn on_deadline(&mut self, cfg: &NicConfig, now: Time) {
        let Engine { packetization, events, counters, .. } = &mut self.engine;
        while let Some(timeout) = packetization.timeout(cfg, now) {
            counters.timeouts += 1;
            match timeout {
                Timeout::Idle => {}
                Timeout::Retransmits(tag) => events.push_back(NicEvent::Timeout { tag }),
                Timeout::Probes(tag) => {
                    counters.probes += 1;
                    events.push_back(NicEvent::Timeout { tag });
                }
                Timeout::Aborted(tag) => {
                    counters.aborted += 1;
                    events.push_back(NicEvent::Aborted { tag });
                }
            }
        }
        while let Some((rx_msg_id, event)) = self.engine.reassembly.timeout(now) {
            self.expire(rx_msg_id, event);
        }
    }

    /// Takes the oldest event that the owner has not taken yet.
    pub fn poll_event(&mut self) -> Option<NicEvent> {
        self.engine.events.pop_front()
    }

    /// The NIC's counters.
    pub fn counters(&self) -> Counters {
        self.engine.counters
    }

    /// Number of messages that are being sent, and number of messages that are being received.
    pub fn active(&self) -> (usize, usize) {
        (self.engine.packetization.active(), self.engine.reassembly.active())
    }

    /// Whether the NIC has no messages and no control packets to send, and all its buffers are free.
    pub fn is_idle(&self) -> bool {
        let engine = &self.engine;
        engine.packetization.all_free() && engine.reassembly.all_free() && engine.generator.is_empty()
    }

    /// The transport program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// The transport program, for example to change the tables of a P4 program.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }
}
