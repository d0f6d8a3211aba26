//! The lexer of the P4 compiler: splits source text into tokens.

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::rc::Rc;

/// A token of P4.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// The source range of the token. A token from the body of a macro has the range of the macro's name where the
    /// program uses it.
    pub(crate) span: Span,
    /// Whether the next token follows this token without white space.
    pub(crate) joint: bool,
    /// Whether this token is the first one of its line.
    pub(crate) first_on_line: bool,
    /// The number of bytes before the first token of the line that this token is in: the line's indentation.
    pub(crate) indent: u32,
}

/// The kind of a token.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TokenKind {
    Ident(Rc<str>),
    Keyword(&'static str),
    /// An integer literal: its value and, if the literal has a width prefix such as `8w`, its width in bits and whether
    /// it is signed.
    Number(u128, Option<(u32, bool)>),
    String(Rc<str>),
    /// An operator or punctuation. The lexer splits `>>` into two tokens, because it may close two lists of type
    /// arguments.
    Punctuation(&'static str),
    /// An invalid token, for which the lexer has already reported an error.
    Invalid,
    End,
}

/// The reserved words. `apply`, `key`, `actions`, `entries`, `state`, `type` and `priority` are keywords in some places
/// only and identifiers elsewhere, so they are not in this list.
pub(crate) const KEYWORDS: &[&str] = &[
    "_",
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "list",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
];

/// Operators and punctuation. A longer operator stands before every operator that is a prefix of it, because the lexer
/// takes the first match.
const PUNCTUATION: &[&str] = &[
    "|+|=", "|-|=", "&&&", "...", "|+|", "|-|", "<<=", ">>=", "&&", "||", "==", "!=", "<=", ">=", "<<", "++", "..",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=",
    "?", ":", ";", ",", ".", "(", ")", "[", "]", "{", "}", "@", "#",
];

/// The maximum width of an integer literal in bits.
const MAX_BITS: u32 = 128;

/// The lexer of one source file.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    file: u16,
    text: &'a str,
    at: usize,
    line_start: bool,
    indent: u32,
    /// Whether a block comment without an end caused the lexer to skip the rest of the file.
    pub(crate) unterminated: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(file: u16, text: &'a str) -> Lexer<'a> {
        Lexer {
            file,
            text,
            at: if text.starts_with('\u{feff}') { 3 } else { 0 },
            line_start: true,
            indent: 0,
            unterminated: false,
        }
    }

    /// Returns the next token. At the end of the file, every call returns `End`.
    pub(crate) fn next(&mut self, errors: &mut Vec<Diagnostic>) -> Token {
        self.skip_blanks(errors);
        let start = self.at;
        let first_on_line = std::mem::take(&mut self.line_start);
        if first_on_line {
            self.indent = (start - self.text[..start].rfind('\n').map_or(0, |newline| newline + 1)) as u32;
        }
        let kind = self.kind(errors);
        let next = self.rest().chars().next();
        let joint = next.is_some_and(|c| !c.is_ascii_whitespace());
        Token { kind, span: self.span(start), joint, first_on_line, indent: self.indent }
    }

    /// Returns the rest of the current line without surrounding white space.
    pub(crate) fn rest_of_line(&mut self) -> (&'a str, Span) {
        let line = self.rest().lines().next().unwrap_or_default();
        let line_at = self.at;
        self.at += line.len();
        let start = line_at + line.len() - line.trim_start().len();
        let file = self.file;
        let end = line_at + line.trim_end().len();
        (line.trim(), Span { file, start: start as u32, end: end.max(start) as u32 })
    }

    /// Returns the remaining tokens of the current line.
    pub(crate) fn line_tokens(&mut self, errors: &mut Vec<Diagnostic>) -> Vec<Token> {
        let mut tokens = Vec::new();
        loop {
            let before = self.clone();
            let errors_before = errors.len();
            let token = self.next(errors);
            if token.first_on_line || token.kind == TokenKind::End {
                *self = before;
                errors.truncate(errors_before);
                return tokens;
            }
            tokens.push(token);
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Skips white space, comments, and line continuations (`\` before a newline).
    fn skip_blanks(&mut self, errors: &mut Vec<Diagnostic>) {
        loop {
            let blanks = self.take_while(|c| c.is_ascii_whitespace());
            self.line_start |= blanks.contains('\n');
            let rest = self.rest();
            if rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if rest.starts_with("/*") {
                self.skip_comment(errors);
            } else if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
                self.at += if rest.starts_with("\\\n") { 2 } else { 3 };
            } else {
                return;
            }
        }
    }

    fn skip_comment(&mut self, errors: &mut Vec<Diagnostic>) {
        let start = self.at;
        let rest = self.rest();
        let len = rest[2..].find("*/").map(|end| end + 4);
        self.at += len.unwrap_or(rest.len());
        self.line_start |= rest[..len.unwrap_or(rest.len())].contains('\n');
        if len.is_none() {
            self.unterminated = true;
            let opening = Span { end: start as u32 + 2, ..self.span(start) };
            errors.push(
                Diagnostic::new(opening, "this comment has no end", "the comment begins here")
                    .with_help("end it with `*/`"),
            );
        }
    }

    fn kind(&mut self, errors: &mut Vec<Diagnostic>) -> TokenKind {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return TokenKind::End };
        if first.is_ascii_digit() {
            return self.number(errors);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            return KEYWORDS
                .iter()
                .find(|keyword| **keyword == word)
                .map_or_else(|| TokenKind::Ident(word.into()), |k| TokenKind::Keyword(k));
        }
        if first == '"' {
            return self.string(errors);
        }
        if let Some(sign) = PUNCTUATION.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return TokenKind::Punctuation(sign);
        }
        self.invalid_character(errors)
    }

    /// Reports a character that cannot begin a token. Several non-ASCII characters in a row are reported as one error.
    fn invalid_character(&mut self, errors: &mut Vec<Diagnostic>) -> TokenKind {
        let start = self.at;
        let first = self.rest().chars().next().unwrap_or_default();
        self.at += first.len_utf8();
        if !first.is_ascii() {
            self.take_while(|c| !c.is_ascii());
        }
        let shown = if first.is_control() { first.escape_unicode().to_string() } else { first.to_string() };
        let error = Diagnostic::new(self.span(start), format!("invalid character `{shown}`"), "not P4");
        errors.push(match first {
            '“' | '”' | '‘' | '’' => error.with_help("P4 uses the straight quote `\"`"),
            '\u{a0}' => error.with_help("this is a non-breaking space: replace it by a normal space"),
            first if first.is_ascii() => error,
            _ => error.with_help("only ASCII characters are allowed outside of comments and strings"),
        });
        TokenKind::Invalid
    }

    fn string(&mut self, errors: &mut Vec<Diagnostic>) -> TokenKind {
        let start = self.at;
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + at + 1;
                    return TokenKind::String(text.into());
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, escaped)) if escaped != '\n' => text.push(escaped),
                    _ => break,
                },
                '\n' => break,
                other => text.push(other),
            }
        }
        self.take_while(|c| c != '\n');
        errors.push(Diagnostic::new(self.span(start), "this string has no end", "expected `\"` on this line"));
        TokenKind::Invalid
    }

    fn number(&mut self, errors: &mut Vec<Diagnostic>) -> TokenKind {
        let start = self.at;
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut wrong = |lexer: &Lexer, message: String, label: &str, help: &str| {
            errors.push(Diagnostic::new(lexer.span(start), message, label).with_help(help));
            TokenKind::Number(0, None)
        };
        if self.rest().starts_with('.') && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.at += 1;
            self.take_while(|c| c.is_ascii_alphanumeric());
            return wrong(
                self,
                "not supported: numbers with a decimal fraction".into(),
                "P4 has only integers",
                "multiply the constant by a power of two, and shift the result to the right",
            );
        }
        match parse_number(text) {
            Ok((value, width)) => TokenKind::Number(value, width),
            Err((message, label, help)) => wrong(self, message, label, help),
        }
    }
}

type NumberError = (String, &'static str, &'static str);

/// Parses an integer literal: `255`, `0xff`, `8w255`, `4s0b0111`, ...
fn parse_number(text: &str) -> Result<(u128, Option<(u32, bool)>), NumberError> {
    let prefix =
        text.find(|c: char| !c.is_ascii_digit() && c != '_').filter(|at| matches!(text.as_bytes()[*at], b'w' | b's'));
    let Some(at) = prefix else { return Ok((digits(text, text)?, None)) };
    let width = text[..at].parse().ok().filter(|width| (1..=MAX_BITS).contains(width));
    let width: u32 = width.ok_or_else(|| {
        (
            format!("the number `{text}` has a width of {} bits", &text[..at]),
            "width out of range",
            "a width is 1 to 128 bits",
        )
    })?;
    let signed = text.as_bytes()[at] == b's';
    let value = digits(&text[at + 1..], text)?;
    let bits = if signed { width - 1 } else { width };
    if bits < MAX_BITS && value >> bits != 0 {
        let max = (1u128 << bits) - 1;
        let message = format!(
            "`{text}` does not fit: the maximum of {} is {max}",
            if signed { format!("{width} signed bits") } else { format!("{width} bits") }
        );
        let help = if signed {
            "use a larger width, or write a negative number as `(int<W>) -value`"
        } else {
            "use a larger width or a smaller value; the value is not truncated"
        };
        return Err((message, "the value is too large for its width", help));
    }
    Ok((value, Some((width, signed))))
}

/// Parses the digits of an integer literal, with an optional base prefix such as `0x`. `text` is the whole literal, for
/// error messages.
fn digits(digits: &str, text: &str) -> Result<u128, NumberError> {
    let prefix = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (radix, digits) = match prefix.as_str() {
        "0x" => (16, &digits[2..]),
        "0o" => (8, &digits[2..]),
        "0b" => (2, &digits[2..]),
        "0d" => (10, &digits[2..]),
        _ => (10, digits),
    };
    let mut value = 0u128;
    for c in digits.chars().filter(|c| *c != '_') {
        let digit = c.to_digit(radix).ok_or_else(|| {
            let help = "a number is `10`, `0xff`, `0o17`, `0b1010` or, with its width, `8w10`, `4s7`";
            (format!("`{c}` in `{text}` is not a digit of base {radix}"), "invalid number", help)
        })?;
        let next = value.checked_mul(radix.into()).and_then(|value| value.checked_add(digit.into()));
        let too_large =
            || (format!("the number `{text}` needs more than 128 bits"), "too large", "a number has at most 128 bits");
        value = next.ok_or_else(too_large)?;
    }
    if digits.chars().all(|c| c == '_') {
        let help = "write the digits after the prefix, as in `8w0xff`";
        return Err((format!("the number `{text}` has no digits"), "digits missing", help));
    }
    Ok(value)
}
