//! Messages to and fro by Send and Receive, and how long a round trip takes.
//!
//! ```sh
//! cargo run --release -p rnic-endpoint --example pingpong -- serve 127.0.0.1    # the server, on an address of its host
//! cargo run --release -p rnic-endpoint --example pingpong -- 127.0.0.1          # the client, towards that address
//! ```
//!
//! Neither side has anything to do but to wait, so neither has a progress thread: packets move while it waits. That is
//! the fastest way for messages one by one.
//!
//! Both sides do the same to get ready: open a device, register memory, make a queue pair, post a receive, connect. The
//! receive comes before the connection, because a message needs one at the moment it arrives.

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

/// TCP port on which the two sides find each other.
const PORT: u16 = 18_515;
/// Bytes of a message.
const SIZE: usize = 64;
/// How long a message may take.
const PATIENCE: Time = Time::from_ms(5_000);

/// Packets move while this program waits, and an answer does not wait for the acknowledgement of what it answers.
pub(crate) fn config() -> Config {
    Config { mode: Mode::Polled, acknowledge: Acknowledge::WithNextPoll, ..Config::default() }
}

/// One side.
struct End {
    qp: QueuePair,
    /// Where sends complete.
    sent: CompletionQueue,
    /// Where receives complete.
    received: CompletionQueue,
    /// Room for the messages of two rounds, and for one to send.
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

    /// Where the message of a round arrives. The last one's place is still in use while the next message comes.
    fn place(&self, round: u64) -> Result<Sge> {
        Ok(self.region.slice((round % 2) as usize * SIZE, SIZE)?)
    }

    fn post_recv(&self, round: u64) -> Result<()> {
        Ok(self.qp.post_recv(round, &[self.place(round)?])?)
    }

    /// Waits for the message of a round and makes room for the next one, which may come as soon as this one is
    /// answered.
    fn receive(&self, round: u64) -> Result<()> {
        self.received.wait_one(PATIENCE)?;
        self.post_recv(round + 1)
    }

    /// Sends a message. Its bytes must stay as they are until it is complete; the answer may come before that.
    fn send(&self, round: u64, message: Sge) -> Result<()> {
        Ok(self.qp.post(round, SendOp::Send, &[message])?)
    }
}

/// Sends back what a client sends.
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

/// Says that this side is done, and lets packets move until the other side is: it may need something again that was
/// lost, if only the last acknowledgement.
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

/// Plays with a server and returns the time of each round trip.
pub(crate) fn play(server: SocketAddr, rounds: u64) -> Result<Vec<Time>> {
    let mut channel = Channel::connect(server)?;
    // Any UDP port will do: the exchange tells which it is.
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
