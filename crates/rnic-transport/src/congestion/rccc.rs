//! RCCC, the receiver-credit congestion control of Ultra Ethernet Transport: a flow sends only what the NIC of its
//! receiver grants.
//!
//! A flow begins with *speculative* credit, 1.5 bandwidth-delay products, so that its first packets do not wait for a
//! round trip. The first acknowledgement or grant ends it. Each data packet says up to which total the flow needs
//! credit: its packets that wait to be sent and have none, at most a window. The pacer of the receiving NIC
//! ([`crate::credit`]) grants 16 KB to one sender after the other, together 0.99 of the link's rate. A flow that has
//! packets to send but neither credit nor a data packet that could ask for it sends a request without data, at most one
//! per base round trip; it repeats a request after the retransmission timeout, because the grant may be lost.
//!
//! With `nscc`, the window of NSCC limits the flow, too, and with it what the flow asks for: credit keeps the last link
//! from overload, and NSCC the links before it.
//!
//! With `min_share` below 1, a NIC lowers the rate of its grants to a fabric with less capacity than its hosts
//! ([`Reduction`]).
//!
//! Source: the public reference simulator (uet-htsim, 2025). UET 1.0 prevails; it was not read. Not modelled: the lower
//! priority of speculative packets, the division of a sender's requests among receivers, and credit for idle senders.

use super::{AckSample, CongestionControl, LossSignal, Marking, Nscc, NsccParams, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::credit::{CreditConfig, Reduction, ahead};
use crate::{BitRate, Time};

/// Maximum window in packets: totals of credit, which have 16 bits, must be comparable.
const MAX_WINDOW: u32 = 1 << 14;

/// The parameters of RCCC in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RcccParams {
    credit: CreditConfig,
    /// Window and speculative credit, in packets.
    window: u32,
    speculative: u32,
    base_rtt: Time,
    /// Time after which a request is repeated; `None` if nothing is lost.
    timeout: Option<Time>,
    line: BitRate,
    /// NSCC's parameters; its thresholds of marks hold even if it does not control the window.
    nscc: NsccParams,
    with_nscc: bool,
}

/// The congestion control RCCC of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rccc {
    /// Packets that the flow may send without having been granted them, now and at its beginning.
    speculative: u32,
    initial: u32,
    /// Granted credit, used credit, and credit that the flow has asked for, each in packets since the flow began.
    granted: u16,
    used: u16,
    asked: u16,
    /// When the flow last asked.
    asked_at: Option<Time>,
    /// When the flow may have to ask again.
    due: Option<Time>,
    window: u32,
    line: BitRate,
    nscc: Option<Nscc>,
}

impl Rccc {
    /// Number of packets that the flow may send now, as far as its credit is concerned.
    pub fn credit(&self) -> u32 {
        self.speculative + u32::from(ahead(self.granted, self.used))
    }

    /// The total that a flow with `backlog` packets needs, at least the total of its last request.
    fn target(&self, backlog: u64) -> u16 {
        let target = self.used.wrapping_add(backlog.min(self.window().into()) as u16);
        if ahead(target, self.asked) > 0 { target } else { self.asked }
    }

    fn note(&mut self, params: &RcccParams, now: Time, target: u16) {
        self.asked = target;
        self.asked_at = Some(now);
        self.due = params.timeout.filter(|_| target != self.granted).map(|timeout| now + timeout);
    }
}

impl CongestionControl for Rccc {
    type Params = RcccParams;
    const NAME: &'static str = "rccc";
    const ABOUT: &'static str = "RCCC of Ultra Ethernet: credit that the receiver's NIC grants at the rate of its link";
    const PACED: bool = false;
    const CREDIT: bool = true;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("share", 0.99, 0.01, 1.0, "rate of all grants of a NIC in line rates; 0.99 (uet-htsim)"),
        Parameter::size("quantum", 16_384, 1, 1 << 24, "bytes that a sender is granted at a time; 16 KiB (uet-htsim)"),
        Parameter::number(
            "speculative",
            1.5,
            0.0,
            100.0,
            "credit of a new flow in bandwidth-delay products; 1.5 (uet-htsim)",
        ),
        Parameter::number(
            "max_window",
            1.5,
            0.01,
            100.0,
            "maximum window, and maximum credit to ask for, in bandwidth-delay products; 1.5 (uet-htsim)",
        ),
        Parameter::number(
            "min_share",
            1.0,
            0.01,
            1.0,
            "share of `share` to which marks and trims in the fabric may lower the rate of all grants; our choice (1: never; uet-htsim: 0.9 / oversubscription, without NSCC)",
        ),
        Parameter::flag(
            "nscc",
            false,
            "whether NSCC, with the defaults of its other parameters, limits the window, too; our choice (false)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<RcccParams, String> {
        let packet = f64::from(flow.mtu + flow.header);
        let bdp = (flow.line_rate.as_bps() as f64 / 8.0 * flow.base_rtt.as_ps() as f64 * 1e-12).max(packet);
        let packets = |bdps: f64| ((bdps * bdp / packet) as u32).min(MAX_WINDOW);
        let mut nscc = Settings::of(&[Nscc::PARAMETERS]);
        if let Some(window) = settings.value("max_window") {
            nscc.set("max_window", window)?;
        }
        let min = settings.number("min_share")?;
        // The feedback of a rate arrives after about 1.5 round trips (uet-htsim).
        let interval = Time::from_ps(flow.base_rtt.as_ps() * 3 / 2);
        Ok(RcccParams {
            credit: CreditConfig {
                reduction: (min < 1.0).then_some(Reduction { min, interval }),
                quantum: ((settings.bytes("quantum")? as f64 / packet).round() as u32).clamp(1, MAX_WINDOW),
                share: settings.number("share")?,
            },
            window: packets(settings.number("max_window")?).max(1),
            speculative: packets(settings.number("speculative")?),
            base_rtt: flow.base_rtt,
            timeout: flow.timeouts.map(|timeouts| timeouts.high.max(flow.base_rtt)),
            line: ceiling(flow),
            nscc: Nscc::params(&nscc, flow)?,
            with_nscc: settings.flag("nscc")?,
        })
    }

    fn marking(params: &RcccParams, flow: &FlowConfig) -> Option<Marking> {
        Nscc::marking(&params.nscc, flow)
    }

    fn credit(params: &RcccParams) -> Option<CreditConfig> {
        Some(params.credit)
    }

    fn new(params: &RcccParams, flow: &FlowConfig, now: Time) -> Rccc {
        Rccc {
            speculative: params.speculative,
            initial: params.speculative,
            granted: 0,
            used: 0,
            asked: 0,
            asked_at: None,
            due: None,
            window: params.window,
            line: params.line,
            nscc: params.with_nscc.then(|| Nscc::new(&params.nscc, flow, now)),
        }
    }

    fn on_send(&mut self, _params: &RcccParams, _now: Time, _bytes: u32) {
        if self.speculative > 0 {
            self.speculative -= 1;
        } else {
            self.used = self.used.wrapping_add(1);
        }
    }

    fn on_ack(&mut self, params: &RcccParams, sample: &AckSample) {
        self.speculative = 0;
        if let Some(nscc) = &mut self.nscc {
            nscc.on_ack(&params.nscc, sample);
        }
    }

    fn on_loss(&mut self, params: &RcccParams, now: Time, signal: LossSignal) {
        match &mut self.nscc {
            // Credit deals with the congestion of the last link, so the window does not shrink for it.
            Some(nscc) if signal == LossSignal::LastHop => nscc.on_last_hop(&params.nscc, now),
            Some(nscc) => nscc.on_loss(&params.nscc, now, signal),
            None => {}
        }
    }

    fn has_credit(&self) -> bool {
        self.credit() > 0
    }

    fn ask(&mut self, params: &RcccParams, now: Time, backlog: u64) -> u16 {
        self.note(params, now, self.target(backlog));
        self.asked
    }

    fn ask_alone(&mut self, params: &RcccParams, now: Time, backlog: u64) -> Option<u16> {
        let target = self.target(backlog);
        // Without credit, a flow that needs no more than it has asked for waits for a grant.
        let wait = if target == self.asked { params.timeout? } else { params.base_rtt };
        let earliest = self.asked_at.map_or(now, |at| at + wait);
        if earliest > now {
            self.due = Some(earliest);
            return None;
        }
        self.note(params, now, target);
        Some(target)
    }

    fn on_credit(&mut self, params: &RcccParams, now: Time, total: u16) {
        self.speculative = 0;
        if ahead(total, self.granted) > 0 {
            self.granted = total;
            self.due = params.timeout.filter(|_| total != self.asked).map(|timeout| now + timeout);
        }
    }

    fn forget_credit(&mut self) {
        (self.granted, self.used, self.asked, self.asked_at, self.due) = (0, 0, 0, None, None);
        self.speculative = self.initial;
    }

    fn next_timer(&self) -> Option<Time> {
        self.due
    }

    fn on_timer(&mut self, _params: &RcccParams, _now: Time) {
        self.due = None;
    }

    fn rate(&self) -> BitRate {
        self.line
    }

    fn window(&self) -> u32 {
        self.nscc.as_ref().map_or(self.window, |nscc| nscc.window().min(self.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Gbps and 12 us: 150,000 bytes, 36.6 packets of 4,100 bytes, so windows of 54 packets and quanta of 4.
    fn params(set: &[(&str, f64)]) -> RcccParams {
        let flow = FlowConfig {
            mtu: 4_000,
            header: 100,
            line_rate: BitRate::from_gbps(100),
            base_rtt: Time::from_us(12),
            trims: true,
            ..FlowConfig::default()
        };
        let mut settings = Settings::of(&[Rccc::PARAMETERS]);
        for (name, value) in set {
            settings.set(name, crate::settings::Value::Number(*value)).unwrap();
        }
        Rccc::params(&settings, &flow).unwrap()
    }

    fn flow(params: &RcccParams) -> Rccc {
        Rccc::new(params, &FlowConfig::default(), Time::ZERO)
    }

    fn ack(at_us: u64) -> AckSample {
        AckSample { now: Time::from_us(at_us), rtt: Time::from_us(12), acked: 1, in_flight: 9, marked: false }
    }

    #[test]
    fn windows_and_quanta_are_in_packets() {
        let params = params(&[]);
        assert_eq!((params.window, params.speculative, params.credit.quantum), (54, 54, 4));
        // 4,100 bytes at 99 Gbps.
        assert_eq!(params.credit.interval(Time::from_ns(328)), Time::from_ps(331_313));
    }

    #[test]
    fn the_first_feedback_ends_speculative_credit() {
        let params = params(&[]);
        let mut flow = flow(&params);
        for _ in 0..40 {
            flow.on_send(&params, Time::ZERO, 4_100);
        }
        assert_eq!(flow.credit(), 14);
        // 100 packets wait: the flow asks for a window of 54, and nothing has been used of it.
        assert_eq!(flow.ask(&params, Time::ZERO, 100), 54);
        flow.on_ack(&params, &ack(12));
        assert_eq!((flow.credit(), flow.has_credit()), (0, false));
        flow.on_credit(&params, Time::from_us(12), 4);
        assert_eq!(flow.credit(), 4);
        flow.on_send(&params, Time::from_us(12), 4_100);
        assert_eq!((flow.credit(), flow.ask(&params, Time::from_us(12), 99)), (3, 55));
        // Two packets wait, and there are 3 credits: the flow asks for no more than before.
        assert_eq!(flow.ask(&params, Time::from_us(12), 2), 55);
        // An old grant arrives late.
        flow.on_credit(&params, Time::from_us(13), 4);
        assert_eq!(flow.credit(), 3);
    }

    #[test]
    fn a_flow_asks_alone_once_per_round_trip_and_again_after_the_timeout() {
        let params = params(&[("speculative", 0.0)]);
        let timeout = params.timeout.unwrap();
        assert_eq!(timeout, Time::from_us(320));
        let mut flow = flow(&params);
        let us = Time::from_us;
        assert_eq!(flow.ask_alone(&params, us(1), 2), Some(2));
        assert_eq!(flow.next_timer(), Some(us(321)));
        // A third packet waits now, 5 us later: not before 13 us.
        assert_eq!((flow.ask_alone(&params, us(6), 3), flow.next_timer()), (None, Some(us(13))));
        assert_eq!(flow.ask_alone(&params, us(13), 3), Some(3));
        // Without an answer, the same request is repeated.
        assert_eq!((flow.ask_alone(&params, us(40), 3), flow.next_timer()), (None, Some(us(333))));
        assert_eq!(flow.ask_alone(&params, us(333), 3), Some(3));
        flow.on_credit(&params, us(340), 3);
        assert_eq!((flow.next_timer(), flow.credit()), (None, 3));
    }

    #[test]
    fn with_nscc_the_flow_asks_for_what_the_window_allows() {
        let params = RcccParams { with_nscc: true, ..params(&[]) };
        let mut flow = flow(&params);
        assert_eq!(flow.window(), 54);
        flow.on_loss(&params, Time::from_us(1), LossSignal::Timeout);
        assert_eq!((flow.window(), flow.ask(&params, Time::from_us(1), 100)), (1, 1));
    }

    #[test]
    fn the_window_beside_credit_does_not_shrink_for_the_last_hop() {
        let params = RcccParams { with_nscc: true, ..params(&[]) };
        let mut flow = flow(&params);
        // 225,000 bytes; a packet of 4,100 bytes less for a trim within the fabric: 53.9 packets.
        flow.on_loss(&params, Time::from_us(1), LossSignal::LastHop);
        assert_eq!(flow.window(), 54);
        flow.on_loss(&params, Time::from_us(1), LossSignal::Nack);
        assert_eq!(flow.window(), 53);
    }

    #[test]
    fn the_next_flow_of_a_connection_counts_anew() {
        let params = params(&[]);
        let mut flow = flow(&params);
        flow.on_credit(&params, Time::ZERO, 9);
        flow.on_send(&params, Time::ZERO, 4_100);
        flow.forget_credit();
        assert_eq!((flow.credit(), flow.ask(&params, Time::ZERO, 5)), (54, 5));
    }
}
