//! Settings of a RoGUE channel, and the addresses that the two sides exchange.

use super::counted::PARTS;
use crate::chunk::Frames;
use crate::control::Control;
use crate::error::HostError;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Access, Limits, Qpn, Service};

/// Settings of a RoGUE channel. Both sides must have the same `service`.
///
/// ```
/// use rnic_host::rogue::Config;
///
/// let config = Config { chunk: 1 << 17, ..Config::default() };
/// assert_eq!(config.retry_count, 7);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Service of the two queue pairs: [`Service::Rc`], [`Service::Irn`] or [`Service::Uc`]. Over UC a channel supports
    /// Writes and Writes with Immediate only.
    pub service: Service,
    /// Length of a chunk in bytes, 4,096 to 2^24: Writes and Reads of at least this length are split into chunks, and
    /// smaller requests are signalled once per this number of bytes. The source has 64 KB.
    pub chunk: u32,
    /// Congestion control.
    pub control: Control,
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
    /// Capacity of each queue pair's send queue.
    pub send_wr: u32,
    /// Maximum number of scatter-gather elements of a request or receive.
    pub sges: u32,
    /// Maximum length in bytes of inline data.
    pub inline: u32,
    /// Rights of the peer through the channel.
    pub access: Access,
    /// Minimum rate, whatever the congestion control says; above 0. The NIC's timer runs while its rate limiter delays
    /// packets, so the timeout must be longer than the time that 16 packets, the distance between two requests for an
    /// ACK, take at this rate.
    pub min_rate: BitRate,
    /// Code n of the NIC's retransmission timeout, 1 to 31: 4.096 us times 2^n. Code 11 is 8.4 ms. IRN has its own
    /// timeouts. Over UC: maximum time without an acknowledgement after which the channel sends a probe.
    pub timeout: u8,
    /// Number of retries of the NIC after timeouts, 0 to 7, before the queue pair fails and the channel recovers. Over
    /// UC: number of probes without a response before the channel recovers, less one.
    pub retry_count: u8,
    /// Maximum number of reads and atomics outstanding at the peer.
    pub max_rd_atomic: u8,
    /// Time between two transmissions of the message by which the two layers synchronise in a recovery; greater than 0.
    pub sync_interval: Time,
    /// Time after which a channel ends whose peer does not respond in a recovery.
    pub patience: Time,
    /// Maximum number of consecutive recoveries without a completed request between them; at least 1.
    pub max_recoveries: u32,
    /// Seed of first PSNs; it must be secret, and different for each channel.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            service: Service::Rc,
            chunk: 1 << 16,
            control: Control::default(),
            max_window: u64::MAX,
            max_rate: None,
            base_rtt: Time::from_us(50),
            requests: 1_024,
            receives: 512,
            send_wr: 256,
            sges: 4,
            inline: 256,
            access: Access::ALL,
            min_rate: BitRate::from_bps(100_000_000),
            timeout: 11,
            retry_count: 7,
            max_rd_atomic: 16,
            sync_interval: Time::from_ms(1),
            patience: Time::from_ms(10_000),
            max_recoveries: 16,
            seed: 0,
        }
    }
}

impl Config {
    /// Queue pairs of a channel: the primary, the shadow, and the control queue pair.
    pub(crate) const QUEUE_PAIRS: u32 = 3;

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), HostError> {
        if !Service::CONNECTED.contains(&self.service) {
            return Err(HostError::Unsupported("a RoGUE channel needs a connection: RC, IRN or UC"));
        }
        let range = |name, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(HostError::range(name, value, format!("{min} to {max}")))
            }
        };
        range("the chunk size", self.chunk.into(), 4_096, 1 << 24)?;
        range("the number of outstanding requests", self.requests.into(), 1, 1 << 20)?;
        range("the number of receives", self.receives.into(), 0, limits.work_requests.into())?;
        range("the capacity of the send queue", self.send_wr.into(), 4, limits.work_requests.into())?;
        range("the number of scatter-gather elements", self.sges.into(), 1, limits.scatter_gather.into())?;
        range("the length of inline data", self.inline.into(), 0, limits.inline.min(4_096).into())?;
        range("the number of recoveries in a row", self.max_recoveries.into(), 1, u32::MAX.into())?;
        range(
            "the number of queue pairs that the NIC allows",
            limits.queue_pairs.into(),
            Config::QUEUE_PAIRS.into(),
            u64::MAX,
        )?;
        if self.service == Service::Uc {
            range("the number of receives that the NIC allows", limits.work_requests.into(), PARTS.into(), u64::MAX)?;
        }
        range("the timeout", self.timeout.into(), 1, 31)?;
        range("the number of retries", self.retry_count.into(), 0, 7)?;
        if self.min_rate.as_bps() == 0 {
            return Err(HostError::range("the minimum rate", 0, "1 bit per second or more"));
        }
        if self.max_window < self.chunk.into() {
            let possible = format!("at least the chunk size of {} bytes", self.chunk);
            return Err(HostError::range("the maximum window", self.max_window, possible));
        }
        if self.max_rate.is_some_and(|rate| rate < self.min_rate) {
            let rate = self.max_rate.map_or(0, BitRate::as_bps);
            return Err(HostError::range(
                "the maximum rate",
                rate,
                format!("at least the minimum rate of {}", self.min_rate),
            ));
        }
        for (name, time) in
            [("the time between two synchronisations", self.sync_interval), ("the patience", self.patience)]
        {
            if time == Time::ZERO {
                return Err(HostError::range(name, 0, "above 0"));
            }
        }
        Ok(())
    }

    /// Checks that the NIC's timeout is longer than the time for which packets wait for an ACK at the minimum rate.
    pub(crate) fn check_timeout(&self, frames: Frames) -> Result<(), HostError> {
        let least = self.min_rate.time_for(PACKETS_PER_ACK * u64::from(frames.mtu + frames.header));
        let possible = (1..=31).find(|code| Time::from_ns(4_096 << code) > least);
        match possible {
            Some(code) if self.timeout >= code => Ok(()),
            Some(code) => {
                let possible =
                    format!("{code} to 31, because {PACKETS_PER_ACK} packets take {least} at the minimum rate");
                Err(HostError::range("the timeout", self.timeout.into(), possible))
            }
            None => Err(HostError::range("the minimum rate", self.min_rate.as_bps(), "higher for every timeout")),
        }
    }
}

/// Maximum number of packets that a requester sends before it asks for an ACK.
const PACKETS_PER_ACK: u64 = 16;

/// The attributes of one end of a channel that the peer needs to connect. The application sends them to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The two queue pairs for requests; the first is the primary at the beginning.
    pub qpns: [Qpn; 2],
    /// The control queue pair.
    pub control: Qpn,
    /// Both ends compute the first PSNs of this end from this number. It should be kept secret from third parties.
    pub salt: u64,
}

/// Counts of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of requests posted to the NIC: chunks and whole requests.
    pub parts: u64,
    /// Number of signalled ones among them.
    pub signaled: u64,
    /// Number of round-trip times measured.
    pub samples: u64,
    /// Number of failed queue pairs from which the channel recovered.
    pub recoveries: u64,
    /// Number of parts that the peer had executed although their completions did not arrive.
    pub settled: u64,
    /// Number of parts that were replayed.
    pub replayed: u64,
    /// Number of changes of the NIC's rate limit.
    pub rate_changes: u64,
}
