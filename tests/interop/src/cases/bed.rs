//! Cases about the test bed itself: commands that fail, are killed or take too long, and guests that end.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::{Error, Result};
use crate::guest::{COMMAND_PATIENCE, GuestOptions};
use std::time::Duration;

pub(super) const CASES: &[Case] =
    &[Case { name: "bed-trouble", about: "failing, endless and fatal commands are reported as such", run: trouble }];

fn trouble(bench: &Bench) -> Result<()> {
    let (mut guest, _port) = bench.guest_and_port(&GuestOptions::default())?;

    let failing = guest.run("echo to standard output; echo to standard error >&2; exit 3");
    let Err(Error::Command { code: 3, output, .. }) = failing else {
        return Err(Error::Check(format!("a failing command gives {failing:?}")));
    };
    ensure!(output == "to standard output\nto standard error\n", "a failing command printed {output:?}");

    // The outputs must belong to the right commands, whichever command ends first.
    let slow = guest.spawn("sleep 1; echo slow")?;
    let quick = guest.spawn("echo quick")?;
    let (slow, quick) = (guest.finish(slow, COMMAND_PATIENCE)?, guest.finish(quick, COMMAND_PATIENCE)?);
    ensure!((&*slow, &*quick) == ("slow\n", "quick\n"), "two commands printed {slow:?} and {quick:?}");

    let endless = guest.spawn("echo started; sleep 1000")?;
    let endless = guest.finish(endless, Duration::from_secs(3));
    let Err(Error::Timeout { detail, .. }) = &endless else {
        return Err(Error::Check(format!("an endless command gives {endless:?}")));
    };
    ensure!(detail.contains("started"), "of an endless command is known: {detail}");

    let killed = guest.spawn("echo started; sleep 1000; echo not here")?;
    let killed = guest.kill(killed, "TERM")?;
    // The code is 128 plus the number of SIGTERM, 15.
    ensure!((killed.code, &*killed.output) == (143, "started\n"), "a killed command gives {killed:?}");

    let listener = guest.spawn("echo no such option; exit 1")?;
    let listener = guest.await_listener(&listener, 1);
    ensure!(listener.is_err_and(|error| error.to_string().contains("no such option")), "a dead server goes unnoticed");

    let fatal = guest.run("echo c > /proc/sysrq-trigger");
    let Err(Error::GuestEnded { reason, .. }) = &fatal else {
        return Err(Error::Check(format!("a panic of the kernel gives {fatal:?}")));
    };
    ensure!(reason.contains("Kernel panic - not syncing: sysrq triggered crash"), "of a panic is known: {reason}");
    Ok(())
}
