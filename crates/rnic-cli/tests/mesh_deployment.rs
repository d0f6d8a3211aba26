//! The files in `examples/mesh` that deploy a mesh on many hosts: scripts, units of systemd and containers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mesh").canonicalize().unwrap()
}

fn text(name: &str) -> String {
    fs::read_to_string(examples().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn rnic(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rnic")).args(arguments).current_dir(folder).output().unwrap()
}

fn script(name: &str, arguments: &[&str], folder: &Path) -> Output {
    Command::new(examples().join(name)).args(arguments).current_dir(folder).output().unwrap()
}

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// From a list of 1,000 hosts: the inventory, its plan, the certificates, and the files of each host.
#[test]
fn the_files_of_a_thousand_hosts_are_made_from_one_list() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = |n: usize| {
        let (tor, pod) = (n / 25, n / 250);
        format!("node{n}, 10.{pod}.{}.{}, tor{tor}, pod{pod}, dc1\n", tor % 10, n % 25 + 1)
    };
    let list: String =
        std::iter::once("# name,address,tor,podset,datacenter\n".to_string()).chain((0..1_000).map(line)).collect();
    fs::write(folder.join("hosts.csv"), list).unwrap();
    fs::write(folder.join("inventory.toml"), succeeded(script("inventory.sh", &["hosts.csv"], folder))).unwrap();
    let plan = succeeded(rnic(&["mesh", "plan", "inventory.toml"], folder));
    assert!(plan.starts_with("1000 hosts below 40 ToR switches\n"), "{plan}");
    succeeded(rnic(&["mesh", "keys", "inventory.toml", "--out", "keys", "--controller", "mesh.example.com"], folder));
    let controller = "https://mesh.example.com:18517";
    succeeded(script("host-files.sh", &["hosts.csv", "keys", controller, "out"], folder));
    assert_eq!(fs::read_dir(folder.join("out")).unwrap().count(), 1_000);
    let mut certificates = BTreeSet::new();
    for n in [0, 1, 999] {
        let root = folder.join(format!("out/node{n}"));
        let environment = fs::read_to_string(root.join("etc/rnic/mesh-agent.env")).unwrap();
        let (pod, tor) = (n / 250, n / 25 % 10);
        assert_eq!(
            environment,
            format!("CONTROLLER={controller}\nNAME=node{n}\nADDRESS=10.{pod}.{tor}.{}\n", n % 25 + 1)
        );
        let key = root.join("etc/rnic/host-key.pem");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        certificates.insert(fs::read(root.join("etc/rnic/host.pem")).unwrap());
        assert!(root.join("etc/systemd/system/rnic-mesh-agent.service").exists());
    }
    assert_eq!(certificates.len(), 3, "each host has its own certificate");
}

#[test]
fn a_wrong_list_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hosts.csv"), "h1,10.0.0.1,t1,p1,d1\nh2,10.0.0.2,t1\n").unwrap();
    let output = script("inventory.sh", &["hosts.csv"], folder.path());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && errors == "hosts.csv:2: 3 fields; accepted: name,address,tor,podset,datacenter\n",
        "{errors}"
    );
    fs::write(folder.path().join("hosts.csv"), "../h1,10.0.0.1,t1,p1,d1\n").unwrap();
    let output = script("host-files.sh", &["hosts.csv", "keys", "https://c", "out"], folder.path());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("`../h1` is not the name of a host"), "{errors}");
}

/// The lines `KEY=VALUE` of a unit, with the lines that a backslash continues. Each other line is a section, a comment
/// or empty.
fn entries(name: &str) -> Vec<(String, String, String)> {
    let joined = text(name).replace("\\\n", " ");
    let mut section = String::new();
    let mut entries = Vec::new();
    for line in joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = title.to_string();
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{name}: {line}"));
        assert!(!section.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric()), "{name}: {line}");
        entries.push((section.clone(), key.to_string(), value.to_string()));
    }
    entries
}

/// The arguments of a command line in which systemd or a shell replaces variables.
fn arguments(line: &str, folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let words = line.split_whitespace().map(|word| {
        let word = word.trim_matches('"').replace(['{', '}'], "");
        let word = word.replace("$CONTROLLER_NAME", "mesh.example.com").replace("$CONTROLLER", "https://127.0.0.1:1");
        let word = word.replace("$NAME", "h1").replace("$ADDRESS", "127.0.0.1").replace("$STATE_DIRECTORY", &folder);
        word.replace("/etc/rnic", &folder)
    });
    words.collect()
}

/// The command lines of all units, containers and of the DaemonSet are accepted by rnic: what is wrong is only that the
/// certificates or the inventory do not exist.
#[test]
fn the_command_lines_are_those_of_rnic() {
    let units = ["rnic-mesh-agent.service", "rnic-mesh-controller.service", "rnic-mesh-keys.service"];
    let mut lines: Vec<String> = Vec::new();
    for name in units {
        let found = entries(name).into_iter().find(|(section, key, _)| section == "Service" && key == "ExecStart");
        lines.push(found.unwrap().2.strip_prefix("/usr/bin/rnic ").unwrap().to_string());
    }
    let quadlet = entries("rnic-mesh-agent.container");
    let command = quadlet.iter().find(|(section, key, _)| section == "Container" && key == "Exec").unwrap();
    lines.push(format!("mesh {}", command.2));
    let daemonset = text("daemonset.yaml");
    let (_, command) = daemonset.split_once("exec /usr/bin/rnic ").unwrap();
    lines.push(command.split("\n          securityContext").next().unwrap().to_string());
    for line in lines {
        let folder = tempfile::tempdir().unwrap();
        let words = arguments(&line, folder.path());
        let output = rnic(&words.iter().map(String::as_str).collect::<Vec<_>>(), folder.path());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{line}: {output:?}");
        assert!(errors.contains(&folder.path().display().to_string()), "{line}: {errors}");
        assert!(!errors.contains("Usage:") && !errors.contains("unexpected argument"), "{line}: {errors}");
    }
}

/// `systemd-analyze verify` finds no mistake; it warns of programs that are not installed here.
#[test]
fn systemd_accepts_the_units() {
    let units =
        ["rnic-mesh-agent.service", "rnic-mesh-controller.service", "rnic-mesh-keys.service", "rnic-mesh-keys.timer"];
    units.iter().for_each(|name| assert!(entries(name).len() > 3, "{name}"));
    let folder = tempfile::tempdir().unwrap();
    // The program and the files of the environment exist on a host.
    let paths: Vec<PathBuf> = units
        .iter()
        .map(|name| {
            let path = folder.path().join(name);
            fs::write(&path, text(name).replace("/usr/bin/rnic", env!("CARGO_BIN_EXE_rnic"))).unwrap();
            path
        })
        .collect();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg("--man=no").args(&paths).output() else {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> = errors.lines().filter(|line| line.contains("rnic-mesh")).collect();
    assert!(ours.is_empty(), "{errors}");
}

/// The agents' containers have the rights of the agents' unit: CAP_NET_RAW alone, and the host's network.
#[test]
fn containers_have_the_rights_of_the_unit() {
    let unit = text("rnic-mesh-agent.service");
    assert!(unit.contains("CapabilityBoundingSet=CAP_NET_RAW\n"));
    let quadlet = text("rnic-mesh-agent.container");
    for line in ["Network=host", "DropCapability=ALL", "AddCapability=NET_RAW"] {
        assert!(quadlet.lines().any(|own| own == line), "{line}");
    }
    let daemonset = text("daemonset.yaml");
    for part in ["hostNetwork: true", "drop: [\"ALL\"]", "add: [\"NET_RAW\"]", "readOnly: true"] {
        assert!(daemonset.contains(part), "{part}");
    }
}
