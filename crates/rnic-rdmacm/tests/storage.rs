//! Storage, virtual machines and DAPL: larger programs of the distribution, each with the settings that it needs.

use crate::common::{alone, await_port, command, has, library, start, start_group};
use crate::ladder::await_listener;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder for the files of a test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = library().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a script of the folder `programs`, which compares data and then prints "verified"; returns what it printed.
/// `{folder}` in `line` stands for a folder for its files, and `{programs}` for the folder of the scripts.
fn verified(line: &str, name: &str) -> String {
    let folder = Folder::new(name);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let line = line.replace("{folder}", folder.0.to_str().unwrap()).replace("{programs}", programs.to_str().unwrap());
    let mut output = String::new();
    alone(|namespace| {
        output = start_group(namespace, &mut command(&line)).end().success();
    });
    assert!(output.ends_with("verified\n"), "{line}: {output}");
    output
}

/// tgt's target and the initiators of libiscsi and qemu. tgt blocks a signal and reads it from a descriptor, so no
/// thread of the library may receive this signal.
#[test]
fn a_disk_is_written_and_read_over_iser() {
    if !["tgtd", "iscsi-inq", "qemu-io"].into_iter().all(has) {
        return;
    }
    let module = Path::new("/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so");
    if !module.exists() {
        eprintln!("skipped: {} is not there: qemu-block-extra is not installed", module.display());
        return;
    }
    let output = verified("unshare --mount sh {programs}/iser.sh {folder}", "iser");
    assert!(output.contains("VIRTUAL-DISK") && output.contains("iops average"), "{output}");
}

/// Memory is registered in chunks while the machine moves, or all of it before.
#[test]
fn a_virtual_machine_of_qemu_moves() {
    if !["qemu-system-x86_64", "python3"].into_iter().all(has) {
        return;
    }
    for mode in ["chunks", "pinned"] {
        let line = format!("python3 {{programs}}/migrate.py {{folder}} {mode}");
        let output = verified(&line, "migrate");
        assert!(output.contains("migrated"), "{output}");
    }
}

/// Monitor, OSD and clients of Ceph; `rados bench` compares what it reads.
#[test]
fn a_cluster_of_ceph_runs() {
    if !["ceph", "ceph-mon", "ceph-osd", "rados", "monmaptool"].into_iter().all(has) {
        return;
    }
    let output = verified("sh {programs}/ceph.sh {folder}", "ceph");
    assert!(output.contains("Total reads made:"), "{output}");
}

/// The tests of DAPL over its provider that connects by `rdma_cm`.
#[test]
fn programs_of_dapl_run() {
    if !has("dtest") || !has("dapltest") {
        return;
    }
    let folder = Folder::new("dapl");
    let conf = folder.0.join("dat.conf");
    fs::write(&conf, "rnic u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"127.0.0.1 0\" \"\"\n").unwrap();
    let with = |line: &str| format!("env DAT_OVERRIDE={} {line}", conf.display());
    alone(|namespace| {
        // The server listens by `rdma_cm` after its client has come by TCP.
        let line = with("dtest -P rnic -b 4096 -B 10");
        let mut server = start(namespace, &mut command(&line));
        await_port(namespace, 15_828, &mut server);
        let client = start(namespace, &mut command(&format!("{line} -h 127.0.0.1"))).end().success();
        for output in [client, server.end().success()] {
            assert!(output.contains("DAPL Test Complete. PASSED"), "{output}");
        }
    });
    alone(|namespace| {
        let server = start(namespace, command(&with("dapltest -T S -D rnic")).env("RNIC_TRACE", "1"));
        await_listener(&server);
        let client = |line: &str| start(namespace, &mut command(&with(line))).end().success();
        // Two threads, whose data are compared.
        let operations = "client RW 4096 1 server RR 4096 1 client SR 256 1 server SR 256 1";
        let line = format!("dapltest -T T -s 127.0.0.1 -D rnic -V -i 100 -t 2 -w 2 {operations}");
        let output = client(&line);
        assert!(output.contains("Total RDMA Read") && output.contains("End of Work"), "{output}");
        // The server ends.
        client("dapltest -T Q -s 127.0.0.1 -D rnic");
        server.end();
    });
}
