//! Message rate and round-trip time of datagrams (UD) between two devices on the loopback interface:
//! `cargo bench -p rnic-endpoint --bench datagrams`.
//!
//! For the rate one thread polls both devices. For the round trips each device has a thread that polls it. The rows are
//! medians of several measurements.
#![allow(missing_docs, reason = "a program, not a library")]

use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::{
    Access, Capacities, Completion, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Device, GRH_LEN,
    MemoryRegion, Mode, Opcode, QpOptions, QueuePair, Recipient, Security, SendFlags, SendOp, SendRequest, Service,
    Time,
};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

type Failure = Box<dyn Error + Send + Sync>;

const TIME: Time = Time::from_ms(400);
const TURNS: usize = 5;
const RECEIVES: usize = 1_024;
/// Datagrams that are posted at a time.
const BURST: usize = 64;
const SLOT: usize = 4_096 + GRH_LEN as usize;

struct End {
    _device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
    address: DatagramAddress,
}

impl End {
    fn open() -> Result<End, Failure> {
        let config = Config { mode: Mode::Polled, security: Security::None, ..Config::default() };
        let device = Device::open_at("127.0.0.1:0".parse()?, config)?;
        let (cq, pd) = (device.completion_queue(4_096)?, device.protection_domain());
        let capacities = Capacities { send_wr: 256, recv_wr: RECEIVES as u32, ..Capacities::default() };
        let qp = pd.queue_pair(&QpOptions { service: Service::Ud, capacities, ..QpOptions::new(&cq) })?;
        let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu: 4_096 })?;
        let region = pd.register(vec![0; SLOT * RECEIVES], Access::LOCAL)?;
        let end = End { _device: device, cq, qp, region, address };
        for slot in 0..RECEIVES {
            end.receive_into(slot)?;
        }
        Ok(end)
    }

    fn receive_into(&self, slot: usize) -> Result<(), Failure> {
        Ok(self.qp.post_recv(slot as u64, &[self.region.slice(slot * SLOT, SLOT)?])?)
    }

    fn send(&self, size: usize, to: &Recipient, count: usize) -> Result<(), Failure> {
        let gather = [self.region.slice(0, size)?];
        let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::default());
        let request = (SendRequest { wr_id: 0, op, data, flags }, *to);
        let requests = vec![request; count];
        let mut posted = 0;
        while posted < count {
            posted += self.qp.post_datagrams(&requests[posted..])?;
            self.cq.poll(&mut [])?;
        }
        Ok(())
    }

    /// Receives what has come; returns the number of datagrams.
    fn receive(&self, found: &mut [Completion]) -> Result<usize, Failure> {
        let count = self.cq.poll(found)?;
        for completion in found[..count].iter().filter(|completion| completion.opcode == Opcode::Recv) {
            self.receive_into(completion.wr_id as usize)?;
        }
        Ok(count)
    }
}

/// Datagrams per second from one device to another.
fn rate(size: usize) -> Result<f64, Failure> {
    let (a, b) = (End::open()?, End::open()?);
    let (to, clock) = (b.address.recipient(), Clock::start());
    let mut found = [Completion::BLANK; 256];
    let mut received = 0;
    while clock.now() < TIME {
        a.send(size, &to, BURST)?;
        received += b.receive(&mut found)?;
    }
    Ok(received as f64 / clock.now().as_secs())
}

/// The median round-trip time between two devices, each polled by a thread, in microseconds.
fn round_trip(size: usize) -> Result<f64, Failure> {
    let (a, b) = (End::open()?, End::open()?);
    let (there, back) = (b.address.recipient(), a.address.recipient());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let responder = scope.spawn(|| -> Result<(), Failure> {
            let mut found = [Completion::BLANK; 16];
            while !ended.load(Ordering::Relaxed) {
                let count = b.receive(&mut found)?;
                b.send(size, &back, count)?;
            }
            Ok(())
        });
        let mut times = Vec::new();
        let (clock, mut found) = (Clock::start(), [Completion::BLANK; 16]);
        let measured = (|| -> Result<(), Failure> {
            while clock.now() < TIME {
                let start = clock.now();
                a.send(size, &there, 1)?;
                // A datagram may be lost, for instance when a buffer is full.
                while a.receive(&mut found)? == 0 && clock.now() - start < Time::from_ms(100) {}
                times.push(clock.now() - start);
            }
            Ok(())
        })();
        ended.store(true, Ordering::Relaxed);
        responder.join().map_err(|_| "the responder panicked")??;
        measured?;
        times.sort_unstable();
        Ok(times[times.len() / 2].as_us())
    })
}

fn median(measure: impl Fn() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let mut all = (0..TURNS).map(|_| measure()).collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable_by(f64::total_cmp);
    Ok(all[TURNS / 2])
}

fn main() -> Result<(), Failure> {
    println!("{:>8} {:>24} {:>24}", "bytes", "datagrams per second", "round trip in us");
    for size in [64, 512, 1_024, 4_096] {
        println!("{size:>8} {:>24.0} {:>24.1}", median(|| rate(size))?, median(|| round_trip(size))?);
    }
    Ok(())
}
