//! The connection list of a process: if the process is killed, another process sends DREQs to the peers in this list.
//!
//! A [`Manager`](crate::Manager) keeps its [`Entry`]s in numbered slots, each of [`ENTRY_LEN`] bytes
//! ([`Manager::poll_connection_list`](crate::Manager::poll_connection_list)). Another process that has received the
//! bytes ends the connections with a [`Disconnector`]. It does not trust the bytes: it ignores an entry that no manager
//! of this address with this manager ID could have written.

use crate::message::{MadBytes, Message, Parsed, Transmit, private, reason};
use crate::{ip, unmatched};
use rnic_transport::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 40;
/// Maximum number of entries, and of the connections of a manager: half of the communication IDs of a process.
pub const MAX_CONNECTIONS: usize = 1 << 15;

/// Maximum retransmissions of a DREQ to a peer that does not respond.
const RETRIES: u32 = 15;
/// Time between two retransmissions: the first value and the maximum. It doubles after each retransmission.
const INTERVALS: (Time, Time) = (Time::from_ms(20), Time::from_ms(540));

/// The fields of a connection that a DREQ contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Own communication ID.
    pub local_id: u32,
    /// Communication ID of the peer.
    pub remote_id: u32,
    /// Queue pair number of the peer.
    pub remote_qpn: u32,
    /// Transaction ID of the DREQ.
    pub transaction: u64,
    /// Address of the peer.
    pub peer: IpAddr,
}

impl Entry {
    /// Encodes the entry as the bytes of a slot. All bytes of an empty slot are 0.
    pub fn bytes(&self) -> [u8; ENTRY_LEN] {
        let mut out = [0; ENTRY_LEN];
        out[0] = 1;
        out[4..8].copy_from_slice(&self.local_id.to_le_bytes());
        out[8..12].copy_from_slice(&self.remote_id.to_le_bytes());
        out[12..16].copy_from_slice(&self.remote_qpn.to_le_bytes());
        out[16..24].copy_from_slice(&self.transaction.to_le_bytes());
        out[24..40].copy_from_slice(&ip::gid(self.peer));
        out
    }

    /// Decodes a slot in the list of the manager with this address and manager ID. `None` if the slot is empty, or if
    /// this manager cannot have such a connection.
    pub fn read(bytes: &[u8; ENTRY_LEN], local: IpAddr, manager_id: u16) -> Option<Entry> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let entry = Entry {
            local_id: word(4),
            remote_id: word(8),
            remote_qpn: word(12),
            transaction: u64::from(word(16)) | u64::from(word(20)) << 32,
            peer: ip::address(*bytes[24..].first_chunk()?),
        };
        let is_unicast = match entry.peer {
            IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast(),
            IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
        };
        let is_possible = bytes[..4] == [1, 0, 0, 0]
            && entry.local_id as u16 == manager_id
            && (2..=rnic_wire::MAX_24).contains(&entry.remote_qpn)
            && entry.peer.is_ipv4() == local.is_ipv4()
            && is_unicast;
        is_possible.then_some(entry)
    }
}

/// The slots of a manager's connections.
#[derive(Default)]
pub(crate) struct Slots {
    /// The connection in each slot.
    slots: Vec<Option<u32>>,
    free: Vec<u32>,
    /// Slots that changed since [`Slots::poll`] last returned them.
    changed: BTreeSet<u32>,
}

impl Slots {
    /// Puts a connection into a free slot; returns the slot.
    pub(crate) fn insert(&mut self, connection: u32) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(connection);
        self.changed.insert(slot);
        slot
    }

    /// Empties a slot.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.slots[slot as usize].take().is_some() {
            self.free.push(slot);
            self.changed.insert(slot);
        }
    }

    /// The next slot that has changed, and its connection.
    pub(crate) fn poll(&mut self) -> Option<(u32, Option<u32>)> {
        let slot = self.changed.pop_first()?;
        Some((slot, self.slots[slot as usize]))
    }
}

/// Ends the connections of a process that no longer exists: it sends a DREQ to each peer, and retransmits the DREQ
/// until the peer responds, at most 15 times.
///
/// Like a [`Manager`](crate::Manager), it takes MADs and the time, and returns MADs. Its state has at most one entry
/// for each connection of the list, and 64 responses.
pub struct Disconnector {
    /// Connections whose peers have not responded, with their slots.
    open: BTreeMap<u32, (Entry, u32)>,
    /// Connections whose DREQ has to be sent now.
    due: VecDeque<u32>,
    /// Responses to received messages.
    responses: VecDeque<Transmit>,
    /// Slots of connections whose peers have responded.
    disconnected: VecDeque<u32>,
    /// Number of retransmissions so far.
    retransmissions: u32,
    /// Time until the next retransmission.
    interval: Time,
    deadline: Option<Time>,
}

/// Maximum responses that wait to be sent. Further messages get no response.
const MAX_RESPONSES: usize = 64;

impl Disconnector {
    /// Ends the connections in the bytes of a connection list. The list belonged to the manager of the address `local`
    /// with this manager ID.
    pub fn new(now: Time, local: IpAddr, manager_id: u16, list: &[u8]) -> Disconnector {
        let slots = list.chunks_exact(ENTRY_LEN).take(MAX_CONNECTIONS).zip(0_u32..);
        let entries = slots.filter_map(|(bytes, slot)| {
            let entry = Entry::read(bytes.first_chunk()?, local, manager_id)?;
            Some((entry.local_id, (entry, slot)))
        });
        let open: BTreeMap<_, _> = entries.collect();
        let due: VecDeque<u32> = open.keys().copied().collect();
        let deadline = (!open.is_empty()).then(|| now.saturating_add(INTERVALS.0));
        Disconnector {
            open,
            due,
            responses: VecDeque::new(),
            disconnected: VecDeque::new(),
            retransmissions: 0,
            interval: INTERVALS.0,
            deadline,
        }
    }

    /// Number of connections whose peers have not responded.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether all peers have responded.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the work is done: every peer has responded, or the DREQ was retransmitted the maximum number of times.
    pub fn is_done(&self) -> bool {
        self.deadline.is_none() && self.responses.is_empty()
    }

    /// Handles a MAD from `peer` for the process that no longer exists.
    pub fn handle(&mut self, peer: IpAddr, mad: &MadBytes) {
        let Some(parsed) = Parsed::parse(mad) else { return };
        let ids = match &parsed.message {
            Message::Disconnected { local_id, remote_id, .. }
            | Message::Disconnect { local_id, remote_id, .. }
            | Message::Mra { local_id, remote_id, .. } => Some((*remote_id, *local_id)),
            // The peer's host does not know the connection.
            Message::Reject(reject) if reject.reason == reason::INVALID_ID => Some((reject.remote_id, reject.local_id)),
            _ => None,
        };
        if let Some((local, remote)) = ids
            && let Some((entry, slot)) = self.open.get(&local).copied()
            && (entry.peer, entry.remote_id) == (peer, remote)
        {
            if matches!(parsed.message, Message::Mra { .. }) {
                // The peer sends a probe, so it has not received the DREQ: retransmit the DREQ now.
                if unmatched::is_probe(&parsed.message) && !self.due.contains(&local) {
                    self.due.push_front(local);
                }
                return;
            }
            self.open.remove(&local);
            self.disconnected.push_back(slot);
            if self.open.is_empty() {
                self.deadline = None;
            }
        }
        if self.responses.len() < MAX_RESPONSES {
            self.responses.extend(unmatched::response(&parsed).map(|response| Transmit { peer, mad: response.emit() }));
        }
    }

    /// The next MAD to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(response) = self.responses.pop_front() {
            return Some(response);
        }
        loop {
            let id = self.due.pop_front()?;
            if let Some((entry, _)) = self.open.get(&id) {
                let Entry { local_id, remote_id, remote_qpn, transaction, peer } = *entry;
                let private = [0; private::DISCONNECT];
                let message = Message::Disconnect { local_id, remote_id, remote_qpn, private };
                return Some(Transmit { peer, mad: Parsed { transaction, message }.emit() });
            }
        }
    }

    /// The slot of a connection whose peer has responded. The caller empties this slot of the list.
    pub fn poll_disconnected(&mut self) -> Option<u32> {
        self.disconnected.pop_front()
    }

    /// When [`Disconnector::on_deadline`] has to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Retransmits the DREQs that have no response yet, or aborts them after the last retransmission.
    pub fn on_deadline(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        if !self.due.is_empty() {
            // The caller has not yet sent all DREQs of the previous retransmission.
            self.deadline = Some(now.saturating_add(self.interval));
            return;
        }
        if self.retransmissions == RETRIES {
            self.deadline = None;
            return;
        }
        self.retransmissions += 1;
        self.due = self.open.keys().copied().collect();
        self.interval = self.interval.saturating_add(self.interval).min(INTERVALS.1);
        self.deadline = Some(now.saturating_add(self.interval));
    }
}
