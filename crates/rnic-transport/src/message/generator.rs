//! The packet generator: the block of a NanoTransport NIC that sends control packets, immediately or paced to the rate
//! of the link on which the NIC receives.

use super::{CtrlPktEvent, Departure};
use crate::Time;
use std::collections::VecDeque;

/// The queues of control packets that wait for the link, and of control packets that wait for the pacer.
///
/// The pacer releases one paced control packet per interval `pace`. Each paced packet requests one data packet, so the
/// requested data arrive at the rate of the receiving link. The pacer continues while the link is busy: a released
/// packet that waits for the link does not delay the release of further packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Generator {
    /// Control packets that wait for the link, each with the flags to send.
    ready: VecDeque<(CtrlPktEvent, u8)>,
    /// Control packets that wait for the pacer.
    paced: VecDeque<CtrlPktEvent>,
    /// Earliest time at which the pacer releases the next packet.
    pacer_free: Time,
}

impl Generator {
    /// Moves the packets that the pacer releases by `now` into the queue for the link.
    #[inline]
    fn release(&mut self, now: Time, pace: Time) {
        while self.pacer_free <= now
            && let Some(event) = self.paced.pop_front()
        {
            self.ready.push_back((event, event.paced));
            self.pacer_free += pace;
        }
    }

    /// Handles a [`CtrlPktEvent`]: queues its control packets for the link or for the pacer.
    pub(super) fn ctrl_pkt(&mut self, event: &CtrlPktEvent, now: Time, pace: Time) {
        self.release(now, pace);
        if event.paced != 0 && self.pacer_free <= now {
            self.pacer_free = now + pace;
            self.ready.push_back((*event, event.immediate | event.paced));
            return;
        }
        if event.immediate != 0 {
            self.ready.push_back((*event, event.immediate));
        }
        if event.paced != 0 {
            self.paced.push_back(*event);
        }
    }

    /// The earliest time at which a control packet may be sent; [`Time::ZERO`] if a packet waits only for the link.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        if !self.ready.is_empty() {
            return Some(Time::ZERO);
        }
        (!self.paced.is_empty()).then_some(self.pacer_free)
    }

    /// Takes the next control packet to send.
    #[inline(always)]
    pub(super) fn poll(&mut self, now: Time, pace: Time) -> Option<Departure> {
        self.release(now, pace);
        let (event, flags) = self.ready.pop_front()?;
        Some(Departure {
            now,
            dst_ip: event.dst_ip,
            dst_context: event.dst_context,
            src_context: event.src_context,
            tx_msg_id: event.tx_msg_id,
            msg_len: event.msg_len,
            pkt_offset: event.pkt_offset,
            credit: event.credit,
            rank: event.rank,
            flags,
            ..Departure::default()
        })
    }

    /// Whether no control packet waits for the link or the pacer.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.paced.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::flags::{ACK, NACK, PULL};

    const PACE: Time = Time::from_ns(40);

    fn event(number: u32, immediate: u8, paced: u8) -> CtrlPktEvent {
        CtrlPktEvent { pkt_offset: number, immediate, paced, ..CtrlPktEvent::default() }
    }

    fn poll(generator: &mut Generator, ns: u64) -> Option<(u32, u8)> {
        generator.poll(Time::from_ns(ns), PACE).map(|packet| (packet.pkt_offset, packet.flags))
    }

    /// Three control packet events, each with immediate and paced flags, occur at 0, 10 and 20 ns. The first event
    /// becomes one packet. The paced packets of the other two events are sent at 40 and 80 ns.
    #[test]
    fn one_packet_carries_both_flags_if_the_pacer_is_free() {
        let mut generator = Generator::default();
        for (number, ns, flags) in [(1, 0, ACK | PULL), (2, 10, ACK), (3, 20, NACK)] {
            let immediate = if number == 3 { NACK } else { ACK };
            generator.ctrl_pkt(&event(number, immediate, PULL), Time::from_ns(ns), PACE);
            assert_eq!(generator.next(), Some(Time::ZERO));
            assert_eq!(poll(&mut generator, ns), Some((number, flags)));
        }
        assert_eq!((poll(&mut generator, 39), generator.next()), (None, Some(PACE)));
        assert_eq!(poll(&mut generator, 40), Some((2, PULL)));
        assert_eq!((poll(&mut generator, 79), generator.next()), (None, Some(Time::from_ns(80))));
        assert_eq!(poll(&mut generator, 80), Some((3, PULL)));
        assert!(generator.is_empty());
        // The pacer does not accumulate idle time: the next packet may be sent at 120 ns, not before.
        generator.ctrl_pkt(&event(4, 0, PULL), Time::from_ns(100), PACE);
        assert_eq!((poll(&mut generator, 100), poll(&mut generator, 120)), (None, Some((4, PULL))));
        generator.ctrl_pkt(&event(5, 0, PULL), Time::from_ns(1_000), PACE);
        generator.ctrl_pkt(&event(6, 0, PULL), Time::from_ns(1_000), PACE);
        assert_eq!((poll(&mut generator, 1_000), poll(&mut generator, 1_039)), (Some((5, PULL)), None));
    }

    /// The link is busy from 40 to 130 ns. The packets that the pacer released in this time are sent at 130 ns, and the
    /// pacer was not delayed.
    #[test]
    fn a_busy_link_does_not_slow_the_pacer() {
        let mut generator = Generator::default();
        for number in 0..5 {
            generator.ctrl_pkt(&event(number, 0, PULL), Time::ZERO, PACE);
        }
        assert_eq!(poll(&mut generator, 0), Some((0, PULL)));
        generator.ctrl_pkt(&event(9, ACK, 0), Time::from_ns(90), PACE);
        let late: Vec<_> = std::iter::from_fn(|| poll(&mut generator, 130)).map(|(number, _)| number).collect();
        assert_eq!(late, [1, 2, 9, 3]);
        assert_eq!(generator.next(), Some(Time::from_ns(160)));
    }
}
