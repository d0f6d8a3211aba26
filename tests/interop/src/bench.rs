//! Cases, the guests and ports that a case uses, and the function that runs cases.

use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::guest::{Guest, GuestOptions};
use crate::image::GuestImage;
use crate::link::{Link, Relay};
use crate::payload::GuestFile;
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
    /// Name of the case on the command line.
    pub name: &'static str,
    /// Short description of what the case tests.
    pub about: &'static str,
    /// Runs the case. If it returns an error, the case has failed or was skipped.
    pub run: fn(&Bench) -> Result<()>,
}

/// The environment of one case. It starts new guests for the case, and has a directory for the files that the case
/// writes.
#[derive(Debug)]
pub struct Bench {
    image: GuestImage,
    directory: PathBuf,
}

impl Bench {
    /// The directory to which the case writes its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a guest whose link ends in a [`FramePort`], and waits until the guest has booted.
    ///
    /// # Errors
    /// If the guest does not boot.
    pub fn guest_and_port(&self, options: &GuestOptions) -> Result<(Guest, FramePort)> {
        let link = Link::new()?;
        let port = FramePort::new(link.left);
        let mut guest = Guest::start(&self.image, options, link.right, &self.directory)?;
        guest.await_boot()?;
        Ok((guest, port))
    }

    /// Starts a guest whose link ends in a network namespace of this machine, and waits until the guest has booted. The
    /// relay on the link injects the faults of each direction. TCP between namespace and guest uses this link, too.
    ///
    /// # Errors
    /// If the guest does not boot; [`Error::Unavailable`] if the system allows no network namespace.
    pub fn guest_and_network(&self, to_guest: Faults, to_network: Faults) -> Result<(Guest, HostNetwork, Relay)> {
        self.guest_with_files(Vec::new(), to_guest, to_network)
    }

    /// As [`Bench::guest_and_network`], for a guest that has further files.
    ///
    /// # Errors
    /// As [`Bench::guest_and_network`], or if a file cannot be read.
    pub fn guest_with_files(
        &self, files: Vec<GuestFile>, to_guest: Faults, to_network: Faults,
    ) -> Result<(Guest, HostNetwork, Relay)> {
        let memory = if files.is_empty() { GuestOptions::default().memory } else { 768 };
        let options = GuestOptions { out_of_band: false, files, memory, ..GuestOptions::default() };
        let (network, tap) = HostNetwork::new(options.mtu)?;
        let link = Link::new()?;
        let relay = Relay::new(tap, link.left, to_guest, to_network);
        let mut guest = Guest::start(&self.image, &options, link.right, &self.directory)?;
        guest.await_boot()?;
        Ok((guest, network, relay))
    }

    /// Starts two guests on one link, and waits until both have booted. TCP between them uses this link, too.
    ///
    /// # Errors
    /// If one of the guests does not boot.
    pub fn two_guests(&self, mtu: u32) -> Result<[Guest; 2]> {
        self.two_guests_with_files(mtu, GuestOptions::default().memory, &[])
    }

    /// As [`Bench::two_guests`], for guests with `memory` MB of memory and with further files.
    ///
    /// # Errors
    /// As [`Bench::two_guests`], or if a file cannot be read.
    pub fn two_guests_with_files(&self, mtu: u32, memory: u32, files: &[GuestFile]) -> Result<[Guest; 2]> {
        let link = Link::new()?;
        let options = |number| GuestOptions { number, mtu, out_of_band: false, files: files.to_vec(), memory };
        let mut first = Guest::start(&self.image, &options(1), link.left, &self.directory)?;
        let mut second = Guest::start(&self.image, &options(2), link.right, &self.directory)?;
        first.await_boot()?;
        second.await_boot()?;
        Ok([first, second])
    }

    /// Starts two guests with a relay between them, and waits until both have booted. The relay injects the faults
    /// `to_second` into frames to the second guest, and `to_first` into frames to the first one.
    ///
    /// # Errors
    /// If one does not boot.
    pub fn two_guests_with_faults(&self, mtu: u32, to_second: Faults, to_first: Faults) -> Result<([Guest; 2], Relay)> {
        let (left, right) = (Link::new()?, Link::new()?);
        let relay = Relay::new(left.right, right.left, to_second, to_first);
        let options = |number| GuestOptions { number, mtu, out_of_band: false, ..GuestOptions::default() };
        let mut first = Guest::start(&self.image, &options(1), left.left, &self.directory)?;
        let mut second = Guest::start(&self.image, &options(2), right.right, &self.directory)?;
        first.await_boot()?;
        second.await_boot()?;
        Ok(([first, second], relay))
    }
}

/// The result of one case.
#[derive(Debug)]
pub struct Report {
    /// The case that ran.
    pub case: Case,
    /// `Ok` if the case passed; otherwise why it failed or, with [`Error::Unavailable`], why it was skipped.
    pub result: Result<()>,
    /// Duration of the case.
    pub took: Duration,
    /// Directory with the files of the case.
    pub directory: PathBuf,
}

/// Runs cases, `workers` at a time, and passes the result of each case to `each` as soon as the case ends. A case that
/// panics has failed.
///
/// # Errors
/// If a directory for the files of a case cannot be created.
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
