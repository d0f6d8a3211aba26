//! Every explicit setting of a scenario has an effect or is refused by name. The test walks over the keys of all
//! tables, with every transport and every organisation of the switch buffer.

use crate::common::read_scenario;
use rnic_sim::resolve::{Resolved, resolve};
use rnic_sim::{Catalogue, Events, Sharing};
use rnic_spec::Scenario;
use std::path::Path;

const TRANSPORTS: [&str; 9] =
    ["roce", "irn", "iwarp", "ndp", "homa", "homa-tr", "hpcc", "p4:../../p4/ndp.p4", "p4:../../p4/hpcc.p4"];
const QUEUEINGS: [&str; 3] = ["input", "shared", "output"];

/// Keys that name other tables or identify a run; they are walked over themselves, or have no default to differ from.
const STRUCTURE: [&str; 10] =
    ["topology", "switch", "link", "route", "storm", "name", "transport", "set", "beside", "ecn"];

/// A slow receiver.
const RECEIVER: &str =
    "[{ hosts = [\"h0\"], page = \"4 KiB\", entries = 9, miss = \"1 us\", memory = \"4 MB\", buffer = \"256 KB\" }]";

/// For every key, values that differ from what a run would have without the key.
const VALUES: &[(&str, &[&str])] = &[
    // [traffic]
    ("priority", &["1"]),
    // [fabric]
    ("rate", &["\"25 Gbps\""]),
    ("delay", &["\"3 us\""]),
    ("loss", &["0.01"]),
    ("mtu", &["\"2 KB\""]),
    ("frame_gap", &["\"24 B\""]),
    ("clock_skew_ppm", &["50"]),
    ("clock_jitter", &["\"2 ns\""]),
    ("convergence", &["\"1 ms\""]),
    ("local_repair", &["\"1 ms\""]),
    ("drop", &["[{ at = \"leaf0\", from = \"h0\", every = 3 }]"]),
    ("dead", &["[{ host = \"h0\" }]"]),
    ("receiver", &[RECEIVER]),
    ("watchdog", &["{ detection = \"1 ms\" }"]),
    ("nic_watchdog", &["{ detection = \"1 ms\" }"]),
    ("mesh", &["[{ pairs = 2, interval = \"1 ms\" }]"]),
    ("paths", &["\"ecmp\"", "\"spray\"", "\"adaptive\"", "\"flowlet\"", "9\npath_selection = \"reps\""]),
    ("flowlet_gap", &["\"50 us\"\npaths = \"flowlet\""]),
    ("leaves", &["3"]),
    ("spines", &["3"]),
    ("hosts_per_leaf", &["4"]),
    ("uplink_rate", &["\"100 Gbps\""]),
    ("uplink_delay", &["\"1 us\""]),
    ("oversubscription", &["2"]),
    // [fabric.switch]
    ("queueing", &["\"input\"", "\"shared\"", "\"output\""]),
    ("buffer", &["\"13 MB\""]),
    ("xoff", &["\"50 KB\""]),
    ("xon", &["\"20 KB\""]),
    ("headroom", &["\"40 KB\""]),
    ("arbiter", &["\"oldest-first\""]),
    ("arbiter_quantum", &["3", "\"9 KB\""]),
    ("drop_until_free", &["\"10 KB\""]),
    ("scheduler", &["\"round-robin\"", "\"drr\""]),
    ("weights", &["[1, 2]"]),
    ("beta", &["4"]),
    ("xon_offset", &["\"5 KB\""]),
    ("egress_alpha", &["0.5"]),
    ("priorities", &["5"]),
    ("buffers", &["[\"300 KB\", \"400 KB\", \"300 KB\", \"300 KB\", \"300 KB\"]"]),
    ("trim", &["true"]),
    ("count_in_service", &["true"]),
    // [fabric.switch.ecn]
    ("kmin", &["\"7 KB\""]),
    ("kmax", &["\"300 KB\""]),
    ("pmax", &["0.3"]),
    ("mark_on", &["\"enqueue\"", "\"dequeue\""]),
    // [limits]
    ("max_time", &["\"1 s\""]),
    ("stall_time", &["\"2 s\""]),
    ("duration", &["\"1 ms\""]),
    // Runs
    ("pfc", &["true"]),
    ("cc", &["\"dcqcn\"", "\"timely\"", "\"hpcc\""]),
    ("header", &["\"70 B\""]),
    ("ack_size", &["\"90 B\""]),
    ("nack_size", &["\"90 B\""]),
    ("cnp_size", &["\"90 B\""]),
    ("control_priority", &["true"]),
    ("nic_burst", &["5"]),
    ("nic_pipeline", &["\"rtl:irn\"\nnic_cycle = \"4 ns\""]),
    ("nic_cycle", &["\"4 ns\"\nnic_pipeline = \"rtl:irn\""]),
    ("max_rate", &["\"10 Gbps\""]),
    ("acks", &["true"]),
    ("timeouts", &["false"]),
    ("rto", &["\"dynamic\""]),
    ("rto_min", &["\"3 ms\""]),
    ("rto_high", &["\"3 ms\""]),
    ("rto_low", &["\"30 us\""]),
    ("rto_low_packets", &["5"]),
    ("path_selection", &["\"reps\""]),
    ("reorder_tolerance", &["\"30 us\""]),
    ("reps_freeze", &["\"1 ms\"\npath_selection = \"reps\""]),
    ("timer_restart", &["\"response\"", "\"progress\""]),
    ("nacks", &["\"every\""]),
    ("go_back", &["\"0\""]),
    ("bdp_fc", &["true", "false"]),
    ("bdp_cap", &["50"]),
    ("bdp_delay", &["\"propagation\""]),
    ("recovery", &["\"newreno\"", "\"no-sack\"", "\"go-back-n\""]),
    ("rto_initial", &["\"5 ms\""]),
    ("rto_max", &["\"80 ms\""]),
    ("initial_window", &["7"]),
    ("receive_window", &["\"1 MB\""]),
    ("delayed_acks", &["true"]),
    ("delayed_ack_timeout", &["\"300 us\""]),
    ("handshake", &["true"]),
    ("dup_thresh", &["5"]),
    ("rtt_packets", &["7"]),
    ("max_timeouts", &["3"]),
    ("rx_timeout", &["\"9 ms\""]),
    ("timer_granularity", &["\"2 us\""]),
    ("probe", &["false"]),
    ("send_order", &["\"round-robin\"", "\"shortest-first\""]),
    ("tx_buffers", &["[{ size = \"4 MB\", count = 9 }]"]),
    ("rx_buffers", &["[{ size = \"4 MB\", count = 9 }]"]),
    ("paced_nacks", &["false"]),
    ("pull_rate", &["0.99"]),
    ("retransmit_on_grant", &["true"]),
    ("unscheduled_priorities", &["2"]),
    ("scheduled_priorities", &["2"]),
    ("overcommitment", &["2"]),
    ("eta", &["0.9"]),
    ("max_stage", &["3"]),
    ("w_ai", &["\"500 B\""]),
    ("constants", &["{ RTT_PACKETS = 3 }", "{ MAX_STAGE = 3 }", "{ PACED_NACKS = false }"]),
    ("dcqcn", &["{ g = 0.1 }"]),
    ("timely", &["{ beta = 0.5 }"]),
    ("patched-timely", &["{ beta = 0.5 }"]),
    ("dctcp", &["{ g = 0.1 }"]),
    ("aimd", &["{ decrease = 0.3 }"]),
    ("cubic", &["{ beta = 0.3 }"]),
    ("swift", &["{ max_mdf = 0.3 }"]),
    ("nscc", &["{ gamma = 0.3 }"]),
    ("rccc", &["{ share = 0.3 }"]),
    ("rogue", &["{ decrease = 0.3 }"]),
    ("hpcc", &["{ eta = 0.9 }"]),
];

/// The scenario, with a line in one of its tables.
fn text(transport: &str, queueing: &str, table: &str, line: &str) -> String {
    let at = |name: &str| if table == name { line } else { "" };
    let ecn = if table == "ecn" { format!("[fabric.switch.ecn]\n{line}") } else { String::new() };
    let queueing = if line.starts_with("queueing") { String::new() } else { format!("queueing = \"{queueing}\"") };
    let of =
        |key: &str, given: &str| if line.starts_with(&format!("{key} =")) { String::new() } else { given.to_string() };
    format!(
        r#"
        seed = 1
        [fabric]
        topology = "leaf-spine"
        {leaves}
        {spines}
        {hosts}
        {rate}
        {delay}
        {fabric}
        [fabric.switch]
        {queueing}
        {switch}
        {ecn}
        [traffic]
        pattern = "poisson"
        load = 0.5
        sizes = "fixed 100 KB"
        flows = 10
        [limits]
        {limits}
        [[run]]
        name = "R"
        transport = "{transport}"
        {run}
        "#,
        leaves = of("leaves", "leaves = 2"),
        spines = of("spines", "spines = 2"),
        hosts = of("hosts_per_leaf", "hosts_per_leaf = 3"),
        rate = of("rate", "rate = \"40 Gbps\""),
        delay = of("delay", "delay = \"2 us\""),
        fabric = at("fabric"),
        switch = at("switch"),
        limits = at("limits"),
        run = at("run"),
    )
}

fn read(transport: &str, queueing: &str, table: &str, line: &str) -> Result<Scenario, String> {
    let text = text(transport, queueing, table, line);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    read_scenario(&text, folder)
}

/// The resolved run, or why there is none. Settings of the transport count only by their effects.
fn resolved(transport: &str, queueing: &str, table: &str, line: &str) -> Result<Resolved, String> {
    let scenario = read(transport, queueing, table, line)?;
    let run = &scenario.runs[0];
    let mut resolved = resolve(&Catalogue::standard(), run).map_err(|error| error.to_string())?;
    resolved.transport.settings = run.transport.declaration.settings();
    Ok(resolved)
}

/// The keys that a table accepts, from the error for a key that does not exist.
fn keys(transport: &str, queueing: &str, table: &str) -> Vec<String> {
    let error = read(transport, queueing, table, "no_such_key = 1").unwrap_err();
    let (_, keys) = error.split_once("accepted here: ").unwrap_or_else(|| panic!("{error}"));
    keys.lines().next().unwrap().split(", ").map(str::to_string).collect()
}

/// A switch whose thresholds are explicit marks packets under every transport, whatever its congestion control needs.
#[test]
fn explicit_ecn_thresholds_mark_packets_of_every_transport() {
    for transport in TRANSPORTS {
        for queueing in QUEUEINGS {
            let ecn = "kmin = \"1 KB\"\nkmax = \"2 KB\"";
            let scenario = read(transport, queueing, "ecn", ecn).unwrap();
            let run = &scenario.runs[0];
            let catalogue = Catalogue::standard();
            let resolved = resolve(&catalogue, run).unwrap();
            let record = rnic_sim::run::run(&catalogue, run, &resolved, None, &Sharing::among(1), &Events::ignored());
            assert!(record.output.totals.marked > 0, "{transport} {queueing}");
        }
    }
}

#[test]
fn an_explicit_setting_has_an_effect_or_is_refused_by_name() {
    let mut silent = Vec::new();
    for transport in TRANSPORTS {
        for queueing in QUEUEINGS {
            let base = resolved(transport, queueing, "", "").unwrap();
            for table in ["fabric", "switch", "ecn", "limits", "run"] {
                for key in keys(transport, queueing, table) {
                    if STRUCTURE.contains(&key.as_str()) {
                        continue;
                    }
                    let values = VALUES.iter().find(|(name, _)| *name == key);
                    let (_, values) = values.unwrap_or_else(|| panic!("VALUES has no value for `{key}` of [{table}]"));
                    // One of the values may be what the run has anyway.
                    let effects = values.iter().map(|value| {
                        match resolved(transport, queueing, table, &format!("{key} = {value}")) {
                            Ok(changed) => changed != base,
                            Err(error) => error.contains(&format!("`{key}`")) || error.contains(&format!("{key} =")),
                        }
                    });
                    if !effects.fold(false, |any, effect| any | effect) {
                        silent
                            .push(format!("{key} = {} in [{table}] with {transport}, {queueing}", values.join(" or ")));
                    }
                }
            }
        }
    }
    assert!(silent.is_empty(), "{} settings without effect:\n{}", silent.len(), silent.join("\n"));
}
