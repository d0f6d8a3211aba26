//! The context of a device: the table of the functions that the inline functions of the header call.

use super::{
    Absent, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device, ibv_device_attr_ex, ibv_mw, ibv_mw_bind,
    ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_init_attr_ex, ibv_recv_wr, ibv_send_wr, ibv_sge,
    ibv_srq, ibv_srq_init_attr_ex, ibv_td, ibv_wc,
};
use libc::{c_int, pthread_mutex_t, size_t};

#[repr(C)]
pub struct ibv_values_ex {
    pub comp_mask: u32,
    pub raw_clock: libc::timespec,
}

#[repr(C)]
pub struct ibv_ece {
    pub vendor_id: u32,
    pub options: u32,
    pub comp_mask: u32,
}

/// The operations of a context that the header's inline functions call. No inline function calls the other operations.
#[repr(C)]
pub struct ibv_context_ops {
    pub compat_1: [Absent; 7],
    pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_int) -> *mut ibv_mw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    pub compat_2: Absent,
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub compat_3: [Absent; 7],
    pub post_srq_recv: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub compat_4: [Absent; 4],
    pub post_send: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub compat_5: [Absent; 5],
}

#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: usize,
}

/// The extended context, which lies in front of [`ibv_context`].
#[repr(C)]
pub struct verbs_context {
    pub query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, size_t) -> c_int>,
    pub advise_mr: Option<unsafe extern "C" fn(*mut ibv_pd, c_int, u32, *mut ibv_sge, u32) -> c_int>,
    pub alloc_null_mr: Absent,
    pub counters: [Absent; 4],
    pub device_memory: [Absent; 3],
    pub flow_actions: [Absent; 3],
    pub modify_qp_rate_limit: Option<unsafe extern "C" fn(*mut ibv_qp, *mut u32) -> c_int>,
    pub alloc_parent_domain:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
    pub alloc_td: Option<unsafe extern "C" fn(*mut ibv_context, *mut u32) -> *mut ibv_td>,
    pub modify_cq: Absent,
    pub post_srq_ops: Absent,
    pub work_queues: [Absent; 5],
    pub query_rt_values: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
    pub create_cq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    pub private: Absent,
    pub query_device_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *const u32, *mut ibv_device_attr_ex, size_t) -> c_int>,
    pub destroy_flow: Absent,
    pub placeholder_2: Absent,
    pub create_flow: Absent,
    pub placeholder_1: Absent,
    pub open_qp: Absent,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub get_srq_num: Absent,
    pub create_srq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
    pub xrc: [Absent; 2],
    pub placeholder_3: u64,
    pub sz: size_t,
    pub context: ibv_context,
}
