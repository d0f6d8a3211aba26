//! The simulator allocates no memory per packet, once queues and pools have grown to the size that a run needs.

mod common;

use common::*;
use rnic_sim::Events;
use rnic_sim::run::simulate;
use rnic_spec::RunEvent;
use rnic_spec::RunStatus;
use rnic_transport::Bytes;
use rnic_transport::congestion::NoCongestionControl;
use rnic_transport::recovery::{GoBackN, Irn, Protocol};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, with a counter of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed unchanged to the system's allocator, which fulfils the contract. The counter does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `System` requires. `ptr` came from `System`, as every pointer of this
        // allocator does.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as for `dealloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Every host sends 5 MB to a host in another pod. Returns the number of packet transmissions and the number of
/// allocations in the second half of the run.
fn second_half<P: Protocol>(transport: &str, pfc: bool, buffer: u64) -> (u64, u64) {
    let mut run = fat_tree(transport);
    run.transport.pfc = pfc;
    run.fabric.switch.buffer = Some(Bytes(buffer));
    let flows: Vec<_> = (0..54).map(|src| flow(u64::from(src) * 1_000, src, (src * 7 + 20) % 54, 5_000_000)).collect();
    let resolved = resolved(&run, &flows);
    // The capacity is large enough for all samples, so that recording a sample does not allocate.
    let mut samples = Vec::with_capacity(100_000);
    let mut note = |event| {
        if let RunEvent::Progress(progress) = event {
            samples.push((progress.hops, ALLOCATIONS.load(Ordering::Relaxed)));
        }
        ControlFlow::Continue(())
    };
    let events = Events::to(&mut note);
    let output = simulate::<P, NoCongestionControl, _>(&resolved, (), 1, flows.iter().copied(), &events);
    assert_eq!(output.status, RunStatus::Completed);
    drop(events);
    let (hops, allocations) = *samples.last().unwrap();
    let middle = samples.iter().find(|(h, _)| *h >= hops / 2).unwrap();
    (hops - middle.0, allocations - middle.1)
}

/// One test for all cases, because the counter counts the whole process.
#[test]
fn packets_allocate_nothing_after_start_up() {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let cases = [
        ("RoCE with PFC", second_half::<GoBackN>("roce", true, 240_000)),
        ("IRN", second_half::<Irn>("irn", false, 240_000)),
        ("IRN, small buffers", second_half::<Irn>("irn", false, 60_000)),
        ("IRN with PFC, small buffers", second_half::<Irn>("irn", true, 60_000)),
    ];
    for (name, (hops, allocations)) in cases {
        println!("{name}: {allocations} allocations in {hops} packet transmissions");
        assert!(hops > 300_000, "{name}: {hops} packet transmissions are too few to tell");
        assert!(allocations * 10_000 < hops, "{name}: {allocations} allocations in {hops} transmissions");
    }
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > before + 1_000, "the counter counts");
}
