//! Checks with a counting allocator that no packet causes an allocation, even in flows with losses.

mod common;

use common::{Pair, Pipe, Random, Rates};
use rnic_transport::conformance::Driver;
use rnic_transport::congestion::{CongestionControl, Settings};
use rnic_transport::message::programs::{Homa, HomaSettings, Hpcc, HpccSettings, Ndp};
use rnic_transport::message::{Arrival, Message, MessageNic, NicConfig, NicEvent, Pipeline};
use rnic_transport::recovery::{GoBackN, Irn, Protocol, Tcp};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::telemetry::Telemetry;
use rnic_transport::{FlowConfig, TcpConfig, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // During the destruction of a thread its counter is gone. Allocations at this time need not be counted.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every method forwards to `System` with the arguments it was given; the counter is a thread-local `Cell`
// without destructor or lazy initialisation, so that counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of this function, which is the same as the contract of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `block` came from `System` with this layout; the caller upholds the rest of the contract.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// A flow of 100,000 packets with losses, reordering and duplicates.
fn run<P: Protocol>(cfg: &FlowConfig) {
    let rates = Rates { loss: 20, late: 10, twice: 10, late_by: Time::from_us(5), heals_at: Time::MAX };
    let pipe = Pipe { packet: Time::from_ns(217), delay: Time::from_us(6) };
    let mut pair = Pair::<P, Random>::new(cfg.clone(), 100_000, pipe, Random::new(1, rates));
    let before = allocations();
    pair.run();
    let after = allocations();
    assert_eq!(after - before, 0, "allocations while {:?}", pair.totals);
    assert_eq!((pair.totals.accepted, pair.totals.completions), (100_000, 1));
    assert!(pair.totals.retransmitted > 1_000 && pair.totals.timeouts + pair.totals.receiver_timeouts > 10);
}

#[test]
fn packets_do_not_allocate() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations() - before, 1, "the counter counts");

    let cfg = FlowConfig::default();
    assert_eq!(cfg.bdp_cap, 111);
    run::<Irn>(&cfg);
    run::<GoBackN>(&cfg);
    run::<GoBackN>(&FlowConfig { acks: false, ..cfg });
}

/// Losses keep TCP's window small, but the bitmaps are as large as the receive window.
#[test]
fn segments_do_not_allocate() {
    for sack in [true, false] {
        let tcp =
            TcpConfig { sack, delayed_acks: Some(TcpConfig::DELAYED_ACK), handshake: true, ..TcpConfig::default() };
        run::<Tcp>(&FlowConfig { tcp, ..FlowConfig::default() });
    }
}

/// With the default cap the bitmap is stored inline, so a flow causes no allocation. With a larger
/// cap, sender and receiver allocate one block each.
#[test]
fn flows_of_the_default_cap_do_not_allocate() {
    let cfg = FlowConfig::default();
    let wide = FlowConfig { bdp_cap: 129, ..cfg.clone() };
    for (cfg, blocks) in [(cfg, 0), (wide, 2)] {
        let before = allocations();
        let sender = common::Source::<Irn>::new(&cfg, &(), 1 << 30, Time::ZERO);
        let receiver = rnic_transport::Receiver::<Irn>::new(&cfg, 1 << 30, Time::ZERO);
        assert_eq!(allocations() - before, blocks);
        drop((sender, receiver));
    }
}

/// No congestion control allocates, neither for a new flow nor for any event.
#[test]
fn congestion_controls_do_not_allocate() {
    struct Watch(u32);
    impl Visitor for Watch {
        fn visit<C: CongestionControl>(&mut self) {
            let flow = FlowConfig::default();
            let settings = Settings::new(C::PARAMETERS);
            let params = C::params(&settings, &flow).unwrap();
            let before = allocations();
            let control = std::hint::black_box(C::new(&params, &flow, Time::ZERO)).clone();
            assert!(control.window() > 0);
            assert_eq!(allocations() - before, 0, "{}: a flow", C::NAME);
            let mut driver = Driver::<C>::new(&settings, &flow, 1).unwrap();
            let before = allocations();
            (0..10_000).try_for_each(|_| driver.step()).unwrap();
            assert_eq!(allocations() - before, 0, "{}: its events", C::NAME);
            self.0 += 1;
        }
        fn visit_with_telemetry<C: CongestionControl>(&mut self) {
            self.visit::<C>();
        }
    }
    let mut watch = Watch(0);
    visit_congestion_controls(&mut watch);
    assert!(watch.0 > 1);
}

/// One NIC sends messages to another, with 16 outstanding; every 10th packet arrives trimmed.
fn exchange<P: Pipeline>(nics: &mut [MessageNic<P>; 2], cfg: &NicConfig, now: &mut Time, messages: u32) {
    let (mut left, mut under_way, mut packets) = (messages, 0, 0u64);
    while left + under_way > 0 {
        while under_way < 16 && left > 0 {
            nics[0].send(cfg, *now, &Message { dst_ip: 1, bytes: 38 * 1_024, ..Message::default() }).unwrap();
            (under_way, left) = (under_way + 1, left - 1);
        }
        *now += cfg.pace;
        for from in 0..2 {
            let Some(packet) = nics[from].poll_transmit(cfg, *now) else { continue };
            packets += 1;
            let telemetry = Telemetry::default();
            let arrival = Arrival {
                now: *now,
                frame_bytes: 64,
                trimmed: packet.payload > 0 && packets.is_multiple_of(10),
                returned: false,
                marked: false,
                telemetry: Some(&telemetry),
            };
            nics[1 - from].receive(cfg, &packet.header, &arrival);
        }
        for nic in nics.iter_mut().filter(|nic| nic.deadline().is_some_and(|at| at <= *now)) {
            nic.on_deadline(cfg, *now);
        }
        while let Some(event) = nics[0].poll_event() {
            under_way -= u32::from(matches!(event, NicEvent::Sent { .. } | NicEvent::Aborted { .. }));
        }
    }
}

/// Once a NIC has had its maximum number of concurrent messages, it allocates no memory for further packets and
/// messages.
fn run_messages<P: Pipeline>(program: impl Fn(u32) -> P) {
    let cfg = NicConfig::default();
    let mut nics = [0, 1].map(|ip| MessageNic::new(&cfg, program(ip)));
    let mut now = Time::ZERO;
    exchange(&mut nics, &cfg, &mut now, 200);
    let before = allocations();
    exchange(&mut nics, &cfg, &mut now, 1_000);
    assert_eq!(allocations() - before, 0);
}

#[test]
fn messages_do_not_allocate() {
    let homa = HomaSettings {
        mtu: 1_024,
        rtt_pkts: 9,
        unscheduled_priorities: 1,
        scheduled_priorities: 3,
        overcommitment: 3,
        trimming: true,
    };
    let hpcc =
        HpccSettings { mtu: 1_024, rtt_pkts: 9, base_rtt_ns: 525, additive_bytes: 80, target: 62_259, max_stages: 5 };
    run_messages(|ip| Ndp::new(ip, 1_024, 9));
    run_messages(|ip| Homa::new(ip, homa));
    run_messages(|ip| Hpcc::new(ip, hpcc));
}
