//! The tests of pyverbs, which rdma-core brings along for NICs.

use crate::common::{command, library, linked_waiting, start};
use crate::ucx::{may_mount, with_files};
use rnic_netns::Pair;
use std::path::Path;
use std::process::Command;

/// Tests of rdma-core 44 that pass. Fewer are a step back.
const PASSED: usize = 102;

#[test]
fn the_tests_of_pyverbs_pass() {
    let tests = Path::new("/usr/share/doc/rdma-core/tests");
    let python = Path::new("/usr/bin/python3");
    let importable = Command::new(python).args(["-c", "import pyverbs.device"]).output();
    if !tests.exists() || !importable.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: python3-pyverbs is not installed");
        return;
    }
    // The package has them in its documentation, where the package manager compresses files.
    let folder = library().join("pyverbs");
    std::fs::create_dir_all(&folder).unwrap();
    let copied = Command::new("cp").arg("-r").arg(tests).arg(&folder).status().unwrap();
    let unpacked = Command::new("sh").arg("-c").arg("gunzip -f tests/*.gz").current_dir(&folder).status().unwrap();
    assert!(copied.success() && unpacked.success());
    // Those of `rdma_cm` look in sysfs for the network interface of the device.
    if !may_mount() {
        return;
    }
    linked_waiting(|pair| {
        let line = format!("{} /usr/bin/python3 tests/run_tests.py -v --dev rnic0", with_files().display());
        let mut tests = command(&line);
        tests.env("RNIC_DEVICES", Pair::A4.to_string()).current_dir(&folder);
        let ended = start(&pair.a, &mut tests).end();
        let output = &ended.output;
        assert!(ended.status.success(), "{output}");
        let number = |before: &str| -> usize {
            let text = output.split(before).last().unwrap();
            text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        let (ran, skipped) = (number("\nRan "), number("skipped="));
        eprintln!("pyverbs: {} passed, {skipped} skipped", ran - skipped);
        assert!(ran - skipped >= PASSED, "{output}");
    });
}
