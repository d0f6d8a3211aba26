//! The protocol of perftest's `ib_write_bw`, `ib_read_bw`, `ib_send_bw`, `ib_atomic_bw` and their `_lat` variants, over
//! reliable connections.
//!
//! | module | holds |
//! |---|---|
//! | [`messages`] | encodes and decodes the messages over TCP |
//! | `conversation` | the TCP connection |
//! | `traffic` | the RDMA traffic of each test |
//!
//! This module supports perftest's one-way tests with one message size and a fixed number of messages. It does not
//! support the options `-a`, `-b` and `-D`, nor UC and UD.

mod conversation;
pub mod messages;
mod traffic;

pub use conversation::Role;
pub use messages::{Keys, Report};

use conversation::Conversation;
use messages::{DONE, MessageError};
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::device::{self, CompletionQueue, Device, MemoryRegion, PathOptions, QpOptions, QueuePair};
use rnic_transport::Time;
use rnic_verbs::{Access, Capacities, Status};
use std::net::{SocketAddr, TcpStream};

pub use crate::Op;

/// The options of a test with a perftest program. Operation, kind (latency or bandwidth), size, and numbers of messages
/// and queue pairs must be the same at both ends, because the ends do not exchange them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The operation to test. [`Op::FetchAdd`] is the default of `ib_atomic_bw` and `ib_atomic_lat`;
    /// [`Op::CompareSwap`] is their operation with the option `-A CMP_AND_SWAP`.
    pub op: Op,
    /// Whether to measure latency, with one message at a time (`ib_*_lat`). Otherwise bandwidth is measured
    /// (`ib_*_bw`).
    pub latency: bool,
    /// Message size in bytes (`-s`); for atomics it must be 8.
    pub size: u32,
    /// Number of messages on each queue pair (`-n`).
    pub messages: u32,
    /// Number of queue pairs (`-q`), 1 to 1024; for latency it must be 1.
    pub queue_pairs: u32,
    /// Path MTU in payload bytes (`-m`). Both ends use the smaller of their two values. With `None` the local end
    /// offers the maximum of the path.
    pub mtu: Option<u32>,
    /// Maximum number of outstanding messages on a queue pair (`-t`).
    pub depth: u32,
    /// Number of receives posted on a queue pair (`-r`).
    pub receives: u32,
    /// Whether the client reports bandwidths in Gbit/s (`--report_gbits`) instead of MiB/s. A perftest server prints
    /// the reported numbers without conversion.
    pub gbits: bool,
    /// Time without any sign of progress of the peer after which the test is aborted.
    pub timeout: Time,
}

impl Options {
    /// Returns perftest's default options for this operation and kind of test.
    pub fn new(op: Op, latency: bool) -> Options {
        let size = match (op.is_atomic(), latency) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 65_536,
        };
        Options {
            op,
            latency,
            size,
            messages: if latency || op.is_atomic() || op == Op::Read { 1_000 } else { 5_000 },
            queue_pairs: 1,
            mtu: None,
            depth: 128,
            receives: 512,
            gbits: false,
            timeout: Time::from_ms(10_000),
        }
    }

    /// Checks whether every option is in its range.
    ///
    /// # Errors
    /// [`Error::Options`] for the first option that is out of range.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |sentence: &str| Err(Error::Options(sentence.to_string()));
        if self.op.is_atomic() && self.size != 8 {
            return wrong("the size of an atomic operation must be 8 bytes");
        }
        if !(1..=1 << 30).contains(&self.size) {
            return wrong("the size of a message must be 1 byte to 1 GiB");
        }
        if self.messages == 0 || self.depth == 0 || self.receives == 0 {
            return wrong("a test needs at least one message, one outstanding message and one receive");
        }
        if !(1..=1_024).contains(&self.queue_pairs) {
            return wrong("a test must have 1 to 1024 queue pairs");
        }
        if self.latency && self.queue_pairs != 1 {
            return wrong("a test of latency must have one queue pair");
        }
        if self.mtu.is_some_and(|mtu| ![256, 512, 1_024, 2_048, 4_096].contains(&mtu)) {
            return wrong("the MTU must be 256, 512, 1024, 2048 or 4096");
        }
        Ok(())
    }
}

/// Why a test with a perftest program was aborted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The local device refused an operation or failed.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The peer sent a message that is not a message of perftest.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// An option is out of range.
    #[error("{0}")]
    Options(String),
    /// The exchange of messages with the peer over TCP failed.
    #[error("{0}")]
    Exchange(String),
    /// The path MTU on which both ends agreed is larger than the path supports.
    #[error(
        "the sides agreed on an MTU of {agreed} bytes, but the path to the peer carries {carried}; start one of them with -m {carried}"
    )]
    Mtu {
        /// The path MTU on which the ends agreed, in payload bytes.
        agreed: u32,
        /// The maximum path MTU in payload bytes.
        carried: u32,
    },
    /// A work request failed.
    #[error("{what} failed with {status:?} after {done} messages")]
    Failed {
        /// The kind of work request that failed: a send request or a receive.
        what: &'static str,
        /// Number of messages completed before the failure.
        done: u64,
        /// Status of the work request's completion.
        status: Status,
    },
    /// The test made no progress within [`Options::timeout`]. The values are this time and the number of completed
    /// messages.
    #[error(
        "no progress for {0}, after {1} messages; operation, size, messages and queue pairs must be the same on both sides"
    )]
    Silence(Time, u64),
    /// A received message has the wrong length.
    #[error("received a message of {found} bytes instead of {expected}; the size must be the same on both sides")]
    Length {
        /// The length of the received message in bytes.
        found: u32,
        /// The expected length in bytes.
        expected: u32,
    },
    /// An atomic operation returned a wrong value.
    #[error("atomic operation {message} returned {found:#x} instead of {expected:#x}")]
    Wrong {
        /// Number of the operation, from 0.
        message: u32,
        /// The returned value.
        found: u64,
        /// The expected value.
        expected: u64,
    },
}

/// The result of a test with a perftest program.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Number of messages over all queue pairs.
    pub messages: u64,
    /// Message size in bytes.
    pub size: u32,
    /// Time from the first message to the last one, as the local end measures it. On a server that only responds, it
    /// ends when the client reports that all its requests are complete.
    pub elapsed: Time,
    /// Highest message rate, in messages per second, over an interval of at least 10 ms. It is 0 for shorter tests,
    /// tests of latency, and servers that only respond.
    pub peak: f64,
    /// Latency of each message, in order: half of a round trip for Writes and Sends, a whole round trip for Reads and
    /// atomics. Empty in tests of bandwidth, and on a server that only responds.
    pub latencies: Vec<Time>,
    /// The client's report. Only tests of the bandwidth of Writes, Reads and atomics have one.
    pub report: Option<Report>,
}

/// Maximum size in bytes of the cycle buffer (the memory of a queue pair for messages) that the local end accepts in
/// perftest's greeting. It limits the memory that the local end allocates.
const MOST_CYCLE: u32 = 1 << 20;
/// Maximum cache line size in bytes that the local end accepts in perftest's greeting. Messages start at multiples of
/// the cache line size, so the maximum limits the memory that the local end allocates.
const MAX_LINE: u32 = 4_096;
/// Size in bytes of the cycle buffer (the memory of a queue pair for messages) that the local end offers in perftest's
/// greeting.
const CYCLE: u32 = 4_096;
/// Size in bytes of the cache line that the local end offers in perftest's greeting.
const LINE: u32 = 64;
/// Maximum number of RDMA Reads and atomics that the local end lets the peer have outstanding on a queue pair.
const READS: u16 = 16;
/// Maximum bytes of receive buffers of all queue pairs together. If the receives need more, several receives share a
/// buffer.
const RECEIVE_BYTES: usize = 64 << 20;

/// The layout of messages in the memory of a queue pair, which is the same at both ends. perftest calls this memory the
/// cycle buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Distance in bytes between the starts of two messages.
    pub stride: usize,
    /// Number of messages that fit into this memory one after the other; the next message is placed at the start again.
    pub slots: usize,
    /// Size in bytes of the part of the memory that belongs to one queue pair.
    pub part: usize,
}

impl Layout {
    fn new(size: u32, cycle: u32, line: u32) -> Layout {
        let stride = size.next_multiple_of(line.max(1)) as usize;
        let part = stride.max(cycle as usize).next_multiple_of(4_096);
        Layout { stride, slots: (cycle as usize / stride).max(1), part }
    }

    /// Returns the offset in bytes of message `number` in the part of the memory that belongs to its queue pair.
    pub fn offset(&self, number: u32) -> usize {
        number as usize % self.slots * self.stride
    }
}

/// Returns the initial value of byte `at` of the local end's memory. In tests of the latency of Writes all bytes are
/// initially zero instead.
pub fn pattern(at: usize) -> u8 {
    // The bytes differ between neighbours, between packets, and between the parts of queue pairs, so that a test
    // notices misplaced data.
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

/// One end of a test with a perftest program. Its queue pairs are connected to the peer's queue pairs.
pub struct Session {
    options: Options,
    conversation: Conversation,
    device: Device,
    cq: CompletionQueue,
    pairs: Vec<QueuePair>,
    peers: Vec<Keys>,
    /// The attributes of the local queue pairs and of their buffers, which the local end sends to the peer. Later
    /// exchanges over TCP contain the same attributes again, some of them only to synchronise.
    keys: Vec<Keys>,
    layout: Layout,
    /// The registered memory: for each queue pair a part to send from, then for each queue pair a part that the peer
    /// accesses, then the receive buffers.
    region: MemoryRegion,
    buffers: usize,
    mtu: u32,
    latencies: Vec<Time>,
    elapsed: Time,
    peak: f64,
    /// Whether the local end, as a server, has already received the first message after the traffic.
    peer_is_ready: bool,
}

impl Session {
    /// Starts a test: performs the exchanges over TCP that precede the RDMA traffic, and connects the queue pairs.
    ///
    /// # Errors
    /// When an option is out of range, the peer does not follow the protocol, or a limit of the device is reached.
    pub fn start(device: &Device, options: Options, role: Role, stream: TcpStream) -> Result<Session, Error> {
        options.check()?;
        let peer = stream.peer_addr().map(|addr| SocketAddr::new(addr.ip().to_canonical(), device.local_addr().port()));
        let mut conversation = Conversation::new(stream, device.clone(), role, options.timeout)?;

        let count = options.queue_pairs as usize;
        let receives = if options.op == Op::Send { options.receives } else { 0 };
        let depth = if options.latency { 1 } else { options.depth };
        let cq = device.completion_queue(options.queue_pairs.saturating_mul(depth.saturating_add(receives)))?;
        let domain = device.protection_domain();
        let capacities = Capacities { send_wr: depth, recv_wr: receives, ..Capacities::default() };
        let create = |_| domain.queue_pair(&QpOptions { capacities, ..QpOptions::new(&cq) });
        let pairs = (0..count).map(create).collect::<Result<Vec<_>, _>>()?;
        // If the TCP connection is broken and has no peer address, the exchange below fails with the reason.
        let carried = peer.ok().and_then(|peer| pairs[0].path_mtu(peer).ok()).unwrap_or(4_096);

        let (cycle, line, mtu) = greet(&mut conversation, options.mtu.unwrap_or(carried))?;
        let layout = Layout::new(options.size, cycle, line);
        let fitting = RECEIVE_BYTES / layout.stride / count;
        let buffers = if receives == 0 { 0 } else { fitting.clamp(1, receives as usize) };
        let mut bytes = vec![0; count * (2 * layout.part + buffers * layout.stride)];
        if !(options.op == Op::Write && options.latency) {
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at));
        }
        let region = domain.register(bytes, Access::ALL)?;
        let keys_of = |(index, pair): (usize, &QueuePair)| Keys {
            address: pair.address(),
            outstanding_reads: if options.op == Op::Read || options.op.is_atomic() { READS } else { 1 },
            rkey: region.rkey(),
            buffer: region.addr() + ((count + index) * layout.part) as u64,
        };
        let keys = pairs.iter().enumerate().map(keys_of).collect();
        let mut session = Session {
            options,
            conversation,
            device: device.clone(),
            cq,
            pairs,
            peers: Vec::new(),
            keys,
            layout,
            region,
            buffers,
            mtu,
            latencies: Vec::new(),
            elapsed: Time::ZERO,
            peak: 0.0,
            peer_is_ready: false,
        };
        session.connect(receives)?;
        Ok(session)
    }

    /// Performs the exchanges over TCP between the greeting and the RDMA traffic: exchanges the attributes of queue
    /// pairs and buffers, and connects the queue pairs.
    fn connect(&mut self, receives: u32) -> Result<(), Error> {
        for index in 0..self.pairs.len() {
            let message = self.conversation.exchange(&messages::encode_keys(&self.keys[index]), "keys")?;
            self.peers.push(messages::decode_keys(&message, self.device.local_addr().port())?);
        }
        for (pair, peer) in self.pairs.iter().zip(&self.peers) {
            // In a one-way test the client is the requester and the server is the responder.
            let rd_atomic = match self.conversation.role() {
                Role::Client => peer.outstanding_reads.min(READS),
                Role::Server => READS,
            };
            let carried = pair.path_mtu(peer.address.addr)?;
            if carried < self.mtu {
                return Err(Error::Mtu { agreed: self.mtu, carried });
            }
            let path = PathOptions { mtu: Some(self.mtu), rd_atomic: rd_atomic as u8, ..PathOptions::default() };
            pair.connect(&peer.address, &path)?;
        }
        for index in 0..self.pairs.len() {
            for number in 0..receives {
                self.post_receive(index, number)?;
            }
        }
        if self.options.latency {
            return self.synchronise(3);
        }
        if self.options.op == Op::Send {
            self.synchronise(1)?;
        }
        // This exchange is not only a synchronisation: perftest uses the rkeys and buffer addresses from it.
        for index in 0..self.pairs.len() {
            self.conversation.exchange(&messages::encode_keys(&self.keys[index]), "its keys again")?;
        }
        self.synchronise(1)
    }

    /// Synchronises with the peer `times` times. As in perftest, each time both ends send the message that describes
    /// their first queue pair again.
    fn synchronise(&mut self, times: usize) -> Result<(), Error> {
        for _ in 0..times {
            self.conversation.exchange(&messages::encode_keys(&self.keys[0]), "that it is ready")?;
        }
        Ok(())
    }

    /// Runs the RDMA traffic of the test. An end that finishes first then waits for its peer in [`Session::finish`],
    /// except in tests of the latency of Writes, which have no further exchange.
    ///
    /// # Errors
    /// When a request fails, the test makes no progress before the timeout, or the peer closes the connection.
    pub fn traffic(&mut self) -> Result<(), Error> {
        let client = self.conversation.role() == Role::Client;
        match (self.options.op, self.options.latency, client) {
            (Op::Write, true, _) => self.write_in_turn(!client),
            (Op::Send, true, _) => self.send_in_turn(client),
            (Op::Send, false, false) => self.receive_all(),
            (_, false, true) => self.request_all(),
            (_, true, true) => self.request_one_by_one(),
            (_, _, false) => {
                let clock = Clock::start();
                let _: [u8; messages::KEYS] = self.conversation.receive("the end of its requests")?;
                self.elapsed = clock.now();
                self.peer_is_ready = true;
                Ok(())
            }
        }
    }

    /// Performs the exchanges over TCP that follow the RDMA traffic, and returns the result of the test.
    ///
    /// # Errors
    /// When the peer does not follow the protocol.
    pub fn finish(mut self) -> Result<Outcome, Error> {
        let mut report = None;
        if !(self.options.op == Op::Write && self.options.latency) {
            if std::mem::take(&mut self.peer_is_ready) {
                self.conversation.send(&messages::encode_keys(&self.keys[0]), "that it is ready")?;
            } else {
                self.synchronise(1)?;
            }
            if self.options.op != Op::Send && !self.options.latency {
                report = Some(self.exchange_report()?);
                self.synchronise(1)?;
            }
            self.conversation.send(DONE, "its `done`")?;
        }
        self.conversation.close();
        let messages = u64::from(self.options.messages) * u64::from(self.options.queue_pairs);
        let Session { options, elapsed, peak, latencies, .. } = self;
        Ok(Outcome { messages, size: options.size, elapsed, peak, latencies, report })
    }

    /// Exchanges bandwidth reports with the peer. At both ends it returns the client's report.
    fn exchange_report(&mut self) -> Result<Report, Error> {
        let count = u64::from(self.options.messages) * u64::from(self.options.queue_pairs);
        let mut mine =
            Report { size: u64::from(self.options.size), messages: count, peak: 0.0, average: 0.0, rate: 0.0 };
        let client = self.conversation.role() == Role::Client;
        if client {
            let rate = count as f64 / self.elapsed.as_secs().max(1e-9);
            let unit = if self.options.gbits { 8e-9 } else { 1.0 / f64::from(1 << 20) };
            let bandwidth = |rate: f64| rate * f64::from(self.options.size) * unit;
            mine.rate = rate / 1e6;
            (mine.average, mine.peak) = (bandwidth(rate), bandwidth(self.peak.max(rate)));
        }
        let mut theirs = [[0; 8]; 5];
        for (mine, theirs) in messages::encode_report(&mine).iter().zip(&mut theirs) {
            *theirs = self.conversation.exchange(mine, "its report")?;
        }
        Ok(if client { mine } else { messages::decode_report(theirs) })
    }

    /// The attributes that the peer sent for each of its queue pairs and its buffer: QPN, first PSN, rkey, buffer
    /// address.
    pub fn peers(&self) -> &[Keys] {
        &self.peers
    }

    /// The path MTU in payload bytes on which both ends agreed.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The layout of messages in the memory of a queue pair, which is the same at both ends.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the bytes from which queue pair `index` sends, and into which its RDMA Reads store data. Initially they
    /// have the values of [`pattern`], whose byte 0 is the first byte of queue pair 0.
    ///
    /// # Panics
    /// If the queue pair `index` does not exist.
    pub fn local(&self, index: usize) -> Vec<u8> {
        assert!(index < self.pairs.len(), "there are {} queue pairs", self.pairs.len());
        self.bytes(index * self.layout.part, self.layout.part)
    }

    /// Returns the bytes that the peer accesses through queue pair `index`. Initially they have the values of
    /// [`pattern`], which continues here after the bytes of [`Session::local`] of all queue pairs.
    ///
    /// # Panics
    /// If the queue pair `index` does not exist.
    pub fn remote(&self, index: usize) -> Vec<u8> {
        assert!(index < self.pairs.len(), "there are {} queue pairs", self.pairs.len());
        self.bytes((self.pairs.len() + index) * self.layout.part, self.layout.part)
    }

    /// Returns the buffer of receive `number` of queue pair `index`. A later receive may have overwritten it.
    ///
    /// # Panics
    /// If the queue pair `index` does not exist, or it has no receives.
    pub fn received(&self, index: usize, number: u32) -> Vec<u8> {
        assert!(index < self.pairs.len() && self.buffers > 0, "queue pair {index} has no receives");
        self.bytes(self.place(index, number), self.options.size as usize)
    }

    fn bytes(&self, start: usize, len: usize) -> Vec<u8> {
        self.region.with(|bytes| bytes[start..start + len].to_vec())
    }

    /// Returns the offset in the registered memory of the buffer of receive `number` of queue pair `index`.
    fn place(&self, index: usize, number: u32) -> usize {
        let first = 2 * self.pairs.len() * self.layout.part;
        first + (index * self.buffers + number as usize % self.buffers) * self.layout.stride
    }
}

/// Exchanges perftest's greeting: version, sizes of cycle buffer and cache line, and path MTU. Returns the two sizes
/// and the MTU that both ends use, in bytes.
fn greet(conversation: &mut Conversation, mtu: u32) -> Result<(u32, u32, u32), Error> {
    messages::check_version(&conversation.exchange(&messages::encode_version(), "its version")?)?;
    let page = conversation.exchange(&messages::encode_size(CYCLE), "its page size")?;
    let cycle = messages::decode_size(page, "page size", MOST_CYCLE)?.max(CYCLE);
    let line = conversation.exchange(&messages::encode_size(LINE), "its cache line size")?;
    let line = messages::decode_size(line, "cache line size", MAX_LINE)?.max(LINE);
    let mine = messages::encode_mtu(mtu);
    let theirs = messages::decode_mtu(conversation.exchange(&mine, "its MTU")?)?;
    Ok((cycle, line, theirs.min(messages::decode_mtu(mine)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_messages_is_that_of_perftest() {
        let small = Layout::new(514, 4_096, 64);
        assert_eq!(small, Layout { stride: 576, slots: 7, part: 4_096 });
        assert_eq!([0, 1, 6, 7, 8].map(|number| small.offset(number)), [0, 576, 3_456, 0, 576]);
        assert_eq!(Layout::new(8, 4_096, 64).slots, 64);
        // Two messages of 2048 bytes fit exactly. Larger messages all go to offset 0.
        assert_eq!(Layout::new(2_048, 4_096, 64).slots, 2);
        assert_eq!(Layout::new(2_049, 4_096, 64).slots, 1);
        let large = Layout::new(10_001, 4_096, 64);
        assert_eq!((large, large.offset(3)), (Layout { stride: 10_048, slots: 1, part: 12_288 }, 0));
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let wrong = |change: fn(&mut Options)| {
            let mut options = Options::new(Op::Write, false);
            assert!(options.check().is_ok());
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert_eq!(wrong(|o| o.size = 0), "the size of a message must be 1 byte to 1 GiB");
        assert_eq!(wrong(|o| o.op = Op::FetchAdd), "the size of an atomic operation must be 8 bytes");
        assert_eq!(wrong(|o| o.queue_pairs = 0), "a test must have 1 to 1024 queue pairs");
        assert_eq!(wrong(|o| o.mtu = Some(1_000)), "the MTU must be 256, 512, 1024, 2048 or 4096");
        assert!(wrong(|o| (o.latency, o.queue_pairs) = (true, 2)).contains("one queue pair"));
        assert!(wrong(|o| o.depth = 0).contains("at least one"));
    }
}
