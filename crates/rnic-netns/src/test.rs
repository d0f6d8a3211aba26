//! Tests that need namespaces: run them, or say why not.

use crate::{NetnsError, Pair};
use std::process::Command;
use std::thread;

/// Runs a test between two namespaces.
///
/// Without the right to make them, the test is run again in a process of its own as root of a new user namespace; where the system
/// forbids that too, it is skipped, and says so.
///
/// # Panics
///
/// If the test does, or the namespaces cannot be made for another reason than privilege.
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

/// Runs the calling test as root of a new user namespace; returns whether it passed, or nothing if that is not possible.
fn run_again() -> Option<bool> {
    // Root that lacks the privilege (in a container) would gain nothing, and a second attempt must end here.
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
    // The harness names a test's thread after it.
    let thread = thread::current();
    let name = thread.name().filter(|name| *name != "main")?;
    let program = std::env::current_exe().ok()?;
    let status = unshare(program.to_str()?).args(["--exact", name, "--nocapture"]).status();
    status.ok().map(|status| status.success())
}
