//! Shared receive queues, completion channels and completion queues.

use super::{Absent, ibv_context, ibv_pd};
use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t};

pub const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP: u64 = 1 << 7;
pub const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK: u64 = 1 << 11;
pub const IBV_WC_STANDARD_FLAGS: u64 = (1 << 7) - 1;

pub const IBV_SRQ_MAX_WR: c_int = 1;
pub const IBV_SRQ_LIMIT: c_int = 2;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}

pub const IBV_SRQT_BASIC: c_int = 0;
pub const IBV_SRQ_INIT_ATTR_TYPE: u32 = 1;
pub const IBV_SRQ_INIT_ATTR_PD: u32 = 1 << 1;

#[repr(C)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: c_int,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut c_void,
    pub cq: *mut ibv_cq,
    pub tm_cap: [u32; 2],
}

#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

#[repr(C)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

type Cx = *mut ibv_cq_ex;

#[repr(C)]
pub struct ibv_cq_ex {
    pub base: ibv_cq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(Cx, *mut u32) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(Cx) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(Cx)>,
    pub read_opcode: Option<unsafe extern "C" fn(Cx) -> c_int>,
    pub read_vendor_err: Option<unsafe extern "C" fn(Cx) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(Cx) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(Cx) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(Cx) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(Cx) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(Cx) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(Cx) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(Cx) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(Cx) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(Cx) -> u64>,
    pub read_cvlan: Absent,
    pub read_flow_tag: Absent,
    pub read_tm_info: Absent,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(Cx) -> u64>,
}

pub const IBV_CQ_INIT_ATTR_MASK_FLAGS: u32 = 1;
pub const IBV_CQ_INIT_ATTR_MASK_PD: u32 = 2;
pub const IBV_CREATE_CQ_ATTR_SINGLE_THREADED: u32 = 1;

#[repr(C)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}
