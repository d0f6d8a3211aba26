//! Measures the layer's time per chunk, without packets: the NIC completes each request immediately, and passes the
//! message to the peer. For RoGUE, the time is the requester's, which does all the work. For multipath, it is the time
//! of both ends, with one acknowledgement for each `batch` chunks.
//!
//! To count instructions, run `valgrind --tool=callgrind --toggle-collect='*transfer*' BENCH --test CASE`, and divide
//! the result by the number of chunks of one run.
#![allow(missing_docs, reason = "a program, not a library")]

use divan::Bencher;
use divan::counter::ItemsCount;
use rnic_host::multipath::{self, Builtin, PathPolicy};
use rnic_host::{Control, Link, rogue};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, Completion, CqId, Data, Device, DeviceConfig, DeviceInfo, Event, ForeignMemory, MrId, MrInfo, Opcode, Pd,
    QpInfo, QpInit, Qpn, RecvRequest, SendFlags, SendOp, SendRequest, Sge, Status, Transition, Verbs, VerbsError,
};
use std::collections::{BTreeMap, VecDeque};

/// Number of chunks of one run.
const CHUNKS: u64 = 2_048;
const MTU: u32 = 4_096;

fn main() {
    divan::main();
}

/// A message that a NIC "sent": the peer's queue pair, and its contents if they are inline.
struct Sent {
    to: Qpn,
    op: SendOp,
    len: u32,
    inline: [u8; 128],
}

/// A NIC that completes each request when it is posted.
struct Quick {
    /// Creates all objects.
    device: Device,
    now: Time,
    regions: Vec<MrInfo>,
    peers: BTreeMap<Qpn, Qpn>,
    /// Receives of each queue pair: work request id and address.
    receives: BTreeMap<Qpn, VecDeque<(u64, u64)>>,
    sent: Vec<Sent>,
    done: VecDeque<Completion>,
}

impl Quick {
    fn new(seed: u64) -> Quick {
        Quick {
            device: Device::new(DeviceConfig { seed, ..DeviceConfig::default() }),
            now: Time::ZERO,
            regions: Vec::new(),
            peers: BTreeMap::new(),
            receives: BTreeMap::new(),
            sent: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// Receives a message of the peer.
    fn deliver(&mut self, sent: &Sent) {
        let Some((wr_id, addr)) = self.receives.get_mut(&sent.to).and_then(VecDeque::pop_front) else { return };
        let (to, imm, opcode) = match sent.op {
            SendOp::WriteImm { addr, imm, .. } => (addr, Some(imm), Opcode::RecvWithImmediate),
            _ => (addr, None, Opcode::Recv),
        };
        if let Some(region) = self.regions.iter().find(|region| (region.addr..region.addr + region.len).contains(&to)) {
            let inline = &sent.inline[..(sent.len as usize).min(128)];
            let place = (to - region.addr) as usize;
            self.device.write_memory(region.id, place, inline).unwrap();
        }
        let (status, byte_len, qpn, time) = (Status::Success, sent.len, sent.to, self.now);
        self.done.push_back(Completion { wr_id, status, opcode, byte_len, imm, qpn, time, ..Completion::BLANK });
    }
}

impl Verbs for Quick {
    fn now(&self) -> Time {
        self.now
    }
    fn query_device(&self) -> DeviceInfo {
        Verbs::query_device(&self.device)
    }
    fn create_pd(&mut self) -> Result<Pd, VerbsError> {
        Verbs::create_pd(&mut self.device)
    }
    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        Verbs::destroy_pd(&mut self.device, pd)
    }
    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError> {
        let info = Verbs::register(&mut self.device, pd, bytes, addr, access)?;
        self.regions.push(info);
        Ok(info)
    }
    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        Verbs::register_foreign(&mut self.device, pd, memory, addr, access)
    }
    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        Verbs::deregister(&mut self.device, id)
    }
    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        Verbs::read_memory(&mut self.device, id, offset, out)
    }
    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        Verbs::write_memory(&mut self.device, id, offset, data)
    }
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        Verbs::create_cq(&mut self.device, capacity)
    }
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        Verbs::destroy_cq(&mut self.device, cq)
    }
    fn poll_cq(&mut self, _cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        let count = out.len().min(self.done.len());
        for (to, from) in out.iter_mut().zip(self.done.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }
    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        Verbs::create_qp(&mut self.device, pd, init)
    }
    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError> {
        if let Transition::ReadyToReceive(connection) = transition {
            self.peers.insert(qpn, connection.peer_qpn);
        }
        Verbs::modify_qp(&mut self.device, qpn, transition)
    }
    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        Verbs::query_qp(&self.device, qpn)
    }
    fn set_rate(&mut self, _qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError> {
        Ok(rate)
    }
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        Verbs::destroy_qp(&mut self.device, qpn)
    }
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        let mut inline = [0; 128];
        let len = match request.data {
            Data::Inline(bytes) => {
                inline[..bytes.len()].copy_from_slice(bytes);
                bytes.len() as u32
            }
            Data::Gather(sges) => sges.iter().map(|sge| sge.len).sum(),
            Data::Bind(_) => 0,
        };
        if request.op.takes_receive() {
            self.sent.push(Sent { to: self.peers[&qpn], op: request.op, len, inline });
        }
        if request.flags.signaled {
            let (wr_id, status, opcode, time) = (request.wr_id, Status::Success, request.op.completion(), self.now);
            self.done.push_back(Completion { wr_id, status, opcode, qpn, time, ..Completion::BLANK });
        }
        Ok(())
    }
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        let addr = request.scatter.first().map_or(0, |sge| sge.addr);
        self.receives.entry(qpn).or_default().push_back((request.wr_id, addr));
        Ok(())
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

/// A Write of `len` bytes, whose memory the NIC never touches.
fn write(len: u64) -> ([Sge; 1], SendOp) {
    ([Sge { addr: 1 << 40, len: len as u32, lkey: 1 }], SendOp::Write { addr: 1 << 41, rkey: 1 })
}

struct Rogue {
    nic: Quick,
    channel: rogue::Channel,
}

impl Rogue {
    fn new(control: &str) -> Rogue {
        let mut nic = Quick::new(1);
        let pd = nic.create_pd().unwrap();
        let config = rogue::Config { control: Control::named(control, &[]).unwrap(), ..rogue::Config::default() };
        let mut channel = rogue::Channel::open(&mut nic, pd, config).unwrap();
        let own = channel.address();
        channel.connect(&mut nic, Link::new("10.0.0.2:4791".parse().unwrap(), MTU), own, Time::ZERO).unwrap();
        Rogue { nic, channel }
    }

    #[inline(never)]
    fn transfer(&mut self, requests: u64, len: u64) {
        let (sges, op) = write(len);
        let mut found = [Completion::BLANK; 4];
        for wr_id in 0..requests {
            let request = SendRequest { wr_id, op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
            self.channel.post_send(&request).unwrap();
            while self.channel.poll(&mut found) == 0 {
                self.nic.now += Time::from_us(50);
                let now = self.nic.now;
                self.channel.progress(&mut self.nic, now).unwrap();
            }
        }
    }
}

/// Chunks of 64 KB of one long Write.
#[divan::bench(args = ["rogue", "timely", "none"])]
fn rogue_chunks(bencher: Bencher<'_, '_>, control: &str) {
    let mut rogue = Rogue::new(control);
    bencher.counter(ItemsCount::new(CHUNKS)).bench_local(|| rogue.transfer(CHUNKS / 1_024, 1_024 << 16));
}

/// Requests of 1 KB, each signalled by the application.
#[divan::bench]
fn rogue_small_requests(bencher: Bencher<'_, '_>) {
    let mut rogue = Rogue::new("rogue");
    bencher.counter(ItemsCount::new(CHUNKS)).bench_local(|| rogue.transfer(CHUNKS, 1_024));
}

struct Multipath {
    nics: [Quick; 2],
    ends: [multipath::Channel; 2],
}

impl Multipath {
    fn new(control: &str, paths: u32, batch: u32) -> Multipath {
        let mut nics = [1, 2].map(Quick::new);
        let mut ends = nics.each_mut().map(|nic| {
            let pd = nic.create_pd().unwrap();
            let control = Control::named(control, &[]).unwrap();
            let max_window = u64::from(batch) << 15;
            let config = multipath::Config { paths, control, max_window, ..multipath::Config::default() };
            let hooks = Box::new(Builtin::new(PathPolicy::PowerOfTwo));
            multipath::Channel::open(nic, pd, config, hooks).unwrap()
        });
        let addresses = ends.each_ref().map(multipath::Channel::address);
        for side in 0..2 {
            let link = Link::new("10.0.0.2:4791".parse().unwrap(), MTU);
            ends[side].connect(&mut nics[side], link, &addresses[1 - side], Time::ZERO).unwrap();
        }
        Multipath { nics, ends }
    }

    #[inline(never)]
    fn transfer(&mut self, requests: u64, len: u64) {
        let (sges, op) = write(len);
        let mut found = [Completion::BLANK; 4];
        for wr_id in 0..requests {
            let request = SendRequest { wr_id, op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
            self.ends[0].post_send(&request).unwrap();
            while self.ends[0].poll(&mut found) == 0 {
                for side in 0..2 {
                    self.nics[side].now += Time::from_us(10);
                    let now = self.nics[side].now;
                    self.ends[side].progress(&mut self.nics[side], now).unwrap();
                    let mut sent = std::mem::take(&mut self.nics[side].sent);
                    sent.iter().for_each(|sent| self.nics[1 - side].deliver(sent));
                    sent.clear();
                    self.nics[side].sent = sent;
                }
            }
        }
    }
}

/// Chunks of 32 KB on 32 paths, some of which are outstanding, and are acknowledged together.
#[divan::bench(args = [1, 4, 16, 64])]
fn multipath_chunks_by_batch(bencher: Bencher<'_, '_>, batch: u32) {
    let mut multipath = Multipath::new("none", 32, batch);
    bencher.counter(ItemsCount::new(CHUNKS)).bench_local(|| multipath.transfer(2, (CHUNKS / 2) << 15));
}

/// The same on many paths, 16 chunks outstanding.
#[divan::bench(args = [2, 32, 256])]
fn multipath_chunks_by_paths(bencher: Bencher<'_, '_>, paths: u32) {
    let mut multipath = Multipath::new("none", paths, 16);
    bencher.counter(ItemsCount::new(CHUNKS)).bench_local(|| multipath.transfer(2, (CHUNKS / 2) << 15));
}
