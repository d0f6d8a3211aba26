//! What a case works with, and how cases are run.

use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::guest::{Guest, GuestOptions};
use crate::image::GuestImage;
use crate::link::{Link, Relay};
use crate::port::FramePort;
use crate::tap::HostNetwork;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// One case of the test bed.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name, as the command line takes it.
    pub name: &'static str,
    /// What it shows, in half a sentence.
    pub about: &'static str,
    /// Runs it; an error is a failure.
    pub run: fn(&Bench) -> Result<()>,
}

/// The bench of one case: fresh guests, and a directory for what it leaves behind.
#[derive(Debug)]
pub struct Bench {
    image: GuestImage,
    directory: PathBuf,
}

impl Bench {
    /// Where the case's files lie.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A booted guest and our port at the other end of its link.
    ///
    /// # Errors
    /// If it does not boot.
    pub fn guest_and_port(&self, options: &GuestOptions) -> Result<(Guest, FramePort)> {
        let link = Link::new()?;
        let port = FramePort::new(link.left);
        let mut guest = Guest::start(&self.image, options, link.right, &self.directory)?;
        guest.await_boot()?;
        Ok((guest, port))
    }

    /// A booted guest whose link leads to a network namespace of this machine, with faults from there to the guest and
    /// back. TCP crosses that link too.
    ///
    /// # Errors
    /// If it does not boot; [`Error::Unavailable`] where there can be no namespace.
    pub fn guest_and_network(&self, to_guest: Faults, to_network: Faults) -> Result<(Guest, HostNetwork, Relay)> {
        let options = GuestOptions { out_of_band: false, ..GuestOptions::default() };
        let (network, tap) = HostNetwork::new(options.mtu)?;
        let link = Link::new()?;
        let relay = Relay::new(tap, link.left, to_guest, to_network);
        let mut guest = Guest::start(&self.image, &options, link.right, &self.directory)?;
        guest.await_boot()?;
        Ok((guest, network, relay))
    }

    /// Two booted guests on one link. TCP between them crosses that link too.
    ///
    /// # Errors
    /// If one does not boot.
    pub fn two_guests(&self, mtu: u32) -> Result<[Guest; 2]> {
        let link = Link::new()?;
        let options = |number| GuestOptions { number, mtu, out_of_band: false };
        let mut first = Guest::start(&self.image, &options(1), link.left, &self.directory)?;
        let mut second = Guest::start(&self.image, &options(2), link.right, &self.directory)?;
        first.await_boot()?;
        second.await_boot()?;
        Ok([first, second])
    }

    /// Two booted guests with a relay between them, and its faults from the first to the second and back.
    ///
    /// # Errors
    /// If one does not boot.
    pub fn two_guests_with_faults(&self, mtu: u32, to_second: Faults, to_first: Faults) -> Result<([Guest; 2], Relay)> {
        let (left, right) = (Link::new()?, Link::new()?);
        let relay = Relay::new(left.right, right.left, to_second, to_first);
        let options = |number| GuestOptions { number, mtu, out_of_band: false };
        let mut first = Guest::start(&self.image, &options(1), left.left, &self.directory)?;
        let mut second = Guest::start(&self.image, &options(2), right.right, &self.directory)?;
        first.await_boot()?;
        second.await_boot()?;
        Ok(([first, second], relay))
    }
}

/// How a case ended.
#[derive(Debug)]
pub struct Report {
    /// The case.
    pub case: Case,
    /// Why it failed, if it did; [`Error::Unavailable`]: why it was skipped.
    pub result: Result<()>,
    /// How long it took.
    pub took: Duration,
    /// Where its files lie.
    pub directory: PathBuf,
}

/// Runs cases, several at a time, and calls `each` as they end. A case that panics has failed.
///
/// # Errors
/// If the directory for the cases' files cannot be made.
pub fn run_cases(
    cases: &[Case], image: &GuestImage, directory: &Path, workers: usize, mut each: impl FnMut(&Report),
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (send, reports) = mpsc::channel();
    for case in cases {
        let path = directory.join(case.name);
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(Error::file(&path))?;
        }
        std::fs::create_dir_all(&path).map_err(Error::file(&path))?;
    }
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let bench = Bench { image: image.clone(), directory: directory.join(case.name) };
                    let start = Instant::now();
                    let result = catch_unwind(AssertUnwindSafe(|| (case.run)(&bench)))
                        .unwrap_or_else(|_| Err(Error::Check("the case panicked".to_owned())));
                    let report = Report { case: *case, result, took: start.elapsed(), directory: bench.directory };
                    if send.send(report).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        reports.iter().for_each(|report| each(&report));
    });
    Ok(())
}
