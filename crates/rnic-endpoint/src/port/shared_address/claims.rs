//! The service IDs that a connection manager claims from the broker.

use super::MANAGER_TIMEOUT;
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// State of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClaimState {
    /// The claim has to be sent to the broker.
    Pending,
    /// The claim was sent, and the broker has not responded.
    Sent,
    Granted,
    Refused,
    /// The release has to be sent to the broker.
    Released,
}

/// A service ID of this process.
struct Claim {
    state: ClaimState,
    /// Whether other identifiers may have the service ID too (`RDMA_OPTION_ID_REUSEADDR`).
    shared: bool,
    /// Number of identifiers of this process that have the service ID.
    users: u32,
}

impl Claim {
    fn is_open(&self) -> bool {
        matches!(self.state, ClaimState::Pending | ClaimState::Sent)
    }
}

/// Why a service ID cannot be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another identifier, of this process or of another process, has the service ID.
    #[error("another identifier has the service ID")]
    InUse,
    /// The broker of the address has not responded in time.
    #[error("the process that receives for the address does not answer")]
    NoResponse,
    /// The service ID was not claimed before.
    #[error("the service ID was not claimed")]
    NotClaimed,
}

/// The service IDs that a connection manager has claimed, or is claiming. The thread that receives from the
/// [`MadPort`](super::MadPort) sends the claims to the broker and receives the responses; other threads wait for the
/// responses.
#[derive(Default)]
pub struct Claims {
    table: Mutex<BTreeMap<u64, Claim>>,
    changed: Condvar,
}

type Table<'a> = MutexGuard<'a, BTreeMap<u64, Claim>>;

impl Claims {
    /// Claims a service ID, and waits for the response of the broker. With `shared`, other identifiers that claim it as
    /// shared may have it too, as long as none of them listens. `receiver` wakes the thread that receives.
    ///
    /// # Errors
    /// [`ClaimError::InUse`], [`ClaimError::NoResponse`].
    pub fn claim(&self, service: u64, shared: bool, receiver: &Waker) -> Result<(), ClaimError> {
        let mut table = lock(&self.table);
        if let Some(claim) = table.get_mut(&service).filter(|claim| claim.state != ClaimState::Released) {
            if !(shared && claim.shared && claim.state == ClaimState::Granted) {
                return Err(ClaimError::InUse);
            }
            claim.users += 1;
            return Ok(());
        }
        table.insert(service, Claim { state: ClaimState::Pending, shared, users: 1 });
        let (mut table, state) = self.await_response(table, service, receiver);
        match state {
            Some(ClaimState::Granted) => Ok(()),
            Some(ClaimState::Refused) => {
                table.remove(&service);
                Err(ClaimError::InUse)
            }
            _ => {
                table.insert(service, Claim { state: ClaimState::Released, shared, users: 0 });
                Err(ClaimError::NoResponse)
            }
        }
    }

    /// Makes a claimed service ID exclusive, before an identifier listens on it.
    ///
    /// # Errors
    /// [`ClaimError::InUse`] if other identifiers share the service ID; [`ClaimError::NoResponse`];
    /// [`ClaimError::NotClaimed`].
    pub fn listen(&self, service: u64, receiver: &Waker) -> Result<(), ClaimError> {
        let mut table = lock(&self.table);
        let claim = table.get_mut(&service).filter(|claim| claim.state != ClaimState::Released);
        match claim.ok_or(ClaimError::NotClaimed)? {
            Claim { shared: false, .. } => return Ok(()),
            Claim { users: 2.., .. } => return Err(ClaimError::InUse),
            claim => (claim.state, claim.shared) = (ClaimState::Pending, false),
        }
        let (mut table, state) = self.await_response(table, service, receiver);
        if state == Some(ClaimState::Granted) {
            return Ok(());
        }
        // The claim was refused, so the service ID is shared again.
        if let Some(claim) = table.get_mut(&service) {
            (claim.state, claim.shared) = (ClaimState::Pending, true);
            receiver.wake_by_ref();
        }
        Err(if state == Some(ClaimState::Refused) { ClaimError::InUse } else { ClaimError::NoResponse })
    }

    fn await_response<'a>(&self, table: Table<'a>, service: u64, receiver: &Waker) -> (Table<'a>, Option<ClaimState>) {
        receiver.wake_by_ref();
        let is_open = |table: &mut BTreeMap<u64, Claim>| table.get(&service).is_some_and(Claim::is_open);
        let waited = self.changed.wait_timeout_while(table, MANAGER_TIMEOUT, is_open);
        let (table, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let state = table.get(&service).map(|claim| claim.state);
        (table, state)
    }

    /// Releases a service ID that one identifier has used.
    pub fn release(&self, service: u64, receiver: &Waker) {
        if let Some(claim) = lock(&self.table).get_mut(&service) {
            claim.users = claim.users.saturating_sub(1);
            if claim.users == 0 {
                claim.state = ClaimState::Released;
            }
        }
        receiver.wake_by_ref();
    }

    /// Sends pending claims and releases by these two functions, which return whether the socket had room. The next
    /// call sends the claims and releases for which the socket had no room.
    pub(super) fn send_pending(&self, claim: impl Fn(u64, bool) -> bool, release: impl Fn(u64) -> bool) {
        lock(&self.table).retain(|service, entry| match entry.state {
            ClaimState::Pending => {
                if claim(*service, entry.shared) {
                    entry.state = ClaimState::Sent;
                }
                true
            }
            ClaimState::Released => !release(*service),
            ClaimState::Sent | ClaimState::Granted | ClaimState::Refused => true,
        });
    }

    /// Handles the response of the broker to a claim.
    pub(super) fn on_response(&self, service: u64, granted: bool) {
        let mut table = lock(&self.table);
        if let Some(claim) = table.get_mut(&service).filter(|claim| claim.state == ClaimState::Sent) {
            claim.state = if granted { ClaimState::Granted } else { ClaimState::Refused };
        }
        drop(table);
        self.changed.notify_all();
    }

    /// Handles the end of the broker: all service IDs have to be claimed again, from the next broker.
    pub(super) fn restart(&self) {
        for claim in lock(&self.table).values_mut() {
            if matches!(claim.state, ClaimState::Sent | ClaimState::Granted) {
                claim.state = ClaimState::Pending;
            }
        }
    }
}
