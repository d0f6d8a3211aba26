//! The parser of the P4 compiler: builds an abstract syntax tree (AST) from tokens.
//!
//! This is a recursive-descent parser for the grammar of the P4_16 specification, version 1.2.4. It recognises the
//! constructs of P4 that this compiler does not support, and reports them as "not supported". After an error it resumes
//! after the next `;` or `}`.

mod declarations;
mod expressions;
mod p4_14;
mod pipelines;
mod statements;
mod tables;
mod types;

use crate::ast::{Ident, Module};
use crate::diagnostic::{Diagnostic, nearest};
use crate::lexer::{KEYWORDS, Token, TokenKind};
pub use crate::preprocess::Include;
use crate::preprocess::preprocess;
use crate::source::{SourceFile, SourceMap, Span};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Maximum nesting depth of blocks, expressions and types.
const MAX_NESTING: usize = 200;
/// Maximum number of operators in one expression.
const MAX_OPERATORS: usize = 500;
/// Maximum number of errors reported for a program.
const MAX_ERRORS: usize = 20;

/// Parses a program together with the files that it includes.
///
/// `include` is a function that returns the text of a file that the program includes with `#include "..."`. Its
/// argument is the file's path, relative to the program's main file.
///
/// # Errors
/// The syntax errors of the program, at most 20, in the order in which the parser found them, and the source files in
/// which they lie.
///
/// # Examples
/// ```
/// use rnic_nano::parser::parse_program;
/// use rnic_nano::source::SourceFile;
///
/// let text = "#include \"size.p4\"\nconst bit<8> TWICE = 2 * SIZE;\n".to_string();
/// let main = SourceFile { name: "main.p4".into(), text };
/// let include = |path: &str| (path == "size.p4").then(|| "const bit<8> SIZE = 8;\n".to_string());
/// let (module, sources) = parse_program(main, &include).expect("the program has no syntax error");
/// assert_eq!((module.items.len(), sources.files.len()), (2, 2));
/// ```
pub fn parse_program(main: SourceFile, include: Include) -> Result<(Module, SourceMap), (Vec<Diagnostic>, SourceMap)> {
    let read = preprocess(main, include);
    let mut errors = read.errors;
    if read.incomplete {
        return Err((errors, read.sources));
    }
    let mut parser = Parser::new(read.tokens);
    let module = parser.module();
    errors.append(&mut parser.errors);
    if errors.is_empty() {
        return Ok((module, read.sources));
    }
    // Every declaration of P4_14 is an error; the version of the language is what all of them say.
    match p4_14::error(&parser.tokens) {
        Some(error) => errors = vec![error],
        None => errors.truncate(MAX_ERRORS),
    }
    Err((errors, read.sources))
}

/// The result of a parse function that failed. The function has already reported the error.
#[derive(Debug)]
struct Failed;

type Parsed<T> = Result<T, Failed>;

struct Parser {
    /// The tokens of the program; the last one is `End`.
    tokens: Vec<Token>,
    at: usize,
    errors: Vec<Diagnostic>,
    /// The token at which the last error was reported. A second error at the same token would only be a consequence of
    /// the first, so it is not reported.
    failed_at: Option<usize>,
    /// Whether parsing has stopped, so that no more errors are reported.
    stopped: bool,
    /// The type names declared so far. They distinguish a cast `(name) value`, in which the name is a type, from an
    /// expression in parentheses.
    types: BTreeSet<Rc<str>>,
    nesting: usize,
    /// Number of expressions that enclose the current token. The field `operators` is the number of operators in the
    /// outermost of these expressions.
    expressions: usize,
    operators: usize,
    /// Whether the current token is in a state of a P4 parser.
    in_state: bool,
    /// Whether the current token is in an annotation.
    in_annotation: bool,
    /// The first block of the current declaration whose `}` is indented differently from the line with its `{`. If a
    /// `}` is missing in the declaration, it is probably missing in this block.
    misindented: Option<Span>,
    /// The index of the token at which error recovery (skipping tokens after a syntax error) last ended. If the parser
    /// fails again at this token, recovery skips no further tokens.
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
            nesting: 0,
            expressions: 0,
            operators: 0,
            in_state: false,
            in_annotation: false,
            misindented: None,
            recovered: None,
        }
    }

    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    /// Returns the token `count` positions after the current one.
    fn ahead(&self, count: usize) -> &Token {
        &self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn span(&self) -> Span {
        self.peek().span
    }

    /// Returns the span of the token before the current one.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Advances to the next token, except at the end of the program. Returns the span of the token that was current
    /// before.
    fn bump(&mut self) -> Span {
        let span = self.span();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        span
    }

    fn at_end(&self) -> bool {
        self.peek().kind == TokenKind::End
    }

    fn is(&self, sign: &str) -> bool {
        is_punctuation(self.peek(), sign)
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Keyword(found) if found == keyword)
    }

    /// Whether the current token is an identifier that is a keyword only in this context, such as `apply`.
    fn is_word(&self, word: &str) -> bool {
        matches!(&self.peek().kind, TokenKind::Ident(found) if **found == *word)
    }

    fn eat(&mut self, sign: &str) -> Option<Span> {
        self.is(sign).then(|| self.bump())
    }

    fn eat_keyword(&mut self, keyword: &str) -> Option<Span> {
        self.is_keyword(keyword).then(|| self.bump())
    }

    fn report(&mut self, error: Diagnostic) {
        let known = self.failed_at == Some(self.at) || self.peek().kind == TokenKind::Invalid;
        if self.stopped || known {
            return;
        }
        self.failed_at = Some(self.at);
        self.errors.push(error);
        if self.errors.len() >= MAX_ERRORS {
            self.stop();
        }
    }

    /// Stops parsing: the parser reads no more tokens and reports no more errors.
    fn stop(&mut self) {
        self.stopped = true;
        self.at = self.tokens.len() - 1;
    }

    fn fail<T>(&mut self, error: Diagnostic) -> Parsed<T> {
        self.report(error);
        Err(Failed)
    }

    /// Fails because the construct at the current token is valid P4 that the compiler does not support.
    fn unsupported<T>(&mut self, what: &str, instead: Option<&str>) -> Parsed<T> {
        self.fail(Diagnostic::unsupported(self.span(), what, instead))
    }

    /// Fails because the current token is not the expected one.
    fn unexpected<T>(&mut self, expected: &str) -> Parsed<T> {
        self.fail(self.unexpected_error(expected))
    }

    fn unexpected_error(&self, expected: &str) -> Diagnostic {
        let message = format!("expected {expected}, found {}", describe(self.peek()));
        Diagnostic::new(self.span(), message, format!("expected {expected}"))
    }

    /// Consumes an operator or punctuation that must be the current token. `after` describes, for the error message,
    /// what precedes the current token.
    fn expect(&mut self, sign: &str, after: &str) -> Parsed<Span> {
        match self.eat(sign) {
            Some(span) => Ok(span),
            None => self.unexpected(&format!("`{sign}` {after}")),
        }
    }

    /// Consumes the closing bracket of the construct whose opening bracket is at `open`.
    fn close(&mut self, sign: &str, open: Span, what: &str) -> Parsed<Span> {
        if let Some(span) = self.eat(sign) {
            return Ok(span);
        }
        let error = self.unexpected_error(&format!("`{sign}` at the end of {what}"));
        self.fail(error.with_related(open, "the opening is here"))
    }

    /// Consumes a `;`. A `;` missing at the end of a line or block is reported, and parsing continues as if it were
    /// present.
    fn semicolon(&mut self, after: &str) -> Parsed<()> {
        if self.eat(";").is_some() {
            return Ok(());
        }
        let last = self.last_span();
        let next = self.peek();
        let goes_on = !next.first_on_line && !is_punctuation(next, "}") && next.kind != TokenKind::End;
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

    /// Parses an identifier. `what` describes, for the error message, the kind of name that is expected.
    fn ident(&mut self, what: &str) -> Parsed<Ident> {
        let span = self.span();
        match &self.peek().kind {
            TokenKind::Ident(name) => {
                let name = name.clone();
                self.bump();
                Ok(Ident { name, span })
            }
            TokenKind::Keyword(keyword) if *keyword != "_" => {
                let error = self.unexpected_error(&format!("the name of {what}"));
                let help = format!("`{keyword}` is a keyword of P4: choose another name");
                self.fail(error.with_help(help))
            }
            _ => self.unexpected(&format!("the name of {what}")),
        }
    }

    /// Runs a parse function for a nested construct, one nesting level deeper. Fails if the nesting exceeds
    /// [`MAX_NESTING`].
    fn nested_parse<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            let message = format!("blocks, expressions and types are nested more than {MAX_NESTING} levels deep");
            self.report(Diagnostic::new(self.span(), message, "nested too deeply"));
            self.stop();
            return Err(Failed);
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    /// Parses a comma-separated list up to the closing bracket `end`. `open` is the span of the opening bracket. Only a
    /// list in braces may have a trailing comma.
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
                return self.fail(error.with_related(open, "the opening is here"));
            }
            if end == "}" && self.eat(end).is_some() {
                return Ok(parts);
            }
        }
    }

    /// Parses a list of items in braces: `{`, then items until `}`. After an error in one item, `recover` skips to the
    /// next item, so that the parser still checks the other items.
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
        let first_on_line = self.peek().first_on_line;
        let close_indent = self.peek().indent;
        if let Some(close) = self.eat("}") {
            if first_on_line && close_indent != indent {
                self.misindented.get_or_insert(open);
            }
            return Ok(open.to(close));
        }
        let message = format!("expected `}}` at the end of {what}, found {}", describe(self.peek()));
        let error = Diagnostic::new(self.span(), message, "expected `}` before this");
        let error = error.with_related(open, "this `{` is not closed");
        let misindented = self.misindented.filter(|misindented| *misindented != open);
        self.report(match misindented {
            Some(misindented) => {
                error.with_related(misindented, "the `}` that closes this `{` has another indentation")
            }
            None => error,
        });
        // Parsing continues as if the `}` were present, because the code after it may be correct.
        Ok(open.to(self.last_span()))
    }

    /// Whether a declaration that is allowed only at the top level begins at the current token. Within a block, this
    /// means that a `}` is missing before the token.
    fn begins_item(&self) -> bool {
        let next = self.ahead(1);
        let named = matches!(next.kind, TokenKind::Ident(_));
        match self.peek().kind {
            TokenKind::Keyword("control" | "parser" | "struct" | "header" | "header_union" | "package") => named,
            TokenKind::Keyword("typedef" | "extern") => true,
            TokenKind::Keyword("match_kind") => is_punctuation(next, "{"),
            TokenKind::Punctuation("#") | TokenKind::End => false,
            _ => false,
        }
    }

    /// Error recovery: skips tokens up to and including the next `;` or block, but not the `}` that ends the enclosing
    /// block.
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

    /// Error recovery in a list in braces: skips tokens up to and including the list's `}`, if the `}` is within the
    /// current statement.
    fn skip_list(&mut self) {
        while !self.at_end() && !self.is(";") && !self.is("{") && !self.begins_item() {
            if self.eat("}").is_some() {
                return;
            }
            self.bump();
        }
    }

    /// Error recovery: skips the block that begins at the current token. Stops before a token that cannot be part of a
    /// block.
    fn skip_block(&mut self) {
        let mut open = 0usize;
        while !self.at_end() && !self.begins_item() {
            let opens = self.is("{");
            let closes = self.is("}");
            self.bump();
            open = open + usize::from(opens) - usize::from(closes);
            if open == 0 {
                return;
            }
        }
    }
}

fn is_punctuation(token: &Token, sign: &str) -> bool {
    matches!(token.kind, TokenKind::Punctuation(found) if found == sign)
}

/// Describes a token for an error message.
fn describe(token: &Token) -> String {
    match &token.kind {
        TokenKind::Ident(name) => format!("`{name}`"),
        TokenKind::Keyword("_") => "`_`".into(),
        TokenKind::Keyword(keyword) => format!("the keyword `{keyword}`"),
        TokenKind::Number(value, None) => format!("the number {value}"),
        TokenKind::Number(value, Some((width, signed))) => {
            format!("the number {width}{}{value}", if *signed { 's' } else { 'w' })
        }
        TokenKind::String(_) => "a string".into(),
        TokenKind::Punctuation(sign) => format!("`{sign}`"),
        TokenKind::Invalid => "an invalid token".into(),
        TokenKind::End => "the end of the program".into(),
    }
}

/// Returns the advice `did you mean ...?` if a keyword, or one of the words in `also`, is similar to `word`.
fn near_keyword(word: &str, also: &[&'static str]) -> Option<String> {
    let known = KEYWORDS.iter().copied().chain(also.iter().copied()).filter(|known| known.len() > 1);
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}
