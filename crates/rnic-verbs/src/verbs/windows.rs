//! Verbs for memory windows.

use crate::device::Device;
use crate::memory::Memory;
use crate::send_queue::Local;
use crate::types::{Data, MrId, Pd, SendOp, VerbsError, WindowId, WindowInfo, WindowKind};

const UNKNOWN: VerbsError = VerbsError::Unknown("such memory window");

/// Verbs for memory windows: remote keys to parts of regions, which give and take rights faster than a registration.
/// [`SendOp::Bind`] binds a window, [`SendOp::LocalInv`] or a Send with Invalidate of the peer invalidates one of type
/// 2.
impl Device {
    /// Allocates a memory window, which is not bound yet.
    ///
    /// # Errors
    /// If there is no such protection domain, or a limit of the device is reached.
    pub fn allocate_window(&mut self, pd: Pd, kind: WindowKind) -> Result<WindowInfo, VerbsError> {
        self.domain(pd)?;
        let limit = self.config.limits.windows;
        if self.ctx.memory.windows() >= limit as usize {
            return Err(VerbsError::Exhausted { what: "memory windows", limit: limit.into() });
        }
        Ok(self.ctx.memory.allocate_window(pd, kind, &mut self.rng))
    }

    /// Frees a memory window. If it is bound, peers have no access through it from now on.
    ///
    /// # Errors
    /// If there is no such window.
    pub fn free_window(&mut self, id: WindowId) -> Result<(), VerbsError> {
        self.ctx.memory.free_window(id).ok_or(UNKNOWN)
    }

    /// A remote key for the next binding of a window. Each call gives another key, of 256. For a window of type 2 the
    /// application may choose the low eight bits itself.
    ///
    /// # Errors
    /// If there is no such window.
    pub fn next_window_rkey(&mut self, id: WindowId) -> Result<u32, VerbsError> {
        self.ctx.memory.next_window_rkey(id).ok_or(UNKNOWN)
    }

    /// Ends the bindings of all memory windows to a region, so that it can be deregistered.
    pub fn unbind_region(&mut self, id: MrId) {
        self.ctx.memory.unbind_region(id);
    }

    /// The data of a request that sends no packet.
    pub(super) fn local_operation(&self, op: SendOp, data: Data<'_>) -> Result<Local, VerbsError> {
        match (op, data) {
            (SendOp::Bind, Data::Bind(bind)) => {
                self.ctx.memory.window_kind(bind.window).ok_or(UNKNOWN)?;
                Ok(Local::Bind(Box::new(*bind)))
            }
            (SendOp::LocalInv(_), Data::Gather([])) => Ok(Local::Gather(Memory::unusable(&[]))),
            _ => Err(VerbsError::Unsupported(
                "a binding has `Data::Bind`, and an invalidation has no data: `Data::Gather(&[])`",
            )),
        }
    }
}
