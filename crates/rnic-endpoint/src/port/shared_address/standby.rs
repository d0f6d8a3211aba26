//! A standby that does not belong to an RDMA program: it outlives programs, and ends their connections if they are
//! killed.

use super::SharedAddressError;
use super::connection_list::ConnectionList;
use super::mads::{MadPort, MadSender};
use crate::port::{Interest, Port};
use rnic_transport::Time;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A connection manager without connections and without a device. The broker of the address chooses it as a standby, so
/// that it receives the connection lists of the programs of the address. It ends the connections of programs that are
/// killed, also if no other program of the address is left. No packet of a program passes through it.
pub struct Standby {
    port: MadPort,
    /// Owns the UDP port whose number is the manager ID of the standby.
    _sender: MadSender,
}

impl Standby {
    /// Makes a standby for all present and future programs at the address `ip`.
    ///
    /// # Errors
    /// The system has no UDP port at this address, no descriptors, or no files in memory.
    pub fn open(ip: IpAddr) -> Result<Standby, SharedAddressError> {
        let sender = MadSender::open(ip, None)?;
        let list = Arc::new(ConnectionList::create()?);
        let port = MadPort::new(ip, sender.manager_id(), Arc::default(), Some(list));
        let port = port.map_err(|error| SharedAddressError::System(error.raw_os_error().unwrap_or_default()))?;
        Ok(Standby { port, _sender: sender })
    }

    /// Whether the address has a broker that has admitted the standby.
    pub fn has_joined(&self) -> bool {
        self.port.has_joined()
    }

    /// Waits for messages of the broker, at most for this time, and handles them. Another thread ends connections.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn watch(&mut self, timeout: Duration) -> io::Result<()> {
        // `receive` handles the connection lists, and returns packets, which are not for the standby.
        while self.port.receive()?.is_some() {}
        self.port.wait(Interest::Arrival, Some(Time::from_ns(timeout.as_nanos() as u64)))
    }
}
