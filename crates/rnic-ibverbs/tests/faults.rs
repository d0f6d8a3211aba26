//! The environment variables: faults, captures, traces.

use crate::common::{alone, both, command, has, library, start};
use std::fs;

#[test]
fn lost_packets_are_repaired_and_repeatable() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let faults = "loss=2%,reorder=1%,duplicate=1%,corrupt=1%,seed=7";
        let [server, client] = both(namespace, "ibv_rc_pingpong -g 0 -n 200 -c -e -s 20000", 18_515, &|command| {
            command.env("RNIC_FAULTS", faults);
        });
        for output in [server, client] {
            assert!(output.contains("200 iters") && !output.contains("invalid data"), "{output}");
        }
    });
}

#[test]
fn a_wrong_variable_is_a_sentence() {
    if !has("ibv_devinfo") {
        return;
    }
    alone(|namespace| {
        for (name, value, part) in [
            ("RNIC_FAULTS", "loss=200%", "RNIC_FAULTS: loss is `200%`; it must be 0% to 100%"),
            ("RNIC_DEVICES", "eth77", "`eth77` is neither an address nor a network interface of this host"),
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
        for part in ["ibv_open_device rnic0 (127.0.0.1)", "ibv_create_qp rc = QP 0x", "lkey 0x", "ibv_close_device"] {
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
