//! The protocol of `ibv_rc_pingpong`, `ibv_uc_pingpong` and `ibv_ud_pingpong`: two ends send messages to each other
//! alternately.
//!
//! The exchange over TCP has three messages. The client sends the address of its queue pair. The server connects its
//! queue pair to this address, and sends the address of the server's queue pair. The client sends `done`, and then the
//! first RDMA message. Each end sends its next message when its previous message is complete and a message of the peer
//! has arrived.

use super::address::{AddressError, MESSAGE, decode, encode};
use rnic_endpoint::device::{
    self, Address, CompletionQueue, DatagramAddress, DatagramOptions, Device, MemoryRegion, PathOptions, QpOptions,
    QueuePair,
};
use rnic_endpoint::{Clock, TimeSource};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Capacities, Completion, Data, GRH_LEN, Recipient, SendFlags, SendOp, SendRequest, Service, Status,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Options of a ping-pong with `ibv_rc_pingpong`, `ibv_uc_pingpong` or `ibv_ud_pingpong`. Transport service, size,
/// iterations and MTU must be the same at both ends, because the ends exchange only addresses. The defaults are those
/// of `ibv_rc_pingpong`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Transport service: RC, UC or UD.
    pub service: Service,
    /// Message size in bytes. With UD it is at most the MTU.
    pub size: usize,
    /// Number of messages that each end sends.
    pub iterations: u32,
    /// Path MTU in payload bytes.
    pub mtu: u32,
    /// Number of receives that an end keeps posted.
    pub receives: u32,
    /// Whether to compare every received byte. The peer must then be started with `-c`, too.
    pub check: bool,
    /// Time without a completion after which the ping-pong is aborted.
    pub timeout: Time,
    /// The ACK timeout of RC as the verbs encode it: 4.096 us times 2 to this power.
    pub ack_timeout: u8,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            service: Service::Rc,
            size: 4_096,
            iterations: 1_000,
            mtu: 1_024,
            receives: 500,
            check: false,
            timeout: Time::from_ms(10_000),
            ack_timeout: PathOptions::default().timeout,
        }
    }
}

/// The result of a ping-pong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Number of bytes sent in both directions together.
    pub bytes: u64,
    /// Number of messages that each end sent.
    pub iterations: u32,
    /// Time from the end of the exchange over TCP to the completion of the last message.
    pub elapsed: Time,
    /// Number of received bytes that were compared with their expected values.
    pub checked: u64,
}

/// Why a ping-pong was aborted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The peer's message is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The exchange of addresses with the peer over TCP failed.
    #[error("{0}")]
    Exchange(String),
    /// A work request failed.
    #[error("message {message} of {iterations}: {what} failed with {status:?}")]
    Failed {
        /// Number of messages completed before the failure.
        message: u32,
        /// Number of messages of the whole ping-pong in one direction.
        iterations: u32,
        /// The kind of work request that failed: a send or a receive.
        what: &'static str,
        /// Status of the request's completion.
        status: Status,
    },
    /// No work request completed within [`Options::timeout`]. The values are that time and the numbers of messages sent
    /// and received.
    #[error(
        "no completion for {0}, after {1} messages sent and {2} received; size, iterations and MTU must be the same on both sides"
    )]
    Silence(Time, u32, u32),
    /// A received byte is wrong.
    #[error("byte {at} of message {message} is {found:#04x}, not {expected:#04x}")]
    Wrong {
        /// Number of the received message, from 1.
        message: u32,
        /// Offset of the wrong byte in the message.
        at: usize,
        /// The received byte.
        found: u8,
        /// The expected byte.
        expected: u8,
    },
}

/// One end of a ping-pong: its queue pair and buffers. [`Pingpong::serve`] and [`Pingpong::dial`] run it.
pub struct Pingpong {
    device: Device,
    options: Options,
    cq: CompletionQueue,
    qp: QueuePair,
    /// Two buffers: first the message to send, then the buffer for received messages. With UD the receive buffer begins
    /// with [`GRH_LEN`] bytes that do not belong to the message.
    region: MemoryRegion,
    /// Bytes before a received message.
    header: usize,
}

/// The queue key that `ibv_ud_pingpong` uses.
const QKEY: u32 = 0x1111_1111;

const SEND: u64 = 1;
const RECEIVE: u64 = 2;

impl Pingpong {
    /// Registers memory, creates a queue pair and posts its receives.
    ///
    /// # Errors
    /// When a limit of the device is reached or an option is out of range.
    pub fn new(device: &Device, options: Options) -> Result<Pingpong, device::Error> {
        let cq = device.completion_queue(options.receives + 2)?;
        let domain = device.protection_domain();
        let header = if options.service == Service::Ud { GRH_LEN as usize } else { 0 };
        let mut bytes = vec![0; 2 * options.size + header];
        for (at, byte) in bytes[..options.size].iter_mut().enumerate() {
            *byte = pattern(at, options.check);
        }
        let region = domain.register(bytes, Access::LOCAL)?;
        let capacities = Capacities { send_wr: 2, recv_wr: options.receives, ..Capacities::default() };
        let qp = domain.queue_pair(&QpOptions {
            service: options.service,
            capacities,
            access: Access::LOCAL_READ,
            ..QpOptions::new(&cq)
        })?;
        let side = Pingpong { device: device.clone(), options, cq, qp, region, header };
        if options.service == Service::Ud {
            side.qp.open_datagrams(&DatagramOptions { qkey: Some(QKEY), mtu: options.mtu })?;
        }
        for _ in 0..options.receives {
            side.post_receive()?;
        }
        Ok(side)
    }

    fn post_receive(&self) -> Result<(), device::Error> {
        self.qp.post_recv(RECEIVE, &[self.region.slice(self.options.size, self.header + self.options.size)?])
    }

    /// Connects the queue pair to the peer with this address; UD needs no connection. Returns the peer as a recipient.
    fn connect(&self, message: &[u8; MESSAGE]) -> Result<Recipient, Error> {
        let peer = decode(message, self.device.local_addr().port())?;
        let Address { addr, qpn, .. } = peer;
        if self.options.service != Service::Ud {
            let Options { mtu, ack_timeout: timeout, .. } = self.options;
            let options = PathOptions { mtu: Some(mtu), rd_atomic: 1, timeout, ..PathOptions::default() };
            self.qp.connect(&peer, &options)?;
        }
        Ok(DatagramAddress { addr, qpn, qkey: QKEY }.recipient())
    }

    /// Posts the message to the peer.
    fn post_send(&self, peer: &Recipient) -> Result<(), Error> {
        let place = [self.region.slice(0, self.options.size)?];
        if self.options.service != Service::Ud {
            return Ok(self.qp.post(SEND, SendOp::Send, &place)?);
        }
        let (op, data, flags) = (SendOp::Send, Data::Gather(&place), SendFlags::SIGNALED);
        Ok(self.qp.post_datagram(&SendRequest { wr_id: SEND, op, data, flags }, peer)?)
    }

    /// Runs the server with a client whose TCP connection is `stream`: first the exchange of addresses, then the
    /// traffic.
    ///
    /// # Errors
    /// When the client does not follow the protocol, or the traffic fails.
    pub fn serve(&self, mut stream: TcpStream) -> Result<Outcome, Error> {
        let mut message = [0; MESSAGE];
        exchanged(stream.read_exact(&mut message), "the client's address")?;
        let peer = self.connect(&message)?;
        exchanged(stream.write_all(&encode(&self.qp.address())), "our address")?;
        let mut done = [0; 5];
        exchanged(stream.read_exact(&mut done), "the client's `done`")?;
        drop(stream);
        self.play(&peer, false)
    }

    /// Runs the client over the TCP connection `stream` to the server: first the exchange of addresses, then the
    /// traffic.
    ///
    /// # Errors
    /// When the server does not follow the protocol, or the traffic fails.
    pub fn dial(&self, mut stream: TcpStream) -> Result<Outcome, Error> {
        exchanged(stream.write_all(&encode(&self.qp.address())), "our address")?;
        let mut message = [0; MESSAGE];
        exchanged(stream.read_exact(&mut message), "the server's address")?;
        let peer = self.connect(&message)?;
        exchanged(stream.write_all(b"done\0"), "our `done`")?;
        drop(stream);
        self.play(&peer, true)
    }

    fn play(&self, peer: &Recipient, first: bool) -> Result<Outcome, Error> {
        let clock = Clock::start();
        let Options { size, iterations, receives, timeout, .. } = self.options;
        let (mut sent, mut received, mut posted) = (0, 0, receives);
        let mut sending = first && iterations > 0;
        if sending {
            self.post_send(peer)?;
        }
        // Number of received messages to which the local end has not yet responded with a message.
        let mut unanswered = 0;
        let mut checked = 0;
        let mut found = [Completion::BLANK; 16];
        while sent < iterations || received < iterations {
            let count = self.cq.wait(&mut found, timeout)?;
            if count == 0 {
                return Err(Error::Silence(timeout, sent, received));
            }
            for completion in &found[..count] {
                let receive = completion.wr_id == RECEIVE;
                if completion.status != Status::Success {
                    let (message, what) = if receive { (received, "a receive") } else { (sent, "a send") };
                    return Err(Error::Failed { message, iterations, what, status: completion.status });
                }
                if receive {
                    received += 1;
                    posted -= 1;
                    unanswered += 1;
                    checked += self.compare(received, completion.byte_len)?;
                    if posted <= 1 {
                        while posted < receives {
                            self.post_receive()?;
                            posted += 1;
                        }
                    }
                } else {
                    sent += 1;
                    sending = false;
                }
            }
            if !sending && unanswered > 0 && sent < iterations {
                unanswered -= 1;
                sending = true;
                self.post_send(peer)?;
            }
        }
        let elapsed = clock.now();
        // The last ACK of the local end may be lost. So the device continues to send and receive packets for 100 ms: if
        // the peer retransmits its last message, the peer gets another ACK.
        let end = clock.now() + Time::from_ms(100);
        while clock.now() < end {
            self.device.wait(Time::from_ms(10))?;
        }
        let bytes = 2 * u64::from(iterations) * size as u64;
        Ok(Outcome { bytes, iterations, elapsed, checked })
    }

    /// Compares a received message with its expected bytes; returns the number of compared bytes.
    fn compare(&self, message: u32, len: u32) -> Result<u64, Error> {
        if !self.options.check {
            return Ok(0);
        }
        let start = self.options.size + self.header;
        let len = (len as usize).saturating_sub(self.header);
        self.region.with_mut(|bytes| {
            let here = &mut bytes[start..start + len];
            let wrong = here.iter().enumerate().find(|(at, byte)| **byte != pattern(*at, true));
            if let Some((at, &found)) = wrong {
                return Err(Error::Wrong { message, at, found, expected: pattern(at, true) });
            }
            // Overwrites the message, so that the next comparison fails if the next message was not written.
            here.fill(0xff);
            Ok(len as u64)
        })
    }
}

/// Returns byte `at` of a message. With `-c`, `ibv_rc_pingpong` writes a zero at the start of each page of its buffer
/// before it sends its first message, and expects these zeros in received messages. All other bytes are 0x7b.
fn pattern(at: usize, check: bool) -> u8 {
    if check && at.is_multiple_of(4_096) { 0 } else { 0x7b }
}

/// Converts an error of the TCP exchange into an error that names the part of the exchange that failed.
fn exchanged(result: io::Result<()>, what: &str) -> Result<(), Error> {
    result.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the peer closed the connection".to_string(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the peer sends nothing".to_string(),
            _ => error.to_string(),
        };
        Error::Exchange(format!("{what} could not be exchanged: {why}"))
    })
}
