//! The control messages that client and server of `rnic perf` exchange over TCP, in the order of the table:
//!
//! | client sends | server responds | purpose |
//! |---|---|---|
//! | [`Greeting`] | [`Greeting`] | compares versions; the format of all later messages may depend on the version |
//! | `Hello` | `Welcome` or `Refused` | exchanges the setup, the addresses of queue pairs, and the memory keys |
//! | `Ready` | `Ready` | confirms that the queue pairs are connected |
//! | `Begin` | `Began` | starts the measurement of one message size |
//! | `Round` | `Checked` | with verification: the server compares a group of Writes, or writes the data for a group of Reads |
//! | `End` | `Ended` | ends the measurement of a size; the server sends its counters |
//!
//! After the last size the client closes the connection. An end that fails sends `Refused` with a reason and closes the
//! connection.

use super::plan::{ChannelPlan, FaultPlan, MAX_CHANNELS, MAX_QUEUE_PAIRS};
use super::{PerfError, Side, Verified};
use crate::Op;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::config::Security;
use rnic_endpoint::device::{Address, Device, PublicKey};
use rnic_endpoint::exchange::{self, Channel, ExchangeError, RemoteMemory, Speaker};
use rnic_endpoint::host;
use rnic_transport::Time;
use rnic_untrusted::text::{MAX_CHARS, brief};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Version of the control messages, which must be the same at both ends.
pub(super) const VERSION: u32 = 5;
/// Timeout for a message that the peer can send immediately, without waiting for something else first.
pub(super) const MESSAGE_TIMEOUT: Time = Time::from_ms(30_000);
/// Maximum time between two checks for a message while a thread waits for one.
const NAP: Time = Time::from_ms(1);

/// Maximum number of received messages that wait for the measuring thread. In the protocol each message follows a
/// response to the previous one, so a peer that sends more messages fills the buffers of TCP, and then cannot send.
const MAX_WAITING_MESSAGES: usize = 2;
/// Maximum number of settings of a congestion control in a message. No control has as many.
const MAX_SETTINGS: usize = 64;

/// Reads a list of at most `MAX` elements. In JSON an element can be much shorter than in memory, so the maximum length
/// of a message does not limit the memory for its lists.
fn at_most<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct List<const MAX: usize, T>(PhantomData<T>);
    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for List<MAX, T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} elements")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = list.next_element()? {
                if elements.len() == MAX {
                    return Err(A::Error::custom(format!("a list has more than {MAX} elements")));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }
    from.deserialize_seq(List::<MAX, T>(PhantomData))
}

/// The first message of each end: its version of the control messages.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Greeting {
    pub(super) rnic_perf: u32,
}

/// The settings of a measurement that both ends need: a part of the client's plan, and the memory layout that results
/// from the plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) op: Op,
    pub(super) latency: bool,
    /// Name of the transport service or host transport.
    pub(super) service: String,
    pub(super) channel: ChannelPlan,
    /// Number of queue pairs, or of channels.
    pub(super) queue_pairs: u32,
    pub(super) depth: u32,
    pub(super) slots: u32,
    pub(super) stride: u32,
    pub(super) congestion: String,
    #[serde(deserialize_with = "at_most::<MAX_SETTINGS, _, _>")]
    pub(super) settings: Vec<(String, String)>,
    /// Rate of the link in bits per second; `None` for the device's default.
    pub(super) line_rate: Option<u64>,
    pub(super) in_flight: Option<u32>,
    pub(super) verify: bool,
    pub(super) seed: u64,
    pub(super) faults: FaultPlan,
    pub(super) polled: bool,
    /// Time without a response after which either end aborts the connection, in us; `None` with UC.
    pub(super) give_up_after_us: Option<u64>,
    pub(super) security: Security,
}

/// The attributes of one queue pair that differ from the other queue pairs of the end that sends the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) qpn: u32,
    pub(super) psn: u32,
    pub(super) source_port: u16,
    pub(super) key: Option<PublicKey>,
}

impl Peer {
    pub(super) fn of(address: &Address) -> Peer {
        let Address { qpn, psn, source_port, key, .. } = *address;
        Peer { qpn, psn, source_port: source_port.unwrap_or(0), key }
    }
}

/// The UDP port, queue pairs, memory and MTU of the end that sends the message. The message does not contain the end's
/// IP address, which is the address of the TCP connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) roce_port: u16,
    #[serde(deserialize_with = "at_most::<{ MAX_QUEUE_PAIRS as usize }, _, _>")]
    pub(super) peers: Vec<Peer>,
    /// The channels, if a host transport carries the messages.
    #[serde(deserialize_with = "at_most::<{ MAX_CHANNELS as usize }, _, _>")]
    pub(super) channels: Vec<host::Address>,
    /// Maximum number of packets that each queue pair has in flight.
    pub(super) in_flight: u32,
    pub(super) memory: RemoteMemory,
    pub(super) mtu: u32,
}

/// A message between client and server of `rnic perf` over TCP.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum Message {
    Hello {
        setup: Box<Setup>,
        client: Introduction,
        /// Whether the plan sets the path MTU. If so, the server must refuse an MTU that its path does not support,
        /// instead of reducing it.
        mtu_fixed: bool,
    },
    Welcome {
        server: Introduction,
    },
    Refused {
        why: String,
    },
    Ready,
    Begin {
        size: u32,
    },
    Began,
    /// A group of messages that are verified together: messages `first` to `first + count - 1` of each queue pair.
    Round {
        first: u64,
        count: u32,
    },
    Checked,
    /// The end of a measurement, with the number of messages that the client sent on each queue pair.
    End {
        #[serde(deserialize_with = "at_most::<{ MAX_QUEUE_PAIRS as usize }, _, _>")]
        messages: Vec<u64>,
    },
    Ended {
        side: Side,
        arrived: u64,
        verified: Verified,
    },
}

impl Message {
    /// The name of the message as it is on the wire, such as `hello`.
    fn name(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json.get("say").and_then(|name| name.as_str()).unwrap_or_default().to_string()
    }
}

/// Exchanges the versions of the control messages with the peer, which must be the same at both ends.
pub(super) fn greet(channel: &mut Channel) -> Result<(), PerfError> {
    channel.send(&Greeting { rnic_perf: VERSION })?;
    let theirs: Greeting = channel.receive().map_err(|error| match error {
        ExchangeError::NotUnderstood { peer, why } => {
            ExchangeError::NotUnderstood { peer, why: format!("it is not `rnic perf`; it sent {why}") }
        }
        other => other,
    })?;
    if theirs.rnic_perf != VERSION {
        let (peer, other) = (channel.peer_addr(), theirs.rnic_perf);
        let why = format!(
            "{peer} has version {other} of `rnic perf`'s conversation, this side {VERSION}; use the same rnic on both sides"
        );
        return Err(ExchangeError::Disagreement(why).into());
    }
    Ok(())
}

/// Receives the next message before the measurements start, when no [`Control`] exists yet. A `Refused` becomes an
/// error.
pub(super) fn receive(channel: &mut Channel) -> Result<Message, PerfError> {
    receive_within(channel, exchange::PATIENCE)
}

/// Receives the next message like [`receive`], which must arrive within `timeout`.
pub(super) fn receive_within(channel: &mut Channel, timeout: Duration) -> Result<Message, PerfError> {
    match channel.receive_within(Some(timeout))? {
        Message::Refused { why } => Err(refused(&why)),
        message => Ok(message),
    }
}

/// The error for the reason that the peer states in `Refused`.
fn refused(why: &str) -> PerfError {
    PerfError::Refused(brief(why, MAX_CHARS).into_owned())
}

/// Returns the error for a message that the protocol does not allow at this point.
pub(super) fn unexpected(peer: SocketAddr, message: &Message) -> PerfError {
    let why = format!("`{}` is not due", message.name());
    ExchangeError::NotUnderstood { peer, why }.into()
}

/// Sends the reason of a failure to the peer, unless the failure came from the peer or from the connection itself.
pub(super) fn refuse(speaker: &mut Speaker, error: &PerfError) {
    if !matches!(error, PerfError::Refused(_) | PerfError::Exchange(_)) {
        let _ = speaker.send(&Message::Refused { why: error.to_string() });
    }
}

/// The TCP connection between client and server of `rnic perf` during measurements. A separate thread receives its
/// messages, so that the measuring thread never blocks on TCP.
pub(super) struct Control {
    speaker: Speaker,
    /// Exists until the value is dropped.
    inbox: Option<Receiver<Result<Message, ExchangeError>>>,
    peer: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread that receives messages. Each message also wakes a thread that waits on `device`.
    pub(super) fn new(mut channel: Channel, device: Device) -> Result<Control, PerfError> {
        let (speaker, peer) = (channel.speaker(), channel.peer_addr());
        let (sender, inbox) = mpsc::sync_channel(MAX_WAITING_MESSAGES);
        let listen = move || loop {
            let received = channel.receive_within(None);
            let ends = received.is_err();
            if sender.send(received).is_err() || ends {
                device.interrupt();
                return;
            }
            device.interrupt();
        };
        let listener = std::thread::Builder::new().name("rnic-perf".to_string()).spawn(listen);
        let listener = listener.map_err(|error| ExchangeError::Connection { peer, error })?;
        Ok(Control { speaker, inbox: Some(inbox), peer, listener: Some(listener) })
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn say(&mut self, message: &Message) -> Result<(), PerfError> {
        Ok(self.speaker.send(message)?)
    }

    pub(super) fn refuse(&mut self, error: &PerfError) {
        refuse(&mut self.speaker, error);
    }

    /// Returns the next message, or `None` if no message has arrived. A `Refused` becomes an error.
    pub(super) fn try_receive(&self) -> Result<Option<Message>, PerfError> {
        let gone = || ExchangeError::Gone { peer: self.peer }.into();
        let Some(inbox) = &self.inbox else { return Err(gone()) };
        match inbox.try_recv() {
            Ok(Ok(Message::Refused { why })) => Err(refused(&why)),
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(error)) => Err(error.into()),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }

    /// Fails if a message has arrived. The client calls this during a measurement, when the server may send only
    /// `Refused`.
    pub(super) fn quiet(&self) -> Result<(), PerfError> {
        match self.try_receive()? {
            None => Ok(()),
            Some(message) => Err(unexpected(self.peer, &message)),
        }
    }

    /// The error for a peer that was inactive for the time `waited`.
    pub(super) fn silent(&self, waited: Time) -> PerfError {
        let waited = std::time::Duration::from_millis(waited.as_ps() / 1_000_000_000);
        ExchangeError::Silent { peer: self.peer, waited }.into()
    }

    /// Waits for the next message. In the meantime the device continues to send and receive packets.
    pub(super) fn wait_for_message(&self, device: &Device, stop: &AtomicBool) -> Result<Message, PerfError> {
        self.wait_for_message_within(MESSAGE_TIMEOUT, device, stop)
    }

    /// Waits like [`Control::wait_for_message`], with another limit for the time without a message.
    pub(super) fn wait_for_message_within(
        &self, timeout: Time, device: &Device, stop: &AtomicBool,
    ) -> Result<Message, PerfError> {
        let clock = Clock::start();
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(PerfError::Interrupted);
            }
            if clock.now() > timeout {
                return Err(self.silent(timeout));
            }
            device.wait(NAP)?;
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.speaker.hang_up();
        // The thread may be waiting for room in the queue.
        self.inbox = None;
        if let Some(listener) = self.listener.take() {
            // If the thread panicked, the panic was already reported in that thread.
            let _ = listener.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_endpoint::config::Config;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};

    /// A peer sends messages that the measuring thread does not take: the thread that receives stops, and the peer's
    /// writes block when the buffers of TCP are full.
    #[test]
    fn messages_that_are_not_due_do_not_fill_the_memory() {
        const TOTAL: usize = 256 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let device = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default()).unwrap();
        let control = Control::new(Channel::over(listener.accept().unwrap().0).unwrap(), device.clone()).unwrap();
        let rounds = "{\"say\":\"round\",\"first\":0,\"count\":16384}\n".repeat(10_000);
        let mut sent = 0;
        let error = loop {
            assert!(sent < TOTAL, "the server has taken {sent} bytes");
            match peer.write(rounds.as_bytes()) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        // The messages that fit are still there, and the thread ends although its queue is full.
        assert_eq!(control.try_receive().unwrap(), Some(Message::Round { first: 0, count: 16_384 }));
        drop(control);
    }

    #[test]
    fn lists_are_bounded() {
        let end = |messages: usize| {
            let list = vec!["0"; messages].join(",");
            serde_json::from_str::<Message>(&format!("{{\"say\":\"end\",\"messages\":[{list}]}}"))
        };
        assert_eq!(end(1_024).unwrap(), Message::End { messages: vec![0; 1_024] });
        assert!(end(1_025).unwrap_err().to_string().contains("a list has more than 1024 elements"));
    }

    #[test]
    fn reasons_of_the_peer_are_short_and_harmless() {
        let PerfError::Refused(why) = refused(&"\u{1b}[2J\n1 measurement".repeat(20_000)) else { panic!() };
        assert!(why.starts_with("\\u{1b}[2J\\n1 measurement") && why.len() < 1_000, "{why}");
    }
}
