//! A table of the results of small runs with every transport, loss recovery and congestion control. The table does not
//! prove that results are right: it shows a reviewer every change of behaviour as a difference. This command rewrites
//! the table: `UPDATE_EXPECT=1 cargo test -p rnic-sim --test tests behaviour`.

use rnic_campaign::run_scenario;
use rnic_results::summarise;
use rnic_scenario::from_str;
use std::fmt::Write;
use std::path::Path;

const SCENARIOS: [(&str, &str); 4] = [
    (
        "Poisson, heavy-tailed, load 0.8, 16 hosts, 60 KB buffers",
        r#"
[fabric]
topology = "fat-tree"
k = 4
rate = "40 Gbps"
delay = "1 us"
switch = { buffer = "60 KB" }
[traffic]
pattern = "poisson"
load = 0.8
sizes = "irn-heavy-tailed"
flows = 400
"#,
    ),
    (
        "Incast, 1.5 MB from 12 hosts, twice",
        r#"
[fabric]
topology = "single-switch"
hosts = 13
rate = "100 Gbps"
delay = "1 us"
switch = { buffer = "100 KB" }
[traffic]
pattern = "incast"
senders = 12
total = "1500 KB"
repeats = 2
"#,
    ),
    (
        "Permutation of 500 KB, links that lose 0.1 %",
        r#"
[fabric]
topology = "leaf-spine"
leaves = 3
spines = 2
hosts_per_leaf = 3
rate = "25 Gbps"
delay = "2 us"
loss = 0.001
[traffic]
pattern = "permutation"
sizes = "fixed 500 KB"
repeats = 2
interval = "300 us"
"#,
    ),
    (
        "Two into one, 4 MB each, over a bottleneck",
        r#"
[fabric]
topology = "dumbbell"
left = 2
right = 2
rate = "40 Gbps"
delay = "2 us"
bottleneck_rate = "20 Gbps"
[traffic]
pattern = "permutation"
sizes = "fixed 4 MB"
repeats = 1
interval = "1 ms"
"#,
    ),
];

/// Runs of every transport and loss recovery without congestion control, and of every congestion control with IRN and
/// with RoCE + PFC, which the IRN paper compares.
fn runs() -> Vec<(String, String)> {
    let mut runs = Vec::new();
    let mut add = |name: &str, keys: &str| runs.push((name.to_string(), keys.to_string()));
    for (name, keys) in [
        ("roce", "transport = \"roce\""),
        ("roce acks", "transport = \"roce\"\nacks = true"),
        ("irn no-sack", "transport = \"irn\"\nrecovery = \"no-sack\""),
        ("irn go-back-n", "transport = \"irn\"\nrecovery = \"go-back-n\""),
        ("irn no bdp-fc", "transport = \"irn\"\nbdp_fc = false"),
        ("irn dynamic rto", "transport = \"irn\"\nrto = \"dynamic\""),
        ("irn priority", "transport = \"irn\"\ncontrol_priority = true"),
        ("irn + pfc", "transport = \"irn\"\npfc = true"),
        ("iwarp", "transport = \"iwarp\""),
        ("iwarp newreno", "transport = \"iwarp\"\nrecovery = \"newreno\""),
        ("iwarp whole", "transport = \"iwarp\"\nhandshake = true\ndelayed_acks = true"),
        ("tcp", "transport = \"tcp\""),
        ("ndp", "transport = \"ndp\""),
        ("homa", "transport = \"homa\""),
        ("homa-tr", "transport = \"homa-tr\""),
        ("hpcc", "transport = \"hpcc\""),
        ("rogue", "transport = \"rogue\""),
        ("multipath", "transport = \"multipath\""),
    ] {
        add(name, keys);
    }
    for cc in
        rnic_spec::Vocabulary::standard().congestion_controls().iter().filter(|cc| !cc.host_only && !cc.needs_credit)
    {
        add(&format!("irn, {}", cc.name), &format!("transport = \"irn\"\ncc = \"{}\"", cc.name));
        add(&format!("roce + pfc, {}", cc.name), &format!("transport = \"roce\"\npfc = true\ncc = \"{}\"", cc.name));
    }
    runs
}

fn table(title: &str, text: &str) -> String {
    // IRN has the cap of its paper, with which the recorded studies simulate it.
    let irn = "[transport]\nbdp_delay = \"propagation\"\n";
    let mut text = format!("title = \"{title}\"\nlimits = {{ stall_time = \"20 ms\" }}\n{text}{irn}");
    for (name, keys) in runs() {
        write!(text, "[[run]]\nname = \"{name}\"\n{keys}\n").unwrap();
    }
    let scenario = from_str(&text, "behaviour.toml", Path::new(""), &[], None).unwrap();
    let reports = run_scenario(&scenario, 2).unwrap();
    let mut table = format!("{title}\n");
    writeln!(
        table,
        "{:28}{:>9}{:>11}{:>11}{:>10}{:>10}{:>9}{:>8}{:>6}{:>7}{:>9}",
        "run", "slowdown", "FCT us", "p99 us", "data", "resent", "dropped", "marked", "CNPs", "pauses", "timeouts"
    )
    .unwrap();
    for run in summarise(&scenario, &reports).runs {
        // Every run completes, with incast and with loss. Only RoCE without congestion control may fail: without
        // jitter, go-back-N flows that overflow a buffer can lose the same packet for ever.
        assert!(
            run.failure.is_none() || ["roce", "roce acks"].contains(&run.name.as_str()),
            "{title}: {}: {:?}",
            run.name,
            run.failure
        );
        let (Some(slowdown), Some(fct), totals) = (run.slowdown, run.fct_us, run.totals) else {
            writeln!(table, "{:28}{:>9}", run.name, "failed").unwrap();
            continue;
        };
        writeln!(
            table,
            "{:28}{:9.3}{:11.2}{:11.2}{:10}{:10}{:9}{:8}{:6}{:7}{:9}",
            run.name,
            slowdown.mean,
            fct.mean,
            fct.p99,
            totals.data,
            totals.retransmitted,
            totals.dropped,
            totals.marked,
            totals.notifications,
            totals.pause_frames,
            run.timeouts
        )
        .unwrap();
    }
    table
}

#[test]
fn behaviour_is_as_recorded() {
    let tables: Vec<String> = SCENARIOS.iter().map(|(title, text)| table(title, text)).collect();
    expect_test::expect_file!["behaviour.txt"].assert_eq(&tables.join("\n"));
}
