//! [`Config`]: the settings with which an RDMA device of the endpoint is opened.

use crate::idle::IdleConfig;
use crate::port::{UdpConfig, UdpPort};
use crate::secure::Protection;
use rnic_transport::{Time, Timeouts};
use rnic_verbs::DeviceConfig;
use std::io;

/// Which thread moves packets between the sockets and the queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A progress thread of the device moves packets, whatever the application does.
    #[default]
    Thread,
    /// The application's threads move packets while they poll or wait for completions.
    Polled,
}

impl Mode {
    /// The mode's name in reports: `thread` or `polled`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Thread => "thread",
            Mode::Polled => "polled",
        }
    }
}

/// When the device acknowledges received packets in [`Mode::Polled`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acknowledge {
    /// The call that received the packets, such as `CompletionQueue::poll`, also sends their ACKs.
    #[default]
    Immediately,
    /// The application's next call that polls or waits for completions sends the ACKs, together with the requests that
    /// it posted in the meantime. The application's reply to a message leaves sooner, because no ACK is sent before it.
    /// This setting suits applications that poll without a pause: while an application computes between two polls, the
    /// peer gets no ACK, and it retransmits after its timeout.
    WithNextPoll,
}

/// Which values of the IPv4 header field Identification the device accepts in received packets. The ICRC (invariant
/// CRC) of RoCEv2 covers this field, but a UDP socket does not show it. So the device computes from the ICRC which
/// identification the packet must have had. The choice matters for packets without protection ([`Security::None`])
/// over IPv4 only: IPv6 has no identification, and there one of 2^32 corrupted packets passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Identification {
    /// The device accepts any identification for which the ICRC is correct. One of 2^16 corrupted packets that the
    /// checksums of Ethernet and UDP missed passes this check. Peers other than rnic need this setting.
    #[default]
    Any,
    /// The device accepts only the identifications 0 to 63, which rnic sends. One of 2^26 corrupted packets that the
    /// checksums of Ethernet and UDP missed passes this check.
    Small,
    /// The device computes the ICRCs of the packets that it sends and receives as if their identification were 0. One
    /// of 2^32 corrupted packets that the checksums of Ethernet and UDP missed passes this check. The peer must be an
    /// rnic device with the same setting. Programs that check the ICRCs of captured packets report packets with another
    /// identification as corrupted.
    Excluded,
}

/// How the packets between two rnic endpoints are protected. `docs/concepts/security.md` says against whom.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// Plain RoCEv2, for peers other than rnic. An attacker who can send packets with the peer's address, and guesses
    /// or reads its PSNs, queue pair numbers and keys, can write to memory and end connections.
    None,
    /// Each packet is authenticated: no third party can alter, forge or repeat a packet, but every host on the path can
    /// read it.
    #[default]
    Authenticated,
    /// Each packet is authenticated and encrypted.
    Encrypted,
}

impl Security {
    /// All values.
    pub const ALL: [Security; 3] = [Security::None, Security::Authenticated, Security::Encrypted];

    /// The name on command lines and in messages: `none`, `authenticated` or `encrypted`.
    pub const fn name(self) -> &'static str {
        match self {
            Security::None => "none",
            Security::Authenticated => "authenticated",
            Security::Encrypted => "encrypted",
        }
    }

    pub(crate) fn protection(self) -> Option<Protection> {
        match self {
            Security::None => None,
            Security::Authenticated => Some(Protection::Authenticated),
            Security::Encrypted => Some(Protection::Encrypted),
        }
    }
}

/// The settings with which an RDMA device of the endpoint is opened.
///
/// ```
/// use rnic_endpoint::{Config, Congestion, Mode};
///
/// let mut config = Config { mode: Mode::Polled, ..Config::default() };
/// config.verbs.congestion = Congestion::named("dcqcn").unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Which thread moves packets between the sockets and the queue pairs.
    pub mode: Mode,
    /// How the thread that moves packets waits while it has no work: when it spins, and when it sleeps.
    pub idle: IdleConfig,
    /// Number and buffer sizes of the device's UDP sockets, and whether one system call sends or receives several
    /// packets.
    pub udp: UdpConfig,
    /// Which IPv4 identifications the device accepts in received packets, or whether its ICRCs leave them out.
    pub identification: Identification,
    /// How the packets of the device's connections are protected. If the peer's device has the other kind of
    /// protection, both encrypt. A device with protection refuses to connect to a peer without, and the other way
    /// round.
    pub security: Security,
    /// When the device acknowledges received packets in [`Mode::Polled`].
    pub acknowledge: Acknowledge,
    /// Time without a response after which an IRN connection is aborted, 1 ms to 1 day, unless
    /// [`PathOptions::give_up_after`](crate::PathOptions::give_up_after) sets another time for the connection. RC
    /// connections have the attributes `timeout` and `retry_count` of InfiniBand instead.
    pub give_up_after: Time,
    /// Limits, link rate, congestion control and timeouts of the queue pairs. The device derives memory keys and queue
    /// pair numbers from `verbs.seed`. Unless `fixed_seed` is set, it first replaces this seed by random bytes from the
    /// operating system.
    pub verbs: DeviceConfig,
    /// Whether the device derives memory keys and queue pair numbers from the given `verbs.seed`, so that they are the
    /// same in each run. For tests only: a peer that knows the seed can guess the keys.
    pub fixed_seed: bool,
}

impl Default for Config {
    fn default() -> Config {
        let verbs = DeviceConfig::default();
        let verbs = DeviceConfig {
            // The window of a connection. 1 MiB in flight allows 2 GB/s if the round trip between two busy hosts takes
            // 0.5 ms. A larger window would only fill buffers.
            in_flight: 1_024,
            in_flight_bytes: 1 << 20,
            // The minimum retransmission timeout of IRN. When a retransmission is lost, IRN's window does not move
            // until the timeout. At 1 % packet loss and packets of 1 KiB a minimum timeout of 2 ms cost a third of the
            // bandwidth, and one of 0.5 ms a tenth. The timeout is longer where measured round-trip times are longer.
            timeouts: Timeouts { dynamic: Some(Time::from_us(500)), ..verbs.timeouts },
            ..verbs
        };
        Config {
            mode: Mode::Thread,
            idle: IdleConfig::default(),
            udp: UdpConfig::default(),
            identification: Identification::Any,
            security: Security::default(),
            acknowledge: Acknowledge::Immediately,
            // Long enough for a route to change or a switch to restart a link, and short enough for people who wait.
            give_up_after: Time::from_ms(5_000),
            verbs,
            fixed_seed: false,
        }
    }
}

impl Config {
    /// Limits the bytes in flight on each connection to half the size of the receive buffer of `port`. The limit
    /// protects the peer's receive buffer, which is assumed to have the same size.
    /// [`Device::open`](crate::Device::open) calls this function.
    ///
    /// # Errors
    /// When the system does not report the size of the buffer.
    pub fn fitted_to(mut self, port: &UdpPort) -> io::Result<Config> {
        // Linux counts its own bookkeeping for each packet as buffer bytes, about as many as the payload has.
        let room = port.buffers()?.receive as u64 / 2;
        self.verbs.in_flight_bytes = self.verbs.in_flight_bytes.min(room);
        Ok(self)
    }
}
