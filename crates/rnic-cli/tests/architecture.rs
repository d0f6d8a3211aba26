//! Tests that dependencies have no cycles, neither between the project's crates nor between the top-level modules of a
//! crate, and that ARCHITECTURE.md and the other pages about the project agree with the manifests. An "arrow" is a use
//! of one module by another.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the folders `crates/` and `python/`.
struct Package {
    name: String,
    /// Root file of the crate: the root of its library if it has one, otherwise of its program.
    root: PathBuf,
    /// Names of the project's crates on which this crate depends, without development dependencies.
    dependencies: BTreeSet<String>,
    /// Whether the manifest lacks `publish = false`.
    published: bool,
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn packages() -> Vec<Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).current_dir(project());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let of_project = |dependency: &&Value| dependency["path"].is_string() && dependency["kind"] != "dev";
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        root: root_file(package).unwrap_or_else(|error| panic!("{error}")),
        dependencies: package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(of_project)
            .map(|dependency| text(&dependency["name"]))
            .collect(),
        published: package["publish"].is_null(),
    };
    let folders = [project().join("crates"), project().join("python")];
    let all = metadata["packages"].as_array().unwrap().iter();
    let of_folders = all
        .filter(|package| folders.iter().any(|folder| Path::new(&text(&package["manifest_path"])).starts_with(folder)));
    let mut packages: Vec<Package> = of_folders.map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages
}

/// The root file of a package of `cargo metadata`. A library may be of several kinds, such as `["rlib", "staticlib"]`.
fn root_file(package: &Value) -> Result<PathBuf, String> {
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let of_kind = |kinds: &[&str]| {
        let is = |target: &&Value| {
            let of_target = target["kind"].as_array().map_or(&[][..], Vec::as_slice);
            of_target.iter().any(|kind| kind.as_str().is_some_and(|kind| kinds.contains(&kind)))
        };
        targets.iter().find(is)
    };
    let root = of_kind(&["lib", "rlib", "dylib", "cdylib", "staticlib", "proc-macro"]).or(of_kind(&["bin"]));
    let path = root.and_then(|root| root["src_path"].as_str());
    path.map(PathBuf::from).ok_or_else(|| format!("{}: has neither a library nor a program to read", package["name"]))
}

/// A token of Rust source with its line, counted from 1. Comments, literals and lifetimes are not tokens.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Token<'s> {
    line: usize,
    text: &'s str,
}

/// Index after the end of the string literal whose opening quote is before `at`.
fn end_of_string(source: &[u8], mut at: usize) -> usize {
    while at < source.len() && source[at] != b'"' {
        at += if source[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Index after the end of the raw string whose `#`s and opening quote begin at `at`; `None` if no raw string begins
/// there.
fn end_of_raw_string(source: &str, at: usize) -> Option<usize> {
    let rest = &source[at..];
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    body.find(&close).map(|end| at + hashes + 1 + end + close.len())
}

/// Index after the end of the block comment that begins at `at`. Block comments may be nested.
fn end_of_comment(source: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < source.len() {
        match &source[at..source.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Index after the end of the character literal or lifetime that begins at `at`.
fn end_of_quote(source: &str, at: usize) -> usize {
    let mut rest = source[at + 1..].char_indices();
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            let after = at + 1 + escaped + 1;
            source[after..].find('\'').map_or(source.len(), |end| after + end + 1)
        }
        (Some(_), Some((end, '\''))) => at + 1 + end + 1,
        _ => at + 1,
    }
}

fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let begin = at;
        at = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => source[at..].find('\n').map_or(bytes.len(), |end| at + end),
            b'/' if bytes.get(at + 1) == Some(&b'*') => end_of_comment(bytes, at),
            b'"' => end_of_string(bytes, at + 1),
            b'\'' => end_of_quote(source, at),
            byte if is_word(&byte) => {
                let end = at + bytes[at..].iter().take_while(|byte| is_word(byte)).count();
                let word = &source[at..end];
                let raw = ["r", "br", "cr"].contains(&word).then(|| end_of_raw_string(source, end)).flatten();
                if raw.is_none() {
                    tokens.push(Token { line, text: word });
                }
                raw.unwrap_or(end)
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                tokens.push(Token { line, text: "::" });
                at + 2
            }
            byte if byte.is_ascii_punctuation() => {
                tokens.push(Token { line, text: &source[at..=at] });
                at + 1
            }
            _ => at + 1,
        };
        line += source[begin..at.min(source.len())].matches('\n').count();
    }
    tokens
}

/// Index after the brace, bracket or parenthesis that closes the group which opens at `at`.
fn after_group(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// Index after the end of the item that begins at `at`. The item begins with its attributes.
fn after_item(tokens: &[Token<'_>], mut at: usize) -> usize {
    let mut ends_with_semicolon = false;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "use" | "const" | "static" | "let" | "type" => ends_with_semicolon = true,
            "fn" | "impl" | "mod" | "struct" | "enum" | "trait" => ends_with_semicolon = false,
            ";" => return at + 1,
            "{" if !ends_with_semicolon => return after_group(tokens, at),
            "{" | "[" | "(" => {
                at = after_group(tokens, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

fn texts<'s>(tokens: &[Token<'s>]) -> Vec<&'s str> {
    tokens.iter().map(|token| token.text).collect()
}

/// The tokens of a file without the items that are marked `#[cfg(test)]`.
fn without_tests<'s>(tokens: &[Token<'s>]) -> Vec<Token<'s>> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let end = tokens.len().min(at + 7);
        if texts(&tokens[at..end]) == ["#", "[", "cfg", "(", "test", ")", "]"] {
            at = after_item(tokens, end);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// The paths that a path or a use tree stands for, each with its line: `a::{b, c::d}` is `a::b` and `a::c::d`.
/// The path begins at `at`, after `prefix`. An alias (`as`) is the last part of its path.
fn paths(tokens: &[Token<'_>], mut at: usize, prefix: &[String], found: &mut Vec<(Vec<String>, usize)>) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            let (end, mut begin) = (after_group(tokens, at) - 1, at + 1);
            while begin < end {
                paths(&tokens[..end], begin, &path, found);
                while begin < end && tokens[begin].text != "," {
                    begin = if tokens[begin].text == "{" { after_group(tokens, begin) } else { begin + 1 };
                }
                begin += 1;
            }
            return;
        }
        path.push(token.text.to_string());
        if tokens.get(at + 1).is_none_or(|next| next.text != "::") {
            if tokens.get(at + 1).is_some_and(|next| next.text == "as") {
                path.extend(tokens.get(at + 2).map(|alias| alias.text.to_string()));
            }
            found.push((path, token.line));
            return;
        }
        at += 2;
    }
}

/// The file of the module `path` in the crate whose root module is `root`.
fn file_of(root: &Path, path: &[String]) -> PathBuf {
    let mut stem = root.parent().unwrap().to_path_buf();
    stem.extend(path);
    let file = stem.with_extension("rs");
    if file.exists() { file } else { stem.join("mod.rs") }
}

/// The names of the public items in a file.
fn public_items(file: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let tokens = without_tests(&tokens(&source));
    let kinds = ["const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union"];
    let items = tokens.windows(3).filter(|three| three[0].text == "pub" && kinds.contains(&three[1].text));
    items.map(|three| three[2].text.to_string()).collect()
}

/// Uses of one top-level module by another, as (using module, used module) and a place in the source.
type Arrows = BTreeMap<(String, String), String>;

/// The top-level modules of a crate, and their uses of each other.
struct Modules {
    root: PathBuf,
    /// For each name in the root module, the top-level module that declares it.
    names: BTreeMap<String, String>,
    arrows: Arrows,
}

impl Modules {
    fn of_crate(root: &Path) -> Modules {
        let source = std::fs::read_to_string(root).unwrap();
        let tokens = without_tests(&tokens(&source));
        let mut names = BTreeMap::new();
        let declared = tokens.windows(2).filter(|pair| pair[0].text == "mod");
        names.extend(declared.map(|pair| (pair[1].text.to_string(), pair[1].text.to_string())));
        // The root module imports names from its modules. Other modules may refer to these names as items of the root
        // module.
        for at in (0..tokens.len()).filter(|at| tokens[*at].text == "use") {
            let mut used = Vec::new();
            paths(&tokens, at + 1, &[], &mut used);
            for (path, _) in used {
                let skipped = usize::from(path[0] == "crate" || path[0] == "self");
                let (Some(first), Some(last)) = (path.get(skipped), path.last()) else { continue };
                if names.get(first) != Some(first) {
                    continue;
                }
                let taken = if last == "*" {
                    public_items(&file_of(root, &path[skipped..=skipped]))
                } else {
                    vec![last.clone()]
                };
                for name in taken {
                    names.entry(name).or_insert(first.clone());
                }
            }
        }
        let mut modules = Modules { root: root.to_path_buf(), names, arrows: Arrows::new() };
        modules.file(root, &[]);
        modules
    }

    /// Adds the arrows of a file, which is the module `path`, and of its submodules.
    fn file(&mut self, file: &Path, path: &[String]) {
        let source = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.module(&without_tests(&tokens(&source)), file, path);
    }

    fn module(&mut self, tokens: &[Token<'_>], file: &Path, path: &[String]) {
        let mut at = 0;
        while at < tokens.len() {
            let text = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text);
            at = match (text(0), text(1), text(2)) {
                ("mod", name, ";") => {
                    let path = [path, &[name.to_string()]].concat();
                    self.file(&file_of(&self.root, &path), &path);
                    at + 3
                }
                ("mod", name, "{") => {
                    let end = after_group(tokens, at + 2);
                    self.module(&tokens[at + 3..end - 1], file, &[path, &[name.to_string()]].concat());
                    end
                }
                ("crate" | "super", "::", _) if at == 0 || tokens[at - 1].text != "::" => {
                    let mut used = Vec::new();
                    paths(tokens, at, &[], &mut used);
                    used.iter().for_each(|(used, line)| self.uses(path, used, file, *line));
                    at + 1
                }
                _ => at + 1,
            };
        }
    }

    /// Adds the arrow for a use of the path `used` in the module `path`.
    fn uses(&mut self, path: &[String], used: &[String], file: &Path, line: usize) {
        let mut absolute = path.to_vec();
        for name in used {
            match name.as_str() {
                "crate" => absolute.clear(),
                "self" => {}
                "super" => {
                    absolute.pop();
                }
                name => absolute.push(name.to_string()),
            }
        }
        let (Some(from), Some(to)) = (path.first(), absolute.first().and_then(|name| self.names.get(name))) else {
            return; // the root module may use all, and is used for what is its own
        };
        if from != to {
            let place = format!("{}:{line}", file.strip_prefix(project()).unwrap_or(file).display());
            self.arrows.entry((from.clone(), to.clone())).or_insert(place);
        }
    }
}

/// The arrows that are part of a cycle of modules.
fn in_cycles<'a>(arrows: &[&'a (String, String)]) -> Vec<&'a (String, String)> {
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(node) = next.pop() {
            if seen.insert(node) {
                next.extend(arrows.iter().filter(|arrow| arrow.0 == node).map(|arrow| arrow.1.as_str()));
            }
        }
        seen.contains(to)
    };
    arrows.iter().copied().filter(|(from, to)| reaches(to, from)).collect()
}

/// The text of ARCHITECTURE.md below the heading `## name`, up to the next heading of this level.
fn section(name: &str) -> String {
    let text = std::fs::read_to_string(project().join("ARCHITECTURE.md")).unwrap();
    let found = text.split("\n## ").find_map(|section| section.strip_prefix(name)?.strip_prefix('\n'));
    found.unwrap_or_else(|| panic!("ARCHITECTURE.md has no section `{name}`")).to_string()
}

/// The rows "| crates | interface, part or internal | ... |" of ARCHITECTURE.md agree with the manifests.
#[test]
fn every_crate_is_an_interface_a_part_or_internal() {
    let text = section("Public interfaces");
    let mut stated = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &["", crates, kind @ ("interface" | "part" | "internal"), _, ""] = &cells[..] else { continue };
        for name in crates.split(", ") {
            let before = stated.insert(name.trim_matches('`').to_string(), kind);
            assert_eq!(before, None, "{name} has two rows");
        }
    }
    let packages = packages();
    let names: Vec<&String> = packages.iter().map(|package| &package.name).collect();
    assert_eq!(stated.keys().collect::<Vec<_>>(), names, "crates in ARCHITECTURE.md, and crates of the workspace");
    for package in &packages {
        let kind = stated[&package.name];
        assert_eq!(
            package.published,
            kind != "internal",
            "{}: ARCHITECTURE.md says {kind}; `publish = false` belongs to internal crates",
            package.name
        );
        let hidden = package.dependencies.iter().find(|other| stated[*other] == "internal");
        assert!(!package.published || hidden.is_none(), "{} is published and uses {hidden:?}", package.name);
    }
}

#[test]
fn crates_depend_on_each_other_one_way() {
    let packages = packages();
    assert!(packages.len() > 10, "the project's crates");
    let arrows: Vec<(String, String)> = packages
        .iter()
        .flat_map(|package| package.dependencies.iter().map(|other| (package.name.clone(), other.clone())))
        .collect();
    assert!(arrows.contains(&("rnic-cli".into(), "rnic-sim".into())), "{arrows:?}");
    let cycles = in_cycles(&arrows.iter().collect::<Vec<_>>());
    assert!(cycles.is_empty(), "dependencies between crates form cycles: {cycles:?}");
    // This loop checks the sentence of ARCHITECTURE.md: "A crate uses only crates above it."
    let text = section("Crates");
    let rows: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let row = |name: &str| rows.iter().position(|row| *row == name);
    let absent: Vec<&String> =
        packages.iter().map(|package| &package.name).filter(|name| row(name).is_none()).collect();
    assert!(absent.is_empty(), "the table of ARCHITECTURE.md lacks crates: {absent:?}");
    let upward = arrows.iter().filter(|(from, to)| row(from).zip(row(to)).is_some_and(|(from, to)| from < to));
    let upward: Vec<&(String, String)> = upward.collect();
    assert!(upward.is_empty(), "crates use crates below them in the table of ARCHITECTURE.md: {upward:?}");
}

/// The data of runs and the readers of scenarios compile no engine: no P4 compiler, no verbs, no transports in host
/// software, no simulator. Only the simulator and the commands use the P4 compiler, and it can be left out.
#[test]
fn the_data_of_runs_knows_no_engine() {
    let packages = packages();
    let dependencies = |name: &str| &packages.iter().find(|package| package.name == name).unwrap().dependencies;
    for name in ["rnic-spec", "rnic-workload", "rnic-scenario", "rnic-metrics", "rnic-watch"] {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        let mut next = vec![name];
        while let Some(name) = next.pop().filter(|_| all.len() < packages.len()) {
            next.extend(dependencies(name).iter().map(String::as_str).filter(|name| all.insert(*name)));
        }
        let engines = ["rnic-nano", "rnic-hw", "rnic-verbs", "rnic-host", "rnic-wire", "rnic-sim"];
        let used: Vec<&&str> = engines.iter().filter(|engine| all.contains(*engine)).collect();
        assert!(used.is_empty(), "{name} uses {used:?}");
    }
    let users = |engine: &str| {
        let users = packages.iter().filter(|package| package.dependencies.contains(engine));
        users.map(|package| package.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(users("rnic-nano"), ["rnic-cli", "rnic-hw", "rnic-sim", "rnic-simulator"]);
    assert_eq!(users("rnic-hw"), ["rnic-cli", "rnic-simulator"]);
}

#[test]
fn top_level_modules_use_each_other_one_way() {
    let mut faults = Vec::new();
    for package in packages() {
        let modules = Modules::of_crate(&package.root);
        let arrows: Vec<&(String, String)> = modules.arrows.keys().collect();
        let line = |arrow: &(String, String)| {
            format!("{}: {} -> {} ({})", package.name, arrow.0, arrow.1, modules.arrows[arrow])
        };
        faults.extend(in_cycles(&arrows).into_iter().map(line));
    }
    assert!(
        faults.is_empty(),
        "top-level modules use each other in cycles; move what both need into a module below both:\n  {}",
        faults.join("\n  ")
    );
}

/// A release changes the version at four places.
#[test]
fn citation_changelog_and_security_policy_have_the_version_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    let minor = version.rsplit_once('.').unwrap().0;
    let places = [
        ("CITATION.cff", format!("\nversion: {version}\n")),
        ("CHANGELOG.md", format!("\n## [{version}] - ")),
        ("SECURITY.md", format!("| the latest release ({minor}) | yes |")),
        ("README.md", format!("**This is version {minor}**")),
    ];
    for (file, text) in places {
        let found = std::fs::read_to_string(project().join(file)).unwrap().contains(&text);
        assert!(found, "{file} lacks {text:?}, the version of Cargo.toml");
    }
}

/// A file of `tests/` that `tests/main.rs` does not name would be neither compiled nor run.
#[test]
fn every_file_of_tests_is_compiled() {
    for package in packages() {
        let folder = package.root.parent().and_then(Path::parent).unwrap();
        let Ok(main) = std::fs::read_to_string(folder.join("tests/main.rs")) else { continue };
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for entry in std::fs::read_dir(folder.join("tests")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let Some(name) = file.strip_suffix(".rs").filter(|name| *name != "main") else { continue };
            let compiled = main.contains(&format!("\nmod {name};")) || manifest.contains(&format!("name = \"{name}\""));
            assert!(compiled, "{}: tests/main.rs lacks `mod {name};`", package.name);
        }
    }
}

#[test]
fn the_modules_of_a_crate_are_found() {
    let modules = Modules::of_crate(&project().join("crates/rnic-sim/src/lib.rs"));
    let arrow = |from: &str, to: &str| modules.arrows.contains_key(&(from.to_string(), to.to_string()));
    assert!(arrow("run", "host") && arrow("catalogue", "run"), "{:?}", modules.arrows);
    // The first arrow comes from a path that begins with `super`; the second check is about a name that the root module
    // re-exports.
    let modules = Modules::of_crate(&project().join("crates/rnic-results/src/lib.rs"));
    assert!(modules.arrows.contains_key(&("table".to_string(), "summary".to_string())), "{:?}", modules.arrows);
    assert_eq!(modules.names.get("ScenarioSummary"), Some(&"summary".to_string()));
}

#[test]
fn the_scan_finds_paths_and_leaves_out_comments_and_tests() {
    let source = r##"
        //! See [`crate::comment`].
        use crate::{a, b::{self, C as D}, e::*};
        use super::f::G;
        fn text<'l>(_: &'l str) -> char { let _ = "crate::string \" crate::string"; let _ = r#"crate::raw"#; '\'' }
        /* crate::block /* nested */ crate::block */
        fn body() { crate::h::call(crate::i::J) }
        #[cfg(test)]
        use crate::{test_use};
        #[cfg(test)]
        mod tests { use crate::test_mod; }
        fn after() { crate::k() }
    "##;
    let tokens = without_tests(&tokens(source));
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| ["crate", "super"].contains(&tokens[*at].text)) {
        paths(&tokens, at, &[], &mut found);
    }
    let found: Vec<(String, usize)> = found.into_iter().map(|(path, line)| (path.join("::"), line)).collect();
    let expected = [
        ("crate::a", 3),
        ("crate::b::self", 3),
        ("crate::b::C::D", 3),
        ("crate::e::*", 3),
        ("super::f::G", 4),
        ("crate::h::call", 7),
        ("crate::i::J", 7),
        ("crate::k", 12),
    ];
    assert_eq!(found, expected.map(|(path, line)| (path.to_string(), line)));
}

#[test]
fn the_root_file_of_a_library_of_any_kind_is_found() {
    let package = |kinds: &[&str]| {
        let target = |kind: &&str| serde_json::json!({"kind": kind.split('+').collect::<Vec<_>>(), "src_path": *kind});
        serde_json::json!({"name": "a", "targets": kinds.iter().map(target).collect::<Vec<_>>()})
    };
    assert_eq!(root_file(&package(&["custom-build", "rlib+staticlib"])), Ok("rlib+staticlib".into()));
    assert_eq!(root_file(&package(&["cdylib"])), Ok("cdylib".into()));
    assert_eq!(root_file(&package(&["bin", "lib"])), Ok("lib".into()));
    assert_eq!(root_file(&package(&["test", "bin"])), Ok("bin".into()));
    assert!(root_file(&package(&["test", "bench"])).unwrap_err().contains("neither a library nor a program"));
}

#[test]
fn cycles_are_found() {
    let arrow = |from: &str, to: &str| (from.to_string(), to.to_string());
    let arrows = [arrow("a", "b"), arrow("b", "c"), arrow("c", "b"), arrow("c", "d")];
    assert_eq!(in_cycles(&arrows.iter().collect::<Vec<_>>()), [&arrows[1], &arrows[2]]);
}
