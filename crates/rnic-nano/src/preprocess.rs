//! Lines that begin with `#`: other files, macros without parameters, conditions.

use crate::diagnostic::Diagnostic;
use crate::lexer::{Kind, Lexer, Token};
use crate::source::{SourceFile, SourceMap, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What the compiler itself has.
const BUILT_IN: &[(&str, &str)] = &[
    ("core.p4", include_str!("../p4include/core.p4")),
    ("nanotransport.p4", include_str!("../p4include/nanotransport.p4")),
];

/// Files within files.
const MOST_INCLUDES_DEEP: usize = 32;
/// Files of a program.
const MOST_FILES: usize = 256;
/// Bytes of all files of a program.
pub(crate) const MOST_BYTES: usize = 8 << 20;
/// Tokens of a program, those that macros have brought forth included.
const MOST_TOKENS: usize = 1_000_000;
/// Macros within macros.
const MOST_MACROS_DEEP: usize = 64;
/// More errors are not kept.
const MOST_ERRORS: usize = 20;

/// How a program's files beside it are read: from a path relative to the program, with `/`, to the file's text.
pub type Include<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A program's tokens, or what came of the attempt.
pub(crate) struct Preprocessed {
    /// The last one is `End`.
    pub(crate) tokens: Vec<Token>,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) sources: SourceMap,
    /// Much is missing from the tokens: their syntax means nothing.
    pub(crate) incomplete: bool,
}

/// Takes a program apart into tokens.
pub(crate) fn preprocess(main: SourceFile, include: Include) -> Preprocessed {
    let mut state = Preprocessor {
        include,
        directory: directory(&main.name).to_string(),
        sources: SourceMap::default(),
        tokens: Vec::new(),
        errors: Vec::new(),
        macros: BTreeMap::new(),
        built_in: BTreeSet::new(),
        open: Vec::new(),
        bytes: 0,
        work: 0,
        incomplete: false,
        stopped: false,
    };
    let start = Span::default();
    let path = main.name[state.directory.len()..].to_string();
    state.file(main.name, path, main.text, start);
    let length = state.sources.files.first().map_or(0, |main| main.text.trim_end().len()) as u32;
    let span = Span { file: 0, start: length, end: length };
    state.tokens.push(Token { kind: Kind::End, span, joint: false, first_on_line: true, indent: 0 });
    let Preprocessor { tokens, errors, sources, incomplete, stopped, .. } = state;
    Preprocessed { tokens, errors, sources, incomplete: incomplete || stopped }
}

/// A name with its body, and where it was defined.
struct Macro {
    body: Rc<[Token]>,
    span: Span,
    /// It is being written out.
    busy: bool,
}

/// `#ifdef` or `#ifndef` that has not ended.
struct Condition {
    span: Span,
    /// What stands around it counts.
    outer: bool,
    /// What stands here counts.
    active: bool,
    otherwise: Option<Span>,
}

struct Preprocessor<'a> {
    include: Include<'a>,
    /// The program's, with a `/` at its end if it is not empty.
    directory: String,
    sources: SourceMap,
    tokens: Vec<Token>,
    errors: Vec<Diagnostic>,
    macros: BTreeMap<Rc<str>, Macro>,
    /// Built-in files that have been included.
    built_in: BTreeSet<&'static str>,
    /// Paths of the files that are being read, outermost first, and where each was asked for.
    open: Vec<(String, Span)>,
    bytes: usize,
    /// Tokens looked at.
    work: usize,
    incomplete: bool,
    stopped: bool,
}

impl Preprocessor<'_> {
    fn report(&mut self, error: Diagnostic) {
        if !self.stopped {
            self.errors.push(error);
            self.stopped = self.errors.len() >= MOST_ERRORS;
        }
    }

    /// Reports a limit; nothing more is read.
    fn stop(&mut self, error: Diagnostic) {
        self.report(error);
        self.stopped = true;
    }

    /// Reads a file, asked for at `asked`.
    fn file(&mut self, name: String, path: String, text: String, asked: Span) {
        self.bytes += text.len();
        let (too_long, too_many) = (self.bytes > MOST_BYTES, self.sources.files.len() >= MOST_FILES);
        let index = self.sources.files.len() as u16;
        let kept = if too_long { String::new() } else { text };
        if !too_many {
            self.sources.files.push(SourceFile { name, text: kept.clone() });
        }
        if too_long || too_many {
            let what = if too_long { format!("{} MiB", MOST_BYTES >> 20) } else { format!("{MOST_FILES} files") };
            let message = format!("the program and what it includes have more than {what}");
            return self.stop(Diagnostic::new(asked, message, "this is too much"));
        }
        self.open.push((path, asked));
        self.lines(index, &kept);
        self.open.pop();
    }

    fn lines(&mut self, file: u16, text: &str) {
        let mut lexer = Lexer::new(file, text);
        let mut conditions: Vec<Condition> = Vec::new();
        while !self.stopped {
            let active = conditions.last().is_none_or(|condition| condition.active);
            let token = self.lex(&mut lexer, active);
            if token.kind == Kind::End {
                break;
            }
            if token.first_on_line && token.kind == Kind::Sign("#") {
                self.directive(&mut lexer, &token, &mut conditions);
            } else if active {
                self.expand(&token, 0, token.span);
            }
        }
        self.incomplete |= lexer.unterminated;
        if !self.stopped && !lexer.unterminated {
            for condition in conditions {
                let error = Diagnostic::new(condition.span, "a condition without end", "it begins here");
                self.report(error.with_help("end it with a line `#endif`"));
                self.incomplete = true;
            }
        }
    }

    /// The next token; what is wrong with it counts only if it does itself.
    fn lex(&mut self, lexer: &mut Lexer, active: bool) -> Token {
        let mut errors = Vec::new();
        let token = lexer.next(&mut errors);
        if active || lexer.unterminated {
            errors.into_iter().for_each(|error| self.report(error));
        }
        self.count(token.span);
        token
    }

    fn count(&mut self, span: Span) {
        self.work += 1;
        if self.work > MOST_TOKENS && !self.stopped {
            let message = format!("the program has more than {MOST_TOKENS} tokens");
            self.stop(
                Diagnostic::new(span, message, "this is too much")
                    .with_help("macros that use others twice and more grow fast"),
            );
        }
    }

    /// Writes out a token, or what its name stands for; within what it stands for, a macro's own name is a name like others.
    fn expand(&mut self, token: &Token, deep: usize, place: Span) {
        let found = match &token.kind {
            Kind::Ident(name) => self.macros.get_mut(name).filter(|found| !found.busy),
            _ => None,
        };
        let Some(found) = found else { return self.tokens.push(Token { span: place, ..token.clone() }) };
        if deep >= MOST_MACROS_DEEP {
            let message = format!("macros use one another more than {MOST_MACROS_DEEP} deep");
            return self.stop(Diagnostic::new(place, message, "used here"));
        }
        let body = found.body.clone();
        self.busy(token, true);
        for part in body.iter() {
            self.count(place);
            if self.stopped {
                break;
            }
            self.expand(part, deep + 1, place);
        }
        self.busy(token, false);
    }

    fn busy(&mut self, name: &Token, busy: bool) {
        if let Kind::Ident(name) = &name.kind
            && let Some(found) = self.macros.get_mut(name)
        {
            found.busy = busy;
        }
    }

    fn directive(&mut self, lexer: &mut Lexer, hash: &Token, conditions: &mut Vec<Condition>) {
        let active = conditions.last().is_none_or(|condition| condition.active);
        let before = lexer.clone();
        let word = lexer.next(&mut Vec::new());
        let name = match &word.kind {
            _ if word.first_on_line => "",
            Kind::Ident(name) => name.as_ref(),
            Kind::Keyword(name) => name,
            Kind::End => "",
            _ => "?",
        };
        if name.is_empty() {
            *lexer = before;
            return;
        }
        let span = hash.span.to(word.span);
        match name {
            "ifdef" | "ifndef" | "else" | "endif" | "if" | "elif" => self.condition(name, lexer, span, conditions),
            _ if !active => {
                lexer.line_tokens(&mut Vec::new());
            }
            "include" => self.include(lexer, span),
            "define" => self.define(lexer, span),
            "undef" => {
                if let Some((name, _)) = self.only_name(lexer, span, "undef") {
                    self.macros.remove(&name);
                }
            }
            "error" => {
                let (text, at) = lexer.rest_of_line();
                self.report(Diagnostic::new(span.to(at), format!("#error {text}"), "the program says so"));
            }
            "pragma" | "line" | "warning" => {
                lexer.line_tokens(&mut Vec::new());
                self.report(Diagnostic::unsupported(span, &format!("`#{name}`"), Some("leave the line out")));
            }
            _ => {
                lexer.line_tokens(&mut Vec::new());
                let known = ["include", "define", "undef", "ifdef", "ifndef", "else", "endif"];
                let error = Diagnostic::new(span, format!("unknown directive `#{name}`"), "not known");
                let near = nearest(name, known.iter().copied());
                self.report(error.with_help(near.map_or_else(
                    || "known are #include, #define, #undef, #ifdef, #ifndef, #else and #endif".into(),
                    |near| format!("did you mean `#{near}`?"),
                )));
            }
        }
    }

    fn condition(&mut self, name: &str, lexer: &mut Lexer, span: Span, conditions: &mut Vec<Condition>) {
        let outer = conditions.last().is_none_or(|condition| condition.active);
        match name {
            "ifdef" | "ifndef" => {
                let asked = if outer { self.only_name(lexer, span, name) } else { None };
                let defined = asked.as_ref().is_some_and(|(asked, _)| self.macros.contains_key(asked));
                let active = outer && asked.is_some() && (defined == (name == "ifdef"));
                conditions.push(Condition { span, outer, active, otherwise: None });
            }
            "if" => {
                lexer.line_tokens(&mut Vec::new());
                if outer {
                    self.report(Diagnostic::unsupported(
                        span,
                        "`#if`",
                        Some("`#ifdef NAME` and `#ifndef NAME` ask whether a name is defined"),
                    ));
                }
                conditions.push(Condition { span, outer, active: false, otherwise: None });
            }
            "elif" => {
                lexer.line_tokens(&mut Vec::new());
                if conditions.last().is_some_and(|condition| condition.outer) || conditions.is_empty() {
                    self.report(Diagnostic::unsupported(span, "`#elif`", Some("put an `#ifdef` into the `#else`")));
                }
                if let Some(condition) = conditions.last_mut() {
                    condition.active = false;
                }
            }
            _ => self.branch(name, lexer, span, conditions),
        }
    }

    /// `#else` and `#endif`.
    fn branch(&mut self, name: &str, lexer: &mut Lexer, span: Span, conditions: &mut Vec<Condition>) {
        let extra = lexer.line_tokens(&mut Vec::new());
        if let Some(extra) = extra.first() {
            let error =
                Diagnostic::new(extra.span, format!("more text after `#{name}`"), "expected the end of the line");
            self.report(error.with_help("make it a comment: `// ...`"));
        }
        let Some(condition) = conditions.last_mut() else {
            let error =
                Diagnostic::new(span, format!("`#{name}` without `#ifdef` or `#ifndef`"), "nothing to end here");
            return self.report(error);
        };
        if name == "endif" {
            conditions.pop();
        } else if let Some(first) = condition.otherwise {
            self.report(Diagnostic::new(span, "a second `#else`", "one too many").with_related(first, "the first one"));
        } else {
            condition.otherwise = Some(span);
            condition.active = condition.outer && !condition.active;
        }
    }

    /// The name that is all of a directive's line.
    fn only_name(&mut self, lexer: &mut Lexer, span: Span, directive: &str) -> Option<(Rc<str>, Span)> {
        let tokens = lexer.line_tokens(&mut self.errors);
        match tokens.as_slice() {
            [Token { kind: Kind::Ident(name), span, .. }] => Some((name.clone(), *span)),
            [] => {
                self.report(Diagnostic::new(
                    span,
                    format!("`#{directive}` without a name"),
                    "expected a name after this",
                ));
                None
            }
            [first, rest @ ..] => {
                let wrong = if matches!(first.kind, Kind::Ident(_)) {
                    rest.first().map_or(first.span, |t| t.span)
                } else {
                    first.span
                };
                self.report(Diagnostic::new(
                    wrong,
                    format!("`#{directive}` takes one name"),
                    "expected a name, and the end of the line",
                ));
                None
            }
        }
    }

    fn define(&mut self, lexer: &mut Lexer, span: Span) {
        let mut errors = Vec::new();
        let tokens = lexer.line_tokens(&mut errors);
        errors.into_iter().for_each(|error| self.report(error));
        let Some((first, body)) = tokens.split_first() else {
            return self.report(Diagnostic::new(span, "`#define` without a name", "expected a name after this"));
        };
        let Kind::Ident(name) = &first.kind else {
            let error = Diagnostic::new(first.span, "`#define` takes a name that is not a keyword", "expected a name");
            return self.report(error);
        };
        if first.joint && body.first().is_some_and(|token| token.kind == Kind::Sign("(")) {
            let instead = "only names without parameters can be defined; an action does what such a macro would do";
            return self.report(Diagnostic::unsupported(first.span, "macros with parameters", Some(instead)));
        }
        let kinds = |tokens: &[Token]| tokens.iter().map(|token| token.kind.clone()).collect::<Vec<_>>();
        if let Some(old) = self.macros.get(name).filter(|old| kinds(&old.body) != kinds(body)) {
            let error = Diagnostic::new(first.span, format!("`{name}` is defined twice"), "defined otherwise here");
            let error = error.with_related(old.span, "the first time").with_help("`#undef` it first");
            self.report(error);
        }
        self.macros.insert(name.clone(), Macro { body: body.into(), span: first.span, busy: false });
    }

    fn include(&mut self, lexer: &mut Lexer, directive: Span) {
        let (text, span) = lexer.rest_of_line();
        let quoted = |open: char, close: char| {
            let (name, rest) = text.strip_prefix(open)?.split_once(close)?;
            let rest = rest.trim_start();
            let ends = rest.is_empty() || rest.starts_with("//") || rest.starts_with("/*") && rest.ends_with("*/");
            (ends && !name.is_empty()).then(|| (name, Span { end: span.start + name.len() as u32 + 2, ..span }))
        };
        if let Some((name, span)) = quoted('<', '>') {
            self.include_built_in(name, span);
        } else if let Some((name, span)) = quoted('"', '"') {
            self.include_beside(name, span);
        } else {
            let at = if text.is_empty() { directive } else { span };
            let error = Diagnostic::new(at, "`#include` without a file", "expected the name of a file");
            self.report(error.with_help("write `#include <core.p4>` or `#include \"beside_this_program.p4\"`"));
        }
    }

    /// Each of these counts once, however often it is asked for.
    fn include_built_in(&mut self, name: &str, span: Span) {
        let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let error = Diagnostic::new(span, format!("there is no built-in file <{name}>"), "not known");
            let help =
                "built in are <core.p4> and <nanotransport.p4>; for a file beside the program write `#include \"...\"`";
            self.incomplete = true;
            return self.report(error.with_help(help));
        };
        if self.built_in.insert(name) {
            self.file(format!("<{name}>"), format!("<{name}>"), (*text).to_string(), span);
        }
    }

    fn include_beside(&mut self, name: &str, span: Span) {
        let from = self.open.last().map_or("", |(path, _)| directory(path));
        let path = normal(&format!("{from}{name}"));
        if let Some((_, asked)) = self.open.iter().skip_while(|(open, _)| *open != path).nth(1) {
            let error = Diagnostic::new(span, format!("\"{name}\" includes itself"), "here again");
            self.incomplete = true;
            return self.report(error.with_related(*asked, "on the way from its first inclusion"));
        }
        if self.open.last().is_some_and(|(open, _)| *open == path) {
            self.incomplete = true;
            return self.report(Diagnostic::new(
                span,
                format!("\"{name}\" includes itself"),
                "this is the file itself",
            ));
        }
        if self.open.len() >= MOST_INCLUDES_DEEP {
            let message = format!("files include one another more than {MOST_INCLUDES_DEEP} deep");
            return self.stop(Diagnostic::new(span, message, "included here"));
        }
        let Some(text) = (self.include)(&path) else {
            let error =
                Diagnostic::new(span, format!("there is no file \"{path}\" beside the program"), "cannot be read");
            self.incomplete = true;
            return self.report(error.with_help("the path is relative to the file that includes it"));
        };
        self.file(format!("{}{path}", self.directory), path, text, span);
    }
}

/// What stands before a path's last name.
fn directory(path: &str) -> &str {
    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
}

/// A path without `.`, and with `..` only at its beginning.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| *part != ".") {
        match part {
            ".." if parts.last().is_some_and(|last| !matches!(*last, ".." | "")) => drop(parts.pop()),
            "" if !parts.is_empty() => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The word most like `word`, if it is like it at all.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = match word.len() {
        0 | 1 => return None,
        2 | 3 => 1,
        _ => 2,
    };
    let ranked = known.map(|known| (strsim::osa_distance(word, known), known));
    ranked
        .filter(|(distance, _)| (1..=most).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}
