//! Attacks on a connection of the endpoint: an attacker sends forged, repeated and altered packets while the connection
//! transfers data. Every byte of the data is compared.
//!
//! The two ends are in two network namespaces. The attacker is in the namespace of the sending end and has a raw
//! socket. It can therefore do everything that a remote attacker with a forged source address can do, and it can also
//! read the packets. `docs/concepts/security.md` has the table of results, which the command `rnic-attack` prints.

#![forbid(unsafe_code)]

pub mod attacker;
pub mod raw;
pub mod victim;

use attacker::Attack;
use rnic_endpoint::{Error, Security, Service};
use rnic_netns::Pair;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use victim::{Outcome, Victim};

/// One attack on one kind of connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// The attack.
    pub attack: Attack,
    /// Transport service of the connection.
    pub service: Service,
    /// Protection of its packets.
    pub security: Security,
}

impl Case {
    /// Whether the connection must transfer all its data without error during the attack.
    pub fn must_hold(&self) -> bool {
        self.security != Security::None || self.attack.is_harmless()
    }
}

/// The result of one case.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case.
    pub case: Case,
    /// Number of packets that the attacker sent.
    pub packets: u64,
    /// The result for the connection.
    pub outcome: Outcome,
}

impl Finding {
    /// Whether the connection still transfers data, and no byte was wrong.
    pub fn held(&self) -> bool {
        self.outcome.failed.is_none() && self.outcome.wrong_bytes == 0 && self.outcome.messages > 0
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { case, packets, outcome } = self;
        let state = match &outcome.failed {
            Some(status) => format!("ended ({status})"),
            None => "continues".to_string(),
        };
        write!(
            f,
            "| {} | {:?} | {} | {packets} | {} | {} | {state} |",
            case.attack.name(),
            case.service,
            case.security.name(),
            outcome.messages,
            outcome.wrong_bytes,
        )
    }
}

/// Header of the table of [`Finding`]s.
pub const HEAD: &str = "| attack | service | security | packets sent | messages verified | wrong bytes | connection |\n\
                        |---|---|---|---|---|---|---|";

/// Carries out one case for `time`.
///
/// # Errors
/// If the devices cannot be opened or connected.
///
/// # Panics
/// If the attacker's sockets cannot be opened.
pub fn carry_out(pair: &Pair, case: Case, time: Duration, seed: u64) -> Result<Finding, Error> {
    let victim = Victim::open(pair, case.service, case.security)?;
    let known = victim.known();
    let stop = AtomicBool::new(false);
    let (outcome, packets) = std::thread::scope(|scope| {
        let attacker = scope.spawn(|| case.attack.run(pair, &known, seed, &stop));
        let outcome = victim.work(time);
        stop.store(true, Ordering::Relaxed);
        (outcome, attacker.join().expect("the attacker does not panic"))
    });
    Ok(Finding { case, packets, outcome: outcome? })
}
