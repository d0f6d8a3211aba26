//! A key-value table in a server's memory. Clients read and change the table by RDMA Reads and Writes, without any work
//! by the server's program.
//!
//! ```sh
//! cargo run --release -p rnic-endpoint --example key_value -- serve 127.0.0.1                # the server
//! cargo run --release -p rnic-endpoint --example key_value -- 127.0.0.1 put planet Saturn    # clients
//! cargo run --release -p rnic-endpoint --example key_value -- 127.0.0.1 get planet
//! ```
//!
//! The hash of a key selects a bucket of four slots. To get a value, a client reads the bucket by one RDMA Read. To put
//! a value, it reads the bucket to find the slot, and then writes the slot by one RDMA Write. A Read is not atomic: it
//! may return a slot that a Write has changed only in part. So each slot ends with a checksum of its other bytes, and a
//! client reads a bucket with a wrong checksum again.
//!
//! Only one client at a time may put values. Several clients would first have to take a lock, for example by a
//! compare-and-swap of a word next to the table.

use rnic_endpoint::exchange::{self, Channel, ExchangeError, RemoteMemory};
use rnic_endpoint::{
    Access, CompletionQueue, Config, Data, Device, MemoryRegion, PathOptions, ProtectionDomain, QpOptions, QueuePair,
    SendFlags, SendOp, SendRequest, Time,
};
use std::error::Error;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// TCP port of the server for the out-of-band exchange.
const PORT: u16 = 18_516;
/// Size in bytes of a key or a value in a slot. Its first byte holds the length of the text.
const TEXT: usize = 28;
/// Size in bytes of a slot: key, value and checksum. A slot of zeros is free.
const SLOT: usize = 2 * TEXT + 8;
/// Size in bytes of a bucket of four slots.
const BUCKET: usize = 4 * SLOT;
/// Number of buckets in the table.
const BUCKETS: usize = 1_024;
/// Timeout of an RDMA operation.
const PATIENCE: Time = Time::from_ms(5_000);
/// Maximum number of times that a client reads a bucket which another client seems to be writing.
const TRIES: usize = 100;

/// The content of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Free,
    Taken {
        key: String,
        value: String,
    },
    /// The checksum is wrong: a Write has changed only a part of the slot so far.
    Torn,
}

impl Slot {
    pub(crate) fn write(key: &str, value: &str) -> Result<[u8; SLOT]> {
        let mut slot = [0; SLOT];
        for (text, place) in [key, value].into_iter().zip(slot.chunks_mut(TEXT)) {
            let room =
                place.get_mut(1..=text.len()).ok_or_else(|| format!("`{text}` is longer than {} bytes", TEXT - 1))?;
            room.copy_from_slice(text.as_bytes());
            place[0] = text.len() as u8;
        }
        let checksum = hash(&slot[..2 * TEXT]);
        slot[2 * TEXT..].copy_from_slice(&checksum.to_le_bytes());
        Ok(slot)
    }

    pub(crate) fn read(slot: &[u8]) -> Slot {
        if slot.iter().all(|&byte| byte == 0) {
            return Slot::Free;
        }
        let (text, checksum) = slot.split_at(2 * TEXT);
        if *checksum != hash(text).to_le_bytes() {
            return Slot::Torn;
        }
        let read = |place: &[u8]| {
            let bytes = place.get(1..=usize::from(place[0]))?;
            String::from_utf8(bytes.to_vec()).ok()
        };
        match (read(&text[..TEXT]), read(&text[TEXT..])) {
            (Some(key), Some(value)) => Slot::Taken { key, value },
            _ => Slot::Torn,
        }
    }
}

/// The hash function FNV-1a, for buckets and checksums.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The server's side: the table in registered memory.
pub(crate) struct Table {
    domain: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

impl Table {
    pub(crate) fn new(device: &Device) -> Result<Table> {
        let domain = device.protection_domain();
        let access = Access { remote_read: true, remote_write: true, ..Access::LOCAL };
        let memory = domain.register(vec![0; BUCKETS * BUCKET], access)?;
        Ok(Table { cq: device.completion_queue(16)?, domain, memory })
    }

    /// Connects a client, sends it the address and key of the table, and waits until the client closes the TCP
    /// connection. The device serves the client's Reads and Writes.
    pub(crate) fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut channel = Channel::over(stream)?;
        let qp = self.domain.queue_pair(&QpOptions::new(&self.cq))?;
        exchange::connect(&mut channel, &qp, &PathOptions::default())?;
        channel.send(&RemoteMemory::of(&self.memory))?;
        match channel.receive_within::<()>(None) {
            Ok(()) | Err(ExchangeError::Gone { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A client, connected to the server's table.
pub(crate) struct Client {
    qp: QueuePair,
    cq: CompletionQueue,
    /// Local buffer into which the client reads a bucket.
    bucket: MemoryRegion,
    table: RemoteMemory,
    _channel: Channel,
}

impl Client {
    pub(crate) fn connect(server: SocketAddr) -> Result<Client> {
        let mut channel = Channel::connect(server)?;
        // The client can use any free UDP port, because the exchange tells the server which one it is.
        let device = Device::open_at(SocketAddr::new(channel.local_addr().ip(), 0), Config::default())?;
        let cq = device.completion_queue(16)?;
        let domain = device.protection_domain();
        let bucket = domain.register(vec![0; BUCKET], Access::LOCAL)?;
        let qp = domain.queue_pair(&QpOptions::new(&cq))?;
        exchange::connect(&mut channel, &qp, &PathOptions::default())?;
        let table: RemoteMemory = channel.receive()?;
        if table.len < BUCKET as u64 {
            return Err("the server's table is empty".into());
        }
        Ok(Client { qp, cq, bucket, table, _channel: channel })
    }

    /// Returns the remote address of the bucket of a key.
    fn address(&self, key: &str) -> u64 {
        self.table.addr + hash(key.as_bytes()) % (self.table.len / BUCKET as u64) * BUCKET as u64
    }

    /// Reads a bucket. Reads it again as long as one of its slots is torn.
    fn read(&self, addr: u64) -> Result<Vec<Slot>> {
        for _ in 0..TRIES {
            self.qp.post(0, SendOp::Read { addr, rkey: self.table.rkey }, &[self.bucket.slice(0, BUCKET)?])?;
            self.cq.wait_one(PATIENCE)?;
            let slots: Vec<Slot> = self.bucket.with(|bytes| bytes.chunks(SLOT).map(Slot::read).collect());
            if !slots.contains(&Slot::Torn) {
                return Ok(slots);
            }
        }
        Err(format!("a slot was torn {TRIES} times in a row: do several clients write it?").into())
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<String>> {
        let found = self.read(self.address(key))?.into_iter().find_map(|slot| match slot {
            Slot::Taken { key: its, value } if its == key => Some(value),
            _ => None,
        });
        Ok(found)
    }

    pub(crate) fn put(&self, key: &str, value: &str) -> Result<()> {
        let slot = Slot::write(key, value)?;
        let bucket = self.address(key);
        let slots = self.read(bucket)?;
        let index = slots
            .iter()
            .position(|slot| matches!(slot, Slot::Taken { key: its, .. } if its == key))
            .or_else(|| slots.iter().position(|slot| *slot == Slot::Free))
            .ok_or_else(|| format!("there is no room for `{key}`: its bucket is full"))?;
        let op = SendOp::Write { addr: bucket + (index * SLOT) as u64, rkey: self.table.rkey };
        // Short data is sent inline and needs no registered memory.
        self.qp.post_send(&SendRequest { wr_id: 0, op, data: Data::Inline(&slot), flags: SendFlags::SIGNALED })?;
        self.cq.wait_one(PATIENCE)?;
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let connect = |server: &str| Client::connect(SocketAddr::new(server.parse()?, PORT));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => {
            let address: IpAddr = address.parse()?;
            let table = Table::new(&Device::open(address, Config::default())?)?;
            let listener = TcpListener::bind((address, PORT))?;
            println!("serving on {address}");
            std::thread::scope(|scope| {
                loop {
                    let (stream, client) = listener.accept()?;
                    let table = &table;
                    scope.spawn(move || table.serve(stream).unwrap_or_else(|error| eprintln!("{client}: {error}")));
                }
            })
        }
        [server, "put", key, value] => connect(server)?.put(key, value),
        [server, "get", key] => match connect(server)?.get(key)? {
            Some(value) => {
                println!("{value}");
                Ok(())
            }
            None => Err(format!("there is no `{key}`").into()),
        },
        _ => {
            Err("use `key_value serve ADDRESS`, `key_value ADDRESS put KEY VALUE` or `key_value ADDRESS get KEY`"
                .into())
        }
    }
}
