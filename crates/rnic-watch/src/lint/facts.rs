//! The running settings of devices: the canonical text of each setting ([`super::settings`]), by port.

use super::host::{Host, Interface};
use super::settings::{alpha_text, bytes_text, metres_text, priorities_text, time_text};
use super::switch::{Map, Port, Switch, Threshold};
use std::collections::BTreeMap;

/// Settings by port and path. For a setting of the whole device, the port is empty.
pub(crate) type Facts = BTreeMap<(String, String), String>;

/// Collects the settings of one port.
struct Collector<'f> {
    facts: &'f mut Facts,
    port: &'f str,
}

impl Collector<'_> {
    fn put(&mut self, path: impl Into<String>, value: impl Into<String>) {
        self.facts.insert((self.port.to_string(), path.into()), value.into());
    }

    fn put_some(&mut self, path: impl Into<String>, value: Option<String>) {
        if let Some(value) = value {
            self.put(path, value);
        }
    }

    /// Adds all values of a map with the keys 0 to `max`; a missing key has the value 0.
    fn put_map(&mut self, name: &str, map: Option<&Map>, max: u8) {
        if let Some(map) = map {
            for key in 0..=max {
                self.put(format!("{name}.{key}"), map.get(&key).copied().unwrap_or(0).to_string());
            }
        }
    }
}

/// The settings of a switch.
pub(crate) fn of_switch(switch: &Switch) -> Facts {
    let mut facts = Facts::new();
    for (name, port) in &switch.ports {
        of_port(port, &mut Collector { facts: &mut facts, port: name });
    }
    let mut device = Collector { facts: &mut facts, port: "" };
    device.put_some("poll_interval", switch.poll_interval.map(time_text));
    for (name, pool) in &switch.pools {
        device.put_some(format!("pool.{name}.size"), pool.size.map(bytes_text));
        device.put(format!("pool.{name}.headroom"), bytes_text(pool.xoff));
    }
    facts
}

fn of_port(port: &Port, to: &mut Collector<'_>) {
    to.put("up", port.up.to_string());
    to.put_some("mtu", port.mtu.map(bytes_text));
    to.put_some("speed", port.speed.map(|speed| speed.to_string()));
    to.put_some("length", port.length.map(metres_text));
    to.put("pfc", priorities_text(&port.pfc));
    to.put_some("watched", port.watched.as_ref().map(priorities_text));
    to.put_map("dscp_to_tc", port.dscp_to_tc.as_ref(), 63);
    to.put_map("tc_to_queue", port.tc_to_queue.as_ref(), 15);
    to.put_map("tc_to_pg", port.tc_to_pg.as_ref(), 15);
    for priority in 0..8 {
        to.put(format!("pfc_to_queue.{priority}"), port.queue_of_pfc(priority).to_string());
        to.put(format!("pfc_to_pg.{priority}"), port.group_of_pfc(priority).to_string());
    }
    if let Some(watchdog) = &port.watchdog {
        to.put("watchdog.action", watchdog.action.as_str());
        to.put_some("watchdog.detection", watchdog.detection.map(time_text));
        to.put_some("watchdog.restoration", watchdog.restoration.map(time_text));
    }
    for (index, queue) in &port.queues {
        let path = |setting: &str| format!("queue.{index}.{setting}");
        if let Some(scheduler) = &queue.scheduler {
            to.put(path("scheduler"), scheduler.kind.as_str());
            to.put(path("weight"), scheduler.weight.to_string());
        }
        if let Some(wred) = &queue.wred {
            to.put(path("ecn"), wred.ecn.to_string());
            to.put(path("wred_drop"), wred.drops.to_string());
            to.put_some(path("ecn_min"), wred.min.map(bytes_text));
            to.put_some(path("ecn_max"), wred.max.map(bytes_text));
            to.put(path("ecn_percent"), wred.percent.to_string());
        } else {
            to.put(path("ecn"), "false");
        }
        if let Some(Threshold::Dynamic(exponent)) = queue.buffer.as_ref().and_then(|profile| profile.threshold) {
            to.put(path("alpha"), alpha_text(exponent));
        }
    }
    for (index, group) in &port.groups {
        let path = |setting: &str| format!("pg.{index}.{setting}");
        let Some(profile) = &group.profile else { continue };
        to.put(path("pool"), profile.pool.as_str());
        to.put(path("size"), bytes_text(profile.size));
        to.put(path("xon"), bytes_text(profile.xon));
        to.put_some(path("xon_offset"), profile.xon_offset.map(bytes_text));
        to.put_some(path("headroom"), profile.xoff.map(bytes_text));
        match profile.threshold {
            Some(Threshold::Dynamic(exponent)) => to.put(path("alpha"), alpha_text(exponent)),
            Some(Threshold::Static(bytes)) => to.put(path("threshold"), bytes_text(bytes)),
            None => {}
        }
    }
}

/// The settings of a host.
pub(crate) fn of_host(host: &Host) -> Facts {
    let mut facts = Facts::new();
    for (name, interface) in &host.interfaces {
        of_interface(interface, &mut Collector { facts: &mut facts, port: name });
    }
    facts
}

fn of_interface(interface: &Interface, to: &mut Collector<'_>) {
    to.put_some("mtu", interface.mtu.map(bytes_text));
    to.put_some("speed", interface.speed.map(|speed| speed.to_string()));
    if let Some(qos) = &interface.qos {
        to.put_some("length", qos.length.map(metres_text));
        to.put("trust", qos.trust.as_str());
        to.put("pfc", priorities_text(&qos.pfc));
        to.put_map("dscp_to_priority", qos.dscp_to_priority.as_ref(), 63);
        for (priority, buffer) in qos.priority_to_buffer.iter().flatten().enumerate() {
            to.put(format!("priority_to_buffer.{priority}"), buffer.to_string());
        }
        for (index, bytes) in qos.buffers.iter().flatten().enumerate() {
            to.put(format!("buffer.{index}"), bytes_text(*bytes));
        }
        for (index, class) in &qos.classes {
            to.put(format!("class.{index}.algorithm"), class.algorithm.as_str());
            to.put(format!("class.{index}.rate_limit"), class.rate_limit.as_str());
            to.put_some(format!("class.{index}.bandwidth"), class.bandwidth.map(|share| share.to_string()));
            to.put(format!("class.{index}.priorities"), priorities_text(&class.priorities));
        }
    }
    if let Some(pause) = interface.pause {
        to.put("pause.rx", pause.rx.to_string());
        to.put("pause.tx", pause.tx.to_string());
    }
    to.put_some("ecn_np", interface.np.as_ref().map(priorities_text));
    to.put_some("ecn_rp", interface.rp.as_ref().map(priorities_text));
    to.put_some("roce_tos", interface.roce_tos.map(|tos| tos.to_string()));
    to.put_some("roce", interface.roce.map(|roce| roce.to_string()));
    for (selector, priorities) in interface.app.iter().flatten() {
        to.put(format!("app.{selector}"), priorities_text(priorities));
    }
    to.put_some("roce_mode", interface.roce_mode.map(str::to_string));
    to.put_some("firmware", interface.firmware.clone());
    let class = |class: Option<u8>| class.map_or("none".to_string(), |class| class.to_string());
    to.put_some("traffic_class", interface.traffic_class.map(class));
    for (name, value) in &interface.parameters {
        to.put(format!("dcqcn.{name}"), value.as_str());
    }
}
