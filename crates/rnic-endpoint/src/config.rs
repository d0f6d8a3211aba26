//! How a device is opened: its [`Config`].

use crate::idle::IdleConfig;
use crate::port::{UdpConfig, UdpPort};
use rnic_transport::{Time, Timeouts};
use rnic_verbs::DeviceConfig;
use std::io;

/// Which thread moves packets between the sockets and the queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A progress thread of the device moves packets, whatever the application does.
    #[default]
    Thread,
    /// The application's threads move packets while they poll or wait.
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
    /// The call that received the packets also sends their ACKs.
    #[default]
    Immediately,
    /// The next call sends the ACKs, together with the requests posted in between. A reply leaves sooner, because no
    /// ACK goes before it. For applications that poll without a pause: while an application computes between two polls,
    /// the peer gets no ACK, and retransmits after its timeout.
    WithNextPoll,
}

/// Which IPv4 identifications the device accepts in packets it receives. The ICRC covers the identification, but a UDP
/// socket does not show it, so the device solves the ICRC for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Identification {
    /// Any identification for which the ICRC is right: one corrupted packet in 2^16 passes the check (after the
    /// checksums of Ethernet and UDP). Endpoints of other vendors need this.
    #[default]
    Any,
    /// 0 to 63, the identifications that rnic sends: one corrupted packet in 2^26 passes the check.
    Small,
}

/// How a device is opened.
///
/// ```
/// use rnic_endpoint::{Config, Congestion, Mode};
///
/// let mut config = Config { mode: Mode::Polled, ..Config::default() };
/// config.verbs.congestion = Congestion::named("dcqcn").unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Which thread moves packets.
    pub mode: Mode,
    /// When a thread without work spins and when it sleeps.
    pub idle: IdleConfig,
    /// Options of the UDP sockets.
    pub udp: UdpConfig,
    /// Which IPv4 identifications the device accepts.
    pub identification: Identification,
    /// When the device acknowledges received packets in [`Mode::Polled`].
    pub acknowledge: Acknowledge,
    /// Limits, link rate, congestion control and timeouts of the queue pairs. The device replaces `verbs.seed` by
    /// random bytes of the system unless `fixed_seed` is set.
    pub verbs: DeviceConfig,
    /// Derive keys and queue pair numbers from `verbs.seed`. For tests only: a peer that knows the seed can guess them.
    pub fixed_seed: bool,
}

impl Default for Config {
    fn default() -> Config {
        let verbs = DeviceConfig::default();
        let verbs = DeviceConfig {
            // 1 MiB covers 2 GB/s over the 0.5 ms that two busy hosts may take to respond; a larger window only fills
            // buffers.
            in_flight: 1_024,
            in_flight_bytes: 1 << 20,
            // When a retransmission is lost, IRN's window stands still until a timeout. At 1 % loss and packets of 1
            // KiB a minimum timeout of 2 ms cost a third of the bandwidth, 0.5 ms a tenth. Measured round-trip times
            // lengthen the timeout.
            timeouts: Timeouts { dynamic: Some(Time::from_us(500)), ..verbs.timeouts },
            // RC's usual timeout: with either service the requester aborts half a second after the peer has fallen
            // silent.
            patience: Time::from_ns(4_096 << 14),
            ..verbs
        };
        Config {
            mode: Mode::Thread,
            idle: IdleConfig::default(),
            udp: UdpConfig::default(),
            identification: Identification::Any,
            acknowledge: Acknowledge::Immediately,
            verbs,
            fixed_seed: false,
        }
    }
}

impl Config {
    /// Limits the bytes in flight on each connection to what fits in the receive buffer of `port`, on the assumption
    /// that the peer's buffer has the same size. [`Device::open`](crate::Device::open) does so itself.
    ///
    /// # Errors
    /// When the system does not report the size of the buffer.
    pub fn fitted_to(mut self, port: &UdpPort) -> io::Result<Config> {
        // Linux charges its own bookkeeping to the buffer, about as much as the payload.
        let room = port.buffers()?.receive as u64 / 2;
        self.verbs.in_flight_bytes = self.verbs.in_flight_bytes.min(room);
        Ok(self)
    }
}
