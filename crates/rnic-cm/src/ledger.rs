//! The ledger of a process: a list of its connections that outlives it, from which another process tells the peers if
//! it was killed, by DREQs.
//!
//! A [`Manager`](crate::Manager) keeps its [`Entry`]s in numbered slots, each of [`LEN`] bytes
//! ([`Manager::poll_ledger`](crate::Manager::poll_ledger)). Another process that has got the bytes ends the connections
//! with [`Closing`]. It trusts none of them: an entry that no manager of this mark and address could have written is
//! ignored.

use crate::message::{MadBytes, Message, Parsed, Transmit, private, reason};
use crate::{ip, stray};
use rnic_transport::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Bytes of an entry.
pub const LEN: usize = 40;
/// Maximum number of entries, and of the connections of a manager: half of the communication IDs of a process.
pub const MAX: usize = 1 << 15;

/// Retransmissions of a DREQ to a peer that does not answer.
const RETRIES: u32 = 15;
/// Pauses between two retransmissions: the first one, and the longest one. They double.
const PAUSES: (Time, Time) = (Time::from_ms(20), Time::from_ms(540));

/// What a DREQ needs to know of a connection.
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
    /// The bytes of a slot with this entry. Those of an empty slot are 0.
    pub fn bytes(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0] = 1;
        out[4..8].copy_from_slice(&self.local_id.to_le_bytes());
        out[8..12].copy_from_slice(&self.remote_id.to_le_bytes());
        out[12..16].copy_from_slice(&self.remote_qpn.to_le_bytes());
        out[16..24].copy_from_slice(&self.transaction.to_le_bytes());
        out[24..40].copy_from_slice(&ip::gid(self.peer));
        out
    }

    /// Reads a slot of the manager with this address and mark; `None` if it is empty, or such a manager cannot have
    /// such a connection.
    pub fn read(bytes: &[u8; LEN], local: IpAddr, mark: u16) -> Option<Entry> {
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
            && entry.local_id as u16 == mark
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
    /// Slots that differ from what was written last.
    changed: BTreeSet<u32>,
}

impl Slots {
    /// A slot for a connection.
    pub(crate) fn enter(&mut self, connection: u32) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(connection);
        self.changed.insert(slot);
        slot
    }

    pub(crate) fn leave(&mut self, slot: u32) {
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

/// Ends the connections of a process that does not exist any more: a DREQ goes to each peer, and is retransmitted until
/// the peer responds, or 15 times.
///
/// As a [`Manager`](crate::Manager), it takes MADs and the time, and yields MADs. Its maximum of state is the ledger.
pub struct Closing {
    /// Connections whose peers have not responded, with their slots.
    open: BTreeMap<u32, (Entry, u32)>,
    /// Connections whose DREQ is to be sent in this round.
    due: VecDeque<u32>,
    /// Answers to what has arrived.
    answers: VecDeque<Transmit>,
    /// Slots of connections whose peers have responded.
    settled: VecDeque<u32>,
    /// Retransmissions so far.
    rounds: u32,
    pause: Time,
    deadline: Option<Time>,
}

/// Answers that wait to be sent. Further messages get none.
const ANSWERS: usize = 64;

impl Closing {
    /// Ends the connections in the bytes of a ledger, which belonged to the manager of the address `local` with this
    /// mark.
    pub fn new(now: Time, local: IpAddr, mark: u16, ledger: &[u8]) -> Closing {
        let slots = ledger.chunks_exact(LEN).take(MAX).zip(0_u32..);
        let entries = slots.filter_map(|(bytes, slot)| {
            let entry = Entry::read(bytes.first_chunk()?, local, mark)?;
            Some((entry.local_id, (entry, slot)))
        });
        let open: BTreeMap<_, _> = entries.collect();
        let due: VecDeque<u32> = open.keys().copied().collect();
        let deadline = (!open.is_empty()).then(|| now.saturating_add(PAUSES.0));
        let (answers, settled) = (VecDeque::new(), VecDeque::new());
        Closing { open, due, answers, settled, rounds: 0, pause: PAUSES.0, deadline }
    }

    /// Number of connections whose peers have not responded.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether all peers have responded.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether there is nothing left to do: all peers have responded, or were asked often enough.
    pub fn is_done(&self) -> bool {
        self.deadline.is_none() && self.answers.is_empty()
    }

    /// Handles a MAD that came from `peer` for the dead process.
    pub fn handle(&mut self, peer: IpAddr, mad: &MadBytes) {
        let Some(parsed) = Parsed::parse(mad) else { return };
        let ids = match &parsed.message {
            Message::Disconnected { local_id, remote_id, .. }
            | Message::Disconnect { local_id, remote_id, .. }
            | Message::Mra { local_id, remote_id, .. } => Some((*remote_id, *local_id)),
            // The peer's host knows nothing of the connection.
            Message::Reject(reject) if reject.reason == reason::INVALID_ID => Some((reject.remote_id, reject.local_id)),
            _ => None,
        };
        if let Some((local, remote)) = ids
            && let Some((entry, slot)) = self.open.get(&local).copied()
            && (entry.peer, entry.remote_id) == (peer, remote)
        {
            if matches!(parsed.message, Message::Mra { .. }) {
                // The peer asks whether the connection still exists, and has not got the DREQ.
                if stray::is_probe(&parsed.message) && !self.due.contains(&local) {
                    self.due.push_front(local);
                }
                return;
            }
            self.open.remove(&local);
            self.settled.push_back(slot);
            if self.open.is_empty() {
                self.deadline = None;
            }
        }
        if self.answers.len() < ANSWERS {
            self.answers.extend(stray::answer(&parsed).map(|answer| Transmit { peer, mad: answer.emit() }));
        }
    }

    /// The next MAD to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
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

    /// The slot of a connection that has ended, to be emptied.
    pub fn poll_settled(&mut self) -> Option<u32> {
        self.settled.pop_front()
    }

    /// When [`Closing::on_deadline`] has to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Retransmits the DREQs whose responses have not come, or gives them up.
    pub fn on_deadline(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        if !self.due.is_empty() {
            // The caller has not yet sent the last round.
            self.deadline = Some(now.saturating_add(self.pause));
            return;
        }
        if self.rounds == RETRIES {
            self.deadline = None;
            return;
        }
        self.rounds += 1;
        self.due = self.open.keys().copied().collect();
        self.pause = self.pause.saturating_add(self.pause).min(PAUSES.1);
        self.deadline = Some(now.saturating_add(self.pause));
    }
}
