//! UCX and what stands on it: Open MPI and MPICH.
//!
//! UCX looks for `/dev/infiniband/uverbs0`, and takes GIDs for IPv6 addresses because sysfs does not say what they are.
//! So these tests give it such a file, and a device with an IPv6 address.

use crate::common::{await_port, has, linked, may_mount, mpi_program, start};
use rnic_netns::Pair;
use std::process::Command;

/// A command with UCX set up to use the library only, and with a device of an IPv6 address.
fn with_device(line: &str) -> Command {
    let mut command = crate::common::with_device(line);
    command.env("RNIC_DEVICES", Pair::A6.to_string());
    command.env("UCX_TLS", "rc_verbs,ud_verbs,self").env("UCX_NET_DEVICES", "rnic0:1");
    command
}

#[test]
fn ucx_runs_over_its_verbs_transports() {
    if !has("ucx_perftest") || !may_mount() {
        return;
    }
    linked(|pair| {
        let about = start(&pair.a, &mut with_device("ucx_info -d")).end().success();
        assert!(about.contains("Transport: rc_verbs") && about.contains("Transport: ud_verbs"), "{about}");
        for test in ["tag_lat", "ucp_put_lat", "ucp_get", "ucp_fadd"] {
            let mut server = start(&pair.a, &mut with_device("ucx_perftest"));
            await_port(&pair.a, 13_337, &mut server);
            let line = format!("ucx_perftest -t {test} -n 200 -w 10 -s 8 127.0.0.1");
            let output = start(&pair.a, &mut with_device(&line)).end().success();
            assert!(output.contains("Final:"), "{test}: {output}");
            server.end().success();
        }
    });
}

#[test]
fn open_mpi_runs() {
    if !has("mpirun.openmpi") || !has("mpicc.openmpi") || !has("ucx_info") || !may_mount() {
        return;
    }
    let program = mpi_program("mpicc.openmpi");
    let variables = ["LD_LIBRARY_PATH", "RNIC_DEVICES", "UCX_TLS", "UCX_NET_DEVICES"].map(|name| format!("-x {name} "));
    linked(|pair| {
        let line = format!(
            "mpirun.openmpi --allow-run-as-root --oversubscribe -np 4 --mca pml ucx --mca osc ^ucx {}{} 10000000",
            variables.concat(),
            program.display()
        );
        let output = start(&pair.a, &mut with_device(&line)).end().success();
        assert!(output.contains("4 ranks, 10000000 bytes, 0 wrong"), "{output}");
    });
}

#[test]
fn mpich_runs() {
    if !has("mpiexec.mpich") || !has("mpicc.mpich") || !has("ucx_info") || !may_mount() {
        return;
    }
    let program = mpi_program("mpicc.mpich");
    linked(|pair| {
        let mut command = with_device(&format!("mpiexec.mpich -np 4 {} 10000000", program.display()));
        // Without shared memory, so that the messages take the network.
        command.env("MPIR_CVAR_NOLOCAL", "1");
        let output = start(&pair.a, &mut command).end().success();
        assert!(output.contains("4 ranks, 10000000 bytes, 0 wrong"), "{output}");
    });
}
