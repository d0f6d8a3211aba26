//! Property tests of the parser: for any text it ends without a panic, and all spans lie within the source files.

use proptest::prelude::*;
use rnic_nano::parser::parse_program;
use rnic_nano::source::{SourceFile, SourceMap, Span};

const WORDS: &[&str] = &[
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "header",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "struct",
    "switch",
    "table",
    "transition",
    "true",
    "typedef",
    "void",
    "varbit",
    "tuple",
    "for",
    "this",
    "value_set",
    "header_union",
    "abstract",
    "apply",
    "key",
    "actions",
    "entries",
    "state",
    "type",
    "size",
    "default_action",
    "priority",
    "start",
    "a",
    "b",
    "T",
    "hdr",
    "_",
    "0",
    "1",
    "8w1",
    "4s7",
    "0xff",
    "300w1",
    "\"text\"",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    "!",
    "<",
    ">",
    ">>",
    "=",
    "?",
    ":",
    ";",
    ",",
    ".",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "@",
    "#",
    "&&&",
    "&&",
    "||",
    "==",
    "..",
    "...",
    "++",
    "|+|",
    "+=",
    "$",
    "ä",
    "\n",
    "\n#define a",
    "\n#define b a a\n",
    "\n#ifdef a\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#include <core.p4>\n",
    "\n#undef a\n",
    "/*",
    "*/",
    "//",
    "bit<8>",
    "{ apply {",
    "control C() { apply {",
    "parser P() { state start {",
    "table t {",
    "key = {",
    "actions = {",
    "entries = {",
    "transition select(a) {",
    "if (a) {",
    "switch (a) {",
    "}}",
];

const PROGRAM: &str = include_str!("accepted/every_construct.p4");

/// Returns every span in the debug representation of a syntax tree or an error.
fn places(text: &str) -> impl Iterator<Item = Span> {
    text.split("Span { file: ").skip(1).map(|rest| {
        let mut numbers = rest
            .split(|c: char| !c.is_ascii_digit())
            .filter(|part| !part.is_empty())
            .map(|part| part.parse::<u32>().unwrap());
        let mut next = || numbers.next().unwrap();
        Span { file: next() as u16, start: next(), end: next() }
    })
}

fn lies_in(span: Span, sources: &SourceMap) -> bool {
    let text = &sources.files[usize::from(span.file)].text;
    span.start <= span.end && text.get(span.start as usize..span.end as usize).is_some()
}

/// Parses a text and checks all spans in the result. Returns whether the parser accepted the text.
fn check(text: &str) -> Result<bool, TestCaseError> {
    let main = SourceFile { name: "program.p4".into(), text: text.into() };
    let (shown, sources, taken) = match parse_program(main, &|_| None) {
        Ok((module, sources)) => (format!("{module:?}"), sources, true),
        Err((errors, sources)) => {
            prop_assert!((1..=20).contains(&errors.len()), "{} errors", errors.len());
            for error in &errors {
                prop_assert!(!error.message.is_empty() && !error.label.is_empty());
                prop_assert!(error.render(&sources).starts_with("error: "));
            }
            (format!("{errors:?}"), sources, false)
        }
    };
    for span in places(&shown) {
        prop_assert!(lies_in(span, &sources), "{span:?}");
    }
    Ok(taken)
}

/// Splits a valid program into words and the text between the words.
fn pieces() -> Vec<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut pieces = Vec::new();
    let mut rest = PROGRAM;
    while let Some(first) = rest.chars().next() {
        let len = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        pieces.push(&rest[..len]);
        rest = &rest[len..];
    }
    pieces
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn any_words(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..300)) {
        check(&words.join(" "))?;
        check(&words.concat())?;
    }

    /// Parses a valid program in which some pieces are removed, duplicated, or replaced by other pieces of the program
    /// or by other words.
    #[test]
    fn nearly_programs(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8), 1..12)) {
        let mut pieces = pieces();
        for (at, other, kind) in changes {
            let (at, from) = (at.index(pieces.len()), other.index(pieces.len()));
            match kind {
                0 => drop(pieces.remove(at)),
                1 => pieces.insert(at, pieces[from]),
                2 => pieces[at] = WORDS[other.index(WORDS.len())],
                _ => pieces.truncate(pieces.len() - at % 50),
            }
        }
        check(&pieces.concat())?;
    }
}

#[test]
fn the_program_is_whole() {
    assert_eq!(pieces().concat(), PROGRAM);
    assert!(check(PROGRAM).unwrap());
    let main = SourceFile { name: "program.p4".into(), text: PROGRAM.into() };
    let (module, _) = parse_program(main, &|_| None).unwrap();
    assert!(places(&format!("{module:?}")).count() > 1_000);
}
