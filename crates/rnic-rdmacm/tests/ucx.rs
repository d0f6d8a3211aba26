//! UCX, and Open MPI and MPICH, which use UCX.
//!
//! UCX looks for `/dev/infiniband/uverbs0` and for the types of GIDs in sysfs, so these tests give it such files, as
//! `rnic verbs run --files` does.
//!
//! Neither Open MPI nor MPICH connects by UCX's `rdmacm`: they exchange the addresses of UCX's workers. Open MPI uses
//! `rdma_cm` through libfabric.

use crate::common::{await_port, await_text, command, has, library, linked, start};
use crate::ladder::await_listener;
use rnic_netns::Pair;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example `with_files`, which Cargo builds with the tests.
pub(crate) fn with_files() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/with_files")
}

/// Whether the test may change mounts.
pub(crate) fn may_mount() -> bool {
    let output = Command::new(with_files()).arg("true").output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
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

/// Compiles the MPI program of the tests with an MPI compiler.
fn mpi_program(compiler: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mpi.c");
    let out = library().join(compiler);
    let compiled = Command::new(compiler).arg("-O1").arg("-o").arg(&out).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    out
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

/// UCX's example of a client and a server, which Debian ships as source; `None`, with a message, if it is not
/// installed.
///
/// Its client ends the connection as soon as it has sent its messages. UCX then discards messages that the server has
/// not handled yet, over any transport, and the server prints "failed to close ep" or "server failed". So the test's
/// version of the client waits for the file `$DONE` first.
fn client_and_server() -> Option<PathBuf> {
    let folder = Path::new("/usr/share/doc/libucx-dev/examples");
    let Ok(source) = std::fs::read_to_string(folder.join("ucp_client_server.c")) else {
        eprintln!("skipped: libucx-dev, or its documentation, is not installed");
        return None;
    };
    let end = "ep_close(ucp_worker, client_ep,";
    let waits = format!("while (access(getenv(\"DONE\"), F_OK)) ucp_worker_progress(ucp_worker);\n    {end}");
    assert_eq!(source.matches(end).count(), 1);
    let (patched, out) = (library().join("ucp_client_server.c"), library().join("ucp_client_server"));
    std::fs::write(&patched, source.replace(end, &waits)).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-O1").arg("-o").arg(&out).arg(patched).arg("-I").arg(folder).args(["-lucp", "-lucs"]);
    let compiled = cc.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(out)
}

#[test]
fn ucx_connects_by_rdma_cm() {
    let Some(program) = client_and_server().filter(|_| may_mount()) else { return };
    linked(|pair| {
        for (family, own, peer) in [("", Pair::A4, Pair::B4), ("-6", Pair::A6, Pair::B6)] {
            // The example keeps one active message, and forgets it when the next one comes.
            for (kind, messages) in [("stream", 20), ("tag", 20), ("am", 1)] {
                let done = library().join(format!("done-{kind}{family}"));
                let with = |line: &str, device| {
                    let mut command = with_device_at(device, line);
                    command.env("RNIC_TRACE", "1").env("DONE", &done);
                    command.env("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm");
                    command.env("UCX_TLS", "rc_verbs,self");
                    command
                };
                let line = format!("{} {family} -c {kind} -i {messages}", program.display());
                // The server runs until it is killed, so it must not keep what it prints.
                let server = start(&pair.b, &mut with(&format!("stdbuf -oL {line}"), peer));
                await_listener(&server);
                let client = start(&pair.a, &mut with(&format!("{line} -a {peer}"), own));
                await_text(&server, &format!("iteration #{messages}\n"));
                std::fs::write(&done, "").unwrap();
                let client = client.end().success();
                assert!(client.contains("rdma_connect to"), "{kind} {family}: {client}");
                server.kill();
            }
        }
    });
}

/// Open MPI over libfabric's provider `verbs`, whose endpoints connect by `rdma_cm`.
#[test]
fn open_mpi_connects_by_rdma_cm() {
    if !has("mpirun.openmpi") || !has("mpicc.openmpi") || !has("fi_pingpong") {
        return;
    }
    let program = mpi_program("mpicc.openmpi");
    let variables = ["LD_LIBRARY_PATH", "RNIC_DEVICES", "RNIC_TRACE", "FI_VERBS_IFACE"];
    linked(|pair| {
        let line = format!(
            "mpirun.openmpi --allow-run-as-root --oversubscribe -np 4 --mca pml cm --mca mtl ofi \
             --mca mtl_ofi_provider_include verbs;ofi_rxm --mca osc ^ucx {}{} 1000000",
            variables.map(|name| format!("-x {name} ")).concat(),
            program.display()
        );
        let mut command = command(&line);
        command.env("RNIC_DEVICES", Pair::A4.to_string()).env("FI_VERBS_IFACE", "veth").env("RNIC_TRACE", "1");
        let output = start(&pair.a, &mut command).end().success();
        assert!(output.contains("4 ranks, 1000000 bytes, 0 wrong"), "{output}");
        assert!(output.contains("RDMA_CM_EVENT_ESTABLISHED"), "{output}");
    });
}
