//! Resolves the meshes of probes of a run.

use crate::mesh;
use rnic_fabric::ProbeSpec;
use rnic_spec::{Mesh, RunSpec};
use rnic_transport::headers::ROCE_DATA;

/// The meshes of probes of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ResolvedMeshes {
    /// The meshes as the run specifies them.
    pub(crate) meshes: Vec<Mesh>,
    /// Number of pairs of each mesh.
    pub(crate) pairs: Vec<usize>,
    /// The probes of all meshes.
    pub(crate) probes: Vec<ProbeSpec>,
}

/// Resolves the meshes of `run` on a fabric with `hosts` hosts.
pub(super) fn resolve(run: &RunSpec, hosts: u32) -> ResolvedMeshes {
    let meshes = &run.fabric.meshes;
    // A frame of a probe has the headers of a RoCE packet.
    let probes = |meshes: &[Mesh]| mesh::probes(meshes, hosts, ROCE_DATA, run.seed);
    ResolvedMeshes {
        meshes: meshes.clone(),
        pairs: meshes.iter().map(|mesh| probes(std::slice::from_ref(mesh)).len()).collect(),
        probes: probes(meshes),
    }
}

/// Passes the settings of meshes to `put`, for the run's results.
pub(super) fn put(meshes: &[Mesh], put: &mut impl FnMut(&str, String)) {
    for mesh in meshes {
        let stack = mesh.stack.map_or(String::new(), |stack| {
            format!("; delay in the hosts' software: median {}, 99th percentile {}", stack.median, stack.p99)
        });
        let rto = mesh.rto.map_or(String::new(), |rto| format!("; retransmitted after {rto}"));
        put(
            "mesh",
            format!(
                "{}: every {}, {} in priority {}{rto}{stack}",
                mesh.name, mesh.interval, mesh.payload, mesh.priority
            ),
        );
    }
}
