//! The NIC's objects of a channel, so that they can be destroyed together.

use crate::error::HostError;
use rnic_verbs::{Access, CqId, MrId, MrInfo, Pd, QpInit, Qpn, Verbs};

/// The queue pairs, memory regions and completion queues that a channel has created.
#[derive(Default, Debug)]
pub(crate) struct Objects {
    qpns: Vec<Qpn>,
    regions: Vec<MrId>,
    cqs: Vec<CqId>,
}

impl Objects {
    /// Runs `create`, which creates objects. If it fails, the objects that it created are destroyed.
    pub(crate) fn create<T>(
        nic: &mut dyn Verbs, create: impl FnOnce(&mut dyn Verbs, &mut Objects) -> Result<T, HostError>,
    ) -> Result<(T, Objects), HostError> {
        let mut objects = Objects::default();
        match create(nic, &mut objects) {
            Ok(made) => Ok((made, objects)),
            Err(why) => {
                // The first error is the one to report.
                let _ = objects.destroy(nic);
                Err(why)
            }
        }
    }

    pub(crate) fn cq(&mut self, nic: &mut dyn Verbs, capacity: u32) -> Result<CqId, HostError> {
        let cq = nic.create_cq(capacity)?;
        self.cqs.push(cq);
        Ok(cq)
    }

    pub(crate) fn qp(&mut self, nic: &mut dyn Verbs, pd: Pd, init: QpInit) -> Result<Qpn, HostError> {
        let qpn = nic.create_qp(pd, init)?;
        self.qpns.push(qpn);
        Ok(qpn)
    }

    pub(crate) fn region(
        &mut self, nic: &mut dyn Verbs, pd: Pd, bytes: usize, access: Access,
    ) -> Result<MrInfo, HostError> {
        let region = nic.register(pd, vec![0; bytes], None, access)?;
        self.regions.push(region.id);
        Ok(region)
    }

    /// Destroys all objects that are not destroyed yet.
    pub(crate) fn destroy(&mut self, nic: &mut dyn Verbs) -> Result<(), HostError> {
        for qpn in self.qpns.drain(..) {
            nic.destroy_qp(qpn)?;
        }
        for region in self.regions.drain(..) {
            nic.deregister(region)?;
        }
        for cq in self.cqs.drain(..) {
            nic.destroy_cq(cq)?;
        }
        Ok(())
    }
}
