//! Runs each attack for a short time. `cargo run --release -p rnic-attack` runs them for longer and prints a table.

use parking_lot::Mutex;
use rnic_attack::attacker::Attack;
use rnic_attack::{Case, carry_out};
use rnic_endpoint::{Security, Service};
use rnic_netns::Pair;
use std::time::Duration;

const TIME: Duration = Duration::from_millis(250);

/// Runs one test at a time. A test opens its UDP port repeatedly. If another test forks a process (for its namespaces)
/// at that moment, the process has a copy of the open port until it executes its command.
fn with_pair(act: impl FnOnce(&Pair)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    rnic_netns::with_pair(1_500, act);
}

#[test]
fn protected_connections_withstand_every_attack() {
    with_pair(|pair| {
        for attack in Attack::ALL {
            for security in [Security::Authenticated, Security::Encrypted] {
                let case = Case { attack, service: Service::Irn, security };
                let finding = carry_out(pair, case, TIME, 1).unwrap();
                assert!(finding.held(), "{finding}");
                assert!(attack == Attack::None || finding.packets > 0, "{finding}");
            }
        }
    });
}

#[test]
fn plain_connections_withstand_a_stranger_who_must_guess() {
    with_pair(|pair| {
        for attack in Attack::ALL.into_iter().filter(|attack| attack.is_harmless()) {
            let case = Case { attack, service: Service::Irn, security: Security::None };
            let finding = carry_out(pair, case, TIME, 1).unwrap();
            assert!(finding.held(), "{finding}");
        }
    });
}

/// Checks that the attacks work: without protection, an attacker who knows the numbers ends the connection.
#[test]
fn whoever_knows_the_numbers_ends_a_plain_connection() {
    with_pair(|pair| {
        for attack in [Attack::Sweep, Attack::Write] {
            let case = Case { attack, service: Service::Irn, security: Security::None };
            let finding = carry_out(pair, case, Duration::from_secs(5), 1).unwrap();
            assert!(!finding.held(), "{finding}");
        }
    });
}
