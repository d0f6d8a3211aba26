//! The JSON document of every run of the scenarios in `scenarios/` and `p4/`, byte for byte: the document determines
//! fingerprints and results. Each document can be read again.
//!
//! `documents.txt` has a digest of each document. If a digest differs, `rnic run FILE --print-spec` of both versions of
//! rnic prints the documents to compare. `UPDATE_EXPECT=1 cargo test -p rnic-sim --test tests documents` rewrites the
//! file.

use crate::common::scenario_files;
use expect_test::expect_file;
use rnic_sim::Catalogue;
use rnic_spec::RunSpec;
use std::path::Path;

/// The 64-bit FNV-1a hash of a text.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn the_documents_of_all_scenarios_keep_their_bytes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    ["scenarios", "p4"].iter().for_each(|folder| scenario_files(&root.join(folder), &mut files));
    files.sort();
    let (vocabulary, mut text) = (Catalogue::standard().vocabulary(), String::new());
    for file in files {
        let scenario = rnic_scenario::load_with(&vocabulary, &file, &[], None).unwrap();
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
