//! The conversation over TCP: who says what, in which order.
//!
//! | client | server | |
//! |---|---|---|
//! | [`Greeting`] | [`Greeting`] | versions, before anything that may differ between them |
//! | `Hello` | `Welcome` or `Refused` | what to measure; addresses and memory |
//! | `Ready` | `Ready` | queue pairs are connected |
//! | `Begin` | `Began` | for each size |
//! | `Round` | `Checked` | with verification of Writes and Reads: after, or before, each round of messages |
//! | `End` | `Ended` | what the server counted |
//!
//! After the last size the client hangs up. Whoever fails says `Refused` with a reason and hangs up.

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

/// Version of the conversation.
pub(super) const VERSION: u32 = 1;
/// How long the other side may take for what it does at once.
const PATIENCE: Time = Time::from_ms(30_000);
/// How long to sleep at a time while waiting for a word.
const NAP: Time = Time::from_ms(1);

/// The first line of either side.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Greeting {
    pub(super) rnic_perf: u32,
}

/// What both sides are set up with.
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

/// A queue pair of the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) qpn: u32,
    pub(super) psn: u32,
}

/// What one side must know of the other. The IP address is that of the conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) roce_port: u16,
    pub(super) peers: Vec<Peer>,
    pub(super) memory: RemoteMemory,
    pub(super) mtu: u32,
}

/// A line of the conversation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum Message {
    Hello {
        setup: Setup,
        client: Introduction,
        /// The MTU was asked for, and is not to be made smaller.
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
    /// So many messages were sent on each queue pair.
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
    /// Its name.
    fn name(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json.get("say").and_then(|name| name.as_str()).unwrap_or_default().to_string()
    }
}

/// Says which version of the conversation this side has, and hears the other's.
pub(super) fn greet(channel: &mut Channel) -> Result<(), PerfError> {
    channel.send(&Greeting { rnic_perf: VERSION })?;
    let theirs: Greeting = channel.receive().map_err(|error| match error {
        ExchangeError::NotUnderstood { peer, why } => {
            ExchangeError::NotUnderstood { peer, why: format!("it is no `rnic perf`; it said {why}") }
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

/// Hears the next message before there is a device.
pub(super) fn hear(channel: &mut Channel) -> Result<Message, PerfError> {
    match channel.receive()? {
        Message::Refused { why } => Err(PerfError::Refused(why)),
        message => Ok(message),
    }
}

/// The other side said something out of turn.
pub(super) fn unexpected(peer: SocketAddr, message: &Message) -> PerfError {
    let why = format!("`{}` out of turn", message.name());
    ExchangeError::NotUnderstood { peer, why }.into()
}

/// Tells the other side, if it still listens, why the conversation ends, unless it said so itself.
pub(super) fn refuse(speaker: &mut Speaker, error: &PerfError) {
    if !matches!(error, PerfError::Refused(_) | PerfError::Exchange(_)) {
        let _ = speaker.send(&Message::Refused { why: error.to_string() });
    }
}

/// The conversation while packets move: a thread listens.
pub(super) struct Control {
    speaker: Speaker,
    inbox: Receiver<Result<Message, ExchangeError>>,
    peer: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens from now on; what is heard ends waits on `device` early.
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

    /// What was said, if anything was.
    pub(super) fn heard(&self) -> Result<Option<Message>, PerfError> {
        match self.inbox.try_recv() {
            Ok(Ok(Message::Refused { why })) => Err(PerfError::Refused(why)),
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(error)) => Err(error.into()),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ExchangeError::Gone { peer: self.peer }.into()),
        }
    }

    /// Fails if the other side said anything: while it is not its turn, that can only be bad news.
    pub(super) fn quiet(&self) -> Result<(), PerfError> {
        match self.heard()? {
            None => Ok(()),
            Some(message) => Err(unexpected(self.peer, &message)),
        }
    }

    /// Waits for a word while packets move.
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
            // A panic there was reported where it happened.
            let _ = listener.join();
        }
    }
}
