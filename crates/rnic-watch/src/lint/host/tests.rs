use super::*;
use std::fs;
use std::path::Path;

/// The format of mlnx_qos of MLNX_OFED 5 with trust in DSCPs.
const QOS: &str = "DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,30,29,28,27,26,25,24,
\tprio:6 dscp:55,54,53,52,51,50,49,48,
\tprio:0 dscp:63,
Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=262096
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0   
\tbuffer      0   0   0   1   0   0   0   0   
tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%
\t priority:  0
\t priority:  1
tc: 3 ratelimit: 40.0 Gbps, tsa: ets, bw: 50%
\t priority:  3
tc: 6 ratelimit: unlimited, tsa: strict
\t priority:  6
";

fn qos(text: &str) -> (Result<Qos, String>, Vec<String>) {
    let (mut errors, mut unknown) = (Vec::new(), Vec::new());
    let mut remarks = Remarks { device: "h", errors: &mut errors, unknown: &mut unknown };
    let qos = mlnx_qos::parse(text, "q", &mut remarks).map_err(|error| error.to_string());
    (qos, unknown.into_iter().map(|unknown| format!("{}: {}", unknown.path, unknown.text)).collect())
}

#[test]
fn mlnx_qos_is_read() {
    let (parsed, unknown) = qos(QOS);
    let parsed = parsed.unwrap();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!((parsed.trust.as_str(), parsed.length), ("dscp", Some(7)));
    assert_eq!(parsed.pfc, BTreeSet::from([3]));
    assert_eq!([0, 26, 48, 63, 40].map(|dscp| parsed.priority_of(dscp)), [0, 3, 6, 0, 0]);
    assert_eq!(parsed.buffers.unwrap()[1], 156_096);
    assert_eq!(parsed.priority_to_buffer.unwrap(), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(parsed.classes[&0].priorities, BTreeSet::from([0, 1]));
    assert_eq!((parsed.classes[&3].bandwidth, parsed.classes[&3].rate_limit.as_str()), (Some(50), "40.0 Gbps"));
    assert_eq!((parsed.classes[&6].algorithm.as_str(), parsed.classes[&6].bandwidth), ("strict", None));
    // If the port trusts VLAN priorities, there is no DSCP mapping, and an untagged packet has priority 0.
    let (pcp, _) =
        qos("Priority trust state: pcp\nPFC configuration:\n priority 0 1 2 3 4 5 6 7\n enabled 0 0 0 1 0 0 0 0\n");
    assert_eq!(pcp.unwrap().priority_of(26), 0);
}

/// A malformed line is an error with its number, and costs this line only.
#[test]
fn mistakes_in_mlnx_qos_have_a_line() {
    let wrong = |from: &str, to: &str| {
        let (mut errors, mut unknown) = (Vec::new(), Vec::new());
        let mut remarks = Remarks { device: "h", errors: &mut errors, unknown: &mut unknown };
        let text = QOS.replace(from, to);
        let parsed = mlnx_qos::parse(&text, "q", &mut remarks).map_err(|error| error.to_string());
        (parsed, errors.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let (parsed, errors) = wrong("dscp:31", "dscp:64");
    assert_eq!(errors, ["q:5: 64 is out of range; accepted: 0 to 63"]);
    assert_eq!(parsed.unwrap().pfc, BTreeSet::from([3]), "the rest is read");
    let (parsed, errors) = wrong("tsa: strict", "tsa: magic");
    let after = "q:20: a priority without a valid line `tc:` before it";
    assert_eq!(errors, ["q:19: `tsa: magic` is unknown; accepted: ratelimit, tsa, bw", after]);
    assert_eq!(parsed.unwrap().classes.keys().copied().collect::<Vec<_>>(), [0, 3]);
    let (parsed, errors) = wrong("20016", "2OO16");
    assert_eq!((errors, parsed.unwrap().buffers), (vec!["q:8: `2OO16` is not a number".to_string()], None));
    // Without trust state or PFC, the text says too little.
    let (parsed, errors) = wrong("state: dscp", "state: maybe");
    assert_eq!(errors, ["q:2: `maybe` is not a trust state; accepted: dscp, pcp, both, none"]);
    assert!(parsed.unwrap_err().contains("no line `Priority trust state:`"));
    let (parsed, errors) = wrong("enabled     0   ", "enabled  ");
    assert_eq!(errors, ["q:12: 7 values; accepted: 8, one for each priority"]);
    assert!(parsed.unwrap_err().contains("the PFC configuration is missing"));
    assert_eq!(qos("").0.unwrap_err(), "q:1: no line `Priority trust state:`; is this the output of mlnx_qos?");
    let cut = QOS.split("PFC").next().unwrap();
    assert_eq!(qos(cut).0.unwrap_err(), "q:9: the PFC configuration is missing; is the file truncated?");
    let (_, unknown) = qos(&format!("****** WARNING: lldpad service is running\n{QOS}"));
    assert_eq!(unknown, ["q:1: unknown line `****** WARNING: lldpad service is running`"]);
}

/// Fields without a value are absent, and every trust state of the tool is read.
#[test]
fn empty_fields_and_other_trust_states_are_read() {
    let (parsed, unknown) =
        qos(&QOS.replace(" 20016,156096,0,0,0,0,0,0,max_buffer_size=262096", "").replace(" 7\nPFC", "\nPFC"));
    let parsed = parsed.unwrap();
    assert_eq!((parsed.buffers, parsed.length, unknown), (None, None, vec![]));
    let states = [("none", 0), ("pcp", 0), ("both", 3), ("dscp", 3)];
    for (state, priority) in states {
        let text = QOS.replace("state: dscp", &format!("state: {state}"));
        let (parsed, unknown) = qos(&format!("Priority trust state is not supported on your system\n{text}"));
        let parsed = parsed.unwrap();
        assert_eq!((parsed.trust.as_str(), parsed.priority_of(26), unknown.len()), (state, priority, 0), "{state}");
    }
}

#[test]
fn ethtool_is_read() {
    let (mut errors, mut unknown) = (Vec::new(), Vec::new());
    let mut remarks = Remarks { device: "h", errors: &mut errors, unknown: &mut unknown };
    let text = "Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\toff\nRX negotiated: on\nTX negotiated: off\n\n";
    let pause = ethtool::parse_pause(text, "p", &mut remarks).unwrap();
    assert_eq!((pause.autonegotiate, pause.rx, pause.tx), (false, true, false));
    let wrong = ethtool::parse_pause("RX: maybe\nTX: on\n", "p", &mut remarks).unwrap_err().to_string();
    assert!(wrong.contains("no lines `RX:` and `TX:`"), "{wrong}");
    assert_eq!(remarks.errors[0].to_string(), "p:1: `maybe` is neither on nor off");
    let wrong = ethtool::parse_pause("Cannot get device pause settings: Operation not supported\n", "p", &mut remarks);
    assert_eq!(wrong.unwrap_err().to_string(), "p:1: no lines `RX:` and `TX:`; is this the output of ethtool -a?");
    let text = "# ethtool -S eth0\nNIC statistics:\n     rx_prio3_pause: 17\n     a: -1\n     nothing\n     b: N/A\n";
    let statistics = ethtool::parse_statistics(text, "s").unwrap();
    assert_eq!(statistics.counters, BTreeMap::from([("rx_prio3_pause".to_string(), 17)]));
    let skipped: Vec<String> = statistics.skipped.iter().map(|(line, text)| format!("{line}: {text}")).collect();
    assert_eq!(
        skipped,
        [
            "1: `# ethtool -S eth0` is not of the form NAME: NUMBER",
            "4: `-1` is not a number from 0 to 2^64 - 1",
            "5: `nothing` is not of the form NAME: NUMBER",
            "6: `N/A` is not a number from 0 to 2^64 - 1"
        ]
    );
    for text in ["NIC statistics:\n", "no stats available\n", "a: b\n"] {
        let wrong = ethtool::parse_statistics(text, "s").unwrap_err().to_string();
        assert_eq!(wrong, "s:1: no statistics; is this the output of ethtool -S?");
    }
    let firmware = |text| ethtool::parse_firmware(text, "i").map_err(|error| error.to_string());
    assert_eq!(
        firmware("driver: mlx5_core\nfirmware-version: 20.31.1014 (MT_0000000224)\n"),
        Ok(Some("20.31.1014".into()))
    );
    assert_eq!(firmware("driver: veth\nfirmware-version: \n"), Ok(None));
    assert!(firmware("x\n").unwrap_err().contains("is this the output of ethtool -i?"));
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_host_is_read_from_sysfs_and_texts() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    put(f, "sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    put(f, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0\n");
    put(f, "sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106\ntclass=0 src_ip=10.0.0.1/32\n");
    put(f, "sys/class/infiniband/mlx5_9/ports/1/link_layer", "InfiniBand\n");
    put(f, "sys/class/net/eth0/mtu", "9000\n");
    put(f, "sys/class/net/eth0/speed", "100000\n");
    put(f, "sys/class/net/eth1/speed", "-1\n");
    for priority in 0..8 {
        put(f, &format!("sys/class/net/eth0/ecn/roce_np/enable/{priority}"), "1\n");
        put(f, &format!("sys/class/net/eth0/ecn/roce_rp/enable/{priority}"), if priority == 3 { "1\n" } else { "0\n" });
    }
    put(f, "sys/class/net/eth0/ecn/roce_np/cnp_dscp", "48\n");
    put(f, "sys/class/net/eth0/ecn/roce_rp/rpg_ai_rate", "5\n");
    put(f, "sys/class/infiniband/mlx5_0/fw_ver", "20.31.1014\n");
    put(f, "sys/class/infiniband/mlx5_0/node_guid", "0\n");
    put(f, "sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent", "0\n");
    put(f, "sys/class/infiniband/mlx5_0/new_file", "0\n");
    put(f, "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "RoCE v2\n");
    put(f, "cma_roce_tos-mlx5_0.txt", "106\n");
    put(f, "mlnx_qos-eth0.txt", QOS);
    put(f, "notes.md", "hello");
    let (mut errors, mut unknown) = (Vec::new(), Vec::new());
    let host = read(&Dump::open(f, "h1").unwrap(), &mut errors, &mut unknown);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        unknown.iter().map(|unknown| unknown.path.as_str()).collect::<Vec<_>>(),
        ["notes.md", "sys/class/infiniband/mlx5_0/new_file"]
    );
    assert_eq!(host.other_links, [("mlx5_9".to_string(), "1".to_string(), "InfiniBand".to_string())]);
    assert_eq!(host.interfaces.keys().collect::<Vec<_>>(), ["eth0"], "eth1 has no RDMA device");
    let eth0 = &host.interfaces["eth0"];
    assert_eq!((eth0.device.as_deref(), eth0.mtu, eth0.roce_tos), (Some("mlx5_0"), Some(9_000), Some(106)));
    assert_eq!((eth0.roce_mode, eth0.firmware.as_deref()), (Some("v2"), Some("20.31.1014")));
    assert_eq!((eth0.traffic_class, eth0.speed.unwrap().to_string()), (Some(Some(106)), "100 Gbps".into()));
    assert_eq!((eth0.np.as_ref().unwrap().len(), eth0.rp.clone().unwrap()), (8, BTreeSet::from([3])));
    assert_eq!(eth0.parameters["roce_np/cnp_dscp"], "48");
    assert_eq!(eth0.parameters["roce_rp/rpg_ai_rate"], "5");

    put(f, "sys/class/net/eth0/mtu", "many\n");
    put(f, "cma_roce_tos-mlx5_0.txt", "300\n");
    let host = read(&Dump::open(f, "h1").unwrap(), &mut errors, &mut unknown);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "h1/sys/class/net/eth0/mtu:1: `many` is not a number",
            "h1/cma_roce_tos-mlx5_0.txt:1: `300` is not a TOS; accepted: 0 to 255"
        ]
    );
    assert!(host.interfaces["eth0"].qos.is_some(), "the rest is read");
}
