//! Tests of the semantic analysis, with accepted programs and with the recorded error messages of rejected programs.
//!
//! The programs `rejected/meaning-*.p4` have errors. For each program, the `.txt` file of the same name holds the
//! expected error messages. After an intended change of messages, `cargo test -p rnic-nano --test tests meaning --
//! --ignored` rewrites these files; review their differences.

use proptest::prelude::*;
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
        format!("not parsed:\n{}", errors.join("\n"))
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

/// Returns the error messages for a program in the folder `rejected`. The first line of the program may replace values
/// of constants: `// constants: NAME = 1, OTHER = 2`.
fn error_messages(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let given = text.lines().next().and_then(|line| line.strip_prefix("// constants: ")).unwrap_or_default();
    let given = given.split(", ").filter_map(|one| one.split_once(" = "));
    let constants: Vec<_> = given.map(|(name, value)| (name.to_string(), value.parse().unwrap())).collect();
    analysed(&path.file_name().unwrap().to_string_lossy(), &text, &constants).err().unwrap_or_default()
}

#[test]
fn errors_have_the_recorded_messages() {
    let files = programs(&folder("rejected"), "meaning-");
    assert!(files.len() > 10, "{}", files.len());
    for path in files {
        let (said, expected) =
            (error_messages(&path), fs::read_to_string(path.with_extension("txt")).unwrap_or_default());
        assert!(!said.is_empty(), "{} was accepted", path.display());
        assert_eq!(said, expected, "{}: expected\n{expected}\nfound\n{said}", path.display());
    }
}

#[test]
#[ignore = "rewrites the recorded error messages"]
fn write_the_recorded_messages() {
    for path in programs(&folder("rejected"), "meaning-") {
        fs::write(path.with_extension("txt"), error_messages(&path)).unwrap();
    }
}

#[test]
fn correct_programs_are_accepted() {
    let files = programs(&folder("accepted"), "");
    assert!(files.len() > 1);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        if let Err(what) = analysed(&path.to_string_lossy(), &text, &[]) {
            panic!("{what}");
        }
    }
}

/// Without limits in the compiler, each of these programs would exhaust its memory, time or stack.
#[test]
fn hostile_programs_are_refused() {
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let head = "#include <core.p4>\n#include <nanotransport.p4>\n";
    let control = |locals: &str, apply: &str| format!("control C(inout bit<8> x) {{ {locals} apply {{ {apply} }} }}");
    let parser = |states: &str| format!("parser P(packet_in packet) {{ state start {{ transition s0; }} {states} }}");
    let programs = [
        // This program contains an empty struct 2^40 times.
        format!("struct s0 {{ }} {}", many(40, &|n| format!("struct s{} {{ s{n} a; s{n} b; }}\n", n + 1))),
        format!("struct s {{ {} }}", many(70_000, &|n| format!("bit<8> f{n};\n"))),
        control("", &many(70_000, &|n| format!("bit<8> v{n};\n"))),
        control("action a0() { }", &many(300, &|_| "a0();".to_string()))
            + &format!(
                "control A0() {{ apply {{ }} }} {}",
                many(1000, &|n| format!(
                    "control A{}() {{ A{n}() a; A{n}() b; apply {{ a.apply(); b.apply(); }} }}\n",
                    n + 1
                ))
            ),
        format!(
            "control A0() {{ apply {{ }} }} {}",
            many(1000, &|n| format!("control A{}() {{ A{n}() a; apply {{ a.apply(); }} }}\n", n + 1))
        ),
        control(&format!("action a0() {{ }} {}", many(1000, &|n| format!("action a{}() {{ a{n}(); }}\n", n + 1))), ""),
        control(
            &format!(
                "action a0() {{ x = 1; }} {}",
                many(40, &|n| format!("action a{}() {{ a{n}(); a{n}(); }}\n", n + 1))
            ),
            "",
        ),
        format!("enum big_t {{ {} }} const big_t B = big_t.NONE;", many(50_000, &|n| format!("M{n},\n")))
            + &many(50_000, &|n| format!("const big_t B{n} = big_t.M{n};\n")),
        format!(
            "error {{ {} }} error {{ {} }}",
            many(50_000, &|n| format!("E{n},\n")),
            many(50_000, &|n| format!("E{n},\n"))
        ),
        parser(
            &(many(50_000, &|n| format!("state s{n} {{ transition s{}; }}\n", n + 1))
                + "state s50000 { transition accept; }"),
        ),
        parser(
            &(many(50_000, &|n| format!("state s{n} {{ transition s{}; }}\n", n + 1))
                + "state s50000 { transition s7; }"),
        ),
        format!(
            "control E(inout bit<8> x) {{ {} table t {{ key = {{ x: exact; }} actions = {{ {} }} }} apply {{ t.apply(); }} }}",
            many(2000, &|n| format!("action a{n}() {{ }}\n")),
            many(2000, &|n| format!("a{n};\n"))
        ),
        control("", &format!("x = {}1;", "x + ".repeat(450))),
        control("", &format!("{}x = 1;{}", "if (x == 1) { ".repeat(90), "}".repeat(90))),
    ];
    for (number, program) in programs.iter().enumerate() {
        let said = analysed("hostile.p4", &format!("{head}{program}"), &[]).expect_err("no `main`");
        assert!(said.len() < 30_000, "program {number}: {} bytes", said.len());
        let nested = said.starts_with("error: the program has no `main`");
        assert_eq!(nested, number + 1 == programs.len() || number == 9, "program {number}: {said}");
    }
}

/// Splits the text of a program into words and the text between the words.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same =
            |c: char| if first.is_alphanumeric() || first == '_' { c.is_alphanumeric() || c == '_' } else { false };
        let end = rest[first.len_utf8()..].find(|c| !same(c)).map_or(rest.len(), |end| end + first.len_utf8());
        words.push(&rest[..end]);
        rest = &rest[end..];
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The compiler must accept a program in which some words are removed or replaced by other words of the program, or
    /// reject it with at most 20 errors. It must not panic.
    #[test]
    fn mangled_programs_are_accepted_or_rejected(file in any::<prop::sample::Index>(), changes in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 1..4)) {
        let mut files = programs(&folder("accepted"), "");
        files.extend(programs(&folder("rejected"), "meaning-"));
        files.retain(|path| !path.to_string_lossy().contains("-large-"));
        let path = file.get(&files);
        let text = fs::read_to_string(path).unwrap();
        let original = words(&text);
        let mut mangled = original.clone();
        for [at, with] in changes {
            let (at, with) = (at.index(original.len()), with.index(original.len() * 5 / 4));
            mangled[at] = original.get(with).copied().unwrap_or_default();
        }
        let _ = analysed("mangled.p4", &mangled.concat(), &[]);
    }
}
