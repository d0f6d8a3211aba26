//! Statistics that processes publish, and processes that publish nonsense.

use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, connect, listen, recv, send, socket,
};
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::statistics::{
    MAX_PROCESSES, MAX_QUEUE_PAIRS, Process, Processes, Silence, VERSION, processes, publish,
};
use rnic_endpoint::{Access, Config, Device, PathOptions, QpOptions, Security, SendOp, Service, Time};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Environment variable with the role of a child.
const ROLE: &str = "RNIC_TEST_STATISTICS";
const ENOUGH: Duration = Duration::from_secs(20);

/// One test at a time: a reader sees the sockets of the whole host, and hostile ones may take all places.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(run: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(run).map(drop)
}

/// Starts this program again in a role, as this user or another, and waits for its line `ready`, which it also returns.
fn child(role: &str, user: Option<u32>) -> (Child, String) {
    // Another user may have no right to the folder of this program; the link of the process needs none.
    let program = if user.is_some() { "/proc/self/exe".into() } else { std::env::current_exe().unwrap() };
    let mut command = Command::new(program);
    command.args(["statistics::a_child_has_a_role", "--exact", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    user.map(|user| command.uid(user).gid(user));
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.contains("ready")).expect("the child is ready");
    (child, line)
}

/// The program of [`child`]; without the environment variable it does nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent passes the role in the environment")]
fn a_child_has_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let text = match role.as_str() {
        "publisher" => {
            let device = Device::open_at("127.0.0.1:0".parse().unwrap(), unprotected()).unwrap();
            publish(&device, "first", start).unwrap();
            let ends = connected(&device);
            println!("ready");
            let _ = std::io::stdin().read(&mut [0]);
            drop((ends, device));
            String::new()
        }
        // Another user, who must not get the report of the process `role`.
        name => {
            let all = processes(ENOUGH).unwrap();
            let stranger = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
            connect(stranger.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
            let got = recv(stranger.as_raw_fd(), &mut [0; 64], MsgFlags::empty());
            format!("ready: {} readable, {} of others, {got:?}", all.found.len(), all.of_others)
        }
    };
    println!("{text}");
}

fn unprotected() -> Config {
    Config { security: Security::None, ..Config::default() }
}

type End = (rnic_endpoint::QueuePair, rnic_endpoint::CompletionQueue, rnic_endpoint::MemoryRegion);

/// Two queue pairs of the device, of which one has written 30,000 bytes to the other.
fn connected(device: &Device) -> [End; 2] {
    let ends = [0, 1].map(|_| {
        let (pd, cq) = (device.protection_domain(), device.completion_queue(16).unwrap());
        let memory = pd.register(vec![0; 30_000], Access::ALL).unwrap();
        (pd.queue_pair(&QpOptions { service: Service::Irn, ..QpOptions::new(&cq) }).unwrap(), cq, memory)
    });
    let path = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
    ends[0].0.connect(&ends[1].0.address(), &path).unwrap();
    ends[1].0.connect(&ends[0].0.address(), &path).unwrap();
    let (from, to) = (&ends[0].2, &ends[1].2);
    let op = SendOp::Write { addr: to.addr(), rkey: to.rkey() };
    ends[0].0.post(1, op, &[from.slice(0, 30_000).unwrap()]).unwrap();
    ends[0].1.wait_one(Time::from_ms(20_000)).unwrap();
    ends
}

fn of(all: Processes, pid: u32) -> Option<Process> {
    all.found.into_iter().find(|process| process.pid == Some(pid))
}

/// A process publishes a device with two queue pairs; when it is killed, it disappears. Another user sees that it
/// exists, and gets no byte.
#[test]
fn a_process_publishes_until_it_ends() {
    let _alone = alone();
    let (mut publisher, _) = child("publisher", None);
    let process = of(processes(ENOUGH).unwrap(), publisher.id()).expect("the child publishes");
    assert_eq!(process.user, nix::unistd::geteuid().as_raw());
    let report = process.report;
    assert_eq!((report.devices.len(), report.is_truncated), (1, false));
    let device = &report.devices[0];
    assert_eq!((device.name.as_str(), device.address.to_string().as_str()), ("first", "127.0.0.1"));
    let (sender, receiver) = match &device.queue_pairs[..] {
        [a, b] if a.bytes_sent > 0 => (a, b),
        [a, b] => (b, a),
        other => panic!("{other:?}"),
    };
    assert!(sender.bytes_sent >= 30_000 && receiver.bytes_received >= 30_000, "{sender:?} {receiver:?}");
    assert_eq!((sender.service.as_str(), sender.state.as_str(), sender.sends), ("irn", "RTS", 0));
    assert_eq!(sender.peer, Some(("127.0.0.1".parse().unwrap(), receiver.qpn)));
    assert!(sender.sender.as_ref().unwrap().rtt_ns.is_some_and(|rtt| rtt > 0));
    if nix::unistd::geteuid().is_root() {
        let (mut other, said) = child(&format!("rnic/stats/{VERSION}/{}", process.id), Some(65_534));
        other.wait().unwrap();
        assert!(said.contains("0 readable") && !said.contains("0 of others") && said.ends_with("Ok(0)"), "{said}");
    }
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    assert_eq!(of(processes(ENOUGH).unwrap(), publisher.id()), None);
}

/// A stopped process does not delay the others for longer than the time limit.
#[test]
fn a_stopped_process_is_silent() {
    let _alone = alone();
    let (mut publisher, _) = child("publisher", None);
    let pid = nix::unistd::Pid::from_raw(publisher.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    // A thread of the process may answer until all threads have stopped.
    let stopped = nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WUNTRACED)).unwrap();
    assert!(matches!(stopped, nix::sys::wait::WaitStatus::Stopped(..)), "{stopped:?}");
    let all = processes(Duration::from_millis(200)).unwrap();
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    let silent = all.silent.iter().find(|silent| silent.pid == Some(pid.as_raw() as u32)).unwrap();
    assert_eq!(silent.why, Silence::NoAnswer);
}

/// This process publishes two devices, one after the other is closed, and more queue pairs than a report has.
#[test]
fn closed_devices_leave_the_report() {
    let _alone = alone();
    let own = || of(processes(ENOUGH).unwrap(), std::process::id()).map(|process| process.report);
    let open = |name| {
        let device = Device::open_at("127.0.0.1:0".parse().unwrap(), unprotected()).unwrap();
        publish(&device, name, start).unwrap();
        device
    };
    let names = || own().unwrap().devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    let (first, second) = (open("first"), open("second"));
    assert_eq!(names(), ["first", "second"]);
    let addr = first.local_addr();
    drop(first);
    assert_eq!(names(), ["second"]);
    // The report has not kept the port.
    Device::open_at(addr, unprotected()).unwrap();
    let (pd, cq) = (second.protection_domain(), second.completion_queue(16).unwrap());
    let options = QpOptions { service: Service::Irn, ..QpOptions::new(&cq) };
    let mut pairs: Vec<_> = (0..MAX_QUEUE_PAIRS).map(|_| pd.queue_pair(&options).unwrap()).collect();
    let count = |report: &rnic_endpoint::statistics::Report| (report.devices[0].queue_pairs.len(), report.is_truncated);
    assert_eq!(count(&own().unwrap()), (MAX_QUEUE_PAIRS, false));
    pairs.push(pd.queue_pair(&options).unwrap());
    assert_eq!(count(&own().unwrap()), (MAX_QUEUE_PAIRS, true));
}

/// Listens at the name of a process that publishes, and does `answer` with each reader.
fn impostor(id: &str, answer: impl Fn(&OwnedFd) + Send + 'static) -> JoinHandle<()> {
    let listener = bound(id);
    std::thread::spawn(move || {
        use std::os::fd::FromRawFd;
        #[expect(unsafe_code, reason = "the descriptor was just made")]
        // SAFETY: `accept` returns a new descriptor, which nothing else owns.
        while let Ok(reader) = accept(listener.as_raw_fd()).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }) {
            answer(&reader);
        }
    })
}

fn bound(id: &str) -> OwnedFd {
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let name = UnixAddr::new_abstract(format!("rnic/stats/{VERSION}/{id}").as_bytes()).unwrap();
    bind(listener.as_raw_fd(), &name).unwrap();
    listen(&listener, Backlog::new(16).unwrap()).unwrap();
    listener
}

fn write(reader: &OwnedFd, bytes: &[u8]) -> bool {
    bytes.chunks(4_096).all(|piece| send(reader.as_raw_fd(), piece, MsgFlags::MSG_NOSIGNAL).is_ok())
}

/// Attacks of processes of the same user: reports without end, of nonsense, with control characters and huge numbers,
/// no answer, and thousands of sockets. The reader ends in time, keeps its memory, and escapes the text.
#[test]
fn hostile_processes_cannot_disturb_a_reader() {
    let _alone = alone();
    rnic_netns::with_pair(1_500, |pair| {
        pair.a.run(|| {
            impostor("endless", |reader| while write(reader, &[b'['; 4_096]) {});
            impostor("garbage", |reader| assert!(write(reader, b"\xff\xfe{}")));
            impostor("deep", |reader| {
                let _ = write(reader, &[b'['; 100_000]);
            });
            impostor("partial", |reader| {
                let _ = write(reader, b"{\"program\":\"x\"}");
            });
            impostor("closes", |_| {});
            impostor("hostile", |reader| {
                let text = "\\u001b]0;x\\u0007\\u202e".repeat(1_000);
                let qp = format!(
                    "{{\"qpn\":4294967295,\"service\":\"{text}\",\"state\":\"\\n\",\"peer\":[\"::1\",0],\
                     \"packets_sent\":18446744073709551615,\"bytes_sent\":0,\"packets_received\":0,\
                     \"bytes_received\":0,\"retransmitted\":0,\"sends\":0,\"receives\":0,\"sender\":null}}"
                );
                let device =
                    format!("{{\"id\":1,\"name\":\"{text}\",\"address\":\"127.0.0.1\",\"queue_pairs\":[{qp}]}}");
                let report =
                    format!("{{\"program\":\"{text}\",\"time_ns\":0,\"devices\":[{device}],\"is_truncated\":false}}");
                write(reader, report.as_bytes());
            });
            let _silent = bound("silent");
            let clock = Clock::start();
            let all = processes(Duration::from_millis(500)).unwrap();
            assert!(clock.now() < Time::from_ms(10_000), "{}", clock.now());
            let [hostile] = &all.found[..] else { panic!("{:?}", all.found) };
            let device = &hostile.report.devices[0];
            let texts = [&hostile.report.program, &device.name, &device.queue_pairs[0].service];
            for text in texts.into_iter().chain([&device.queue_pairs[0].state]) {
                assert!(text.len() < 1_000 && !text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text}");
            }
            let count = |why| all.silent.iter().filter(|silent| silent.why == why).count();
            let counts = [Silence::TooLong, Silence::Invalid, Silence::NoAnswer].map(count);
            assert_eq!(counts, [1, 3, 1], "{:?}", all.silent);

            // Many sockets that do not answer.
            let many: Vec<OwnedFd> = (0..2 * MAX_PROCESSES).map(|number| bound(&format!("many{number}"))).collect();
            let clock = Clock::start();
            let all = processes(Duration::from_millis(200)).unwrap();
            assert!(clock.now() < Time::from_ms(10_000) && all.found.len() <= 1 && all.silent.len() <= MAX_PROCESSES);
            // Beside those of the first part.
            assert_eq!(all.omitted, many.len() + 7 - MAX_PROCESSES);
        });
    });
}
