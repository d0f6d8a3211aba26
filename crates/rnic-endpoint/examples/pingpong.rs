//! Sends messages back and forth by Send and Receive, and measures the round-trip time.
//!
//! ```sh
//! cargo run --release -p rnic-endpoint --example pingpong -- serve 127.0.0.1    # the server
//! cargo run --release -p rnic-endpoint --example pingpong -- 127.0.0.1          # the client, towards that address
//! ```
//!
//! Both ends only wait for messages, so neither needs a progress thread: the device sends and receives packets while
//! the program waits. This gives the lowest latency for single messages.
//!
//! Both ends take the same steps first: they open a device, register memory, create a queue pair, post a receive, and
//! connect. They post the receive before they connect, because a message needs a posted receive when it arrives.

use rnic_endpoint::exchange::{self, Channel, ExchangeError};
use rnic_endpoint::{
    Access, Acknowledge, Clock, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair,
    SendOp, Service, Sge, Time, TimeSource,
};
use std::error::Error;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// TCP port of the server for the out-of-band exchange.
const PORT: u16 = 18_515;
/// Message size in bytes.
const SIZE: usize = 64;
/// Timeout for a message.
const PATIENCE: Time = Time::from_ms(5_000);

/// The configuration for low latency: the device makes progress while this program waits, and a reply is sent before
/// the ACK of the message to which it replies.
pub(crate) fn config() -> Config {
    Config { mode: Mode::Polled, acknowledge: Acknowledge::WithNextPoll, ..Config::default() }
}

/// One side of the ping-pong, client or server.
struct End {
    qp: QueuePair,
    /// Completion queue of sends.
    sent: CompletionQueue,
    /// Completion queue of receives.
    received: CompletionQueue,
    /// Registered memory: two buffers for received messages, which rounds use alternately, and one buffer to send from.
    region: MemoryRegion,
}

impl End {
    fn new(device: &Device) -> Result<End> {
        let (sent, received) = (device.completion_queue(8)?, device.completion_queue(8)?);
        let domain = device.protection_domain();
        let region = domain.register(vec![0; 3 * SIZE], Access::LOCAL)?;
        let options = QpOptions { service: Service::Irn, recv_cq: received.clone(), ..QpOptions::new(&sent) };
        let end = End { qp: domain.queue_pair(&options)?, sent, received, region };
        end.post_recv(0)?;
        Ok(end)
    }

    /// Returns the receive buffer of a round. Rounds alternate between two buffers, because the message of the previous
    /// round may still be in use when the next message arrives.
    fn place(&self, round: u64) -> Result<Sge> {
        Ok(self.region.slice((round % 2) as usize * SIZE, SIZE)?)
    }

    fn post_recv(&self, round: u64) -> Result<()> {
        Ok(self.qp.post_recv(round, &[self.place(round)?])?)
    }

    /// Waits for the message of a round, and posts the receive for the next message, which may arrive as soon as this
    /// end replies.
    fn receive(&self, round: u64) -> Result<()> {
        self.received.wait_one(PATIENCE)?;
        self.post_recv(round + 1)
    }

    /// Sends a message. Its bytes must not change until the send is complete, and the peer's reply may arrive before
    /// that.
    fn send(&self, round: u64, message: Sge) -> Result<()> {
        Ok(self.qp.post(round, SendOp::Send, &[message])?)
    }
}

/// The server: sends each message of a client back.
pub(crate) fn serve(device: &Device, stream: TcpStream) -> Result<()> {
    let mut channel = Channel::over(stream)?;
    let end = End::new(device)?;
    let rounds: u64 = channel.receive()?;
    exchange::connect(&mut channel, &end.qp, &PathOptions::default())?;
    for round in 0..rounds {
        end.receive(round)?;
        end.send(round, end.place(round)?)?;
        end.sent.wait_one(PATIENCE)?;
    }
    part(device, &mut channel)
}

/// Notifies the peer that this end has finished, and makes progress until the peer has finished, too. The peer may
/// still need a retransmission, for example of the last ACK.
fn part(device: &Device, channel: &mut Channel) -> Result<()> {
    channel.send(&"done")?;
    loop {
        device.wait(Time::from_ms(1))?;
        match channel.receive_within::<String>(Some(Duration::from_millis(1))) {
            Err(ExchangeError::Silent { .. }) => {}
            heard => return Ok(heard.map(drop)?),
        }
    }
}

/// The client: runs the ping-pong with a server; returns the time of each round trip.
pub(crate) fn play(server: SocketAddr, rounds: u64) -> Result<Vec<Time>> {
    let mut channel = Channel::connect(server)?;
    // The client can use any free UDP port, because the exchange tells the server which one it is.
    let device = Device::open_at(SocketAddr::new(channel.local_addr().ip(), 0), config())?;
    let end = End::new(&device)?;
    channel.send(&rounds)?;
    exchange::connect(&mut channel, &end.qp, &PathOptions::default())?;
    let clock = Clock::start();
    let mut trips = Vec::new();
    for round in 0..rounds {
        let ping = round.to_le_bytes().repeat(SIZE / 8);
        end.region.write(2 * SIZE, &ping)?;
        let start = clock.now();
        end.send(round, end.region.slice(2 * SIZE, SIZE)?)?;
        end.receive(round)?;
        trips.push(clock.now() - start);
        end.sent.wait_one(PATIENCE)?;
        let mut pong = [0; SIZE];
        end.region.read((round % 2) as usize * SIZE, &mut pong)?;
        if pong[..] != ping {
            return Err(format!("round {round}: the answer differs from what was sent").into());
        }
    }
    part(&device, &mut channel)?;
    Ok(trips)
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
            let device = Device::open(address, config())?;
            let listener = TcpListener::bind((address, PORT))?;
            println!("serving on {address}");
            loop {
                let (stream, client) = listener.accept()?;
                match serve(&device, stream) {
                    Ok(()) => println!("{client} has finished"),
                    Err(error) => eprintln!("{client}: {error}"),
                }
            }
        }
        [server] => {
            let mut trips = play(SocketAddr::new(server.parse()?, PORT), 10_000)?;
            trips.sort();
            let at = |share: f64| trips[(trips.len() as f64 * share) as usize].as_us();
            println!("{} round trips: median {:.1} us, 99 % within {:.1} us", trips.len(), at(0.5), at(0.99));
            Ok(())
        }
        _ => Err("use `pingpong serve ADDRESS` on one side and `pingpong ADDRESS` on the other".into()),
    }
}
