//! The simulated network for which a workload is generated.

use rnic_transport::BitRate;

/// The properties of a simulated network that the generation of its flows depends on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Network {
    /// Number of hosts; host ids count from 0.
    pub hosts: u32,
    /// Rate of each host's link; one entry per host.
    pub host_rate: Vec<BitRate>,
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Bytes on the link in addition to each data packet's payload: headers and trailers of plain RoCEv2 (62) and the
    /// frame gap (20).
    pub wire_overhead: u32,
    /// For each host, a number of the switch to which it is attached. Only traffic with a `locality` needs it;
    /// otherwise the list may be empty.
    pub leaf: Vec<u32>,
    /// Number of planes; 0 and 1 both stand for one. Each plane has the same number of consecutive hosts, and no path
    /// leads from one plane to another.
    pub planes: u32,
    /// For each host, the number of its pod; empty if the network has no pods.
    pub pod: Vec<u32>,
}

impl Network {
    /// Number of bytes on a link, with headers and frame gaps, for a flow of `bytes` of payload without
    /// retransmissions.
    pub(crate) fn wire_bytes(&self, bytes: u64) -> u128 {
        let packets = bytes.div_ceil(u64::from(self.mtu.max(1)));
        u128::from(bytes) + u128::from(packets) * u128::from(self.wire_overhead)
    }

    /// Number of planes, at least 1.
    pub(crate) fn planes(&self) -> u32 {
        self.planes.max(1)
    }

    /// Number of hosts of each plane.
    pub(crate) fn hosts_of_plane(&self) -> u32 {
        self.hosts / self.planes()
    }

    /// Checks that a flow stays in its plane; the error says why it cannot run.
    pub(crate) fn check_plane(&self, src: u32, dst: u32) -> Result<(), String> {
        let plane = |host: u32| host / self.hosts_of_plane().max(1);
        match plane(src) == plane(dst) {
            true => Ok(()),
            false => Err(format!(
                "a flow from host {src} in plane {} to host {dst} in plane {} has no path; accepted: hosts of one plane",
                plane(src),
                plane(dst)
            )),
        }
    }

    /// Checks that the values describe a network on which traffic can run; the error says why it cannot.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.hosts < 2 {
            return Err(format!("traffic needs at least 2 hosts; the fabric has {}", self.hosts));
        }
        if self.host_rate.len() != self.hosts as usize || self.host_rate.contains(&BitRate::default()) {
            return Err(format!("each of the {} hosts needs a link with a rate above 0", self.hosts));
        }
        if self.mtu == 0 {
            return Err("the MTU is 0 B; a packet carries at least 1 B".to_string());
        }
        Ok(())
    }
}
