//! Manifests: damaged files, files of earlier versions, files that would be replaced.

use rnic_campaign::campaign::{CampaignError, Folder, Manifest};
use rnic_scenario::from_str;
use rnic_spec::Vocabulary;
use std::fs;
use std::path::Path;

const SCENARIO: &str = r#"
    [fabric]
    topology = "single-switch"
    hosts = 4
    rate = "100 Gbps"
    delay = "1 us"
    [traffic]
    pattern = "permutation"
    sizes = "fixed 8 KB"
    [[run]]
    name = "load=0.6"
    transport = "irn"
    [[run]]
    name = "load=0.8"
    transport = "irn"
"#;

fn manifest(name: &str, runs: usize) -> Manifest {
    let scenario = from_str(SCENARIO, "small.toml", Path::new(""), &[], Some(7)).unwrap();
    Manifest::new(name, scenario.runs.into_iter().take(runs).collect(), 3, None, false).unwrap()
}

fn read(path: &Path) -> Result<Manifest, CampaignError> {
    Manifest::read(path, &Vocabulary::standard())
}

/// The file as rnic 0.2.0 wrote it.
fn old(manifest: &Manifest) -> String {
    let text = String::from_utf8(manifest.to_bytes().unwrap()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[..lines.len() - 1].concat().replacen("\"rnic_campaign\":2", "\"rnic_campaign\":1", 1)
}

#[test]
fn a_changed_byte_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.jsonl");
    let manifest = manifest("small", 2);
    manifest.write(&path).unwrap();
    assert_eq!(read(&path).unwrap(), manifest);
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        let error = read(&path).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("m.jsonl"), "byte {at}: {error}");
    }
    // The label of a run, and a missing line.
    let text = String::from_utf8(bytes).unwrap();
    fs::write(&path, text.replace("load=0.6", "load= .6")).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("m.jsonl` line 4: the file is damaged or was edited: the checksum of its lines"), "{error}");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (lines, expected) in [
        (lines[..3].concat(), "the file is truncated: it has no checksum at the end"),
        (lines[..2].concat(), "the file is truncated: it has 1 of 2 runs"),
        ([lines[0], lines[1], lines[3]].concat(), "damaged or was edited"),
        ([&text, lines[1]].concat(), "the file continues after its checksum"),
    ] {
        fs::write(&path, lines).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_manifest_without_checksum_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, manifest) = (folder.path().join("m.jsonl"), manifest("small", 2));
    fs::write(&path, old(&manifest)).unwrap();
    assert_eq!(read(&path).unwrap(), manifest);
    // The folder of results that has it knows the campaign.
    let results = Folder::at(&folder.path().join("results"));
    fs::create_dir_all(results.path().join("manifests")).unwrap();
    fs::write(results.path().join("manifests/small.jsonl"), old(&manifest)).unwrap();
    results.register(&manifest, false).unwrap();
    let error = results.register(&self::manifest("small", 1), false).unwrap_err().to_string();
    assert!(error.contains("has another campaign with the name `small`"), "{error}");
}

#[test]
fn another_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.jsonl");
    assert!(!manifest("small", 2).write_new(&path, false).unwrap(), "the file is new");
    assert!(!manifest("small", 2).write_new(&path, false).unwrap(), "the file has the same content");
    assert!(manifest("small", 1).write_new(&path, false).unwrap(), "the campaign has other runs now");
    assert_eq!(read(&path).unwrap(), manifest("small", 1));
    let error = manifest("other", 2).write_new(&path, false).unwrap_err().to_string();
    let expected = "m.jsonl` exists and is not a manifest of the campaign `other`; accepted: a new file, or --replace";
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(read(&path).unwrap(), manifest("small", 1));
    assert!(manifest("other", 2).write_new(&path, true).unwrap());
    for content in [&b"notes\n"[..], &[0xff; 100], b""] {
        fs::write(&path, content).unwrap();
        assert!(manifest("small", 2).write_new(&path, false).is_err());
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}
