//! Inputs in the forms that tools and switches print: `rnic lint` and `rnic counters` read them, or report the parts
//! that they cannot use.

use rnic_metrics::exposition::Metrics;
use rnic_watch::counters::{Host, Recorder};
use rnic_watch::lint::{Desired, FailOn, Fleet, Report, Severity, check};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// The configuration of a switch with two ports, of which priority 3 is lossless.
fn switch() -> Value {
    let ports = ["Ethernet0", "Ethernet4"];
    let of_ports = |value: Value| -> Value {
        ports.iter().map(|port| (port.to_string(), value.clone())).collect::<Map<_, _>>().into()
    };
    let dscps =
        (0..64).map(|dscp| (dscp.to_string(), json!(if dscp == 26 { "3" } else { "0" }))).collect::<Map<_, _>>();
    let groups =
        (0..8).map(|class| (class.to_string(), json!(if class == 3 { "3" } else { "0" }))).collect::<Map<_, _>>();
    let queues = (0..8).map(|class| (class.to_string(), json!(class.to_string()))).collect::<Map<_, _>>();
    json!({
        "DEVICE_METADATA": {"localhost": {"hostname": "sw1"}},
        "PORT": of_ports(json!({"speed": "100000", "mtu": "9100", "admin_status": "up"})),
        "CABLE_LENGTH": {"AZURE": of_ports(json!("5m"))},
        "DSCP_TO_TC_MAP": {"M": dscps},
        "TC_TO_PRIORITY_GROUP_MAP": {"M": groups},
        "TC_TO_QUEUE_MAP": {"M": queues},
        "PORT_QOS_MAP": of_ports(json!({
            "dscp_to_tc_map": "M", "tc_to_pg_map": "M", "tc_to_queue_map": "M", "pfc_enable": "3"
        })),
        "PFC_WD": of_ports(json!({"action": "drop", "detection_time": "200", "restoration_time": "200"})),
        "BUFFER_POOL": {"ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "33554432"}},
        "BUFFER_PROFILE": {
            "pg_lossless_100000_5m_profile":
                {"pool": "ingress_lossless_pool", "size": "1792", "xon": "19456", "xoff": "60000", "dynamic_th": "0"},
            "lossy": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
        },
        "BUFFER_PG": {
            "Ethernet0|0": {"profile": "lossy"}, "Ethernet4|0": {"profile": "lossy"},
            "Ethernet0|3": {"profile": "pg_lossless_100000_5m_profile"},
            "Ethernet4|3": {"profile": "pg_lossless_100000_5m_profile"},
        },
        "WRED_PROFILE": {"W": {
            "ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "200000",
            "green_max_threshold": "800000", "green_drop_probability": "5"
        }},
        "QUEUE": {"Ethernet0|3": {"wred_profile": "W"}, "Ethernet4|3": {"wred_profile": "W"}},
    })
}

/// The same configuration as `sonic-db-dump -n CONFIG_DB -y` prints it.
fn dumped(db: &Value) -> Value {
    let mut dump = Map::new();
    for (table, entries) in db.as_object().unwrap() {
        for (key, fields) in entries.as_object().unwrap() {
            let entry = json!({"expireat": 1_602_451_533.2, "ttl": -0.001, "type": "hash", "value": fields});
            dump.insert(format!("{table}|{key}"), entry);
        }
    }
    dump.insert("CONFIG_DB_INITIALIZED".into(), json!({"ttl": -0.001, "type": "string", "value": "1"}));
    dump.into()
}

/// Checks a fleet of these files, each with its path.
fn report(files: &[(&str, &str)], desired: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        put(folder.path(), path, text);
    }
    check(&Fleet::read(&[folder.path().to_path_buf()], None), Some(&Desired::parse(desired, "d").unwrap()))
}

fn of_switch(db: &Value) -> Report {
    report(&[("sw1/config_db.json", &db.to_string())], "")
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// For all findings that are at least warnings: the name of the check and the place.
fn found(report: &Report) -> Vec<String> {
    let severe = report.findings.iter().filter(|finding| finding.check.severity > Severity::Note);
    severe.map(|finding| format!("{}: {}", finding.check.name, finding.place())).collect()
}

#[test]
fn a_dump_of_a_running_switch_is_read() {
    let report = of_switch(&dumped(&switch()));
    assert_eq!((report.errors.len(), report.devices, report.dscps.clone()), (0, (1, 0, 0), vec![26]));
    assert_eq!((found(&report), report.unknown.len()), (vec![], 0), "{:?}", report.unknown);
    // Keys of other types and values of the top level cost themselves.
    let mut dump = dumped(&switch());
    dump["FLAG"] = json!({"type": "string", "value": "1"});
    dump["PORT|Ethernet8"] = json!({"type": "list", "value": ["1"]});
    dump["platform"] = json!("x86_64");
    let report = of_switch(&dump);
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["sw1/config_db.json: PORT|Ethernet8: is a key of the type list; accepted: hash"]);
    assert_eq!(report.unknown.iter().map(|key| key.path.as_str()).collect::<Vec<_>>(), ["FLAG", "platform"]);
    assert_eq!((report.devices.0, found(&report)), (1, vec![]), "the rest is checked");
}

/// A port without a lossless group: SONiC does not create the group later if the configuration already contains the
/// groups that SONiC creates at run time.
#[test]
fn a_port_without_lossless_group_is_a_danger() {
    let mut db = switch();
    db["BUFFER_PG"].as_object_mut().unwrap().remove("Ethernet4|3");
    assert_eq!(found(&of_switch(&db)), ["pg-not-lossless: sw1 Ethernet4 pg.3"]);
    // No port has a lossless group: in a file SONiC will make them, and in a dump it did not.
    db["BUFFER_PG"].as_object_mut().unwrap().remove("Ethernet0|3");
    let file = report(&[("sw1/config_db.json", &db.to_string())], "[rdma]\ndscp = 26\n");
    assert_eq!((found(&file), file.unchecked()), (vec![], vec!["sw1"]));
    let dump = report(&[("sw1/config_db.json", &dumped(&db).to_string())], "[rdma]\ndscp = 26\n");
    assert_eq!(found(&dump), ["pg-not-lossless: sw1 Ethernet0, Ethernet4 pg.3"]);
}

#[test]
fn ports_without_an_external_link_are_not_checked() {
    let mut db = switch();
    for (name, role) in [("Ethernet-Rec0", "Rec"), ("Ethernet-IB0", "Inb"), ("Ethernet224", "Dpc")] {
        db["PORT"][name] = json!({"speed": "10000", "admin_status": "up", "role": role});
    }
    db["PORT"]["Ethernet-Rec1"] = json!({"admin_status": "up"});
    db["PORT"]["Ethernet228"] = json!({"admin_status": "down", "role": "Dpc"});
    db["PORT_QOS_MAP"]["global"] = json!({"dscp_to_tc_map": "M"});
    let report = of_switch(&db);
    assert_eq!(found(&report), [""; 0]);
    let notes: Vec<String> = report.findings.iter().map(|finding| finding.place()).collect();
    assert_eq!(notes, ["sw1 Ethernet-IB0", "sw1 Ethernet-Rec0, Ethernet-Rec1", "sw1 Ethernet224"]);
    // A port to a host or switch is checked, and an unknown role is reported.
    db["PORT"]["Ethernet-Rec0"]["role"] = json!("Ext");
    db["PORT"]["Ethernet224"]["role"] = json!("New");
    let report = of_switch(&db);
    assert!(
        found(&report).contains(&"pfc-off: sw1 Ethernet224, Ethernet-Rec0 pfc".to_string()),
        "{:?}",
        found(&report)
    );
    assert_eq!(report.unknown[0].text, "`New` is not a known role (Rec, Inb, Dpc, Ext, Int)");
}

#[test]
fn a_lossless_group_that_nothing_reaches_is_a_warning() {
    let mut db = switch();
    db["TC_TO_PRIORITY_GROUP_MAP"]["M"]["3"] = json!("0");
    let report = of_switch(&db);
    assert_eq!(found(&report), ["unreached-group: sw1 Ethernet0, Ethernet4 pg.3"]);
    assert!(!report.fails(FailOn::Danger) && report.fails(FailOn::Warning));
    assert_eq!(report.unchecked(), ["sw1"], "the DSCP of RDMA is unknown");
    let mut db = switch();
    db["DSCP_TO_TC_MAP"]["M"]["26"] = json!("0");
    assert_eq!(found(&of_switch(&db)), ["unreached-group: sw1 Ethernet0, Ethernet4 pg.3"]);
    db["PORT_QOS_MAP"]["Ethernet0"]["dot1p_to_tc_map"] = json!("D");
    assert_eq!(found(&of_switch(&db)), ["unreached-group: sw1 Ethernet4 pg.3"], "VLAN priorities may reach it");
}

/// A switch of which nothing could be checked fails with `--fail-on unchecked`.
#[test]
fn an_unchecked_switch_is_not_green() {
    let nothing = json!({"PORT": {"Ethernet0": {"admin_status": "up"}}});
    let report = of_switch(&nothing);
    assert_eq!((found(&report), report.unchecked()), (vec![], vec!["sw1"]));
    assert!(!report.fails(FailOn::Warning) && report.fails(FailOn::Unchecked));
    let report = of_switch(&switch());
    assert!(!report.fails(FailOn::Unchecked), "{:?}", report.findings);
}

const QOS: &str = "Priority trust state is not supported on your system\nDCBX mode: OS controlled\n\
    Priority trust state: none\nCable len:\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\
    \tenabled     0   0   0   0   0   0   0   0\n\tbuffer      0   0   0   0   0   0   0   0\n";

#[test]
fn an_interface_without_trust_state_is_a_danger() {
    let report =
        report(&[("h1/mlnx_qos-eth0.txt", QOS), ("h1/sys/class/net/eth0/mtu", "9000\n")], "[rdma]\ndscp = 26\n");
    assert!(report.errors.is_empty() && report.unknown.is_empty(), "{:?} {:?}", report.errors, report.unknown);
    assert!(found(&report).contains(&"trust: h1 eth0 trust".to_string()), "{:?}", found(&report));
}

/// The link is found in the JSON that `lldpctl -f json0` prints.
#[test]
fn links_are_read_from_json0() {
    let lldp = json!({"lldp": [{"interface": [{
        "name": "Ethernet0",
        "chassis": [{"id": [{"type": "mac", "value": "aa"}], "name": [{"value": "h1"}]}],
        "port": [{"id": [{"type": "ifname", "value": "eth0"}]}],
    }]}]});
    let files = [
        ("sw1/config_db.json", switch().to_string()),
        ("sw1/lldp.json", lldp.to_string()),
        ("h1/mlnx_qos-eth0.txt", QOS.to_string()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    assert_eq!(report(&files, "").devices, (1, 1, 1));
}

/// A firmware version and a RoCE mode are settings, and the report lists a file that no reader recognises.
#[test]
fn files_of_a_host_are_read_or_listed() {
    let files = [
        ("h1/mlnx_qos-eth0.txt", QOS),
        ("h1/ethtool-i-eth0.txt", "driver: mlx5_core\nfirmware-version: 20.31.1014 (MT_0000000224)\n"),
        ("h1/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0\n"),
        ("h1/cma_roce_mode-mlx5_0.txt", "IB/RoCE v1\n"),
        ("h1/sys/class/net/eth0/tuning", "1\n"),
        ("h1/firmware.log", "x\n"),
    ];
    let report = report(&files, "[host]\nfirmware = \"20.32.1010\"\nroce_mode = \"v2\"\n");
    let drift: Vec<_> = report.findings.iter().filter(|finding| finding.check.name == "drift").collect();
    let values: Vec<_> = drift.iter().map(|finding| (finding.path.as_str(), finding.found.as_deref())).collect();
    assert_eq!(values, [("firmware", Some("20.31.1014")), ("roce_mode", Some("v1"))]);
    assert!(found(&report).contains(&"roce-v1: h1 eth0 roce_mode".to_string()), "{:?}", found(&report));
    let mut unknown: Vec<&str> = report.unknown.iter().map(|unknown| unknown.path.as_str()).collect();
    unknown.sort_unstable();
    assert_eq!(unknown, ["firmware.log", "sys/class/net/eth0/tuning"]);
}

fn counters(ethtool: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "sys/class/net/eth0/operstate", "up\n");
    put(folder.path(), "ethtool-S-eth0.txt", ethtool);
    let mut metrics = Metrics::new();
    Recorder::new("n").record(&Host::open(folder.path()).unwrap().read(), 0, &mut metrics);
    metrics.prometheus()
}

#[track_caller]
fn has(text: &str, name: &str, more: &str, value: &str) {
    let line = format!("{name}{{node=\"n\",port=\"eth0\",priority=\"3\"{more}}} {value}");
    assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
}

/// A line that is not a counter costs this line, and counts as malformed.
#[test]
fn a_bad_line_of_ethtool_costs_this_line() {
    let good = "NIC statistics:\n     rx_prio3_pause: 5\n     rx_prio3_pause_duration: 100\n";
    for text in [format!("# ethtool -S eth0\n{good}"), format!("{good}     some_counter: N/A\n")] {
        let text = counters(&text);
        has(&text, "rnic_pfc_frames_total", ",direction=\"received\"", "5");
        assert!(text.contains("rnic_counters_malformed_values{node=\"n\"} 1\n"), "{text}");
        assert!(text.contains("rnic_counters_up{node=\"n\",source=\"ethtool\"} 1\n"), "{text}");
    }
}

#[test]
fn pauses_of_broadcom_nics_are_read() {
    let text = counters(
        "NIC statistics:\n rx_pfc_ena_frames_pri3: 77\n tx_pfc_ena_frames_pri3: 11\n pfc_pri3_rx_duration_us: 5000\n \
         pfc_pri3_rx_transitions: 70\n pfc_pri3_tx_duration_us: 10\n rx_bytes_pri3: 123456\n rx_packets_pri3: 99\n",
    );
    has(&text, "rnic_pfc_frames_total", ",direction=\"received\"", "77");
    has(&text, "rnic_pfc_frames_total", ",direction=\"sent\"", "11");
    has(&text, "rnic_pfc_paused_seconds_total", ",method=\"measured\"", "0.005");
    has(&text, "rnic_pfc_pauses_total", "", "70");
    has(&text, "rnic_pfc_pausing_seconds_total", "", "0.00001");
    has(&text, "rnic_priority_packets_total", ",direction=\"received\"", "99");
    has(&text, "rnic_priority_bytes_total", ",direction=\"received\"", "123456");
}

/// The driver ionic has pause times and no frames.
#[test]
fn pauses_of_ionic_nics_are_read() {
    let text = counters(
        "NIC statistics:\n rx_pripause_3_1us_count: 2500000\n tx_pripause_3_1us_count: 1000000\n frames_tx_pri_3: 7\n",
    );
    has(&text, "rnic_pfc_paused_seconds_total", ",method=\"measured\"", "2.5");
    has(&text, "rnic_pfc_pausing_seconds_total", "", "1");
    has(&text, "rnic_priority_packets_total", ",direction=\"sent\"", "7");
}
