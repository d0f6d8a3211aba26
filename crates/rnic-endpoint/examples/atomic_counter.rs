//! Several clients increment a counter in a server's memory by atomic fetch-and-add. No increment is lost.
//!
//! ```sh
//! cargo run --release -p rnic-endpoint --example atomic_counter -- serve 127.0.0.1    # the server
//! cargo run --release -p rnic-endpoint --example atomic_counter -- 127.0.0.1          # four clients; repeatable
//! ```
//!
//! Fetch-and-add returns the previous value of the counter, so each client gets numbers that no other client gets. The
//! clients are asynchronous tasks of one thread, each with its own connection.
//! [`completions`](CompletionQueue::completions) is a future that works in any executor.

use futures::executor::block_on;
use futures::future::try_join_all;
use rnic_endpoint::exchange::{self, Channel, RemoteMemory};
use rnic_endpoint::{
    Access, CompletionQueue, Config, Device, MemoryRegion, Notify, PathOptions, ProtectionDomain, QpOptions, QueuePair,
    SendOp,
};
use std::error::Error;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// TCP port of the server for the out-of-band exchange.
const PORT: u16 = 18_517;

/// The server's side: the counter in registered memory.
pub(crate) struct Counter {
    domain: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
    /// Sum of the increments that clients have reported.
    told: AtomicU64,
}

impl Counter {
    pub(crate) fn new(device: &Device) -> Result<Counter> {
        let domain = device.protection_domain();
        let memory = domain.register(vec![0; 8], Access { remote_atomic: true, ..Access::LOCAL })?;
        Ok(Counter { cq: device.completion_queue(16)?, domain, memory, told: AtomicU64::new(0) })
    }

    /// Connects a client and waits until it reports how much it has added. In the meantime the device executes the
    /// client's operations.
    pub(crate) fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut channel = Channel::over(stream)?;
        let qp = self.domain.queue_pair(&QpOptions::new(&self.cq))?;
        exchange::connect(&mut channel, &qp, &PathOptions::default())?;
        channel.send(&RemoteMemory::of(&self.memory))?;
        let added: u64 = channel.receive_within(None)?;
        self.told.fetch_add(added, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the counter, and the value that it must have when no client is active.
    pub(crate) fn value(&self) -> Result<(u64, u64)> {
        let mut bytes = [0; 8];
        self.memory.read(0, &mut bytes)?;
        // Atomic operations use the byte order of the host that has the memory.
        Ok((u64::from_ne_bytes(bytes), self.told.load(Ordering::Relaxed)))
    }
}

/// A client, connected to the server's counter.
struct Client {
    channel: Channel,
    qp: QueuePair,
    cq: CompletionQueue,
    /// Local buffer for the previous value, which each operation returns.
    before: MemoryRegion,
    counter: RemoteMemory,
}

impl Client {
    fn connect(device: &Device, mut channel: Channel) -> Result<Client> {
        let cq = device.completion_queue(16)?;
        let domain = device.protection_domain();
        let before = domain.register(vec![0; 8], Access::LOCAL)?;
        let qp = domain.queue_pair(&QpOptions::new(&cq))?;
        exchange::connect(&mut channel, &qp, &PathOptions::default())?;
        let counter = channel.receive()?;
        Ok(Client { channel, qp, cq, before, counter })
    }

    /// Adds 1 to the counter `times` times; returns the previous values.
    async fn count(mut self, times: u64) -> Result<Vec<u64>> {
        let RemoteMemory { addr, rkey, .. } = self.counter;
        let mut drawn = Vec::new();
        for turn in 0..times {
            self.qp.post(turn, SendOp::FetchAdd { addr, rkey, add: 1 }, &[self.before.slice(0, 8)?])?;
            while self.cq.poll_one()?.is_none() {
                self.cq.completions(Notify::Any).await?;
            }
            let mut bytes = [0; 8];
            self.before.read(0, &mut bytes)?;
            drawn.push(u64::from_ne_bytes(bytes));
        }
        self.channel.send(&times)?;
        Ok(drawn)
    }
}

/// Runs `clients` tasks that each add 1 `times` times; returns the previous values that each task got.
pub(crate) fn count(server: SocketAddr, clients: usize, times: u64) -> Result<Vec<Vec<u64>>> {
    let channels = (0..clients).map(|_| Channel::connect(server)).collect::<std::result::Result<Vec<_>, _>>()?;
    let local = channels.first().ok_or("at least one client is needed")?.local_addr().ip();
    // The client can use any free UDP port, because the exchange tells the server which one it is.
    let device = Device::open_at(SocketAddr::new(local, 0), Config::default())?;
    let clients: Vec<Client> =
        channels.into_iter().map(|channel| Client::connect(&device, channel)).collect::<Result<_>>()?;
    block_on(try_join_all(clients.into_iter().map(|client| client.count(times))))
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
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => {
            let address: IpAddr = address.parse()?;
            let counter = Counter::new(&Device::open(address, Config::default())?)?;
            let listener = TcpListener::bind((address, PORT))?;
            println!("serving on {address}");
            std::thread::scope(|scope| {
                loop {
                    let (stream, client) = listener.accept()?;
                    let counter = &counter;
                    scope.spawn(move || match counter.serve(stream).and_then(|()| counter.value()) {
                        Ok((value, told)) => {
                            println!("a client has left: the counter is {value}, clients that have left added {told}")
                        }
                        Err(error) => eprintln!("{client}: {error}"),
                    });
                }
            })
        }
        [server] => {
            let drawn = count(SocketAddr::new(server.parse()?, PORT), 4, 1_000)?;
            let mut all = drawn.concat();
            all.sort_unstable();
            let twice = all.windows(2).filter(|pair| pair[0] == pair[1]).count();
            println!("{} clients drew {} numbers, {twice} of them twice", drawn.len(), all.len());
            Ok(())
        }
        _ => Err("use `atomic_counter serve ADDRESS` on one side and `atomic_counter ADDRESS` on the other".into()),
    }
}
