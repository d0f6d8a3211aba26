//! What the analysis takes and what it says of the rest.
//!
//! `rejected/meaning-*.p4` are wrong; the file beside each one, `.txt`, holds what the analysis says of it. After a change of words
//! `cargo test -p rnic-nano --test meaning -- --ignored` writes these files anew: their difference is to be read.

use rnic_nano::hir::{self, Program};
use rnic_nano::parser::parse_program;
use rnic_nano::sema::analyse;
use rnic_nano::source::SourceFile;
use std::fs;
use std::path::{Path, PathBuf};

fn analysed(name: &str, text: &str, constants: &[(String, u128)]) -> Result<Program, String> {
    let main = SourceFile { name: name.into(), text: text.into() };
    let (module, sources) = parse_program(main, &|_| None).map_err(|(errors, sources)| {
        let errors: Vec<String> = errors.iter().map(|error| error.render(&sources)).collect();
        format!("not even read:\n{}", errors.join("\n"))
    })?;
    let program = analyse(&module, constants).map_err(|errors| {
        assert!(!errors.is_empty() && errors.len() <= 20, "{} errors", errors.len());
        errors.iter().map(|error| error.render(&sources)).collect::<Vec<_>>().join("\n")
    })?;
    hir::check::check(&program).unwrap_or_else(|what| panic!("{name}: {what}"));
    Ok(program)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn programs(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(prefix) && name.ends_with(".p4")
    };
    let mut files: Vec<PathBuf> = files.filter(wanted).collect();
    files.sort();
    files
}

/// What is said of a file of `rejected`. Its first line may give constants: `// constants: NAME = 1, OTHER = 2`.
fn said_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let given = text.lines().next().and_then(|line| line.strip_prefix("// constants: ")).unwrap_or_default();
    let given = given.split(", ").filter_map(|one| one.split_once(" = "));
    let constants: Vec<_> = given.map(|(name, value)| (name.to_string(), value.parse().unwrap())).collect();
    analysed(&path.file_name().unwrap().to_string_lossy(), &text, &constants).err().unwrap_or_default()
}

#[test]
fn what_is_wrong_is_said_in_the_recorded_words() {
    let files = programs(&folder("rejected"), "meaning-");
    assert!(files.len() > 10, "{}", files.len());
    for path in files {
        let (said, expected) = (said_of(&path), fs::read_to_string(path.with_extension("txt")).unwrap_or_default());
        assert!(!said.is_empty(), "{} was taken", path.display());
        assert_eq!(said, expected, "{}: expected\n{expected}\nand it said\n{said}", path.display());
    }
}

#[test]
#[ignore = "writes the recorded words anew"]
fn write_the_recorded_words() {
    for path in programs(&folder("rejected"), "meaning-") {
        fs::write(path.with_extension("txt"), said_of(&path)).unwrap();
    }
}

#[test]
fn what_is_right_is_taken() {
    let files = programs(&folder("accepted"), "");
    assert!(!files.is_empty());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        if let Err(what) = analysed(&path.to_string_lossy(), &text, &[]) {
            panic!("{what}");
        }
    }
}
