//! The part of the P4 parser for expressions, arguments of calls, and keysets (the values that a `select` case or a
//! table entry matches).

use super::{Failed, MAX_OPERATORS, Parsed, Parser, is_punctuation};
use crate::ast::{Argument, BinaryOp, Expr, ExprKind, Ident, KeySet, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Token, TokenKind};
use crate::source::Span;

/// Operator precedences. An operator with a higher number binds tighter. As the P4_16 specification requires, `&`, `^`
/// and `|` bind tighter than comparisons, unlike in C.
const CONDITIONAL: u8 = 0;
const SHIFT: u8 = 8;
const SUM: u8 = 9;

impl Parser {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.outermost(|parser| parser.binding(CONDITIONAL))
    }

    /// Parses the width W of `bit<W>`: an expression without `>`, which closes the type.
    pub(super) fn width(&mut self) -> Parsed<Expr> {
        self.outermost(|parser| parser.binding(SUM))
    }

    fn outermost<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.expressions == 0 {
            self.operators = 0;
        }
        self.expressions += 1;
        let parsed = self.nested_parse(parse);
        self.expressions -= 1;
        parsed
    }

    /// Counts one more operator in the current expression, and fails if there are too many. The depth of an
    /// expression's syntax tree is at most its number of operators, so this limit also bounds the depth.
    fn count_operator(&mut self) -> Parsed<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            let message = format!("an expression with more than {MAX_OPERATORS} operators");
            let error = Diagnostic::new(self.span(), message, "this operator exceeds the limit");
            self.report(error.with_help("assign parts of the expression to variables"));
            self.stop();
            return Err(Failed);
        }
        Ok(())
    }

    /// Parses an expression whose operators have a precedence of at least `min_precedence` (precedence climbing).
    fn binding(&mut self, min_precedence: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((op, precedence, tokens)) =
            self.binary_operator().filter(|(_, precedence, _)| *precedence >= min_precedence.max(1))
        {
            self.count_operator()?;
            self.at += tokens;
            let right = self.nested_parse(|parser| parser.binding(precedence + 1))?;
            let span = left.span.to(right.span);
            left = Expr { span, kind: ExprKind::Binary(op, Box::new(left), Box::new(right)) };
        }
        if min_precedence == CONDITIONAL && self.is("?") {
            return self.conditional(left);
        }
        Ok(left)
    }

    fn conditional(&mut self, condition: Expr) -> Parsed<Expr> {
        self.count_operator()?;
        self.bump();
        let yes = self.expr()?;
        self.expect(":", "between the two values of `?`")?;
        let no = self.expr()?;
        let span = condition.span.to(no.span);
        Ok(Expr { span, kind: ExprKind::Conditional(Box::new(condition), Box::new(yes), Box::new(no)) })
    }

    /// Returns the binary operator at the current token, its precedence, and the number of its tokens.
    fn binary_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let TokenKind::Punctuation(sign) = self.peek().kind else { return None };
        let next = self.ahead(1);
        Some(match sign {
            "||" => (BinaryOp::LogicalOr, 1, 1),
            "&&" => (BinaryOp::LogicalAnd, 2, 1),
            "==" => (BinaryOp::Eq, 3, 1),
            "!=" => (BinaryOp::Ne, 3, 1),
            // Two `>` tokens without white space between them are the shift operator `>>`.
            ">" if self.peek().joint && is_punctuation(next, ">") => (BinaryOp::Shr, SHIFT, 2),
            "<" => (BinaryOp::Lt, 4, 1),
            "<=" => (BinaryOp::Le, 4, 1),
            ">" => (BinaryOp::Gt, 4, 1),
            ">=" => (BinaryOp::Ge, 4, 1),
            "|" => (BinaryOp::Or, 5, 1),
            "^" => (BinaryOp::Xor, 6, 1),
            "&" => (BinaryOp::And, 7, 1),
            "<<" => (BinaryOp::Shl, SHIFT, 1),
            "+" => (BinaryOp::Add, SUM, 1),
            "-" => (BinaryOp::Sub, SUM, 1),
            "++" if is_punctuation(next, ";") => return None,
            "++" => (BinaryOp::Concat, SUM, 1),
            "|+|" => (BinaryOp::SatAdd, SUM, 1),
            "|-|" => (BinaryOp::SatSub, SUM, 1),
            "*" => (BinaryOp::Mul, 10, 1),
            "/" => (BinaryOp::Div, 10, 1),
            "%" => (BinaryOp::Mod, 10, 1),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let op = match self.peek().kind {
            TokenKind::Punctuation("-") => UnaryOp::Negate,
            TokenKind::Punctuation("~") => UnaryOp::BitNot,
            TokenKind::Punctuation("!") => UnaryOp::Not,
            TokenKind::Punctuation("+") => UnaryOp::Plus,
            TokenKind::Punctuation("(") if self.begins_cast() => return self.cast(),
            _ => return self.postfix(),
        };
        self.count_operator()?;
        let start = self.bump();
        let value = self.nested_parse(Parser::unary)?;
        Ok(Expr { span: start.to(value.span), kind: ExprKind::Unary(op, Box::new(value)) })
    }

    /// Whether a cast `(T) value` begins at the current token. This is so if T is a keyword of a type or a declared
    /// type name, or if the token after the `)` can only begin the value of a cast.
    fn begins_cast(&self) -> bool {
        let first = self.ahead(1);
        if Parser::is_type_keyword(first) {
            return !is_punctuation(self.ahead(2), ".");
        }
        let TokenKind::Ident(name) = &first.kind else { return false };
        if is_punctuation(self.ahead(2), "<") {
            return self.type_arguments_len(2).is_some_and(|len| is_punctuation(self.ahead(len + 2), ")"));
        }
        is_punctuation(self.ahead(2), ")") && (self.types.contains(name) || begins_plain_value(self.ahead(3)))
    }

    fn cast(&mut self) -> Parsed<Expr> {
        self.count_operator()?;
        let open = self.bump();
        let ty = self.ty()?;
        self.close(")", open, "the type of a cast")?;
        let value = self.nested_parse(Parser::unary)?;
        Ok(Expr { span: open.to(value.span), kind: ExprKind::Cast(ty, Box::new(value)) })
    }

    /// Parses a primary expression, and all member accesses, slices and calls that follow it.
    fn postfix(&mut self) -> Parsed<Expr> {
        let mut value = self.primary()?;
        loop {
            value = match self.peek().kind {
                TokenKind::Punctuation(".") => self.member(value)?,
                TokenKind::Punctuation("[") => self.slice(value)?,
                TokenKind::Punctuation("(") => self.call(value, Vec::new())?,
                TokenKind::Punctuation("<") if self.begins_typed_call() => {
                    let types = self.type_arguments()?;
                    self.call(value, types)?
                }
                _ => return Ok(value),
            };
        }
    }

    /// Whether a call with type arguments, `f<T>(`, begins at the current token. The name after `<` must be a declared
    /// type; otherwise the `<` is a comparison.
    fn begins_typed_call(&self) -> bool {
        let first = self.ahead(1);
        let known = matches!(&first.kind, TokenKind::Ident(name) if self.types.contains(name));
        (known || Parser::is_type_keyword(first) || matches!(first.kind, TokenKind::Keyword("_")))
            && self.type_arguments_len(0).is_some_and(|len| is_punctuation(self.ahead(len), "("))
    }

    fn member(&mut self, value: Expr) -> Parsed<Expr> {
        self.count_operator()?;
        self.bump();
        let name = self.ident("a member")?;
        Ok(Expr { span: value.span.to(name.span), kind: ExprKind::Member(Box::new(value), name) })
    }

    fn slice(&mut self, value: Expr) -> Parsed<Expr> {
        self.count_operator()?;
        let open = self.bump();
        let high = self.expr()?;
        if self.eat("]").is_some() {
            let span = value.span.to(self.last_span());
            return Ok(Expr { span, kind: ExprKind::Index(Box::new(value), Box::new(high)) });
        }
        self.expect(":", "between the highest and the lowest bit")?;
        let low = self.expr()?;
        let end = self.close("]", open, "a slice")?;
        let span = value.span.to(end);
        Ok(Expr { span, kind: ExprKind::Slice { value: Box::new(value), high: Box::new(high), low: Box::new(low) } })
    }

    fn call(&mut self, function: Expr, types: Vec<crate::ast::Type>) -> Parsed<Expr> {
        self.count_operator()?;
        // The message of `static_assert` is the only string outside of annotations.
        let asserts = matches!(&function.kind, ExprKind::Name(name) if &*name.name == "static_assert");
        let in_annotation = self.in_annotation;
        self.in_annotation |= asserts;
        let arguments = self.arguments();
        self.in_annotation = in_annotation;
        let arguments = arguments?;
        let span = function.span.to(self.last_span());
        Ok(Expr { span, kind: ExprKind::Call { function: Box::new(function), types, arguments } })
    }

    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        let open = self.expect("(", "before the arguments")?;
        self.list(")", open, "the arguments", Parser::argument)
    }

    /// Parses an argument: `value`, `name = value`, `_` or `name = _`.
    fn argument(&mut self) -> Parsed<Argument> {
        let start = self.span();
        let named = matches!(self.peek().kind, TokenKind::Ident(_)) && is_punctuation(self.ahead(1), "=");
        let name = if named { Some(self.ident("a parameter")?) } else { None };
        if named {
            self.bump();
        }
        let value = if self.eat_keyword("_").is_some() { None } else { Some(self.expr()?) };
        Ok(Argument { name, value, span: start.to(self.last_span()) })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let kind = match &self.peek().kind {
            TokenKind::Number(value, width) => ExprKind::Number { value: *value, width: *width },
            TokenKind::Keyword("true") => ExprKind::Bool(true),
            TokenKind::Keyword("false") => ExprKind::Bool(false),
            TokenKind::Keyword("error") if is_punctuation(self.ahead(1), ".") => {
                ExprKind::Name(Ident { name: "error".into(), span })
            }
            TokenKind::Ident(name) => ExprKind::Name(Ident { name: name.clone(), span }),
            TokenKind::String(text) if self.in_annotation => ExprKind::String(text.clone()),
            TokenKind::Punctuation(".") => {
                self.bump();
                let name = self.ident("a declaration of the top level")?;
                return Ok(Expr { span: span.to(name.span), kind: ExprKind::TopName(name) });
            }
            TokenKind::Punctuation("(") => return self.parenthesised(),
            TokenKind::Punctuation("{") => return self.list_value(),
            _ => return self.no_value(),
        };
        self.bump();
        Ok(Expr { span, kind })
    }

    /// Parses an expression in parentheses. The AST has no node for the parentheses; they only extend the span of the
    /// expression.
    fn parenthesised(&mut self) -> Parsed<Expr> {
        let open = self.bump();
        let inner = self.expr()?;
        if self.is(",") {
            return self.unsupported("tuples in parentheses", Some("write braces: `{a, b}`"));
        }
        let close = self.close(")", open, "an expression")?;
        Ok(Expr { span: open.to(close), ..inner })
    }

    fn list_value(&mut self) -> Parsed<Expr> {
        if is_punctuation(self.ahead(1), "#") {
            let failed = self.unsupported("`{#}`", Some("call `setInvalid()` of the header"));
            self.bump();
            self.skip_list();
            return failed;
        }
        let open = self.bump();
        let parts = self.list("}", open, "the values", Parser::list_part);
        if parts.is_err() {
            self.skip_list();
        }
        Ok(Expr { span: open.to(self.last_span()), kind: ExprKind::List(parts?) })
    }

    fn list_part(&mut self) -> Parsed<Argument> {
        if self.is("...") {
            return self.unsupported("`...` in a list expression", Some("give every field a value"));
        }
        if self.is_keyword("_") {
            return self.unexpected("a value");
        }
        self.argument()
    }

    fn no_value<T>(&mut self) -> Parsed<T> {
        if Parser::is_type_keyword(self.peek()) {
            let error = self.unexpected_error("a value");
            return self.fail(error.with_help("a type stands in parentheses before a value: `(bit<8>) value`"));
        }
        match self.peek().kind {
            TokenKind::String(_) => self.unsupported(
                "strings outside of annotations and `static_assert`",
                Some("a packet has no strings: use a number of fixed width"),
            ),
            TokenKind::Keyword("this") => {
                self.unsupported("`this`", Some("the blocks of the NIC are fixed: call an object by its name"))
            }
            TokenKind::Punctuation("...") => self.unsupported("`...` as a value", Some("give every field a value")),
            TokenKind::Keyword("select") => {
                let error = self.unexpected_error("a value");
                self.fail(error.with_help("`select` stands only after `transition`"))
            }
            TokenKind::Keyword("_") => {
                let error = self.unexpected_error("a value");
                self.fail(error.with_help("`_` is allowed as a keyset that matches every value, and for an `out` argument whose value is not used"))
            }
            _ => self.unexpected("a value"),
        }
    }

    /// Parses the keysets (sets of matching values) before the `:` of a `select` case or a table entry. Several keysets
    /// are enclosed in parentheses.
    pub(super) fn key_sets(&mut self) -> Parsed<(Vec<KeySet>, Span)> {
        let start = self.span();
        let keys = if self.is("(") && !self.begins_cast() && self.are_keys_in_parentheses() {
            let open = self.bump();
            self.list(")", open, "the keys", Parser::key_set)?
        } else {
            vec![self.key_set()?]
        };
        Ok((keys, start.to(self.last_span())))
    }

    /// Whether the parentheses that open at the current token enclose all keysets of a `select` case or table entry.
    /// This is so if no operator follows the closing parenthesis.
    fn are_keys_in_parentheses(&self) -> bool {
        let mut parentheses = 0usize;
        for (at, token) in self.tokens[self.at..].iter().enumerate() {
            match token.kind {
                TokenKind::Punctuation("(") => parentheses += 1,
                TokenKind::Punctuation(")") => parentheses -= 1,
                TokenKind::Punctuation(";") | TokenKind::End => return false,
                _ => {}
            }
            if parentheses == 0 {
                let next = self.ahead(at + 1);
                return is_punctuation(next, ":") || !matches!(next.kind, TokenKind::Punctuation(_));
            }
        }
        false
    }

    fn key_set(&mut self) -> Parsed<KeySet> {
        if matches!(self.peek().kind, TokenKind::Keyword("_" | "default")) {
            return Ok(KeySet::Any(self.bump()));
        }
        let value = self.expr()?;
        if self.eat("&&&").is_some() {
            return Ok(KeySet::Masked(value, self.expr()?));
        }
        if self.eat("..").is_some() {
            return Ok(KeySet::Range(value, self.expr()?));
        }
        Ok(KeySet::Value(value))
    }
}

/// Whether the token begins a value and cannot continue an expression that ends with a parenthesis.
fn begins_plain_value(token: &Token) -> bool {
    matches!(
        token.kind,
        TokenKind::Ident(_)
            | TokenKind::Number(..)
            | TokenKind::Keyword("true" | "false")
            | TokenKind::Punctuation("~" | "!")
    )
}
