//! Reliable connections for probes on a device of the endpoint: the implementation of [`QueuePairs`] for
//! [`Connections`].

use crate::Outbox;
use crate::connections::{
    CONNECT_LEN, Carrier, ConnectionKey, Connections, PROBES, PairInfo, Posted, Posting, QueuePairs, RECEIVE,
};
use crate::message::{MAX_PROBE, MESSAGE_LEN, Message};
use rnic_endpoint::{
    Access, Address, Capacities, CompletionQueue, Data, DatagramAddress, Error, MemoryRegion, PathOptions,
    ProtectionDomain, QpOptions, QueuePair, SendFlags, SendOp, SendRequest, Service, SharedReceiveQueue,
};
use rnic_transport::Time;

/// Number of posted receives of all connections together.
const RECEIVES: usize = 256;

/// The reliable connections of a device.
pub struct EndpointConnections {
    pairs: EndpointQueuePairs,
    connections: Connections<QueuePair>,
}

/// The objects that all connections of a device share.
struct EndpointQueuePairs {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    inbox: MemoryRegion,
    /// Memory into which peers write.
    scratch: MemoryRegion,
    outbox: Outbox,
}

impl EndpointQueuePairs {
    fn receive_into(&self, slot: usize) -> Result<(), Error> {
        self.srq.post_recv(RECEIVE | slot as u64, &[self.inbox.slice(slot * MAX_PROBE, MAX_PROBE)?])
    }
}

impl QueuePairs for EndpointQueuePairs {
    type Pair = QueuePair;
    type Error = Error;

    /// Creates a queue pair whose packets have the UDP source port of a path. The port follows from the queue pair
    /// number, so queue pairs are created until one has the right port.
    fn open(&mut self, path: u16) -> Result<Option<QueuePair>, Error> {
        let wanted = self.pd.device().source_port(path.into());
        let capacities = Capacities { send_wr: 128, recv_wr: 1, ..Capacities::default() };
        let options = QpOptions { capacities, srq: Some(self.srq.clone()), ..QpOptions::new(&self.cq) };
        let options = QpOptions { service: Service::Rc, ..options };
        // Queue pairs with other ports are kept until one has the right port, so that their numbers are not assigned
        // again.
        let mut others = Vec::new();
        loop {
            let qp = self.pd.queue_pair(&options)?;
            if qp.address().source_port == Some(wanted) || others.len() >= 4_096 {
                return Ok(Some(qp));
            }
            others.push(qp);
        }
    }

    fn close(&mut self, pair: QueuePair) {
        drop(pair);
    }

    fn info(&self, pair: &QueuePair) -> PairInfo {
        let own = pair.address();
        PairInfo { qpn: own.qpn, psn: own.psn, source_port: own.source_port }
    }

    fn writable_memory(&mut self) -> Result<(u64, u32), Error> {
        Ok((self.scratch.addr(), self.scratch.rkey()))
    }

    fn connect(
        &mut self, pair: &mut QueuePair, peer: &PairInfo, at: DatagramAddress, (timeout, dscp): (Time, u8),
    ) -> Result<bool, Error> {
        let address = Address { source_port: peer.source_port, ..Address::plain(at.addr, peer.qpn, peer.psn) };
        // The retransmission timeout is 4.2 ms: a lost packet increases the measured round-trip time by about this.
        let give_up_after = Some(timeout.max(Time::from_ms(1)));
        let options = PathOptions { timeout: 10, give_up_after, dscp, ..PathOptions::default() };
        match pair.connect(&address, &options) {
            Ok(()) => Ok(true),
            Err(Error::Verbs(_)) => Ok(false),
            Err(why) => Err(why),
        }
    }

    fn post(
        &mut self, pair: &QueuePair, wr_id: u64, slot: usize, write: Option<(u64, u32)>, message: &[u8; MESSAGE_LEN],
        len: usize,
    ) -> Result<bool, Error> {
        let gather = self.outbox.write(slot, message, len)?;
        let op = write.map_or(SendOp::Send, |(addr, rkey)| SendOp::Write { addr, rkey });
        let (data, flags) = (Data::Gather(&gather), SendFlags::SIGNALED);
        match pair.post_send(&SendRequest { wr_id, op, data, flags }) {
            Ok(()) => Ok(true),
            Err(Error::Verbs(_)) => Ok(false),
            Err(why) => Err(why),
        }
    }
}

impl EndpointConnections {
    /// Creates the connections of a device. `cq` receives their completions, at most
    /// [`EndpointConnections::COMPLETIONS`] before it is polled. Their identifiers have the bit [`RECEIVE`] or
    /// [`CONNECTED`](crate::connections::CONNECTED).
    ///
    /// # Errors
    /// If a limit of the device is reached.
    pub fn new(pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<EndpointConnections, Error> {
        let writable = Access { remote_write: true, ..Access::LOCAL };
        let pairs = EndpointQueuePairs {
            srq: pd.shared_receive_queue(RECEIVES as u32, 1)?,
            inbox: pd.allocate(RECEIVES * MAX_PROBE, Access::LOCAL)?,
            scratch: pd.allocate(MAX_PROBE, writable)?,
            outbox: Outbox { region: pd.allocate(Outbox::len(PROBES), Access::LOCAL)?, slots: PROBES },
            pd: pd.clone(),
            cq: cq.clone(),
        };
        for slot in 0..RECEIVES {
            pairs.receive_into(slot)?;
        }
        Ok(EndpointConnections { pairs, connections: Connections::default() })
    }

    /// Maximum number of completions that have not been polled.
    pub const COMPLETIONS: usize = RECEIVES + PROBES;

    /// See [`Connections::probe`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn probe(
        &mut self, carrier: Carrier, key: ConnectionKey, message: &Message, len: usize, now: Time,
    ) -> Result<Posting, Error> {
        self.connections.probe(&mut self.pairs, carrier, key, message, len, now)
    }

    /// See [`Connections::accepted`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn accepted(
        &mut self, key: ConnectionKey, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Vec<u64>, Error> {
        self.connections.accepted(&mut self.pairs, key, datagram, from, path)
    }

    /// See [`Connections::serve`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn serve(
        &mut self, message: &Message, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Option<[u8; CONNECT_LEN]>, Error> {
        self.connections.serve(&mut self.pairs, message, datagram, from, path)
    }

    /// Posts another receive in place of a completed work request with the bit [`RECEIVE`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn received(&self, wr_id: u64) -> Result<(), Error> {
        self.pairs.receive_into((wr_id & 0xffff) as usize % RECEIVES)
    }

    /// See [`Connections::completed`].
    pub fn completed(&mut self, wr_id: u64, ok: bool) -> Option<Posted> {
        self.connections.completed(&mut self.pairs, wr_id, ok)
    }

    /// See [`Connections::retain`].
    pub fn retain(&mut self, is_used: impl Fn(ConnectionKey) -> bool, is_open: impl Fn(u64) -> bool) {
        self.connections.retain(&mut self.pairs, is_used, is_open);
    }

    /// See [`Connections::count`].
    pub fn count(&self) -> (usize, usize) {
        self.connections.count()
    }
}
