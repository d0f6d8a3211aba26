//! The functions that C programs call. The header describes them.

use super::open::{Failure, INVALID, REFUSED, close, guarded, open, text, with};
use rnic_sim::{FlowRequest, PortUse};
use rnic_spec::Scenario;
use rnic_transport::Time;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

/// Version of the interface: the constants of the header.
const VERSION: u32 = 1 << 16;
/// The result of a call without failure, and of `rnic_sim_advance_to_completion` without completion.
const OK: c_int = 0;
const NONE: c_int = 1;

/// `rnic_flow`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Flow {
    start_ps: u64,
    bytes: u64,
    src: u32,
    dst: u32,
}

/// `rnic_completion`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PollEntry {
    id: u64,
    visible_ps: u64,
    delivered_ps: u64,
    known_ps: u64,
}

/// `rnic_port`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PortEntry {
    queued_bytes: u64,
    sent_bytes: u64,
    busy_ps: u64,
    paused: u32,
    number: u32,
}

// The C test checks the same numbers.
const _: () = assert!(size_of::<Flow>() == 24 && std::mem::offset_of!(Flow, src) == 16);
const _: () = assert!(size_of::<PollEntry>() == 32 && std::mem::offset_of!(PollEntry, known_ps) == 24);
const _: () = assert!(size_of::<PortEntry>() == 32 && std::mem::offset_of!(PortEntry, number) == 28);

/// A simulation: a number in the shape of a pointer.
type Sim = *mut std::ffi::c_void;

fn code(result: Result<c_int, Failure>) -> c_int {
    result.unwrap_or_else(|Failure(code, _)| code)
}

fn null(name: &str) -> Failure {
    Failure(INVALID, format!("{name} is a null pointer"))
}

/// A text of the program.
///
/// # Safety
/// The pointer is null, or points at a text that ends with a zero byte and does not change during the call.
unsafe fn read<'a>(name: &str, pointer: *const c_char) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises that this is a text.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| Failure(REFUSED, format!("{name} is not UTF-8")))
}

/// Copies a text, truncated at the end of a character, with a zero byte at its end.
///
/// # Safety
/// The pointer is null, or `size` bytes can be written.
unsafe fn put(message: &str, pointer: *mut c_char, size: usize) {
    if pointer.is_null() || size == 0 {
        return;
    }
    let text = text(message);
    let text = text.to_str().unwrap_or_default();
    let mut length = text.len().min(size - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: the text has at least `length` bytes, and the caller promises the room for one more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), pointer.cast(), length);
        pointer.add(length).write(0);
    }
}

/// Writes a value of the program, unless the pointer is null.
///
/// # Safety
/// The pointer is null, or can be written.
unsafe fn set<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: the caller promises that the pointer can be written.
        unsafe { pointer.write(value) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_version() -> u32 {
    VERSION
}

/// # Safety
/// `scenario` points at `length` bytes, `run` at a text, `error` at `error_size` bytes; the latter two may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_open(
    scenario: *const c_char, length: usize, run: *const c_char, threads: u32, error: *mut c_char, error_size: usize,
) -> Sim {
    let read_scenario = || {
        if scenario.is_null() {
            return Err(null("scenario"));
        }
        // SAFETY: the caller promises these bytes.
        let bytes = unsafe { std::slice::from_raw_parts(scenario.cast::<u8>(), length) };
        let text = std::str::from_utf8(bytes).map_err(|_| Failure(REFUSED, "scenario is not UTF-8".to_string()))?;
        rnic_scenario::from_str(text, "scenario", Path::new("."), &[], None)
            .map_err(|error| Failure(REFUSED, error.to_string()))
    };
    // SAFETY: the caller makes the same promises.
    unsafe { begin(read_scenario, run, threads, error, error_size) }
}

/// # Safety
/// `path` and `run` are texts, `error` has `error_size` bytes; all may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_open_file(
    path: *const c_char, run: *const c_char, threads: u32, error: *mut c_char, error_size: usize,
) -> Sim {
    let read_scenario = || {
        // SAFETY: the caller promises a text.
        let path = unsafe { read("path", path) }?.ok_or_else(|| null("path"))?;
        rnic_scenario::load(Path::new(path), &[], None).map_err(|error| Failure(REFUSED, error.to_string()))
    };
    // SAFETY: the caller makes the same promises.
    unsafe { begin(read_scenario, run, threads, error, error_size) }
}

/// # Safety
/// `run` is a text, `error` has `error_size` bytes; both may be null.
unsafe fn begin(
    scenario: impl FnOnce() -> Result<Scenario, Failure>, run: *const c_char, threads: u32, error: *mut c_char,
    error_size: usize,
) -> Sim {
    // SAFETY: the caller promises a text.
    let begun = guarded(|| open(scenario()?, unsafe { read("run", run) }?, threads as usize));
    match begun {
        Ok(number) => std::ptr::without_provenance_mut(number),
        Err(Failure(_, message)) => {
            // SAFETY: the caller promises the room.
            unsafe { put(&message, error, error_size) };
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// `flows` has `count` flows and `first` can be written; both may be null, `flows` if `count` is 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_submit(sim: Sim, flows: *const Flow, count: usize, first: *mut u64) -> c_int {
    code(with(sim.addr(), |open| {
        let flows = match count {
            0 => &[],
            _ if flows.is_null() => return Err(null("flows")),
            // SAFETY: the caller promises these flows.
            _ => unsafe { std::slice::from_raw_parts(flows, count) },
        };
        let of = |flow: &Flow| FlowRequest {
            start: Time::from_ps(flow.start_ps),
            src: flow.src,
            dst: flow.dst,
            bytes: flow.bytes,
        };
        let number = open.running()?.submit(&flows.iter().map(of).collect::<Vec<_>>())?;
        // SAFETY: the caller promises that this can be written.
        unsafe { set(first, number) };
        Ok(OK)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_advance(sim: Sim, until_ps: u64) -> c_int {
    code(with(sim.addr(), |open| {
        open.running()?.advance(Time::from_ps(until_ps))?;
        Ok(OK)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_advance_to_completion(sim: Sim, limit_ps: u64) -> c_int {
    code(with(sim.addr(), |open| {
        // Completions that the program has not polled are visible now.
        if !open.visible.is_empty() {
            return Ok(OK);
        }
        let reached = open.running()?.advance_to_completion(Time::from_ps(limit_ps))?;
        Ok(if reached.is_some() { OK } else { NONE })
    }))
}

/// # Safety
/// `completions` has room for `count` entries; it may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_poll(sim: Sim, completions: *mut PollEntry, count: usize) -> usize {
    let polled = with(sim.addr(), |open| {
        if completions.is_null() && count > 0 {
            return Err(null("completions"));
        }
        let visible = open.running()?.completions();
        open.visible.extend(visible);
        let taken = count.min(open.visible.len());
        for (index, completion) in open.visible.drain(..taken).enumerate() {
            let entry = PollEntry {
                id: completion.flow,
                visible_ps: completion.visible.as_ps(),
                delivered_ps: completion.delivered.as_ps(),
                known_ps: completion.known.as_ps(),
            };
            // SAFETY: the caller promises room for `count` entries.
            unsafe { completions.add(index).write(entry) };
        }
        Ok(taken)
    });
    polled.unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_now(sim: Sim) -> u64 {
    with(sim.addr(), |open| Ok(open.running()?.now().as_ps())).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_reaction(sim: Sim) -> u64 {
    with(sim.addr(), |open| Ok(open.running()?.reaction().as_ps())).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_under_way(sim: Sim) -> u64 {
    with(sim.addr(), |open| Ok(open.running()?.under_way() + open.visible.len() as u64)).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_hosts(sim: Sim) -> u32 {
    with(sim.addr(), |open| Ok(open.running()?.hosts())).unwrap_or(0)
}

/// # Safety
/// `ports` has room for `count` entries, `at_ps` can be written; both may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_ports(sim: Sim, ports: *mut PortEntry, count: usize, at_ps: *mut u64) -> usize {
    let states = with(sim.addr(), |open| {
        if ports.is_null() && count > 0 {
            return Err(null("ports"));
        }
        let (at, states) = open.running()?.ports()?;
        for (index, state) in states.iter().enumerate().take(count) {
            let entry = PortEntry {
                queued_bytes: state.queued.0,
                sent_bytes: state.sent.0,
                busy_ps: state.busy.as_ps(),
                paused: state.paused.into(),
                number: state.port,
            };
            // SAFETY: the caller promises room for `count` entries.
            unsafe { ports.add(index).write(entry) };
        }
        // SAFETY: the caller promises that this can be written.
        unsafe { set(at_ps, at.as_ps()) };
        Ok(states.len())
    });
    states.unwrap_or(0)
}

/// # Safety
/// `name` has `size` bytes; it may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_port_name(sim: Sim, port: usize, name: *mut c_char, size: usize) -> c_int {
    code(with(sim.addr(), |open| {
        let (_, states) = open.running()?.ports()?;
        let last = states.len().saturating_sub(1);
        let Some(PortUse { node, peer, .. }) = states.get(port) else {
            return Err(Failure(REFUSED, format!("there is no port {port}; accepted: 0 to {last}")));
        };
        // SAFETY: the caller promises the room.
        unsafe { put(&format!("{node} {peer}"), name, size) };
        Ok(OK)
    }))
}

/// # Safety
/// `folder` is a text; it may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn rnic_sim_finish(sim: Sim, folder: *const c_char) -> c_int {
    code(with(sim.addr(), |open| {
        // SAFETY: the caller promises a text.
        open.finish(unsafe { read("folder", folder) }?.map(Path::new))?;
        Ok(OK)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_error(sim: Sim) -> *const c_char {
    with(sim.addr(), |open| Ok(open.error.as_ptr())).unwrap_or(c"there is no such open simulation".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn rnic_sim_close(sim: Sim) {
    close(sim.addr());
}
