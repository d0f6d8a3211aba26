//! Attributes of an opened device and its port, GIDs, partition keys.

use crate::abi::*;
use crate::objects::context::{Context, ContextState, GIDS};
use crate::objects::device::text;
use crate::objects::endpoint;
use crate::trace;
use libc::{c_int, size_t, ssize_t};
use rnic_cabi::entry::{entry, set_errno, status};
use rnic_cabi::pointer::{Handle, InOut, Out};
use rnic_cabi::{get, set};

/// Maximum `max_rd_atomic` and `max_dest_rd_atomic` of a queue pair that the device reports.
const MAX_READS: u8 = 16;

/// Types of queue pairs whose rate can be limited, a bit for each.
const PACED: u32 = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_device(context: Handle<Context>, attributes: Out<ibv_device_attr>) -> c_int {
    status(|| {
        trace::line(format_args!("ibv_query_device"));
        attributes.write(device_attributes(context.state()));
        Ok(())
    })
}

fn device_attributes(state: &ContextState) -> ibv_device_attr {
    let limits = endpoint::limits();
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    ibv_device_attr {
        fw_ver: text(env!("CARGO_PKG_VERSION")),
        node_guid: state.guid,
        sys_image_guid: state.guid,
        max_mr_size: limits.bytes,
        page_size_cap: !0xfff,
        // The ID of rdma_rxe, the kernel's RoCE in software, which is not the ID of a vendor.
        vendor_id: 0xff_ffff,
        vendor_part_id: 0,
        hw_ver: 0,
        max_qp: int(limits.queue_pairs),
        max_qp_wr: int(limits.work_requests),
        device_cap_flags: IBV_DEVICE_RC_RNR_NAK_GEN
            | IBV_DEVICE_CURR_QP_STATE_MOD
            | IBV_DEVICE_SRQ_RESIZE
            | IBV_DEVICE_MEM_WINDOW
            | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        max_sge: int(limits.scatter_gather),
        max_sge_rd: int(limits.scatter_gather),
        max_cq: int(limits.completion_queues),
        max_cqe: int(limits.completions),
        max_mr: int(limits.regions),
        max_pd: int(limits.protection_domains),
        max_qp_rd_atom: MAX_READS.into(),
        max_ee_rd_atom: 0,
        max_res_rd_atom: int(u32::from(MAX_READS) * limits.queue_pairs),
        max_qp_init_rd_atom: MAX_READS.into(),
        max_ee_init_rd_atom: 0,
        atomic_cap: IBV_ATOMIC_HCA,
        max_ee: 0,
        max_rdd: 0,
        max_mw: int(limits.windows),
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: 0,
        max_mcast_qp_attach: 0,
        max_total_mcast_qp_attach: 0,
        max_ah: c_int::MAX,
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: int(limits.shared_receive_queues),
        max_srq_wr: int(limits.work_requests),
        max_srq_sge: int(limits.scatter_gather),
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
    }
}

/// # Safety
/// The structure of the program has `len` bytes.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: Handle<Context>, _: *const u32, attributes: *mut ibv_device_attr_ex, len: size_t,
) -> c_int {
    status(|| {
        trace::line(format_args!("ibv_query_device_ex"));
        if len < size_of::<ibv_device_attr>() {
            return Err(libc::EINVAL);
        }
        // SAFETY: all bytes 0 is a value of the structure.
        let mut all: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
        all.orig_attr = device_attributes(context.state());
        all.completion_timestamp_mask = u64::MAX;
        // Timestamps are nanoseconds; the frequency is in kHz.
        all.hca_core_clock = 1_000_000;
        all.device_cap_flags_ex = all.orig_attr.device_cap_flags.into();
        all.phys_port_cnt_ex = 1;
        // The limits of `ibv_modify_qp_rate_limit`, in kbit/s.
        all.packet_pacing_caps =
            ibv_packet_pacing_caps { qp_rate_limit_min: 1, qp_rate_limit_max: u32::MAX, supported_qpts: PACED };
        // SAFETY: the caller promises the conditions of this function.
        unsafe { Out::new(attributes).write_prefix(&all, len) };
        Ok(())
    })
}

fn port_attributes(state: &ContextState, port: u8) -> Result<ibv_port_attr, c_int> {
    trace::line(format_args!("ibv_query_port {port}"));
    if port != 1 {
        return Err(libc::EINVAL);
    }
    let mtu = 5 - (4_096 / state.address.path_mtu()).ilog2();
    Ok(ibv_port_attr {
        state: IBV_PORT_ACTIVE,
        max_mtu: 5,
        active_mtu: mtu as c_int,
        gid_tbl_len: GIDS as c_int,
        port_cap_flags: IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        max_msg_sz: 1 << 31,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        // Four lanes of 25 Gbit/s: the line rate that congestion controls begin with.
        active_width: 2,
        active_speed: 32,
        phys_state: 5,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        ..ibv_port_attr::default()
    })
}

/// # Safety
/// The structure of the program has `len` bytes.
pub(crate) unsafe extern "C" fn query_port(
    context: Handle<Context>, port: u8, attributes: *mut ibv_port_attr, len: size_t,
) -> c_int {
    status(|| {
        let all = port_attributes(context.state(), port)?;
        // SAFETY: the caller promises the conditions of this function.
        unsafe { Out::new(attributes).write_prefix(&all, len) };
        Ok(())
    })
}

/// The `ibv_query_port` of programs that were built with old headers, whose structure ends before `port_cap_flags2`.
///
/// # Safety
/// The structure of the program ends before `port_cap_flags2` or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(context: Handle<Context>, port: u8, attributes: *mut ibv_port_attr) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { query_port(context, port, attributes, std::mem::offset_of!(ibv_port_attr, port_cap_flags2)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_gid(context: Handle<Context>, port: u8, index: c_int, out: Out<ibv_gid>) -> c_int {
    entry(-1, || {
        trace::line(format_args!("ibv_query_gid {index} of port {port}"));
        if port != 1 || !(0..GIDS as c_int).contains(&index) {
            set_errno(libc::EINVAL);
            return -1;
        }
        out.write(context.state().gid());
        0
    })
}

fn gid_entry(state: &ContextState, index: u32) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: state.gid(),
        gid_index: index,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: state.address.index,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn _ibv_query_gid_ex(
    context: Handle<Context>, port: u32, index: u32, out: Out<ibv_gid_entry>, flags: u32, len: size_t,
) -> c_int {
    status(|| {
        trace::line(format_args!("ibv_query_gid_ex {index} of port {port}"));
        if flags != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        if port != 1 || index >= GIDS as u32 || len != size_of::<ibv_gid_entry>() {
            return Err(libc::EINVAL);
        }
        out.write(gid_entry(context.state(), index));
        Ok(())
    })
}

/// # Safety
/// `entries` has room for `max` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: Handle<Context>, entries: *mut ibv_gid_entry, max: size_t, flags: u32, len: size_t,
) -> ssize_t {
    entry(-(libc::EIO as ssize_t), || {
        trace::line(format_args!("ibv_query_gid_table"));
        if flags != 0 || len != size_of::<ibv_gid_entry>() || max < GIDS {
            return -(libc::EINVAL as ssize_t);
        }
        for index in 0..GIDS {
            // SAFETY: `entries` has room for `max` entries, and `max` is at least `GIDS`.
            unsafe { entries.add(index).write(gid_entry(context.state(), index as u32)) };
        }
        GIDS as ssize_t
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_gid_type(_: *mut ibv_context, port: u8, index: c_int, kind: Out<c_int>) -> c_int {
    trace::line(format_args!("ibv_query_gid_type {index} of port {port}"));
    if port != 1 || !(0..GIDS as c_int).contains(&index) {
        set_errno(libc::EINVAL);
        return -1;
    }
    // 1: the value of RoCE v2 in sysfs.
    kind.write(1);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_pkey(_: *mut ibv_context, port: u8, index: c_int, pkey: Out<u16>) -> c_int {
    trace::line(format_args!("ibv_query_pkey {index} of port {port}"));
    if port != 1 || index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    pkey.write(0xffff);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_pkey_index(_: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    trace::line(format_args!("ibv_get_pkey_index {:#x} of port {port}", u16::from_be(pkey)));
    if port == 1 && pkey == 0xffff {
        return 0;
    }
    set_errno(libc::EINVAL);
    -1
}

pub(crate) extern "C" fn query_rt_values(context: Handle<Context>, values: InOut<ibv_values_ex>) -> c_int {
    status(|| {
        let now = context.state().now().as_ps() / 1_000;
        let known = get!(values.comp_mask) & 1;
        set!(values.comp_mask = known);
        if known != 0 {
            set!(values.raw_clock.tv_sec = (now / 1_000_000_000) as libc::time_t);
            set!(values.raw_clock.tv_nsec = (now % 1_000_000_000) as libc::c_long);
        }
        Ok(())
    })
}
