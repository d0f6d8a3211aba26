//! Fuzzes the verbs, the packet input and the P4 compiler with invalid inputs, for some fixed seeds. `rnic-torture
//! --fuzz` runs more seeds.

use rnic_torture::fuzz::{Summary, p4, packets, verbs};
use rnic_torture::network::Dice;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a counter of the bytes that the current thread has allocated.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is exiting has no counter any more, and needs none.
    let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
}

// SAFETY: every method forwards to `System` with the arguments it was given; the counter is a thread-local `Cell`
// without destructor or lazy initialisation, so that counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::alloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `block` was allocated by `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn packets_of_every_kind_do_no_harm_and_pile_up_nowhere() {
    let mut sum = Summary::default();
    for seed in 1..=40 {
        let before = BYTES.get();
        let mut most = 0;
        let run = packets::run_with(Dice::new(seed), 6_000, || most = most.max(BYTES.get() - before));
        sum = sum.plus(run.unwrap_or_else(|what| panic!("seed {seed}, {what}")));
        // The limit covers two devices with 60 KB of memory and a batch of 73 KB each, and 256 packets in flight.
        assert!(most < 3_000_000, "seed {seed}: {most} bytes");
    }
    let counts = [sum.packets, sum.taken, sum.completed, sum.failed, sum.restarted];
    assert!(counts.iter().all(|count| *count > 1_000), "{sum:?}");
}

#[test]
fn verbs_in_any_order_are_carried_out_or_refused() {
    let run = |seed| verbs::run(Dice::new(seed), 6_000).unwrap_or_else(|what| panic!("seed {seed}, {what}"));
    let runs = (1..=60).map(run);
    let sum = runs.fold(Summary::default(), Summary::plus);
    let counts = [sum.packets, sum.taken, sum.completed, sum.failed, sum.restarted];
    assert!(counts.iter().all(|count| *count > 500), "{sum:?}");
}

#[test]
fn programs_are_compiled_or_refused() {
    let run = |seed| p4::run(Dice::new(seed), 300).unwrap_or_else(|what| panic!("seed {seed}, {what}"));
    let sum = (1..=10).map(run).fold(p4::Summary::default(), p4::Summary::plus);
    assert!(sum.programs == 3_000 && sum.parsed > 600 && sum.parsed < 2_400, "{sum:?}");
    assert!(sum.compiled > 300 && sum.packets > 5_000 && sum.events > 1_000, "{sum:?}");
    // The unchanged programs, which the fuzzer otherwise mutates.
    let input = |bytes: &[u8]| p4::run(Dice::of(bytes.to_vec()), 1).unwrap_or_else(|what| panic!("{what}"));
    assert_eq!([0, 1, 2].map(|program| input(&[program, 255, 255, 0, 255, 255]).compiled), [1, 1, 1]);
}

/// Takes the random choices from bytes, as a coverage-guided fuzzer provides them, instead of a seed. A run must end
/// even if the bytes vary little.
#[test]
fn an_input_ends_where_its_bytes_do() {
    let mut sum = Summary::default();
    for seed in 0..400u64 {
        let mut input = Dice::new(seed).bytes(4 * seed as usize);
        if seed % 2 == 0 {
            // Long sequences of the same byte.
            input.iter_mut().enumerate().for_each(|(at, byte)| *byte = if at % 16 < 12 { seed as u8 } else { *byte });
        }
        for run in [packets::run, verbs::run] {
            let done = run(Dice::of(input.clone()), u64::MAX).unwrap_or_else(|what| panic!("input {seed}, {what}"));
            // Each step uses at least one byte.
            assert!(done.steps <= input.len() as u64, "input {seed}: {done:?}");
            sum = sum.plus(done);
        }
    }
    assert!(sum.steps > 10_000 && sum.taken > 500, "{sum:?}");
}
