//! The congestion control of queue pairs, and their flows as trait objects. A flow is a sender of `rnic-transport` with
//! loss recovery and congestion control. Trait objects let the code of queue pairs be compiled once, and not once for
//! each congestion control.
//!
//! The dynamic calls cost a few nanoseconds per packet, about a thousandth of the system call that sends or receives
//! the packet.

use rnic_transport::congestion::{CongestionControl, Settings};
use rnic_transport::recovery::{GoBackN, Irn, Pick, Progress, Protocol, StreamSender};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::{BitRate, FlowConfig, Pdu, Regulator, Sender, Time, Timeouts, Timer};
use std::fmt;
use std::sync::Arc;

/// The sender of a stream of packets, with loss recovery and congestion control. The functions are those of [`Sender`].
pub(crate) trait Flow: Send {
    fn extend(&mut self, packets: u64);
    fn handle(&mut self, now: Time, pdu: Pdu) -> Progress;
    /// Sets the application's rate limit, which applies from the next packet on; `None`: no limit but the link's rate.
    fn set_rate(&mut self, rate: Option<BitRate>);
    /// Sets the retransmission timeouts; `None`: no retransmission timer.
    fn set_timeouts(&mut self, timeouts: Option<Timeouts>);
    fn next_transmit(&self) -> Option<Time>;
    fn poll(&mut self, now: Time) -> Option<Pick>;
    fn sent(&mut self, now: Time, bytes: u32);
    fn claim(&mut self, packets: u32);
    fn truncate(&mut self, keep: u64);
    fn outstanding(&self) -> u32;
    fn resend(&mut self, now: Time);
    fn lost_again(&mut self);
    fn deadline(&self) -> Option<Time>;
    fn on_deadline(&mut self, now: Time) -> Option<Timer>;
    fn rebase(&mut self, now: Time, by: Time);
    /// Maximum number of packets in flight.
    fn window(&self) -> u32;
    fn in_flight(&self) -> u32;
    /// Maximum sending rate.
    fn rate(&self) -> BitRate;
}

/// Paces packets at the rate of a congestion control, without loss recovery. The functions are those of [`Regulator`].
pub(crate) trait Pace: Send {
    /// Sets the application's rate limit, which applies from the next packet on; `None`: no limit but the link's rate.
    fn set_rate(&mut self, rate: Option<BitRate>);
    fn not_before(&self) -> Time;
    /// Handles the transmission of a packet; `more` says whether another one waits.
    fn sent(&mut self, now: Time, bytes: u32, more: bool);
    fn on_cnp(&mut self, now: Time);
    fn deadline(&self) -> Option<Time>;
    fn on_deadline(&mut self, now: Time);
    fn rebase(&mut self, now: Time, by: Time);
}

/// A loss recovery that a [`Flow`] can use. The trait adds the function `claim`, which reserves PSNs for the response
/// packets of an RC read, and which the traits of `rnic_transport` lack.
trait Recovery: Protocol<Sender: StreamSender> {
    fn claim<C: CongestionControl>(sender: &mut Sender<Self, C>, packets: u32);
}

impl Recovery for GoBackN {
    fn claim<C: CongestionControl>(sender: &mut Sender<Self, C>, packets: u32) {
        sender.claim(packets);
    }
}

impl Recovery for Irn {
    /// Does nothing: with IRN a read takes only the PSN of its request, so no PSNs are reserved for the response.
    fn claim<C: CongestionControl>(_sender: &mut Sender<Self, C>, _packets: u32) {}
}

/// Maximum number of bytes, and maximum time, by which a paced flow catches up with its rate after the thread that
/// moves packets was late. NICs have such a limit too (the burst size of a rate limit).
const BURST: u64 = 65_536;
const LATEST: Time = Time::from_ms(10);

/// Whether only pacing kept a flow from sending since its last packet. Then the next packet may leave earlier by as
/// much as the last one was late. After a pause the flow begins with a full interval.
#[derive(Default)]
struct Waits(bool);

impl Waits {
    /// A packet of `bytes` bytes left at `now`, which pacing had allowed at `due`; `more` says whether another waits.
    fn sent<C: CongestionControl>(
        &mut self, regulator: &mut Regulator<C>, due: Time, now: Time, bytes: u32, more: bool,
    ) {
        let step = regulator.not_before().saturating_sub(now);
        if step > Time::ZERO && self.0 {
            let most = Time::from_ps(step.as_ps().saturating_mul(BURST / u64::from(bytes).max(1))).min(LATEST);
            regulator.make_up_for(now.saturating_sub(due).min(most));
        }
        self.0 = step > Time::ZERO && more;
    }
}

struct Bound<P: Protocol, C: CongestionControl> {
    sender: Sender<P, C>,
    waits: Waits,
    cfg: FlowConfig,
    params: C::Params,
}

impl<P: Recovery, C: CongestionControl> Flow for Bound<P, C> {
    fn extend(&mut self, packets: u64) {
        self.sender.extend(packets);
    }
    fn handle(&mut self, now: Time, pdu: Pdu) -> Progress {
        self.sender.handle(&self.cfg, &self.params, now, pdu)
    }
    fn set_rate(&mut self, rate: Option<BitRate>) {
        self.cfg.max_rate = rate;
    }
    fn set_timeouts(&mut self, timeouts: Option<Timeouts>) {
        self.cfg.timeouts = timeouts;
    }
    fn next_transmit(&self) -> Option<Time> {
        self.sender.next_transmit(&self.cfg)
    }
    fn poll(&mut self, now: Time) -> Option<Pick> {
        self.sender.poll(&self.cfg, now)
    }
    fn sent(&mut self, now: Time, bytes: u32) {
        let due = self.sender.regulator().not_before();
        self.sender.sent(&self.cfg, &self.params, now, bytes);
        let is_paced = self.sender.regulator().not_before() > now;
        let more = is_paced && self.sender.next_transmit(&self.cfg).is_some();
        self.waits.sent(self.sender.regulator_mut(), due, now, bytes, more);
    }
    fn claim(&mut self, packets: u32) {
        P::claim(&mut self.sender, packets);
    }
    fn resend(&mut self, now: Time) {
        self.sender.resend(now);
    }
    fn lost_again(&mut self) {
        self.sender.lost_again();
    }
    fn truncate(&mut self, keep: u64) {
        self.sender.truncate(keep);
    }
    fn outstanding(&self) -> u32 {
        self.sender.outstanding()
    }
    fn deadline(&self) -> Option<Time> {
        self.sender.deadline(&self.cfg).map(|(at, _)| at)
    }
    fn on_deadline(&mut self, now: Time) -> Option<Timer> {
        self.sender.on_deadline(&self.cfg, &self.params, now)
    }
    fn rebase(&mut self, now: Time, by: Time) {
        self.sender.rebase(&self.cfg, &self.params, now, by);
    }
    fn window(&self) -> u32 {
        self.sender.congestion().window().min(self.cfg.bdp_cap)
    }
    fn in_flight(&self) -> u32 {
        self.sender.in_flight()
    }
    fn rate(&self) -> BitRate {
        let rate = self.sender.congestion().rate().min(self.cfg.line_rate);
        self.cfg.max_rate.map_or(rate, |max| rate.min(max))
    }
}

struct Paced<C: CongestionControl> {
    regulator: Regulator<C>,
    waits: Waits,
    cfg: FlowConfig,
    params: C::Params,
}

impl<C: CongestionControl> Pace for Paced<C> {
    fn set_rate(&mut self, rate: Option<BitRate>) {
        self.cfg.max_rate = rate;
    }
    fn not_before(&self) -> Time {
        self.regulator.not_before()
    }
    fn sent(&mut self, now: Time, bytes: u32, more: bool) {
        let due = self.regulator.not_before();
        self.regulator.sent(&self.cfg, &self.params, now, bytes);
        self.waits.sent(&mut self.regulator, due, now, bytes, more);
    }
    fn on_cnp(&mut self, now: Time) {
        self.regulator.congestion_mut().on_cnp(&self.params, now);
    }
    fn deadline(&self) -> Option<Time> {
        self.regulator.congestion().next_timer()
    }
    fn on_deadline(&mut self, now: Time) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.regulator.congestion_mut().on_timer(&self.params, now);
        }
    }
    fn rebase(&mut self, now: Time, by: Time) {
        self.regulator.rebase(&self.cfg, &self.params, now, by);
    }
}

/// Creates the senders of a queue pair (with go-back-N, with IRN, or only paced) with one congestion control and its
/// settings.
trait Factory: Send + Sync {
    fn name(&self) -> &'static str;
    fn marks(&self, cfg: &FlowConfig) -> bool;
    fn check(&self, cfg: &mut FlowConfig) -> Result<(), String>;
    fn go_back_n(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String>;
    fn irn(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String>;
    fn pace(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Pace>, String>;
}

struct Maker<C> {
    settings: Settings,
    of: std::marker::PhantomData<fn() -> C>,
}

impl<C: CongestionControl> Maker<C> {
    fn flow<P: Recovery>(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String> {
        let params = C::params(&self.settings, cfg)?;
        let sender = Sender::<P, C>::stream(cfg, &params, now);
        Ok(Box::new(Bound { sender, waits: Waits::default(), cfg: cfg.clone(), params }))
    }
}

impl<C: CongestionControl> Factory for Maker<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }
    fn marks(&self, cfg: &FlowConfig) -> bool {
        C::params(&self.settings, cfg).is_ok_and(|params| C::marking(&params, cfg).is_some())
    }
    fn check(&self, cfg: &mut FlowConfig) -> Result<(), String> {
        let params = C::params(&self.settings, cfg)?;
        cfg.cnp_interval = C::cnp_interval(&params);
        cfg.nic_cnp_interval = C::nic_cnp_interval(&params);
        Ok(())
    }
    fn go_back_n(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String> {
        self.flow::<GoBackN>(cfg, now)
    }
    fn irn(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String> {
        self.flow::<Irn>(cfg, now)
    }
    fn pace(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Pace>, String> {
        let params = C::params(&self.settings, cfg)?;
        let regulator = Regulator::<C>::new(cfg, &params, now);
        Ok(Box::new(Paced { regulator, waits: Waits::default(), cfg: cfg.clone(), params }))
    }
}

/// A congestion control with its settings, as the choice for a queue pair or for a whole device.
///
/// ```
/// use rnic_transport::congestion::{CongestionControl, Dcqcn, Settings};
/// use rnic_verbs::Congestion;
///
/// let default = Congestion::named("dcqcn").unwrap();
/// let same = Congestion::of::<Dcqcn>(Settings::new(Dcqcn::PARAMETERS));
/// assert_eq!(default.name(), same.name());
/// assert!(Congestion::named("no such").is_none());
/// ```
#[derive(Clone)]
pub struct Congestion(Arc<dyn Factory>);

impl Congestion {
    /// The congestion control `C` with these settings. `C` need not be in the registry of `rnic-transport`, the list of
    /// its congestion controls.
    pub fn of<C: CongestionControl>(settings: Settings) -> Congestion {
        Congestion(Arc::new(Maker::<C> { settings, of: std::marker::PhantomData }))
    }

    /// The congestion control with this name in the registry of `rnic-transport`, with its default settings; `None` if
    /// the registry has no such name.
    pub fn named(name: &str) -> Option<Congestion> {
        struct Find<'a> {
            name: &'a str,
            found: Option<Congestion>,
        }
        impl Visitor for Find<'_> {
            fn visit<C: CongestionControl>(&mut self) {
                if C::NAME == self.name {
                    self.found = Some(Congestion::of::<C>(Settings::new(C::PARAMETERS)));
                }
            }
        }
        let mut find = Find { name, found: None };
        visit_congestion_controls(&mut find);
        find.found
    }

    /// The name of the congestion control.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Whether the congestion control responds to CE marks. If it does, packets carry ECT(0), so that switches may mark
    /// them.
    pub(crate) fn marks(&self, cfg: &FlowConfig) -> bool {
        self.0.marks(cfg)
    }

    /// Checks the congestion control's settings for a flow with the configuration `cfg`, and writes the minimum times
    /// between CNPs into `cfg`.
    pub(crate) fn check(&self, cfg: &mut FlowConfig) -> Result<(), String> {
        self.0.check(cfg)
    }

    pub(crate) fn go_back_n(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String> {
        self.0.go_back_n(cfg, now)
    }

    pub(crate) fn irn(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Flow>, String> {
        self.0.irn(cfg, now)
    }

    pub(crate) fn pace(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Pace>, String> {
        self.0.pace(cfg, now)
    }
}

impl fmt::Debug for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Congestion({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::congestion::NoCongestionControl;

    const PACKET: u32 = 1_250; // 10 us at 1 Gbps

    /// Sends what pacing allows at `now`; returns the number of packets.
    fn flow_sends(flow: &mut dyn Flow, now: Time) -> u32 {
        let mut count = 0;
        while flow.poll(now).is_some() {
            flow.sent(now, PACKET);
            count += 1;
        }
        count
    }

    fn flows() -> [Box<dyn Flow>; 2] {
        let congestion = Congestion::of::<NoCongestionControl>(Settings::new(&[]));
        let rate = Some(BitRate::from_gbps(1));
        let cfg = FlowConfig { max_rate: rate, bdp_cap: 8_000, ..FlowConfig::default() };
        [congestion.go_back_n(&cfg, Time::ZERO).unwrap(), congestion.irn(&cfg, Time::ZERO).unwrap()]
    }

    /// A thread that looks every 45 us sends at the rate: 4 or 5 packets each time.
    #[test]
    fn a_late_owner_does_not_lower_the_rate() {
        for mut flow in flows() {
            flow.extend(1_000);
            let sent: Vec<u32> = (0..100).map(|turn| flow_sends(&mut *flow, Time::from_us(45 * turn))).collect();
            assert_eq!(sent[0], 1);
            assert!(sent[1..].iter().all(|count| [4, 5].contains(count)), "{sent:?}");
            // In 99 * 45 us go 445.5 intervals of 10 us.
            assert_eq!(sent.iter().sum::<u32>(), 1 + 445);
        }
    }

    /// Catching up is bounded: after 10 ms, in which 1,000 packets could have left, 64 KB leave at once.
    #[test]
    fn an_owner_that_was_away_sends_a_bounded_burst() {
        for mut flow in flows() {
            flow.extend(1_000);
            assert_eq!(flow_sends(&mut *flow, Time::ZERO), 1);
            assert_eq!(flow_sends(&mut *flow, Time::from_ms(10)), 1 + 65_536 / PACKET);
        }
    }

    /// A flow that had nothing to send does not save up: it begins with one packet.
    #[test]
    fn an_idle_flow_saves_nothing() {
        for mut flow in flows() {
            flow.extend(3);
            assert_eq!([0, 10, 20].map(|us| flow_sends(&mut *flow, Time::from_us(us))), [1, 1, 1]);
            flow.extend(100);
            assert_eq!(flow_sends(&mut *flow, Time::from_us(500)), 1);
            assert_eq!(flow_sends(&mut *flow, Time::from_us(520)), 2);
        }
    }

    #[test]
    fn packets_without_loss_recovery_catch_up_too() {
        let congestion = Congestion::of::<NoCongestionControl>(Settings::new(&[]));
        let cfg = FlowConfig { max_rate: Some(BitRate::from_gbps(1)), ..FlowConfig::default() };
        let mut pace = congestion.pace(&cfg, Time::ZERO).unwrap();
        let mut sends = |us, more| {
            let now = Time::from_us(us);
            let mut count = 0;
            while pace.not_before() <= now && count < 100 {
                pace.sent(now, PACKET, more);
                count += 1;
            }
            count
        };
        assert_eq!([0, 45, 90].map(|us| sends(us, true)), [1, 4, 5]);
        assert_eq!(sends(100, false), 1);
        assert_eq!(sends(900, true), 1, "it had nothing to send in between");
    }
}
