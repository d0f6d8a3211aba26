//! Cases of the mesh of probes over the kernel's RoCE: an agent in the guest sends probes through the NIC `rxe0` with
//! Debian's libibverbs.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::host::Host;
use crate::payload::GuestFile;
use crate::tap;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case { name: "cli-mesh-ud", about: "agents of a mesh probe each other, one through rxe0: UD", run: datagrams },
    Case {
        name: "cli-mesh-write",
        about: "agents of a mesh probe each other, one through rxe0: RC Write",
        run: writes,
    },
    Case { name: "cli-mesh-send", about: "agents of a mesh probe each other, one through rxe0: RC Send", run: sends },
];

/// Number of probes in each direction after which a case ends.
const PROBES: u64 = 30;
/// Timeout for these probes.
const PATIENCE: Duration = Duration::from_secs(90);
/// Address of the controller's page, in the namespace.
const PAGE: &str = "127.0.0.1:18518";

fn datagrams(bench: &Bench) -> Result<()> {
    mesh(bench, "ud")
}

fn writes(bench: &Bench) -> Result<()> {
    mesh(bench, "rc-write")
}

fn sends(bench: &Bench) -> Result<()> {
    mesh(bench, "rc-send")
}

fn mesh(bench: &Bench, transport: &str) -> Result<()> {
    let folder = bench.directory();
    let (ours, theirs) = (Host::OURS.ipv4(), Host::guest(1).ipv4());
    // The guest is emulated, so its responses may take long.
    let inventory = format!(
        "[mesh]\ntransport = \"{transport}\"\ninterval = \"200 ms\"\npaths = 1\nrefresh = \"500 ms\"\nreport = \"500 ms\"\n\
         evaluate = \"500 ms\"\ntimeout = \"3 s\"\n\
         [[host]]\nname = \"ours\"\naddress = \"{ours}\"\ntor = \"t1\"\n\
         [[host]]\nname = \"guest\"\naddress = \"{theirs}\"\ntor = \"t2\"\n"
    );
    let (path, keys) = (folder.join("inventory.toml"), folder.join("keys"));
    std::fs::write(&path, inventory).map_err(Error::file(&path))?;
    let made = Command::new(tap::rnic()?)
        .args(["mesh", "keys", "--controller", &ours.to_string(), "--out"])
        .args([&keys, &path])
        .output()
        .map_err(Error::io("rnic mesh keys"))?;
    ensure!(made.status.success(), "rnic mesh keys: {}", String::from_utf8_lossy(&made.stderr));

    let files = payload(folder, &keys)?;
    let (mut guest, network, _relay) = bench.guest_with_files(files, Faults::None, Faults::None)?;
    let key = |name: &str| {
        let file = |name: String| keys.join(name).display().to_string();
        format!(
            "--certificate {} --key {} --ca {}",
            file(format!("{name}.pem")),
            file(format!("{name}-key.pem")),
            file("ca.pem".to_owned())
        )
    };
    let data = folder.join("data");
    let mut controller = network.rnic(&format!(
        "mesh controller {} --data {} --listen {ours}:18517 --page {PAGE} {}",
        path.display(),
        data.display(),
        key("controller")
    ))?;
    controller.await_message("agents at")?;
    let url = format!("https://{ours}:18517");
    let _agent = network.rnic(&format!(
        "mesh agent --name ours --controller {url} --address {ours} --nic never --no-traces {}",
        key("ours")
    ))?;
    let agent = guest.spawn(&format!(
        "LD_LIBRARY_PATH=/ /rnic mesh agent --name guest --controller {url} --address {theirs} --nic require --no-traces --certificate \
         /guest.pem --key /guest-key.pem --ca /ca.pem"
    ))?;
    let end = Instant::now() + PATIENCE;
    let mut view;
    loop {
        view = network.get(PAGE, "/api/overview?window=10m&metric=loss").ok().and_then(|text| overview(&text));
        let probes = |at: usize| view.as_ref().map_or(0, |cells| cells[at].0);
        if probes(0) >= PROBES && probes(1) >= PROBES {
            break;
        }
        if Instant::now() > end {
            let said = guest.kill(agent, "TERM")?;
            return Err(Error::Check(format!(
                "the page shows {view:?}; the agent in the guest has said:\n{}",
                said.output
            )));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let said = guest.kill(agent, "TERM")?.output;
    ensure!(said.contains("the NIC rxe0 carries the probes"), "the agent in the guest has said:\n{said}");
    for (direction, (probes, lost, p50)) in ["to the guest", "from the guest"].iter().zip(view.unwrap_or_default()) {
        // If the emulated guest stalls for some seconds, some probes are lost.
        ensure!(lost * 5 <= probes, "{lost} of {probes} probes {direction} were lost");
        ensure!(p50.is_some_and(|us| us > 0.0), "the probes {direction} have no network time");
    }
    ensure!(guest.kernel_complaints().is_empty(), "the guest's kernel complains: {:?}", guest.kernel_complaints());
    Ok(())
}

/// For the pairs of ToR switches (t1, t2) and (t2, t1): number of probes, number of lost probes, and median in us.
fn overview(text: &str) -> Option<[(u64, u64, Option<f64>); 2]> {
    let view: Value = serde_json::from_str(text).ok()?;
    let cell = |from: u64, to: u64| {
        let cells = view["cells"].as_array()?;
        let cell = cells.iter().find(|cell| cell[0].as_u64() == Some(from) && cell[1].as_u64() == Some(to))?;
        Some((cell[3].as_u64()?, cell[4].as_u64()?))
    };
    let p50 = view["scopes"].as_array()?.iter().find_map(|scope| scope["p50_us"].as_f64());
    let [(a, b), (c, d)] = [cell(0, 1).unwrap_or_default(), cell(1, 0).unwrap_or_default()];
    Some([(a, b, p50), (c, d, p50)])
}

/// The command `rnic` without debugging symbols, the libraries that it needs, and the certificates of the guest.
fn payload(folder: &Path, keys: &Path) -> Result<Vec<GuestFile>> {
    let (rnic, small) = (tap::rnic()?, folder.join("rnic"));
    let stripped = Command::new("strip").arg("-o").args([&small, &rnic]).status();
    if !stripped.is_ok_and(|status| status.success()) {
        return Err(Error::Unavailable("`strip` of binutils is needed, so that rnic fits into the guest".to_owned()));
    }
    let libraries = Command::new("ldd").arg(&rnic).output().map_err(Error::io("ldd"))?;
    let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
    // The guest has the C library of the same Debian release, so only libgcc_s is added.
    let gcc =
        libraries.lines().find(|line| line.contains("libgcc_s.so.1")).and_then(|line| line.split_whitespace().nth(2));
    let mut files = vec![GuestFile { path: "/rnic".to_owned(), source: small }];
    files.extend(gcc.map(|path| GuestFile { path: "/libgcc_s.so.1".to_owned(), source: PathBuf::from(path) }));
    for name in ["guest.pem", "guest-key.pem", "ca.pem"] {
        files.push(GuestFile { path: format!("/{name}"), source: keys.join(name) });
    }
    Ok(files)
}
