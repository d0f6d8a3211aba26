use super::*;

const EXAMPLE: &str = r#"
title = "pod 1"
[rdma]
dscp = 26
cnp_dscp = 48
[switch]
mtu = "9100 B"
pfc = [3]
dscp_to_tc = { "0-63" = 0 }
queue.3 = { ecn = true, ecn_min = "200 KB" }
pool.ingress_lossless_pool.size = "30 MB"
config_db."DEVICE_METADATA|localhost|hwsku" = "X"
[switch.port."Ethernet10*"]
speed = "400 Gbps"
[switch.role.leaf]
devices = ["leaf*"]
dscp_to_tc = { 26 = 3 }
[switch.device.leaf2]
mtu = "1500 B"
port.Ethernet99.up = true
[host]
trust = "dscp"
dcqcn."roce_np/cnp_dscp" = 48
[[accept]]
check = "ecn-worst-case"
device = "leaf*"
reason = "known"
"#;

fn errors(text: &str) -> Vec<String> {
    Desired::parse(text, "d.toml").unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn later_layers_override_earlier_ones() {
    let desired = Desired::parse(EXAMPLE, "d.toml").unwrap();
    assert_eq!((desired.rdma.dscp.clone(), desired.rdma.cnp_dscp), (BTreeSet::from([26]), Some(48)));
    let ports = ["Ethernet0".to_string(), "Ethernet100".to_string()];
    let get = |device: &str, port: &str, path: &str| {
        let wanted = desired.of_switch(device, ports.iter());
        wanted.get(&(port.to_string(), path.to_string())).map(|wanted| wanted.value.clone())
    };
    let is = |device, port, path, value: &str| assert_eq!(get(device, port, path).as_deref(), Some(value), "{path}");
    is("spine1", "Ethernet0", "mtu", "9100 B");
    is("leaf2", "Ethernet0", "mtu", "1500 B");
    is("spine1", "Ethernet0", "dscp_to_tc.26", "0");
    is("leaf1", "Ethernet0", "dscp_to_tc.26", "3");
    is("leaf1", "Ethernet0", "dscp_to_tc.25", "0");
    is("leaf1", "Ethernet0", "queue.3.ecn_min", "200000 B");
    is("leaf1", "Ethernet100", "speed", "400 Gbps");
    is("leaf1", "", "pool.ingress_lossless_pool.size", "30000000 B");
    is("leaf1", "", "config_db.DEVICE_METADATA|localhost|hwsku", "X");
    is("leaf2", "Ethernet99", "up", "true");
    assert_eq!(get("leaf1", "Ethernet0", "speed"), None);
    let host = desired.of_host("h1", ["eth0".to_string()].iter());
    assert_eq!(host[&("eth0".to_string(), "dcqcn.roce_np/cnp_dscp".to_string())].value, "48");
    assert_eq!((desired.role_of("leaf1"), desired.role_of("h1")), (Some("leaf"), None));
    assert_eq!(desired.expected().into_iter().collect::<Vec<_>>(), ["leaf2"]);
}

/// A more specific entry overrides a less specific one. Of two equally specific entries, the later one in the file
/// wins, independently of alphabetical order.
#[test]
fn numbers_override_ranges_and_later_patterns_earlier_ones() {
    let text = "[switch]\ndscp_to_tc = { 0 = 5, \"0-63\" = 1, \"0-7\" = 2, \"8-15\" = 3 }\n\
        port.\"E*\".mtu = \"2 KB\"\nport.\"*\".mtu = \"1 KB\"\n\
        [switch.role.z]\ndevices = [\"l*\"]\n[switch.role.a]\ndevices = [\"l1\"]\n";
    let desired = Desired::parse(text, "d").unwrap();
    let wanted = desired.of_switch("l1", ["E0".to_string()].iter());
    let get = |path: &str| wanted[&("E0".to_string(), path.to_string())].value.clone();
    assert_eq!([0, 1, 8, 16].map(|dscp| get(&format!("dscp_to_tc.{dscp}"))), ["5", "2", "3", "1"]);
    assert_eq!((get("mtu").as_str(), desired.role_of("l1")), ("1000 B", Some("z")));
}

#[test]
fn every_mistake_has_a_position() {
    let text = "[switch]\nmtu = 9100\ncolour = 1\nqueue.3.ecn = 1\nqueue.40.ecn = true\npfc = 3\n[hosts]\n\
        [switch.role.leaf]\nmtu = \"9 KB\"\n[[accept]]\ncheck = \"x\"\n[[accept]]\ncheck = \"headroom\"\n[rdma]\ndscp = [70]\n";
    let errors = errors(text);
    let has = |part: &str| assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
    has("d.toml:2:7: `mtu`: 9100 is not accepted; accepted: a size");
    has("d.toml:3:1: unknown setting `colour`; accepted: dscp_to_tc.N, length, mtu");
    has("d.toml:4:15: `queue.3.ecn`: 1 is not accepted; accepted: true, false");
    has("`queue.40`: 40 is out of range; accepted: 0 to 31");
    has("`pfc`: 3 is not accepted; accepted: a list of priorities");
    has("d.toml:7:2: unknown table `hosts`");
    has("the role `leaf` needs its devices");
    has("no check is called \"x\"; accepted: drift");
    has("an accepted finding needs a `reason`");
    has("d.toml:15:9: `dscp`: 70 is not accepted; accepted: a whole number from 0 to 63");
    assert!(super::Desired::parse("[switch\n", "d.toml").unwrap_err()[0].to_string().starts_with("d.toml:1:8: "));
}

#[test]
fn patterns() {
    assert!(matches("leaf*", "leaf12") && matches("*", "") && matches("a*c*", "abcd") && matches("x", "x"));
    assert!(!matches("leaf*", "spine1") && !matches("a*c", "ab") && !matches("x", "xx"));
}
