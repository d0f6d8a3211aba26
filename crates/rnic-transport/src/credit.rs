//! Credit that the NIC of a receiver grants to its senders: the receiving half of RCCC, the receiver-credit congestion
//! control of Ultra Ethernet.
//!
//! Each sender says how much credit it needs, and the NIC grants a *quantum* to one sender after the other, so that all
//! packets together arrive at the rate of the NIC's link or slightly below. The counts of both sides are totals since
//! the flow began, modulo 2^16. So neither a lost nor a late packet makes them differ: the next one has the newer
//! total.
//!
//! Credit is counted in packets, full ones and others.

use crate::Time;
use std::collections::VecDeque;

/// How NICs grant credit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CreditConfig {
    /// Number of packets that a sender is granted at a time, at least 1.
    pub quantum: u32,
    /// Rate of all grants together, as a share of the link's rate, above 0 and at most 1.
    pub share: f64,
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
            self.next = now + self.interval * u64::from(amount);
            return Some(Grant { flow, total: account.granted });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quanta of 4 packets; a packet takes 99 ns on the link, so 100 ns at a share of 0.99.
    fn pacer() -> Pacer {
        Pacer::new(&CreditConfig { quantum: 4, share: 0.99 }, Time::from_ns(99))
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
}
