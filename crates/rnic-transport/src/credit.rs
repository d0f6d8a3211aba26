//! Credit that the NIC of a receiver grants to its senders: the receiving half of RCCC, the receiver-credit congestion
//! control of Ultra Ethernet.
//!
//! Each sender says how much credit it needs, and the NIC grants a *quantum* to one sender after the other, so that all
//! packets together arrive at the rate of the NIC's link or slightly below. The counts of both sides are totals since
//! the flow began, modulo 2^16. So neither a lost nor a late packet makes them differ: the next one has the newer
//! total.
//!
//! Credit is counted in packets, full ones and others.
//!
//! In a fabric with less capacity than its hosts, the rate of a receiver's link is too much. Then a NIC can adapt the
//! rate of its grants to the marks and trimmed packets that it receives ([`Reduction`]).

use crate::Time;
use crate::random::Random;
use std::collections::VecDeque;

/// How NICs grant credit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CreditConfig {
    /// Number of packets that a sender is granted at a time, at least 1.
    pub quantum: u32,
    /// Rate of all grants together, as a share of the link's rate, above 0 and at most 1.
    pub share: f64,
    /// How the rate adapts to a fabric with less capacity than its hosts; `None`: it stays.
    pub reduction: Option<Reduction>,
}

/// How the rate of a NIC's grants adapts to the marks and trimmed packets of the data that it receives.
///
/// About once per `interval`, with *t* the share of packets that a switch before the last one trimmed, and *g* the
/// average share of marked packets (each new one counts half):
///
/// - the rate falls by *t* line rates, and by a factor of 1 - (*g* - 0.3)/2 if *g* is above 0.3;
/// - else it grows by 0.01 line rates, without marks by twice as much in each interval after the last decrease.
///
/// The constants are those of the public reference simulator (uet-htsim, 2025).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reduction {
    /// Minimum rate, as a share of [`CreditConfig::share`], above 0 and below 1.
    pub min: f64,
    /// Mean time between two changes. Each time is random, from 0.75 to 1.25 of it, so that NICs do not act together.
    pub interval: Time,
}

/// Average share of marked packets above which the rate falls, and the weight of the excess.
const MARKS: (f64, f64) = (0.3, 0.5);
/// Increase of the rate, as a share of the link's rate.
const INCREASE: f64 = 0.01;
/// Maximum number of intervals without packets that are made up for one by one.
const MAX_IDLE: u32 = 16;

/// The state of a [`Reduction`].
#[derive(Clone, Debug)]
struct Reducer {
    config: Reduction,
    /// The current rate, as a share of the rate without reduction, and the average share of marked packets.
    rate: f64,
    marks: f64,
    /// Number of increases since the last decrease.
    increases: i32,
    /// Packets since the last change: all of them, marked ones, and those trimmed by the last switch and by others.
    arrived: u32,
    marked: u32,
    last_hop: u32,
    trimmed: u32,
    /// When the rate changes next.
    due: Time,
    random: Random,
}

impl Reducer {
    fn new(config: Reduction) -> Reducer {
        Reducer {
            config,
            rate: 1.0,
            marks: 0.0,
            increases: 0,
            arrived: 0,
            marked: 0,
            last_hop: 0,
            trimmed: 0,
            due: config.interval,
            random: Random(0),
        }
    }

    /// Makes all changes that are due at `now`.
    fn catch_up(&mut self, now: Time) {
        for _ in 0..MAX_IDLE {
            if self.due > now {
                return;
            }
            self.change();
            let interval = self.next_interval();
            self.due += interval;
        }
        if self.due <= now {
            self.due = now + self.next_interval();
        }
    }

    /// A random time from 0.75 to 1.25 intervals.
    fn next_interval(&mut self) -> Time {
        let thousandths = 750 + u64::from(self.random.below(501));
        Time::from_ps(self.config.interval.as_ps() * thousandths / 1_000)
    }

    /// Changes the rate by what has arrived since the last change.
    fn change(&mut self) {
        let share = |packets: u32, of: u32| if of == 0 { 0.0 } else { f64::from(packets) / f64::from(of) };
        self.marks = (self.marks + share(self.marked, self.arrived - self.last_hop - self.trimmed)) / 2.0;
        let excess = (self.marks - MARKS.0).max(0.0);
        if self.trimmed > 0 || excess > 0.0 {
            self.rate = (self.rate - share(self.trimmed, self.arrived)) * (1.0 - excess * MARKS.1);
            self.increases = 0;
        } else {
            let doublings = if self.marked == 0 { self.increases } else { 0 };
            self.rate += INCREASE * 2f64.powi(doublings);
            self.increases = (self.increases + 1).min(MAX_IDLE as i32);
        }
        self.rate = self.rate.clamp(self.config.min, 1.0);
        (self.arrived, self.marked, self.last_hop, self.trimmed) = (0, 0, 0, 0);
    }
}

/// A data packet that a NIC has received, as far as the rate of its grants is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// With its payload.
    Whole {
        /// Whether a switch CE-marked it.
        marked: bool,
    },
    /// Without its payload.
    Trimmed {
        /// Whether the last switch before the NIC trimmed it.
        last_hop: bool,
    },
}

impl CreditConfig {
    /// The time of a packet at the rate of the grants, if it takes `packet` on the link.
    pub fn interval(&self, packet: Time) -> Time {
        Time::from_ps((packet.as_ps() as f64 / self.share).round() as u64)
    }
}

/// Number of packets from `from` to `to`, totals modulo 2^16; zero if `to` is not later.
pub fn ahead(to: u16, from: u16) -> u16 {
    let ahead = to.wrapping_sub(from);
    if ahead < 1 << 15 { ahead } else { 0 }
}

/// The credit of one flow, at its receiver.
#[derive(Clone, Copy, Default, Debug)]
struct Account {
    /// Credit that the sender has asked for, and that it has been granted.
    asked: u16,
    granted: u16,
    /// Whether the flow is in the queue of turns.
    queued: bool,
}

/// A grant to the sender of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The flow, as in [`Pacer::ask`].
    pub flow: u32,
    /// Its credit since it began, modulo 2^16.
    pub total: u16,
}

/// What grants credit in the NIC of a receiver.
#[derive(Clone, Debug)]
pub struct Pacer {
    quantum: u16,
    /// Time of a packet at the rate of the grants.
    interval: Time,
    accounts: Vec<Account>,
    /// Flows that wait for credit, in the order of their turns.
    turns: VecDeque<u32>,
    /// When the next grant may leave.
    next: Time,
    /// What adapts the rate to the fabric; `None` if it stays.
    reducer: Option<Box<Reducer>>,
}

impl Pacer {
    /// The pacer of a NIC on whose link a full packet takes `packet`.
    pub fn new(config: &CreditConfig, packet: Time) -> Pacer {
        Pacer {
            quantum: config.quantum.clamp(1, 1 << 14) as u16,
            interval: config.interval(packet),
            accounts: Vec::new(),
            turns: VecDeque::new(),
            next: Time::ZERO,
            reducer: config.reduction.map(|config| Box::new(Reducer::new(config))),
        }
    }

    /// The same pacer with other random numbers; `seed` should differ between NICs.
    pub fn seeded(mut self, seed: u64) -> Pacer {
        if let Some(reducer) = &mut self.reducer {
            reducer.random = Random(seed);
        }
        self
    }

    /// Takes note of a data packet that arrives at `now`.
    #[inline]
    pub fn note(&mut self, now: Time, received: Received) {
        let Some(reducer) = &mut self.reducer else { return };
        reducer.catch_up(now);
        reducer.arrived += 1;
        match received {
            Received::Whole { marked } => reducer.marked += u32::from(marked),
            Received::Trimmed { last_hop: true } => reducer.last_hop += 1,
            Received::Trimmed { last_hop: false } => reducer.trimmed += 1,
        }
    }

    /// The time of a packet at the current rate of the grants.
    fn packet_time(&self) -> Time {
        match &self.reducer {
            None => self.interval,
            Some(reducer) => Time::from_ps((self.interval.as_ps() as f64 / reducer.rate).round() as u64),
        }
    }

    /// Begins to count the credit of `flow` again, for another flow of this number.
    pub fn forget(&mut self, flow: u32) {
        if let Some(account) = self.accounts.get_mut(flow as usize) {
            *account = Account { queued: account.queued, ..Account::default() };
        }
    }

    /// The sender of `flow` asks for credit up to the total `asked`. Flows have small numbers: the pacer has an account
    /// for each number up to the largest. Returns the flow's credit.
    pub fn ask(&mut self, flow: u32, asked: u16) -> u16 {
        let index = flow as usize;
        if self.accounts.len() <= index {
            self.accounts.resize(index + 1, Account::default());
        }
        let account = &mut self.accounts[index];
        if ahead(asked, account.asked) > 0 {
            account.asked = asked;
        }
        if ahead(account.asked, account.granted) > 0 && !account.queued {
            account.queued = true;
            self.turns.push_back(flow);
        }
        account.granted
    }

    /// When [`grant`](Pacer::grant) has something to do; `None` if no flow waits for credit.
    pub fn next(&self) -> Option<Time> {
        (!self.turns.is_empty()).then_some(self.next)
    }

    /// Grants a quantum to the flow whose turn it is, or the rest of what it asked for, if a grant may leave by `now`.
    pub fn grant(&mut self, now: Time) -> Option<Grant> {
        if self.next > now {
            return None;
        }
        while let Some(flow) = self.turns.pop_front() {
            let account = &mut self.accounts[flow as usize];
            account.queued = false;
            let amount = ahead(account.asked, account.granted).min(self.quantum);
            if amount == 0 {
                continue; // the flow of this number ended
            }
            account.granted = account.granted.wrapping_add(amount);
            if account.granted != account.asked {
                account.queued = true;
                self.turns.push_back(flow);
            }
            let granted = Grant { flow, total: account.granted };
            self.next = now + self.packet_time() * u64::from(amount);
            return Some(granted);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quanta of 4 packets; a packet takes 99 ns on the link, so 100 ns at a share of 0.99.
    fn pacer() -> Pacer {
        Pacer::new(&CreditConfig { quantum: 4, share: 0.99, reduction: None }, Time::from_ns(99))
    }

    /// All grants from 1 us on: time in nanoseconds, flow and total.
    fn grants(pacer: &mut Pacer) -> Vec<(u64, u32, u16)> {
        let (mut now, mut all) = (Time::from_us(1), Vec::new());
        while let Some(at) = pacer.next() {
            now = now.max(at);
            if let Some(Grant { flow, total }) = pacer.grant(now) {
                all.push((now.as_ps() / 1_000, flow, total));
            }
        }
        all
    }

    #[test]
    fn one_sender_has_the_whole_rate() {
        let mut pacer = pacer();
        assert_eq!(pacer.next(), None);
        assert_eq!(pacer.ask(0, 10), 0);
        // 4 packets take 400 ns; the last grant is the rest of 2.
        assert_eq!(grants(&mut pacer), [(1_000, 0, 4), (1_400, 0, 8), (1_800, 0, 10)]);
        // The next grant leaves after the 2 packets, although it was asked for before.
        assert_eq!((pacer.ask(0, 11), pacer.next()), (10, Some(Time::from_ns(2_000))));
        assert_eq!(pacer.grant(Time::from_ns(1_999)), None);
        assert_eq!(pacer.grant(Time::from_ns(2_000)), Some(Grant { flow: 0, total: 11 }));
    }

    #[test]
    fn two_senders_take_turns() {
        let mut pacer = pacer();
        pacer.ask(7, 9);
        pacer.ask(2, 4);
        // Flow 2 is done after one quantum, and flow 7 has the whole rate then.
        assert_eq!(grants(&mut pacer), [(1_000, 7, 4), (1_400, 2, 4), (1_800, 7, 8), (2_200, 7, 9)]);
    }

    #[test]
    fn n_senders_get_an_nth_each() {
        let mut pacer = pacer();
        for flow in 0..10 {
            pacer.ask(flow, 8);
        }
        let all = grants(&mut pacer);
        // 80 packets at 100 ns: the last of 20 grants leaves after 76 of them.
        assert_eq!((all.len(), all.last()), (20, Some(&(1_000 + 7_600, 9, 8))));
        assert!(
            all[..10].iter().enumerate().all(|(at, grant)| (grant.1, grant.2) == (at as u32, 4)),
            "one quantum each"
        );
        assert!(all[10..].iter().enumerate().all(|(at, grant)| (grant.1, grant.2) == (at as u32, 8)));
    }

    #[test]
    fn totals_wrap_and_old_requests_change_nothing() {
        let mut pacer = pacer();
        for total in [20_000, 40_000, 60_000, 65_534] {
            pacer.ask(0, total);
            grants(&mut pacer);
        }
        pacer.ask(0, 2); // 4 packets after 65,534
        assert_eq!(grants(&mut pacer).last().map(|grant| (grant.1, grant.2)), Some((0, 2)));
        assert_eq!(pacer.ask(0, 65_000), 2, "a late packet");
        assert_eq!(pacer.next(), None);
    }

    #[test]
    fn a_new_flow_of_the_same_number_begins_without_credit() {
        let mut pacer = pacer();
        pacer.ask(0, 8);
        assert_eq!(pacer.grant(Time::from_us(1)), Some(Grant { flow: 0, total: 4 }));
        pacer.forget(0);
        assert_eq!(grants(&mut pacer), [], "what the old flow waits for is not granted");
        assert_eq!(pacer.ask(0, 3), 0);
        assert_eq!(grants(&mut pacer), [(1_400, 0, 3)]);
    }

    /// The rate after each of several intervals of 1 us, in which these packets arrive: all, marked, trimmed by the
    /// last switch, trimmed by others.
    fn rates(min: f64, intervals: &[(u32, u32, u32, u32)]) -> Vec<f64> {
        let mut reducer = Reducer::new(Reduction { min, interval: Time::from_us(1) });
        let change = |(arrived, marked, last_hop, trimmed): &(u32, u32, u32, u32)| {
            (reducer.arrived, reducer.marked) = (*arrived, *marked);
            (reducer.last_hop, reducer.trimmed) = (*last_hop, *trimmed);
            reducer.change();
            (reducer.rate * 1e6).round() / 1e6
        };
        intervals.iter().map(change).collect()
    }

    #[test]
    fn marks_and_trims_in_the_fabric_lower_the_rate() {
        // All of 8 whole packets are marked: the average is 0.5, then 0.75; of 100 packets 10 are trimmed in the
        // fabric.
        let marked = (10, 8, 2, 0);
        assert_eq!(rates(0.1, &[marked, marked]), [0.9, 0.9 * (1.0 - 0.45 / 2.0)]);
        // Both at once: (1 - 0.1) x (1 - (0.5 - 0.3)/2).
        assert_eq!(rates(0.1, &[(100, 90, 0, 10)]), [0.81]);
        assert_eq!(rates(0.85, &[(100, 90, 0, 10)]), [0.85], "the minimum");
        // The last switch trims because of other senders to this receiver, which grants deal with.
        assert_eq!(rates(0.1, &[(10, 0, 10, 0)]), [1.0]);
        // After a decrease the rate grows by 1, 2, 4 %; with a few marks always by 1 %.
        assert_eq!(rates(0.1, &[(10, 0, 0, 5), (9, 0, 0, 0), (9, 0, 0, 0), (9, 0, 0, 0)]), [0.5, 0.51, 0.53, 0.57]);
        assert_eq!(rates(0.1, &[(10, 0, 0, 5), (9, 1, 0, 0), (9, 1, 0, 0)]), [0.5, 0.51, 0.52]);
    }

    #[test]
    fn a_lower_rate_makes_grants_rarer_until_the_fabric_is_free_again() {
        let reduction = Reduction { min: 0.5, interval: Time::from_us(10) };
        let config = CreditConfig { quantum: 4, share: 0.99, reduction: Some(reduction) };
        let mut pacer = Pacer::new(&config, Time::from_ns(99)).seeded(7);
        // Four of 10 packets are trimmed: 0.6 of the rate, with packets of 167 ns instead of 100.
        for packet in 0..10 {
            pacer.note(Time::from_us(1), Received::Trimmed { last_hop: packet >= 4 });
        }
        pacer.note(Time::from_us(13), Received::Whole { marked: false });
        assert_eq!(pacer.packet_time(), Time::from_ps(166_667));
        pacer.ask(0, 8);
        assert_eq!(pacer.grant(Time::from_us(13)), Some(Grant { flow: 0, total: 4 }));
        assert_eq!(pacer.next(), Some(Time::from_us(13) + Time::from_ps(4 * 166_667)));
        // Without packets for long, the rate is whole again.
        pacer.note(Time::from_ms(9), Received::Whole { marked: true });
        assert_eq!(pacer.packet_time(), Time::from_ns(100));
    }
}
