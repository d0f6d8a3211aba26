//! Cases that test rnic's endpoint against the kernel, with perftest in the guest.
//!
//! Every run ends with a comparison of all bytes at both ends. perftest fills its memory with `rand`, seeded with the
//! time in seconds, so all initial bytes are known. The case reads the memory of perftest's process while perftest
//! waits for rnic.

use crate::bench::{Bench, Case};
use crate::endpoint::device;
use crate::ensure;
use crate::error::{Error, Result};
use crate::fault::{Fault, Faults};
use crate::glibc::random_bytes;
use crate::guest::{COMMAND_PATIENCE, Guest, GuestOptions, HOST_SEEN_BY_GUEST, OUT_OF_BAND_PORT, listener};
use crate::host::{Gid, Host};
use crate::port::FaultControl;
use rnic_endpoint::{Counters, Device};
use rnic_perf::ibverbs::perftest::{Op, Options, Outcome, Role, Session, pattern};
use rnic_transport::Time;
use rnic_verbs::Counters as Verbs;
use std::net::TcpStream;

pub(super) const CASES: &[Case] = &[
    Case { name: "perftest-requester", about: "rnic asks: write, read, send, atomics; IPv4", run: requester },
    Case { name: "perftest-responder", about: "rnic answers: write, read, send, atomics; IPv4", run: responder },
    Case { name: "perftest-latency-requester", about: "rnic as client of the latency tests, IPv6", run: ask_in_turn },
    Case {
        name: "perftest-latency-responder",
        about: "rnic as server of the latency tests, IPv6",
        run: answer_in_turn,
    },
    Case { name: "perftest-not-ready", about: "either side has too few receives", run: not_ready },
    Case { name: "perftest-loss-requester", about: "rnic asks, 2 % lost each way", run: loss_requester },
    Case { name: "perftest-loss-responder", about: "rnic answers, 2 % lost each way", run: loss_responder },
    Case { name: "perftest-loss-atomics", about: "atomics of either side, 2 % lost each way", run: loss_atomics },
    Case { name: "perftest-lost-writing", about: "rnic writes; one packet or ACK is lost", run: lost_writes_asking },
    Case {
        name: "perftest-lost-reading",
        about: "rnic reads; a request or part of an answer is lost",
        run: lost_reads_asking,
    },
    Case {
        name: "perftest-lost-written",
        about: "rnic is written; one packet or ACK is lost",
        run: lost_writes_answering,
    },
    Case { name: "perftest-lost-read", about: "rnic is read; part of an answer is lost", run: lost_reads_answering },
    Case { name: "perftest-icrc", about: "a flipped bit either way: the packet is dropped and comes again", run: icrc },
];

const ALL: [Op; 5] = [Op::Write, Op::Read, Op::Send, Op::FetchAdd, Op::CompareSwap];
/// Message size in bytes. A message has four packets of up to 256 bytes, of which the last one needs padding. Four
/// messages fit in perftest's buffer of one page.
const SIZE: u32 = 1_002;
const PAGE: usize = 4_096;

/// A guest, and rnic's device on the guest's link.
struct Setup {
    guest: Guest,
    device: Device,
    faults: FaultControl,
    gid: Gid,
}

/// A test: its options, rnic's role in it, and additional options of perftest.
struct Run {
    options: Options,
    ours: Role,
    extra: &'static str,
}

impl Run {
    fn new(op: Op, ours: Role) -> Run {
        let size = if op.is_atomic() { 8 } else { SIZE };
        let timeout = Time::from_ms(COMMAND_PATIENCE.as_millis() as u64);
        let options = Options { size, messages: 30, mtu: Some(256), timeout, ..Options::new(op, false) };
        Run { options, ours, extra: "" }
    }

    fn latency(op: Op, ours: Role) -> Run {
        let run = Run::new(op, ours);
        Run { options: Options { latency: true, ..run.options }, ..run }
    }

    fn program(&self) -> String {
        let op = match self.options.op {
            Op::Write => "write",
            Op::Read => "read",
            Op::Send => "send",
            Op::FetchAdd | Op::CompareSwap => "atomic",
        };
        format!("ib_{op}_{}", if self.options.latency { "lat" } else { "bw" })
    }

    fn command(&self, gid: Gid) -> String {
        let Options { op, size, messages, queue_pairs, .. } = self.options;
        let what = match op {
            Op::FetchAdd => "-A FETCH_AND_ADD".to_string(),
            Op::CompareSwap => "-A CMP_AND_SWAP".to_string(),
            _ => format!("-s {size}"),
        };
        let pairs = if self.options.latency { String::new() } else { format!("-q {queue_pairs}") };
        format!("{} -d rxe0 -x {} -F -n {messages} -m 256 {what} {pairs} {}", self.program(), gid.index(), self.extra)
    }
}

impl Setup {
    fn new(bench: &Bench, gid: Gid) -> Result<Setup> {
        let (mut guest, port) = bench.guest_and_port(&GuestOptions::default())?;
        guest.meet(gid.address(Host::OURS))?;
        let faults = port.fault_control();
        Ok(Setup { guest, device: device(port, gid).map_err(failed)?, faults, gid })
    }

    /// Runs a test and compares all bytes. Returns the increase of the counters of rnic's device during the test.
    fn run(&mut self, run: &Run) -> Result<Verbs> {
        self.try_run(run).map_err(|error| Error::Check(format!("`{}`: {error}", run.command(self.gid))))
    }

    fn try_run(&mut self, run: &Run) -> Result<Verbs> {
        let before = self.device.counters();
        let command = run.command(self.gid);
        let start: u32 = self.guest.run("date +%s")?.trim().parse().map_err(failed)?;
        let (job, stream) = match run.ours {
            Role::Client => {
                let job = self.guest.spawn(&command)?;
                self.guest.await_listener(&job, OUT_OF_BAND_PORT)?;
                (job, self.guest.connect()?)
            }
            Role::Server => {
                let (listener, port) = listener()?;
                let job = self.guest.spawn(&format!("{command} -p {port} {HOST_SEEN_BY_GUEST}"))?;
                let stream = self.guest.accept(&listener, &job)?;
                (job, stream)
            }
        };
        let outcome = match self.play(run, stream, start) {
            Ok(outcome) => outcome,
            Err(error) => {
                let printed = self.guest.kill(job, "TERM")?.output;
                return Err(Error::Check(format!("{error}; perftest has printed:\n{printed}")));
            }
        };
        let output = self.guest.finish(job, COMMAND_PATIENCE)?;
        // A perftest server prints no results in most tests, so its successful end is enough.
        let measured = run.ours == Role::Client || output.contains(&format!(" {} ", outcome.size));
        ensure!(measured, "it printed:\n{output}");
        let Counters { verbs, driver, .. } = self.device.counters();
        let corrupted = self.faults.counts().1.corrupted;
        let bad = driver.bad_icrc - before.driver.bad_icrc;
        ensure!(bad == corrupted, "{bad} packets had a wrong ICRC, {corrupted} were changed on the way");
        Ok(since(&before.verbs, &verbs))
    }

    /// Runs rnic's end of a test, and compares all bytes.
    fn play(&mut self, run: &Run, stream: TcpStream, start: u32) -> Result<Outcome> {
        let mut session = Session::start(&self.device, run.options, run.ours, stream).map_err(failed)?;
        session.traffic().map_err(failed)?;
        // After the traffic of ib_write_lat, perftest exits without waiting, so its memory cannot be read.
        if !(run.options.latency && run.options.op == Op::Write) {
            compare(&mut self.guest, run, &session, start)?;
        }
        session.finish().map_err(failed)
    }
}

/// Returns the increase of the counters that the cases use.
fn since(before: &Verbs, now: &Verbs) -> Verbs {
    Verbs {
        retransmitted: now.retransmitted - before.retransmitted,
        duplicates: now.duplicates - before.duplicates,
        naks_sent: now.naks_sent - before.naks_sent,
        naks_received: now.naks_received - before.naks_received,
        rnr_naks_sent: now.rnr_naks_sent - before.rnr_naks_sent,
        rnr_naks_received: now.rnr_naks_received - before.rnr_naks_received,
        timeouts: now.timeouts - before.timeouts,
        ..Verbs::default()
    }
}

/// Compares the memory of both ends with the expected contents after the traffic.
fn compare(guest: &mut Guest, run: &Run, session: &Session, start: u32) -> Result<()> {
    let Options { op, size, messages, queue_pairs, latency, .. } = run.options;
    let (pairs, size) = (queue_pairs as usize, size as usize);
    let asks = run.ours == Role::Client;
    let in_turn = latency && op == Op::Send;
    let slots = if latency { 1 } else { session.layout().slots };
    let stride = session.layout().stride;
    // perftest's memory has a part for each queue pair to send from, and then a part for each queue pair that rnic
    // accesses.
    let base = session.peers()[0].buffer - (pairs * PAGE) as u64;
    let theirs = peek(guest, &run.program(), base, 2 * pairs * PAGE)?;
    let random = (start..start + 60)
        .map(|seed| random_bytes(seed, 2 * pairs * PAGE))
        // The end of the first part never changes, so its bytes identify the second that was the seed.
        .find(|bytes| bytes[PAGE - 16..PAGE] == theirs[PAGE - 16..PAGE])
        .ok_or_else(|| {
            Error::Check(format!("no time since {start} explains perftest's memory: {:02x?}", &theirs[..64]))
        })?;

    for pair in 0..pairs {
        let (near, far) = (pair * PAGE, (pairs + pair) * PAGE);
        // Returns how many messages covered byte `at` of a part.
        let times = |at: usize| {
            let slot = at / stride;
            if slot >= slots || at % stride >= size {
                0
            } else {
                (messages as usize).saturating_sub(slot).div_ceil(slots)
            }
        };
        let word = |bytes: &dyn Fn(usize) -> u8, at: usize| {
            u64::from_le_bytes(std::array::from_fn(|byte| bytes(at / 8 * 8 + byte)))
        };
        // Initial bytes: `source` is the part of the requester from which it sends, and `target` is the part of the
        // responder that the requests access.
        let (source, target): (&dyn Fn(usize) -> u8, &dyn Fn(usize) -> u8) = if asks {
            (&|at| pattern(near + at), &|at| random[far + at])
        } else {
            (&|at| random[near + at], &|at| pattern(far + at))
        };
        let asker = |at: usize| match (op, times(at)) {
            (_, 0) | (Op::Write | Op::Send, _) => source(at),
            (Op::Read | Op::CompareSwap, _) => target(at),
            (Op::FetchAdd, times) => word(target, at).wrapping_add(times as u64 - 1).to_le_bytes()[at % 8],
        };
        let answerer = |at: usize| match (op, times(at)) {
            (_, 0) | (Op::Read | Op::CompareSwap, _) => target(at),
            (Op::Write | Op::Send, _) => source(at),
            (Op::FetchAdd, times) => word(target, at).wrapping_add(times as u64).to_le_bytes()[at % 8],
        };
        let (here, there): (&dyn Fn(usize) -> u8, &dyn Fn(usize) -> u8) =
            if asks { (&asker, &answerer) } else { (&answerer, &asker) };
        if op == Op::Send {
            if asks || in_turn {
                let sent = |at: usize| if times(at) == 0 { random[far + at] } else { pattern(near + at) };
                equal("perftest's receives", &theirs[far..far + PAGE], sent)?;
            }
            if !asks || in_turn {
                let first = messages.saturating_sub(run.options.receives.min(512));
                for number in first..messages {
                    let from = near + if latency { 0 } else { session.layout().offset(number) };
                    let what = format!("message {number}");
                    equal(&what, &session.received(pair, number), |at| random[from + at])?;
                }
            }
            continue;
        }
        if op == Op::CompareSwap && asks && latency {
            // The first operation only returns the current value; each later operation swaps.
            let there = |at: usize| {
                let (was, done) = (word(target, at), u64::from(messages) - 1);
                if at < 8 { was.wrapping_add(done).to_le_bytes()[at] } else { target(at) }
            };
            equal("perftest's memory", &theirs[far..far + PAGE], there)?;
            continue;
        }
        if asks {
            equal("what we asked with", &session.local(pair), here)?;
            equal("perftest's memory", &theirs[far..far + PAGE], there)?;
        } else {
            equal("our memory", &session.remote(pair), here)?;
            equal("what perftest asked with", &theirs[near..near + PAGE], there)?;
        }
    }
    Ok(())
}

fn equal(what: &str, found: &[u8], expected: impl Fn(usize) -> u8) -> Result<()> {
    let wrong = found.iter().enumerate().find(|(at, byte)| **byte != expected(*at));
    match wrong {
        None => Ok(()),
        Some((at, byte)) => {
            let expected = expected(at);
            Err(Error::Check(format!("{what}: byte {at} is {byte:#04x}, not {expected:#04x}")))
        }
    }
}

/// Reads bytes from the memory of a process in the guest.
fn peek(guest: &mut Guest, program: &str, addr: u64, len: usize) -> Result<Vec<u8>> {
    let (page, offset) = (addr / PAGE as u64, addr as usize % PAGE);
    let pages = (offset + len).div_ceil(PAGE);
    let text = guest.run(&format!(
        "dd if=/proc/$(pidof {program})/mem bs={PAGE} skip={page} count={pages} 2>/dev/null | hexdump -v -e '1/1 \"%02x\"'"
    ))?;
    let digits = text.trim().as_bytes();
    ensure!(digits.len() == 2 * pages * PAGE, "the memory of {program} cannot be read: {} digits", digits.len());
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let bytes = bytes.ok_or_else(|| Error::Check(format!("the memory of {program} is no digits")))?;
    Ok(bytes[offset..offset + len].to_vec())
}

fn all(bench: &Bench, ours: Role) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    for op in ALL {
        let run = Run::new(op, ours);
        setup.run(&Run { options: Options { queue_pairs: 2, ..run.options }, ..run })?;
    }
    Ok(())
}

fn requester(bench: &Bench) -> Result<()> {
    all(bench, Role::Client)
}

fn responder(bench: &Bench) -> Result<()> {
    all(bench, Role::Server)
}

fn all_in_turn(bench: &Bench, ours: Role) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv6)?;
    ALL.iter().try_for_each(|op| setup.run(&Run::latency(*op, ours)).map(drop))
}

fn ask_in_turn(bench: &Bench) -> Result<()> {
    all_in_turn(bench, Role::Client)
}

fn answer_in_turn(bench: &Bench) -> Result<()> {
    all_in_turn(bench, Role::Server)
}

fn not_ready(bench: &Bench) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    let run = Run::new(Op::Send, Role::Server);
    let run = Run { options: Options { receives: 1, ..run.options }, ..run };
    lacks_receives(&mut setup, &run, "we never were", |counters| counters.rnr_naks_sent)?;
    // With one receive (`-r 1`) perftest uses its buffer in another order. Messages of this size fill more than half of
    // the buffer, so all of them go to its start, and the order does not matter.
    let run = Run::new(Op::Send, Role::Client);
    let run = Run { options: Options { size: 3_000, ..run.options }, extra: "-r 1", ..run };
    lacks_receives(&mut setup, &run, "perftest never was", |counters| counters.rnr_naks_received)
}

/// Runs a test until a message arrives while the receiver has no receive posted. The receiver posts a receive as soon
/// as it has used one. On a busy machine with a slow sender, a test can therefore pass without such a message.
fn lacks_receives(setup: &mut Setup, run: &Run, who: &str, naks: impl Fn(&Verbs) -> u64) -> Result<()> {
    const TESTS: u32 = 20;
    for _ in 0..TESTS {
        if naks(&setup.run(run)?) > 0 {
            return Ok(());
        }
    }
    Err(Error::Check(format!("{who} without a receive in {TESTS} tests")))
}

fn loss(bench: &Bench, tests: &[(Op, Role)]) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    let (mut dropped, mut again) = (0, 0);
    for (&(op, ours), seed) in tests.iter().zip(1..) {
        setup.faults.set(Faults::loss(seed, 0.02), Faults::loss(seed + 100, 0.02));
        let messages = if op.is_atomic() { 200 } else { 60 };
        let run = Run::new(op, ours);
        let counters = setup.run(&Run { options: Options { messages, ..run.options }, ..run })?;
        let (outgoing, incoming) = setup.faults.counts();
        dropped += outgoing.dropped + incoming.dropped;
        again += counters.retransmitted + counters.duplicates + counters.naks_sent;
    }
    ensure!(dropped > 5, "only {dropped} frames were lost");
    ensure!(again > 0, "{dropped} frames were lost, and nothing came again");
    Ok(())
}

fn loss_requester(bench: &Bench) -> Result<()> {
    loss(bench, &[Op::Write, Op::Read, Op::Send].map(|op| (op, Role::Client)))
}

fn loss_responder(bench: &Bench) -> Result<()> {
    loss(bench, &[Op::Write, Op::Read, Op::Send].map(|op| (op, Role::Server)))
}

fn loss_atomics(bench: &Bench) -> Result<()> {
    loss(bench, &[(Op::FetchAdd, Role::Client), (Op::FetchAdd, Role::Server), (Op::CompareSwap, Role::Server)])
}

/// Runs a test with a fault of the frame with number `number`: a frame that rnic sends if `outgoing`, else a frame that
/// it receives. Only one message is outstanding at a time, so that packets of later messages do not reveal a loss.
fn one_fault(setup: &mut Setup, op: Op, ours: Role, outgoing: bool, number: u64, fault: Fault) -> Result<Verbs> {
    let script = Faults::script([(number, fault)]);
    let (out, into) = if outgoing { (script, Faults::None) } else { (Faults::None, script) };
    setup.faults.set(out, into);
    let run = Run::new(op, ours);
    let run = Run { options: Options { messages: 5, depth: 1, ..run.options }, extra: "-t 1", ..run };
    let counters = setup.run(&run)?;
    let (outgoing, incoming) = setup.faults.counts();
    let faults = outgoing.dropped + outgoing.corrupted + incoming.dropped + incoming.corrupted;
    ensure!(faults == 1, "{op:?}: {faults} frames suffered a fault");
    Ok(counters)
}

/// Repeats a test with rnic as the client, and drops a different packet each time.
fn lose_asking(bench: &Bench, op: Op, packets: [(bool, u64); 4]) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    for (outgoing, number) in packets {
        let counters = one_fault(&mut setup, op, Role::Client, outgoing, number, Fault::Drop)?;
        ensure!(counters.retransmitted > 0, "{op:?}, frame {number}: nothing was retransmitted: {counters:?}");
    }
    Ok(())
}

fn lost_writes_asking(bench: &Bench) -> Result<()> {
    // Drops the first, a middle and the last packet of the first message, and its ACK.
    lose_asking(bench, Op::Write, [(true, 0), (true, 1), (true, 3), (false, 0)])
}

fn lost_reads_asking(bench: &Bench) -> Result<()> {
    // Drops the first request, and three packets of its response.
    lose_asking(bench, Op::Read, [(true, 0), (false, 0), (false, 2), (false, 3)])
}

fn lost_writes_answering(bench: &Bench) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    // A packet after a missing one causes a NAK. A packet that arrives again is a duplicate. If the last packet of a
    // message is lost, neither counter of rnic's device increases.
    for (outgoing, number, naks, duplicates) in
        [(false, 0, true, false), (false, 1, true, false), (false, 3, false, false), (true, 0, false, true)]
    {
        let counters = one_fault(&mut setup, Op::Write, Role::Server, outgoing, number, Fault::Drop)?;
        let seen = counters.naks_sent >= u64::from(naks) && counters.duplicates >= u64::from(duplicates);
        ensure!(seen, "frame {number}: {counters:?}");
    }
    Ok(())
}

fn lost_reads_answering(bench: &Bench) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    for (op, number) in [(Op::Read, 0), (Op::Read, 2), (Op::Read, 3), (Op::FetchAdd, 0)] {
        let counters = one_fault(&mut setup, op, Role::Server, true, number, Fault::Drop)?;
        ensure!(counters.duplicates > 0, "{op:?}, frame {number}: nothing was asked again: {counters:?}");
    }
    Ok(())
}

fn icrc(bench: &Bench) -> Result<()> {
    let mut setup = Setup::new(bench, Gid::Ipv4)?;
    // Bit 400 is in the payload of a Write's packet. The second packet (number 1) has no RETH.
    let counters = one_fault(&mut setup, Op::Write, Role::Client, true, 1, Fault::Flip(400))?;
    ensure!(counters.retransmitted > 0, "the kernel took a changed packet: {counters:?}");
    let counters = one_fault(&mut setup, Op::Write, Role::Server, false, 1, Fault::Flip(400))?;
    ensure!(counters.naks_sent > 0, "we took a changed packet: {counters:?}");
    Ok(())
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Check(error.to_string())
}
