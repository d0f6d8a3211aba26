//! Protection domains and memory regions.

use super::queue_pair::{QpInner, SrqInner};
use super::{Device, Error, QpOptions, QueuePair, SharedReceiveQueue};
use crate::driver::lock;
use rnic_verbs::{Access, MrInfo, Pd, QpInit, Sge};
use std::sync::{Arc, Mutex};

pub(super) struct DomainInner {
    pub(super) device: Device,
    pub(super) id: Pd,
}

impl Drop for DomainInner {
    fn drop(&mut self) {
        // What belongs to it holds it, so that it is empty now.
        let _ = self.device.shared().verbs().destroy_pd(self.id);
    }
}

/// A protection domain: only what belongs to the same one works together.
#[derive(Clone)]
pub struct ProtectionDomain(pub(super) Arc<DomainInner>);

impl ProtectionDomain {
    /// Registers memory.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn register(&self, bytes: Vec<u8>, access: Access) -> Result<MemoryRegion, Error> {
        let info = self.0.device.shared().verbs().register(self.0.id, bytes, None, access)?;
        Ok(MemoryRegion { domain: self.clone(), info: Mutex::new(info) })
    }

    /// A shared receive queue for `capacity` receives of up to `max_sge` pieces.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn shared_receive_queue(&self, capacity: u32, max_sge: u32) -> Result<SharedReceiveQueue, Error> {
        let id = self.0.device.shared().verbs().create_srq(self.0.id, capacity, max_sge)?;
        Ok(SharedReceiveQueue(Arc::new(SrqInner { domain: self.clone(), id })))
    }

    /// A queue pair; [`QueuePair::connect`] makes it usable.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn queue_pair(&self, options: &QpOptions) -> Result<QueuePair, Error> {
        let init = QpInit {
            service: options.service,
            send_cq: options.send_cq.0.id,
            recv_cq: options.recv_cq.0.id,
            srq: options.srq.as_ref().map(|srq| srq.0.id),
            capacities: options.capacities,
            signal_all: options.signal_all,
        };
        let mut verbs = self.0.device.shared().verbs();
        let qpn = verbs.create_qp(self.0.id, init)?;
        let psn = verbs.random_psn();
        let ready = match &options.congestion {
            Some(congestion) => verbs.set_congestion(qpn, congestion.clone()),
            None => Ok(()),
        }
        .and_then(|()| verbs.to_init(qpn, options.access));
        if let Err(why) = ready {
            verbs.destroy_qp(qpn)?;
            return Err(why.into());
        }
        drop(verbs);
        Ok(QueuePair(Arc::new(QpInner { domain: self.clone(), options: options.clone(), qpn, psn })))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
}

/// Memory that queue pairs can use. The device owns the bytes; see [`crate::device`].
pub struct MemoryRegion {
    domain: ProtectionDomain,
    info: Mutex<MrInfo>,
}

impl MemoryRegion {
    fn info(&self) -> MrInfo {
        *lock(&self.info)
    }

    /// Address of the first byte, for the peer.
    pub fn addr(&self) -> u64 {
        self.info().addr
    }

    /// Key for the peer.
    pub fn rkey(&self) -> u32 {
        self.info().rkey
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.info().len as usize
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `len` bytes from `start` on, for a work request.
    ///
    /// # Errors
    /// If they are not within the region, or more than 2^32 - 1.
    pub fn slice(&self, start: usize, len: usize) -> Result<Sge, Error> {
        let info = self.info();
        let range = Error::Range { start, end: start.saturating_add(len), len: info.len as usize };
        if start.checked_add(len).is_none_or(|end| end as u64 > info.len) {
            return Err(range);
        }
        let len = u32::try_from(len).map_err(|_| range)?;
        Ok(Sge { addr: info.addr + start as u64, len, lkey: info.lkey })
    }

    /// Copies from the region.
    ///
    /// # Errors
    /// If the range is not within it.
    pub fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let end = start.saturating_add(out.len());
        self.with(|bytes| match bytes.get(start..end) {
            Some(from) => {
                out.copy_from_slice(from);
                Ok(())
            }
            None => Err(Error::Range { start, end, len: bytes.len() }),
        })
    }

    /// Copies into the region.
    ///
    /// # Errors
    /// If the range is not within it.
    pub fn write(&self, start: usize, data: &[u8]) -> Result<(), Error> {
        let end = start.saturating_add(data.len());
        self.with_mut(|bytes| {
            let len = bytes.len();
            match bytes.get_mut(start..end) {
                Some(to) => {
                    to.copy_from_slice(data);
                    Ok(())
                }
                None => Err(Error::Range { start, end, len }),
            }
        })
    }

    /// Looks at the bytes. No packet moves on this device meanwhile: be brief.
    ///
    /// # Panics
    /// If `look` uses the device or anything of it.
    pub fn with<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        let id = self.info().id;
        self.domain.0.device.shared().look(|verbs| look(verbs.bytes(id).unwrap_or_default()))
    }

    /// Changes the bytes. No packet moves on this device meanwhile: be brief.
    ///
    /// # Panics
    /// If `change` uses the device or anything of it.
    pub fn with_mut<R>(&self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let id = self.info().id;
        self.domain.0.device.shared().look(|verbs| change(verbs.bytes_mut(id).unwrap_or_default()))
    }

    /// Gives the remote key a new value: the old one, invalidated by the peer or not, is no longer valid.
    ///
    /// # Errors
    /// None is expected.
    pub fn renew_key(&self) -> Result<u32, Error> {
        let id = self.info().id;
        let info = self.domain.0.device.shared().verbs().rekey(id)?;
        *lock(&self.info) = info;
        Ok(info.rkey)
    }

    /// Ends the region and gives the bytes back. Work that still refers to it fails.
    pub fn into_bytes(self) -> Vec<u8> {
        self.domain.0.device.shared().verbs().deregister(self.info().id).unwrap_or_default()
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // After `into_bytes` there is nothing left.
        let _ = self.domain.0.device.shared().verbs().deregister(self.info().id);
    }
}
