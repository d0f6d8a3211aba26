//! Measurements behind three design choices: how to pass a batch to the kernel, which clock to read, and how to wait
//! until a given time.
//!
//! `cargo bench -p rnic-endpoint` prints the median, minimum and maximum of several repetitions. The repetitions of
//! alternatives alternate, so that other load on the machine affects all alternatives alike. `-- send`, `-- clock` or
//! `-- wait` runs only one measurement. The measurement of sending uses a virtual link between two network namespaces,
//! and needs the right to create them.
#![allow(missing_docs, reason = "a program, not a library")]

use rnic_endpoint::clock::thread_cpu_time;
use rnic_endpoint::idle::{Idle, IdleConfig, use_exact_timers};
use rnic_endpoint::port::{Interest, TrafficClass, UdpConfig};
use rnic_endpoint::{Batch, Clock, Port, TimeSource, UdpPort};
use rnic_netns::Pair;
use rnic_transport::Time;
use std::error::Error;
use std::hint::black_box;
use std::io::IoSlice;
use std::net::SocketAddr;

const HEADER: usize = 28;
const TRAILER: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if runs("clock") {
        clocks();
    }
    if runs("send") {
        sending()?;
    }
    if runs("wait") {
        waiting()?;
    }
    Ok(())
}

/// Formats the median, minimum and maximum of the values.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:>10.1}{:>10.1}{:>10.1}", values[values.len() / 2], values[0], values[values.len() - 1])
}

fn clocks() {
    const READINGS: u32 = 100_000;
    println!("\nCPU time of a reading, ns{:>37}{:>10}{:>10}", "median", "min", "max");
    let clock = Clock::start();
    let per_reading = |read: &dyn Fn() -> Time| {
        let start = thread_cpu_time();
        for _ in 0..READINGS {
            black_box(read());
        }
        (thread_cpu_time() - start).as_us() * 1e3 / f64::from(READINGS)
    };
    let samples: Vec<[f64; 2]> =
        (0..21).map(|_| [per_reading(&|| clock.now()), per_reading(&thread_cpu_time)]).collect();
    println!("{:<52}{}", "Clock::now (CLOCK_MONOTONIC)", spread(samples.iter().map(|s| s[0]).collect()));
    println!("{:<52}{}", "thread_cpu_time", spread(samples.iter().map(|s| s[1]).collect()));
}

/// How the bytes of a batch are passed to the kernel.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Header, payload and trailer of all datagrams are copied into one buffer.
    Copied,
    /// Each datagram is given as three slices, and the payload stays at its place in memory.
    Gathered,
}

/// A sender whose payloads come from `memory`. Its `run` sends batches and returns the CPU time per datagram in
/// nanoseconds.
struct SendBench {
    port: UdpPort,
    destination: SocketAddr,
    memory: Vec<u8>,
    at: usize,
    buffer: Vec<u8>,
}

impl SendBench {
    fn run(&mut self, layout: Layout, payload: usize, batches: usize) -> Result<f64, Box<dyn Error>> {
        let segment = HEADER + payload + TRAILER;
        let count = (self.port.limits().bytes / segment).min(self.port.limits().segments);
        let mut small = vec![0u8; count * (HEADER + TRAILER)];
        let start = thread_cpu_time();
        for _ in 0..batches {
            if self.at + count * payload > self.memory.len() {
                self.at = 0;
            }
            let payloads = self.memory[self.at..].chunks(payload).take(count);
            self.at += count * payload;
            // Takes the place of the ICRC: like the ICRC, it reads every byte once.
            let check = |data: &[u8]| {
                let words = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
                words.fold(0, u64::wrapping_add) as u32
            };
            let slices: Vec<IoSlice<'_>> = match layout {
                Layout::Copied => {
                    for (datagram, payload) in self.buffer.chunks_mut(segment).zip(payloads) {
                        datagram[..HEADER].fill(1);
                        datagram[HEADER..segment - TRAILER].copy_from_slice(payload);
                        let sum = check(&datagram[HEADER..segment - TRAILER]);
                        datagram[segment - TRAILER..segment].copy_from_slice(&sum.to_le_bytes());
                    }
                    vec![IoSlice::new(&self.buffer[..count * segment])]
                }
                Layout::Gathered => {
                    let mut slices = Vec::with_capacity(3 * count);
                    for (small, payload) in small.chunks_mut(HEADER + TRAILER).zip(payloads) {
                        let (header, trailer) = small.split_at_mut(HEADER);
                        header.fill(1);
                        trailer.copy_from_slice(&check(payload).to_le_bytes());
                        slices.extend([&*header, payload, &*trailer].map(IoSlice::new));
                    }
                    slices
                }
            };
            let sent = self.port.send(&Batch {
                destination: self.destination,
                source_port: self.port.source_port(0),
                source_address: None,
                traffic_class: TrafficClass::default(),
                segment,
                data: &slices,
            })?;
            if sent != count {
                return Err(format!("{sent} of {count} datagrams were taken").into());
            }
        }
        Ok((thread_cpu_time() - start).as_us() * 1e3 / (batches * count) as f64)
    }
}

fn sending() -> Result<(), Box<dyn Error>> {
    println!("\nCPU time of sending a datagram in batches, ns{:>17}{:>10}{:>10}", "median", "min", "max");
    let pair = Pair::new(9_000 + 20 + 8)?;
    let open = |ip| UdpPort::bind(SocketAddr::new(ip, 4_791), &UdpConfig { receive_buffer: 0, ..UdpConfig::default() });
    // The receiver never reads, so its buffer is soon full, and receiving costs little CPU time.
    let sink = pair.b.run(|| open(Pair::B4))?;
    for (place, bytes) in [("in cache, 1 MiB", 1 << 20), ("not in cache, 256 MiB", 256 << 20)] {
        let (port, destination) = (pair.a.run(|| open(Pair::A4))?, sink.local_addr());
        let mut bench = SendBench { port, destination, memory: vec![7; bytes], at: 0, buffer: vec![0; 65_536] };
        for payload in [1_024, 4_096, 9_000 - HEADER - TRAILER] {
            let mut samples = [Vec::new(), Vec::new()];
            for _ in 0..15 {
                for (layout, samples) in [Layout::Copied, Layout::Gathered].into_iter().zip(&mut samples) {
                    samples.push(bench.run(layout, payload, 200)?);
                }
            }
            for (name, samples) in ["copied", "gathered"].into_iter().zip(samples) {
                println!("{:<52}{}", format!("{payload} B {name}, payload {place}"), spread(samples));
            }
        }
    }
    Ok(())
}

/// Measures how late waits end, for several ways of waiting.
fn waiting() -> Result<(), Box<dyn Error>> {
    const WAITS: usize = 400;
    println!("\nHow late a wait ends, us{:>38}{:>10}{:>10}{:>10}", "median", "90 %", "99 %", "CPU %");
    let clock = Clock::start();
    let blocking = IdleConfig { spin: Time::ZERO, slack: Time::ZERO };
    let hybrid = |slack| IdleConfig { spin: Time::ZERO, slack };
    let ways = [
        ("blocked to the end, ordinary timers", blocking, false),
        ("blocked to the end, exact timers", blocking, true),
        ("spun for the last 20 us", hybrid(Time::from_us(20)), true),
        ("spun for the last 50 us", hybrid(Time::from_us(50)), true),
        ("spun for the last 100 us", hybrid(Time::from_us(100)), true),
        ("spun", IdleConfig { spin: Time::MAX, slack: Time::ZERO }, true),
    ];
    for span in [Time::from_us(20), Time::from_us(200), Time::from_us(1_000)] {
        for (name, config, exact) in ways {
            // Each measurement runs in its own thread, because timer slack is a setting of a thread.
            let measured = std::thread::spawn(move || -> std::io::Result<(Vec<f64>, f64)> {
                if exact {
                    use_exact_timers()?;
                }
                let mut port = UdpPort::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &UdpConfig::default())
                    .map_err(std::io::Error::other)?;
                let idle = Idle::new(config);
                let (start, start_cpu) = (clock.now(), thread_cpu_time());
                let mut late = Vec::with_capacity(WAITS);
                for _ in 0..WAITS {
                    let until = clock.now() + span;
                    loop {
                        let now = clock.now();
                        if now >= until {
                            late.push((now - until).as_us());
                            break;
                        }
                        idle.rest(&mut port, now, Interest::Arrival, Some(until))?;
                    }
                }
                let share = (thread_cpu_time() - start_cpu).as_us() / (clock.now() - start).as_us();
                Ok((late, 100.0 * share))
            });
            let (mut late, share) = measured.join().map_err(|_| "a measurement panicked")??;
            late.sort_by(f64::total_cmp);
            let at = |percent: usize| late[(WAITS - 1) * percent / 100];
            let name = format!("{span}: {name}");
            println!("{name:<52}{:>10.1}{:>10.1}{:>10.1}{share:>10.0}", at(50), at(90), at(99));
        }
    }
    Ok(())
}
