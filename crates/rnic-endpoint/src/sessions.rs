//! The keys of a device's protected connections.

use crate::secure::{CryptoError, OpenError, Session};
use crate::sync::lock;
use rnic_verbs::{Qpn, QpnMap};
use rnic_wire::ProtectedHeader;
use std::sync::{Mutex, MutexGuard};

/// The session (keys, packet numbers) of each protected queue pair of a device, by queue pair number. The driver uses
/// them for packets, and the application adds and removes them with its queue pairs.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<QpnMap<Session>>);

/// The sessions, locked for the packets of one arrival.
pub(crate) struct Openers<'a>(MutexGuard<'a, QpnMap<Session>>);

impl Sessions {
    pub(crate) fn insert(&self, qpn: Qpn, session: Session) {
        lock(&self.0).insert(qpn.0, session);
    }

    pub(crate) fn remove(&self, qpn: Qpn) {
        lock(&self.0).remove(&qpn.0);
    }

    /// Protects datagrams of queue pair `qpn`, each with room for header and tag.
    ///
    /// # Errors
    /// If the queue pair has no session any more.
    pub(crate) fn seal<'p>(
        &self, qpn: Qpn, mut packets: impl Iterator<Item = &'p mut [u8]>,
    ) -> Result<(), CryptoError> {
        let mut sessions = lock(&self.0);
        let session = sessions.get_mut(&qpn.0).ok_or(CryptoError)?;
        packets.try_for_each(|packet| session.sealer.seal(packet))
    }

    pub(crate) fn openers(&self) -> Openers<'_> {
        Openers(lock(&self.0))
    }
}

impl Openers<'_> {
    /// Authenticates a received datagram and returns the packets inside; see [`crate::secure::Opener::open`].
    pub(crate) fn open<'a>(
        &mut self, packet: &'a [u8], plain: &'a mut Vec<u8>,
    ) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, OpenError> {
        let header = ProtectedHeader::parse(packet).ok_or(OpenError::NotProtected)?;
        self.0.get_mut(&header.dest_qp).ok_or(OpenError::NotProtected)?.opener.open(packet, plain)
    }
}
