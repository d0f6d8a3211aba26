//! Settings of a multipath channel, and the addresses that the two sides exchange.

use crate::control::Control;
use crate::error::HostError;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Limits, Qpn};

/// Settings of a multipath channel. Both ends must have the same number of paths and the same `credit`.
///
/// ```
/// use rnic_host::Control;
/// use rnic_host::multipath::Config;
///
/// let config = Config { paths: 128, control: Control::named("timely", &[])?, ..Config::default() };
/// assert_eq!(config.chunk, 32_768);
/// # Ok::<(), rnic_host::HostError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of paths, 1 to 256. Each is an unreliable connection in each direction, so it takes two queue pairs; with
    /// `spread` all paths together need two.
    pub paths: u32,
    /// Whether one queue pair in each direction sends the chunks of all paths, and each chunk has an entropy that
    /// chooses its path ([`Extras::spread`](rnic_verbs::Extras::spread)). Both ends must have the same value.
    pub spread: bool,
    /// Whether chunks may be CE-marked, and completions report the marks ([`Extras::ecn`](rnic_verbs::Extras::ecn)), so
    /// that congestion controls can respond to marks.
    pub ecn: bool,
    /// Length of a chunk in bytes, 256 to 2^24. UCCL-Tran's 32 KB.
    pub chunk: u32,
    /// Whether new chunks become shorter, down to one packet, while the share of lost chunks exceeds `loss_tolerance`,
    /// and longer again when few chunks are lost. One lost packet costs a whole chunk, because an unreliable connection
    /// drops the rest of the message.
    pub shrink: bool,
    /// Congestion control of the sender.
    pub control: Control,
    /// Credit of the receiver; `None`: the sender's congestion control alone limits the channel.
    pub credit: Option<Credit>,
    /// Maximum window in bytes, at least a chunk.
    pub max_window: u64,
    /// Maximum rate; `None`: that of the link.
    pub max_rate: Option<BitRate>,
    /// Round-trip time of the unloaded network, with which the congestion control begins.
    pub base_rtt: Time,
    /// Maximum number of requests that the application has outstanding.
    pub requests: u32,
    /// Maximum number of receives that the application has posted.
    pub receives: u32,
    /// Capacity of the send queue of each path, at least 4.
    pub send_wr: u32,
    /// Number of receives of the NIC that each path has, at least 4: chunks that arrive while no receive is posted are
    /// lost.
    pub recv_wr: u32,
    /// Maximum number of scatter-gather elements of a request.
    pub sges: u32,
    /// Maximum length in bytes of inline data, at least the 32 bytes of a record.
    pub inline: u32,
    /// Minimum time without an acknowledgement on a path after which the sender probes the path; also the time between
    /// two notes that repeat a request. The default is UCCL-Tran's retransmission timeout, 500 us. A probe is not a
    /// retransmission, so a shorter time does no harm.
    pub timeout: Time,
    /// Share of the chunks, 0 to 1, whose loss is not reported to the congestion control, because the losses may be
    /// random. If more than this share of 128 chunks is lost, the losses count as a sign of congestion.
    pub loss_tolerance: f64,
    /// Number of consecutive probes without a response after which a path is reset, at least 1.
    pub path_probes: u32,
    /// Maximum number of transmissions of one chunk, at least 2. UCCL-Tran's 50 timeouts.
    pub max_attempts: u32,
    /// Time after which a channel ends whose peer acknowledges nothing.
    pub patience: Time,
    /// Number of the connection in the headers of chunks that this end receives.
    pub connection: u8,
    /// Seed of first PSNs and of random path choices; it must be secret, and different for each channel.
    pub seed: u64,
}

/// Receiver credit, in the manner of EQDS ("An Edge-Queued Datagram Service for All Datacenter Traffic", NSDI 2022):
/// the sender transmits only as many bytes as the receiver has granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// Bytes that the sender may transmit before the first grant, so that a message does not wait for a round trip.
    pub unsolicited: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            paths: 32,
            spread: false,
            ecn: false,
            chunk: 1 << 15,
            shrink: false,
            control: Control::default(),
            credit: None,
            max_window: u64::MAX,
            max_rate: None,
            base_rtt: Time::from_us(50),
            requests: 1_024,
            receives: 256,
            send_wr: 64,
            recv_wr: 64,
            sges: 4,
            inline: 256,
            timeout: Time::from_us(500),
            loss_tolerance: 1.0 / 16.0,
            path_probes: 4,
            max_attempts: 50,
            patience: Time::from_ms(10_000),
            connection: 0,
            seed: 0,
        }
    }
}

impl Config {
    /// Maximum number of paths, as in UCCL-Tran's paper.
    const MAX_PATHS: u32 = 256;

    /// Number of queue pairs in each direction.
    pub(crate) fn queue_pairs(&self) -> u32 {
        if self.spread { 1 } else { self.paths }
    }

    /// Capacity of the send queue, and of the receive queue, of each queue pair.
    pub(crate) fn depths(&self, limits: &Limits) -> (u32, u32) {
        let all = |each: u32| match self.spread {
            true => each.saturating_mul(self.paths).min(2 * super::note::WINDOW as u32).min(limits.work_requests),
            false => each,
        };
        (all(self.send_wr), all(self.recv_wr))
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), HostError> {
        let range = |name, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(HostError::range(name, value, format!("{min} to {max}")))
            }
        };
        let possible = match self.spread {
            true => Config::MAX_PATHS,
            false => (limits.queue_pairs.saturating_sub(1) / 2).min(Config::MAX_PATHS),
        };
        if self.paths == 0 || self.paths > possible {
            let queue_pairs = limits.queue_pairs;
            let possible = format!(
                "1 to {possible}, because a path takes two of the NIC's {queue_pairs} queue pairs, and at most 256"
            );
            return Err(HostError::range("the number of paths", self.paths.into(), possible));
        }
        range("the chunk size", self.chunk.into(), 256, 1 << 24)?;
        range("the number of outstanding requests", self.requests.into(), 1, 1 << 20)?;
        range("the number of receives", self.receives.into(), 0, 1 << 20)?;
        range("the capacity of the send queue", self.send_wr.into(), 4, limits.work_requests.into())?;
        range("the number of receives of a path", self.recv_wr.into(), 4, limits.work_requests.into())?;
        range("the number of scatter-gather elements", self.sges.into(), 1, limits.scatter_gather.into())?;
        range("the length of inline data", self.inline.into(), 32, limits.inline.into())?;
        range("the number of probes", self.path_probes.into(), 1, u32::MAX.into())?;
        range("the number of transmissions of a chunk", self.max_attempts.into(), 2, u32::MAX.into())?;
        if !(0.0..=1.0).contains(&self.loss_tolerance) {
            let possible = format!("0 to 1, and not {}", self.loss_tolerance);
            return Err(HostError::range("the tolerated share of lost chunks", self.loss_tolerance as u64, possible));
        }
        if self.max_window < self.chunk.into() {
            let possible = format!("at least the chunk size of {} bytes", self.chunk);
            return Err(HostError::range("the maximum window", self.max_window, possible));
        }
        if self.max_rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(HostError::range("the maximum rate", 0, "1 bit per second or more"));
        }
        for (name, time) in [("the timeout", self.timeout), ("the patience", self.patience)] {
            if time == Time::ZERO {
                return Err(HostError::range(name, 0, "above 0"));
            }
        }
        Ok(())
    }
}

/// The attributes of one end of a channel that the peer needs to connect. The application sends them to the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// The queue pairs on which this end transmits chunks: one for each path, or one for all paths.
    pub outbound: Vec<Qpn>,
    /// The queue pairs on which this end receives chunks.
    pub inbound: Vec<Qpn>,
    /// The control queue pair.
    pub control: Qpn,
    /// Number of the connection in the headers of chunks to this end.
    pub connection: u8,
    /// Virtual address of the ring into which the peer writes records.
    pub ring: u64,
    /// Remote key of the ring.
    pub ring_rkey: u32,
    /// Both ends compute the first PSNs of this end from this number. It should be kept secret from third parties.
    pub salt: u64,
}

/// Counts of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of chunks transmitted, retransmissions included.
    pub transmitted: u64,
    /// Number of retransmitted chunks.
    pub retransmitted: u64,
    /// Number of chunks received.
    pub received: u64,
    /// Number of received chunks that had arrived before. The loss detection is exact, so this should be 0.
    pub duplicates: u64,
    /// Number of notes sent: acknowledgements, credits, requests for them.
    pub notes: u64,
    /// Number of probes sent.
    pub probes: u64,
    /// Number of resets of paths.
    pub resets: u64,
    /// Number of chunks that a switch has trimmed, according to the peer's NIC.
    pub trimmed: u64,
    /// Number of acknowledged chunks that were CE-marked.
    pub marked: u64,
    /// Number of round-trip times measured.
    pub samples: u64,
}
