//! Programs of the distribution that run with the library, in the order of the number of functions that they use.

use crate::common::{alone, await_port, both, command, has, linked, start};
use rnic_netns::Pair;

/// The TCP port of perftest and of the ping-pongs.
const PORT: u16 = 18_515;

#[test]
fn devices_are_listed() {
    if !has("ibv_devices") {
        return;
    }
    alone(|namespace| {
        let list = start(namespace, &mut command("ibv_devices")).end().success();
        assert!(list.contains("rnic0"), "{list}");
        let about = start(namespace, &mut command("ibv_devinfo -v")).end().success();
        for part in ["PORT_ACTIVE", "max_mtu:\t\t4096", "::ffff:127.0.0.1, RoCE v2", "link_layer:\t\tEthernet"] {
            assert!(about.contains(part), "{part}: {about}");
        }
    });
}

#[test]
fn pingpongs_run() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        for kind in ["rc", "uc", "ud", "srq"] {
            for events in ["", " -e"] {
                let check = if kind == "rc" { " -c" } else { "" };
                let line = format!("ibv_{kind}_pingpong -g 0 -n 200{events}{check}");
                for output in both(namespace, &line, PORT, &|_| {}) {
                    assert!(output.contains("200 iters") || output.contains("400 iters"), "{line}: {output}");
                    assert!(!output.contains("invalid data"), "{line}: {output}");
                }
            }
        }
    });
}

/// The numbers of perftest's line of results; they must be above 0.
fn result(output: &str) -> Vec<f64> {
    let mut lines = output.lines().skip_while(|line| !line.contains("#bytes"));
    let line = lines.nth(1).unwrap_or_else(|| panic!("no results: {output}"));
    line.split_whitespace().map(|number| number.parse().unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn perftest(lines: &[&str]) {
    if !has(lines[0].split(' ').next().unwrap()) {
        return;
    }
    alone(|namespace| {
        for line in lines {
            let [_, client] = both(namespace, line, PORT, &|_| {});
            let numbers = result(&client);
            assert!(numbers.len() >= 4 && numbers[2] > 0.0, "{line}: {client}");
        }
    });
}

#[test]
fn perftest_measures_bandwidth() {
    perftest(&[
        "ib_send_bw -n 200",
        "ib_write_bw -n 200",
        "ib_read_bw -n 200",
        "ib_atomic_bw -n 200",
        "ib_atomic_bw -n 200 -A CMP_AND_SWAP",
        "ib_send_bw -n 200 -c UD",
        "ib_write_bw -n 200 -c UC",
        "ib_write_bw -n 100 -q 4",
        "ib_send_bw -n 200 --use-srq",
        "ib_send_bw -n 200 -e",
        "ib_write_bw -n 200 --use_old_post_send",
        "ib_send_bw -n 200 -b -s 100000",
    ]);
}

#[test]
fn perftest_measures_latency() {
    perftest(&[
        "ib_send_lat -n 200",
        "ib_write_lat -n 200",
        "ib_read_lat -n 200",
        "ib_atomic_lat -n 200",
        "ib_send_lat -n 200 -c UD",
        "ib_send_lat -n 200 -c UC -s 5000",
        "ib_send_lat -n 200 -e",
        "ib_write_lat -n 200 -s 70000",
    ]);
}

/// Programs on two hosts, which are two containers: each has its own addresses, and packets go over a link. The tests
/// use IPv4 and IPv6.
#[test]
fn two_hosts_talk_over_a_link() {
    if !has("ib_write_bw") {
        return;
    }
    linked(|pair| {
        for (device, peer) in [(Pair::A4, Pair::B4), (Pair::A6, Pair::B6)] {
            for line in ["ib_write_bw -n 200 --report_gbits", "ib_send_lat -n 200", "ib_read_bw -n 200 -s 65536"] {
                // The programs find each other by TCP over IPv4.
                let (mut server, mut client) = (command(line), command(&format!("{line} {}", Pair::B4)));
                server.env("RNIC_DEVICES", peer.to_string());
                client.env("RNIC_DEVICES", device.to_string());
                let mut server = start(&pair.b, &mut server);
                await_port(&pair.b, PORT, &mut server);
                let client = start(&pair.a, &mut client).end().success();
                assert!(result(&client)[2] >= 0.0, "{client}");
                server.end().success();
            }
        }
    });
}
