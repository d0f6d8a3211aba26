//! The transport core as the reference for the blocks: a [`MessageNic`] whose program calls the block function that the
//! trace has chosen.

use super::Step;
use super::random::Random;
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, BufferClass, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, MessageNic,
    NicConfig, NicEvent, PacketHeader, Pipeline, Received, RxMsgInfo, RxMsgInfoRequest, Verdict,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of packets of the longest message.
pub(super) const SEGMENTS: u32 = 38;
/// Payload of a full packet in bytes.
pub(super) const MTU: u32 = 1_024;
/// Size of a small buffer in bytes.
pub(super) const SMALL_BUFFER: u32 = 4_096;
/// Number of messages that a NIC can send at the same time, and also receive at the same time.
pub(super) const SLOTS: u32 = 16;

/// The block function that the program calls for an arriving packet.
#[derive(Clone, Copy, Default)]
pub(super) enum Call {
    #[default]
    Nothing,
    Delivered(DeliveredEvent),
    Credit(CreditToBtxEvent),
    Control(CtrlPktEvent),
    /// A request to reassembly, and whether the program's verdict follows the response.
    Info(RxMsgInfoRequest, Follows),
}

/// Whether the program's verdict follows the response of the reassembly block.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Follows {
    #[default]
    Yes,
    /// The verdict drops the packet, regardless of the response.
    Drops,
    /// The verdict names another packet than the response.
    NamesAnother,
}

/// The program's verdict that stores a packet.
#[derive(Clone, Copy)]
pub(super) struct Stores {
    pub(super) rx_msg_id: u16,
    pub(super) pkt_offset: u32,
    pub(super) is_last_pkt: bool,
}

/// A program that has no protocol: it does what the trace says.
#[derive(Default)]
pub(super) struct Script {
    call: Call,
    /// Response to the latest request.
    pub(super) info: RxMsgInfo,
    /// Verdict on the latest packet.
    pub(super) verdict: Option<Stores>,
    /// Receptions that have expired or were superseded.
    pub(super) expired: Vec<u16>,
    /// Packets that the blocks passed to the egress pipeline, by the header of the packet.
    departures: BTreeMap<DepartureId, Departure>,
    next_departure: u32,
}

/// The packet header of this program: for a departing packet, the key of its entry in [`Script::departures`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(super) struct DepartureId(u32);

impl PacketHeader for DepartureId {}

impl Pipeline for Script {
    type Header = DepartureId;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, _: &DepartureId, _: &Arrival<'_>) -> Verdict {
        self.verdict = None;
        match std::mem::take(&mut self.call) {
            Call::Nothing => {}
            Call::Delivered(event) => blocks.delivered(&event),
            Call::Credit(event) => blocks.credit_to_btx(&event),
            Call::Control(event) => blocks.ctrl_pkt(&event),
            Call::Info(request, follows) => {
                self.info = blocks.get_rx_msg_info(&request);
                let wanted = !self.info.fail && self.info.is_new_pkt && request.mark_received;
                let names_another = follows == Follows::NamesAnother;
                if (wanted && follows != Follows::Drops) || (!wanted && names_another) {
                    let RxMsgInfo { rx_msg_id, is_last_pkt, .. } = self.info;
                    let pkt_offset = request.pkt_offset + u32::from(names_another);
                    self.verdict = Some(Stores { rx_msg_id, pkt_offset, is_last_pkt });
                    return Verdict::Reassemble { rx_msg_id, pkt_offset, is_last_pkt };
                }
            }
        }
        Verdict::Consumed
    }

    fn egress(&mut self, departure: &Departure) -> Framed<DepartureId> {
        self.next_departure += 1;
        let header = DepartureId(self.next_departure);
        self.departures.insert(header, *departure);
        Framed { header, priority: 0 }
    }

    fn expired(&mut self, rx_msg_id: u16) {
        self.expired.push(rx_msg_id);
    }
}

/// The core, its clock, and the source of random choices.
pub(super) struct Core {
    pub(super) random: Random,
    pub(super) cfg: NicConfig,
    pub(super) nic: MessageNic<Script>,
    /// Time in nanoseconds.
    pub(super) now: u64,
}

impl Core {
    pub(super) fn new(rtx_needs_credit: bool, seed: u64) -> Core {
        let small = BufferClass { bytes: SMALL_BUFFER, count: 7 };
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
        Core { random: Random::new(seed), nic: MessageNic::new(&cfg, Script::default()), cfg, now: 0 }
    }

    /// The current time as a word of the bench.
    pub(super) fn now_word(&self) -> u32 {
        self.now as u32
    }

    /// Delivers a packet for which the program calls `call`.
    pub(super) fn call(&mut self, call: Call) -> Received {
        let now = Time::from_ns(self.now);
        let arrival = Arrival { now, frame_bytes: 64, trimmed: false, returned: false, marked: false, telemetry: None };
        self.nic.program_mut().call = call;
        self.nic.receive(&self.cfg, &DepartureId::default(), &arrival)
    }

    /// The next packet that the NIC sends now.
    pub(super) fn transmit(&mut self) -> Option<Departure> {
        let packet = self.nic.poll_transmit(&self.cfg, Time::from_ns(self.now))?;
        self.nic.program_mut().departures.remove(&packet.header)
    }

    /// Takes the events of the NIC.
    pub(super) fn events(&mut self) -> Vec<NicEvent> {
        std::iter::from_fn(|| self.nic.poll_event()).collect()
    }
}

/// Steps of a block with timers.
pub(super) trait TimerSteps {
    fn core(&mut self) -> &mut Core;

    /// Adds a check of the timer of a slot at the time `now`, after which the core had `events`.
    fn check_timer(&mut self, steps: &mut Vec<Step>, slot: u32, now: u32, events: &[NicEvent]);

    /// Advances the time by `ns` nanoseconds. When a timer expires, checks the timers of all slots, in order of slots.
    fn wait(&mut self, steps: &mut Vec<Step>, ns: u64) {
        let until = self.core().now + ns;
        while let Some(deadline) = self.core().nic.deadline().filter(|deadline| *deadline <= Time::from_ns(until)) {
            let core = self.core();
            core.now = deadline.as_ps() / 1_000;
            let now = core.now_word();
            // One nanosecond before the expiry, no timer has expired.
            let any_slot = core.random.below(u64::from(SLOTS)) as u32;
            self.check_timer(steps, any_slot, now.wrapping_sub(1), &[]);
            let core = self.core();
            core.nic.on_deadline(&core.cfg, deadline);
            let events = core.events();
            for slot in 0..SLOTS {
                self.check_timer(steps, slot, now, &events);
            }
            self.core().nic.program_mut().expired.clear();
        }
        self.core().now = until;
    }
}
