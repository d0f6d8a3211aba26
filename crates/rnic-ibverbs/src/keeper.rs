//! A process that outlives programs: it gets the ledgers of their connections from the broker of their address, and
//! tells their peers if they are killed, also if no other program of the address is left. It has no device, and no
//! packet of a program goes through it.

use crate::port::{Ledger, MadPort, MadSender};
use rnic_endpoint::Time;
use rnic_endpoint::port::{Interest, Port};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The keeper of an address.
pub struct Keeper {
    port: MadPort,
    /// Has the UDP port whose number is the keeper's name among the managers of the address.
    _sender: MadSender,
}

impl Keeper {
    /// Begins to keep the connections of the programs at the address `ip`, present and future ones.
    ///
    /// # Errors
    /// A sentence: the system lacks a UDP port at this address, descriptors, or files in memory.
    pub fn open(ip: IpAddr) -> Result<Keeper, String> {
        let sender = MadSender::open(ip, None)?;
        let ledger = Ledger::create().map_err(|error| format!("a file in memory cannot be made: {}", error.desc()))?;
        let port = MadPort::keeper(ip, sender.mark(), Some(Arc::new(ledger))).map_err(|error| error.to_string())?;
        Ok(Keeper { port, _sender: sender })
    }

    /// Whether a program is there, whose connections it keeps.
    pub fn has_joined(&self) -> bool {
        self.port.has_joined()
    }

    /// Waits until something happens, at most for this time, and handles it. A thread of its own tells the peers.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn watch(&mut self, at_most: Duration) -> io::Result<()> {
        // It gets the ledgers by the way; packets are not for it.
        while self.port.receive()?.is_some() {}
        self.port.wait(Interest::Arrival, Some(Time::from_ns(at_most.as_nanos() as u64)))
    }
}
