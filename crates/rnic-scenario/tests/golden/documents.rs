//! The JSON document of every run of the scenarios in `scenarios/` and `p4/`, byte for byte: the document determines
//! fingerprints and results. Each document can be read again.
//!
//! `documents.txt` has a digest of each document. If a digest differs, `rnic run FILE --print-spec` of both versions of
//! rnic prints the documents to compare.

use expect_test::expect_file;
use rnic_run::{RunSpec, Vocabulary};
use std::path::{Path, PathBuf};

fn toml_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            toml_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
}

/// The 64-bit FNV-1a hash of a text.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn the_documents_of_all_scenarios_keep_their_bytes() {
    let (root, vocabulary) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), Vocabulary::standard());
    let mut files = Vec::new();
    ["scenarios", "p4"].iter().for_each(|folder| toml_files(&root.join(folder), &mut files));
    files.sort();
    let mut text = String::new();
    for file in files {
        let scenario = rnic_scenario::load(&file, &[], None).unwrap();
        text += &format!("{}\n", file.strip_prefix(&root).unwrap().display());
        for run in &scenario.runs {
            let document = run.to_json(false).unwrap();
            let read = RunSpec::from_json(&document, &vocabulary);
            assert!(read.as_ref() == Ok(run), "{}, {}: {:?}", file.display(), run.name, read.err());
            text += &format!("    {:016x} {}\n", digest(&document), run.name);
        }
    }
    expect_file!["documents.txt"].assert_eq(&text);
}
