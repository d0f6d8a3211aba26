//! The preprocessor of the P4 compiler: processes `#include`, macros without parameters (`#define`), and conditional
//! compilation (`#ifdef`, `#if`).

use crate::diagnostic::{Diagnostic, nearest};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::source::{SourceFile, SourceMap, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

mod condition;

/// The include files that are built into the compiler: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("core.p4", include_str!("../p4include/core.p4")),
    ("nanotransport.p4", include_str!("../p4include/nanotransport.p4")),
];

/// Maximum nesting depth of `#include` directives.
const MAX_INCLUDE_DEPTH: usize = 32;
/// Maximum number of source files of a program, including the included files.
const MAX_FILES: usize = 256;
/// Maximum total size of all source files of a program, in bytes.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Maximum number of tokens of a program after macro expansion.
const MAX_TOKENS: usize = 1_000_000;
/// Maximum nesting depth of macro expansions.
const MAX_MACRO_DEPTH: usize = 64;
/// Maximum number of errors that the preprocessor reports for a program.
const MAX_ERRORS: usize = 20;

/// A function that returns the text of a file that the program includes, or `None` if there is no such file. Its
/// argument is the file's path, relative to the program's main file, with `/` as the separator.
pub type Include<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The result of preprocessing: tokens and errors.
pub(crate) struct Preprocessed {
    /// The tokens of the preprocessed program; the last one is `End`.
    pub(crate) tokens: Vec<Token>,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) sources: SourceMap,
    /// Whether a part of the program is missing from the tokens. Then the program is not parsed, because syntax errors
    /// would only be consequences of the missing part.
    pub(crate) incomplete: bool,
}

/// Preprocesses a program: reads the main file and the files that it includes, and returns their tokens.
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
    state.tokens.push(Token { kind: TokenKind::End, span, joint: false, first_on_line: true, indent: 0 });
    let Preprocessor { tokens, errors, sources, incomplete, stopped, .. } = state;
    Preprocessed { tokens, errors, sources, incomplete: incomplete || stopped }
}

/// A macro: the tokens of its body, and the source range of its definition.
struct Macro {
    body: Rc<[Token]>,
    span: Span,
    /// Whether the macro is being expanded. During the expansion, the macro's own name is not expanded again, so that
    /// the expansion ends.
    expanding: bool,
}

/// An `#ifdef` or `#ifndef` whose `#endif` the preprocessor has not reached yet.
struct Condition {
    span: Span,
    /// Whether the text that encloses this `#ifdef` is compiled, not skipped.
    outer: bool,
    /// Whether the text of the current branch (after `#ifdef` or after `#else`) is compiled, not skipped.
    active: bool,
    /// Whether a branch of this condition has been compiled, so that `#elif` and `#else` are skipped.
    taken: bool,
    otherwise: Option<Span>,
}

struct Preprocessor<'a> {
    include: Include<'a>,
    /// The directory of the program's main file: empty, or ending with `/`.
    directory: String,
    sources: SourceMap,
    tokens: Vec<Token>,
    errors: Vec<Diagnostic>,
    macros: BTreeMap<Rc<str>, Macro>,
    /// The names of the built-in files that have been included.
    built_in: BTreeSet<&'static str>,
    /// Paths of the source files that are being read, from the main file to the innermost included file. Each path has
    /// the span of the `#include` directive for it.
    open: Vec<(String, Span)>,
    bytes: usize,
    /// Number of tokens that the preprocessor has read or has produced by macro expansion so far.
    work: usize,
    incomplete: bool,
    stopped: bool,
}

impl Preprocessor<'_> {
    fn report(&mut self, error: Diagnostic) {
        if !self.stopped {
            self.errors.push(error);
            self.stopped = self.errors.len() >= MAX_ERRORS;
        }
    }

    /// Reports that the program exceeds a limit, and stops preprocessing.
    fn stop(&mut self, error: Diagnostic) {
        self.report(error);
        self.stopped = true;
    }

    /// Preprocesses a file. `asked` is the span of the `#include` directive that includes it.
    fn file(&mut self, name: String, path: String, text: String, asked: Span) {
        self.bytes += text.len();
        let too_long = self.bytes > MAX_BYTES;
        let too_many = self.sources.files.len() >= MAX_FILES;
        let index = self.sources.files.len() as u16;
        let kept = if too_long { String::new() } else { text };
        if !too_many {
            self.sources.files.push(SourceFile { name, text: kept.clone() });
        }
        if too_long || too_many {
            let what = if too_long { format!("{} MiB", MAX_BYTES >> 20) } else { format!("{MAX_FILES} files") };
            let message = format!("the program with its included files is larger than {what}");
            return self.stop(Diagnostic::new(asked, message, "the limit is exceeded here"));
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
            if token.kind == TokenKind::End {
                break;
            }
            if token.first_on_line && token.kind == TokenKind::Punctuation("#") {
                self.directive(&mut lexer, &token, &mut conditions);
            } else if active {
                self.expand(&token, 0, token.span);
            }
        }
        self.incomplete |= lexer.unterminated;
        if !self.stopped && !lexer.unterminated {
            for condition in conditions {
                let error = Diagnostic::new(condition.span, "this condition has no end", "the condition begins here");
                self.report(error.with_help("end it with a line `#endif`"));
                self.incomplete = true;
            }
        }
    }

    /// Returns the next token of a file. If `active` is false, `#ifdef` excludes the current text, and errors of the
    /// lexer are not reported.
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
        if self.work > MAX_TOKENS && !self.stopped {
            let message = format!("the program has more than {MAX_TOKENS} tokens");
            self.stop(
                Diagnostic::new(span, message, "the limit is exceeded here")
                    .with_help("a macro that uses another macro several times multiplies the number of tokens"),
            );
        }
    }

    /// Appends a token to the result or, if the token is the name of a macro, the expansion of the macro. Within the
    /// expansion, the macro's own name is not expanded.
    fn expand(&mut self, token: &Token, depth: usize, used_at: Span) {
        let found = match &token.kind {
            TokenKind::Ident(name) => self.macros.get_mut(name).filter(|found| !found.expanding),
            _ => None,
        };
        let Some(found) = found else { return self.tokens.push(Token { span: used_at, ..token.clone() }) };
        if depth >= MAX_MACRO_DEPTH {
            let message = format!("macro expansions are nested more than {MAX_MACRO_DEPTH} levels deep");
            return self.stop(Diagnostic::new(used_at, message, "used here"));
        }
        let body = found.body.clone();
        self.set_expanding(token, true);
        for token in body.iter() {
            self.count(used_at);
            if self.stopped {
                break;
            }
            self.expand(token, depth + 1, used_at);
        }
        self.set_expanding(token, false);
    }

    fn set_expanding(&mut self, name: &Token, expanding: bool) {
        if let TokenKind::Ident(name) = &name.kind
            && let Some(found) = self.macros.get_mut(name)
        {
            found.expanding = expanding;
        }
    }

    fn directive(&mut self, lexer: &mut Lexer, hash: &Token, conditions: &mut Vec<Condition>) {
        let active = conditions.last().is_none_or(|condition| condition.active);
        let before = lexer.clone();
        let word = lexer.next(&mut Vec::new());
        let name = match &word.kind {
            _ if word.first_on_line => "",
            TokenKind::Ident(name) => name.as_ref(),
            TokenKind::Keyword(name) => name,
            TokenKind::End => "",
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
                self.report(Diagnostic::new(span.to(at), format!("#error {text}"), "error of the program"));
            }
            "pragma" | "line" | "warning" => {
                lexer.line_tokens(&mut Vec::new());
                self.report(Diagnostic::unsupported(span, &format!("`#{name}`"), Some("remove the line")));
            }
            _ => {
                lexer.line_tokens(&mut Vec::new());
                let known = ["include", "define", "undef", "ifdef", "ifndef", "if", "elif", "else", "endif"];
                let error = Diagnostic::new(span, format!("unknown directive `#{name}`"), "not known");
                let near = nearest(name, known);
                self.report(error.with_help(near.map_or_else(
                    || {
                        "the directives are #include, #define, #undef, #ifdef, #ifndef, #if, #elif, #else and #endif"
                            .into()
                    },
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
                conditions.push(Condition { span, outer, active, taken: active, otherwise: None });
            }
            "if" => {
                let active = self.evaluate(lexer, span, outer);
                conditions.push(Condition { span, outer, active, taken: active, otherwise: None });
            }
            "elif" => {
                let open =
                    conditions.last().map(|condition| (condition.outer && !condition.taken, condition.otherwise));
                let active = self.evaluate(lexer, span, open.is_some_and(|(open, _)| open));
                match (conditions.last_mut(), open) {
                    (Some(_), Some((_, Some(first)))) => {
                        let error = Diagnostic::new(span, "`#elif` after `#else`", "not allowed here");
                        self.report(error.with_related(first, "the `#else`"));
                    }
                    (Some(condition), _) => {
                        condition.active = active;
                        condition.taken |= active;
                    }
                    (None, _) => {
                        let error = Diagnostic::new(span, "`#elif` without `#if`", "no condition is open here");
                        self.report(error);
                    }
                }
            }
            _ => self.branch(name, lexer, span, conditions),
        }
    }

    /// Evaluates the expression after `#if` or `#elif`, if it matters (`asked`). An error counts as false.
    fn evaluate(&mut self, lexer: &mut Lexer, span: Span, asked: bool) -> bool {
        let mut errors = Vec::new();
        let tokens = lexer.line_tokens(&mut errors);
        if !asked {
            return false;
        }
        errors.into_iter().for_each(|error| self.report(error));
        // Names after `defined` are not expanded.
        let mut expanded = Vec::new();
        let before = std::mem::take(&mut self.tokens);
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let is_defined = matches!(&token.kind, TokenKind::Ident(name) if &**name == "defined");
            if !is_defined {
                self.expand(&token, 0, token.span);
                expanded.append(&mut self.tokens);
                continue;
            }
            let open = tokens.next_if(|token| token.kind == TokenKind::Punctuation("("));
            let name = tokens.next();
            let closed = open.is_none() || tokens.next_if(|token| token.kind == TokenKind::Punctuation(")")).is_some();
            let value = match name.map(|name| name.kind) {
                Some(TokenKind::Ident(name)) if closed => u128::from(self.macros.contains_key(&name)),
                _ => {
                    let error = Diagnostic::new(token.span, "`defined` takes a name", "expected `defined(NAME)`");
                    self.report(error);
                    0
                }
            };
            expanded.push(Token { kind: TokenKind::Number(value, None), ..token });
        }
        self.tokens = before;
        match condition::value(&expanded) {
            Ok(value) => value != 0,
            Err((at, message)) => {
                let at = at.map_or(span, |at| expanded[at].span);
                let error = Diagnostic::new(at, format!("the condition has {message}"), "not a condition");
                self.report(error.with_help(
                    "a condition has whole numbers, `defined(NAME)`, ! && || == != < <= > >= + - * and ( )",
                ));
                false
            }
        }
    }

    /// Processes the directives `#else` and `#endif`.
    fn branch(&mut self, name: &str, lexer: &mut Lexer, span: Span, conditions: &mut Vec<Condition>) {
        let extra = lexer.line_tokens(&mut Vec::new());
        if let Some(extra) = extra.first() {
            let error =
                Diagnostic::new(extra.span, format!("unexpected text after `#{name}`"), "expected the end of the line");
            self.report(error.with_help("make it a comment: `// ...`"));
        }
        let Some(condition) = conditions.last_mut() else {
            let error =
                Diagnostic::new(span, format!("`#{name}` without `#ifdef` or `#ifndef`"), "no condition is open here");
            return self.report(error);
        };
        if name == "endif" {
            conditions.pop();
        } else if let Some(first) = condition.otherwise {
            self.report(
                Diagnostic::new(span, "a second `#else`", "duplicate `#else`").with_related(first, "the first one"),
            );
        } else {
            condition.otherwise = Some(span);
            condition.active = condition.outer && !condition.taken;
            condition.taken = true;
        }
    }

    /// Returns the argument of a directive that requires exactly one name, such as `#ifdef NAME`.
    fn only_name(&mut self, lexer: &mut Lexer, span: Span, directive: &str) -> Option<(Rc<str>, Span)> {
        let tokens = lexer.line_tokens(&mut self.errors);
        match tokens.as_slice() {
            [Token { kind: TokenKind::Ident(name), span, .. }] => Some((name.clone(), *span)),
            [] => {
                self.report(Diagnostic::new(
                    span,
                    format!("`#{directive}` without a name"),
                    "expected a name after this",
                ));
                None
            }
            [first, rest @ ..] => {
                let wrong = if matches!(first.kind, TokenKind::Ident(_)) {
                    rest.first().map_or(first.span, |t| t.span)
                } else {
                    first.span
                };
                self.report(Diagnostic::new(
                    wrong,
                    format!("`#{directive}` takes exactly one name"),
                    "expected one name and the end of the line",
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
        let TokenKind::Ident(name) = &first.kind else {
            let error = Diagnostic::new(first.span, "`#define` takes a name that is not a keyword", "expected a name");
            return self.report(error);
        };
        if first.joint && body.first().is_some_and(|token| token.kind == TokenKind::Punctuation("(")) {
            let instead = "define macros without parameters only, or write an action instead";
            return self.report(Diagnostic::unsupported(first.span, "macros with parameters", Some(instead)));
        }
        let kinds = |tokens: &[Token]| tokens.iter().map(|token| token.kind.clone()).collect::<Vec<_>>();
        if let Some(old) = self.macros.get(name).filter(|old| kinds(&old.body) != kinds(body)) {
            let error = Diagnostic::new(first.span, format!("`{name}` is defined twice"), "the definition differs");
            let error = error
                .with_related(old.span, "the first definition")
                .with_help("write `#undef` before the second definition");
            self.report(error);
        }
        self.macros.insert(name.clone(), Macro { body: body.into(), span: first.span, expanding: false });
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
            let error = Diagnostic::new(at, "`#include` without a file", "expected a file name");
            self.report(error.with_help("write `#include <core.p4>` or `#include \"my_headers.p4\"`"));
        }
    }

    /// Includes a file that is built into the compiler. A second inclusion of the same file has no effect.
    fn include_built_in(&mut self, name: &str, span: Span) {
        let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let error = Diagnostic::new(span, format!("unknown built-in file <{name}>"), "not known");
            let help = "the built-in files are <core.p4> and <nanotransport.p4>; include a file of your own with `#include \"...\"`";
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
            let error = Diagnostic::new(span, format!("\"{name}\" includes itself"), "the cycle closes here");
            self.incomplete = true;
            return self.report(error.with_related(*asked, "the first `#include` of the cycle"));
        }
        if self.open.last().is_some_and(|(open, _)| *open == path) {
            self.incomplete = true;
            return self.report(Diagnostic::new(
                span,
                format!("\"{name}\" includes itself"),
                "this is the including file",
            ));
        }
        if self.open.len() >= MAX_INCLUDE_DEPTH {
            let message = format!("included files are nested more than {MAX_INCLUDE_DEPTH} levels deep");
            return self.stop(Diagnostic::new(span, message, "included here"));
        }
        let Some(text) = (self.include)(&path) else {
            if BUILT_IN.iter().any(|(known, _)| *known == name) {
                return self.include_built_in(name, span);
            }
            let error =
                Diagnostic::new(span, format!("cannot find the included file \"{path}\""), "not found or not readable");
            self.incomplete = true;
            return self.report(error.with_help("the path is relative to the file that includes it"));
        };
        self.file(format!("{}{path}", self.directory), path, text, span);
    }
}

/// Returns the directory part of a path, with the `/` at its end.
fn directory(path: &str) -> &str {
    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
}

/// Normalises a path: removes each `.`, and resolves each `..` that follows the name of a directory.
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
