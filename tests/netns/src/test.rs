//! Runs tests that need network namespaces, or skips them with a message.

use crate::{Namespace, NetnsError, Pair};
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

/// Runs a test with two connected namespaces.
///
/// If the process lacks the privilege to create namespaces, the test runs again in a process of its own, as root of a
/// new user namespace. If the system forbids user namespaces too, or `ip` is not installed, the test is skipped with a
/// message.
///
/// ```no_run
/// #[test]
/// fn the_other_end_can_be_reached() {
///     rnic_netns::with_pair(1_500, |pair| {
///         pair.a.ip("route get 10.77.0.2").unwrap();
///     });
/// }
/// ```
///
/// # Panics
///
/// If the test panics, or the namespaces cannot be created for another reason.
pub fn with_pair(mtu: u32, test: impl FnOnce(&Pair)) {
    match Pair::new(mtu) {
        Ok(pair) => test(&pair),
        Err(NetnsError::Privilege(error)) => match run_again() {
            Some(passed) => assert!(passed, "the test failed in its user namespace; its output is above"),
            None => eprintln!("skipped: network namespaces need root or user namespaces: {error}"),
        },
        Err(error @ NetnsError::NoIp(_)) => eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs the calling test as root of a new user namespace; returns whether it passed, or `None` if the test cannot be
/// run in this way.
fn run_again() -> Option<bool> {
    // A root user without the privilege (in a container) would gain nothing from a user namespace. This check also ends
    // the recursion, because the second attempt runs as root.
    if nix::unistd::geteuid().is_root() {
        return None;
    }
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--"]).arg(program);
        command
    };
    if !unshare("true").output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    // The test harness names the thread of a test after the test.
    let thread = thread::current();
    let name = thread.name().filter(|name| *name != "main")?;
    let program = std::env::current_exe().ok()?;
    let status = unshare(program.to_str()?).args(["--exact", name, "--nocapture"]).status();
    status.ok().map(|status| status.success())
}

/// Sets up the packet filter of a namespace: every tenth outgoing ECN-capable packet gets a CE mark. Returns `false` if
/// there is no `nft`.
///
/// # Panics
/// If `nft` fails.
pub fn mark_some_packets(namespace: &Namespace) -> bool {
    let rules = "table inet marking {
        chain leaving {
            type filter hook postrouting priority 0;
            ip ecn ect0 numgen inc mod 10 == 3 ip ecn set ce
            ip6 ecn ect0 numgen inc mod 10 == 3 ip6 ecn set ce
        }
    }";
    let nft = || Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = namespace.run(nft) else {
        eprintln!("skipped: `nft` (package nftables) is not installed");
        return false;
    };
    let written = child.stdin.take().map(|mut input| input.write_all(rules.as_bytes()));
    let took = matches!(written, Some(Ok(()))) && child.wait().is_ok_and(|status| status.success());
    assert!(took, "nft takes the rules");
    true
}
