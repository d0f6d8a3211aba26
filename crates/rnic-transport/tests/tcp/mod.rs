//! Checks TCP against its RFCs. Every number was computed by hand. Segments have 1,000 bytes, so a window of 4,000
//! bytes is a window of 4 segments.

mod connection;
mod receiver;
mod sender;

use rnic_transport::{FlowConfig, Psn, TcpConfig, Time};

fn us(us: u64) -> Time {
    Time::from_us(us)
}

fn config(tcp: TcpConfig) -> FlowConfig {
    // The PSN wraps early in every test.
    FlowConfig { mtu: 1_000, timeouts: None, first_psn: Psn::new(Psn::MODULUS - 2), tcp, ..FlowConfig::default() }
}
