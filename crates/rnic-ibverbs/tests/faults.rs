//! The environment variables: faults, captures, traces.

use crate::common::{alone, await_port, both, command, has, library, program, start};
use std::fs;

/// All messages arrive whole. The program has both ends of its connections, and destroys none before all completions
/// have come: if one of two processes ends earlier, as in a ping-pong, and its last ACK is lost, the other process gets
/// an error.
#[test]
fn lost_packets_are_repaired() {
    let Some(program) = program("many") else { return };
    alone(|namespace| {
        let mut command = command(&format!("{} 64 2500", program.display()));
        command.env("RNIC_FAULTS", "loss=2%,reorder=1%,duplicate=1%,corrupt=1%,seed=7");
        let output = start(namespace, &mut command).end().success();
        assert_eq!(output.lines().last(), Some("64 queue pairs, 64 messages"));
    });
}

/// The bandwidth of `ib_write_bw` in MB/s under loss, and the services of the queue pairs of server and client. Server
/// and client may use different transports.
fn write(transports: [&str; 2]) -> (f64, [String; 2]) {
    let mut result = (0.0, <[String; 2]>::default());
    alone(|namespace| {
        let traces = [0, 1].map(|at| library().join(format!("transport-{at}")));
        let line = "ib_write_bw -n 150 -s 65536 -F";
        let [mut server, mut client] = [0, 1].map(|at| {
            let _ = fs::remove_file(&traces[at]);
            let mut command = command(if at == 0 { line.to_string() } else { format!("{line} 127.0.0.1") }.as_str());
            command.env("RNIC_TRANSPORT", transports[at]).env("RNIC_TRACE", &traces[at]);
            command.env("RNIC_FAULTS", "loss=2%,seed=5");
            command
        });
        let mut serving = start(namespace, &mut server);
        await_port(namespace, 18_515, &mut serving);
        let output = start(namespace, &mut client).end().success();
        serving.end().success();
        let numbers = output.lines().skip_while(|line| !line.contains("#bytes")).nth(1).unwrap();
        result.0 = numbers.split_whitespace().nth(3).unwrap().parse().unwrap();
        result.1 = traces.map(|trace| {
            let text = fs::read_to_string(trace).unwrap();
            let line = text.lines().find(|line| line.contains("ibv_destroy_qp")).unwrap();
            line.rsplit(' ').next().unwrap().to_string()
        });
    });
    result
}

/// Two ends that both support IRN agree to use it, and IRN retransmits lost packets. If only one end supports IRN, both
/// use RC. The test does not check the gain in bandwidth, because a busy machine changes it; docs/results/verbs.md
/// reports it.
#[test]
fn irn_is_agreed_on_and_withstands_loss() {
    if !has("ib_write_bw") {
        return;
    }
    let (rc, services) = write(["rc", "rc"]);
    assert_eq!(services, ["rc", "rc"]);
    let (irn, services) = write(["irn", "irn"]);
    assert_eq!(services, ["irn", "irn"]);
    eprintln!("2 % loss: RC {rc} MB/s, IRN {irn} MB/s");
    for transports in [["rc", "irn"], ["irn", "rc"]] {
        assert_eq!(write(transports).1, ["rc", "rc"], "{transports:?}");
    }
}

#[test]
fn a_wrong_variable_is_a_sentence() {
    if !has("ibv_devinfo") {
        return;
    }
    alone(|namespace| {
        for (name, value, part) in [
            ("RNIC_FAULTS", "loss=200%", "RNIC_FAULTS: loss: `200%` is not a percentage; it must be 0% to 100%"),
            ("RNIC_FAULTS", "loss=1", "it could mean 1%, or the probability 1, which is 100%"),
            ("RNIC_MIN_TIMEOUT", "2", "RNIC_MIN_TIMEOUT is `2`; it must be a time of 0 to 3600 s with its unit"),
            ("RNIC_DEVICES", "a/b=127.0.0.1", "RNIC_DEVICES: `a/b` cannot be the name of a device"),
            ("RNIC_DEVICES", "eth77", "`eth77` is neither an address nor a network interface of this host"),
            ("RNIC_PCAP", "/nowhere/file", "RNIC_PCAP: cannot write /nowhere/file: No such file or directory"),
        ] {
            let ended = start(namespace, command("ibv_devinfo").env(name, value)).end();
            assert!(!ended.status.success() && ended.output.contains(part), "{}", ended.output);
        }
    });
}

#[test]
fn packets_are_captured_and_verbs_traced() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let (pcap, trace) = (library().join("pingpong-%p.pcapng"), library().join("trace"));
        both(namespace, "ibv_rc_pingpong -g 0 -n 10 -e", 18_515, &|command| {
            command.env("RNIC_PCAP", &pcap).env("RNIC_TRACE", &trace);
        });
        let trace = fs::read_to_string(&trace).unwrap();
        for part in [
            "ibv_open_device rnic0 (127.0.0.1)",
            "ibv_query_port 1",
            "ibv_create_qp rc = QP 0x",
            "lkey 0x",
            "ibv_req_notify_cq ",
            "ibv_post_recv to QP 0x",
            "ibv_post_send to QP 0x",
            "ibv_get_cq_event = CQ ",
            "ibv_ack_cq_events CQ ",
            "ibv_destroy_comp_channel fd ",
            "ibv_dealloc_pd PD 1",
            "ibv_close_device",
        ] {
            assert!(trace.matches(part).count() >= 2, "{part}: {trace}");
        }
        let files = fs::read_dir(library())
            .unwrap()
            .flatten()
            .filter(|file| file.file_name().to_string_lossy().starts_with("pingpong-"));
        let mut count = 0;
        for file in files {
            // 20 messages of 4,096 bytes cross the wire in each direction, and their ACKs.
            let bytes = fs::read(file.path()).unwrap();
            assert!(bytes.len() > 20 * 4_096 && bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "{}", bytes.len());
            count += 1;
        }
        assert_eq!(count, 2);
    });
}
