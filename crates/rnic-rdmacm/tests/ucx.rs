//! UCX and Open MPI where they connect by `rdma_cm`. Neither Open MPI nor MPICH connects by UCX's `rdmacm`: they
//! exchange the addresses of UCX's workers. Open MPI uses `rdma_cm` through libfabric.

use crate::common::{await_text, has, library, linked, may_mount, mpi_program, start, with_device};
use crate::ladder::await_listener;
use rnic_netns::Pair;
use std::path::{Path, PathBuf};
use std::process::Command;

/// UCX's example of a client and a server, which Debian has as source; `None`, with a message, if it is not there.
///
/// Its client ends the connection as soon as it has sent its messages. UCX then discards messages that the server has
/// not handled yet, over any transport: the server says "failed to close ep" or "server failed". So the client that is
/// compiled here waits for the file `$DONE` first.
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
        let v4 = ["", &Pair::A4.to_string(), &Pair::B4.to_string()].map(str::to_string);
        let v6 = ["-6", &Pair::A6.to_string(), &Pair::B6.to_string()].map(str::to_string);
        for [family, own, peer] in [v4, v6] {
            // The example keeps one active message, and forgets it when the next one comes.
            for (kind, messages) in [("stream", 20), ("tag", 20), ("am", 1)] {
                let done = library().join(format!("done-{kind}{family}"));
                let with = |line: &str, device: &str| {
                    let mut command = with_device(line);
                    command.env("RNIC_DEVICES", device).env("RNIC_TRACE", "1").env("DONE", &done);
                    command.env("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm");
                    command.env("UCX_TLS", "rc_verbs,self").env("UCX_NET_DEVICES", "rnic0:1");
                    command
                };
                let line = format!("{} {family} -c {kind} -i {messages}", program.display());
                // The server runs until it is killed, so it must not keep what it prints.
                let server = start(&pair.b, &mut with(&format!("stdbuf -oL {line}"), &peer));
                await_listener(&server);
                let client = start(&pair.a, &mut with(&format!("{line} -a {peer}"), &own));
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
        let mut command = crate::common::command(&line);
        command.env("RNIC_DEVICES", Pair::A4.to_string()).env("FI_VERBS_IFACE", "veth").env("RNIC_TRACE", "1");
        let output = start(&pair.a, &mut command).end().success();
        assert!(output.contains("4 ranks, 1000000 bytes, 0 wrong"), "{output}");
        assert!(output.contains("RDMA_CM_EVENT_ESTABLISHED"), "{output}");
    });
}
