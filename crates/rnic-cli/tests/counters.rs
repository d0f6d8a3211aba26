//! Tests of `rnic counters` and of the metrics of `rnic run`, with a real Prometheus.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a program of Debian's package `prometheus` is installed; prints a message if it is not.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} (Debian: prometheus) is not installed");
    }
    found
}

fn promtool(arguments: &[&str], folder: &Path, input: Option<&str>) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.success(),
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
    )
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

/// Starts `rnic counters` and returns it with its address.
fn exporter(arguments: &[&str]) -> (Process, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rnic"))
        .args(["counters", "--listen", "127.0.0.1:0", "--every", "100ms"])
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics at http://").unwrap().strip_suffix("/metrics").unwrap().to_string();
    (Process(child), address)
}

#[expect(clippy::disallowed_methods, reason = "the processes run in real time")]
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} did not happen within a minute");
}

#[test]
fn the_alert_rules_are_valid_and_do_what_their_tests_say() {
    if !installed("promtool") {
        return;
    }
    let folder = project().join("examples/prometheus");
    for arguments in [&["check", "config", "prometheus.yml"][..], &["test", "rules", "alerts-test.yml"]] {
        let (good, text) = promtool(arguments, &folder, None);
        assert!(good, "{text}");
    }
    // Every alert has a runbook.
    let guide = fs::read_to_string(project().join("docs/guides/alerts.md")).unwrap();
    let rules = fs::read_to_string(folder.join("alerts.yml")).unwrap();
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 20);
    for alert in alerts {
        assert!(guide.contains(&format!("\n## {alert}\n")), "docs/guides/alerts.md has no section {alert}");
        let url =
            format!("runbook_url: \"{{{{ $externalLabels.rnic_docs }}}}/guides/alerts.html#{}\"", alert.to_lowercase());
        assert!(rules.contains(&url), "{alert} has no runbook_url");
    }
    // Every metric of a rule is documented.
    let read = |name: &str| fs::read_to_string(project().join("docs/reference").join(name)).unwrap();
    let reference = read("metrics.md") + &read("mesh.md");
    let names = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut count = 0;
    let own = |name: &&str| ["rnic_", "node_", "rpingmesh_"].iter().any(|prefix| name.starts_with(prefix));
    // An external label.
    for name in names.filter(own).filter(|name| *name != "rnic_docs") {
        assert!(reference.contains(name), "{name} is neither in docs/reference/metrics.md nor in mesh.md");
        count += 1;
    }
    assert!(count > 20);
}

/// The queries of the dashboard are valid, and name metrics that exist.
#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let folder = project().join("examples/prometheus");
    let dashboard: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("grafana-dashboard.json")).unwrap()).unwrap();
    let targets = |panel: &serde_json::Value| panel["targets"].as_array().cloned().unwrap_or_default();
    let queries: Vec<String> = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(targets)
        .map(|target| target["expr"].as_str().unwrap().to_string())
        .collect();
    assert!(queries.len() > 15);
    let read = |name: &str| fs::read_to_string(project().join("docs/reference").join(name)).unwrap();
    let reference = read("metrics.md") + &read("mesh.md");
    for query in &queries {
        let names: Vec<&str> = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let own = names.iter().filter(|name| ["rnic_", "node_", "rpingmesh_"].iter().any(|own| name.starts_with(own)));
        let mut count = 0;
        for name in own {
            assert!(reference.contains(&format!("`{name}`")), "{name} of {query} is not documented");
            count += 1;
        }
        assert!(count > 0, "{query}");
    }
    if installed("promtool") {
        let rules = tempfile::tempdir().unwrap();
        let rule = |query: &String| format!("      - alert: A\n        expr: '{}'\n", query.replace('\'', "''"));
        let text = format!("groups:\n  - name: g\n    rules:\n{}", queries.iter().map(rule).collect::<String>());
        fs::write(rules.path().join("queries.yml"), text).unwrap();
        let (good, text) = promtool(&["check", "rules", "--lint=none", "queries.yml"], rules.path(), None);
        assert!(good, "{text}");
    }
}

/// The example of Alertmanager is valid: one message for a fault, not one for each pair of ToR switches.
#[test]
fn the_example_of_alertmanager_groups_and_inhibits() {
    let folder = project().join("examples/prometheus");
    let text = fs::read_to_string(folder.join("alertmanager.yml")).unwrap();
    let rules = fs::read_to_string(folder.join("alerts.yml")).unwrap();
    // The alerts that it names exist.
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let named: Vec<&str> = words.filter(|word| word.starts_with("Mesh") && word.len() > 4).collect();
    assert!(named.len() > 5);
    for alert in named {
        assert!(rules.contains(&format!("- alert: {alert}\n")), "{alert}");
    }
    if Command::new("amtool").arg("--version").output().is_err() {
        eprintln!("skipped: amtool (Debian: prometheus-alertmanager) is not installed");
        return;
    }
    let amtool = |arguments: &[&str]| {
        let output = Command::new("amtool").args(arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(amtool(&["check-config", "alertmanager.yml"]).contains("3 inhibit rules"));
    let route = ["config", "routes", "test", "--config.file=alertmanager.yml", "alertname=MeshSuspect", "part=host h3"];
    assert_eq!(amtool(&route).trim(), "operators");
}

/// Prometheus scrapes the exporter, and an alert of the rules fires.
#[test]
fn prometheus_scrapes_the_exporter() {
    if !installed("prometheus") || !installed("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("sys/class/net/eth0")).unwrap();
    fs::write(root.join("sys/class/net/eth0/speed"), "100000\n").unwrap();
    let statistics = |us: u64| format!("NIC statistics:\n rx_prio3_pause: 1\n rx_prio3_pause_duration: {us}\n");
    let path = root.join("ethtool-S-eth0.txt");
    fs::write(&path, statistics(0)).unwrap();
    let (_exporter, address) = exporter(&["--root", root.to_str().unwrap(), "--node", "gpu1"]);
    let page = get(&address, "/metrics").unwrap();
    let body = page.split("\r\n\r\n").nth(1).unwrap();
    let (good, text) = promtool(&["check", "metrics"], folder.path(), Some(body));
    assert!(good, "{text}");
    fs::copy(project().join("examples/prometheus/alerts.yml"), folder.path().join("alerts.yml")).unwrap();
    let config = format!(
        "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\nrule_files: [alerts.yml]\n\
         scrape_configs:\n  - job_name: rnic\n    static_configs: [{{targets: ['{address}']}}]\n"
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let own = format!("127.0.0.1:{port}");
    let prometheus = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", &format!("--web.listen-address={own}")])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Process(prometheus);
    wait_for("a scrape", || {
        let page = get(&own, "/api/v1/query?query=rnic_pfc_frames_total")?;
        page.contains("\"node\":\"gpu1\"").then_some(())
    });
    // A storm: the counter grows faster than time.
    let mut us = 0;
    wait_for("the alert", || {
        us += 1_000_000;
        let temporary = path.with_extension("tmp");
        fs::write(&temporary, statistics(us)).unwrap();
        fs::rename(&temporary, &path).unwrap();
        let page = get(&own, "/api/v1/alerts")?;
        (page.contains("PfcPauseStorm") && page.contains("\"state\":\"firing\"")).then_some(())
    });
}

/// Redis is away: the exporter continues to serve, and reports the failure.
#[test]
fn an_exporter_without_its_source_says_so() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (_exporter, address) = exporter(&["--redis", &format!("redis://127.0.0.1:{port}"), "--node", "leaf1"]);
    let line = "rnic_counters_up{node=\"leaf1\",source=\"redis\"} 0\n";
    wait_for("the metric", || get(&address, "/metrics").filter(|page| page.contains(line)));
}

/// A simulated run has the names of real devices.
#[test]
fn a_run_writes_the_same_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = project().join("scenarios/pfc/head-of-line.toml");
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rnic"))
            .args(["run", scenario.to_str().unwrap(), "--quiet", "--metrics", "--out", folder.path().to_str().unwrap()])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(folder.path().join("head-of-line/metrics.txt")).unwrap()
    };
    let text = run(&["--threads", "1"]);
    assert_eq!(text, run(&["--threads", "2"]), "the same bytes for any number of threads");
    rnic_metrics::check::open_metrics(&text).unwrap();
    let paused = text.lines().filter(|line| line.starts_with("rnic_pfc_paused_seconds_total{"));
    let values: Vec<f64> = paused
        .filter(|line| line.contains("node=\"left\""))
        .map(|line| line.rsplit(" ").nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(values.len() > 10 && values.iter().any(|value| *value > 0.0), "{values:?}");
    let names: Vec<&str> =
        text.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next().unwrap())).collect();
    let reference = fs::read_to_string(project().join("docs/reference/metrics.md")).unwrap();
    for name in &names {
        assert!(reference.contains(name), "{name} is not in docs/reference/metrics.md");
    }
    for name in ["rnic_pfc_frames", "rnic_pfc_paused_ratio", "rnic_pfc_pauses", "rnic_queue_ecn_marked_packets"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    // Prometheus imports the stretched times: 10 us between samples become 10 ms.
    if installed("promtool") {
        let stretched = run(&["--metrics-stretch", "1000"]);
        fs::write(folder.path().join("stretched.txt"), stretched).unwrap();
        let arguments = ["tsdb", "create-blocks-from", "openmetrics", "stretched.txt", "blocks"];
        let (good, text) = promtool(&arguments, folder.path(), None);
        assert!(good, "{text}");
    }
}

const WATCHED: &str = r#"fabric = { topology = "leaf-spine", leaves = 2, spines = 1, hosts_per_leaf = 2, rate = "40 Gbps", delay = "1 us" }
traffic = { pattern = "incast", senders = 3, total = "1 MB" }
watch = { interval = "1 us", queues = "all", pauses = true }
run = [{ name = "RoCE \"PFC\"", transport = "roce", pfc = true }, { name = "IRN", transport = "irn" }]
"#;

/// With sampled queues, the gauge of bytes in a queue and the counter of bytes sent are separate metric families.
#[test]
fn metrics_of_sampled_queues_are_open_metrics() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("watched.toml"), WATCHED).unwrap();
    let run = |values: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
        command.args(["run", "watched.toml", "--quiet", "--metrics"]).args(values).current_dir(folder.path());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{text}");
        (fs::read_to_string(folder.path().join("out/watched/metrics.txt")).unwrap(), text)
    };
    let (all, _) = run(&["--metrics-values", "all"]);
    let contents = rnic_metrics::check::open_metrics(&all).unwrap();
    assert!(contents.samples["rnic_queue_bytes"] > 0 && contents.samples["rnic_queue_occupancy_bytes"] > 1_000);
    let (few, message) = run(&["--metrics-values", "200"]);
    let thinned = rnic_metrics::check::open_metrics(&few).unwrap();
    let sampled = |contents: &rnic_metrics::check::Contents| contents.samples["rnic_queue_occupancy_bytes"];
    assert!(sampled(&thinned) * 5 < sampled(&contents) && message.contains("--metrics-values all"), "{message}");
    assert_eq!(thinned.samples["rnic_queue_bytes"], contents.samples["rnic_queue_bytes"], "all values at the end");
    // The parser of Prometheus' own Python package, if it is installed, accepts the file too.
    let program = "import sys\ntry:\n    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
                   except ImportError:\n    sys.exit(3)\nprint(len(list(parse(open(sys.argv[1]).read()))))";
    let own = project().join("target/python/bin/python3");
    let python = if own.exists() { own } else { PathBuf::from("python3") };
    let parsed =
        Command::new(python).args(["-c", program, "out/watched/metrics.txt"]).current_dir(folder.path()).output();
    match parsed.ok().filter(|output| output.status.code() != Some(3)) {
        Some(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        None => eprintln!("skipped: the Python package prometheus_client is not installed"),
    }
}

/// Runs a scenario, and returns its warnings and the file with its metrics.
fn simulated(folder: &Path, scenario: &str, run: &str, set: &[&str]) -> (String, PathBuf) {
    let out = folder.join(scenario.replace('/', "-")).join(run);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.args(["run", scenario, "--run", run, "--metrics", "--quiet", "--format", "json", "--out"]).arg(&out);
    command.args(set.iter().flat_map(|set| ["--set", set]));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut folders = vec![out];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.ends_with("metrics.txt") {
                return (String::from_utf8(output.stdout).unwrap(), entry);
            }
        }
    }
    panic!("no metrics.txt");
}

/// What pause counters say about a run, in lines.
fn suspects(metrics: &Path) -> Vec<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_rnic")).args(["counters", "--suspects"]).arg(metrics).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

/// The origin of pauses that follows from the counters of all nodes is the origin that the simulator knows: the cycle
/// of a deadlock, the NIC of a storm, and no origin in a run whose pauses dissolve.
#[test]
fn the_origin_of_pauses_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (result, metrics) = simulated(folder.path(), "at-scale/deadlock", "flooding", &[]);
    // The simulator names the ports of the cycle, as NODE:PEER.
    let truth = result.split("a cycle of pauses at the end of the run: through ").nth(1).unwrap();
    let truth: std::collections::BTreeSet<&str> =
        truth.split('"').next().unwrap().split(", ").map(|port| port.split(':').next().unwrap()).collect();
    let found = suspects(&metrics);
    let loop_of = found.iter().find_map(|line| line.split("deadlock in priority 0: ").nth(1)).unwrap();
    let nodes: std::collections::BTreeSet<&str> =
        loop_of.split(" wait for each other").next().unwrap().split(" -> ").collect();
    assert_eq!(nodes, truth, "{found:?}");

    let (_, metrics) = simulated(folder.path(), "at-scale/deadlock", "drop", &[]);
    let found = suspects(&metrics);
    assert!(found.iter().all(|line| !line.contains("deadlock")), "{found:?}");

    let short = ["limits.duration=60 ms", "traffic.pairs.pairs=32"];
    let (_, metrics) = simulated(folder.path(), "at-scale/storm", "storm", &short);
    let found = suspects(&metrics);
    assert!(found.len() == 1 && found[0].contains("the NIC of h0 pauses priority 0 without end"), "{found:?}");
    let (_, metrics) = simulated(folder.path(), "at-scale/storm", "no storm", &short);
    assert!(suspects(&metrics)[0].contains("no link is blocked"), "{:?}", suspects(&metrics));
}
