//! One thread serves all clients: it waits with `epoll` for new TCP connections, for completions and for failed queue
//! pairs. The server sends each message back.
//!
//! ```sh
//! cargo run --release -p rnic-endpoint --example epoll -- serve 127.0.0.1    # the server
//! cargo run --release -p rnic-endpoint --example epoll -- 127.0.0.1          # a client, towards that address
//! ```

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rnic_endpoint::exchange::{self, Channel};
use rnic_endpoint::{
    Access, Completion, CompletionQueue, Config, Device, Event, MemoryRegion, Notify, Opcode, PathOptions, QpOptions,
    Qpn, QueuePair, ReadyFd, SendOp, Service, Status, Time,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// TCP port of the server for the out-of-band exchange.
const PORT: u16 = 18_516;
/// Maximum length of a message in bytes. A message of length 0 says that the client has finished.
const SIZE: usize = 4_096;
/// Timeout for a message.
const PATIENCE: Time = Time::from_ms(5_000);
/// Identifier of the work request that sends the last message back to a client.
const LAST: u64 = 2;

/// What an event of `epoll` is about.
const CONNECTION: u64 = 0;
const COMPLETION: u64 = 1;
const FAILURE: u64 = 2;

/// A connected client: its queue pair, and memory for two messages. The server sends one message back while the next
/// message arrives.
struct Client {
    qp: QueuePair,
    region: MemoryRegion,
}

impl Client {
    fn post_recv(&self, slot: u64) -> Result<()> {
        Ok(self.qp.post_recv(slot, &[self.region.slice(slot as usize * SIZE, SIZE)?])?)
    }

    /// Sends the message in a slot back, after it has made room for the next message in the other slot.
    fn send_back(&self, slot: u64, len: u32) -> Result<()> {
        if len > 0 {
            self.post_recv(1 - slot)?;
        }
        let message = self.region.slice(slot as usize * SIZE, len as usize)?;
        Ok(self.qp.post(if len > 0 { slot } else { LAST }, SendOp::Send, &[message])?)
    }
}

/// The server.
pub(crate) struct Server {
    device: Device,
    listener: TcpListener,
    cq: CompletionQueue,
    completions: ReadyFd,
    failures: ReadyFd,
    epoll: Epoll,
    clients: BTreeMap<Qpn, Client>,
    /// Number of messages that were sent back.
    pub(crate) messages: u64,
}

impl Server {
    pub(crate) fn new(device: Device, listener: TcpListener) -> Result<Server> {
        let cq = device.completion_queue(1_024)?;
        let (completions, failures) = (cq.ready_fd(Notify::Any)?, device.ready_fd()?);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, CONNECTION))?;
        epoll.add(&completions, EpollEvent::new(EpollFlags::EPOLLIN, COMPLETION))?;
        epoll.add(&failures, EpollEvent::new(EpollFlags::EPOLLIN, FAILURE))?;
        Ok(Server { device, listener, cq, completions, failures, epoll, clients: BTreeMap::new(), messages: 0 })
    }

    /// Serves `count` clients, and returns when all of them are gone.
    pub(crate) fn serve(&mut self, count: u64) -> Result<()> {
        let mut accepted = 0;
        let mut events = [EpollEvent::empty(); 8];
        loop {
            self.take_completions()?;
            self.take_failures()?;
            if accepted == count && self.clients.is_empty() {
                return Ok(());
            }
            // Completions that are there already do not make the descriptor readable.
            if !self.completions.arm()? || !self.failures.arm()? {
                continue;
            }
            let ready = self.epoll.wait(&mut events, EpollTimeout::NONE)?;
            for event in &events[..ready] {
                if event.data() == CONNECTION {
                    let (stream, peer) = self.listener.accept()?;
                    accepted += 1;
                    if let Err(error) = self.welcome(stream) {
                        eprintln!("{peer}: {error}");
                    }
                }
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream) -> Result<()> {
        let mut channel = Channel::over(stream)?;
        let domain = self.device.protection_domain();
        let region = domain.register(vec![0; 2 * SIZE], Access::LOCAL)?;
        let qp = domain.queue_pair(&QpOptions { service: Service::Irn, ..QpOptions::new(&self.cq) })?;
        let client = Client { qp, region };
        client.post_recv(0)?;
        exchange::connect(&mut channel, &client.qp, &PathOptions::default())?;
        self.clients.insert(client.qp.qpn(), client);
        Ok(())
    }

    fn take_completions(&mut self) -> Result<()> {
        let mut completions = [Completion::BLANK; 64];
        loop {
            let count = self.cq.poll(&mut completions)?;
            for completion in &completions[..count] {
                self.complete(completion)?;
            }
            if count < completions.len() {
                return Ok(());
            }
        }
    }

    fn complete(&mut self, completion: &Completion) -> Result<()> {
        let Completion { wr_id: slot, status, opcode, byte_len, qpn, .. } = *completion;
        match (status, opcode, self.clients.get(&qpn)) {
            (Status::Success, Opcode::Recv, Some(client)) => {
                self.messages += u64::from(byte_len > 0);
                client.send_back(slot, byte_len)
            }
            (Status::Success, Opcode::Send, _) if slot == LAST => {
                self.clients.remove(&qpn);
                Ok(())
            }
            // A failure is also an event, and a message that was sent back needs no more work.
            _ => Ok(()),
        }
    }

    /// Forgets the clients whose queue pairs have failed, such as one that exits before it has acknowledged the last
    /// message.
    fn take_failures(&mut self) -> Result<()> {
        while let Some(event) = self.device.event() {
            if let Event::QueuePairError(qpn, _) = event {
                self.clients.remove(&qpn);
            }
        }
        Ok(())
    }
}

/// A client: sends messages of different lengths to the server, and checks the returned messages.
pub(crate) fn play(server: SocketAddr, messages: u64) -> Result<()> {
    let mut channel = Channel::connect(server)?;
    let device = Device::open_at(SocketAddr::new(channel.local_addr().ip(), 0), Config::default())?;
    let (sent, received) = (device.completion_queue(8)?, device.completion_queue(8)?);
    let domain = device.protection_domain();
    let region = domain.register(vec![0; 2 * SIZE], Access::LOCAL)?;
    let options = QpOptions { service: Service::Irn, recv_cq: received.clone(), ..QpOptions::new(&sent) };
    let qp = domain.queue_pair(&options)?;
    exchange::connect(&mut channel, &qp, &PathOptions::default())?;
    for number in (0..=messages).rev() {
        // The last message has length 0.
        let len = if number == 0 { 0 } else { 1 + number as usize * 37 % SIZE };
        let message = vec![number as u8; len];
        region.write(0, &message)?;
        qp.post_recv(number, &[region.slice(SIZE, SIZE)?])?;
        qp.post(number, SendOp::Send, &[region.slice(0, len)?])?;
        let came = received.wait_one(PATIENCE)?;
        sent.wait_one(PATIENCE)?;
        let mut back = vec![0; came.byte_len as usize];
        region.read(SIZE, &mut back)?;
        if back != message {
            return Err(format!("message {number}: what came back differs from what was sent").into());
        }
    }
    Ok(())
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
            let device = Device::open(address, Config::default())?;
            println!("serving on {address}");
            Server::new(device, TcpListener::bind((address, PORT))?)?.serve(u64::MAX)
        }
        [server] => {
            play(SocketAddr::new(server.parse()?, PORT), 1_000)?;
            println!("1000 messages came back");
            Ok(())
        }
        _ => Err("use `epoll serve ADDRESS` on one side and `epoll ADDRESS` on the other".into()),
    }
}
