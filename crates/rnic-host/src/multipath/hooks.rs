//! The eight hooks of a multipath channel: functions by which the author of a transport changes its behaviour without a
//! change of the channel.

use rnic_transport::{BitRate, Time};

/// What a hook sees of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathView {
    /// Smoothed round-trip time; `None` before the first measurement.
    pub rtt: Option<Time>,
    /// Bytes transmitted on the path and not acknowledged.
    pub outstanding: u64,
    /// Whether chunks should use the path: it is not silent, and not being reset.
    pub is_usable: bool,
}

/// What a hook sees of a channel.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The current time.
    pub now: Time,
    /// The chunk size in the settings, in bytes.
    pub chunk: u32,
    /// All paths.
    pub paths: &'a [PathView],
    /// Rate that the congestion control allows; `None`: only the link limits it.
    pub rate: Option<BitRate>,
    /// Window that the congestion control allows in bytes; `None`: only the rate limits.
    pub window: Option<u64>,
    /// Bytes transmitted and not acknowledged.
    pub outstanding: u64,
    /// When the rate allows the next chunk.
    pub not_before: Time,
    /// 64 random bits, other ones in each call, from the channel's seed.
    pub random: u64,
}

/// A chunk that is transmitted or received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkView {
    /// Number of the chunk in its direction of the channel.
    pub number: u64,
    /// Length in bytes of its data; 0 for a record that is received.
    pub len: u32,
    /// The path on which it is transmitted or was received.
    pub path: u32,
    /// Number of earlier transmissions; of a received chunk 1 if there were any.
    pub attempts: u32,
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckView {
    /// Number of chunks that it acknowledges for the first time.
    pub acked: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Number of chunks that it shows to be lost.
    pub lost: u32,
    /// Path and round-trip time of the newest chunk, if it gives a measurement.
    pub sample: Option<(u32, Time)>,
}

/// The eight hooks of a multipath channel. Each has a default, so a transport implements only the functions that it
/// changes.
///
/// This path selection fills the first path until it has 128 KB outstanding, then the second, and so on. This is the
/// whole file that an author writes:
///
/// ```
/// use rnic_host::multipath::{Channel, ChunkView, Config, Hooks, View};
/// use rnic_verbs::{Device, DeviceConfig};
///
/// struct FillUp;
///
/// impl Hooks for FillUp {
///     fn select_path(&mut self, view: &View<'_>, _chunk: &ChunkView) -> u32 {
///         let has_room = |at: &u32| {
///             let path = &view.paths[*at as usize];
///             path.is_usable && path.outstanding < 131_072
///         };
///         let count = view.paths.len() as u32;
///         (0..count).find(has_room).unwrap_or((view.random % u64::from(count)) as u32)
///     }
/// }
///
/// let mut nic = Device::new(DeviceConfig::default());
/// let pd = nic.create_pd();
/// let channel = Channel::open(&mut nic, pd, Config { paths: 8, ..Config::default() }, Box::new(FillUp))?;
/// assert_eq!(channel.address().inbound.len(), 8);
/// # Ok::<(), rnic_host::HostError>(())
/// ```
pub trait Hooks: Send {
    /// Chunk size: the length in bytes of the next chunk of a message. `left` bytes of the message are not transmitted
    /// yet. The channel limits it to 1 byte at least, and to `left` and 2^24 bytes at most.
    fn chunk_size(&mut self, view: &View<'_>, left: u64) -> u32 {
        let _ = left;
        view.chunk
    }

    /// Pacing: the earliest time at which the next chunk, `bytes` bytes long on the wire, may be transmitted.
    fn pace(&mut self, view: &View<'_>, bytes: u64) -> Time {
        let _ = bytes;
        view.not_before
    }

    /// Path selection: the index of the path for this chunk. An index that is too large selects the last path.
    fn select_path(&mut self, view: &View<'_>, chunk: &ChunkView) -> u32 {
        let _ = chunk;
        power_of_two(view)
    }

    /// A chunk was transmitted for the first time.
    fn on_transmit(&mut self, view: &View<'_>, chunk: &ChunkView) {
        let _ = (view, chunk);
    }

    /// A chunk was retransmitted.
    fn on_retransmit(&mut self, view: &View<'_>, chunk: &ChunkView) {
        let _ = (view, chunk);
    }

    /// A chunk was received.
    fn on_receive(&mut self, view: &View<'_>, chunk: &ChunkView) {
        let _ = (view, chunk);
    }

    /// An acknowledgement arrived.
    fn on_ack(&mut self, view: &View<'_>, ack: &AckView) {
        let _ = (view, ack);
    }

    /// The peer granted credit: `bytes` bytes more may be transmitted.
    fn on_credit(&mut self, view: &View<'_>, bytes: u64) {
        let _ = (view, bytes);
    }
}

/// The built-in path selections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathPolicy {
    /// Compares two random paths, and selects the path with the lower round-trip time, or with fewer outstanding bytes
    /// if the times are equal (UCCL-Tran).
    PowerOfTwo,
    /// One path after the other.
    RoundRobin,
    /// Always the first usable path.
    Single,
}

/// The hooks with a built-in path selection.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    policy: PathPolicy,
    turn: u32,
}

impl Builtin {
    /// The hooks with this path selection.
    pub fn new(policy: PathPolicy) -> Builtin {
        Builtin { policy, turn: 0 }
    }
}

impl Hooks for Builtin {
    fn select_path(&mut self, view: &View<'_>, _chunk: &ChunkView) -> u32 {
        match self.policy {
            PathPolicy::PowerOfTwo => power_of_two(view),
            PathPolicy::RoundRobin => {
                let paths = view.paths.len() as u32;
                let mut others = (1..=paths).map(|step| (self.turn + step) % paths);
                let usable = others.find(|at| view.paths[*at as usize].is_usable);
                self.turn = usable.unwrap_or((self.turn + 1) % paths);
                self.turn
            }
            PathPolicy::Single => view.paths.iter().position(|path| path.is_usable).unwrap_or(0) as u32,
        }
    }
}

/// The better of two random usable paths; any path if none is usable.
fn power_of_two(view: &View<'_>) -> u32 {
    let paths = view.paths.len() as u64;
    let usable = view.paths.iter().filter(|path| path.is_usable).count() as u64;
    if usable == 0 {
        return (view.random % paths) as u32;
    }
    // If all paths are usable, the n-th usable path is path n.
    let nth = |n: u64| match usable == paths {
        true => Some((n as u32, &view.paths[n as usize])),
        false => (0..).zip(view.paths).filter(|(_, path)| path.is_usable).nth(n as usize),
    };
    let first = (view.random & 0xffff_ffff) % usable;
    // The second is another one, if there is one.
    let second = (first + 1 + (view.random >> 32) % (usable - 1).max(1)) % usable;
    let cost = |path: &PathView| (path.rtt.unwrap_or(Time::ZERO), path.outstanding);
    match (nth(first), nth(second)) {
        (Some(a), Some(b)) if cost(b.1) < cost(a.1) => b.0,
        (Some(a), _) => a.0,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(paths: &[PathView], random: u64) -> View<'_> {
        View {
            now: Time::ZERO,
            chunk: 32_768,
            paths,
            rate: None,
            window: None,
            outstanding: 0,
            not_before: Time::ZERO,
            random,
        }
    }

    const CHUNK: ChunkView = ChunkView { number: 0, len: 1, path: 0, attempts: 0 };

    #[test]
    fn of_two_paths_the_faster_one_is_taken() {
        let path = |us, is_usable| PathView { rtt: Some(Time::from_us(us)), outstanding: 0, is_usable };
        let paths = [path(10, true), path(1, false), path(30, true), path(20, true)];
        let mut taken = [0; 4];
        for first in 0..3_u64 {
            for second in 0..2_u64 {
                taken[power_of_two(&view(&paths, first | second << 32)) as usize] += 1;
            }
        }
        // Of the six pairs, four contain the fastest path, and two only the other two.
        assert_eq!(taken, [4, 0, 0, 2]);
        let unmeasured = [path(10, true), PathView { rtt: None, outstanding: 9, is_usable: true }];
        assert_eq!(power_of_two(&view(&unmeasured, 0)), 1, "a path without a measurement is tried");
        assert_eq!(power_of_two(&view(&unmeasured[..1], 5)), 0);
        assert_eq!(power_of_two(&view(&paths[1..2], 5)), 0, "no path is usable");
    }

    #[test]
    fn round_robin_and_one_path_leave_out_unusable_paths() {
        let path = |is_usable| PathView { rtt: None, outstanding: 0, is_usable };
        let paths = [path(false), path(true), path(true)];
        let mut hooks = Builtin::new(PathPolicy::RoundRobin);
        let taken: Vec<u32> = (0..4).map(|_| hooks.select_path(&view(&paths, 0), &CHUNK)).collect();
        assert_eq!(taken, [1, 2, 1, 2]);
        let mut hooks = Builtin::new(PathPolicy::Single);
        assert_eq!([1, 2].map(|random| hooks.select_path(&view(&paths, random), &CHUNK)), [1, 1]);
    }
}
