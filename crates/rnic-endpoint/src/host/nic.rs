//! The device with the interface that a channel uses: with the keys and attributes of the peer's queue pairs, and a
//! clock that never goes back.

use crate::clock::{ContinuousClock, TimeSource};
use crate::device::Device;
use crate::secure::{KeyPair, Protection, PublicKey};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, Completion, Connection, CqId, DeviceInfo, Event, Extras, ForeignMemory, MrId, MrInfo, Pd, QpInfo, QpInit,
    Qpn, RecvRequest, SendRequest, Transition, Verbs, VerbsError,
};
use std::collections::BTreeMap;

/// What a queue pair of the peer has besides its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct PeerQueuePair {
    pub(super) qpn: u32,
    pub(super) source_port: u16,
    #[serde(default)]
    pub(super) key: Option<PublicKey>,
}

/// A queue pair of this end. Its session begins when it is connected for the first time, and remains when the channel
/// connects it to the same peer again: packet numbers continue, so no number is used twice with the same keys.
#[derive(Default)]
struct Own {
    keys: Option<KeyPair>,
    is_protected: bool,
    /// Whether the packets of the peer's queue pair take several paths, so that they have several source ports.
    is_spread: bool,
}

/// A device for the queue pairs of one channel.
pub(super) struct Nic {
    pub(super) device: Device,
    own: BTreeMap<Qpn, Own>,
    peers: BTreeMap<Qpn, PeerQueuePair>,
    /// Maximum number of packets that the peer's queue pairs have in flight.
    peer_in_flight: u32,
    protection: Option<Protection>,
    clock: ContinuousClock,
}

impl Nic {
    pub(super) fn new(device: Device) -> Nic {
        let clock = ContinuousClock::start(device.clock());
        let protection = device.shared().security.protection();
        let (own, peers) = (BTreeMap::new(), BTreeMap::new());
        Nic { device, own, peers, peer_in_flight: rnic_verbs::MAX_IN_FLIGHT, protection, clock }
    }

    /// The attributes that the peer needs of the queue pairs that were created through this NIC.
    pub(super) fn introduction(&self) -> Vec<PeerQueuePair> {
        // One question for all of them: each interrupts the thread that moves packets.
        self.device.shared().ask(|driver| {
            let entry = |(qpn, own): (&Qpn, &Own)| PeerQueuePair {
                qpn: qpn.0,
                source_port: driver.port().source_port(qpn.0),
                key: own.keys.as_ref().map(KeyPair::public),
            };
            self.own.iter().map(entry).collect()
        })
    }

    /// Sets the queue pairs of the peer, before the channel connects to them. `protection` is the protection of the
    /// connection.
    pub(super) fn meet(&mut self, peers: &[PeerQueuePair], in_flight: u32, protection: Option<Protection>) {
        self.peers = peers.iter().map(|peer| (Qpn(peer.qpn), *peer)).collect();
        self.peer_in_flight = in_flight;
        self.protection = protection;
    }

    /// Reads the clock, which begins at 0 when the channel is opened.
    pub(super) fn read(&self) -> Time {
        self.clock.now()
    }

    /// The attributes of a connection to a queue pair of the peer, with its keys.
    fn secured(&mut self, qpn: Qpn, connection: Connection) -> Result<Connection, VerbsError> {
        let peer = self.peers.get(&connection.peer_qpn).ok_or(VerbsError::Unknown("such queue pair of the peer"))?;
        let is_spread = self.own.get(&qpn).is_some_and(|own| own.is_spread);
        let connection = Connection {
            peer_source_port: (!is_spread).then_some(peer.source_port),
            peer_in_flight: self.peer_in_flight,
            protected: self.protection.is_some(),
            ..connection
        };
        let own = self.own.entry(qpn).or_default();
        if let (Some(protection), false) = (self.protection, own.is_protected) {
            let keys = own.keys.as_ref().ok_or(VerbsError::Unsupported("the queue pair has no keys"))?;
            let theirs = peer.key.ok_or(VerbsError::Unsupported("the peer's queue pair has no public key"))?;
            let session = keys.agree(qpn.0, theirs, peer.qpn, protection);
            let session = session.map_err(|_| VerbsError::Unsupported("the peer's public key is not valid"))?;
            self.device.shared().sessions.insert(qpn, session);
            own.is_protected = true;
        }
        Ok(connection)
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        for qpn in self.own.keys() {
            self.device.shared().sessions.remove(*qpn);
        }
    }
}

impl Verbs for Nic {
    fn now(&self) -> Time {
        self.clock.now()
    }
    fn query_device(&self) -> DeviceInfo {
        self.device.query_device()
    }
    fn create_pd(&mut self) -> Result<Pd, VerbsError> {
        self.device.create_pd()
    }
    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        self.device.destroy_pd(pd)
    }
    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError> {
        self.device.register(pd, bytes, addr, access)
    }
    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.device.register_foreign(pd, memory, addr, access)
    }
    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        self.device.deregister(id)
    }
    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        self.device.read_memory(id, offset, out)
    }
    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        self.device.write_memory(id, offset, data)
    }
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        self.device.create_cq(capacity)
    }
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        self.device.shared().forget(cq);
        self.device.destroy_cq(cq)
    }
    fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        let count = self.device.poll_cq(cq, out)?;
        if count > 0 {
            let now = self.read();
            for completion in &mut out[..count] {
                // A completion of the epoch before the clock went back would be an epoch late.
                completion.time = self.clock.time(completion.time).min(now);
            }
        }
        Ok(count)
    }
    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        let keys = match self.protection {
            None => None,
            Some(_) => {
                Some(KeyPair::generate().map_err(|_| VerbsError::Unsupported("the system has no random numbers"))?)
            }
        };
        let qpn = self.device.create_qp(pd, init)?;
        self.own.insert(qpn, Own { keys, ..Own::default() });
        Ok(qpn)
    }
    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError> {
        let transition = match transition {
            Transition::ReadyToReceive(connection) => Transition::ReadyToReceive(self.secured(qpn, connection)?),
            other => other,
        };
        self.device.transition(qpn, transition)
    }
    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        self.device.query_qp(qpn)
    }
    fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError> {
        Verbs::set_rate(&mut self.device, qpn, rate)
    }
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        self.device.destroy_qp(qpn)?;
        self.own.remove(&qpn);
        self.device.shared().sessions.remove(qpn);
        Ok(())
    }
    fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        self.device.set_extras(qpn, extras)?;
        self.own.entry(qpn).or_default().is_spread = extras.spread;
        Ok(())
    }
    fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        self.device.post_spread(qpn, request, entropy)
    }
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        self.device.post_send(qpn, request)
    }
    fn post_sends(&mut self, qpn: Qpn, requests: &[SendRequest<'_>]) -> Result<usize, VerbsError> {
        self.device.post_sends(qpn, requests)
    }
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        self.device.post_recv(qpn, request)
    }
    fn post_recvs(&mut self, qpn: Qpn, requests: &[RecvRequest<'_>]) -> Result<usize, VerbsError> {
        self.device.post_recvs(qpn, requests)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.device.poll_event()
    }
}
