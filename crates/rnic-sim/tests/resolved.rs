//! A record of how every scenario of the repository is resolved: a hash of all settings in effect, and the warnings.
//! It shows a reviewer which scenarios a change of the resolver affects; `rnic check SCENARIO --settings` prints the
//! settings. This command rewrites the record: `UPDATE_EXPECT=1 cargo test -p rnic-sim --test tests resolved`.

use crate::common::scenario_files;
use rnic_record::Digest;
use rnic_scenario::load_with;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve_all;
use std::fmt::Write;
use std::path::Path;

#[test]
fn scenarios_are_resolved_as_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    scenario_files(&root.join("scenarios"), &mut files);
    files.sort();
    let catalogue = Catalogue::standard();
    let mut text = String::new();
    for file in &files {
        let name = file.strip_prefix(root.join("scenarios")).unwrap().display();
        let scenario = load_with(&catalogue.vocabulary(), file, &[], None).unwrap();
        let resolved = resolve_all(&catalogue, &scenario.runs).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let (mut digest, mut warnings) = (Digest::default(), Vec::new());
        for run in &resolved {
            run.parameters.iter().flat_map(|(key, value)| [key, value]).for_each(|part| digest.add(part));
            for warning in &run.warnings {
                digest.add(warning);
                if !warnings.contains(warning) {
                    warnings.push(warning.clone());
                }
            }
        }
        writeln!(text, "{name}: {} runs, settings {}", resolved.len(), digest.text()).unwrap();
        warnings.iter().for_each(|warning| writeln!(text, "  {warning}").unwrap());
    }
    expect_test::expect_file!["resolved.txt"].assert_eq(&text);
}
