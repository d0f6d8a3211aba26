//! The TCP connection of a test with a perftest program. While the local end waits for a message of the peer, its
//! device continues to send and receive packets.

use super::Error;
use rnic_endpoint::device::Device;
use rnic_endpoint::{Clock, TimeSource};
use rnic_transport::Time;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// The role of the local end on the TCP connection to a perftest program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The client opens the TCP connection and sends the first message. In one-way tests it is the requester.
    Client,
    /// The server waits for a client to connect.
    Server,
}

pub(super) struct Conversation {
    stream: TcpStream,
    device: Device,
    role: Role,
    timeout: Time,
    clock: Clock,
}

impl Conversation {
    pub(super) fn new(stream: TcpStream, device: Device, role: Role, timeout: Time) -> Result<Conversation, Error> {
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        ready.map_err(|error| Error::Exchange(format!("the connection to the peer cannot be used: {error}")))?;
        Ok(Conversation { stream, device, role, timeout, clock: Clock::start() })
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Exchanges a message with the peer: both ends send a message of the same length, the client first. Returns the
    /// peer's message.
    pub(super) fn exchange<const N: usize>(&mut self, mine: &[u8; N], what: &str) -> Result<[u8; N], Error> {
        if self.role == Role::Client {
            self.send(mine, what)?;
            return self.receive(what);
        }
        let theirs = self.receive(what)?;
        self.send(mine, what)?;
        Ok(theirs)
    }

    pub(super) fn send(&mut self, message: &[u8], what: &str) -> Result<(), Error> {
        let mut left = message;
        self.repeat(what, |stream| {
            let count = stream.write(left)?;
            left = &left[count..];
            if count == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(left.is_empty()) }
        })
    }

    pub(super) fn receive<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        let mut message = [0; N];
        let mut have = 0;
        self.repeat(what, |stream| {
            let count = stream.read(&mut message[have..])?;
            have += count;
            if count == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(have == N) }
        })?;
        Ok(message)
    }

    /// Closes the local end's direction of the connection. Then lets the device send and receive packets until the peer
    /// closes the connection, too, for at most 0.25 s. So if an ACK was lost and the peer retransmits its last message,
    /// the peer gets another ACK.
    pub(super) fn close(mut self) {
        self.timeout = self.timeout.min(Time::from_ms(250));
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.repeat("the end", |stream| Ok(stream.read(&mut [0; 64])? == 0));
    }

    /// Repeats `step`, which reads or writes part of a message, until it returns `true`. The device sends and receives
    /// packets in between.
    fn repeat(&mut self, what: &str, mut step: impl FnMut(&mut TcpStream) -> io::Result<bool>) -> Result<(), Error> {
        let mut end = self.clock.now().saturating_add(self.timeout);
        let arrivals = |device: &Device| device.counters().verbs.packets_received;
        let mut seen = arrivals(&self.device);
        loop {
            match step(&mut self.stream) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.device.wait(Time::from_ms(1))?;
                    let now = self.clock.now();
                    // Received packets show that the peer is alive, so the timeout starts again.
                    if arrivals(&self.device) != seen {
                        seen = arrivals(&self.device);
                        end = now.saturating_add(self.timeout);
                    }
                    if now >= end {
                        return Err(Error::Exchange(format!(
                            "the peer does not exchange {what}: silent for {}",
                            self.timeout
                        )));
                    }
                }
                Err(error) => {
                    let why = match error.kind() {
                        ErrorKind::UnexpectedEof => "it closed the connection".to_string(),
                        _ => error.to_string(),
                    };
                    return Err(Error::Exchange(format!("the peer does not exchange {what}: {why}")));
                }
            }
        }
    }
}
