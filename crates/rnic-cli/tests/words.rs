//! Tests of the project's texts. Documentation, comments, messages and public names avoid the words of
//! `docs/words.txt`; lines with comments have at most 120 columns; relative links lead to an existing file and heading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum length of a line that holds a comment, in characters.
const MAX_COLUMNS: usize = 120;

/// A text to check, and the source line of each of its bytes.
struct Text {
    text: String,
    /// Offset in `text` at which each source line starts, and the number of that line.
    lines: Vec<(usize, usize)>,
}

impl Text {
    fn new() -> Text {
        Text { text: String::new(), lines: Vec::new() }
    }

    fn push(&mut self, line: usize, text: &str) {
        self.lines.push((self.text.len(), line));
        self.text.push_str(text.trim());
        self.text.push(' ');
    }

    fn line(&self, offset: usize) -> usize {
        self.lines.iter().rev().find(|&&(start, _)| start <= offset).map_or(0, |&(_, line)| line)
    }
}

/// The entries of one section of `docs/words.txt`, as (words to avoid, words to use instead).
type Entries = Vec<(String, String)>;

struct Words {
    prose: Entries,
    names: Entries,
    /// Exceptions, as (path of a file, entry that the file may use).
    allowed: BTreeSet<(String, String)>,
}

impl Words {
    fn read(text: &str) -> Words {
        let mut words = Words { prose: Vec::new(), names: Vec::new(), allowed: BTreeSet::new() };
        let mut section = "";
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                continue;
            }
            let separator = if section == "allowed" { ':' } else { '=' };
            let (key, value) = line.split_once(separator).unwrap_or_else(|| panic!("no `{separator}` in: {line}"));
            let (key, value) = (key.trim().to_string(), value.trim().to_string());
            match section {
                "prose" => words.prose.push((key, value)),
                "names" => words.names.push((key, value)),
                "allowed" => assert!(words.allowed.insert((key, value)), "twice: {line}"),
                other => panic!("unknown section [{other}]"),
            }
        }
        words
    }

    /// Finds uses of the entries in a text of `file`, and adds a description of each use that is not allowed to
    /// `found`.
    fn find(&self, entries: &Entries, file: &str, text: &Text, found: &mut Vec<String>) {
        let lower = text.text.to_lowercase();
        for (avoid, instead) in entries {
            let allowed = self.allowed.contains(&(file.to_string(), avoid.clone()));
            for offset in whole_words(&lower, avoid) {
                if !allowed {
                    found.push(format!("{file}:{}: \"{avoid}\": use \"{instead}\"", text.line(offset)));
                }
            }
        }
    }
}

/// Offsets in `text` at which `words` occurs as whole words: neither end is inside a longer word.
fn whole_words(text: &str, words: &str) -> Vec<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words)
        .map(|(offset, _)| offset)
        .filter(|&offset| {
            let (before, after) = (&text[..offset], &text[offset + words.len()..]);
            !before.chars().next_back().is_some_and(is_word) && !after.chars().next().is_some_and(is_word)
        })
        .collect()
}

/// The words of an identifier in lower case, with a space before each word. For example, `PeakRss` and `peak_rss`
/// become ` peak rss`.
fn words_of(identifier: &str) -> String {
    let mut words = String::new();
    let mut last = '_';
    for c in identifier.chars() {
        if c != '_' && (last == '_' || (c.is_uppercase() && !last.is_uppercase())) {
            words.push(' ');
        }
        if c != '_' {
            words.extend(c.to_lowercase());
        }
        last = c;
    }
    words
}

/// Replaces text between backquotes with "code", because the rules are about prose.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().map(|(i, piece)| if i % 2 == 0 { piece } else { "code" }).collect()
}

/// The prose of a Markdown file, which leaves out code blocks.
fn markdown(source: &str) -> Text {
    let mut text = Text::new();
    let mut in_code = false;
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            text.push(number + 1, &without_code(line));
        }
    }
    text
}

/// The comments of a file, in which `mark` (`#` or `//`) begins a line comment.
fn comments(source: &str, mark: &str) -> Text {
    let mut text = Text::new();
    let mut in_code = false;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix(mark) else {
            in_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!', '#']);
        if comment.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            text.push(number + 1, &without_code(comment));
        }
    }
    text
}

/// The string literals of a Rust file that contain a space. These are messages and help texts, whereas keys contain no
/// space.
fn messages(source: &str) -> Text {
    let mut text = Text::new();
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let line = line.replace("\\\"", "'").replace("'\"'", "' '");
        for literal in line.split('"').skip(1).step_by(2).filter(|literal| literal.trim().contains(' ')) {
            text.push(number + 1, &without_code(literal));
        }
    }
    text
}

/// The names that a Rust file declares with `pub`, each split into its words.
fn public_names(source: &str) -> Text {
    const KEYWORDS: [&str; 10] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "unsafe", "async"];
    let mut text = Text::new();
    for (number, line) in source.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| !KEYWORDS.contains(word));
        if let Some(name) = name.filter(|&name| name != "use") {
            text.push(number + 1, &words_of(name));
        }
    }
    text
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files of the project, by their paths relative to the root of the repository.
fn files() -> BTreeMap<String, PathBuf> {
    fn walk(folder: &Path, root: &Path, files: &mut BTreeMap<String, PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "out" {
                    walk(&path, root, files);
                }
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), path);
            }
        }
    }
    let (root, mut files) = (root(), BTreeMap::new());
    walk(&root, &root, &mut files);
    files
}

fn extension(file: &str) -> &str {
    file.rsplit_once('.').map_or("", |(_, extension)| extension)
}

#[test]
fn texts_and_public_names_use_the_terms_of_the_field() {
    let words = Words::read(&fs::read_to_string(root().join("docs/words.txt")).unwrap());
    let mut found = Vec::new();
    for (file, path) in files() {
        let prose = |text: &Text, found: &mut Vec<String>| words.find(&words.prose, &file, text, found);
        match extension(&file) {
            "md" => prose(&markdown(&fs::read_to_string(path).unwrap()), &mut found),
            "toml" => prose(&comments(&fs::read_to_string(path).unwrap(), "#"), &mut found),
            "p4" => prose(&comments(&fs::read_to_string(path).unwrap(), "//"), &mut found),
            "rs" => {
                let source = fs::read_to_string(path).unwrap();
                prose(&comments(&source, "//"), &mut found);
                prose(&messages(&source), &mut found);
                words.find(&words.names, &file, &public_names(&source), &mut found);
            }
            _ => {}
        }
    }
    assert!(found.is_empty(), "{} places; docs/words.txt has the terms to use:\n{}", found.len(), found.join("\n"));
}

#[test]
fn comment_lines_fit_into_the_columns() {
    let mut long = Vec::new();
    for (file, path) in files() {
        let mark = match extension(&file) {
            "rs" | "p4" => "//",
            "toml" | "sh" | "py" => "#",
            _ => continue,
        };
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            let columns = line.chars().count();
            let comment = line.trim_start();
            // The rows of a table cannot be wrapped.
            let table = comment.trim_start_matches(['/', '!', '#', ' ']).starts_with('|');
            if comment.starts_with(mark) && !table && columns > MAX_COLUMNS {
                long.push(format!("{file}:{}: {columns} columns", number + 1));
            }
        }
    }
    assert!(long.is_empty(), "{} comment lines above {MAX_COLUMNS} columns:\n{}", long.len(), long.join("\n"));
}

/// The anchors of the headings of a Markdown file. An anchor is the heading in lower case without punctuation, with
/// spaces replaced by hyphens.
fn anchors(source: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for line in source.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                _ => c.is_alphanumeric().then_some(c),
            })
            .collect();
        anchors.insert(anchor);
    }
    anchors
}

#[test]
fn relative_links_lead_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for (file, path) in files().into_iter().filter(|(file, _)| extension(file) == "md") {
        let source = fs::read_to_string(&path).unwrap();
        let text = markdown(&source).text;
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (target_file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let target_path = path.parent().unwrap().join(target_file);
            let target_path = if target_file.is_empty() { path.clone() } else { target_path };
            if !target_path.exists() {
                broken.push(format!("{file}: {target}: no such file"));
            } else if !anchor.is_empty() && !anchors(&fs::read_to_string(target_path).unwrap()).contains(anchor) {
                broken.push(format!("{file}: {target}: no such heading"));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken links:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn the_check_finds_words_across_lines_and_in_names() {
    let words = Words::read("[prose]\ngiven up = aborted\n[names]\ngiven up = aborted\n[allowed]\nold.md: given up\n");
    let find = |entries, file: &str, text: &Text| {
        let mut found = Vec::new();
        words.find(entries, file, text, &mut found);
        found
    };
    let wrapped = markdown("A flow was Given\nup.\n```\ngiven up\n```\nforgiven upper `given up`\n");
    assert_eq!(find(&words.prose, "a.md", &wrapped), ["a.md:1: \"given up\": use \"aborted\""]);
    assert!(find(&words.prose, "old.md", &wrapped).is_empty());
    let source = "/// Was given\n/// up.\npub fn flows_given_up() { fail(\"was given up\") }\npub struct GivenUp;\n";
    assert_eq!(find(&words.prose, "a.rs", &comments(source, "//")).len(), 1);
    assert_eq!(find(&words.prose, "a.rs", &messages(source)), ["a.rs:3: \"given up\": use \"aborted\""]);
    assert_eq!(find(&words.names, "a.rs", &public_names(source)).len(), 2);
    assert_eq!(anchors("## `rnic run`: a, b\n").first().unwrap(), "rnic-run-a-b");
}
