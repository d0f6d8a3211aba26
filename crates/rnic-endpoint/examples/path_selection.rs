//! An example of a custom path selection for a multipath channel, in one file: `Sticky` stays on a path until its
//! round-trip time is twice that of the fastest path.
//!
//! ```sh
//! cargo run --release -p rnic-endpoint --example path_selection
//! ```

use rnic_endpoint::host::{Builtin, Channel, Hooks, MultipathConfig, PathOptions, PathPolicy};
use rnic_endpoint::{Access, Config, Device, SendOp, Time};
use rnic_host::multipath::{ChunkView, View};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Number of paths.
const PATHS: u32 = 8;

/// The path selection.
pub(crate) struct Sticky {
    path: u32,
}

impl Sticky {
    /// It begins on the first path.
    pub(crate) fn new() -> Sticky {
        Sticky { path: 0 }
    }
}

impl Default for Sticky {
    fn default() -> Sticky {
        Sticky::new()
    }
}

impl Hooks for Sticky {
    fn select_path(&mut self, view: &View<'_>, _chunk: &ChunkView) -> u32 {
        let paths = view.paths;
        let usable = || (0..).zip(paths).filter(|(_, path)| path.is_usable);
        // A path without a measurement counts as the fastest, so that all are tried.
        let fastest = usable().min_by_key(|(_, path)| path.rtt.unwrap_or(Time::ZERO));
        let own = &paths[self.path as usize];
        let is_good = match (own.rtt, fastest.and_then(|(_, path)| path.rtt)) {
            (Some(own), Some(best)) => own <= best * 2,
            _ => false,
        };
        if !(own.is_usable && is_good) {
            self.path = fastest.map_or(self.path, |(at, _)| at);
        }
        self.path
    }
}

/// Counts the chunks on each path, and otherwise leaves all decisions to other hooks.
struct Counting<H> {
    inner: H,
    counts: Arc<Mutex<Vec<u64>>>,
}

impl<H: Hooks> Hooks for Counting<H> {
    fn select_path(&mut self, view: &View<'_>, chunk: &ChunkView) -> u32 {
        self.inner.select_path(view, chunk)
    }
    fn on_transmit(&mut self, view: &View<'_>, chunk: &ChunkView) {
        if let Ok(mut counts) = self.counts.lock() {
            counts[chunk.path as usize] += 1;
        }
        self.inner.on_transmit(view, chunk);
    }
}

/// Writes `bytes` bytes through a channel with these hooks; returns the number of chunks on each path, and the time.
///
/// # Errors
/// If a device cannot be opened, or the Write fails.
#[expect(clippy::disallowed_methods, reason = "the time of a real transfer")]
pub(crate) fn write(
    hooks: impl Hooks + 'static, bytes: usize,
) -> Result<(Vec<u64>, std::time::Duration), Box<dyn Error>> {
    let open = || Device::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), Config::default());
    let (here, there) = (open()?, open()?);
    let (domain, other) = (here.protection_domain(), there.protection_domain());
    let from = domain.register(vec![7; bytes], Access::LOCAL)?;
    let to = other.register(vec![0; bytes], Access::ALL)?;

    let counts = Arc::new(Mutex::new(vec![0; PATHS as usize]));
    let hooks = Box::new(Counting { inner: hooks, counts: counts.clone() });
    let config = MultipathConfig { paths: PATHS, ..MultipathConfig::default() };
    let channel = Channel::multipath(&domain, config.clone(), hooks)?;
    let peer = Channel::multipath(&other, config, Box::new(Builtin::new(PathPolicy::PowerOfTwo)))?;
    channel.connect(&peer.address(), &PathOptions::default())?;
    peer.connect(&channel.address(), &PathOptions::default())?;

    let begin = std::time::Instant::now();
    channel.post(1, SendOp::Write { addr: to.addr(), rkey: to.rkey() }, &[from.slice(0, bytes)?])?;
    channel.wait_one(Time::from_ms(30_000))?;
    let time = begin.elapsed();
    if !to.with(|bytes| bytes.iter().all(|byte| *byte == 7)) {
        return Err("the bytes differ".into());
    }
    drop((channel, peer));
    let counts = counts.lock().map_err(|_| "a hook has panicked")?.clone();
    Ok((counts, time))
}

fn main() -> Result<(), Box<dyn Error>> {
    for (name, hooks) in [
        ("sticky", Box::new(Sticky::new()) as Box<dyn Hooks>),
        ("two choices", Box::new(Builtin::new(PathPolicy::PowerOfTwo))),
    ] {
        let (counts, time) = write(Boxed(hooks), 64 << 20)?;
        println!("{name:12} 64 MiB in {:.1} ms, chunks on each path: {counts:?}", time.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Hooks behind a pointer.
struct Boxed(Box<dyn Hooks>);

impl Hooks for Boxed {
    fn select_path(&mut self, view: &View<'_>, chunk: &ChunkView) -> u32 {
        self.0.select_path(view, chunk)
    }
}
