//! Compares how the two logics of the sender retransmit after the same losses.

use super::sender::{Response, TracedSender};
use super::{Logic, Parameters};
use rnic_transport::pdu::Stamp;
use rnic_transport::recovery::{IrnReceiver, ReceiveRecovery};
use rnic_transport::{Pdu, PduKind, Psn, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The retransmissions of one flow with each logic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Description of what the network does to the flow.
    pub case: &'static str,
    /// Data packets that were lost.
    pub lost: u32,
    /// Retransmissions with the core's logic.
    pub core: u32,
    /// Retransmissions with the published logic.
    pub published: u32,
}

/// Sends a flow of 2,000 packets with both logics over a path with a round-trip time of 100 packets, on which a packet
/// is lost, a NACK is lost as well, or a packet arrives late. The BDP cap is 200 packets, so that new packets leave
/// while a recovery lasts.
pub fn compare_logics() -> Vec<Comparison> {
    let compare = |case, lost: &[u32], nacks: &[u32], late: &[u32]| {
        let set = |list: &[u32]| list.iter().copied().collect::<BTreeSet<u32>>();
        let run = |logic| retransmissions(Parameters { cap: 200, logic }, set(lost), set(nacks), &set(late));
        let core = run(Logic::Core);
        let published = run(Logic::Published);
        Comparison { case, lost: lost.len() as u32, core, published }
    };
    vec![
        compare("one packet lost", &[500], &[], &[]),
        compare("one packet and one NACK lost", &[500], &[520], &[]),
        compare("one packet 20 packets late", &[], &[], &[500]),
    ]
}

/// Returns the number of retransmissions of a flow of 2,000 packets. The network loses the first transmission of each
/// packet in `lost`, and the first NACK that each packet in `nacks` triggers. It delays the first transmission of each
/// packet in `late` by 20 more slots. A packet occupies the link for one slot of 217 ns and arrives 50 slots later.
fn retransmissions(
    parameters: Parameters, mut lost: BTreeSet<u32>, mut nacks: BTreeSet<u32>, late: &BTreeSet<u32>,
) -> u32 {
    const SLOT: u64 = 217;
    const PACKETS: u32 = 2_000;
    let cfg = parameters.flow_config();
    let mut sender = TracedSender::new(parameters, &cfg);
    sender.extend(PACKETS);
    let mut receiver = IrnReceiver::new(&cfg, u64::MAX, Time::ZERO);
    let mut forward: BTreeMap<u64, Vec<(Psn, u32)>> = BTreeMap::new();
    let mut backward: BTreeMap<u64, Vec<Response>> = BTreeMap::new();
    let mut again = 0;
    for slot in 1..100_000 {
        let now = slot * SLOT;
        for (psn, stamp) in forward.remove(&slot).unwrap_or_default() {
            let pdu = Pdu::data_with(psn, Stamp::at(Time::from_ns(stamp.into())));
            let Some(reply) = receiver.on_data(&cfg, Time::from_ns(now), pdu).reply else { continue };
            let trigger = (reply.kind() == PduKind::Nack).then(|| reply.trigger());
            if trigger.is_some_and(|trigger| nacks.remove(&trigger.value())) {
                continue;
            }
            let reply = Response { expected: reply.psn(), trigger, stamp: reply.stamp().as_ns() };
            backward.entry(slot + 50).or_default().push(reply);
        }
        for reply in backward.remove(&slot).unwrap_or_default() {
            sender.receive_ack(&cfg, now, reply);
        }
        sender.timeout(&cfg, now);
        let Some((psn, _, retransmission)) = sender.tx_free(&cfg, now, u32::MAX, Psn::new(PACKETS)) else {
            if sender.window().0 == Psn::new(PACKETS) {
                return again;
            }
            continue;
        };
        again += u32::from(retransmission);
        let delay = if !retransmission && late.contains(&psn.value()) { 70 } else { 50 };
        if !lost.remove(&psn.value()) {
            forward.entry(slot + delay).or_default().push((psn, now as u32));
        }
    }
    again
}
