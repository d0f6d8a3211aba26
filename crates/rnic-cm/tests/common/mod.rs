//! Two hosts, and what they ask and reply.
#![allow(dead_code, reason = "each test program uses a part")]

use rnic_cm::manager::{Limits, padded};
use rnic_cm::message::{About, Path, Reject, Reply, Request, private};
use rnic_cm::{Manager, Message, ip};
use std::net::IpAddr;

/// The service that the requests are for.
pub(crate) const SERVICE: u64 = ip::service(0x0106, 7_174);

/// The addresses of two hosts.
pub(crate) fn addresses() -> [IpAddr; 2] {
    ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap())
}

/// The marks of the managers of [`managers`].
pub(crate) const MANAGER_IDS: [u16; 2] = [50_000, 50_001];

/// A manager on each of the two hosts.
pub(crate) fn managers() -> [Manager; 2] {
    let ips = addresses();
    [0, 1].map(|at| Manager::new(ips[at], MANAGER_IDS[at], Limits::default(), [at as u8; 32]))
}

/// A request of a host whose device has this GUID.
pub(crate) fn request(guid: u64, private: &[u8]) -> Request {
    let [a, b] = addresses();
    Request {
        local_id: 0,
        service: SERVICE,
        ca_guid: guid,
        qkey: 0,
        qpn: 0x111,
        responder_resources: 4,
        initiator_depth: 4,
        remote_response_timeout: 0,
        transport: 0,
        flow_control: false,
        psn: 7,
        local_response_timeout: 0,
        retry_count: 7,
        pkey: 0xffff,
        mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 0,
        srq: false,
        path: Path {
            lids: [0xffff; 2],
            local_gid: ip::gid(a),
            remote_gid: ip::gid(b),
            flow_label: 0,
            rate: 7,
            traffic_class: 0,
            hop_limit: 64,
            service_level: 0,
            subnet_local: false,
            ack_timeout: 17,
        },
        private: padded(private).unwrap(),
    }
}

/// The reply of a host whose device has this GUID.
pub(crate) fn reply(guid: u64, private: &[u8]) -> Reply {
    Reply {
        local_id: 0,
        remote_id: 0,
        qkey: 0,
        qpn: 0x222,
        psn: 8,
        responder_resources: 4,
        initiator_depth: 4,
        ack_delay: 15,
        flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        ca_guid: guid,
        private: padded(private).unwrap(),
    }
}

/// A rejection without private data.
pub(crate) fn reject(local_id: u32, remote_id: u32, about: About, reason: u16) -> Message {
    let (info, private) = ([0; 72], [0; private::REJECT]);
    Message::Reject(Reject { local_id, remote_id, about, reason, info_len: 0, info, private })
}
