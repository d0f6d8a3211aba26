//! Queue pair 1 of a device, for the communication manager of this process.

use crate::trace;
use libc::c_int;
use rnic_cabi::entry::lock;
use rnic_cm::connection_list::ENTRY_LEN;
use rnic_cm::message::MadBytes;
use rnic_cm::packet;
use rnic_endpoint::Time;
use rnic_endpoint::port::shared_address::{ClaimError, Claims, ConnectionList, MadSender};
use rnic_endpoint::port::{Interest, Port};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// Queue pair 1 of a device. It exists until the process ends.
pub struct Mads {
    sender: Mutex<MadSender>,
    receiver: Mutex<Box<dyn Port>>,
    waker: Waker,
    claims: Arc<Claims>,
    list: Option<Arc<ConnectionList>>,
}

fn claim_errno(error: ClaimError) -> c_int {
    match error {
        ClaimError::InUse => libc::EADDRINUSE,
        ClaimError::NoResponse => libc::ETIMEDOUT,
        ClaimError::NotClaimed => libc::EINVAL,
    }
}

impl Mads {
    pub(crate) fn new(
        sender: MadSender, receiver: Box<dyn Port>, claims: Arc<Claims>, list: Option<Arc<ConnectionList>>,
    ) -> Mads {
        let waker = receiver.waker();
        Mads { sender: Mutex::new(sender), waker, receiver: Mutex::new(receiver), claims, list }
    }

    /// The manager ID: the lower half of the communication IDs.
    pub(crate) fn manager_id(&self) -> u16 {
        lock(&self.sender).manager_id()
    }

    /// Sends a MAD.
    pub(crate) fn send(&self, peer: IpAddr, mad: &MadBytes) -> Result<(), c_int> {
        lock(&self.sender).send(peer, mad).map_err(|error| {
            trace::line(format_args!("cannot send to {peer}: {error}"));
            libc::ENETUNREACH
        })
    }

    /// The next MAD and its sender. Waits once, at most for this time.
    pub(crate) fn receive(&self, timeout: Time) -> io::Result<Option<(IpAddr, MadBytes)>> {
        let mut port = lock(&self.receiver);
        let mut waited = false;
        loop {
            while let Some(arrival) = port.receive()? {
                let meta = arrival.meta;
                if let Some(mad) = packet::parse(arrival.data, meta.source, meta.destination) {
                    return Ok(Some((meta.source.ip(), mad)));
                }
            }
            if waited {
                return Ok(None);
            }
            port.wait(Interest::Arrival, Some(timeout))?;
            waited = true;
        }
    }

    /// Wakes the thread that waits in [`Mads::receive`].
    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Writes a slot of the connection list.
    pub(crate) fn list_connection(&self, slot: u32, entry: &[u8; ENTRY_LEN]) {
        if let Some(list) = &self.list
            && let Err(error) = list.write(slot, entry)
        {
            trace::line(format_args!(
                "a connection is not in the connection list, so that its peer depends on probes: {error}"
            ));
        }
    }

    /// Claims a service ID. See [`Claims::claim`].
    pub(crate) fn claim(&self, service: u64, shared: bool) -> Result<(), c_int> {
        self.claims.claim(service, shared, &self.waker).map_err(claim_errno)
    }

    /// Makes a claimed service ID exclusive.
    pub(crate) fn listen(&self, service: u64) -> Result<(), c_int> {
        self.claims.listen(service, &self.waker).map_err(claim_errno)
    }

    /// Releases a service ID.
    pub(crate) fn release(&self, service: u64) {
        self.claims.release(service, &self.waker);
    }
}
