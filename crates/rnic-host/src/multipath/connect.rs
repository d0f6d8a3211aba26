//! Connects a channel and its paths.

use super::config::Address;
use super::sender::Room;
use super::{Channel, Peer, RECEIVE, record, salt};
use crate::chunk::Frames;
use crate::control::flow_config;
use crate::error::HostError;
use crate::link::{self, Ends, Link};
use rnic_transport::Time;
use rnic_verbs::{Access, RecvRequest, SendAttributes, Verbs};

impl Channel {
    /// Connects the channel to the peer with this address, on the path `link`. All chunks use the same IP address; the
    /// network distinguishes paths by the queue pairs' UDP source ports, if the NIC gives each its own.
    ///
    /// # Errors
    /// If the channel is connected, the peer has another number of paths, or an attribute of the path or a setting of
    /// the congestion control is out of range. After an error of the NIC the channel can only be destroyed.
    pub fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &Address, now: Time) -> Result<(), HostError> {
        if self.peer.is_some() {
            return Err(HostError::Unsupported("the channel is connected already"));
        }
        let own = self.config.queue_pairs() as usize;
        if peer.inbound.len() != own || peer.outbound.len() != own {
            let possible = format!("{}, as at the peer", peer.inbound.len().min(peer.outbound.len()));
            return Err(HostError::range("the number of paths", own as u64, possible));
        }
        let frames = Frames { mtu: link.path_mtu, header: rnic_transport::headers::ROCE_DATA };
        let line = nic.query_device().line_rate;
        let mut cfg = flow_config(frames, line, self.config.base_rtt);
        cfg.max_rate = self.config.max_rate;
        let law = self.config.control.start(&cfg, now)?;
        let (own, other) = (salt(&self.config), peer.salt);
        let psns = (link::first_psn(own, u32::MAX), link::first_psn(other, u32::MAX));
        self.mailbox.connect(nic, &link, peer.control, psns.0, psns.1)?;
        let ring = Room { addr: peer.ring, rkey: peer.ring_rkey, len: record::LEN as u32 };
        self.peer = Some(Peer {
            link,
            frames,
            line,
            connection: peer.connection,
            ring,
            law,
            inbound: peer.inbound.clone(),
            outbound: peer.outbound.clone(),
            salt: other,
        });
        for at in 0..self.config.queue_pairs() {
            self.join_outbound(nic, at, link::first_psn(own, at))?;
            self.join_inbound(nic, at, link::first_psn(other, at))?;
        }
        self.heard = now;
        Ok(())
    }

    /// Connects the outbound queue pair of a path, which is in state RESET.
    pub(super) fn join_outbound(&mut self, nic: &mut dyn Verbs, at: u32, psn: u32) -> Result<(), HostError> {
        let Some(peer) = &self.peer else { return Err(HostError::NotConnected) };
        let (qpn, peer_qpn) = (self.paths[at as usize].qpn, peer.inbound[at as usize]);
        let ends = Ends { qpn, peer_qpn, send_psn: psn, recv_psn: 0 };
        link::connect(nic, &peer.link, ends, Access::LOCAL_READ, SendAttributes::default(), 0, |_| Ok(()))
    }

    /// Connects the inbound queue pair of a path, which is in state RESET.
    pub(super) fn join_inbound(&mut self, nic: &mut dyn Verbs, at: u32, psn: u32) -> Result<(), HostError> {
        let Some(peer) = &self.peer else { return Err(HostError::NotConnected) };
        let (qpn, peer_qpn) = (self.inbound[at as usize], peer.outbound[at as usize]);
        let ends = Ends { qpn, peer_qpn, send_psn: link::first_psn(peer.salt, at), recv_psn: psn };
        let access = Access { remote_write: true, ..Access::LOCAL };
        let (_, recv_wr) = self.config.depths(&nic.query_device().limits);
        link::connect(nic, &peer.link, ends, access, SendAttributes::default(), 0, |nic| {
            let request = RecvRequest { wr_id: RECEIVE, scatter: &[] };
            (0..recv_wr).try_for_each(|_| Ok(nic.post_recv(qpn, &request)?))
        })
    }
}
