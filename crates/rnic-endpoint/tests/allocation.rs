//! Checks with a counting allocator that receiving allocates no memory, and that sending allocates none per datagram.

mod common;

use common::{ANY_CLASS, message};
use rnic_endpoint::port::UdpConfig;
use rnic_endpoint::{Batch, Port, UdpPort};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::IoSlice;

/// The system's allocator with a counter of the allocations of the current thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is exiting has no counter any more, and needs none.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every method forwards to `System` with the arguments it was given; the counter is a thread-local `Cell`
// without destructor or lazy initialisation, so that counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::alloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `block` came from `System` with this layout; the caller fulfils the other conditions of the contract.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn receiving_allocates_nothing_and_sending_nothing_per_datagram() {
    for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
        let address: std::net::SocketAddr = address.parse().unwrap();
        let open = || UdpPort::bind(address, &UdpConfig::default()).unwrap();
        let (mut a, mut b) = (open(), open());
        let destination = if address.ip().is_unspecified() {
            format!("127.0.0.1:{}", b.local_addr().port()).parse().unwrap()
        } else {
            b.local_addr()
        };
        let data = message(64_000, 1);
        let slices: Vec<IoSlice<'_>> = data.chunks(333).map(IoSlice::new).collect();
        let batch = Batch {
            destination,
            source_port: a.source_port(0),
            source_address: None,
            traffic_class: ANY_CLASS,
            segment: 1_000,
            data: &slices,
        };
        let sending = allocations(|| assert_eq!(a.send(&batch).unwrap(), 64));
        assert!(sending <= 1, "{sending} allocations for a batch of 64");
        let mut got = 0;
        let receiving = allocations(|| {
            while got < 64 {
                if let Some(arrival) = b.receive().unwrap() {
                    got += arrival.segments().map(|datagram| datagram.len() / 1_000).sum::<usize>();
                }
            }
            assert!(b.receive().unwrap().is_none());
        });
        assert_eq!(receiving, 0);
    }
}
