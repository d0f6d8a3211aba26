//! Checks of the example fleet, which has no findings, and of the same fleet with one mistake at a time.

use rnic_watch::lint::{CHECKS, Desired, FailOn, Finding, Fix, Fleet, Report, Severity, check, fix_commands, scenario};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => assert!(fs::copy(&path, target).is_ok()),
        }
    }
}

/// The example fleet with changes. Only the devices that a test changes are copied.
struct Copy {
    folder: tempfile::TempDir,
    devices: RefCell<BTreeMap<String, PathBuf>>,
    desired: String,
}

impl Copy {
    fn new() -> Copy {
        let devices = fs::read_dir(example().join("devices")).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_string();
        Copy {
            folder: tempfile::tempdir().unwrap(),
            devices: RefCell::new(devices.map(|path| (name(&path), path)).collect()),
            desired: fs::read_to_string(example().join("desired.toml")).unwrap(),
        }
    }

    /// The folder of a device, to be changed.
    fn device(&self, name: &str) -> PathBuf {
        let mut devices = self.devices.borrow_mut();
        let own = self.folder.path().join(name);
        if devices[name] != own {
            copy(&devices[name], &own);
            devices.insert(name.to_string(), own.clone());
        }
        own
    }

    /// Changes the configuration of a switch.
    fn switch(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let path = self.device(name).join("config_db.json");
        let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    }

    /// Replaces text in a file; the text must occur.
    fn file(&self, path: &str, from: &str, to: &str) {
        let (device, file) = path.split_once('/').unwrap();
        let path = self.device(device).join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{} has no {from:?}", path.display());
        fs::write(path, text.replace(from, to)).unwrap();
    }

    fn fleet(&self) -> Fleet {
        self.fleet_with(None)
    }

    fn fleet_with(&self, links: Option<&Path>) -> Fleet {
        Fleet::read(&self.devices.borrow().values().cloned().collect::<Vec<_>>(), links)
    }

    /// The report without a desired state, in which only dangers count.
    fn dangers(&self) -> Report {
        check(&self.fleet(), Some(&Desired::parse("[rdma]\ndscp = 26\ncnp_dscp = 48\n", "d").unwrap()))
    }

    fn report(&self) -> Report {
        check(&self.fleet(), Some(&Desired::parse(&self.desired, "desired.toml").unwrap()))
    }
}

fn described(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}: {}: {}", finding.check.name, finding.place(), finding.text)).collect()
}

/// Every check is in the reference, with its severity.
#[test]
fn every_check_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/desired-state.md");
    let reference = fs::read_to_string(path).unwrap();
    for check in CHECKS {
        let row = format!("| `{}` | {} | ", check.name, check.severity);
        assert!(reference.contains(&row), "no row `{row}`");
    }
}

#[test]
fn the_example_is_in_order() {
    let report = Copy::new().report();
    assert_eq!(described(&report.findings), [""; 0]);
    assert!(report.errors.is_empty() && report.unknown.is_empty(), "{:?} {:?}", report.errors, report.unknown);
    assert_eq!((report.devices, report.dscps), ((4, 4, 8), vec![26]));
    let report = Copy::new().dangers();
    assert_eq!(described(&report.findings), [""; 0], "also without a desired state");
}

/// A mistake, and the check that finds it on which device.
type Mistake = (&'static str, &'static str, Box<dyn Fn(&mut Copy)>);

fn in_switch(name: &'static str, path: &'static [&'static str], value: Value) -> Box<dyn Fn(&mut Copy)> {
    Box::new(move |copy| {
        copy.switch(name, |db| {
            let (last, parents) = path.split_last().unwrap();
            let mut at = db;
            for part in parents {
                at = &mut at[*part];
            }
            match value.is_null() {
                true => drop(at.as_object_mut().unwrap().remove(*last).unwrap()),
                false => at[*last] = value.clone(),
            }
        });
    })
}

fn in_file(path: &'static str, from: &'static str, to: &'static str) -> Box<dyn Fn(&mut Copy)> {
    Box::new(move |copy| copy.file(path, from, to))
}

const QOS: &str = "gpu1/mlnx_qos-ens1f0np0.txt";
const STATISTICS: &str = "gpu1/ethtool-S-ens1f0np0.txt";

fn mistakes() -> Vec<Mistake> {
    let map =
        |field: &'static str| -> &'static [&'static str] { Box::leak(Box::new(["PORT_QOS_MAP", "Ethernet0", field])) };
    let profile = |field: &'static str| -> &'static [&'static str] {
        Box::leak(Box::new(["BUFFER_PROFILE", "pg_lossless_100000_5m_profile", field]))
    };
    let wred = |field: &'static str| -> &'static [&'static str] {
        Box::leak(Box::new(["WRED_PROFILE", "RDMA_LOSSLESS", field]))
    };
    vec![
        ("drift", "leaf1", in_switch("leaf1", &["PFC_WD", "Ethernet0", "restoration_time"], json!("400"))),
        ("missing-device", "gpu3", Box::new(|copy| drop(copy.devices.borrow_mut().remove("gpu3")))),
        ("neighbour", "leaf1", in_file("leaf1/lldp.json", "\"gpu1\"", "\"gpu3\"")),
        ("dangling-reference", "leaf1", in_switch("leaf1", map("tc_to_pg_map"), json!("NONE"))),
        (
            "trust",
            "leaf1",
            Box::new(|copy| {
                copy.switch("leaf1", |db| {
                    db["PORT_QOS_MAP"]["Ethernet0"].as_object_mut().unwrap().remove("dscp_to_tc_map");
                    db["PORT_QOS_MAP"].as_object_mut().unwrap().remove("global");
                })
            }),
        ),
        ("trust", "gpu1", in_file(QOS, "trust state: dscp", "trust state: pcp")),
        (
            "pg-not-lossless",
            "leaf1",
            in_switch("leaf1", &["BUFFER_PG", "Ethernet0|3", "profile"], json!("ingress_lossy_profile")),
        ),
        ("pfc-off", "spine1", in_switch("spine1", map("pfc_enable"), json!(""))),
        ("pfc-off", "gpu1", in_file(QOS, "enabled     0   0   0   1", "enabled     0   0   0   0")),
        ("pfc-queue", "leaf1", in_switch("leaf1", &["MAP_PFC_PRIORITY_TO_QUEUE", "RDMA", "3"], json!("4"))),
        (
            "priority-mismatch",
            "gpu1",
            Box::new(|copy| {
                copy.file(QOS, "enabled     0   0   0   1   0", "enabled     0   0   1   1   0");
                copy.file(QOS, "prio:3 dscp:31,30,29,28,27,26,", "prio:2 dscp:26,\n\tprio:3 dscp:31,30,29,28,27,");
            }),
        ),
        ("pfc-mismatch", "leaf1", in_switch("leaf1", &["PORT_QOS_MAP", "Ethernet120", "pfc_enable"], json!("3,4"))),
        ("mixed-class", "leaf1", in_switch("leaf1", &["TC_TO_PRIORITY_GROUP_MAP", "RDMA", "6"], json!("3"))),
        ("mixed-class", "gpu1", in_file(QOS, "buffer      0   0   0   1   0", "buffer      0   0   0   1   1")),
        (
            "egress-drop",
            "leaf1",
            in_switch("leaf1", &["BUFFER_PROFILE", "egress_lossless_profile", "static_th"], json!("1000000")),
        ),
        ("ecn-off", "leaf1", in_switch("leaf1", wred("ecn"), json!("ecn_none"))),
        ("ecn-off", "spine2", in_switch("spine2", &["QUEUE", "Ethernet4|3", "wred_profile"], Value::Null)),
        // alpha 1/64 of 33 MB: a group that alone is congested pauses from 0.5 MB on.
        (
            "ecn-after-xoff",
            "leaf1",
            Box::new(|copy| {
                copy.switch("leaf1", |db| {
                    db["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]["dynamic_th"] = json!("-6");
                    db["WRED_PROFILE"]["RDMA_LOSSLESS"]["green_min_threshold"] = json!("600000");
                })
            }),
        ),
        ("ecn-worst-case", "leaf1", in_switch("leaf1", profile("dynamic_th"), json!("-6"))),
        (
            "alpha",
            "leaf1",
            Box::new(|copy| {
                for profile in ["pg_lossless_100000_5m_profile", "pg_lossless_100000_40m_profile"] {
                    copy.switch("leaf1", |db| db["BUFFER_PROFILE"][profile]["dynamic_th"] = json!("-6"));
                }
                copy.desired = copy
                    .desired
                    .replace("\"leaf2\"]", "\"leaf2\", \"spine*\"]")
                    .replace("[switch.role.spine]\ndevices = [\"spine1\", \"spine2\"]\n", "");
            }),
        ),
        ("headroom", "leaf1", in_switch("leaf1", profile("xoff"), json!("40000"))),
        ("headroom", "leaf1", in_switch("leaf1", &["CABLE_LENGTH", "AZURE", "Ethernet0"], json!("300m"))),
        ("headroom", "gpu1", in_file(QOS, "242816", "42816")),
        (
            "shared-headroom",
            "leaf1",
            in_switch("leaf1", &["BUFFER_POOL", "ingress_lossless_pool", "xoff"], json!("120000")),
        ),
        ("buffer", "leaf1", in_switch("leaf1", &["BUFFER_POOL", "ingress_lossless_pool", "size"], json!("250000"))),
        (
            "pause-threshold",
            "leaf1",
            Box::new(|copy| {
                copy.switch("leaf1", |db| {
                    db["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]["dynamic_th"] = json!("-8");
                    db["BUFFER_POOL"]["ingress_lossless_pool"]["size"] = json!("1000000");
                })
            }),
        ),
        ("watchdog-missing", "leaf1", in_switch("leaf1", &["PFC_WD", "Ethernet4"], Value::Null)),
        ("watchdog-missing", "leaf2", in_switch("leaf2", map("pfcwd_sw_enable"), json!("4"))),
        ("watchdog-weak", "leaf1", in_switch("leaf1", &["PFC_WD", "Ethernet4", "action"], json!("alert"))),
        ("watchdog-weak", "leaf1", in_switch("leaf1", &["PFC_WD", "GLOBAL", "POLL_INTERVAL"], json!("400"))),
        ("flooding", "leaf1", in_switch("leaf1", &["PORT_STORM_CONTROL", "Ethernet0|unknown-unicast"], Value::Null)),
        ("multicast", "leaf1", in_switch("leaf1", &["PORT_STORM_CONTROL", "Ethernet0|unknown-multicast"], Value::Null)),
        ("dscp-0", "spine1", in_switch("spine1", &["DSCP_TO_TC_MAP", "RDMA", "0"], json!("3"))),
        (
            "dscp-0",
            "gpu1",
            Box::new(|copy| {
                copy.file("gpu1/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106", "");
                copy.file("gpu1/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "106", "0");
            }),
        ),
        ("dscp-apps", "gpu1", in_file("gpu1/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106", "")),
        ("tos", "gpu1", in_file("gpu1/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "106", "96")),
        ("cnp-class", "leaf1", in_switch("leaf1", &["DSCP_TO_TC_MAP", "RDMA", "48"], json!("3"))),
        ("cnp-class", "leaf1", in_switch("leaf1", &["SCHEDULER", "scheduler.2", "type"], json!("DWRR"))),
        ("cnp-class", "gpu1", in_file("gpu1/sys/class/net/ens1f0np0/ecn/roce_np/cnp_dscp", "48", "26")),
        ("dcqcn-off", "gpu1", in_file("gpu1/sys/class/net/ens1f0np0/ecn/roce_np/enable/3", "1", "0")),
        ("global-pause", "gpu1", in_file("gpu1/ethtool-a-ens1f0np0.txt", "RX:\t\toff", "RX:\t\ton")),
        ("ets", "gpu1", in_file(QOS, "\t priority:  3\n", "\t priority:  3\n\t priority:  5\n")),
        ("ets", "gpu1", in_file(QOS, "bw: 80%", "bw: 0%")),
        ("mtu-mismatch", "leaf1", in_switch("leaf1", &["PORT", "Ethernet120", "mtu"], json!("9100"))),
        ("mtu-mismatch", "gpu1", in_switch("leaf1", &["PORT", "Ethernet0", "mtu"], json!("1500"))),
        ("host-mtu", "gpu1", in_file("gpu1/sys/class/net/ens1f0np0/mtu", "9000", "1500")),
        ("speed-mismatch", "gpu1", in_file("gpu1/sys/class/net/ens1f0np0/speed", "100000", "25000")),
        ("lossless-drops", "gpu1", in_file(STATISTICS, "rx_prio3_buf_discard: 0", "rx_prio3_buf_discard: 7")),
        (
            "pause-storm",
            "gpu1",
            in_file(STATISTICS, "tx_pause_storm_error_events: 0", "tx_pause_storm_error_events: 2"),
        ),
        ("dscp-rewrite", "leaf1", in_switch("leaf1", map("tc_to_dscp_map"), json!("RDMA"))),
        ("watchdog-weak", "leaf1", in_switch("leaf1", map("pfcwd_sw_enable"), json!("3,4"))),
        ("unreached-group", "leaf1", in_switch("leaf1", &["TC_TO_PRIORITY_GROUP_MAP", "RDMA", "3"], json!("0"))),
        ("unreached-group", "leaf1", in_switch("leaf1", &["DSCP_TO_TC_MAP", "RDMA", "26"], json!("0"))),
        ("wred-drop", "leaf1", in_switch("leaf1", wred("ecn"), json!("ecn_none"))),
        ("pg-not-lossless", "leaf1", in_switch("leaf1", &["BUFFER_PG", "Ethernet0|3"], Value::Null)),
        ("lossy-class", "gpu1", in_file("gpu1/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "106", "96")),
        ("lossy-class", "gpu1", in_file("gpu1/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "106", "64")),
        (
            "roce-v1",
            "gpu1",
            Box::new(|copy| {
                let folder = copy.device("gpu1").join("sys/kernel/config/rdma_cm/mlx5_0/ports/1");
                fs::write(folder.join("default_roce_mode"), "IB/RoCE v1\n").unwrap();
            }),
        ),
        (
            "roce-off",
            "gpu1",
            Box::new(|copy| {
                let folder = copy.device("gpu1").join("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types");
                fs::create_dir(&folder).unwrap();
                fs::write(folder.join("0"), "IB/RoCE v1\n").unwrap();
            }),
        ),
        ("app-priority", "gpu1", with_app("dgram-port-prio 4791:2 \n")),
        (
            "no-rdma-device",
            "gpu1",
            Box::new(|copy| fs::remove_dir_all(copy.device("gpu1").join("sys/class/infiniband")).unwrap()),
        ),
        (
            "link-layer",
            "gpu1",
            in_file("gpu1/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet", "InfiniBand"),
        ),
        (
            "overlapping-roles",
            "gpu2",
            Box::new(|copy| copy.desired += "\n[host.role.new]\ndevices = [\"gpu2\", \"x*\"]\nmtu = \"1500 B\"\n"),
        ),
        (
            "rollout-order",
            "leaf1",
            Box::new(|copy| {
                copy.switch("leaf1", |db| {
                    let rows = db["PORT_QOS_MAP"].as_object_mut().unwrap();
                    rows.values_mut().for_each(|row| row["pfc_enable"] = json!(""));
                })
            }),
        ),
        (
            "internal-port",
            "leaf1",
            Box::new(|copy| {
                copy.switch("leaf1", |db| {
                    let port = json!({"admin_status": "up", "speed": "10000", "role": "Rec"});
                    db["PORT"]["Ethernet-Rec0"] = port;
                })
            }),
        ),
        ("unchecked", "leaf1", in_switch("leaf1", &["BUFFER_PG", "Ethernet0|3", "profile"], json!("NULL"))),
    ]
}

/// Adds the output of `dcb app show` to the host gpu1.
fn with_app(text: &'static str) -> Box<dyn Fn(&mut Copy)> {
    Box::new(move |copy| fs::write(copy.device("gpu1").join("dcb-app-ens1f0np0.txt"), text).unwrap())
}

/// Priorities by destination port, and NICs with RoCE off, are settings of the desired state.
#[test]
fn roce_and_destination_ports_are_settings() {
    let app = "default-prio 0 \nethtype-prio 0x8915:3 \nstream-port-prio 445:3 445:4 \ndgram-port-prio 4791:3 \n\
               dscp-prio CS3:0 26:3 AF33:3 EF:5 \n";
    let mut copy = Copy::new();
    with_app(app)(&mut copy);
    let folder = copy.device("gpu1");
    let driver = "driver: mlx5_core\nfirmware-version: 20.31.1014 (MT_0000000224)\nbus-info: 0000:08:00.0\n";
    fs::write(folder.join("ethtool-i-ens1f0np0.txt"), driver).unwrap();
    let devlink = "pci/0000:08:00.0:\n  name flow_steering_mode type driver-specific\n    values:\n      cmode runtime \
                   value smfs\n  name enable_roce type generic\n    values:\n      cmode driverinit value true\n";
    fs::write(folder.join("devlink-dev-param.txt"), devlink).unwrap();
    copy.desired += "\n[host.device.gpu1]\nroce = true\n\
                     app = { \"udp:4791\" = [3], \"tcp:445\" = [4, 3], \"dscp:24\" = [0], \"dscp:30\" = [3], default = [0] }\n";
    let report = copy.report();
    assert_eq!(described(&report.findings), [""; 0]);
    assert!(report.errors.is_empty() && report.unknown.is_empty(), "{:?} {:?}", report.errors, report.unknown);
    // Another priority with PFC off, and RoCE off.
    fs::write(folder.join("dcb-app-ens1f0np0.txt"), app.replace("4791:3", "4791:5")).unwrap();
    fs::write(folder.join("devlink-dev-param.txt"), devlink.replace("value true", "value false")).unwrap();
    let fleet = copy.fleet();
    let report = check(&fleet, Some(&Desired::parse(&copy.desired, "desired.toml").unwrap()));
    let expected = [
        "app-priority: gpu1 ens1f0np0 app.udp:4791: UDP port 4791 (RoCE v2) -> priority 5, in which PFC is off (on: 3)",
        "roce-off: gpu1 ens1f0np0 roce: PFC is on in the priorities 3",
        "drift: gpu1 ens1f0np0 app.udp:4791: wanted 3, found 5",
        "drift: gpu1 ens1f0np0 roce: wanted true, found false",
    ];
    let found = described(&report.findings);
    for text in expected {
        assert!(found.iter().any(|finding| finding.starts_with(text)), "{text}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    let script = fix_commands(&fleet, &report);
    assert!(script.contains("dcb app replace dev ens1f0np0 dgram-port-prio 4791:3\n"), "{script}");
}

/// Mistakes in the outputs of `dcb` and `devlink` cost themselves only.
#[test]
fn malformed_priorities_by_port_are_errors_with_positions() {
    let mut copy = Copy::new();
    with_app("dgram-port-prio 4791:8 4792:3 70000:1\nnew-prio 1:1\n")(&mut copy);
    fs::write(
        copy.device("gpu1").join("devlink-dev-param.txt"),
        "pci/0000:09:00.0:\n  name enable_roce type generic\n    values:\n      cmode driverinit value false\n",
    )
    .unwrap();
    let report = copy.report();
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    let sentence = |word: &str| {
        format!("gpu1/dcb-app-ens1f0np0.txt:1: `{word}` is not of the form SELECTOR:PRIORITY, PRIORITY 0 to 7")
    };
    assert_eq!(errors, [sentence("4791:8"), sentence("70000:1")]);
    let unknown: Vec<&str> = report.unknown.iter().map(|one| one.text.as_str()).collect();
    let bus = "the dump does not say which interface `0000:09:00.0` is: ethtool-i-IF.txt is missing";
    assert_eq!(unknown, ["unknown line `new-prio 1:1`", bus]);
    for (file, text, accepted) in [
        (
            "dcb-app-ens1f0np0.txt",
            "Error: no DCB\n",
            "no line such as `dgram-port-prio 4791:3`; is this the output of dcb app show?",
        ),
        (
            "devlink-dev-param.txt",
            "kernel answers: no\n",
            "no line such as `pci/0000:08:00.0:`; is this the output of devlink dev param show?",
        ),
    ] {
        let copy = Copy::new();
        fs::write(copy.device("gpu1").join(file), text).unwrap();
        let errors: Vec<String> = copy.report().errors.iter().map(ToString::to_string).collect();
        assert!(errors.len() == 1 && errors[0].ends_with(accepted), "{errors:?}");
    }
}

#[test]
fn each_mistake_is_found_by_its_check() {
    let mut covered = BTreeSet::new();
    for (index, (name, device, make)) in mistakes().into_iter().enumerate() {
        let mut copy = Copy::new();
        make(&mut copy);
        let report = copy.report();
        let found = report.findings.iter().any(|finding| finding.check.name == name && finding.device == device);
        assert!(found, "{index}: no {name} on {device}: {:#?}", described(&report.findings));
        assert!(report.errors.is_empty(), "{index}: {:?}", report.errors);
        covered.insert(name);
        // The other devices of the fleet are in order, apart from the other end of the changed link.
        let others: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.device.starts_with("gpu4")).collect();
        assert!(others.is_empty(), "{index}: {others:?}");
    }
    let missing: Vec<&str> = CHECKS.iter().map(|check| check.name).filter(|name| !covered.contains(name)).collect();
    assert!(missing.is_empty(), "without a test: {missing:?}");
}

#[test]
fn differences_have_both_values_and_are_grouped() {
    let mut copy = Copy::new();
    for port in ["Ethernet0", "Ethernet4", "Ethernet120"] {
        copy.switch("leaf1", |db| db["PORT"][port]["mtu"] = json!("9100"));
    }
    let report = copy.report();
    let drift: Vec<&Finding> = report.findings.iter().filter(|finding| finding.check.name == "drift").collect();
    assert_eq!(drift.len(), 1, "{:#?}", described(&report.findings));
    let finding = drift[0];
    assert_eq!(finding.ports, ["Ethernet0", "Ethernet4", "Ethernet120"]);
    assert_eq!(
        (finding.path.as_str(), finding.wanted.as_deref(), finding.found.as_deref()),
        ("mtu", Some("9216 B"), Some("9100 B"))
    );
    // A port that the desired state names and the switch lacks, and a value that is absent.
    copy.desired += "\n[switch.device.leaf1]\nport.Ethernet999.up = true\nconfig_db.\"PORT|Ethernet0|fec\" = \"rs\"\nconfig_db.\"PORT|Ethernet0|tpid\" = \"0x8100\"\n";
    let report = copy.report();
    let found =
        |path: &str| report.findings.iter().find(|finding| finding.path == path).map(|finding| finding.found.clone());
    assert_eq!(found("up"), Some(None));
    assert_eq!(found("config_db.PORT|Ethernet0|tpid"), Some(None));
    assert_eq!(found("config_db.PORT|Ethernet0|fec"), None, "as desired");
}

#[test]
fn findings_can_be_accepted_with_a_reason() {
    let mut copy = Copy::new();
    copy.file(QOS, "bw: 80%", "bw: 0%");
    copy.desired += "[[accept]]\ncheck = \"ets\"\ndevice = \"gpu*\"\nreason = \"alone on the link\"\n";
    copy.desired += "[[accept]]\ncheck = \"drift\"\ndevice = \"gpu1\"\nreason = \"the same\"\n";
    copy.desired += "[[accept]]\ncheck = \"headroom\"\nreason = \"long ago\"\n";
    let report = copy.report();
    assert!(!report.fails(FailOn::Danger), "{:#?}", described(&report.findings));
    assert_eq!((report.count(Severity::Warning), report.count(Severity::Drift)), (0, 0));
    let unused = report.findings.iter().find(|finding| finding.check.name == "unchecked").unwrap();
    assert!(unused.text.ends_with("accepts \"headroom\", which was not found"), "{}", unused.text);
    assert!(
        report
            .metrics()
            .prometheus()
            .contains("rnic_lint_findings{check=\"ets\",severity=\"warning\",accepted=\"true\"} 1\n")
    );
}

/// One malformed device does not hide the others.
#[test]
fn a_malformed_device_is_an_error_and_the_rest_is_checked() {
    let copy = Copy::new();
    fs::write(copy.device("leaf1").join("config_db.json"), "{\"PORT\": {").unwrap();
    copy.file(QOS, "enabled", "enabld");
    copy.file("gpu2/mlnx_qos-ens1f0np0.txt", "bw: 80%", "bw: 0%");
    let report = copy.report();
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "gpu1/mlnx_qos-ens1f0np0.txt:28: the PFC configuration is missing; is the file truncated?",
            "leaf1/config_db.json:1:10: EOF while parsing an object"
        ]
    );
    assert!(report.findings.iter().any(|finding| finding.check.name == "ets" && finding.device == "gpu2"));
}

#[test]
fn the_scenario_is_the_fabric() {
    let copy = Copy::new();
    let desired = Desired::parse(&copy.desired, "d").unwrap();
    let fleet = copy.fleet();
    let twin = scenario(&fleet, Some(&desired), &copy.report()).unwrap();
    let table: toml::Table = twin.scenario.parse().unwrap();
    assert_eq!(table["fabric"]["hosts"].as_array().unwrap().len(), 4);
    assert_eq!(table["fabric"]["link"].as_array().unwrap().len(), 8);
    let switch = &table["fabric"]["switch"];
    // Two priorities, that of RDMA and that of CNPs, share the thresholds: beta is twice alpha, 1/8.
    assert_eq!((switch["priorities"].as_integer(), switch["beta"].as_float()), (Some(2), Some(0.25)));
    assert_eq!(switch["headroom"].as_str(), Some("60416 B"));
    // Shared bytes of a leaf: 32 MiB less two groups of 56,320 + 18,432 B and two of 60,416 + 18,432 B. To these, the
    // simulated switch adds the headroom of 4 ports and 2 priorities.
    let shared = (32 << 20) - 2 * (56_320 + 18_432) - 2 * (60_416 + 18_432);
    assert_eq!(switch["buffer"].as_str().unwrap(), format!("{} B", shared + 8 * 60_416));
    assert_eq!(table["transport"]["pfc"].as_bool(), Some(true));
    // The queue of CNPs has strict priority; with DWRR, the simulator has the weights of both queues.
    assert_eq!(switch["scheduler"].as_str(), Some("strict"));
    assert_eq!(table["run"].as_array().unwrap().len(), 1, "leaves and spines differ only in the number of ports");

    // Another alpha on one leaf is another run.
    copy.switch("leaf2", |db| {
        for profile in ["pg_lossless_100000_5m_profile", "pg_lossless_100000_40m_profile"] {
            db["BUFFER_PROFILE"][profile]["dynamic_th"] = json!("-6");
        }
    });
    let twin = scenario(&copy.fleet(), Some(&desired), &copy.report()).unwrap();
    let table: toml::Table = twin.scenario.parse().unwrap();
    let runs = table["run"].as_array().unwrap();
    assert_eq!(runs[1]["name"].as_str(), Some("switches as leaf2"));
    assert_eq!(runs[1]["set"]["fabric.switch"]["beta"].as_float(), Some(2.0 / 64.0));
}

#[test]
fn the_scenario_has_the_weights_of_the_queues() {
    let copy = Copy::new();
    for switch in ["leaf1", "leaf2", "spine1", "spine2"] {
        copy.switch(switch, |db| db["SCHEDULER"]["scheduler.2"] = json!({"type": "DWRR", "weight": "5"}));
    }
    let desired = Desired::parse(&copy.desired, "d").unwrap();
    let twin = scenario(&copy.fleet(), Some(&desired), &copy.report()).unwrap();
    let table: toml::Table = twin.scenario.parse().unwrap();
    assert_eq!(table["fabric"]["switch"]["weights"], toml::Value::from(vec![80, 5]));
}

/// A faster reaction of the peers needs less headroom.
#[test]
fn the_reaction_time_can_be_stated() {
    let mut copy = Copy::new();
    // 9,238 + 9,258 + 84 + 625 + 9,258 B do not depend on the reaction; 500 ns at 100 Gbps are 6,250 B.
    copy.switch("leaf1", |db| db["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]["xoff"] = json!("34713"));
    let headroom =
        |copy: &Copy| copy.report().findings.iter().filter(|finding| finding.check.name == "headroom").count();
    assert_eq!(headroom(&copy), 1);
    copy.desired = copy.desired.replace("[rdma]\n", "[rdma]\nreaction = \"500 ns\"\n");
    assert_eq!(headroom(&copy), 0);
    copy.switch("leaf1", |db| db["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]["xoff"] = json!("34712"));
    assert_eq!(headroom(&copy), 1);
}

#[test]
fn a_scenario_needs_links() {
    let copy = Copy::new();
    for device in ["leaf1", "leaf2", "spine1", "spine2"] {
        fs::remove_file(copy.device(device).join("lldp.json")).unwrap();
        copy.switch(device, |db| drop(db.as_object_mut().unwrap().remove("DEVICE_NEIGHBOR")));
    }
    let report = copy.report();
    assert_eq!(
        scenario(&copy.fleet(), None, &report).unwrap_err(),
        "no links are known: add lldp.json to the devices, or name a file with all links (--links)"
    );
    let links = copy.folder.path().join("links.csv");
    fs::write(&links, "gpu1,ens1f0np0,leaf1,Ethernet0,3\nleaf1,Ethernet4,gpu2,ens1f0np0\nleaf2,etp1,gpu3,ens1f0np0\n")
        .unwrap();
    let fleet = copy.fleet_with(Some(&links));
    assert_eq!(scenario(&fleet, None, &report).unwrap_err(), "no known links lead from the host gpu1 to the host gpu3");
    fs::write(&links, "gpu1,ens1f0np0,leaf1,Ethernet0,3\nleaf1,Ethernet4,gpu2,ens1f0np0\n").unwrap();
    let fleet = copy.fleet_with(Some(&links));
    let twin = scenario(&fleet, None, &report).unwrap();
    assert!(
        twin.scenario.contains("delay = \"15 ns\"") && twin.scenario.contains("delay = \"25 ns\""),
        "{}",
        twin.scenario
    );
    assert!(
        twin.differences.iter().any(|text| text.contains("the host gpu3 is known, so that it is left out")),
        "{:?}",
        twin.differences
    );
}

/// A change of the example fleet.
type Change = Box<dyn Fn(&mut Copy)>;

/// The configurations of the incidents in docs/results/at-scale.md, as changes of the example fleet.
fn incidents() -> Vec<(&'static str, Vec<Change>)> {
    let alpha = ["pg_lossless_100000_5m_profile", "pg_lossless_100000_40m_profile"].map(|profile| {
        let path: &'static [&'static str] = Box::leak(Box::new(["BUFFER_PROFILE", profile, "dynamic_th"]));
        in_switch("leaf1", path, json!("-6"))
    });
    let watchdogs = ["leaf1", "leaf2", "spine1", "spine2"].map(|name| in_switch(name, &["PFC_WD"], Value::Null));
    vec![
        // A switch that drops what its configuration forwards; a host whose NIC runs out of translation entries.
        ("livelock", Vec::new()),
        ("slow receiver", Vec::new()),
        ("deadlock", vec![in_switch("leaf1", &["PORT_STORM_CONTROL", "Ethernet0|unknown-unicast"], Value::Null)]),
        ("storm", watchdogs.into()),
        ("alpha", alpha.into()),
    ]
}

/// Each kind of setting that section 5.1 of "RDMA over Commodity Ethernet at Scale" lists is compared with the desired
/// state: a change of the running configuration is a difference, with its place.
#[test]
fn every_setting_of_the_paper_is_compared() {
    type Change = Box<dyn Fn(&mut Copy)>;
    let changes: [(&str, &str, Change); 10] = [
        (
            "leaf1",
            "pool.ingress_lossless_pool.size",
            in_switch("leaf1", &["BUFFER_POOL", "ingress_lossless_pool", "size"], json!("30000000")),
        ),
        (
            "leaf1",
            "pg.3.headroom",
            in_switch("leaf1", &["BUFFER_PROFILE", "pg_lossless_100000_5m_profile", "xoff"], json!("50000")),
        ),
        ("leaf1", "dscp_to_tc.26", in_switch("leaf1", &["DSCP_TO_TC_MAP", "RDMA", "26"], json!("0"))),
        ("leaf1", "tc_to_queue.3", in_switch("leaf1", &["TC_TO_QUEUE_MAP", "RDMA", "3"], json!("1"))),
        ("leaf1", "queue.3.weight", in_switch("leaf1", &["SCHEDULER", "scheduler.1", "weight"], json!("50"))),
        ("leaf1", "pfc", in_switch("leaf1", &["PORT_QOS_MAP", "Ethernet0", "pfc_enable"], json!("3,4"))),
        ("gpu1", "pfc", in_file(QOS, "enabled     0   0   0   1", "enabled     0   0   0   0")),
        ("gpu1", "trust", in_file(QOS, "trust state: dscp", "trust state: pcp")),
        ("gpu1", "ecn_rp", in_file("gpu1/sys/class/net/ens1f0np0/ecn/roce_rp/enable/3", "1", "0")),
        ("gpu1", "dcqcn.roce_np/cnp_dscp", in_file("gpu1/sys/class/net/ens1f0np0/ecn/roce_np/cnp_dscp", "48", "46")),
    ];
    for (device, path, change) in changes {
        let mut copy = Copy::new();
        change(&mut copy);
        let report = copy.report();
        let drift: BTreeSet<&str> = report
            .findings
            .iter()
            .filter(|finding| finding.check.name == "drift" && finding.device == device)
            .map(|finding| finding.path.as_str())
            .collect();
        assert_eq!(drift, BTreeSet::from([path]), "{device}");
    }
}

/// The page about the incidents says which checks find their configurations before they happen.
#[test]
fn the_incidents_are_found_before_as_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/at-scale.md");
    let page = fs::read_to_string(path).unwrap();
    for (incident, changes) in incidents() {
        let mut copy = Copy::new();
        changes.iter().for_each(|change| change(&mut copy));
        let report = copy.report();
        let checks: BTreeSet<&str> = report.findings.iter().map(|finding| finding.check.name).collect();
        let checks: Vec<String> = checks.iter().map(|check| format!("`{check}`")).collect();
        let says = if checks.is_empty() { "nothing".to_string() } else { checks.join(", ") };
        let row = page.lines().find(|line| line.starts_with(&format!("| {incident} |")) && line.ends_with(" before |"));
        let row = row.unwrap_or_else(|| panic!("no row of {incident}, for which lint says {says}"));
        assert!(row.contains(&format!("| {says} | ")), "{row}: lint says {says}");
    }
}

/// A finding states the place of its setting, and a change that fixes it. The changes of all findings, applied together
/// as a patch, fix all findings.
#[test]
fn findings_have_positions_and_changes_that_end_them() {
    let copy = Copy::new();
    copy.switch("leaf1", |db| {
        db["PORT"]["Ethernet0"]["mtu"] = json!("1500");
        db["PORT_QOS_MAP"]["Ethernet4"]["pfc_enable"] = json!("");
        db["PFC_WD"].as_object_mut().unwrap().remove("Ethernet120");
        db["BUFFER_PROFILE"]["pg_lossless_100000_40m_profile"]["dynamic_th"] = json!("-6");
    });
    copy.file("gpu1/mlnx_qos-ens1f0np0.txt", "trust state: dscp", "trust state: pcp");
    let (fleet, desired) = (copy.fleet(), Desired::parse(&copy.desired, "desired.toml").unwrap());
    let report = check(&fleet, Some(&desired));
    let of = |path: &str, port: &str| {
        let found = report.findings.iter().find(|one| one.path == path && one.ports.iter().any(|name| name == port));
        found.unwrap_or_else(|| panic!("{path} of {port}: {:?}", report.findings))
    };
    let mtu = of("mtu", "Ethernet0");
    let position = &mtu.positions[0];
    assert_eq!((position.pointer.as_str(), position.line), ("/PORT/Ethernet0/mtu", Some(1)));
    assert_eq!(position.file, copy.device("leaf1").join("config_db.json").display().to_string());
    assert_eq!(of("watchdog.action", "Ethernet120").positions[0].pointer, "/PFC_WD/Ethernet120/action");
    let alpha = of("pg.3.alpha", "Ethernet120");
    assert_eq!(alpha.positions[0].pointer, "/BUFFER_PROFILE/pg_lossless_100000_40m_profile/dynamic_th");
    assert_eq!(alpha.positions.len(), 1, "both ports have the same profile");
    let trust = report.findings.iter().find(|one| one.path == "trust").unwrap();
    assert_eq!(trust.fix, Some(Fix::Commands(vec!["mlnx_qos -i ens1f0np0 --trust dscp".to_string()])));
    assert!(trust.positions[0].file.ends_with("gpu1/mlnx_qos-ens1f0np0.txt"));
    let sarif = rnic_watch::lint::sarif(&report);
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let physical = |result: &Value| result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1;
    assert!(results.iter().any(physical), "{sarif}");

    let script = fix_commands(&fleet, &report);
    assert!(script.contains("\nmlnx_qos -i ens1f0np0 --trust dscp\n"), "{script}");
    let patch = script.split("<<'RNIC_PATCH'\n").nth(1).unwrap().split("\nRNIC_PATCH\n").next().unwrap();
    let operations: Vec<Value> = serde_json::from_str(patch).unwrap();
    assert!(operations.len() < 8, "{patch}");
    copy.switch("leaf1", |db| {
        for operation in &operations {
            assert_eq!(operation["op"], "add");
            let (parent, name) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
            let parent = db.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.insert(name.replace("~1", "/").replace("~0", "~"), operation["value"].clone());
        }
    });
    copy.file("gpu1/mlnx_qos-ens1f0np0.txt", "trust state: pcp", "trust state: dscp");
    assert_eq!(check(&copy.fleet(), Some(&desired)).findings, Vec::new());
}

/// Two findings that want different values of one field have no common change.
#[test]
fn contradictory_changes_are_left_out() {
    let copy = Copy::new();
    let desired =
        "[switch]\nport.\"Ethernet0\".queue.3.ecn_min = \"1 KB\"\nport.\"Ethernet4\".queue.3.ecn_min = \"2 KB\"\n";
    let (fleet, desired) = (copy.fleet(), Desired::parse(desired, "desired.toml").unwrap());
    let script = fix_commands(&fleet, &check(&fleet, Some(&desired)));
    assert!(script.contains("green_min_threshold, for which different values are wanted: 1000, 2000"), "{script}");
    assert!(!script.contains("apply-patch rnic-fix"), "{script}");
}

/// The same mistake on all leaves is reported as one finding with the names of the devices.
#[test]
fn equal_findings_of_devices_are_joined() {
    let copy = Copy::new();
    for leaf in ["leaf1", "leaf2"] {
        copy.switch(leaf, |db| db["PORT"]["Ethernet0"]["mtu"] = json!("1500"));
    }
    let desired = Desired::parse("[switch]\nmtu = \"9216 B\"\n", "desired.toml").unwrap();
    let report = check(&copy.fleet(), Some(&desired));
    let common = report.by_finding();
    let mtu: Vec<_> = common.iter().filter(|common| common.finding.check.name == "drift").collect();
    assert_eq!((mtu.len(), &mtu[0].devices[..]), (1, &["leaf1", "leaf2"][..]));
    assert_eq!(mtu[0].finding.place_of(&mtu[0].devices), "leaf1, leaf2 (2 devices) Ethernet0 mtu");
    assert_eq!(report.findings.iter().filter(|finding| finding.check.name == "drift").count(), 2);
}
