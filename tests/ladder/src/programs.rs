//! The programs of the ladder.

use crate::figures::Reader;
use crate::host::{Place, Ready, Setting};

/// A program of the ladder, or a server and its client.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name in the table.
    pub name: &'static str,
    /// The Debian package of the program; the table shows its version.
    pub package: &'static str,
    /// The executable that must be installed.
    pub needs: &'static str,
    /// The namespaces in which it runs.
    pub place: Place,
    /// When the client may start.
    pub ready: Ready,
    /// Command line of the server. In both command lines, `{peer}` stands for the server's address, `{files}` for the
    /// folder of compiled programs, `{scripts}` for the folder of scripts, and `{folder}` for an empty folder.
    pub server: &'static str,
    /// Command line of the client, or of the program.
    pub client: &'static str,
    /// Whether the server ends when its client ends.
    pub ends: bool,
    /// Texts of which the client's output must contain one to show success.
    pub expect: &'static str,
    /// Settings of the environment.
    pub settings: &'static [Setting<'static>],
    /// The format of the figure in the client's output.
    pub reader: Reader,
    /// The reason why the program cannot run with rnic; empty if it can. If a program without such a reason fails, the
    /// ladder fails.
    pub known: &'static str,
    /// How it runs between two guests with the kernel's RoCE.
    pub kernel: Kernel,
}

/// How a program runs between two guests with the kernel's RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// It does not run between guests, for this reason.
    No(&'static str),
    /// It runs in one of the guests, with this command line.
    Alone(&'static str),
    /// It runs in both guests with this command line, to which the client's line adds the server's address.
    Both(&'static str),
    /// As a server and its client. In both command lines `{peer}` stands for the server's address.
    Pair(&'static str, &'static str),
}

const BASE: Program = Program {
    name: "",
    package: "",
    needs: "",
    place: Place::Link,
    ready: Ready::Alone,
    server: "",
    client: "",
    ends: true,
    expect: "",
    settings: &[],
    reader: Reader::None,
    known: "",
    kernel: Kernel::No(""),
};

/// The port of perftest and of the ping-pongs.
const PORT: Ready = Ready::Port(18_515);

const fn pingpong(name: &'static str, line: &'static str, client: &'static str, kernel: Kernel) -> Program {
    Program {
        name,
        package: "ibverbs-utils",
        needs: name,
        ready: PORT,
        server: line,
        client,
        expect: "usec/iter",
        reader: Reader::Pingpong,
        kernel,
        ..BASE
    }
}

const fn bandwidth(
    name: &'static str, needs: &'static str, server: &'static str, client: &'static str, kernel: Kernel,
) -> Program {
    Program {
        name,
        package: "perftest",
        needs,
        ready: PORT,
        server,
        client,
        expect: "#bytes",
        reader: Reader::PerftestBandwidth,
        kernel,
        ..BASE
    }
}

const fn latency(
    name: &'static str, needs: &'static str, server: &'static str, client: &'static str, kernel: Kernel,
) -> Program {
    Program { reader: Reader::PerftestLatency, ..bandwidth(name, needs, server, client, kernel) }
}

const fn by_name(name: &'static str, server: &'static str, client: &'static str, expect: &'static str) -> Program {
    Program {
        name,
        package: "rdmacm-utils",
        needs: name,
        ready: Ready::Called("rdma_listen"),
        server,
        client,
        expect,
        kernel: Kernel::Pair(server, client),
        ..BASE
    }
}

const fn qperf(name: &'static str, client: &'static str) -> Program {
    Program {
        name,
        package: "qperf",
        needs: "qperf",
        ready: Ready::Port(19_765),
        server: "qperf",
        client,
        ends: false,
        expect: ":",
        reader: Reader::Qperf,
        kernel: Kernel::Pair("qperf", client),
        ..BASE
    }
}

/// fio as the receiver, for as many bytes as the sender sends.
const RECEIVER: &str = "fio --name=receiver --thread --rw=read --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc \
     --bs=64k --size=256m --iodepth=8";
const RECEIVER_OF_SENDS: &str = "fio --name=receiver --thread --rw=read --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc \
     --bs=64k --size=512k --iodepth=8";

/// The same receiver between guests, which are slower.
const RECEIVER_IN_GUEST: &str = "fio --name=receiver --thread --rw=read --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc \
     --bs=64k --size=4m --iodepth=8";

const fn fio(name: &'static str, server: &'static str, client: &'static str, in_guest: &'static str) -> Program {
    Program {
        name,
        package: "fio",
        needs: "fio",
        ready: Ready::Called("rdma_listen"),
        server,
        client,
        expect: "bw=",
        reader: Reader::Fio,
        kernel: Kernel::Pair(RECEIVER_IN_GUEST, in_guest),
        ..BASE
    }
}

/// The reason why qperf's tests of UC and UD do not run on any RoCE device.
const NO_GIDS: &str = "it names no GIDs for UC and UD, without which RoCE has no addresses";

/// Settings with which UCX uses only the RDMA library.
const VERBS: &[Setting<'static>] = &[("UCX_TLS", "rc_verbs,ud_verbs,self"), ("UCX_NET_DEVICES", "rnic0:1")];
const UD: &[Setting<'static>] = &[("UCX_TLS", "ud_verbs,self"), ("UCX_NET_DEVICES", "rnic0:1")];

const fn ucx(
    name: &'static str, client: &'static str, settings: &'static [Setting<'static>], reader: Reader, kernel: Kernel,
) -> Program {
    Program {
        name,
        package: "ucx-utils",
        needs: "ucx_perftest",
        place: Place::Ucx,
        ready: Ready::Port(13_337),
        server: "ucx_perftest",
        client,
        expect: "Final:",
        settings,
        reader,
        kernel,
        ..BASE
    }
}

const fn script(
    name: &'static str, package: &'static str, needs: &'static str, client: &'static str, reader: Reader,
) -> Program {
    Program { name, package, needs, place: Place::Loopback, client, expect: "verified\n", reader, ..BASE }
}

/// A script with a Python package of PyPI. The ladder skips it if Python does not find the package.
const fn wheel(name: &'static str, client: &'static str, expect: &'static str) -> Program {
    Program { name, needs: "python3", place: Place::Loopback, client, expect, ..BASE }
}

/// All programs, from the simplest to those that use most of the interface.
pub const ALL: &[Program] = &[
    Program {
        name: "ibv_devices",
        package: "ibverbs-utils",
        needs: "ibv_devices",
        client: "ibv_devices",
        expect: "rnic0",
        kernel: Kernel::Alone("ibv_devices"),
        ..BASE
    },
    Program {
        name: "ibv_devinfo -v",
        package: "ibverbs-utils",
        needs: "ibv_devinfo",
        client: "ibv_devinfo -v",
        expect: "PORT_ACTIVE",
        kernel: Kernel::Alone("ibv_devinfo -v"),
        ..BASE
    },
    pingpong(
        "ibv_rc_pingpong",
        "ibv_rc_pingpong -g 0 -n 5000 -c",
        "ibv_rc_pingpong -g 0 -n 5000 -c {peer}",
        Kernel::Both("ibv_rc_pingpong -d rxe0 -g 1 -n 300 -c"),
    ),
    pingpong(
        "ibv_uc_pingpong",
        "ibv_uc_pingpong -g 0 -n 5000",
        "ibv_uc_pingpong -g 0 -n 5000 {peer}",
        Kernel::Both("ibv_uc_pingpong -d rxe0 -g 1 -n 300"),
    ),
    pingpong(
        "ibv_ud_pingpong",
        "ibv_ud_pingpong -g 0 -n 5000 -s 1024",
        "ibv_ud_pingpong -g 0 -n 5000 -s 1024 {peer}",
        Kernel::Both("ibv_ud_pingpong -d rxe0 -g 1 -n 300 -s 1024"),
    ),
    pingpong(
        "ibv_srq_pingpong",
        "ibv_srq_pingpong -g 0 -n 5000",
        "ibv_srq_pingpong -g 0 -n 5000 {peer}",
        Kernel::Both("ibv_srq_pingpong -d rxe0 -g 1 -n 300"),
    ),
    bandwidth(
        "ib_send_bw",
        "ib_send_bw",
        "ib_send_bw -n 5000 --report_gbits -F",
        "ib_send_bw -n 5000 --report_gbits -F {peer}",
        Kernel::Both("ib_send_bw -d rxe0 -x 1 -u 18 -F -n 200 --report_gbits"),
    ),
    bandwidth(
        "ib_write_bw",
        "ib_write_bw",
        "ib_write_bw -n 5000 --report_gbits -F",
        "ib_write_bw -n 5000 --report_gbits -F {peer}",
        Kernel::Both("ib_write_bw -d rxe0 -x 1 -u 18 -F -n 200 --report_gbits"),
    ),
    bandwidth(
        "ib_read_bw",
        "ib_read_bw",
        "ib_read_bw -n 5000 --report_gbits -F",
        "ib_read_bw -n 5000 --report_gbits -F {peer}",
        Kernel::Both("ib_read_bw -d rxe0 -x 1 -u 18 -F -n 200 --report_gbits"),
    ),
    bandwidth(
        "ib_atomic_bw",
        "ib_atomic_bw",
        "ib_atomic_bw -n 5000 --report_gbits -F",
        "ib_atomic_bw -n 5000 --report_gbits -F {peer}",
        Kernel::Both("ib_atomic_bw -d rxe0 -x 1 -u 18 -F -n 200 --report_gbits"),
    ),
    Program {
        ready: Ready::Called("rdma_listen"),
        ..bandwidth(
            "ib_write_bw -R",
            "ib_write_bw",
            "ib_write_bw -n 5000 --report_gbits -F -R",
            "ib_write_bw -n 5000 --report_gbits -F -R {peer}",
            Kernel::Pair("ib_write_bw -n 200 --report_gbits -F -R", "ib_write_bw -n 200 --report_gbits -F -R {peer}"),
        )
    },
    latency(
        "ib_send_lat",
        "ib_send_lat",
        "ib_send_lat -n 5000 -F",
        "ib_send_lat -n 5000 -F {peer}",
        Kernel::Both("ib_send_lat -d rxe0 -x 1 -u 18 -F -n 200"),
    ),
    latency(
        "ib_write_lat",
        "ib_write_lat",
        "ib_write_lat -n 5000 -F",
        "ib_write_lat -n 5000 -F {peer}",
        Kernel::Both("ib_write_lat -d rxe0 -x 1 -u 18 -F -n 200"),
    ),
    latency(
        "ib_read_lat",
        "ib_read_lat",
        "ib_read_lat -n 5000 -F",
        "ib_read_lat -n 5000 -F {peer}",
        Kernel::Both("ib_read_lat -d rxe0 -x 1 -u 18 -F -n 200"),
    ),
    latency(
        "ib_atomic_lat",
        "ib_atomic_lat",
        "ib_atomic_lat -n 5000 -F",
        "ib_atomic_lat -n 5000 -F {peer}",
        Kernel::Both("ib_atomic_lat -d rxe0 -x 1 -u 18 -F -n 200"),
    ),
    Program {
        ready: Ready::Called("rdma_listen"),
        ..latency(
            "ib_send_lat -R",
            "ib_send_lat",
            "ib_send_lat -n 5000 -F -R",
            "ib_send_lat -n 5000 -F -R {peer}",
            Kernel::Pair("ib_send_lat -n 200 -F -R", "ib_send_lat -n 200 -F -R {peer}"),
        )
    },
    by_name("rping", "rping -s -a {peer} -v -V -C 100", "rping -c -a {peer} -v -V -C 100", "rdma-ping-99:"),
    by_name("ucmatose", "ucmatose -c 20 -C 50 -S 3000", "ucmatose -c 20 -C 50 -S 3000 -s {peer}", "return status 0"),
    by_name("udaddy", "udaddy -c 4", "udaddy -c 4 -s {peer}", "return status 0"),
    by_name("rdma_client", "rdma_server", "rdma_client -s {peer}", "rdma_client: end 0"),
    qperf("qperf rc_bw", "qperf -t 1 -cm1 {peer} rc_bw"),
    qperf("qperf rc_lat", "qperf -t 1 -cm1 {peer} rc_lat"),
    qperf("qperf rc_rdma_read_bw", "qperf -t 1 -cm1 {peer} rc_rdma_read_bw"),
    qperf("qperf rc_rdma_write_poll_lat", "qperf -t 1 -cm1 {peer} rc_rdma_write_poll_lat"),
    Program { known: NO_GIDS, ..qperf("qperf uc_bw", "qperf -t 1 -cm1 {peer} uc_bw") },
    Program { known: NO_GIDS, ..qperf("qperf ud_bw", "qperf -t 1 -cm1 {peer} ud_bw") },
    fio(
        "fio, verb write",
        RECEIVER,
        "fio --name=sender --thread --rw=write --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc --bs=64k --size=256m --iodepth=8 --verb=write",
        "fio --name=sender --thread --rw=write --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc --bs=64k --size=4m --iodepth=8 --verb=write",
    ),
    fio(
        "fio, verb read",
        RECEIVER,
        "fio --name=sender --thread --rw=write --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc --bs=64k --size=256m --iodepth=8 --verb=read",
        "fio --name=sender --thread --rw=write --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc --bs=64k --size=4m --iodepth=8 --verb=read",
    ),
    // fio's Sends have no flow control, and no retry if the receiver is not ready. Therefore the sender sends at most
    // as many messages as the receiver posts receives at the beginning. Between the guests it sends more, so that the
    // table shows the kernel's behaviour in this case.
    fio(
        "fio, verb send",
        RECEIVER_OF_SENDS,
        "fio --name=sender --thread --rw=write --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc --bs=64k --size=512k --iodepth=8 --verb=send",
        "fio --name=sender --thread --rw=write --ioengine=rdma --hostname={peer} --port=16789 --mem=malloc --bs=64k --size=4m --iodepth=8 --verb=send",
    ),
    Program {
        name: "librpma: read, write, flush",
        package: "librpma-dev",
        needs: "cc",
        ready: Ready::Called("rdma_listen"),
        server: "{files}/rpma {peer}",
        client: "{files}/rpma client {peer}",
        expect: "read, written and flushed",
        kernel: Kernel::Pair("rpma {peer}", "rpma client {peer}"),
        ..BASE
    },
    wheel(
        "ibverbs of PyPI: Write, Read, Send, atomics",
        "python3 {scripts}/wheel_ibverbs.py",
        "written, read, sent and counted",
    ),
    wheel(
        "peercache of PyPI: pages by Read and Write",
        "python3 {scripts}/wheel_peercache.py",
        "pages read and written",
    ),
    script(
        "tgt, libiscsi and qemu-io: a disk over iSER",
        "tgt",
        "tgtd",
        "unshare --mount sh {scripts}/iser.sh {folder}",
        Reader::Iscsi,
    ),
    script(
        "Ceph: monitor, OSD and rados bench",
        "ceph-osd",
        "ceph-osd",
        "sh {scripts}/ceph.sh {folder}",
        Reader::Rados,
    ),
    script(
        "qemu: migration, memory registered in chunks",
        "qemu-system-x86",
        "qemu-system-x86_64",
        "python3 {scripts}/migrate.py {folder} chunks",
        Reader::Migration,
    ),
    script(
        "qemu: migration, memory pinned",
        "qemu-system-x86",
        "qemu-system-x86_64",
        "python3 {scripts}/migrate.py {folder} pinned",
        Reader::Migration,
    ),
    Program {
        name: "dtest",
        package: "dapl2-utils",
        needs: "dtest",
        place: Place::Loopback,
        ready: Ready::Port(15_828),
        server: "env DAT_OVERRIDE={files}/dat.conf dtest -P rnic -b 65536 -B 10",
        client: "env DAT_OVERRIDE={files}/dat.conf dtest -P rnic -b 65536 -B 10 -h {peer}",
        expect: "PASSED",
        ..BASE
    },
    Program {
        name: "dapltest",
        package: "dapl2-utils",
        needs: "dapltest",
        place: Place::Loopback,
        ready: Ready::Called("rdma_listen"),
        server: "env DAT_OVERRIDE={files}/dat.conf dapltest -T S -D rnic",
        client: "env DAT_OVERRIDE={files}/dat.conf dapltest -T P -s {peer} -D rnic -i 5000 -p 16 RW 65536 1",
        ends: false,
        expect: "End of Work",
        reader: Reader::Dapl,
        ..BASE
    },
    Program {
        name: "fi_pingpong -p verbs",
        package: "libfabric-bin",
        needs: "fi_pingpong",
        ready: Ready::Port(47_592),
        server: "fi_pingpong -p verbs -e msg -I 1000 -S 64",
        client: "fi_pingpong -p verbs -e msg -I 1000 -S 64 {peer}",
        expect: "=",
        kernel: Kernel::Pair(
            "fi_pingpong -p verbs -e msg -I 100 -S 64",
            "fi_pingpong -p verbs -e msg -I 100 -S 64 {peer}",
        ),
        ..BASE
    },
    Program {
        name: "pyverbs' own tests",
        package: "python3-pyverbs",
        needs: "python3",
        place: Place::Mpi,
        client: "/usr/bin/python3 tests/run_tests.py --dev rnic0",
        expect: "OK",
        kernel: Kernel::Alone(
            "cd /tmp && cp -r /usr/share/doc/rdma-core/tests . && gunzip -f tests/*.gz && python3.11 tests/run_tests.py --dev rxe0",
        ),
        ..BASE
    },
    Program {
        name: "ucx_info -d",
        package: "ucx-utils",
        needs: "ucx_info",
        place: Place::Ucx,
        client: "ucx_info -d",
        expect: "Transport: rc_verbs",
        kernel: Kernel::Alone("UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_info -d"),
        settings: VERBS,
        ..BASE
    },
    ucx(
        "ucx_perftest tag_lat, rc_verbs",
        "ucx_perftest -t tag_lat -n 5000 -w 500 -s 64 {peer}",
        VERBS,
        Reader::UcxLatency,
        Kernel::Pair(
            "UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest",
            "UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest -t tag_lat -n 200 -w 20 -s 64 {peer}",
        ),
    ),
    ucx(
        "ucx_perftest tag_bw, rc_verbs",
        "ucx_perftest -t tag_bw -n 5000 -w 500 -s 65536 {peer}",
        VERBS,
        Reader::UcxBandwidth,
        Kernel::Pair(
            "UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest",
            "UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest -t tag_bw -n 200 -w 20 -s 65536 {peer}",
        ),
    ),
    ucx(
        "ucx_perftest tag_lat, ud_verbs",
        "ucx_perftest -t tag_lat -n 5000 -w 500 -s 64 {peer}",
        UD,
        Reader::UcxLatency,
        Kernel::Pair(
            "UCX_TLS=ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest",
            "UCX_TLS=ud_verbs,self UCX_NET_DEVICES=rxe0:1 ucx_perftest -t tag_lat -n 200 -w 20 -s 64 {peer}",
        ),
    ),
    Program {
        name: "Open MPI: ring and allreduce of 100 MB on 4 ranks",
        package: "openmpi-bin",
        needs: "mpirun.openmpi",
        place: Place::Mpi,
        client: "mpirun.openmpi --allow-run-as-root --oversubscribe -np 4 --mca pml ucx --mca osc ^ucx -x LD_LIBRARY_PATH -x RNIC_DEVICES \
                 -x UCX_TLS -x UCX_NET_DEVICES {files}/mpicc.openmpi 100000000",
        expect: "4 ranks, 100000000 bytes, 0 wrong",
        kernel: Kernel::Alone(
            "UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 mpirun.openmpi --allow-run-as-root --oversubscribe -np 4 --mca pml ucx \
             --mca osc ^ucx -x UCX_TLS -x UCX_NET_DEVICES /usr/bin/mpicc.openmpi 1000000",
        ),
        settings: VERBS,
        ..BASE
    },
    Program {
        name: "MPICH: ring and allreduce of 100 MB on 4 ranks",
        package: "mpich",
        needs: "mpiexec.mpich",
        place: Place::Mpi,
        client: "mpiexec.mpich -np 4 {files}/mpicc.mpich 100000000",
        expect: "4 ranks, 100000000 bytes, 0 wrong",
        kernel: Kernel::Alone(
            "UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 MPIR_CVAR_NOLOCAL=1 mpiexec.mpich -np 4 /usr/bin/mpicc.mpich 1000000",
        ),
        settings: &[("UCX_TLS", "rc_verbs,ud_verbs,self"), ("UCX_NET_DEVICES", "rnic0:1"), ("MPIR_CVAR_NOLOCAL", "1")],
        ..BASE
    },
];
