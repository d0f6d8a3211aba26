//! The built-in scenarios: the scenarios of the folder `scenarios/`, with the files that they name.

use rnic_scenario::Origin;
use std::path::Path;

/// All built-in files as pairs of path and text. The paths start at the root of the repository.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// The names of the built-in scenarios, such as `irn/default`, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let name = |path: &'static str| path.strip_prefix("scenarios/")?.strip_suffix(".toml");
    let mut names: Vec<&str> = FILES.iter().filter_map(|(path, _)| name(path)).collect();
    names.sort_unstable();
    names
}

/// Path in [`FILES`] of the built-in scenario with this name; `None` if no built-in scenario has it. The name may also
/// be the path of the scenario's file in the repository.
pub fn path(name: &str) -> Option<&'static str> {
    let short = name.strip_prefix("scenarios/").unwrap_or(name);
    let short = short.strip_suffix(".toml").unwrap_or(short);
    FILES
        .iter()
        .map(|(path, _)| *path)
        .find(|path| path.strip_prefix("scenarios/").and_then(|path| path.strip_suffix(".toml")) == Some(short))
}

/// The scenario that a user names: the file of this name, or the built-in scenario if there is no such file.
pub fn origin(name: &Path) -> Origin<'_> {
    match name.to_str().and_then(path).filter(|_| !name.exists()) {
        Some(name) => Origin::Embedded { files: FILES, name },
        None => Origin::File(name),
    }
}

/// What the user of a scenario that does not exist may have meant: a built-in scenario of a similar name.
pub(crate) fn suggestion(name: &Path) -> String {
    let given = name.with_extension("").to_string_lossy().into_owned();
    let given = given.strip_prefix("scenarios/").unwrap_or(&given);
    let likeness = |known: &&str| {
        let whole = strsim::normalized_damerau_levenshtein(given, known);
        // The name may lack its folder.
        let last = known.rsplit('/').next().unwrap_or(known);
        whole.max(strsim::normalized_damerau_levenshtein(given, last) - 0.1)
    };
    let all = "`rnic list scenarios` lists the built-in ones";
    let mut names = names();
    names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    match names.first().filter(|name| likeness(name) >= 0.6) {
        Some(name) => format!("did you mean the built-in scenario {name}? {all}"),
        None => format!("name a file or a built-in scenario: {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_scenario::{load_with, read_with};
    use rnic_sim::Catalogue;

    #[test]
    fn built_in_scenarios_are_those_of_the_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (vocabulary, all) = (Catalogue::standard().vocabulary(), names());
        assert!(all.len() > 40 && all.contains(&"irn/default"), "{all:?}");
        for name in all {
            let origin = origin(Path::new(name));
            assert!(matches!(origin, Origin::Embedded { .. }), "{name}");
            let embedded = read_with(&vocabulary, &origin, &[], None).unwrap_or_else(|error| panic!("{name}: {error}"));
            let file = root.join("scenarios").join(format!("{name}.toml"));
            let mut expected = load_with(&vocabulary, &file, &[], None).unwrap();
            assert_eq!(embedded.runs.len(), expected.runs.len(), "{name}");
            for (run, other) in embedded.runs.iter().zip(&mut expected.runs) {
                assert_eq!(run, other, "{name}");
            }
        }
    }

    #[test]
    fn similar_built_in_scenarios_are_suggested() {
        for (given, meant) in [("irn/defualt", "irn/default"), ("scenarios/irn/defualt.toml", "irn/default")] {
            let suggestion = suggestion(Path::new(given));
            assert!(suggestion.starts_with(&format!("did you mean the built-in scenario {meant}? ")), "{suggestion}");
        }
        assert!(suggestion(Path::new("head-of-line")).contains("pfc/head-of-line"));
        assert!(suggestion(Path::new("my/own/scenario.toml")).starts_with("name a file or a built-in scenario"));
    }

    #[test]
    fn names_may_be_paths_and_files_come_first() {
        for name in ["irn/default", "irn/default.toml", "scenarios/irn/default.toml"] {
            assert_eq!(path(name), Some("scenarios/irn/default.toml"), "{name}");
        }
        assert_eq!((path("irn"), path("../irn/default"), path("ndp")), (None, None, None));
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(matches!(origin(Path::new(manifest)), Origin::File(_)));
    }
}
