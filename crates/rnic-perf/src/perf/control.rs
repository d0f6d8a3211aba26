//! The control messages over TCP, in their order.
//!
//! | client | server | |
//! |---|---|---|
//! | [`Greeting`] | [`Greeting`] | versions, before messages that may differ between versions |
//! | `Hello` | `Welcome` or `Refused` | the setup; addresses and memory |
//! | `Ready` | `Ready` | queue pairs are connected |
//! | `Begin` | `Began` | for each size |
//! | `Round` | `Checked` | with verification of Writes and Reads: after, or before, each round of messages |
//! | `End` | `Ended` | what the server counted |
//!
//! After the last size the client closes the connection. A side that fails sends `Refused` with a reason and closes the
//! connection.

use super::plan::FaultPlan;
use super::{PerfError, Side, Verified};
use crate::Op;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::device::Device;
use rnic_endpoint::exchange::{Channel, ExchangeError, RemoteMemory, Speaker};
use rnic_transport::Time;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::JoinHandle;

/// Version of the control messages.
pub(super) const VERSION: u32 = 1;
/// Timeout for a message that the peer sends without delay.
const PATIENCE: Time = Time::from_ms(30_000);
/// Maximum sleep while waiting for a message.
const NAP: Time = Time::from_ms(1);

/// The first line of either side.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Greeting {
    pub(super) rnic_perf: u32,
}

/// The setup of both sides: the plan in numbers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) op: Op,
    pub(super) latency: bool,
    pub(super) service: String,
    pub(super) queue_pairs: u32,
    pub(super) depth: u32,
    pub(super) slots: u32,
    pub(super) stride: u32,
    pub(super) congestion: String,
    pub(super) settings: Vec<(String, String)>,
    /// Bits per second.
    pub(super) line_rate: Option<u64>,
    pub(super) in_flight: Option<u32>,
    pub(super) verify: bool,
    pub(super) seed: u64,
    pub(super) faults: FaultPlan,
    pub(super) polled: bool,
}

/// QPN and first PSN of a queue pair of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) qpn: u32,
    pub(super) psn: u32,
}

/// The addresses and the memory of one side. Its IP address is that of the TCP connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) roce_port: u16,
    pub(super) peers: Vec<Peer>,
    pub(super) memory: RemoteMemory,
    pub(super) mtu: u32,
}

/// A control message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum Message {
    Hello {
        setup: Setup,
        client: Introduction,
        /// The plan sets the MTU, which must not be reduced.
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
    /// Messages `first` to `first + count - 1` of each queue pair.
    Round {
        first: u64,
        count: u32,
    },
    Checked,
    /// Messages sent on each queue pair.
    End {
        messages: Vec<u64>,
    },
    Ended {
        side: Side,
        arrived: u64,
        verified: Verified,
    },
}

impl Message {
    /// The name of the message.
    fn name(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json.get("say").and_then(|name| name.as_str()).unwrap_or_default().to_string()
    }
}

/// Exchanges the versions of both sides.
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

/// Receives the next message before there is a device.
pub(super) fn hear(channel: &mut Channel) -> Result<Message, PerfError> {
    match channel.receive()? {
        Message::Refused { why } => Err(PerfError::Refused(why)),
        message => Ok(message),
    }
}

/// The peer sent a message that is not due.
pub(super) fn unexpected(peer: SocketAddr, message: &Message) -> PerfError {
    let why = format!("`{}` is not due", message.name());
    ExchangeError::NotUnderstood { peer, why }.into()
}

/// Sends the peer the reason of a failure, unless the peer has sent it itself.
pub(super) fn refuse(speaker: &mut Speaker, error: &PerfError) {
    if !matches!(error, PerfError::Refused(_) | PerfError::Exchange(_)) {
        let _ = speaker.send(&Message::Refused { why: error.to_string() });
    }
}

/// The TCP connection while packets move: a thread receives messages.
pub(super) struct Control {
    speaker: Speaker,
    inbox: Receiver<Result<Message, ExchangeError>>,
    peer: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Control {
    /// Receives from now on; a message ends waits on `device` early.
    pub(super) fn new(mut channel: Channel, device: Device) -> Result<Control, PerfError> {
        let (speaker, peer) = (channel.speaker()?, channel.peer_addr());
        let (sender, inbox) = mpsc::channel();
        let listen = move || loop {
            let heard = channel.receive_within(None);
            let ends = heard.is_err();
            if sender.send(heard).is_err() || ends {
                device.interrupt();
                return;
            }
            device.interrupt();
        };
        let listener = std::thread::Builder::new().name("rnic-perf".to_string()).spawn(listen);
        let listener = listener.map_err(|error| ExchangeError::Connection { peer, error })?;
        Ok(Control { speaker, inbox, peer, listener: Some(listener) })
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

    /// The next message, if one has arrived.
    pub(super) fn heard(&self) -> Result<Option<Message>, PerfError> {
        match self.inbox.try_recv() {
            Ok(Ok(Message::Refused { why })) => Err(PerfError::Refused(why)),
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(error)) => Err(error.into()),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ExchangeError::Gone { peer: self.peer }.into()),
        }
    }

    /// Fails if a message has arrived: none is due, so it can only be `Refused`.
    pub(super) fn quiet(&self) -> Result<(), PerfError> {
        match self.heard()? {
            None => Ok(()),
            Some(message) => Err(unexpected(self.peer, &message)),
        }
    }

    /// Waits for a message while packets move.
    pub(super) fn await_word(&self, device: &Device, stop: &AtomicBool) -> Result<Message, PerfError> {
        let clock = Clock::start();
        loop {
            if let Some(message) = self.heard()? {
                return Ok(message);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(PerfError::Interrupted);
            }
            if clock.now() > PATIENCE {
                let waited = std::time::Duration::from_millis(PATIENCE.as_ps() / 1_000_000_000);
                return Err(ExchangeError::Silent { peer: self.peer, waited }.into());
            }
            device.wait(NAP)?;
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.speaker.hang_up();
        if let Some(listener) = self.listener.take() {
            // A panic of the thread was reported where it happened.
            let _ = listener.join();
        }
    }
}
