//! Tests of `rnic mesh` on the loopback interface: probes, results on disk, a controller that is killed, clients
//! without a certificate.

use crate::browser::Browser;
use crate::mesh_processes::{Folder, Process, addresses, get, json, mesh, names, wait_for};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use rnic_mesh::credentials::{Files, make};
use rnic_mesh::host::Client;
use rnic_mesh::record::{Batch, Fetched, Health, PROTOCOL, Registration};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Three hosts on one machine. Addresses 127.x.y.z are all local.
fn inventory(block: u8) -> String {
    let mut text = String::from(
        "[mesh]\ntor_interval = \"50 ms\"\ninterval = \"50 ms\"\npaths = 2\nrefresh = \"300 ms\"\nreport = \"200 ms\"\n\
         evaluate = \"500 ms\"\ntimeout = \"500 ms\"\n",
    );
    for host in 1..=3 {
        let tor = if host < 3 { "t1" } else { "t2" };
        text += &format!("[[host]]\nname = \"h{host}\"\naddress = \"127.{block}.0.{host}\"\ntor = \"{tor}\"\n");
    }
    text
}

fn spawn(command: &mut Command) -> Process {
    Process::new(command.spawn().unwrap())
}

fn agents(folder: &Folder, block: u8, url: &str) -> Vec<Process> {
    (1..=3).map(|host| spawn(&mut folder.agent(&format!("h{host}"), &format!("127.{block}.0.{host}"), url))).collect()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The batches in the folder of the results: numbers of probes by host, incarnation and batch.
fn stored(data: &Path) -> BTreeMap<(String, u64, u64), usize> {
    let mut batches = BTreeMap::new();
    for name in names(data).iter().filter(|name| name.ends_with(".log")) {
        for entry in rnic_mesh::store::entries(&data.join(name)).unwrap() {
            let Batch { host, incarnation, sequence, probes, .. } = entry.batch;
            let before = batches.insert((host, incarnation, sequence), probes.len());
            assert_eq!(before, None, "a batch is stored once");
        }
    }
    batches
}

fn rows(data: &Path) -> usize {
    let files = names(data).into_iter().filter(|name| name.ends_with(".parquet"));
    let of = |name: String| {
        let reader = SerializedFileReader::new(File::open(data.join(name)).unwrap()).unwrap();
        reader
            .get_row_iter(None)
            .unwrap()
            .filter(|row| row.as_ref().unwrap().get_string(2).unwrap().starts_with('h'))
            .count()
    };
    files.map(of).sum()
}

/// Agents probe each other, and the controller is killed and restarted: every result is stored exactly once.
#[test]
fn nothing_is_lost_when_the_controller_is_killed() {
    let folder = Folder::new(&inventory(51), "127.0.0.1");
    let listen = format!("127.0.0.1:{}", free_port());
    let data = folder.path.join("data");
    let mut controller = spawn(&mut folder.controller(&listen, "127.0.0.1:0"));
    let (url, page) = addresses(&controller);
    assert_eq!(url, format!("https://{listen}"));
    let mut agents = agents(&folder, 51, &url);
    let probes = |page: &str| json(page, "/api/overview").map_or(0, |view| view["probes"].as_u64().unwrap());
    wait_for("60 probes", 60, || (probes(&page) > 60).then_some(()));
    let view = json(&page, "/api/overview?window=10m&metric=loss").unwrap();
    assert_eq!((view["agents"]["up"].as_u64(), view["storage"].is_null()), (Some(3), true), "{view}");
    assert_eq!(view["cells"].as_array().unwrap().len(), 3, "t1 to t1, t1 to t2, t2 to t1: {view}");
    let (_, _, metrics) = get(&page, "/metrics", "").unwrap();
    for name in ["network_rtt_ns{source_tor=\"t1\",target_tor=\"t2\",quantile=\"0.99\"}", "probe_total{", "agents_up 3"]
    {
        assert!(metrics.contains(&format!("rpingmesh_{name}")), "{metrics}");
    }
    // Killed without warning. During this time, the agents keep their results and stop probing.
    controller.child.kill().unwrap();
    controller.child.wait().unwrap();
    for agent in &agents {
        agent.line("probing stops");
    }
    let before = stored(&data).values().sum::<usize>();
    assert!(before > 60);
    let controller = spawn(&mut folder.controller(&listen, "127.0.0.1:0"));
    controller.line("reports of an earlier controller");
    let (_, page) = addresses(&controller);
    for agent in &agents {
        agent.line("answers again");
    }
    wait_for("more probes", 60, || (probes(&page) as usize > before + 60).then_some(()));
    // An agent that ends reports what it has.
    for agent in &mut agents {
        agent.signal("-TERM");
        assert_eq!(agent.child.wait().unwrap().code(), Some(0));
    }
    controller.signal("-TERM");
    wait_for("the end", 20, || controller.lines().last().map(|_| ()));
    drop(controller);
    // The log of the first controller became a Parquet file; the numbers of each agent's batches have no gap.
    let rows = rows(&data);
    assert_eq!(rows, before, "the killed controller's results");
    let mut numbers: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    for (host, incarnation, sequence) in stored(&data).into_keys() {
        numbers.entry((host, incarnation)).or_default().push(sequence);
    }
    assert_eq!(numbers.len(), 3);
    for (host, numbers) in numbers {
        let gaps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert_eq!(gaps, 0, "{host:?}: {numbers:?}");
    }
}

/// A Prometheus that scrapes an address with the alert rules of the examples; `None` if it is not installed.
fn prometheus(folder: &Path, target: &str) -> Option<(Killed, String)> {
    if Command::new("prometheus").arg("--version").output().is_err() {
        eprintln!("SKIPPED: prometheus (Debian: prometheus) is not installed");
        return None;
    }
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus/alerts.yml");
    fs::copy(rules, folder.join("alerts.yml")).unwrap();
    let config = format!(
        "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\nrule_files: [alerts.yml]\n\
         scrape_configs:\n  - job_name: rnic-mesh\n    static_configs: [{{targets: ['{target}']}}]\n"
    );
    fs::write(folder.join("prometheus.yml"), config).unwrap();
    let own = format!("127.0.0.1:{}", free_port());
    let child = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", &format!("--web.listen-address={own}")])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some((Killed(child), format!("http://{own}")))
}

/// A process that ends with the test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real Prometheus scrapes a mesh whose probes are RDMA Writes on reliable connections, and an alert of the examples
/// fires.
#[test]
fn prometheus_scrapes_a_mesh_of_rdma_writes() {
    let rule = "[[alarm]]\nname = \"any\"\nabout = \"tor-pair\"\nmetric = \"p50-us\"\nover = \"1m\"\nraise = 0.001\n\
                clear = 0.0\nverdicts = 1\nprobes = 1\n";
    let inventory = inventory(57).replace("paths = 2\n", "paths = 2\ntransport = \"rc-write\"\n") + rule;
    let folder = Folder::new(&inventory, "127.0.0.1");
    let controller = spawn(&mut folder.controller("127.0.0.1:0", "127.0.0.1:0"));
    let (url, page) = addresses(&controller);
    let _agents = agents(&folder, 57, &url);
    let view = wait_for("probes of all pairs", 60, || {
        let view = json(&page, "/api/overview?window=10m&metric=loss")?;
        (view["probes"].as_u64() > Some(60) && view["cells"].as_array()?.len() == 3).then_some(view)
    });
    let lost: u64 = view["cells"].as_array().unwrap().iter().map(|cell| cell[4].as_u64().unwrap()).sum();
    assert!(lost <= 3, "{view}");
    // The responder's software answers the first datagram of each connection, and no probe. An agent's health comes
    // with its next fetch of the pinglist, so later than the results.
    let health = |agents: &serde_json::Value, key: &str| -> Vec<u64> {
        agents.as_array().unwrap().iter().map(|agent| agent["health"][key].as_u64().unwrap()).collect()
    };
    let agents = wait_for("the health of all agents", 60, || {
        let agents = json(&page, "/api/agents")?;
        health(&agents, "answered").iter().all(|answered| *answered >= 4).then_some(agents)
    });
    assert!(health(&agents, "answered").iter().all(|answered| *answered <= 12), "{agents}");
    assert!(health(&agents, "strange").iter().all(|strange| *strange == 0), "{agents}");
    let Some((_prometheus, own)) = prometheus(&folder.path, page.strip_prefix("http://").unwrap()) else { return };
    wait_for("a scrape", 60, || {
        let (_, _, body) = get(&own, "/api/v1/query?query=rpingmesh_probe_success_total", "")?;
        (body.contains("\"source_tor\":\"t1\"") && body.contains("\"target_tor\":\"t2\"")).then_some(())
    });
    wait_for("an alert", 60, || {
        let (_, _, body) = get(&own, "/api/v1/alerts", "")?;
        (body.contains("MeshAlarm") && body.contains("\"state\":\"firing\"")).then_some(())
    });
}

/// Agents probe through the libibverbs that they find, here rnic's own, together with an agent that uses no libibverbs.
#[test]
fn agents_probe_through_libibverbs() {
    let Some(namespace) = namespace() else { return };
    for host in 1..=3 {
        namespace.ip(&format!("address add 10.58.0.{host}/32 dev lo")).unwrap();
    }
    let inventory = inventory(58).replace("127.58.", "10.58.");
    let folder = Folder::new(&inventory, "10.58.0.1");
    let library = folder.path.join("lib");
    let made = Command::new(env!("CARGO_BIN_EXE_rnic")).args(["verbs", "install"]).arg(&library).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let start = |command: &mut Command| Process::new(namespace.run(|| command.spawn()).unwrap());
    let controller = start(&mut folder.controller("10.58.0.1:0", "127.0.0.1:0"));
    let (url, page) = addresses(&controller);
    let agent = |host: usize, nic: &str| {
        let mut command = folder.agent(&format!("h{host}"), &format!("10.58.0.{host}"), &url);
        command.args(["--nic", nic]);
        command.env("LD_LIBRARY_PATH", &library).env("RNIC_DEVICES", format!("10.58.0.{host}"));
        command
    };
    let agents = [start(&mut agent(1, "require")), start(&mut agent(2, "auto")), start(&mut agent(3, "never"))];
    for agent in &agents[..2] {
        agent.line("the NIC rnic0 carries the probes, with time stamps of the software");
    }
    let view = namespace.run(|| {
        wait_for("probes of all pairs", 60, || {
            let view = json(&page, "/api/overview?window=10m&metric=loss")?;
            (view["probes"].as_u64() > Some(200) && view["cells"].as_array()?.len() == 3).then_some(view)
        })
    });
    let sum = |at: usize| view["cells"].as_array().unwrap().iter().map(|cell| cell[at].as_u64().unwrap()).sum::<u64>();
    assert!(sum(4) * 20 <= sum(3), "at most 5 % are lost on a busy machine: {view}");
    // On a busy machine the time stamp of a send in software may be later than the response; such a time counts as 0.
    assert!(view["scopes"][0]["p50_us"].is_number(), "{view}");
    assert!(view["scopes"][0]["p999_us"].as_f64().is_some_and(|us| us > 0.0), "{view}");
    // Each agent answers the others, whatever carries their probes.
    let states = namespace.run(|| json(&page, "/api/agents")).unwrap();
    assert!(states.as_array().unwrap().iter().all(|agent| agent["health"]["answered"].as_u64() > Some(10)), "{states}");
    // A device in software has no time stamps of hardware, whatever it says.
    assert!(states.as_array().unwrap().iter().all(|agent| agent["health"]["hardware_times"] == false), "{states}");

    // Another address than that of a device, and no library.
    let output = |command: &mut Command| {
        let output = namespace.run(|| command.output()).unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).to_string())
    };
    let (code, text) = output(agent(3, "require").env("RNIC_DEVICES", "10.58.0.1"));
    let sentence = "no RDMA device (rnic0) has an active port with a RoCE v2 GID of 10.58.0.3";
    assert!(code == Some(1) && text.contains(sentence), "{text}");
    let (code, text) = output(agent(3, "require").args(["--roce-port", "4800"]));
    assert!(code == Some(1) && text.contains("a NIC has UDP port 4791, and not 4800"), "{text}");
}

/// Reliable connections through libibverbs: two agents over it and one over the endpoint probe each other by RDMA
/// Writes and by Sends. One agent uses the time stamps of its driver, which here come from software.
#[test]
fn reliable_connections_go_through_libibverbs() {
    for (block, transport) in [(59, "rc-write"), (60, "rc-send")] {
        let Some(namespace) = namespace() else { return };
        for host in 1..=3 {
            namespace.ip(&format!("address add 10.{block}.0.{host}/32 dev lo")).unwrap();
        }
        let inventory = inventory(block).replace("127.", "10.");
        let inventory = inventory.replace("paths = 2\n", &format!("paths = 2\ntransport = \"{transport}\"\n"));
        let folder = Folder::new(&inventory, &format!("10.{block}.0.1"));
        let library = folder.path.join("lib");
        let made = Command::new(env!("CARGO_BIN_EXE_rnic")).args(["verbs", "install"]).arg(&library).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let start = |command: &mut Command| Process::new(namespace.run(|| command.spawn()).unwrap());
        let controller = start(&mut folder.controller(&format!("10.{block}.0.1:0"), "127.0.0.1:0"));
        let (url, page) = addresses(&controller);
        let agent = |host: usize, options: &[&str]| {
            let address = format!("10.{block}.0.{host}");
            let mut command = folder.agent(&format!("h{host}"), &address, &url);
            command.args(options).env("LD_LIBRARY_PATH", &library).env("RNIC_DEVICES", address);
            start(&mut command)
        };
        let agents = [
            agent(1, &["--nic", "require"]),
            agent(2, &["--nic", "require", "--nic-times", "any"]),
            agent(3, &["--nic", "never"]),
        ];
        agents[0].line("the NIC rnic0 carries the probes, with time stamps of the software");
        agents[1].line("the NIC rnic0 carries the probes, with time stamps of its driver");
        let view = namespace.run(|| {
            wait_for("probes of all pairs", 90, || {
                let view = json(&page, "/api/overview?window=10m&metric=loss")?;
                (view["probes"].as_u64() > Some(150) && view["cells"].as_array()?.len() == 3).then_some(view)
            })
        });
        let sum =
            |at: usize| view["cells"].as_array().unwrap().iter().map(|cell| cell[at].as_u64().unwrap()).sum::<u64>();
        assert!(sum(4) * 20 <= sum(3), "{transport}: at most 5 % are lost on a busy machine: {view}");
        // The responder's software answers the first datagrams of each connection, and no probe.
        let states = namespace.run(|| {
            wait_for("the health of all agents", 60, || {
                let states = json(&page, "/api/agents")?;
                let ready = |agent: &serde_json::Value| agent["health"]["answered"].as_u64() >= Some(4);
                states.as_array()?.iter().all(ready).then_some(states)
            })
        });
        for (agent, stamps) in states.as_array().unwrap().iter().zip([false, true, false]) {
            let health = &agent["health"];
            assert!(health["answered"].as_u64() <= Some(24), "{transport}: {states}");
            assert_eq!((health["strange"].as_u64(), health["hardware_times"].as_bool()), (Some(0), Some(stamps)));
        }
    }
}

/// The time stamps of completions are those of a driver here, also for datagrams.
#[test]
fn times_are_those_of_the_driver() {
    let Some(namespace) = namespace() else { return };
    for host in 1..=3 {
        namespace.ip(&format!("address add 10.61.0.{host}/32 dev lo")).unwrap();
    }
    let folder = Folder::new(&inventory(61).replace("127.", "10."), "10.61.0.1");
    let library = folder.path.join("lib");
    let made = Command::new(env!("CARGO_BIN_EXE_rnic")).args(["verbs", "install"]).arg(&library).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let start = |command: &mut Command| Process::new(namespace.run(|| command.spawn()).unwrap());
    let controller = start(&mut folder.controller("10.61.0.1:0", "127.0.0.1:0"));
    let (url, page) = addresses(&controller);
    let agent = |host: usize, options: &[&str]| {
        let address = format!("10.61.0.{host}");
        let mut command = folder.agent(&format!("h{host}"), &address, &url);
        command.args(options).env("LD_LIBRARY_PATH", &library).env("RNIC_DEVICES", address);
        command
    };
    let agents = [1, 2, 3].map(|host| start(&mut agent(host, &["--nic", "require", "--nic-times", "any"])));
    for agent in &agents {
        agent.line("the NIC rnic0 carries the probes, with time stamps of its driver");
    }
    let view = namespace.run(|| {
        wait_for("probes of all pairs", 60, || {
            let view = json(&page, "/api/overview?window=10m&metric=loss")?;
            (view["probes"].as_u64() > Some(100) && view["cells"].as_array()?.len() == 3).then_some(view)
        })
    });
    let sum = |at: usize| view["cells"].as_array().unwrap().iter().map(|cell| cell[at].as_u64().unwrap()).sum::<u64>();
    assert!(sum(4) * 20 <= sum(3), "at most 5 % are lost on a busy machine: {view}");
    // A network time is not above what the software saw: 50 ms between hosts of one machine would be a wrong clock.
    assert!(view["scopes"][0]["p50_us"].as_f64().is_some_and(|us| us < 50_000.0), "{view}");
    let refused = namespace.run(|| agent(3, &["--nic", "never", "--nic-times", "any"]).output()).unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && text.contains("no effect with --nic never"), "{text}");
}

/// A network namespace; `None` if there are none here.
fn namespace() -> Option<rnic_netns::Namespace> {
    let made = rnic_netns::Namespace::new();
    made.map_err(|error| eprintln!("SKIPPED: {error}")).ok()
}

/// A simulated incident, as the controller's page would have shown it.
#[test]
fn a_simulated_incident_is_shown() {
    let show = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
        command.args(["mesh", "show", "--quiet"]).args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let print = |run: &str| {
        let output = show(&["at-scale/deadlock", "--run", run, "--print"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (flooding, drop) = (print("flooding"), print("drop"));
    assert!(flooding.contains("\nalarm: heavy-loss of T0 to T1"), "{flooding}");
    assert!(!drop.contains("\nalarm: heavy-loss") && !drop.contains("suspect: "), "{drop}");
    // Pause counters name the loop, as the simulator knows it, where probes identify no suspect.
    let cycle = "deadlock in priority 0: La -> T1 -> Lb -> T0 -> La wait for each other";
    assert!(flooding.contains(&format!("suspect by pause counters: {cycle}")), "{flooding}");
    assert_eq!(flooding, print("flooding"), "the same each time");
    let page =
        Process::new(show(&["at-scale/deadlock", "--run", "flooding", "--page", "127.0.0.1:0"]).spawn().unwrap());
    let line = page.line("page at http://");
    let url = line.rsplit(' ').next().unwrap().trim_end_matches('/');
    let view = json(url, "/api/overview?window=1m&metric=loss").unwrap();
    assert!(view["note"].as_str().unwrap().starts_with("Simulated: A PFC deadlock"), "{view}");
    assert_eq!(view["agents"]["up"], 7, "{view}");
    assert!(!view["alarms"].as_array().unwrap().is_empty(), "{view}");
    in_browser(url);
    for (arguments, sentence) in [
        (&["irn/default", "--print"][..], "has no probes; add [[fabric.mesh]]"),
        (&["at-scale/deadlock", "--mesh", "x"], "unknown mesh \"x\"; accepted: \"probes\""),
        (&["at-scale/deadlock", "--length", "1s"], "accepted are 1 minute to 1 hour"),
        (&["at-scale/deadlock", "--page", "0.0.0.0:0"], "accepted: a loopback address"),
    ] {
        let output = show(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(output.status.code() == Some(2) && text.contains(sentence), "{text}");
    }
}

/// The charts of a pair of ToR switches: all probes were lost from a certain minute on.
fn in_browser(url: &str) {
    let Some(browser) = Browser::start() else { return };
    browser.visit(&format!("{url}/"), 1200);
    let count = |selector: &str| browser.js(&format!("return document.querySelectorAll('{selector}').length;"));
    wait_for("the page", 30, || (count("#agents tbody tr") == 7).then_some(()));
    browser.js("document.querySelector('#window [data-value=\"10m\"]').click();");
    wait_for("the map", 30, || (count("#map button") == 2).then_some(()));
    browser.js("document.querySelector('#map button').click();");
    let share = "#series [data-figure=\"1\"] circle.dot";
    wait_for("the charts", 30, || (count(share).as_u64() > Some(3)).then_some(()));
    let last = browser.js(&format!("return [...document.querySelectorAll('{share}')].pop().dataset.y;"));
    assert_eq!(last, "100");
    // The exact value of a point, by keys.
    browser.js("document.querySelector('#series [data-figure=\"1\"] svg').focus();");
    let tip = browser
        .js("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'End', bubbles: true}));
         return document.querySelector('#tip.on').textContent;");
    assert!(tip.as_str().unwrap().starts_with("lost\n100\u{a0}% at -"), "{tip}");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// While the disk is full, the controller continues its evaluations, and agents keep their results. All results are
/// stored as soon as the disk has room again.
#[test]
fn a_full_disk_loses_nothing() {
    let folder = Folder::new(&inventory(56), "127.0.0.1");
    let data = folder.path.join("data");
    fs::create_dir(&data).unwrap();
    // A disk of its own, which another file fills.
    let script = "mount -t tmpfs -o size=256k tmpfs \"$0\" && head -c 220k /dev/zero > \"$0/filler\" && exec \"$@\"";
    let controller = folder.controller("127.0.0.1:0", "127.0.0.1:0");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(&data);
    command.arg(controller.get_program()).args(controller.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut controller = spawn(&mut command);
    if wait_for("a start", 60, || controller.started()) == Some(false) {
        eprintln!("SKIPPED: no mount namespaces: {:?}", controller.lines());
        return;
    }
    let (url, page) = addresses(&controller);
    let agents = agents(&folder, 56, &url);
    controller.line("error: results are not stored, agents keep them: ");
    let view = wait_for("a view", 20, || json(&page, "/api/overview").filter(|view| !view["storage"].is_null()));
    assert!(view["storage"].as_str().unwrap().contains("No space left on device"), "{view}");
    let (_, _, metrics) = get(&page, "/metrics", "").unwrap();
    assert!(metrics.contains("\nrpingmesh_storage_ok 0\n"), "{metrics}");
    // Verdicts need no disk.
    let before = view["probes"].as_u64().unwrap();
    wait_for("more results", 30, || json(&page, "/api/overview").filter(|v| v["probes"].as_u64() > Some(before)));
    let inside = Path::new("/proc").join(controller.child.id().to_string()).join("root");
    let data = inside.join(data.strip_prefix("/").unwrap());
    fs::remove_file(data.join("filler")).unwrap();
    controller.line("results are stored again");
    for mut agent in agents {
        agent.signal("-TERM");
        assert_eq!(agent.child.wait().unwrap().code(), Some(0));
    }
    let mut next: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for (host, incarnation, sequence) in stored(&data).into_keys() {
        let next = next.entry((host, incarnation)).or_insert(1);
        assert_eq!(sequence, *next, "no report is missing");
        *next += 1;
    }
    assert_eq!(next.len(), 3);
}

fn registration(host: &str, address: &str) -> Registration {
    let address = rnic_endpoint::DatagramAddress { addr: address.parse().unwrap(), qpn: 5, qkey: 6 };
    let health = Health::default();
    Registration {
        protocol: PROTOCOL,
        host: host.to_string(),
        incarnation: 1,
        address,
        list_version: 0,
        digest: 0,
        health,
    }
}

fn files(folder: &Path, name: &str) -> Files {
    let path = |file: &str| folder.join(file);
    Files { certificate: path(&format!("{name}.pem")), key: path(&format!("{name}-key.pem")), ca: path("ca.pem") }
}

/// Clients without a certificate neither register nor report nor read, and no client can act for another one.
#[test]
fn strangers_get_nothing() {
    let folder = Folder::new(&inventory(52), "127.0.0.1");
    let controller = spawn(&mut folder.controller("127.0.0.1:0", "127.0.0.1:0"));
    let (url, page) = addresses(&controller);
    let keys = folder.path.join("keys");
    let own = Client::new(&url, &files(&keys, "h1")).unwrap();
    assert!(matches!(own.fetch(&registration("h1", "127.52.0.1:4791")), Ok(Fetched::List(_))));
    // With the certificate of a host: another host's name, another address, another host's results, nonsense.
    let batch = Batch {
        protocol: PROTOCOL,
        host: "h2".to_string(),
        incarnation: 1,
        sequence: 1,
        targets: Vec::new(),
        source_ports: Vec::new(),
        probes: Vec::new(),
        traces: Vec::new(),
    };
    let other = own.fetch(&registration("h2", "127.52.0.2:4791")).unwrap_err().to_string();
    assert!(other.contains("(403): the certificate is not that of this host"), "{other}");
    let elsewhere = own.fetch(&registration("h1", "127.52.0.3:4791")).unwrap_err().to_string();
    assert!(elsewhere.contains("the inventory has h1 at 127.52.0.1"), "{elsewhere}");
    assert!(own.report(&batch.emit()).unwrap_err().to_string().contains("(403)"));
    assert!(own.report(b"nonsense").unwrap_err().to_string().contains("(400): this is no report"));
    assert!(own.report(&vec![0; 2 << 20]).is_err());
    // A certificate of another authority, and of this one but for a server that is none.
    let foreign = folder.path.join("foreign");
    make(&foreign, &["127.0.0.1".to_string()], &["h1".to_string()]).unwrap();
    let mut mixed = files(&foreign, "h1");
    mixed.ca = keys.join("ca.pem");
    let refused = Client::new(&url, &mixed).unwrap().fetch(&registration("h1", "127.52.0.1:4791")).unwrap_err();
    assert!(refused.to_string().starts_with("the controller does not answer"), "{refused}");
    // Bytes without TLS, and silence, do not disturb others.
    let address = url.strip_prefix("https://").unwrap();
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(own.fetch(&registration("h1", "127.52.0.1:4791")).is_ok());
    drop(silent);
    // The page admits only names of this machine, so that no page elsewhere reads it through DNS.
    assert_eq!(get(&page, "/api/overview", "Host: evil.example:18518\r\n").unwrap().0, 403);
    assert_eq!(get(&page, "/api/overview", "Host: 127.evil.example:18518\r\n").unwrap().0, 403);
    let (status, head, _) = get(&page, "/", "").unwrap();
    assert!(status == 200 && head.to_lowercase().contains("content-security-policy: default-src 'none'"), "{head}");
    assert_eq!(get(&page, "/../inventory.toml", "").unwrap().0, 404);
    assert_eq!(get(&page, "/api/pair?from=h1&to=%3Cscript%3E", "").unwrap().0, 404);
}

/// An agent obeys only its controller: if another host of the mesh pretends to be the controller, the handshake fails.
#[test]
fn an_agent_obeys_only_its_controller() {
    let folder = Folder::new(&inventory(53), "127.0.0.1");
    let mut fake = mesh(&["controller", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0", "--data"]);
    fake.arg(folder.path.join("fake")).arg(folder.path.join("inventory.toml")).args(folder.files("h2"));
    let fake = spawn(&mut fake);
    let (url, _) = addresses(&fake);
    let agent = spawn(&mut folder.agent("h1", "127.53.0.1", &url));
    let line = agent.line("error: the controller does not answer");
    assert!(line.to_lowercase().contains("certificate"), "{line}");
    agent.line("probing stops");
    assert!(!agent.lines().iter().any(|line| line.contains("pinglist")));
}

/// On an address that others reach, the page is for operators.
#[test]
fn the_page_over_tls_is_for_operators() {
    let folder = Folder::new(&inventory(54), "127.0.0.1");
    // 0.0.0.0 is no loopback address.
    let controller = spawn(&mut folder.controller("127.0.0.1:0", "0.0.0.0:0"));
    let (_, page) = addresses(&controller);
    assert!(page.starts_with("https://0.0.0.0:"), "{page}");
    let url = page.replace("0.0.0.0", "127.0.0.1");
    let ask = |name: &str| Client::new(&url, &files(&folder.path.join("keys"), name)).unwrap().get("/api/overview");
    assert!(String::from_utf8(ask("operator").unwrap()).unwrap().contains("\"tors\":[\"t1\",\"t2\"]"));
    assert!(ask("h1").unwrap_err().to_string().contains("(403): only operators read"));
}

/// SIGHUP: the controller reads its inventory again, an agent its certificate; neither ends.
#[test]
fn services_read_their_files_again() {
    let folder = Folder::new(&inventory(62), "127.0.0.1");
    let controller = spawn(&mut folder.controller("127.0.0.1:0", "127.0.0.1:0"));
    let (url, page) = addresses(&controller);
    let agent = spawn(&mut folder.agent("h1", "127.62.0.1", &url));
    agent.line("pinglist: ");
    let file = folder.path.join("inventory.toml");
    fs::write(&file, "[mesh]\npaths = 0\n").unwrap();
    controller.signal("-HUP");
    let line = controller.line("error: the controller continues as before: ");
    assert!(line.contains("inventory.toml: mesh.paths: 0 is out of range"), "{line}");
    let host = "[[host]]\nname = \"h4\"\naddress = \"127.62.0.4\"\ntor = \"t2\"\n";
    fs::write(&file, inventory(62) + host).unwrap();
    controller.signal("-HUP");
    controller.line("the inventory was read again: 4 hosts, 1 added, 0 removed");
    assert_eq!(json(&page, "/api/overview").unwrap()["agents"]["known"], 4);
    let arguments = ["keys", "--controller", "127.0.0.1", "--withdraw", "h1", "--days", "90", "--out"];
    let made = mesh(&arguments).arg(folder.path.join("keys")).arg(&file).output().unwrap();
    assert!(made.status.success());
    agent.signal("-HUP");
    agent.line("the certificates were read again");
    fs::remove_file(folder.path.join("keys/h1.pem")).unwrap();
    agent.signal("-HUP");
    agent.line("error: the certificates remain as they were: ");
    wait_for("an agent that is up", 30, || {
        let view = json(&page, "/api/overview")?;
        (view["agents"]["up"] == 1).then_some(())
    });
    let refused = mesh(&["keys", "--controller", "a", "--withdraw", "h9", "--out"])
        .arg(folder.path.join("keys"))
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && text.contains("h9 cannot be withdrawn: "), "{text}");
}

#[test]
fn what_is_wrong_gets_one_sentence() {
    let folder = Folder::new(&inventory(55), "127.0.0.1");
    let wrong = folder.path.join("wrong.toml");
    fs::write(&wrong, "[[host]]\nname = \"a\"\naddress = \"10.0.0.1\"\n").unwrap();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = run(mesh(&["plan"]).arg(&wrong));
    assert!(code == 2 && message.contains("wrong.toml: ") && message.contains("missing field `tor`"), "{message}");
    let (code, message) = run(&mut folder.agent("h1", "127.55.0.1", "http://127.0.0.1:1"));
    assert!(code == 2 && message.contains("accepted: https://HOST:PORT"), "{message}");
    let (code, message) = run(folder.agent("h1", "127.55.0.1", "https://127.0.0.1:1").args(["--max-rate", "0"]));
    assert!(code == 2 && message.contains("--max-rate"), "{message}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let holder = TcpListener::bind(taken).unwrap();
    let (code, message) = run(&mut folder.controller(&taken.to_string(), "127.0.0.1:0"));
    assert!(code == 1 && message.contains(&format!("cannot listen at {taken}: ")), "{message}");
    drop(holder);
    let running = spawn(&mut folder.controller("127.0.0.1:0", "127.0.0.1:0"));
    addresses(&running);
    let (code, message) = run(&mut folder.controller("127.0.0.1:0", "127.0.0.1:0"));
    assert!(code == 1 && message.contains("another controller uses this folder"), "{message}");
}
