//! Tests of a measurement whose faults change while it runs.

use rnic_endpoint::Mode;
use rnic_perf::{
    Amount, FaultPlan, Live, LiveFaults, Meter, PerfError, Plan, Point, QueuePairPoint, ServeOptions, run, serve,
};
use rnic_transport::Time;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads the meter until a point satisfies the condition; returns the number of lost packets. The measurement ends
/// after its duration, so that a condition that never holds fails the test.
fn until(meter: &mut Meter, has_ended: impl Fn() -> bool, holds: impl Fn(&Point) -> bool) -> f64 {
    let mut lost = 0.0;
    loop {
        let point = meter.read(1.0);
        lost += point.lost;
        if holds(&point) {
            return lost;
        }
        assert!(!has_ended(), "the measurement ended: {point:?}");
        std::thread::yield_now();
    }
}

#[test]
fn faults_change_while_a_measurement_runs() {
    let live = Arc::new(Live::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let options = ServeOptions { roce_port: 0, once: true, live: Some(live.clone()), ..ServeOptions::default() };
        scope.spawn(|| serve(&listener, options, &AtomicBool::new(false), |_| {}).unwrap());
        let plan = Plan {
            live: Some(live.clone()),
            amount: Amount::Duration(Time::from_ms(60_000)),
            depth: 8,
            queue_pairs: 2,
            in_flight: Some(64),
            mode: Mode::Thread,
            roce_port: 0,
            faults: FaultPlan::default(),
            ..Plan::default()
        };
        let stop = &stop;
        let client = scope.spawn(move || run(address, &plan, stop, |_, _| {}));
        let mut meter = Meter::new(live.clone());
        let ended = || client.is_finished();
        let lost = until(&mut meter, ended, |point| point.messages > 0.0 && point.p50_us.is_some());
        assert_eq!(lost, 0.0, "no fault is set");
        // Both queue pairs of the client have a round-trip time, of microseconds and not of seconds, and the window of
        // the plan.
        until(&mut meter, ended, |point| {
            let of =
                |pair: &QueuePairPoint| pair.window == 64 && pair.rtt_us.is_some_and(|us| (1.0..1e6).contains(&us));
            point.queue_pairs.len() == 2 && point.queue_pairs.iter().all(of)
        });
        live.set_faults(&LiveFaults { loss: 5.0, ..LiveFaults::default() }).unwrap();
        until(&mut meter, ended, |point| point.lost > 0.0);
        until(&mut meter, ended, |point| point.retransmitted > 0.0);
        until(&mut meter, ended, |point| point.naks > 0.0);
        stop.store(true, Ordering::Relaxed);
        match client.join().unwrap() {
            Ok(report) => assert!(report.interrupted),
            Err(error) => assert!(matches!(error, PerfError::Interrupted), "{error}"),
        }
    });
}
