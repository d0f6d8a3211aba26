//! The connection lists that a broker has received, and their copies at the standbys.

use super::connection_list::ConnectionList;
use super::members::{Member, Members};
use super::message;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Maximum number of connection lists that a broker or a standby has, each with a descriptor. The peers of further
/// managers detect the end of a process by their probes.
pub(super) const MAX_LISTS: usize = 256;
/// Number of standbys: managers of other processes that have all connection lists.
const STANDBYS: usize = 2;
/// How long standbys keep the list of a manager that has left: the broker may be killed before it has ended the
/// connections.
const RETENTION: Duration = Duration::from_secs(20);

/// The connection lists of the managers that have joined a broker.
#[derive(Default)]
pub(super) struct Lists {
    lists: BTreeMap<u16, ConnectionList>,
    /// Managers that have left, until the standbys discard their lists.
    left: VecDeque<(Instant, u16)>,
}

impl Lists {
    /// Adds the list of a manager. Returns `false` if the maximum number of lists is reached.
    pub(super) fn insert(&mut self, manager: u16, list: ConnectionList) -> bool {
        let has_room = self.lists.len() < MAX_LISTS || self.lists.contains_key(&manager);
        if has_room {
            self.lists.insert(manager, list);
        }
        has_room
    }

    /// Removes the list of a manager that has left. The standbys keep their copies for a while.
    pub(super) fn take(&mut self, manager: u16, now: Instant) -> Option<ConnectionList> {
        let list = self.lists.remove(&manager)?;
        self.left.push_back((now, manager));
        Some(list)
    }

    /// Sends the lists of the managers `new` to the standbys, lets the standbys discard the lists of managers that left
    /// long ago, chooses new standbys, and sends all lists to the new standbys.
    pub(super) fn distribute(&mut self, members: &mut Members, new: &[u16]) {
        for manager in new {
            let Some(list) = self.lists.get(manager) else { continue };
            members.iter_mut().filter(|member| member.is_standby).for_each(|member| send(member, *manager, list));
        }
        let has_expired = |(left_at, _): &(Instant, u16)| left_at.elapsed() > RETENTION;
        while self.left.front().is_some_and(has_expired) || self.left.len() > MAX_LISTS {
            let Some((_, manager)) = self.left.pop_front() else { break };
            if !self.lists.contains_key(&manager) {
                members.iter_mut().filter(|member| member.is_standby).for_each(|member| {
                    member.send(message::discard_list(manager));
                });
            }
        }
        self.choose_standbys(members);
    }

    /// Chooses members as standbys if too few exist. A standby belongs to another process than the broker, and has a
    /// list itself: a process that cannot make its own file in memory should not have to keep the files of other
    /// processes.
    fn choose_standbys(&self, members: &mut Members) {
        let count = members.iter_mut().filter(|member| member.is_standby).count();
        let can_be_standby = |member: &&mut Member| {
            let has_list = member.manager().is_some_and(|manager| self.lists.contains_key(&manager));
            !member.is_own_process() && !member.is_standby && has_list
        };
        for member in members.iter_mut().filter(can_be_standby).take(STANDBYS.saturating_sub(count)) {
            member.is_standby = true;
            self.lists.iter().for_each(|(manager, list)| send(member, *manager, list));
        }
    }
}

/// Sends the list of a manager to a standby. If the socket has no room, the list is not sent, and the peers of this
/// manager depend on their probes.
fn send(standby: &Member, manager: u16, list: &ConnectionList) {
    if standby.manager() != Some(manager) {
        let _ = standby.send_with(&message::connection_list(manager), list);
    }
}
