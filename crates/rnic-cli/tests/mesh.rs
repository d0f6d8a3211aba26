//! Tests of `rnic mesh` on the loopback interface: probes, results on disk, a controller that is killed, strangers.

#![cfg(all(feature = "endpoint", target_os = "linux"))]

mod mesh_processes;

use mesh_processes::{Folder, Process, addresses, get, json, mesh, names, wait_for};
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

/// Agents probe each other, and the controller is killed in between: every result is stored exactly once.
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
    // Killed without warning. The agents keep their results meanwhile, and stop probing.
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

/// The disk is full: verdicts go on, agents keep their results, and all are stored once there is room again.
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
    Registration { protocol: PROTOCOL, host: host.to_string(), incarnation: 1, address, have: 0, digest: 0, health }
}

fn files(folder: &Path, name: &str) -> Files {
    let path = |file: &str| folder.join(file);
    Files { certificate: path(&format!("{name}.pem")), key: path(&format!("{name}-key.pem")), ca: path("ca.pem") }
}

/// Strangers neither register nor report nor read, and nobody acts for somebody else.
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
    let (status, head, _) = get(&page, "/", "").unwrap();
    assert!(status == 200 && head.to_lowercase().contains("content-security-policy: default-src 'none'"), "{head}");
    assert_eq!(get(&page, "/../inventory.toml", "").unwrap().0, 404);
    assert_eq!(get(&page, "/api/pair?from=h1&to=%3Cscript%3E", "").unwrap().0, 404);
}

/// An agent obeys only its controller: a host of the mesh that plays the controller gets nothing but a failed
/// handshake.
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
