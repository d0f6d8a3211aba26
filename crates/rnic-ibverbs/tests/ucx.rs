//! UCX and what stands on it: Open MPI and MPICH.
//!
//! UCX looks for `/dev/infiniband/uverbs0` and for the types of GIDs in sysfs, so these tests give it such files, as
//! `rnic verbs run --files` does.

use crate::common::{await_port, command, has, library, linked, start};
use rnic_netns::Pair;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example `with_files`, which Cargo builds with the tests.
fn with_files() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/with_files")
}

/// A command that sees the files of the device of this address, with UCX set up to use the library only.
fn with_device_at(ip: IpAddr, line: &str) -> Command {
    let mut command = command(&format!("{} {line}", with_files().display()));
    command.env("RNIC_DEVICES", ip.to_string());
    command.env("UCX_TLS", "rc_verbs,ud_verbs,self").env("UCX_NET_DEVICES", "rnic0:1");
    command
}

/// The same with an IPv4 address.
fn with_device(line: &str) -> Command {
    with_device_at(Pair::A4, line)
}

/// Whether the test may change mounts.
fn may_mount() -> bool {
    let output = Command::new(with_files()).arg("true").output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

#[test]
fn ucx_runs_over_its_verbs_transports() {
    if !has("ucx_perftest") || !may_mount() {
        return;
    }
    linked(|pair| {
        let about = start(&pair.a, &mut with_device("ucx_info -d")).end().success();
        assert!(about.contains("Transport: rc_verbs") && about.contains("Transport: ud_verbs"), "{about}");
        let both = "rc_verbs,ud_verbs,self";
        for (ip, transports, test) in [
            (Pair::A4, both, "tag_lat"),
            (Pair::A6, both, "ucp_put_lat"),
            (Pair::A4, both, "ucp_get"),
            (Pair::A6, both, "ucp_fadd"),
            // UCX drops datagrams over IPv4 that do not say that they are.
            (Pair::A4, "ud_verbs,self", "tag_lat"),
            (Pair::A6, "ud_verbs,self", "tag_lat"),
        ] {
            let with = |line: &str| {
                let mut command = with_device_at(ip, line);
                command.env("UCX_TLS", transports);
                command
            };
            let mut server = start(&pair.a, &mut with("ucx_perftest"));
            await_port(&pair.a, 13_337, &mut server);
            let line = format!("ucx_perftest -t {test} -n 200 -w 10 -s 8 127.0.0.1");
            let output = start(&pair.a, &mut with(&line)).end().success();
            assert!(output.contains("Final:"), "{ip} {transports} {test}: {output}");
            server.end().success();
        }
    });
}

/// Compiles the program of the tests with an MPI compiler.
fn mpi_program(compiler: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mpi.c");
    let out = library().join(compiler);
    let compiled = Command::new(compiler).arg("-O1").arg("-o").arg(&out).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    out
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
