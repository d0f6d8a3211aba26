//! Strangers that send messages to queue pair 1.

use crate::common::{alone_waiting, command, has, start};
use crate::hosts::{self, PORT, two_hosts};
use crate::ladder::await_listener;
use crate::messages;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, sendmsg, socket,
};
use rnic_cm::connection_list::{ENTRY_LEN, Entry, MAX_CONNECTIONS};
use rnic_cm::ip::{self, IpHeader};
use rnic_cm::message::{MadBytes, Path, Request};
use rnic_cm::{Message, Parsed, packet};
use rnic_netns::Pair;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Random numbers: xorshift, with 64 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn local() -> IpAddr {
    [127, 0, 0, 1].into()
}

/// A REQ that is right.
fn request(id: u32, port: u16) -> Message {
    let mut private = [0; ip::LEN];
    IpHeader { source: SocketAddr::new(local(), 1), destination: local() }.emit(&mut private);
    let request = messages::request(0, &private);
    let path = Path { local_gid: ip::gid(local()), remote_gid: ip::gid(local()), ..request.path };
    let (service, remote_response_timeout, local_response_timeout) = (ip::service(0x0106, port), 17, 17);
    Message::Request(Request {
        local_id: id,
        service,
        remote_response_timeout,
        local_response_timeout,
        max_cm_retries: 15,
        path,
        ..request
    })
}

/// Random and nearly right messages arrive at two ends that connect and exchange messages: every connection is still
/// set up and ended.
#[test]
fn strangers_messages_change_nothing() {
    if !has("ucmatose") {
        return;
    }
    alone_waiting(|namespace| {
        let server = start(namespace, command("ucmatose -c 40 -C 20").env("RNIC_TRACE", "1"));
        await_listener(&server);
        let client = start(namespace, &mut command("ucmatose -c 40 -C 20 -s 127.0.0.1"));
        let sent = namespace.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let source = socket.local_addr().unwrap();
            let (mut random, mut sent) = (Random(0x5eed), 0);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(1_500) || sent <= 1_000 {
                for _ in 0..40 {
                    // The server's port is 7174; 7175 has no listener.
                    let message = request(random.next() as u32, 7_175);
                    let mut mad: MadBytes = Parsed { transaction: random.next(), message }.emit();
                    // Other messages, other IDs, and random bytes.
                    mad[17] = 0x10 + (random.next() % 10) as u8;
                    mad[28..32].copy_from_slice(&(random.next() as u32).to_be_bytes());
                    for _ in 0..random.next() % 4 {
                        mad[random.next() as usize % 256] = random.next() as u8;
                    }
                    let mut bytes = packet::emit(&mad, 0, source, local()).unwrap().to_vec();
                    match random.next() % 8 {
                        0 => bytes.truncate(random.next() as usize % packet::LEN),
                        1 => bytes[random.next() as usize % packet::LEN] ^= 1,
                        _ => {}
                    }
                    sent += u32::from(socket.send_to(&bytes, ("127.0.0.1", 4_791)).is_ok());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            sent
        });
        assert!(sent > 1_000, "{sent}");
        for process in [client, server] {
            let output = process.end().success();
            assert!(output.contains("return status 0"), "{output}");
        }
    });
}

/// The socket name of the broker of an address. Its version is the version in `port/message.rs` of the library.
fn broker(ip: &str) -> String {
    let names = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap();
    let names = names.lines().filter_map(|line| line.split_once('@')).map(|(_, name)| name.to_string());
    let is_broker = |name: &String| name.starts_with("rnic/verbs/") && name.ends_with(&format!("/{ip}"));
    names.into_iter().find(is_broker).expect("a broker")
}

/// The manager IDs of the managers of an address.
fn managers(broker: &str) -> Vec<u16> {
    let names = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap();
    let names = names.lines().filter_map(|line| line.split_once(&format!("@{broker}/cm/")));
    names.map(|(_, manager_id)| manager_id.parse().unwrap()).collect()
}

/// A connection to a broker, as a process of the same user can make it.
fn join(broker: &str) -> OwnedFd {
    let link = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let begin = Instant::now();
    while let Err(error) = connect(link.as_raw_fd(), &UnixAddr::new_abstract(broker.as_bytes()).unwrap()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
    link
}

/// Sends a message with descriptors; ignores whether the other end still receives it.
fn send(link: &OwnedFd, message: &[u8], files: &[i32]) {
    let control = [ControlMessage::ScmRights(files)];
    let control = if files.is_empty() { &[][..] } else { &control };
    let _ = sendmsg::<()>(link.as_raw_fd(), &[IoSlice::new(message)], control, MsgFlags::MSG_NOSIGNAL, None);
}

/// Introduces itself as a manager: message 5, with the manager ID.
fn join_manager(manager_id: u16) -> Vec<u8> {
    [&[5][..], &manager_id.to_le_bytes()].concat()
}

/// A forged connection list, with as many entries as the peer shall get DREQs.
fn forged(manager_id: u16, peer: IpAddr, count: u32) -> File {
    let file = File::from(memfd_create(c"forged", MFdFlags::MFD_CLOEXEC).unwrap());
    for at in 0..count {
        let local_id = (at + 1) << 16 | u32::from(manager_id);
        let entry = Entry { local_id, remote_id: 1, remote_qpn: 2, transaction: 3, peer };
        file.write_all_at(&entry.bytes(), u64::from(at) * ENTRY_LEN as u64).unwrap();
    }
    file
}

/// A process of the same user sends arbitrary messages to the broker. No process sends DREQs for the connections of an
/// existing manager, and the hostile process causes only a bounded number of DREQs. The broker keeps no state of the
/// hostile process. The connections of the other processes continue, and their peers are disconnected when these
/// processes end.
#[test]
fn hostile_members_end_no_connections_of_others() {
    two_hosts(|a, b| {
        // The victim of forged DREQs, which has no device.
        let victim = b.namespace.run(|| UdpSocket::bind((Pair::B4, 4_791)).unwrap());
        victim.set_nonblocking(true).unwrap();
        let server = a.serve(PORT, 2);
        let client = a.connect(a, 2);
        let files = || std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
        let before = files();
        let name = a.namespace.run(|| broker(&a.address));
        let managers = a.namespace.run(|| managers(&name));
        assert_eq!(managers.len(), 2, "{managers:?}");
        let peer = Pair::B4;
        a.namespace.run(|| {
            let mut random = Random(0xf00d);
            let zero = File::open("/dev/zero").unwrap();
            let (pipe, _writer) = nix::unistd::pipe().unwrap();
            for turn in 0..600_u32 {
                let link = join(&name);
                match turn % 6 {
                    // The manager ID of a manager that exists, with a forged connection list.
                    0 => {
                        let manager_id = managers[turn as usize / 6 % 2];
                        send(&link, &join_manager(manager_id), &[forged(manager_id, peer, 3).as_raw_fd()]);
                    }
                    // Descriptors that are not connection lists.
                    1 => send(&link, &join_manager(random.next() as u16), &[zero.as_raw_fd()]),
                    2 => send(&link, &join_manager(random.next() as u16), &[pipe.as_raw_fd()]),
                    // Several descriptors, and descriptors with other messages.
                    3 => send(&link, &join_manager(1), &[zero.as_raw_fd(); 20]),
                    4 => send(&link, &[(random.next() % 16) as u8, 1, 0], &[pipe.as_raw_fd(); 3]),
                    // Random bytes.
                    _ => {
                        let bytes: Vec<u8> = (0..random.next() % 40).map(|_| random.next() as u8).collect();
                        send(&link, &bytes, &[]);
                    }
                }
            }
            // A connection list with more entries than the maximum, of a manager that does not exist. Other entries are
            // wrong.
            let link = join(&name);
            let (manager_id, file) = (3, forged(3, peer, 5));
            let wrong = Entry { local_id: 9 << 16 | 4, remote_id: 1, remote_qpn: 2, transaction: 3, peer };
            file.write_all_at(&wrong.bytes(), 5 * ENTRY_LEN as u64).unwrap();
            let beyond = Entry { local_id: 10 << 16 | 3, ..wrong };
            file.write_all_at(&beyond.bytes(), (MAX_CONNECTIONS * ENTRY_LEN) as u64).unwrap();
            send(&link, &join_manager(manager_id), &[file.as_raw_fd()]);
            let joined = recv(link.as_raw_fd(), &mut [0; 8], MsgFlags::empty());
            assert_eq!(joined, Ok(1), "the broker still lets managers join");
        });
        // What the last one has left is sent as often as DREQs are: 16 times.
        let mut received = BTreeMap::<u32, u32>::new();
        let begin = Instant::now();
        while received.len() < 5 || received.values().any(|count| *count < 16) {
            let mut bytes = [0; 2_048];
            if let Ok((len, source)) = victim.recv_from(&mut bytes) {
                let mad = packet::parse(&bytes[..len], source, peer).expect("a MAD");
                let Some(Parsed { message: Message::Disconnect { local_id, .. }, .. }) = Parsed::parse(&mad) else {
                    panic!("another message");
                };
                *received.entry(local_id).or_default() += 1;
            } else {
                assert!(begin.elapsed() < Duration::from_secs(60), "{received:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let expected: BTreeMap<u32, u32> = (1..=5).map(|at| (at << 16 | 3, 16)).collect();
        assert_eq!(received, expected);
        // The broker discards the candidates that it could not take over.
        let begin = Instant::now();
        while files() > before {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} descriptors instead of {before}", files());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!server.output().contains("disconnected"), "{}", server.output());
        client.kill();
        hosts::expect_disconnects(server, 2);
    });
}
