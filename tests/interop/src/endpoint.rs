//! rnic's endpoint on a link of the test bed: its port sends and receives through a [`FramePort`].

use crate::frame::{Datagram, Udp};
use crate::host::{Gid, Host};
use crate::port::FramePort;
use rnic_endpoint::port::{Arrival, Batch, Counters, Interest, Limits, Meta, Port, ROCE_PORT, SendError, TrafficClass};
use rnic_endpoint::{Config, Device, Error, Mode, Security};
use rnic_transport::Time;
use std::io;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

/// Opens an rnic device for plain RoCEv2 that sends and receives its packets over the link. `gid` selects which address
/// of [`Host::OURS`] the device has. The device makes progress only while it is polled.
///
/// # Errors
/// Currently none.
pub fn device(frames: FramePort, gid: Gid) -> Result<Device, Error> {
    let port = EndpointPort::new(frames, gid);
    Device::on_port(Box::new(port), Config { mode: Mode::Polled, security: Security::None, ..Config::default() })
}

/// A port of the endpoint that carries its datagrams in Ethernet frames.
#[derive(Debug)]
pub struct EndpointPort {
    frames: FramePort,
    local: SocketAddr,
    /// A datagram that arrived during `wait`; the next `receive` returns it.
    early: Option<Datagram>,
    /// The datagram that the last call of `receive` returned.
    arrived: Option<Datagram>,
    counters: Counters,
}

impl EndpointPort {
    /// Makes a port. `gid` selects which address of [`Host::OURS`] the port has.
    pub fn new(frames: FramePort, gid: Gid) -> EndpointPort {
        let local = SocketAddr::new(gid.address(Host::OURS), ROCE_PORT);
        EndpointPort { frames, local, early: None, arrived: None, counters: Counters::default() }
    }
}

impl Port for EndpointPort {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&self, hash: u32) -> u16 {
        0xc000 | (hash & 0x3fff) as u16
    }

    fn limits(&self) -> Limits {
        Limits { segments: 16, bytes: 65_000 }
    }

    fn longest_datagram(&self, _destination: SocketAddr) -> io::Result<usize> {
        Ok(1_500 - 28)
    }

    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        let bytes: Vec<u8> = batch.data.iter().flat_map(|slice| slice.iter().copied()).collect();
        let mut sent = 0;
        for (id, payload) in bytes.chunks(batch.segment.max(1)).enumerate() {
            let roce = Udp::roce(self.local.ip(), batch.destination.ip(), batch.source_port, payload);
            let datagram = Udp { ip_id: id as u16, tos: batch.traffic_class.byte(), ..roce };
            // A frame that cannot be sent counts as lost, as on a real link.
            if self.frames.send_udp(&datagram).is_err() {
                self.counters.refused += 1;
            }
            sent += 1;
        }
        self.counters.sent_segments += sent as u64;
        Ok(sent)
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.arrived = match self.early.take() {
            Some(datagram) => Some(datagram),
            None => self.frames.recv_udp(Duration::ZERO)?,
        };
        let Some(datagram) = &self.arrived else { return Ok(None) };
        self.counters.received_segments += 1;
        let data = datagram.payload();
        let meta = Meta {
            source: SocketAddr::new(datagram.src, datagram.sport),
            destination: datagram.dst,
            traffic_class: TrafficClass::from_byte(datagram.tos),
            identification: Some(datagram.ip_id),
            is_within_host: false,
            arrived_ns: None,
        };
        Ok(Some(Arrival { meta, segment: data.len(), data }))
    }

    fn wait(&mut self, _interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        if self.early.is_none() {
            let timeout = timeout.map_or(Duration::from_secs(1), |time| Duration::from_nanos(time.as_ps() / 1_000));
            self.early = self.frames.recv_udp(timeout)?;
        }
        Ok(())
    }

    /// The device is polled, so no other thread ever sleeps in `wait`, and nothing needs to be woken.
    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
