//! Benchmarks of a controller: pinglists of 10,000 hosts, evaluation of results, and the path of results over TLS to
//! the disk.
//!
//! `cargo bench -p rnic-mesh --bench controller`

use rnic_endpoint::DatagramAddress;
use rnic_mesh::controller::{Clock, Event, Options, Reload, run};
use rnic_mesh::credentials::{Files, make};
use rnic_mesh::evaluation::Evaluation;
use rnic_mesh::host::Client;
use rnic_mesh::inventory::Inventory;
use rnic_mesh::pinglist::Pinglists;
use rnic_mesh::presence::Presence;
use rnic_mesh::record::{Batch, Health, PROTOCOL, ProbeRecord, ProbeResult, Registration};
use rnic_mesh::verdict::Mesh;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Hosts of the inventory: 2 data centers of 5 podsets of 25 ToRs with 40 hosts each.
const SHAPE: [u32; 4] = [2, 5, 25, 40];
/// Number of probes in a report of an agent that sends 60 probes per second and a report every 10 s.
const PROBES: usize = 600;
/// Connections that report at the same time.
const REPORTERS: usize = 8;
/// Reports of each of them.
const REPORTS: u64 = 250;

fn inventory() -> String {
    let [datacenters, podsets, tors, hosts] = SHAPE;
    let mut text = String::new();
    let mut number = 0_u32;
    for (dc, podset, tor) in
        (0..datacenters).flat_map(|d| (0..podsets).flat_map(move |p| (0..tors).map(move |t| (d, p, t))))
    {
        for _ in 0..hosts {
            let [_, b, c, d] = number.to_be_bytes();
            let _ = writeln!(
                text,
                "[[host]]\nname = \"h{number}\"\naddress = \"10.{b}.{c}.{d}\"\ntor = \"t{dc}-{podset}-{tor}\"\n\
                 podset = \"p{podset}\"\ndatacenter = \"d{dc}\""
            );
            number += 1;
        }
    }
    text
}

fn batch(inventory: &Inventory, lists: &Pinglists, host: u32, sequence: u64) -> Batch {
    let peers = lists.of_host(host);
    let probe = |n: usize| ProbeRecord {
        target: (n % peers.len()) as u16,
        path: (n % 4) as u16,
        at_us: 1_700_000_000_000_000 + n as u64,
        result: match n % 100 {
            0 => ProbeResult::Timeout,
            _ => ProbeResult::Answered {
                total_ns: 60_000,
                prober_ns: 5_000,
                split_ns: Some((9_000, 20_000 + (n as u64 * 7_919) % 30_000)),
            },
        },
    };
    Batch {
        protocol: PROTOCOL,
        host: inventory.host(host).name.clone(),
        incarnation: 1,
        sequence,
        targets: peers.iter().map(|peer| (inventory.host(peer.host).name.clone(), 1)).collect(),
        source_ports: vec![50_000, 50_001, 50_002, 50_003],
        probes: (0..PROBES).map(probe).collect(),
        traces: Vec::new(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn quietly<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> (T, f64) {
    let (result, seconds) = quietly(work);
    println!("{what}: {seconds:.3} s");
    (result, seconds)
}

fn registration(host: &str, address: std::net::IpAddr) -> Registration {
    let address = DatagramAddress { addr: (address, 4_791).into(), qpn: 5, qkey: 6 };
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

fn main() {
    let text = inventory();
    let (inventory, _) = timed("an inventory of 10,000 hosts, read", || Inventory::parse(&text).expect("it is valid"));
    let inventory = Arc::new(inventory);
    let (lists, _) = timed("its pinglists, made", || Pinglists::new(&inventory));
    println!("  {} pairs of a prober and a target", lists.pairs());

    let hosts = inventory.hosts.len() as u32;
    let batches: Vec<Vec<u8>> = (0..hosts).map(|host| batch(&inventory, &lists, host, 1).emit()).collect();
    let mut mesh = Mesh::new(inventory.clone());
    let all = batches.len() * PROBES;
    let (_, seconds) = timed("a report of every host, in the verdicts", || {
        for bytes in &batches {
            mesh.add(&Batch::parse(bytes).expect("it is a batch"), 8_000_000, |_, _| Presence::Up);
        }
    });
    println!("  {:.0} probes/s, {} bytes per probe", all as f64 / seconds, batches[0].len() / PROBES);
    let mut evaluation = Evaluation::new(8_000_000);
    let mut longest = 0.0_f64;
    let ((), steps) = timed("a verdict about all of them, the steps that hold the state", || {
        loop {
            let (more, seconds) = quietly(|| evaluation.step(&mut mesh));
            longest = longest.max(seconds);
            if !more {
                break;
            }
        }
    });
    let (_, rest) = timed("  the localisation", || evaluation.localise());
    println!("  {:.3} s in all; the longest step holds the state for {:.1} ms", steps + rest, longest * 1e3);
    evaluation.conclude(&mut mesh);
    println!("  {} suspects, {} alarms", mesh.findings().len(), mesh.alarms().on().count());
    drop((mesh, batches));

    let folder = tempfile::tempdir().expect("a folder");
    over_tls(&inventory, &lists, folder.path());
}

/// Reports over TLS, each confirmed when it is on the disk.
fn over_tls(inventory: &Arc<Inventory>, lists: &Pinglists, folder: &Path) {
    let names: Vec<String> = (0..REPORTERS).map(|host| inventory.hosts[host].name.clone()).collect();
    let keys = folder.join("keys");
    make(&keys, &["127.0.0.1".to_string()], &names).expect("keys");
    let files = |name: &str| Files {
        certificate: keys.join(format!("{name}.pem")),
        key: keys.join(format!("{name}-key.pem")),
        ca: keys.join("ca.pem"),
    };
    let any = "127.0.0.1:0".parse().expect("an address");
    let options = Options {
        inventory: inventory.clone(),
        folder: folder.join("data"),
        listen: any,
        page: any,
        files: files("controller"),
        otlp: None,
        clock: Clock::default(),
        denied: None,
        reload: Reload::new(Arc::default(), || Err("this is a benchmark".to_string())),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, opened) = std::sync::mpsc::channel();
    let ending = stop.clone();
    let controller = std::thread::spawn(move || {
        let tell = |event| {
            if let Event::Open(agents, _) = event {
                let _ = sender.send(agents);
            }
        };
        run(&options, &ending, tell).expect("a controller");
    });
    let url = format!("https://{}", opened.recv().expect("an address"));
    let reports: Vec<(Client, Vec<Vec<u8>>)> = (0..REPORTERS as u32)
        .map(|host| {
            let client = Client::new(&url, &files(&names[host as usize])).expect("a client");
            let known = inventory.host(host);
            client.fetch(&registration(&known.name, known.address)).expect("a pinglist");
            (client, (1..=REPORTS).map(|sequence| batch(inventory, lists, host, sequence).emit()).collect())
        })
        .collect();
    let all = REPORTERS as u64 * REPORTS * PROBES as u64;
    let (_, seconds) = timed("reports over TLS, on the disk", || {
        std::thread::scope(|threads| {
            for (client, reports) in &reports {
                threads.spawn(move || reports.iter().for_each(|report| client.report(report).expect("it is stored")));
            }
        });
    });
    println!("  {:.0} probes/s from {REPORTERS} connections on this machine, clients included", all as f64 / seconds);
    stop.store(true, Ordering::Relaxed);
    controller.join().expect("the controller ends");
}
