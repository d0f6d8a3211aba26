use super::*;
use crate::lint::switch::Threshold;

fn parse(text: &str) -> (Switch, Vec<String>, Vec<String>) {
    let db = ConfigDb::parse(text, "leaf1").unwrap();
    let (mut errors, mut unknown) = (Vec::new(), Vec::new());
    let switch = read("leaf1", "leaf1", &db, &mut errors, &mut unknown);
    let unknown = unknown.into_iter().map(|unknown| format!("{}: {}", unknown.path, unknown.text)).collect();
    (switch, errors.iter().map(ToString::to_string).collect(), unknown)
}

const OLD: &str = r#"{
  "PORT": {"Ethernet0": {"admin_status": "up", "speed": "100000", "mtu": "9100", "lanes": "1"},
           "Ethernet4": {"admin_status": "up", "speed": "40000"}, "Ethernet8": {"speed": "40000"}},
  "DSCP_TO_TC_MAP": {"AZURE": {"3": "3", "26": "3", "0": "1"}},
  "TC_TO_QUEUE_MAP": {"AZURE": {"1": "1", "3": "3"}},
  "PORT_QOS_MAP": {"Ethernet0,Ethernet4": {"dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]",
     "tc_to_queue_map": "[TC_TO_QUEUE_MAP|AZURE]", "pfc_enable": "3,4"}},
  "QUEUE": {"Ethernet0,Ethernet4|3-4": {"wred_profile": "[WRED_PROFILE|L]", "scheduler": "[SCHEDULER|s]"}},
  "SCHEDULER": {"s": {"type": "DWRR", "weight": "15"}},
  "WRED_PROFILE": {"L": {"ecn": "ecn_all", "green_min_threshold": "1000", "green_max_threshold": "2000",
     "green_drop_probability": "5", "wred_green_enable": "true"}},
  "BUFFER_POOL": {"p": {"type": "ingress", "mode": "dynamic", "size": "1000000"}},
  "BUFFER_PROFILE": {"l": {"pool": "[BUFFER_POOL|p]", "size": "0", "xon": "1", "xoff": "50000", "dynamic_th": "-3"}},
  "BUFFER_PG": {"Ethernet0,Ethernet4|3-4": {"profile": "[BUFFER_PROFILE|l]"}, "Ethernet0|0": {"profile": "NULL"}},
  "CABLE_LENGTH": {"AZURE": {"Ethernet0": "300m"}},
  "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}, "Ethernet0": {"action": "drop", "detection_time": "200", "restoration_time": "400"}},
  "DEVICE_NEIGHBOR": {"Ethernet0": {"name": "spine1", "port": "Ethernet12"}},
  "VLAN_MEMBER": {"Vlan10|Ethernet4": {"tagging_mode": "untagged"}, "Vlan20|PortChannel1": {"tagging_mode": "tagged"}},
  "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {"NULL": "NULL"}},
  "PORT_STORM_CONTROL": {"Ethernet4|unknown-unicast": {"kbps": "1000"}}
}"#;

/// The old form of the format, with references in brackets and lists of ports, is read.
#[test]
fn the_old_form_is_read() {
    let (switch, errors, unknown) = parse(OLD);
    assert_eq!((errors, unknown, &switch.dangling), (vec![], vec![], &vec![]));
    assert_eq!(switch.used().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Ethernet0", "Ethernet4"]);
    for name in ["Ethernet0", "Ethernet4"] {
        let port = &switch.ports[name];
        assert_eq!((port.class_of(26), port.class_of(7), port.queue_of(3)), (Some(3), Some(0), 3), "{name}");
        assert_eq!(port.pfc.iter().copied().collect::<Vec<_>>(), [3, 4], "{name}");
        for index in [3, 4] {
            let wred = port.queues[&index].wred.as_ref().unwrap();
            assert_eq!((wred.ecn, wred.min, wred.max, wred.percent), (true, Some(1_000), Some(2_000), 5));
            assert_eq!(port.queues[&index].scheduler.as_ref().unwrap().weight, 15);
            let profile = port.groups[&index].profile.as_ref().unwrap();
            assert_eq!((profile.pool.as_str(), profile.xoff, profile.lossless()), ("p", Some(50_000), true));
            assert_eq!(profile.threshold, Some(Threshold::Dynamic(-3)));
            assert_eq!(profile.threshold.unwrap().alpha(), Some(0.125));
        }
    }
    let port = &switch.ports["Ethernet0"];
    assert!(port.vlans.contains("Vlan20"), "as a member of the port channel");
    assert_eq!((port.length, port.groups[&0].profile.is_none()), (Some(300), true));
    assert_eq!(port.neighbour, Some(("spine1".into(), Some("Ethernet12".into()))));
    let watchdog = port.watchdog.as_ref().unwrap();
    assert_eq!((watchdog.detection, watchdog.restoration, switch.poll_interval), (Some(200), Some(400), Some(200)));
    let port = &switch.ports["Ethernet4"];
    assert!(port.vlans.contains("Vlan10") && port.storm_control.contains("unknown-unicast"));
}

/// The current form differs only in the notation of references.
#[test]
fn the_current_form_means_the_same() {
    let (mut new, references) = (
        String::new(),
        ["DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "WRED_PROFILE", "SCHEDULER", "BUFFER_POOL", "BUFFER_PROFILE"],
    );
    for line in OLD.lines() {
        let line = references.iter().fold(line.to_string(), |line, table| line.replace(&format!("\"[{table}|"), "\""));
        new += &line.replace("]\"", "\"");
    }
    assert_ne!(new, OLD);
    assert_eq!(parse(&new).0, parse(OLD).0);
}

#[test]
fn mistakes_have_the_path_and_the_rest_is_read() {
    let (switch, errors, unknown) = parse(
        r#"{"PORT": {"Ethernet0": {"mtu": "9l00", "speed": "100000", "colour": "red"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,9", "dscp_to_tc_map": "NONE"}, "Ethernet1": {}},
        "DSCP_TO_TC_MAP": {"A": {"64": "1", "3": "x"}},
        "BUFFER_PROFILE": {"b": {"dynamic_th": "9", "pool": "nowhere"}},
        "QUEUE": {"Ethernet0|4-3": {}}, "CABLE_LENGTH": {"A": {"Ethernet0": "5km"}},
        "PFC_WD": {"Ethernet0": {"action": "panic"}}, "QOS_NEW_TABLE": {}, "ACL_TABLE": {}}"#,
    );
    let expected = [
        "leaf1: PORT|Ethernet0|mtu: `9l00` is not a whole number 68 to 65535",
        "leaf1: CABLE_LENGTH|A|Ethernet0: `5km` is not a length such as 300m",
        "leaf1: DSCP_TO_TC_MAP|A|3: `x` is not a whole number 0 to 15",
        "leaf1: DSCP_TO_TC_MAP|A|64: `64` is not a number from 0 to 63",
        "leaf1: PORT_QOS_MAP|Ethernet0|pfc_enable: `3,9` is not",
        "leaf1: QUEUE|Ethernet0|4-3: the key is not of the form PORT|N or PORT|N-M with numbers up to 31",
        "leaf1: PFC_WD|Ethernet0|action: `panic` is unknown; accepted: drop, forward, alert",
        "leaf1: BUFFER_PROFILE|b|dynamic_th: `9` is not a whole number -8 to 7",
    ];
    for (error, expected) in errors.iter().zip(expected) {
        let expected = expected.replace("`3,9` is not", "`9` is not a priority; accepted: 0 to 7, separated by commas");
        assert_eq!(*error, expected);
    }
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    assert_eq!(unknown, ["PORT|Ethernet0|colour: unknown field", "QOS_NEW_TABLE: this table is not read"]);
    let dangling: Vec<&str> = switch.dangling.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(dangling, ["PORT_QOS_MAP|Ethernet0|dscp_to_tc_map", "PORT_QOS_MAP|Ethernet1", "BUFFER_PROFILE|b|pool"]);
    assert_eq!(switch.ports["Ethernet0"].speed.unwrap().to_string(), "100 Gbps");
}
