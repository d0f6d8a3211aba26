//! Memory windows.

use super::Error;
use super::memory::{MemoryRegion, ProtectionDomain};
use super::queue_pair::QueuePair;
use crate::sync::lock;
use rnic_verbs::{Access, Bind, Data, SendFlags, SendOp, SendRequest, WindowInfo, WindowKind};
use std::ops::Range;
use std::sync::Mutex;

/// A memory window: a remote key to a part of a region, which requests to a queue pair grant and revoke, while the
/// region stays registered. Peers lose their access when the window is dropped.
///
/// ```
/// # use rnic_endpoint::{Access, Config, Device, PathOptions, QpOptions, SendOp, Time, WindowKind};
/// # fn main() -> Result<(), rnic_endpoint::Error> {
/// # let address = "127.0.0.1:0".parse().unwrap();
/// # let [here, there] = [Device::open_at(address, Config::default())?, Device::open_at(address, Config::default())?];
/// # let (cq, other_cq) = (here.completion_queue(16)?, there.completion_queue(16)?);
/// # let (pd, other_pd) = (here.protection_domain(), there.protection_domain());
/// # let (qp, peer) = (pd.queue_pair(&QpOptions::new(&cq))?, other_pd.queue_pair(&QpOptions::new(&other_cq))?);
/// # qp.connect(&peer.address(), &PathOptions::default())?;
/// # peer.connect(&qp.address(), &PathOptions::default())?;
/// let region = pd.register(vec![7; 4_096], Access { bind_window: true, ..Access::LOCAL })?;
/// let window = pd.window(WindowKind::Type2)?;
/// let rights = Access { remote_read: true, ..Access::LOCAL_READ };
/// let rkey = qp.bind(1, &window, &region, 100..200, rights)?;
/// cq.wait_one(Time::from_ms(5_000))?;
///
/// // The peer reads the bytes of the window, whose addresses are those of the region.
/// let memory = other_pd.register(vec![0; 100], Access::LOCAL)?;
/// peer.post(2, SendOp::Read { addr: region.addr() + 100, rkey }, &[memory.slice(0, 100)?])?;
/// other_cq.wait_one(Time::from_ms(5_000))?;
/// assert_eq!(memory.into_bytes(), [7; 100]);
///
/// qp.invalidate(3, rkey)?;
/// cq.wait_one(Time::from_ms(5_000))?;
/// # Ok(())
/// # }
/// ```
pub struct MemoryWindow {
    domain: ProtectionDomain,
    info: WindowInfo,
    /// Remote key of the binding that was posted last.
    rkey: Mutex<u32>,
}

impl ProtectionDomain {
    /// Allocates a memory window.
    ///
    /// # Errors
    /// If a limit of the device is reached.
    pub fn window(&self, kind: WindowKind) -> Result<MemoryWindow, Error> {
        let info = self.0.device.shared().verbs().allocate_window(self.0.id, kind)?;
        Ok(MemoryWindow { domain: self.clone(), info, rkey: Mutex::new(info.rkey) })
    }
}

impl MemoryWindow {
    /// The kind of the window.
    pub fn kind(&self) -> WindowKind {
        self.info.kind
    }

    /// Remote key of the binding that was posted last.
    pub fn rkey(&self) -> u32 {
        *lock(&self.rkey)
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        // The window exists as long as its handle.
        let _ = self.domain.0.device.shared().verbs().free_window(self.info.id);
    }
}

impl QueuePair {
    /// Posts a request that binds a memory window to the bytes `range` of a region, with the rights `access` for peers.
    /// Returns the remote key of the binding, which is valid once the request is complete. The peer uses the addresses
    /// of the region. An empty range ends the binding of a window of type 1.
    ///
    /// # Errors
    /// If the range is not within the region, or the errors of [`QueuePair::post_send`]. A binding that the region does
    /// not admit fails with [`Status::WindowBind`](rnic_verbs::Status::WindowBind) in its completion.
    pub fn bind<B>(
        &self, wr_id: u64, window: &MemoryWindow, region: &MemoryRegion<B>, range: Range<usize>, access: Access,
    ) -> Result<u32, Error> {
        let info = region.info();
        if range.start > range.end || range.end as u64 > info.len {
            return Err(Error::Range { start: range.start, end: range.end, len: info.len as usize });
        }
        let rkey = window.domain.0.device.shared().verbs().next_window_rkey(window.info.id)?;
        let (addr, len) = (info.addr + range.start as u64, range.len() as u64);
        let region = Some(info.id);
        let bind = Bind { window: window.info.id, rkey, region, addr, len, access, zero_based: false };
        self.post_send(&SendRequest { wr_id, op: SendOp::Bind, data: Data::Bind(&bind), flags: SendFlags::SIGNALED })?;
        *lock(&window.rkey) = rkey;
        Ok(rkey)
    }

    /// Posts a request that invalidates the remote key of a memory window of type 2, which is bound to this queue pair.
    ///
    /// # Errors
    /// The errors of [`QueuePair::post_send`].
    pub fn invalidate(&self, wr_id: u64, rkey: u32) -> Result<(), Error> {
        self.post(wr_id, SendOp::LocalInv(rkey), &[])
    }
}
