//! P4 programs that are right, nearly right, or noise: the compiler takes them or says what is wrong, and what it takes runs.

use crate::network::Dice;
use rnic_nano::diagnostic::Diagnostic;
use rnic_nano::parser::parse_program;
use rnic_nano::source::{SourceFile, SourceMap, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Programs to begin with.
const PROGRAMS: &[&str] = &[
    include_str!("../../../../crates/rnic-nano/tests/accepted/receiver_driven.p4"),
    include_str!("../../../../crates/rnic-nano/tests/accepted/every_construct.p4"),
];

/// What else may be put in.
const WORDS: &[&str] = &[
    "abstract",
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
    "for",
    "header",
    "header_union",
    "if",
    "inout",
    "int",
    "match_kind",
    "package",
    "parser",
    "return",
    "select",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
    "_",
    "key",
    "actions",
    "entries",
    "apply",
    "state",
    "0",
    "1",
    "255",
    "0xffff",
    "8w7",
    "4s7",
    "16w0",
    "340282366920938463463374607431768211455",
    "\"text\"",
    "bit<8>",
    "int<8>",
    "bit<128>",
    "(bit<8>)",
    "(bit<1>)",
    "(bool)",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "~",
    "!",
    "==",
    "<",
    ">",
    "&&",
    "||",
    "? 1 :",
    "++",
    "|+|",
    "|-|",
    "&&&",
    "..",
    "...",
    "[7:0]",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ":",
    ",",
    ".",
    "=",
    "@",
    "#",
    "$",
    "ä",
    "/*",
    "*/",
    "//",
    "\n",
    "\n#define x 1\n",
    "\n#define x x y\n",
    "\n#undef x\n",
    "\n#ifdef x\n",
    "\n#ifndef x\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#include <core.p4>\n",
    "\n#include \"program.p4\"\n",
    ".isValid()",
    ".setValid()",
    ".setInvalid()",
    ".apply()",
    ".apply().hit",
    ".apply().action_run",
    "switch (1) {",
    "if (true) {",
    "return;",
    "exit;",
];

/// What a run has done.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Programs.
    pub programs: u64,
    /// Those whose syntax was taken.
    pub parsed: u64,
}

impl Summary {
    /// The sum of both.
    pub fn plus(self, other: Summary) -> Summary {
        Summary { programs: self.programs + other.programs, parsed: self.parsed + other.parsed }
    }
}

/// Compiles at most `steps` programs, as `dice` choose, until they are used up.
///
/// # Errors
/// What is wrong, and with which program.
pub fn run(mut dice: Dice, steps: u64) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for _ in 0..steps {
        if dice.is_spent() {
            break;
        }
        let program = nearly_a_program(&mut dice);
        summary = summary.plus(check(&program)?);
    }
    Ok(summary)
}

/// Compiles one program.
///
/// # Errors
/// What is wrong, and the program.
pub fn check(program: &str) -> Result<Summary, String> {
    let checked = catch_unwind(AssertUnwindSafe(|| compile(program)));
    let checked = checked.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", said.unwrap_or("without words")))
    });
    checked.map_err(|what| format!("{what}; the program:\n{program}"))
}

fn compile(program: &str) -> Result<Summary, String> {
    let main = SourceFile { name: "program.p4".into(), text: program.into() };
    let mut summary = Summary { programs: 1, ..Summary::default() };
    match parse_program(main, &|_| None) {
        Ok(_) => summary.parsed = 1,
        Err((errors, sources)) => check_errors(&errors, &sources)?,
    }
    Ok(summary)
}

/// A refusal says something, of places that there are.
fn check_errors(errors: &[Diagnostic], sources: &SourceMap) -> Result<(), String> {
    if errors.is_empty() || errors.len() > 20 {
        return Err(format!("refused with {} errors", errors.len()));
    }
    for error in errors {
        let places = error.related.iter().map(|(span, _)| *span).chain([error.span]);
        if let Some(span) = places.into_iter().find(|span| !lies_in(*span, sources)) {
            return Err(format!("an error lies at {span:?}: {}", error.message));
        }
        if error.message.is_empty() || error.render(sources).is_empty() {
            return Err("an error without words".into());
        }
    }
    Ok(())
}

fn lies_in(span: Span, sources: &SourceMap) -> bool {
    let file = sources.files.get(usize::from(span.file));
    file.is_some_and(|file| file.text.get(span.start as usize..span.end as usize).is_some())
}

/// One of the programs, with some changes.
fn nearly_a_program(dice: &mut Dice) -> String {
    let mut pieces = pieces(dice.pick(PROGRAMS));
    let most = if dice.chance(400) { 3 } else { 10 };
    for _ in 0..dice.below(most) {
        change(&mut pieces, dice);
    }
    let mut text = pieces.concat();
    if dice.chance(50) {
        let mut bytes = text.into_bytes();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    text
}

fn change(pieces: &mut Vec<&'static str>, dice: &mut Dice) {
    let at = dice.below(pieces.len() as u64) as usize;
    let most = if dice.chance(200) { 60 } else { 4 };
    let len = 1 + dice.below(most) as usize;
    let end = (at + len).min(pieces.len());
    match dice.below(10) {
        0 => drop(pieces.drain(at..end)),
        1 => {
            let copied = pieces[at..end].to_vec();
            let to = dice.below(pieces.len() as u64 + 1) as usize;
            pieces.splice(to..to, copied);
        }
        2 => {
            let other = self::pieces(dice.pick(PROGRAMS));
            let from = dice.below(other.len() as u64) as usize;
            let copied = other[from..(from + len).min(other.len())].to_vec();
            pieces.splice(at..end, copied);
        }
        3 => pieces.insert(at, dice.pick(WORDS)),
        4 => {
            let other = dice.below(pieces.len() as u64) as usize;
            if other < pieces.len() {
                pieces.swap(at, other);
            }
        }
        5 => {
            if let Some(piece) = pieces.get_mut(at) {
                *piece = dice.pick(WORDS);
            }
        }
        _ => replace_alike(pieces, at, dice),
    }
}

/// A word for a word, a number for a number, a sign for a sign: the syntax often stays right.
fn replace_alike(pieces: &mut [&'static str], at: usize, dice: &mut Dice) {
    let Some(old) = pieces.get(at).copied() else { return };
    let start = dice.below(pieces.len() as u64) as usize;
    let alike =
        (start..pieces.len()).chain(0..start).find(|other| pieces[*other] != old && kind(pieces[*other]) == kind(old));
    if let Some(alike) = alike {
        pieces[at] = pieces[alike];
    }
}

fn kind(piece: &str) -> u8 {
    match piece.bytes().next() {
        Some(b'0'..=b'9') => 0,
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => 1,
        Some(b' ' | b'\n') => 2,
        _ => 3,
    }
}

/// A program's words and what stands between them.
fn pieces(program: &'static str) -> Vec<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut pieces = Vec::new();
    let mut rest = program;
    while let Some(first) = rest.chars().next() {
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == ' ' {
            rest.find(|c| c != ' ').unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        pieces.push(&rest[..len]);
        rest = &rest[len..];
    }
    pieces
}
