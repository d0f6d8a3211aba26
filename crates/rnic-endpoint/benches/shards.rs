//! Bandwidth and message rate of one address with one, two and more shards:
//! `cargo bench -p rnic-endpoint --bench shards`.
//!
//! Each shard of the sending address has a connection to the shard with the same number of the receiving address, and
//! one thread, on its own core, polls both. So with `n` shards `n` cores do the work of both hosts. The rows are
//! medians of several measurements, taken by turns; the last column is the rate with all cores divided by the rate with
//! one core. `-- --record docs/results/data/shards.json` also records the table for `cargo run -p rnic-pages`.
#![allow(missing_docs, reason = "a program, not a library")]

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::{
    Access, Completion, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair,
    Security, SendOp, Service, Time,
};
use rnic_record::{Column, Record, Table, cells};
use std::error::Error;
use std::path::Path;
use std::sync::Barrier;

type Failure = Box<dyn Error + Send + Sync>;

const TIME: Time = Time::from_ms(400);
const TURNS: usize = 5;
/// Requests that each connection has outstanding.
const DEPTH: u64 = 32;

/// A connection from a shard of one address to a shard of the other.
struct Connection {
    sends: Device,
    receives: Device,
    from: MemoryRegion,
    to: MemoryRegion,
    qp: QueuePair,
    cq: CompletionQueue,
    _other: QueuePair,
}

impl Connection {
    fn new(sends: &Device, receives: &Device, size: usize) -> Result<Connection, Failure> {
        let (pd, cq) = (sends.protection_domain(), sends.completion_queue(256)?);
        let (other_pd, other_cq) = (receives.protection_domain(), receives.completion_queue(256)?);
        let from = pd.register(vec![7; size], Access::LOCAL)?;
        let to = other_pd.register(vec![0; size], Access::ALL)?;
        let service = Service::Irn;
        let qp = pd.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) })?;
        let other = other_pd.queue_pair(&QpOptions { service, ..QpOptions::new(&other_cq) })?;
        let path = PathOptions { mtu: Some(4_096), ..PathOptions::default() };
        qp.connect(&other.address(), &path)?;
        other.connect(&qp.address(), &path)?;
        Ok(Connection { sends: sends.clone(), receives: receives.clone(), from, to, qp, cq, _other: other })
    }

    /// Sends messages for some time; returns their number.
    fn run(&self) -> Result<u64, Failure> {
        let mut completions = [Completion::BLANK; DEPTH as usize];
        let (mut posted, mut done) = (0, 0);
        let clock = Clock::start();
        while clock.now() < TIME || done < posted {
            while posted < done + DEPTH && clock.now() < TIME {
                let op = SendOp::Write { addr: self.to.addr(), rkey: self.to.rkey() };
                self.qp.post(posted, op, &[self.from.slice(0, self.from.len())?])?;
                posted += 1;
            }
            self.receives.progress()?;
            done += self.cq.poll(&mut completions)? as u64;
        }
        self.sends.progress()?;
        Ok(done)
    }
}

/// Messages per second over all shards.
fn measure(security: Security, shards: usize, size: usize) -> Result<f64, Failure> {
    let config = Config { mode: Mode::Polled, security, ..Config::default() };
    let open = || Device::open_shards_at(([127, 0, 0, 1], 0).into(), shards as u32, config.clone());
    let (sending, receiving) = (open()?, open()?);
    let start = Barrier::new(shards);
    let rates = std::thread::scope(|scope| {
        let run = |core: usize| {
            let (sends, receives, start) = (&sending[core], &receiving[core], &start);
            move || -> Result<f64, Failure> {
                let mut cores = CpuSet::new();
                cores.set(core)?;
                sched_setaffinity(Pid::from_raw(0), &cores)?;
                let connection = Connection::new(sends, receives, size)?;
                start.wait();
                let clock = Clock::start();
                Ok(connection.run()? as f64 / clock.now().as_secs())
            }
        };
        let threads: Vec<_> = (0..shards).map(|core| scope.spawn(run(core))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
            .collect::<Result<Vec<f64>, _>>()
    })?;
    Ok(rates.iter().sum())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// The file of `--record`.
fn recorded() -> Result<Option<String>, Failure> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        ["--record", file] => Ok(Some(file.to_string())),
        _ => Err(format!("`{}`: accepted is --record FILE", words.join(" ")).into()),
    }
}

fn main() -> Result<(), Failure> {
    let file = recorded()?;
    let cores = std::thread::available_parallelism()?.get();
    let counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|count| *count <= cores).collect();
    println!("{:<38}{}{:>10}", "", counts.iter().map(|n| format!("{n:>8} shards")).collect::<String>(), "ratio");
    let mut columns = vec![Column::new("")];
    columns.extend(counts.iter().map(|count| {
        let cores = if *count == 1 { "one core".to_string() } else { format!("{count} cores") };
        Column::new(cores).decimals(2).right()
    }));
    columns.push(Column::new("ratio").decimals(2).right());
    let mut table = Table::new(columns);
    for security in Security::ALL {
        for (size, unit, scale) in [(1 << 20, "GB/s", 1e-9 * f64::from(1 << 20)), (64, "million messages/s", 1e-6)] {
            let mut rates = vec![Vec::new(); counts.len()];
            for _ in 0..TURNS {
                for (rates, count) in rates.iter_mut().zip(&counts) {
                    rates.push(measure(security, *count, size)? * scale);
                }
            }
            let rates: Vec<f64> = rates.into_iter().map(median).collect();
            let text: String = rates.iter().map(|rate| format!("{rate:>15.2}")).collect();
            let label = format!("{}, {size} B, {unit}", security.name());
            let ratio = rates.last().unwrap_or(&0.0) / rates[0];
            println!("{label:<38}{text}{ratio:>10.2}");
            let numbers = rates.iter().chain([&ratio]).map(|number| cells(&[*number]));
            table.rows.push(std::iter::once(label.into()).chain(numbers).collect());
        }
    }
    if let Some(file) = file {
        let mut record = Record::now("Shards of an address", "cargo bench -p rnic-endpoint --bench shards");
        record.put("cores", table);
        record.write(Path::new(&file))?;
    }
    Ok(())
}
