//! Results on which programs rely although the manual pages do not state them, and the time until an error is reported.

use crate::common::{alone, await_port, command, compile_once, has, library, program, start};
use rnic_ibverbs::library::NAME;
use std::fs;
use std::path::PathBuf;

#[test]
fn verbs_answer_as_nics_do() {
    let Some(program) = program("semantics") else { return };
    alone(|namespace| {
        let ended = start(namespace, &mut command(program.to_str().unwrap())).end();
        assert_eq!(ended.success().lines().last(), Some("as NICs do"));
    });
}

/// The milliseconds in the output of `rounds`: in all, and of the longest round.
fn milliseconds(output: &str) -> (u64, u64) {
    let words: Vec<&str> = output.split_whitespace().collect();
    let [all, "ms,", "longest", "round", worst, "ms"] = words[..] else { panic!("{output}") };
    (all.parse().unwrap(), worst.parse().unwrap())
}

/// A connection to a silent peer fails after the timeouts and retries of the program, here 8 times 4.2 ms, but not
/// before `RNIC_MIN_TIMEOUT`.
#[test]
fn the_minimum_time_until_an_error_is_a_setting() {
    let Some(program) = program("rounds") else { return };
    alone(|namespace| {
        for (min, expected) in [(Some("0"), 33..400), (Some("900ms"), 900..1_600), (None, 500..1_200)] {
            let mut command = command(&format!("{} 0 10", program.display()));
            min.map(|min| command.env("RNIC_MIN_TIMEOUT", min));
            let (all, _) = milliseconds(&start(namespace, &mut command).end().success());
            assert!(expected.contains(&all), "{min:?}: {all} ms");
        }
    });
}

/// With a timeout of 1.07 s, 400 rounds with 1,600 packets, of which 1 % are lost, do not take 17 s: the retransmission
/// timeout follows from measured round-trip times.
#[test]
fn lost_packets_do_not_cost_the_timeout_of_the_program() {
    let Some(program) = program("rounds") else { return };
    alone(|namespace| {
        let mut command = command(&format!("{} 400 18", program.display()));
        command.env("RNIC_FAULTS", "loss=1%,seed=7");
        let (all, worst) = milliseconds(&start(namespace, &mut command).end().success());
        assert!(all < 4_000, "{all} ms, longest round {worst} ms");
    });
}

/// All addresses of 127.0.0.0/8 are devices if the user lists them, with any device names, and these devices reach each
/// other.
#[test]
fn loopback_addresses_are_devices_with_names() {
    if !has("ibv_devices") || !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let mut list = command("ibv_devices");
        list.env("RNIC_DEVICES", "mlx5_0=127.0.0.1,127.0.0.2,roce=127.3.2.1");
        let output = start(namespace, &mut list).end().success();
        let names: Vec<&str> = output.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["mlx5_0", "rnic1", "roce"], "{output}");
        let line = "ibv_rc_pingpong -g 0 -n 50 -c -d roce";
        let mut server = command(line);
        let mut server = start(namespace, server.env("RNIC_DEVICES", "roce=127.0.0.2"));
        await_port(namespace, 18_515, &mut server);
        let mut client = command(&format!("{line} 127.0.0.1"));
        start(namespace, client.env("RNIC_DEVICES", "roce=127.0.0.3")).end().success();
        server.end().success();
    });
}

/// The library prints the message about a mistake once, although the program asks for devices several times.
#[test]
fn messages_appear_once() {
    let Some(program) = compiled(
        "asks",
        "#include <infiniband/verbs.h>\nint main(void) { for (int i = 0; i < 5; i++) ibv_get_device_list(0); return 0; }",
        &[library().join(NAME)],
    ) else {
        return;
    };
    alone(|namespace| {
        let mut command = command(program.to_str().unwrap());
        let output = start(namespace, command.env("RNIC_FAULTS", "loss=1")).end().success();
        assert_eq!(output.matches("RNIC_FAULTS: loss: `1` has no percent sign").count(), 1, "{output}");
    });
}

/// Compiles a C program with these libraries; `None`, with a message, if the header of libibverbs is not installed.
fn compiled(name: &str, source: &str, arguments: &[PathBuf]) -> Option<PathBuf> {
    program("rounds")?;
    Some(compile_once(name, |cc| {
        let file = library().join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        cc.arg(&file).args(arguments);
    }))
}

const OPENS: &str = "#include <infiniband/verbs.h>\n#include <stdio.h>\n\
    int main(void) { struct ibv_device **list = ibv_get_device_list(0);\n\
    if (!list || !list[0]) { puts(\"uses TCP\"); return 0; }\n\
    struct ibv_context *context = ibv_open_device(list[0]); puts(\"uses RDMA\");\n\
    return context ? ibv_close_device(context) : 3; }";

/// With `RNIC_REQUIRED=1` a program fails if neither it nor its children have opened a device.
#[test]
fn a_program_without_a_device_fails_if_devices_are_required() {
    let Some(program) = compiled("opens", OPENS, &[library().join(NAME)]) else { return };
    let program = program.to_str().unwrap();
    alone(|namespace| {
        let required = |line: &[&str], devices: &str| {
            let mut command = command(line[0]);
            command.args(&line[1..]).env("RNIC_REQUIRED", "1").env("RNIC_DEVICES", devices);
            start(namespace, command.env("LD_PRELOAD", library().join(NAME))).end()
        };
        let (one, none) = ("127.0.0.1", "192.0.2.9");
        assert_eq!(required(&[program], one).success(), "uses RDMA\n");
        let ended = required(&[program], none);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
        assert!(ended.output.contains("uses TCP") && ended.output.contains("RNIC_REQUIRED=1"), "{}", ended.output);
        // A script, its children, and a shell that executes the program in its place.
        assert_eq!(required(&["sh", "-c", "true; \"$0\"; true", program], one).success(), "uses RDMA\n");
        assert_eq!(required(&["sh", "-c", "exec \"$0\"", program], one).success(), "uses RDMA\n");
        assert_eq!(required(&["sh", "-c", "exec \"$0\"", program], none).status.code(), Some(1));
        if has("bash") {
            // Bash ends by `exit`, other shells may not. Its children do not fail on their own account.
            let ended = required(&["bash", "-c", "\"$0\" && echo end", program], none);
            assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
            assert!(ended.output.contains("end") && ended.output.matches("RNIC_REQUIRED=1").count() == 1);
        }
        // A status of its own stays.
        assert_eq!(required(&["sh", "-c", "exit 7"], one).status.code(), Some(7));
    });
}

/// A program that has its own libibverbs, like many Python wheels, gets rnic's devices if the library is loaded first.
/// Otherwise a process that has both libraries prints a warning.
#[test]
fn a_bundled_library_is_overridden_or_reported() {
    let script = library().join("bundled.map");
    fs::write(&script, "IBVERBS_1.1 { global: ibv_*; };").unwrap();
    let versions = PathBuf::from(format!("-Wl,--version-script={}", script.display()));
    let Some(bundled) = compiled(
        "libibverbs-1de1263b.so.1.14",
        "#include <stddef.h>\nvoid *ibv_get_device_list(int *count) { if (count) *count = 0; return NULL; }\n\
         void *ibv_open_device(void *device) { return device; }\n\
         int ibv_close_device(void *context) { return context == NULL; }",
        &["-shared".into(), "-fPIC".into(), versions],
    ) else {
        return;
    };
    // The program was linked with both libraries, and the bundled library precedes rnic's.
    let Some(program) = compiled("bundles", OPENS, &["-Wl,--no-as-needed".into(), bundled, library().join(NAME)])
    else {
        return;
    };
    alone(|namespace| {
        let ended = start(namespace, &mut command(program.to_str().unwrap())).end();
        let warning = "this process also has ";
        assert!(ended.output.contains("uses TCP") && ended.output.contains(warning), "{}", ended.output);
        assert!(ended.output.contains("libibverbs-1de1263b.so.1.14") && ended.output.contains("rnic verbs run"));
        let mut command = command(program.to_str().unwrap());
        let output = start(namespace, command.env("LD_PRELOAD", library().join(NAME))).end().success();
        assert_eq!(output, "uses RDMA\n");
    });
}
