//! Strangers that send messages to queue pair 1.

use crate::common::{alone, command, has, start};
use crate::ladder::await_listener;
use rnic_cm::ip::{self, IpHeader};
use rnic_cm::message::{MadBytes, Path, Request, private};
use rnic_cm::{Message, Parsed, packet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
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
    let mut private = [0; private::REQUEST];
    IpHeader { source: SocketAddr::new(local(), 1), destination: local() }.emit(&mut private);
    Message::Request(Request {
        local_id: id,
        service: ip::service(0x0106, port),
        ca_guid: 0,
        qkey: 0,
        qpn: 0x777,
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 17,
        transport: 0,
        flow_control: false,
        psn: 0,
        local_response_timeout: 17,
        retry_count: 7,
        pkey: 0xffff,
        mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: false,
        path: Path {
            lids: [0xffff; 2],
            local_gid: ip::gid(local()),
            remote_gid: ip::gid(local()),
            flow_label: 0,
            rate: 7,
            traffic_class: 0,
            hop_limit: 64,
            service_level: 0,
            subnet_local: false,
            ack_timeout: 17,
        },
        private,
    })
}

/// Random and nearly right messages reach both sides, while they connect and exchange messages: every connection is
/// still set up and ends.
#[test]
fn strangers_messages_change_nothing() {
    if !has("ucmatose") {
        return;
    }
    alone(|namespace| {
        let server = start(namespace, command("ucmatose -c 40 -C 20").env("RNIC_TRACE", "1"));
        await_listener(&server);
        let client = start(namespace, &mut command("ucmatose -c 40 -C 20 -s 127.0.0.1"));
        let sent = namespace.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let source = socket.local_addr().unwrap();
            let (mut random, mut sent) = (Random(0x5eed), 0);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(1_500) {
                for _ in 0..40 {
                    // The server's port is 7174; 7175 is nobody's.
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
