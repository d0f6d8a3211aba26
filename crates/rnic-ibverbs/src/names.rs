//! The names that libibverbs gives to numbers, rates, and the state of fork support.

use libc::{c_char, c_int};
use std::ffi::CStr;

fn name(names: &'static [&'static CStr], index: c_int, unknown: &'static CStr) -> *const c_char {
    usize::try_from(index).ok().and_then(|index| names.get(index)).unwrap_or(&unknown).as_ptr()
}

const EVENTS: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

const STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory bind operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"remote aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

fn text(names: &'static [&'static CStr], index: c_int) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)?.to_str().ok()).unwrap_or("unknown")
}

/// The name of an asynchronous event.
pub(crate) fn event(kind: c_int) -> &'static str {
    text(&EVENTS, kind)
}

/// The name of a completion's status.
pub(crate) fn status(status: c_int) -> &'static str {
    text(&STATUSES, status)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    name(&EVENTS, event, c"unknown")
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    name(&STATUSES, status, c"unknown")
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(kind: c_int) -> *const c_char {
    const NAMES: [&CStr; 8] = [
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    name(&NAMES, kind, c"unknown")
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    const NAMES: [&CStr; 6] =
        [c"no state change (NOP)", c"PORT_DOWN", c"PORT_INIT", c"PORT_ARMED", c"PORT_ACTIVE", c"PORT_ACTIVE_DEFER"];
    name(&NAMES, state, c"invalid state")
}

/// Each rate with its code, as a multiple of 2.5 Gbit/s, and in Mbit/s.
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 6, 14_062),
    (12, 22, 56_250),
    (13, 45, 112_500),
    (14, 67, 168_750),
    (15, 10, 25_781),
    (16, 41, 103_125),
    (17, 82, 206_250),
    (18, 124, 309_375),
    (19, 11, 28_125),
    (20, 20, 50_000),
    (21, 160, 400_000),
    (22, 240, 600_000),
    (23, 320, 800_000),
    (24, 480, 1_200_000),
];

#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|(code, ..)| *code == rate).map_or(-1, |(_, mult, _)| *mult)
}

#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    RATES.iter().find(|(_, other, _)| *other == mult).map_or(0, |(code, ..)| *code)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|(code, ..)| *code == rate).map_or(-1, |(.., mbps)| *mbps)
}

#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    RATES.iter().find(|(.., other)| *other == mbps).map_or(0, |(code, ..)| *code)
}

/// Succeeds, because the memory of a region needs no preparation for a fork: the child gets its own copy of a page at
/// the first write, and the parent, with the device, keeps the page. A child must not use the objects of its parent.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    const UNNEEDED: c_int = 2;
    UNNEEDED
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_: *mut libc::c_void, _: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_: *mut libc::c_void, _: usize) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        let text = |name: *const c_char| {
            // SAFETY: the functions return C strings.
            unsafe { CStr::from_ptr(name) }.to_str().unwrap()
        };
        assert_eq!(text(ibv_wc_status_str(12)), "transport retry counter exceeded");
        assert_eq!(text(ibv_event_type_str(16)), "last WQE reached");
        assert_eq!(text(ibv_port_state_str(4)), "PORT_ACTIVE");
        for index in [-1, 99] {
            assert_eq!(text(ibv_wc_status_str(index)), "unknown");
        }
    }

    #[test]
    fn rates_are_found_both_ways() {
        for (code, mult, mbps) in RATES {
            assert_eq!((mult_to_ibv_rate(mult), mbps_to_ibv_rate(mbps)), (code, code));
            assert_eq!((ibv_rate_to_mult(code), ibv_rate_to_mbps(code)), (mult, mbps));
        }
        assert_eq!((ibv_rate_to_mult(0), mult_to_ibv_rate(3)), (-1, 0));
    }
}
