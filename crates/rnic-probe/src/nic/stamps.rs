//! Completion queues with hardware time stamps, which not every driver supports.

use rnic_cabi::verbs::*;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::time::Duration;

/// Vendor id of devices in software, such as `rdma_rxe` and the devices of rnic's own libibverbs. Software takes their
/// time stamps: the time stamp of a send is the time at which the system call returns, which may be after the arrival
/// of the response.
const SOFTWARE: u32 = 0xff_ffff;
/// The fields of a completion that are read in addition to its identifier and status.
const FIELDS: u64 = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
const IBV_WC_EX_WITH_BYTE_LEN: u64 = 1;
const IBV_WC_EX_WITH_SRC_QP: u64 = 1 << 3;
/// Value of [`ibv_context::abi_compat`] in a context that is part of a [`verbs_context`].
const EXTENDED: usize = usize::MAX;

/// The time stamps of completions to use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Stamps {
    /// Only hardware time stamps. The vendor id shows whether a device is in software.
    #[default]
    Hardware,
    /// The time stamps of any device that supports them.
    Any,
    /// No time stamps.
    Never,
}

impl Stamps {
    /// The clock of a device with this vendor id, time stamp mask and frequency in kHz; `None` if its time stamps are
    /// not used.
    fn clock(self, vendor: u32, mask: u64, khz: u64) -> Option<StampClock> {
        let wanted = match self {
            Stamps::Hardware => vendor != SOFTWARE,
            Stamps::Any => true,
            Stamps::Never => false,
        };
        (wanted && mask != 0 && khz != 0).then_some(StampClock { mask, khz })
    }
}

/// The clock of a device's time stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampClock {
    /// Mask of the valid bits of a time stamp.
    mask: u64,
    /// Frequency in kHz.
    khz: u64,
}

impl StampClock {
    /// The time from one time stamp to another. The counter may have wrapped once between them.
    pub fn between(self, from: u64, to: u64) -> Duration {
        let ticks = to.wrapping_sub(from) & self.mask;
        Duration::from_nanos((u128::from(ticks) * 1_000_000 / u128::from(self.khz)) as u64)
    }
}

/// The extended context, if it includes the operation at this offset.
///
/// # Safety
/// The context is open.
unsafe fn extended(context: *mut ibv_context, offset: usize) -> Option<*mut verbs_context> {
    // SAFETY: the caller guarantees that the context is open. As in the header's `verbs_get_ctx_op`, the extended
    // context contains this context, and only its last `sz` bytes contain operations.
    unsafe {
        if (*context).abi_compat != EXTENDED {
            return None;
        }
        let outer = context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
        ((*outer).sz >= size_of::<verbs_context>() - offset).then_some(outer)
    }
}

/// The clock of a device's time stamps; `None` if the device has no time stamps, or `choice` excludes them.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn clock(context: *mut ibv_context, choice: Stamps) -> Option<StampClock> {
    // SAFETY: the caller guarantees that the context is open; the structure is valid during the call, and has the
    // length that is passed.
    let attributes = unsafe {
        let query = (*extended(context, offset_of!(verbs_context, query_device_ex))?).query_device_ex?;
        let mut attributes: ibv_device_attr_ex = std::mem::zeroed();
        if query(context, null_mut(), &raw mut attributes, size_of::<ibv_device_attr_ex>()) != 0 {
            return None;
        }
        attributes
    };
    let (mask, khz) = (attributes.completion_timestamp_mask, attributes.hca_core_clock);
    choice.clock(attributes.orig_attr.vendor_id, mask, khz)
}

/// Creates a completion queue whose completions have time stamps; `None` if the driver cannot create one.
///
/// # Safety
/// The context is open, and the channel exists.
pub(super) unsafe fn create(
    context: *mut ibv_context, channel: *mut ibv_comp_channel, cqe: u32,
) -> Option<*mut ibv_cq_ex> {
    let mut attributes = ibv_cq_init_attr_ex {
        cqe,
        cq_context: null_mut(),
        channel,
        comp_vector: 0,
        wc_flags: FIELDS,
        comp_mask: 0,
        flags: 0,
        parent_domain: null_mut(),
    };
    // SAFETY: the caller guarantees the context and the channel; the attributes are valid during the call.
    let cq = unsafe {
        let create = (*extended(context, offset_of!(verbs_context, create_cq_ex))?).create_cq_ex?;
        create(context, &raw mut attributes)
    };
    (!cq.is_null()).then_some(cq)
}

/// Polls up to `found.len()` completions with their time stamps; returns their number.
///
/// # Errors
/// The error number of the driver.
///
/// # Safety
/// The queue was created by [`create`], and still exists.
pub(super) unsafe fn poll(cq: *mut ibv_cq_ex, found: &mut [(ibv_wc, u64)]) -> Result<usize, i32> {
    // SAFETY: the caller guarantees the queue. Its functions are called in the order of `ibv_start_poll(3)`, and only
    // the fields that were requested at its creation are read.
    unsafe {
        let (Some(start), Some(next), Some(end)) = ((*cq).start_poll, (*cq).next_poll, (*cq).end_poll) else {
            return Err(libc::ENOSYS);
        };
        let (Some(byte_len), Some(src_qp), Some(flags), Some(stamp)) =
            ((*cq).read_byte_len, (*cq).read_src_qp, (*cq).read_wc_flags, (*cq).read_completion_ts)
        else {
            return Err(libc::ENOSYS);
        };
        // `struct ibv_poll_cq_attr` has one member, a mask.
        let mut mask = 0_u32;
        match start(cq, &raw mut mask) {
            0 => {}
            libc::ENOENT => return Ok(0),
            error => return Err(error),
        }
        let mut count = 0;
        let result = loop {
            let mut wc = ibv_wc { wr_id: (*cq).wr_id, status: (*cq).status, ..ibv_wc::default() };
            let mut at = 0;
            // The other fields of a failed completion are not valid.
            if wc.status == IBV_WC_SUCCESS {
                (wc.byte_len, wc.src_qp, wc.wc_flags) = (byte_len(cq), src_qp(cq), flags(cq));
                at = stamp(cq);
            }
            found[count] = (wc, at);
            count += 1;
            if count == found.len() {
                break Ok(count);
            }
            match next(cq) {
                0 => {}
                libc::ENOENT => break Ok(count),
                error => break Err(error),
            }
        };
        end(cq);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vendor 0x2c9 is Mellanox.
    #[test]
    fn stamps_of_software_are_used_on_request_only() {
        let clock = |choice: Stamps, vendor| choice.clock(vendor, u64::MAX, 1_000_000).is_some();
        assert!(clock(Stamps::Hardware, 0x2c9) && !clock(Stamps::Hardware, SOFTWARE));
        assert!(clock(Stamps::Any, 0x2c9) && clock(Stamps::Any, SOFTWARE));
        assert!(!clock(Stamps::Never, 0x2c9));
        assert_eq!((Stamps::Any.clock(0x2c9, 0, 1), Stamps::Any.clock(0x2c9, 1, 0)), (None, None), "no clock");
    }

    #[test]
    fn stamps_are_converted() {
        // 156.25 MHz: 6.4 ns for each tick.
        let clock = StampClock { mask: (1 << 48) - 1, khz: 156_250 };
        assert_eq!(clock.between(10, 20), Duration::from_nanos(64));
        assert_eq!(clock.between((1 << 48) - 5, 5), Duration::from_nanos(64), "the counter wraps");
        let nanoseconds = StampClock { mask: u64::MAX, khz: 1_000_000 };
        assert_eq!(nanoseconds.between(u64::MAX, 1_000), Duration::from_nanos(1_001));
    }
}
