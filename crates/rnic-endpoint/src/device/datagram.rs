//! UD (unreliable datagram) queue pairs of a device: opening them, and posting datagrams.

use super::shared::Shared;
use super::{Device, Error, QueuePair};
use crate::clock::TimeSource;
use crate::config::Security;
use rnic_verbs::{
    AddressHandle, DatagramAttributes, Qpn, Recipient, SendAttributes, SendRequest, Service, VerbsError, until_full,
};
use std::net::SocketAddr;

/// The attributes with which a UD queue pair is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramOptions {
    /// Queue key (Q_Key) that datagrams to the queue pair must carry. With `None` the device draws a random one.
    pub qkey: Option<u32>,
    /// Maximum payload bytes of a datagram: 256, 512, 1024, 2048 or 4096. The path to each recipient must admit it: a
    /// datagram that is too long for the path is lost. 1024 fits into every Ethernet.
    pub mtu: u32,
}

impl Default for DatagramOptions {
    fn default() -> DatagramOptions {
        DatagramOptions { qkey: None, mtu: 1_024 }
    }
}

/// The address of a UD queue pair: all attributes that other hosts need to send to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct DatagramAddress {
    /// IP address and UDP port on which the queue pair's device receives.
    pub addr: SocketAddr,
    /// Queue pair number.
    pub qpn: u32,
    /// Queue key.
    pub qkey: u32,
}

impl DatagramAddress {
    /// The queue pair as the recipient of a datagram, with flow label and DSCP 0.
    pub fn recipient(&self) -> Recipient {
        Recipient { path: AddressHandle::to(self.addr), qpn: Qpn(self.qpn), qkey: self.qkey }
    }
}

impl Shared {
    /// Checks that the device can have queue pairs of a transport service.
    pub(super) fn admits(&self, service: Service) -> Result<(), VerbsError> {
        if service == Service::Ud && self.security != Security::None {
            return Err(VerbsError::Unsupported(
                "a device that protects packets has no UD queue pairs, because datagrams cannot be protected; \
                 open the device with the security `none`",
            ));
        }
        Ok(())
    }

    /// Checks that the device can send to a recipient: both have IPv4 addresses, or both IPv6 addresses.
    pub(super) fn reaches(&self, to: &Recipient) -> Result<(), VerbsError> {
        if to.path.peer.is_ipv4() == self.local.is_ipv4() {
            return Ok(());
        }
        Err(VerbsError::Unsupported(
            "the recipient of a datagram and the device must both have IPv4 addresses, or both IPv6 addresses",
        ))
    }
}

impl Device {
    /// The UDP source port of datagrams with this flow label ([`AddressHandle::flow`]). Flow labels 0 to n - 1 have n
    /// different source ports, where n is [`UdpConfig::source_ports`](crate::port::UdpConfig::source_ports).
    pub fn source_port(&self, flow: u32) -> u16 {
        self.shared().ask(|driver| driver.port().source_port(flow))
    }
}

impl QueuePair {
    /// Opens a UD queue pair: it moves from INIT through the state RTR to RTS. From now on it sends datagrams, and
    /// receives datagrams from any host that knows its number and its Q_Key. Returns the address that other hosts need
    /// to send to it.
    ///
    /// Datagrams are plain RoCEv2 and not protected. The buffer of a receive must be [`GRH_LEN`](crate::GRH_LEN) (40)
    /// bytes longer than the datagram.
    ///
    /// ```
    /// use rnic_endpoint::*;
    ///
    /// # fn main() -> Result<(), Error> {
    /// let config = Config { security: Security::None, ..Config::default() };
    /// let device = Device::open_at("127.0.0.1:0".parse().unwrap(), config)?;
    /// let (cq, pd) = (device.completion_queue(16)?, device.protection_domain());
    /// let qp = pd.queue_pair(&QpOptions { service: Service::Ud, ..QpOptions::new(&cq) })?;
    /// let address = qp.open_datagrams(&DatagramOptions::default())?;
    /// let memory = pd.register(vec![0; 1_064], Access::LOCAL)?;
    /// qp.post_recv(7, &[memory.slice(0, 1_064)?])?;
    ///
    /// // To itself; usually to the address of another queue pair.
    /// let (op, data, flags) = (SendOp::SendImm(5), Data::Inline(b"hello"), SendFlags::default());
    /// qp.post_datagram(&SendRequest { wr_id: 1, op, data, flags }, &address.recipient())?;
    /// let received = cq.wait_one(Time::from_ms(5_000))?;
    /// assert_eq!((received.wr_id, received.byte_len, received.imm), (7, 45, Some(5)));
    /// assert_eq!(received.source.map(|source| source.qpn()), Some(qp.qpn()));
    /// memory.with(|bytes| assert_eq!(&bytes[40..45], b"hello"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the service is not UD, the queue pair is open already, or the MTU is out of range.
    pub fn open_datagrams(&self, options: &DatagramOptions) -> Result<DatagramAddress, Error> {
        let (shared, qpn) = (self.shared(), self.qpn());
        let address = self.address();
        let mut verbs = shared.verbs();
        let now = shared.clock.now();
        let qkey = options.qkey.unwrap_or_else(|| verbs.random_qkey());
        verbs.to_datagrams(qpn, DatagramAttributes { qkey, path_mtu: options.mtu }, now)?;
        verbs.to_rts(qpn, SendAttributes { send_psn: address.psn, ..SendAttributes::default() }, now)?;
        Ok(DatagramAddress { addr: address.addr, qpn: qpn.0, qkey })
    }

    /// Posts a Send, or a Send with Immediate, of a UD queue pair. It completes when the packet has left the device;
    /// the timestamp of the completion is the time at which the device handed the packet to the system. The loss of a
    /// datagram is not detected.
    ///
    /// # Errors
    /// If the send queue is full or the request is invalid; in both cases the request is not posted.
    pub fn post_datagram(&self, request: &SendRequest<'_>, to: &Recipient) -> Result<(), Error> {
        self.shared().reaches(to)?;
        let qpn = self.qpn();
        Ok(self.device().post_sends_to(qpn, |verbs| verbs.post_datagram(qpn, request, to))?)
    }

    /// Posts several datagrams, in order, with one lock of the device; returns the number of requests that fitted in
    /// the send queue.
    ///
    /// # Errors
    /// The error of the first request that is refused for a reason other than a full queue. The requests before it are
    /// posted.
    pub fn post_datagrams(&self, requests: &[(SendRequest<'_>, Recipient)]) -> Result<usize, Error> {
        let (shared, qpn) = (self.shared(), self.qpn());
        let post = |verbs: &mut rnic_verbs::Device| {
            until_full(requests, |(request, to)| {
                shared.reaches(to)?;
                verbs.post_datagram(qpn, request, to)
            })
        };
        Ok(self.device().post_sends_to(qpn, post)?)
    }
}
