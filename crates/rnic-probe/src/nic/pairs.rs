//! Reliable queue pairs (RC) of a NIC. The peer's NIC acknowledges probes on them without the peer's software.

use super::flow;
use super::library::Functions;
use super::memory::Memory;
use super::{MAX_DATAGRAM, Nic, NicError, Objects, find};
use crate::connections::{PROBES, PairInfo, QueuePairs, RECEIVE};
use crate::message::MESSAGE_LEN;
use nix::errno::Errno;
use rnic_cabi::verbs::*;
use rnic_endpoint::DatagramAddress;
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ptr::null_mut;
use std::time::Duration;

/// Number of posted receives of all queue pairs together.
pub(super) const RECEIVES: usize = 256;
/// Maximum number of unacknowledged messages of a queue pair.
const IN_FLIGHT: u32 = 128;
/// Path MTU in payload bytes: 1,024, or less if the port's MTU is less. Both ends must use the same value, and an
/// Ethernet MTU of 1,500 bytes does not permit a larger one.
const MTU: usize = 1_024;

/// A queue pair of a [`Nic`], from [`QueuePairs::open`].
#[derive(Debug)]
pub struct Pair {
    qpn: u32,
    psn: u32,
    flow: u32,
}

/// Address of a peer's queue pair, and attributes of the packets to it.
#[derive(Clone, Copy)]
struct Peer {
    /// IP address, of the same family as the NIC's address.
    ip: IpAddr,
    /// Queue pair number.
    qpn: u32,
    /// First PSN.
    psn: u32,
    /// Differentiated services code point, 0 to 63.
    dscp: u8,
    /// Approximate time without an acknowledgement after which the queue pair fails.
    ack_timeout: Duration,
}

/// The objects that all reliable queue pairs share.
pub(super) struct Reliable {
    srq: *mut ibv_srq,
    /// Memory region of the receive buffers and of the posted messages.
    mr: *mut ibv_mr,
    /// Memory region into which peers may write.
    writable: *mut ibv_mr,
    memory: Memory,
    scratch: Memory,
    pairs: BTreeMap<u32, *mut ibv_qp>,
}

impl Reliable {
    /// Creates the shared receive queue and the memory regions.
    ///
    /// # Safety
    /// The protection domain exists, and the caller calls [`Reliable::destroy`] before it destroys the protection
    /// domain.
    unsafe fn new(f: &Functions, pd: *mut ibv_pd, device: &str) -> Result<Reliable, NicError> {
        let failed = |doing| NicError::Failed { device: device.to_string(), doing, error: Errno::last() };
        let len = (RECEIVES + PROBES) * MAX_DATAGRAM;
        let (Some(memory), Some(scratch)) = (Memory::new(len), Memory::new(MAX_DATAGRAM)) else {
            return Err(NicError::Absent("there is no memory for the NIC's buffers".to_string()));
        };
        let (srq, mr, writable) = (null_mut(), null_mut(), null_mut());
        let mut own = Reliable { srq, mr, writable, memory, scratch, pairs: BTreeMap::new() };
        // SAFETY: the caller guarantees the protection domain; the memory is valid until `destroy`, and the structure
        // during the call.
        let made = unsafe {
            let attr = ibv_srq_attr { max_wr: RECEIVES as u32, max_sge: 1, srq_limit: 0 };
            let mut attributes = ibv_srq_init_attr { srq_context: null_mut(), attr };
            let local = IBV_ACCESS_LOCAL_WRITE as i32;
            own.mr = (f.reg_mr)(pd, own.memory.start.as_ptr().cast(), len, local);
            let access = local | IBV_ACCESS_REMOTE_WRITE as i32;
            own.writable = (f.reg_mr)(pd, own.scratch.start.as_ptr().cast(), MAX_DATAGRAM, access);
            own.srq = (f.create_srq)(pd, &raw mut attributes);
            !own.mr.is_null() && !own.writable.is_null() && !own.srq.is_null()
        };
        if made {
            return Ok(own);
        }
        let error = failed("cannot make a shared receive queue and its memory");
        // SAFETY: no queue pair uses the objects.
        unsafe { own.destroy(f) };
        Err(error)
    }

    /// Destroys the queue pairs and the objects that they share.
    ///
    /// # Safety
    /// All existing objects were created by [`Reliable::new`] and [`QueuePairs::open`].
    pub(super) unsafe fn destroy(self, f: &Functions) {
        // SAFETY: the caller guarantees the objects; each object is destroyed once, and after the objects that use it.
        // The memory is freed afterwards.
        unsafe {
            for qp in self.pairs.values() {
                (f.destroy_qp)(*qp);
            }
            if !self.srq.is_null() {
                (f.destroy_srq)(self.srq);
            }
            for mr in [self.mr, self.writable] {
                if !mr.is_null() {
                    (f.dereg_mr)(mr);
                }
            }
        }
    }

    /// Posts a receive whose buffer is a slot.
    pub(super) fn receive_into(&self, context: *mut ibv_context, slot: usize) -> i32 {
        let at = slot % RECEIVES * MAX_DATAGRAM;
        // SAFETY: the context, the queue and the region exist as long as `self`. The list is valid during the call, and
        // the NIC writes only into the memory of this slot.
        unsafe {
            let (addr, length, lkey) = (self.memory.address(at), MAX_DATAGRAM as u32, (*self.mr).lkey);
            let mut sge = ibv_sge { addr, length, lkey };
            let (wr_id, sg_list) = (RECEIVE | slot as u64, &raw mut sge);
            let mut request = ibv_recv_wr { wr_id, next: null_mut(), sg_list, num_sge: 1 };
            let mut bad = null_mut();
            match (*context).ops.post_srq_recv {
                Some(post) => post(self.srq, &raw mut request, &raw mut bad),
                None => libc::ENOSYS,
            }
        }
    }
}

/// The exponent of the ACK timeout (4.096 us times a power of two). It is chosen so that eight timeouts take about
/// `ack_timeout`, and one takes at least 4.2 ms.
fn timeout(ack_timeout: Duration) -> u8 {
    let eighth = ack_timeout.as_nanos() / 8 / 4_096;
    (eighth.max(1).ilog2() as u8).clamp(10, 20)
}

impl Nic {
    /// The shared objects of reliable queue pairs. The first call creates them.
    fn reliable(&mut self) -> Result<(), NicError> {
        if self.objects.reliable.is_some() {
            return Ok(());
        }
        let Objects { functions, pd, context, .. } = self.objects;
        // SAFETY: the protection domain exists, and `Objects` destroys the new objects before it.
        let reliable = unsafe { Reliable::new(&functions, pd, &self.name)? };
        let posted = (0..RECEIVES).map(|slot| reliable.receive_into(context, slot)).find(|error| *error != 0);
        self.objects.reliable = Some(reliable);
        posted.map_or(Ok(()), |error| Err(self.failed("cannot post a receive", error)))
    }

    /// Creates a reliable queue pair. Its packets have the flow label `flow`, from which NICs derive the UDP source
    /// port, and its first PSN is `psn`. `None` if the NIC cannot create another queue pair.
    ///
    /// # Errors
    /// If the NIC fails.
    fn open_pair(&mut self, flow: u32, psn: u32) -> Result<Option<Pair>, NicError> {
        self.reliable()?;
        let (port, functions) = (self.port, self.objects.functions);
        let Objects { pd, cq, reliable: Some(reliable), .. } = &mut self.objects else { return Ok(None) };
        let cap = ibv_qp_cap { max_send_wr: IN_FLIGHT, max_send_sge: 1, ..ibv_qp_cap::default() };
        let (send_cq, recv_cq, srq, qp_type) = (*cq, *cq, reliable.srq, IBV_QPT_RC);
        let mut attributes =
            ibv_qp_init_attr { qp_context: null_mut(), send_cq, recv_cq, srq, cap, qp_type, sq_sig_all: 0 };
        // SAFETY: the objects exist, and the structures are valid during the calls.
        let (qpn, error) = unsafe {
            let qp = (functions.create_qp)(*pd, &raw mut attributes);
            if qp.is_null() {
                return Ok(None);
            }
            let mut init = ibv_qp_attr {
                qp_state: IBV_QPS_INIT,
                port_num: port,
                qp_access_flags: IBV_ACCESS_REMOTE_WRITE,
                ..ibv_qp_attr::default()
            };
            let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
            let error = (functions.modify_qp)(qp, &raw mut init, mask);
            reliable.pairs.insert((*qp).qp_num, qp);
            ((*qp).qp_num, error)
        };
        let pair = Pair { qpn, psn: psn & 0xff_ffff, flow: flow & 0xf_ffff };
        if error != 0 {
            self.close_pair(pair);
            return Err(self.failed("cannot open a reliable queue pair", error));
        }
        Ok(Some(pair))
    }

    /// Destroys a queue pair. Its unacknowledged messages may still complete.
    fn close_pair(&mut self, pair: Pair) {
        let Objects { functions, reliable: Some(reliable), .. } = &mut self.objects else { return };
        if let Some(qp) = reliable.pairs.remove(&pair.qpn) {
            // SAFETY: the queue pair exists, and is not used afterwards.
            unsafe { (functions.destroy_qp)(qp) };
        }
    }

    /// Connects a queue pair with a peer's queue pair. Returns `false` if the driver refuses the peer, or finds no
    /// link-layer address for it.
    fn connect_pair(&mut self, pair: &Pair, peer: &Peer) -> bool {
        if peer.ip.is_ipv4() != self.local.is_ipv4() {
            return false;
        }
        let mtu = self.mtu.min(MTU);
        let Objects { functions, reliable: Some(reliable), .. } = &self.objects else { return false };
        let Some(qp) = reliable.pairs.get(&pair.qpn) else { return false };
        let route = ibv_global_route {
            dgid: find::gid(peer.ip),
            flow_label: pair.flow,
            sgid_index: self.gid_index,
            hop_limit: 64,
            traffic_class: peer.dscp << 2,
        };
        let address = ibv_ah_attr { grh: route, is_global: 1, port_num: self.port, ..ibv_ah_attr::default() };
        let rtr = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            ah_attr: address,
            // The code of 256 bytes is 1, and each further code stands for twice as many bytes.
            path_mtu: (mtu.max(256) / 256).ilog2() as i32 + 1,
            dest_qp_num: peer.qpn,
            rq_psn: peer.psn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ..ibv_qp_attr::default()
        };
        let rts = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: pair.psn,
            timeout: timeout(peer.ack_timeout),
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
            ..ibv_qp_attr::default()
        };
        let arrive = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let arrive = arrive | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let leave = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        [(rtr, arrive), (rts, leave)].into_iter().all(|(mut attributes, mask)| {
            // SAFETY: the queue pair exists, and the attributes are valid during the call.
            unsafe { (functions.modify_qp)(*qp, &raw mut attributes, IBV_QP_STATE | mask) == 0 }
        })
    }

    /// Address and remote key of memory into which peers may write.
    ///
    /// # Errors
    /// If the NIC fails.
    fn writable(&mut self) -> Result<(u64, u32), NicError> {
        self.reliable()?;
        let Some(reliable) = &self.objects.reliable else { return Ok((0, 0)) };
        // SAFETY: the region exists.
        Ok((reliable.scratch.address(0), unsafe { (*reliable.writable).rkey }))
    }

    /// Posts a message of `len` bytes, at most [`MAX_DATAGRAM`]: `bytes`, followed by zeros. The message is an RDMA
    /// Write to an address with a remote key, or a Send. `id` is the identifier that
    /// [`Event::Acknowledged`](super::Event::Acknowledged) will carry, and has the bit
    /// [`CONNECTED`](crate::connections::CONNECTED). The memory of `slot`, which is below [`PROBES`], is in use until
    /// then. Returns `false` if the send queue is full.
    fn post_message(
        &self, pair: &Pair, id: u64, slot: usize, write: Option<(u64, u32)>, bytes: &[u8], len: usize,
    ) -> bool {
        let Objects { context, reliable: Some(reliable), .. } = &self.objects else { return false };
        let Some(qp) = reliable.pairs.get(&pair.qpn) else { return false };
        if len > MAX_DATAGRAM || bytes.len() > len || slot >= PROBES {
            return false;
        }
        let at = (RECEIVES + slot) * MAX_DATAGRAM;
        reliable.memory.write(at, bytes);
        reliable.memory.clear(at + bytes.len(), len - bytes.len());
        // SAFETY: all objects exist, and the list is valid during the call. The message's memory is inside the region.
        unsafe {
            let (addr, lkey) = (reliable.memory.address(at), (*reliable.mr).lkey);
            let mut sge = ibv_sge { addr, length: len as u32, lkey };
            let mut request: ibv_send_wr = std::mem::zeroed();
            request.wr_id = id;
            request.sg_list = &raw mut sge;
            request.num_sge = 1;
            request.opcode = if write.is_some() { IBV_WR_RDMA_WRITE } else { IBV_WR_SEND };
            request.send_flags = IBV_SEND_SIGNALED;
            if let Some((remote_addr, rkey)) = write {
                request.wr.rdma = wr_rdma { remote_addr, rkey };
            }
            let mut bad = null_mut();
            (**context).ops.post_send.is_some_and(|post| post(*qp, &raw mut request, &raw mut bad) == 0)
        }
    }
}

impl QueuePairs for Nic {
    type Pair = Pair;
    type Error = NicError;

    fn open(&mut self, path: u16) -> Result<Option<Pair>, NicError> {
        let psn = crate::random().map_or(0, u32::from_ne_bytes);
        self.open_pair(flow(path.into()), psn)
    }

    fn close(&mut self, pair: Pair) {
        self.close_pair(pair);
    }

    /// The source port is unknown, because the driver may derive it from the flow label in another way than Linux.
    fn info(&self, pair: &Pair) -> PairInfo {
        PairInfo { qpn: pair.qpn, psn: pair.psn, source_port: None }
    }

    fn writable_memory(&mut self) -> Result<(u64, u32), NicError> {
        self.writable()
    }

    fn connect(
        &mut self, pair: &mut Pair, peer: &PairInfo, at: DatagramAddress, (timeout, dscp): (Time, u8),
    ) -> Result<bool, NicError> {
        let ack_timeout = Duration::from_nanos(timeout.as_ps() / 1_000);
        let (ip, qpn, psn) = (at.addr.ip(), peer.qpn, peer.psn);
        Ok(self.connect_pair(pair, &Peer { ip, qpn, psn, dscp, ack_timeout }))
    }

    fn post(
        &mut self, pair: &Pair, wr_id: u64, slot: usize, write: Option<(u64, u32)>, message: &[u8; MESSAGE_LEN],
        len: usize,
    ) -> Result<bool, NicError> {
        Ok(self.post_message(pair, wr_id, slot, write, message, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_timeouts_are_the_ack_timeout() {
        // 4.096 us * 2^14 = 67.1 ms: eight are 537 ms, and sixteen more than a second.
        assert_eq!(timeout(Duration::from_secs(1)), 14);
        assert_eq!(timeout(Duration::from_millis(500)), 13);
        assert_eq!((timeout(Duration::ZERO), timeout(Duration::from_secs(600))), (10, 20));
    }
}
