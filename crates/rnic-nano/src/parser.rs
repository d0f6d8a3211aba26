//! Tokens into a syntax tree.
//!
//! A recursive descent after the grammar of the P4_16 specification, version 1.2.4. What P4 has and the subset has not is recognised and
//! answered with "not supported". After an error the parser goes on behind the next `;` or `}`.

mod declarations;
mod expressions;
mod pipelines;
mod statements;
mod tables;
mod types;

use crate::ast::{Ident, Module};
use crate::diagnostic::Diagnostic;
use crate::lexer::{KEYWORDS, Kind, Token};
pub use crate::preprocess::Include;
use crate::preprocess::{nearest, preprocess};
use crate::source::{SourceFile, SourceMap, Span};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Blocks, expressions and types within one another.
const MOST_NESTED: usize = 200;
/// Operators of one expression.
const MOST_OPERATORS: usize = 500;
/// Errors that are reported.
const MOST_ERRORS: usize = 20;

/// Reads a program and what it includes. `include` gives the text of a file that stands beside the program: its path is relative to the
/// program, with `/`.
///
/// # Errors
/// What is wrong, at most 20 things, in the order in which they were found; with the files that the places are in.
pub fn parse_program(main: SourceFile, include: Include) -> Result<(Module, SourceMap), (Vec<Diagnostic>, SourceMap)> {
    let read = preprocess(main, include);
    let mut errors = read.errors;
    if read.incomplete {
        return Err((errors, read.sources));
    }
    let mut parser = Parser::new(read.tokens);
    let module = parser.module();
    errors.append(&mut parser.errors);
    errors.truncate(MOST_ERRORS);
    if errors.is_empty() { Ok((module, read.sources)) } else { Err((errors, read.sources)) }
}

/// An error has been reported.
#[derive(Debug)]
struct Failed;

type Parsed<T> = Result<T, Failed>;

struct Parser {
    /// The last one is `End`.
    tokens: Vec<Token>,
    at: usize,
    errors: Vec<Diagnostic>,
    /// The token at which the last error was reported: another one there is its consequence.
    failed_at: Option<usize>,
    /// Nothing more is reported.
    stopped: bool,
    /// Names of types so far: `(name) value` is a cast then.
    types: BTreeSet<Rc<str>>,
    nested: usize,
    /// Expressions around this place, and operators in the outermost of them.
    expressions: usize,
    operators: usize,
    /// Within a state of a parser.
    in_state: bool,
    /// Within an annotation.
    in_annotation: bool,
    /// The first block of this declaration whose ends stand at different indentations: where a `}` may be missing.
    crooked: Option<Span>,
    /// Here the parser is already behind what was wrong.
    recovered: Option<usize>,
}

impl Parser {
    fn new(tokens: Vec<Token>) -> Parser {
        Parser {
            tokens,
            at: 0,
            errors: Vec::new(),
            failed_at: None,
            stopped: false,
            types: BTreeSet::new(),
            nested: 0,
            expressions: 0,
            operators: 0,
            in_state: false,
            in_annotation: false,
            crooked: None,
            recovered: None,
        }
    }

    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    /// The token `count` further on.
    fn ahead(&self, count: usize) -> &Token {
        &self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn span(&self) -> Span {
        self.peek().span
    }

    /// Where the token before this one is.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Goes on; stays at the end.
    fn bump(&mut self) -> Span {
        let span = self.span();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        span
    }

    fn at_end(&self) -> bool {
        self.peek().kind == Kind::End
    }

    fn is(&self, sign: &str) -> bool {
        is_sign(self.peek(), sign)
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.peek().kind, Kind::Keyword(found) if found == keyword)
    }

    /// Whether a name stands here that is a word of the language at this place only.
    fn is_word(&self, word: &str) -> bool {
        matches!(&self.peek().kind, Kind::Ident(found) if **found == *word)
    }

    fn eat(&mut self, sign: &str) -> Option<Span> {
        self.is(sign).then(|| self.bump())
    }

    fn eat_keyword(&mut self, keyword: &str) -> Option<Span> {
        self.is_keyword(keyword).then(|| self.bump())
    }

    fn report(&mut self, error: Diagnostic) {
        let known = self.failed_at == Some(self.at) || self.peek().kind == Kind::Wrong;
        if self.stopped || known {
            return;
        }
        self.failed_at = Some(self.at);
        self.errors.push(error);
        if self.errors.len() >= MOST_ERRORS {
            self.stop();
        }
    }

    /// Reads nothing more.
    fn stop(&mut self) {
        self.stopped = true;
        self.at = self.tokens.len() - 1;
    }

    fn fail<T>(&mut self, error: Diagnostic) -> Parsed<T> {
        self.report(error);
        Err(Failed)
    }

    /// Something of P4 that begins here and that the subset has not.
    fn unsupported<T>(&mut self, what: &str, instead: Option<&str>) -> Parsed<T> {
        self.fail(Diagnostic::unsupported(self.span(), what, instead))
    }

    /// What stands here is not what must.
    fn unexpected<T>(&mut self, expected: &str) -> Parsed<T> {
        self.fail(self.unexpected_error(expected))
    }

    fn unexpected_error(&self, expected: &str) -> Diagnostic {
        let message = format!("expected {expected}, found {}", describe(self.peek()));
        Diagnostic::new(self.span(), message, format!("expected {expected}"))
    }

    /// A sign that must stand here; `after` says behind what.
    fn expect(&mut self, sign: &str, after: &str) -> Parsed<Span> {
        match self.eat(sign) {
            Some(span) => Ok(span),
            None => self.unexpected(&format!("`{sign}` {after}")),
        }
    }

    /// The end of what `open` began.
    fn close(&mut self, sign: &str, open: Span, what: &str) -> Parsed<Span> {
        if let Some(span) = self.eat(sign) {
            return Ok(span);
        }
        let error = self.unexpected_error(&format!("`{sign}` at the end of {what}"));
        self.fail(error.with_related(open, "it begins here"))
    }

    /// `;`. One that is missing at the end of a line or block is reported, and taken as written.
    fn semicolon(&mut self, after: &str) -> Parsed<()> {
        if self.eat(";").is_some() {
            return Ok(());
        }
        let (last, next) = (self.last_span(), self.peek());
        let goes_on = !next.first_on_line && !is_sign(next, "}") && next.kind != Kind::End;
        let place = Span { start: last.end, ..last };
        let message = format!("expected `;` after {after}, found {}", describe(next));
        let error = if goes_on {
            Diagnostic::new(self.span(), message, "expected `;`")
        } else {
            Diagnostic::new(place, message, "`;` is missing here")
        };
        self.report(error);
        if goes_on { Err(Failed) } else { Ok(()) }
    }

    /// A name; `what` says of what.
    fn ident(&mut self, what: &str) -> Parsed<Ident> {
        let span = self.span();
        match &self.peek().kind {
            Kind::Ident(name) => {
                let name = name.clone();
                self.bump();
                Ok(Ident { name, span })
            }
            Kind::Keyword(keyword) if *keyword != "_" => {
                let error = self.unexpected_error(&format!("the name of {what}"));
                let help = format!("`{keyword}` is a word of P4: choose another name");
                self.fail(error.with_help(help))
            }
            _ => self.unexpected(&format!("the name of {what}")),
        }
    }

    /// Parses something that may contain itself.
    fn within<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.nested >= MOST_NESTED {
            let message = format!("more than {MOST_NESTED} blocks, expressions and types within one another");
            self.report(Diagnostic::new(self.span(), message, "this is too deep"));
            self.stop();
            return Err(Failed);
        }
        self.nested += 1;
        let parsed = parse(self);
        self.nested -= 1;
        parsed
    }

    /// A list in brackets that stand open at `open`; a comma separates, and may stand at the end of a list in braces.
    fn list<T>(
        &mut self, end: &str, open: Span, what: &str, parse: impl Fn(&mut Parser) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut parts = Vec::new();
        if self.eat(end).is_some() {
            return Ok(parts);
        }
        loop {
            parts.push(parse(self)?);
            if self.eat(end).is_some() {
                return Ok(parts);
            }
            if self.eat(",").is_none() {
                let error = self.unexpected_error(&format!("`,` or `{end}` in {what}"));
                return self.fail(error.with_related(open, "it begins here"));
            }
            if end == "}" && self.eat(end).is_some() {
                return Ok(parts);
            }
        }
    }

    /// `{`, parts until `}`. What is wrong with one part leaves the others; `recover` goes on behind it.
    fn braces(&mut self, what: &str, mut part: impl FnMut(&mut Parser) -> Parsed<()>) -> Parsed<Span> {
        let indent = self.peek().indent;
        let open = self.expect("{", &format!("at the beginning of {what}"))?;
        while !self.is("}") && !self.at_end() {
            if self.begins_item() {
                break;
            }
            let before = self.at;
            if part(self).is_err() {
                self.recover();
                if self.at == before && !self.is("}") && !self.begins_item() {
                    self.bump();
                }
            }
        }
        let (first_on_line, close_indent) = (self.peek().first_on_line, self.peek().indent);
        if let Some(close) = self.eat("}") {
            if first_on_line && close_indent != indent {
                self.crooked.get_or_insert(open);
            }
            return Ok(open.to(close));
        }
        let message = format!("expected `}}` at the end of {what}, found {}", describe(self.peek()));
        let error = Diagnostic::new(self.span(), message, "expected `}` before this");
        let error = error.with_related(open, "this is still open");
        let crooked = self.crooked.filter(|crooked| *crooked != open);
        self.report(match crooked {
            Some(crooked) => error.with_related(crooked, "the `}` that ends this stands at another indentation"),
            None => error,
        });
        // As if it were there: what follows may be right.
        Ok(open.to(self.last_span()))
    }

    /// Whether something begins here that stands at the top level only: a `}` before it is missing.
    fn begins_item(&self) -> bool {
        let next = self.ahead(1);
        let named = matches!(next.kind, Kind::Ident(_));
        match self.peek().kind {
            Kind::Keyword("control" | "parser" | "struct" | "header" | "header_union" | "package") => named,
            Kind::Keyword("typedef" | "extern") => true,
            Kind::Keyword("match_kind") => is_sign(next, "{"),
            Kind::Sign("#") | Kind::End => false,
            _ => false,
        }
    }

    /// Goes behind the next `;` or block, or before the `}` that ends the block around this place.
    fn recover(&mut self) {
        if self.recovered == Some(self.at) {
            return;
        }
        let mut parentheses = 0usize;
        while !self.at_end() && !self.begins_item() {
            if self.is(";") && (parentheses == 0 || self.ahead(1).first_on_line) {
                self.bump();
                return;
            }
            if self.is("}") {
                return;
            }
            if self.is("{") {
                self.skip_block();
                let goes_on = self.is_keyword("else") || self.is(")") || self.is(",") || self.is(";");
                if !goes_on {
                    return;
                }
                continue;
            }
            parentheses = if self.is("(") { parentheses + 1 } else { parentheses.saturating_sub(self.is(")").into()) };
            self.bump();
        }
    }

    /// Goes behind the `}` of a list in which something was wrong, if it is in this statement.
    fn skip_list(&mut self) {
        while !self.at_end() && !self.is(";") && !self.is("{") && !self.begins_item() {
            if self.eat("}").is_some() {
                return;
            }
            self.bump();
        }
    }

    /// Goes behind a block that begins here, or before what cannot be part of it.
    fn skip_block(&mut self) {
        let mut open = 0usize;
        while !self.at_end() && !self.begins_item() {
            let (opens, closes) = (self.is("{"), self.is("}"));
            self.bump();
            open = open + usize::from(opens) - usize::from(closes);
            if open == 0 {
                return;
            }
        }
    }
}

fn is_sign(token: &Token, sign: &str) -> bool {
    matches!(token.kind, Kind::Sign(found) if found == sign)
}

/// A token as a sentence names it.
fn describe(token: &Token) -> String {
    match &token.kind {
        Kind::Ident(name) => format!("`{name}`"),
        Kind::Keyword("_") => "`_`".into(),
        Kind::Keyword(keyword) => format!("the keyword `{keyword}`"),
        Kind::Number(value, None) => format!("the number {value}"),
        Kind::Number(value, Some((width, signed))) => {
            format!("the number {width}{}{value}", if *signed { 's' } else { 'w' })
        }
        Kind::String(_) => "a string".into(),
        Kind::Sign(sign) => format!("`{sign}`"),
        Kind::Wrong => "what is not P4".into(),
        Kind::End => "the end of the program".into(),
    }
}

/// `did you mean` a keyword?
fn near_keyword(word: &str, also: &[&'static str]) -> Option<String> {
    let known = KEYWORDS.iter().copied().chain(also.iter().copied()).filter(|known| known.len() > 1);
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}
