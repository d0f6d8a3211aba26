//! Transmits chunks, as window, rate, credit and hooks allow.

use super::header::{Header, Kind};
use super::hooks::{ChunkView, View};
use super::losses::CALM;
use super::note::WINDOW;
use super::path::Path;
use super::record;
use super::sender::{Candidate, Chunk, Content, Room};
use super::{Channel, Peer};
use crate::error::{Failure, HostError};
use rnic_transport::Time;
use rnic_verbs::{Data, SendFlags, SendOp, SendRequest, Status, Verbs, VerbsError};

/// What became of a chunk that was posted.
enum Posted {
    Yes,
    /// The send queue of the path is full.
    Full,
    /// The NIC refused the memory.
    Refused(Status),
}

impl Channel {
    pub(super) fn transmit(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        self.wake = None;
        self.is_starved = false;
        loop {
            if self.losses.alone.is_some_and(|number| self.sender.is_flying(number)) {
                return Ok(());
            }
            self.losses.alone = None;
            let candidate = self.sender.candidate();
            let left = match candidate {
                Candidate::None => return Ok(()),
                Candidate::TooLong => {
                    let status = Status::RemoteInvalidRequest;
                    return self.end(nic, now, status, Failure::Request(status));
                }
                Candidate::Data { left, .. } => left,
                Candidate::Again(_) | Candidate::Record(_) => 0,
            };
            let random = self.random();
            let Some(peer) = &self.peer else { return Ok(()) };
            let allowed = self.allowed(peer);
            let view = View {
                now,
                chunk: self.chunk_length.get(),
                paths: &self.views,
                rate: allowed.rate,
                window: allowed.window,
                outstanding: self.sender.bytes,
                not_before: self.not_before,
                random,
            };
            let len = match candidate {
                Candidate::Data { .. } => u64::from(self.hooks.chunk_size(&view, left).clamp(1, 1 << 24)).min(left),
                _ => 0,
            };
            let ring = |number| slot(&peer.ring, number);
            let Some((number, chunk)) = self.sender.make(candidate, len, ring) else { return Ok(()) };
            let len = u64::from(chunk.to.len);
            if chunk.attempts >= self.config.max_attempts {
                let status = Status::TransportRetryExceeded;
                return self.end(nic, now, status, Failure::Request(status));
            }
            if chunk.attempts >= CALM {
                if self.sender.packets > 0 {
                    return Ok(());
                }
                if self.losses.not_before > now {
                    self.wake = Some(self.losses.not_before);
                    return Ok(());
                }
            }
            let is_data = matches!(chunk.content, Content::Data { .. });
            if let Some(credit) = self.config.credit
                && is_data
                && self.transmitted + len > self.granted + credit.unsolicited
            {
                self.is_starved = true;
                return Ok(());
            }
            if view.window.is_some_and(|window| self.sender.bytes >= window) {
                return Ok(());
            }
            let bytes = peer.frames.wire(len);
            let at = self.hooks.pace(&view, bytes);
            if at > now {
                self.wake = Some(at);
                return Ok(());
            }
            let mut shown = ChunkView { number, len: chunk.to.len, path: 0, attempts: chunk.attempts };
            let chosen = self.hooks.select_path(&view, &shown).min(self.config.paths - 1);
            // A hook may choose an unusable path. While no path is usable, probes find out which become so.
            let usable = |at: u32| self.views[at as usize].is_usable;
            let paths = self.config.paths;
            let Some(path) = (0..paths).map(|step| (chosen + step) % paths).find(|at| usable(*at)) else {
                return Ok(());
            };
            shown.path = path;
            match post(nic, peer, self, path, number, &chunk)? {
                Posted::Yes => {}
                Posted::Full => return Ok(()),
                Posted::Refused(status) => return self.end(nic, now, status, Failure::Refused),
            }
            let packets = peer.frames.packets(len);
            let departure = self.departures.enqueue(now, bytes, peer.line);
            match chunk.attempts {
                0 => self.hooks.on_transmit(&view, &shown),
                _ => self.hooks.on_retransmit(&view, &shown),
            }
            if self.sender.open() == 0 {
                self.heard = now;
            }
            self.sender.transmitted(number, chunk, path, departure, packets);
            self.losses.alone = (chunk.attempts >= CALM).then_some(number);
            let every = self.config.send_wr / 2;
            let owner = self.owner(path);
            owner.advance(packets);
            owner.unsignaled = (owner.unsignaled + 1) % every.max(1);
            let state = &mut self.paths[path as usize];
            state.transmitted(number, len, now, self.config.timeout);
            self.path_deadline = self.path_deadline.min(state.deadline).or(state.deadline);
            self.views[path as usize] = state.view();
            self.not_before = self.not_before.max(now);
            if let Some(rate) = allowed.rate {
                self.not_before += rate.time_for(bytes);
            }
            self.counters.transmitted += 1;
            self.counters.retransmitted += u64::from(chunk.attempts > 0);
            if is_data {
                self.transmitted += len;
            }
            if let Some(peer) = &mut self.peer {
                peer.law.on_send(now, u32::try_from(bytes).unwrap_or(u32::MAX));
            }
        }
    }

    /// Sends a probe on a path. Returns `false` if its send queue is full.
    pub(super) fn probe(&mut self, nic: &mut dyn Verbs, path: u32, now: Time) -> Result<bool, HostError> {
        let Some(peer) = &self.peer else { return Ok(false) };
        let number = u64::from(self.next_probe);
        let header = Header { connection: peer.connection, kind: Kind::Probe, number };
        let op = SendOp::WriteImm { addr: peer.ring.addr, rkey: peer.ring.rkey, imm: header.to_imm() };
        let request = SendRequest { wr_id: path.into(), op, data: Data::Inline(&[]), flags: SendFlags::SIGNALED };
        match hand_over(nic, self, path, &request) {
            Ok(()) => {}
            Err(VerbsError::Full(_)) => return Ok(false),
            Err(why) => return Err(why.into()),
        }
        self.owner(path).advance(1);
        self.paths[path as usize].probed(self.next_probe, now, self.config.timeout);
        // The number has 22 bits in the header.
        self.next_probe = (self.next_probe + 1) % (1 << 22);
        self.counters.probes += 1;
        Ok(true)
    }
}

impl Channel {
    /// The state of the path that counts the packets of its queue pair: the path itself, or the first path if all paths
    /// share one queue pair.
    fn owner(&mut self, path: u32) -> &mut Path {
        &mut self.paths[if self.config.spread { 0 } else { path as usize }]
    }
}

/// Posts a request to the queue pair of a path.
fn hand_over(nic: &mut dyn Verbs, channel: &Channel, path: u32, request: &SendRequest<'_>) -> Result<(), VerbsError> {
    let qpn = channel.paths[path as usize].qpn;
    match channel.config.spread {
        true => nic.post_spread(qpn, request, path as u16),
        false => nic.post_send(qpn, request),
    }
}

/// The place of record `number` in the peer's ring.
fn slot(ring: &Room, number: u64) -> Room {
    Room { addr: ring.addr + number % WINDOW * record::LEN as u64, ..*ring }
}

/// Posts a chunk to the queue pair of a path.
fn post(
    nic: &mut dyn Verbs, peer: &Peer, channel: &Channel, path: u32, number: u64, chunk: &Chunk,
) -> Result<Posted, HostError> {
    let owner = &channel.paths[if channel.config.spread { 0 } else { path as usize }];
    let kind = match chunk.content {
        Content::Record(_) => Kind::Record,
        Content::Data { .. } if chunk.attempts > 0 => Kind::Retransmission,
        Content::Data { .. } => Kind::Data,
    };
    let header = Header { connection: peer.connection, kind, number };
    let op = SendOp::WriteImm { addr: chunk.to.addr, rkey: chunk.to.rkey, imm: header.to_imm() };
    // A signalled request frees the places of all requests up to it in the send queue.
    let flags = SendFlags { signaled: owner.unsignaled == 0, ..SendFlags::default() };
    let mut send = |data: Data<'_>| hand_over(nic, channel, path, &SendRequest { wr_id: path.into(), op, data, flags });
    let posted = match chunk.content {
        Content::Record(record) => send(Data::Inline(&record.to_bytes())),
        Content::Data { request, offset } => match channel.sender.request(request) {
            Some(request) => request.local.with_slice(offset, chunk.to.len.into(), send),
            None => return Ok(Posted::Refused(Status::LocalQpOperation)),
        },
    };
    match posted {
        Ok(()) => Ok(Posted::Yes),
        Err(VerbsError::Full(_)) => Ok(Posted::Full),
        Err(VerbsError::Memory { .. } | VerbsError::Access(_)) => Ok(Posted::Refused(Status::LocalProtection)),
        Err(why) => Err(why.into()),
    }
}
