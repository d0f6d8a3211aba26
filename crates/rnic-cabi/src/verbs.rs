//! The C structures and constants of `infiniband/verbs.h`, with the names that the header gives them.
//!
//! The layouts are the layouts of rdma-core 44 on 64-bit systems. Later versions append fields only where the header
//! allows it, so programs built with later versions work too. A test compiles a C program that compares sizes and
//! offsets with the header.
#![allow(non_camel_case_types, missing_docs, reason = "the header documents them")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the header has more than this library uses, and its names are public in C"
)]

mod address;
mod context;
mod device;
mod memory;
mod qp;
mod queue;
mod work;

pub use address::*;
pub use context::*;
pub use device::*;
pub use memory::*;
pub use qp::*;
pub use queue::*;
pub use work::*;

/// A pointer to a function that rnic does not provide: always null, so that programs can detect the missing function.
pub type Absent = usize;

/// The value of `ibv_context::abi_compat` by which the header sees that the context is part of a [`verbs_context`].
pub const VERBS_ABI_IS_EXTENDED: usize = usize::MAX;

// The sizes and offsets that C compilers for x86-64 and aarch64 compute from the headers of rdma-core.
const _: () = {
    use std::mem::offset_of;
    // A `pthread_mutex_t` of glibc has 40 bytes on x86-64 and 48 on aarch64.
    const WIDER: usize = if cfg!(target_arch = "aarch64") { 8 } else { 0 };
    assert!(size_of::<ibv_context>() == 328 + WIDER && offset_of!(ibv_context, ops.poll_cq) == 96);
    assert!(offset_of!(ibv_context, ops.post_send) == 208 && offset_of!(ibv_context, abi_compat) == 320 + WIDER);
    assert!(size_of::<verbs_context>() == 648 + WIDER && offset_of!(verbs_context, context) == 320);
    assert!(size_of::<ibv_device>() == 664 && size_of::<ibv_device_attr>() == 232);
    assert!(size_of::<ibv_device_attr_ex>() == 400 && size_of::<ibv_port_attr>() == 52);
    assert!(size_of::<ibv_qp>() == 160 + WIDER && size_of::<ibv_qp_ex>() == 352 + WIDER);
    assert!(size_of::<ibv_cq>() == 128 + WIDER && size_of::<ibv_cq_ex>() == 288 + WIDER);
    assert!(size_of::<ibv_srq>() == 128 + WIDER);
    assert!(size_of::<ibv_wc>() == 48 && size_of::<ibv_send_wr>() == 128 && size_of::<ibv_recv_wr>() == 32);
    assert!(size_of::<ibv_qp_attr>() == 144 && size_of::<ibv_qp_init_attr>() == 64);
    assert!(size_of::<ibv_qp_init_attr_ex>() == 136 && size_of::<ibv_ah_attr>() == 32);
    assert!(size_of::<ibv_cq_init_attr_ex>() == 56 && size_of::<ibv_srq_init_attr_ex>() == 64);
    assert!(size_of::<ibv_mr>() == 48 && size_of::<ibv_mw>() == 32 && size_of::<ibv_mw_bind>() == 48);
    assert!(size_of::<ibv_gid_entry>() == 32 && size_of::<ibv_parent_domain_init_attr>() == 48);
};
