//! Tests registered memory other than vectors: buffers of any type, memory maps, and memory that processes share.

use memmap2::{Advice, MmapMut, MmapOptions};
use rnic_endpoint::{
    Access, CompletionQueue, Config, Device, Error, MemoryRegion, Pages, PathOptions, ProtectionDomain, QpOptions,
    QueuePair, SendOp, SharedMemory, Status, Time,
};
use std::io::{Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const PATIENCE: Time = Time::from_ms(20_000);

struct End {
    device: Device,
    cq: CompletionQueue,
    domain: ProtectionDomain,
    qp: QueuePair,
}

fn pair() -> [End; 2] {
    let end = || {
        let device = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default()).unwrap();
        let cq = device.completion_queue(16).unwrap();
        let domain = device.protection_domain();
        let qp = domain.queue_pair(&QpOptions::new(&cq)).unwrap();
        End { device, cq, domain, qp }
    };
    let [a, b] = [end(), end()];
    a.qp.connect(&b.qp.address(), &PathOptions::default()).unwrap();
    b.qp.connect(&a.qp.address(), &PathOptions::default()).unwrap();
    [a, b]
}

impl End {
    fn carry_out<A, B>(
        &self, op: impl Fn(u64, u32) -> SendOp, local: &MemoryRegion<A>, remote: &MemoryRegion<B>, len: usize,
    ) {
        self.qp.post(1, op(remote.addr(), remote.rkey()), &[local.slice(0, len).unwrap()]).unwrap();
        self.cq.wait_one(PATIENCE).unwrap();
    }
}

const WRITE: fn(u64, u32) -> SendOp = |addr, rkey| SendOp::Write { addr, rkey };
const READ: fn(u64, u32) -> SendOp = |addr, rkey| SendOp::Read { addr, rkey };
const ADD: fn(u64, u32) -> SendOp = |addr, rkey| SendOp::FetchAdd { addr, rkey, add: 5 };

/// A buffer of a program's own type, which tells when it is dropped.
struct Own(Vec<u8>, Arc<AtomicU64>);

impl AsRef<[u8]> for Own {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Own {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn buffers_of_any_type_are_registered_and_come_back() {
    const LEN: usize = 100_000;
    let [a, b] = pair();
    let dropped = Arc::new(AtomicU64::new(0));
    let local = a.domain.register_buffer(vec![3; LEN].into_boxed_slice(), Access::LOCAL).unwrap();
    let remote = b.domain.register_buffer(Own(vec![0; LEN], dropped.clone()), Access::ALL).unwrap();
    a.carry_out(WRITE, &local, &remote, LEN);
    remote.with(|bytes| assert!(bytes.len() == LEN && bytes.iter().all(|byte| *byte == 3)));
    remote.with_mut(|bytes| bytes[..8].copy_from_slice(&40_u64.to_ne_bytes()));
    a.carry_out(ADD, &local, &remote, 8);
    local.with(|bytes| assert_eq!(bytes[..8], 40_u64.to_ne_bytes()));
    a.carry_out(READ, &local, &remote, LEN);
    let mut word = [0; 8];
    local.read(0, &mut word).unwrap();
    assert_eq!(u64::from_ne_bytes(word), 45);
    local.write(LEN - 1, &[9]).unwrap();
    assert!(matches!(local.write(LEN, &[9]), Err(Error::Range { .. })));
    assert_eq!(local.into_buffer().unwrap()[LEN - 2..], [3, 9]);
    let own = remote.into_buffer().unwrap();
    assert_eq!((own.0[9], dropped.load(Ordering::Relaxed)), (3, 0));
    drop(b.domain.register_buffer(own, Access::ALL).unwrap());
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_private_map_with_huge_pages_is_a_buffer() {
    const LEN: usize = 4 << 20;
    let [a, b] = pair();
    let map = || -> MmapMut {
        let map = MmapOptions::new().len(LEN).map_anon().unwrap();
        // It fails if the kernel has no transparent huge pages.
        let _ = map.advise(Advice::HugePage);
        map
    };
    let local = a.domain.register_buffer(map(), Access::LOCAL).unwrap();
    let remote = b.domain.register_buffer(map(), Access::ALL).unwrap();
    local.with_mut(|bytes| bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 / 8) as u8));
    a.carry_out(WRITE, &local, &remote, LEN);
    let [local, remote] = [local, remote].map(|region| region.into_buffer().unwrap());
    assert!(local[..] == remote[..] && local[5] != local[100]);
}

/// A buffer whose destructor uses the device that had it.
struct Curious(Vec<u8>, Device, Arc<Mutex<Vec<bool>>>);

impl AsRef<[u8]> for Curious {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Curious {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.2.lock().unwrap().push(self.1.event().is_none());
    }
}

#[test]
fn a_buffers_destructor_may_use_the_device() {
    let [a, _] = pair();
    let seen = Arc::default();
    let buffer = Curious(vec![0; 8], a.device.clone(), Arc::clone(&seen));
    drop(a.domain.register_buffer(buffer, Access::LOCAL).unwrap());
    assert_eq!(*seen.lock().unwrap(), [true]);
}

#[test]
fn a_peer_writes_to_memory_that_another_device_and_another_process_see() {
    const LEN: usize = 1 << 20;
    let [a, b] = pair();
    let memory = SharedMemory::create(LEN, Pages::Usual).unwrap();
    let remote = b.domain.register_shared(&memory, Access::ALL).unwrap();
    let local = a.domain.register(b"through the network".repeat(1_000), Access::LOCAL).unwrap();
    let len = local.len();
    a.carry_out(WRITE, &local, &remote, len);

    // Another map of the same memory, as in another process with a device of its own.
    let theirs = SharedMemory::open(memory.file().try_clone().unwrap().into()).unwrap();
    let third = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default()).unwrap();
    let seen = third.protection_domain().register_shared(&theirs, Access::LOCAL).unwrap();
    assert_ne!(seen.addr(), remote.addr());
    let mut bytes = vec![0; len];
    seen.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, local.with(<[u8]>::to_vec));

    // Other processes, which have the file as their input and output.
    let file = || memory.file().try_clone().unwrap();
    file().seek(SeekFrom::Start(0)).unwrap();
    let head = Command::new("head").args(["-c", "19"]).stdin(Stdio::from(file())).output().unwrap();
    assert_eq!(head.stdout, b"through the network");
    file().seek(SeekFrom::Start(8)).unwrap();
    let print = Command::new("printf").arg("our").stdout(Stdio::from(file())).status().unwrap();
    assert!(print.success());
    a.carry_out(READ, &local, &remote, len);
    local.with(|bytes| assert_eq!(&bytes[..19], b"through our network"));

    // The memory stays as long as a region or a handle of it is there.
    drop((memory, theirs, remote));
    seen.read(8, &mut bytes[..3]).unwrap();
    assert_eq!(&bytes[..3], b"our");
}

#[test]
fn shared_memory_of_a_dropped_region_is_not_accessed() {
    let [a, b] = pair();
    let memory = SharedMemory::create(4_096, Pages::Usual).unwrap();
    let remote = b.domain.register_shared(&memory, Access::ALL).unwrap();
    let local = a.domain.register(vec![1; 64], Access::LOCAL).unwrap();
    let op = SendOp::Write { addr: remote.addr(), rkey: remote.rkey() };
    drop(remote);
    a.qp.post(1, op, &[local.slice(0, 64).unwrap()]).unwrap();
    let error = a.cq.wait_one(PATIENCE).unwrap_err();
    assert!(matches!(error, Error::Failed { status: Status::RemoteAccess, .. }), "{error}");
}
