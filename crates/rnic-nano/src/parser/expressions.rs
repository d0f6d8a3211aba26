//! Expressions, arguments, sets of keys.

use super::{Failed, MOST_OPERATORS, Parsed, Parser, is_sign};
use crate::ast::{Argument, BinaryOp, Expr, ExprKind, Ident, KeySet, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Kind, Token};
use crate::source::Span;

/// How tightly operators bind, from the loosest. As the specification says, `&`, `^` and `|` bind tighter than comparisons, unlike in C.
const CONDITIONAL: u8 = 0;
const SHIFT: u8 = 8;
const SUM: u8 = 9;

impl Parser {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.outermost(|parser| parser.binding(CONDITIONAL))
    }

    /// The number of bits in `bit<W>`: as any expression, but `>` ends it.
    pub(super) fn width(&mut self) -> Parsed<Expr> {
        self.outermost(|parser| parser.binding(SUM))
    }

    fn outermost<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.expressions == 0 {
            self.operators = 0;
        }
        self.expressions += 1;
        let parsed = self.within(parse);
        self.expressions -= 1;
        parsed
    }

    /// One more operator: an expression is a tree, and its depth is at most their number.
    fn count_operator(&mut self) -> Parsed<()> {
        self.operators += 1;
        if self.operators > MOST_OPERATORS {
            let message = format!("an expression with more than {MOST_OPERATORS} operators");
            let error = Diagnostic::new(self.span(), message, "this one is too many");
            self.report(error.with_help("put parts of it into variables"));
            self.stop();
            return Err(Failed);
        }
        Ok(())
    }

    /// An expression of operators that bind at least as tightly as `least`.
    fn binding(&mut self, least: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((op, level, tokens)) = self.binary_operator().filter(|(_, level, _)| *level >= least.max(1)) {
            self.count_operator()?;
            self.at += tokens;
            let right = self.within(|parser| parser.binding(level + 1))?;
            let span = left.span.to(right.span);
            left = Expr { span, kind: ExprKind::Binary(op, Box::new(left), Box::new(right)) };
        }
        if least == CONDITIONAL && self.is("?") {
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

    /// The operator here, how tightly it binds, and of how many tokens it is.
    fn binary_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let Kind::Sign(sign) = self.peek().kind else { return None };
        let next = self.ahead(1);
        Some(match sign {
            "||" => (BinaryOp::LogicalOr, 1, 1),
            "&&" => (BinaryOp::LogicalAnd, 2, 1),
            "==" => (BinaryOp::Eq, 3, 1),
            "!=" => (BinaryOp::Ne, 3, 1),
            // Two signs without a blank between them.
            ">" if self.peek().joint && is_sign(next, ">") => (BinaryOp::Shr, SHIFT, 2),
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
            "++" if is_sign(next, ";") => return None,
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
            Kind::Sign("-") => UnaryOp::Negate,
            Kind::Sign("~") => UnaryOp::BitNot,
            Kind::Sign("!") => UnaryOp::Not,
            Kind::Sign("+") => UnaryOp::Plus,
            Kind::Sign("(") if self.begins_cast() => return self.cast(),
            _ => return self.postfix(),
        };
        self.count_operator()?;
        let start = self.bump();
        let value = self.within(Parser::unary)?;
        Ok(Expr { span: start.to(value.span), kind: ExprKind::Unary(op, Box::new(value)) })
    }

    /// Whether `(T) value` stands here: T is a type by its keyword or its name, or what follows can only be a cast's value.
    fn begins_cast(&self) -> bool {
        let first = self.ahead(1);
        if Parser::is_type_keyword(first) {
            return !is_sign(self.ahead(2), ".");
        }
        let Kind::Ident(name) = &first.kind else { return false };
        if is_sign(self.ahead(2), "<") {
            return self.type_arguments_len(2).is_some_and(|len| is_sign(self.ahead(len + 2), ")"));
        }
        is_sign(self.ahead(2), ")") && (self.types.contains(name) || begins_plain_value(self.ahead(3)))
    }

    fn cast(&mut self) -> Parsed<Expr> {
        self.count_operator()?;
        let open = self.bump();
        let ty = self.ty()?;
        self.close(")", open, "the type of a cast")?;
        let value = self.within(Parser::unary)?;
        Ok(Expr { span: open.to(value.span), kind: ExprKind::Cast(ty, Box::new(value)) })
    }

    /// A value with what is done to it: members, slices, calls.
    fn postfix(&mut self) -> Parsed<Expr> {
        let mut value = self.primary()?;
        loop {
            value = match self.peek().kind {
                Kind::Sign(".") => self.member(value)?,
                Kind::Sign("[") => self.slice(value)?,
                Kind::Sign("(") => self.call(value, Vec::new())?,
                Kind::Sign("<") if self.begins_typed_call() => {
                    let types = self.type_arguments()?;
                    self.call(value, types)?
                }
                _ => return Ok(value),
            };
        }
    }

    /// `f<T>(`: what follows the `<` must be known as a type, else it is a comparison.
    fn begins_typed_call(&self) -> bool {
        let first = self.ahead(1);
        let known = matches!(&first.kind, Kind::Ident(name) if self.types.contains(name));
        (known || Parser::is_type_keyword(first) || matches!(first.kind, Kind::Keyword("_")))
            && self.type_arguments_len(0).is_some_and(|len| is_sign(self.ahead(len), "("))
    }

    fn member(&mut self, value: Expr) -> Parsed<Expr> {
        self.count_operator()?;
        self.bump();
        let called = matches!(self.ahead(1).kind, Kind::Sign("(" | "<"));
        if called && self.is_word("lookahead") {
            let instead = "extract the header, and look at its fields";
            return self.unsupported("`lookahead`", Some(instead));
        }
        let name = self.ident("a member")?;
        Ok(Expr { span: value.span.to(name.span), kind: ExprKind::Member(Box::new(value), name) })
    }

    fn slice(&mut self, value: Expr) -> Parsed<Expr> {
        self.count_operator()?;
        let open = self.bump();
        let high = self.expr()?;
        if self.is("]") {
            let place = open.to(self.span());
            let instead = "`value[high:low]` takes bits; there are no header stacks";
            return self.fail(Diagnostic::unsupported(place, "elements by index", Some(instead)));
        }
        self.expect(":", "between the highest and the lowest bit")?;
        let low = self.expr()?;
        let end = self.close("]", open, "a slice")?;
        let span = value.span.to(end);
        Ok(Expr { span, kind: ExprKind::Slice { value: Box::new(value), high: Box::new(high), low: Box::new(low) } })
    }

    fn call(&mut self, function: Expr, types: Vec<crate::ast::Type>) -> Parsed<Expr> {
        self.count_operator()?;
        if let ExprKind::Name(name) = &function.kind {
            let what = match &*name.name {
                "verify" => Some(("`verify`", "use `select`, with a state that rejects what is wrong")),
                "static_assert" => Some(("`static_assert`", "leave it out")),
                _ => None,
            };
            if let Some((what, instead)) = what {
                return self.fail(Diagnostic::unsupported(function.span, what, Some(instead)));
            }
        }
        let arguments = self.arguments()?;
        let span = function.span.to(self.last_span());
        Ok(Expr { span, kind: ExprKind::Call { function: Box::new(function), types, arguments } })
    }

    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        let open = self.expect("(", "before the arguments")?;
        self.list(")", open, "the arguments", Parser::argument)
    }

    /// `value`, `name = value`, `_`, `name = _`
    fn argument(&mut self) -> Parsed<Argument> {
        let start = self.span();
        let named = matches!(self.peek().kind, Kind::Ident(_)) && is_sign(self.ahead(1), "=");
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
            Kind::Number(value, width) => ExprKind::Number { value: *value, width: *width },
            Kind::Keyword("true") => ExprKind::Bool(true),
            Kind::Keyword("false") => ExprKind::Bool(false),
            Kind::Keyword("error") if is_sign(self.ahead(1), ".") => {
                ExprKind::Name(Ident { name: "error".into(), span })
            }
            Kind::Ident(name) => ExprKind::Name(Ident { name: name.clone(), span }),
            Kind::String(text) if self.in_annotation => ExprKind::String(text.clone()),
            Kind::Sign(".") => {
                self.bump();
                let name = self.ident("something of the top level")?;
                return Ok(Expr { span: span.to(name.span), kind: ExprKind::TopName(name) });
            }
            Kind::Sign("(") => return self.parenthesised(),
            Kind::Sign("{") => return self.list_value(),
            _ => return self.no_value(),
        };
        self.bump();
        Ok(Expr { span, kind })
    }

    /// Parentheses leave no trace in the tree but for the place.
    fn parenthesised(&mut self) -> Parsed<Expr> {
        let open = self.bump();
        let inner = self.expr()?;
        if self.is(",") {
            return self.unsupported("tuples", Some("write a struct: `{a, b}`"));
        }
        let close = self.close(")", open, "an expression")?;
        Ok(Expr { span: open.to(close), ..inner })
    }

    fn list_value(&mut self) -> Parsed<Expr> {
        if is_sign(self.ahead(1), "#") {
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
            return self.unsupported("`...` in a list of values", Some("give every field a value"));
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
            Kind::String(_) => self.unsupported("strings outside of annotations", None),
            Kind::Keyword("this") => self.unsupported("`this`", None),
            Kind::Sign("...") => self.unsupported("`...` as a value", Some("give every field a value")),
            Kind::Keyword("select") => {
                let error = self.unexpected_error("a value");
                self.fail(error.with_help("`select` stands only after `transition`"))
            }
            Kind::Keyword("_") => {
                let error = self.unexpected_error("a value");
                self.fail(error.with_help("`_` stands for any key, and for an `out` argument that nobody wants"))
            }
            _ => self.unexpected("a value"),
        }
    }

    /// The keys before a `:`; in parentheses if there is more than one.
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

    /// Whether the parentheses that open here are around all keys: no operator follows them.
    fn are_keys_in_parentheses(&self) -> bool {
        let mut parentheses = 0usize;
        for (at, token) in self.tokens[self.at..].iter().enumerate() {
            match token.kind {
                Kind::Sign("(") => parentheses += 1,
                Kind::Sign(")") => parentheses -= 1,
                Kind::Sign(";") | Kind::End => return false,
                _ => {}
            }
            if parentheses == 0 {
                let next = self.ahead(at + 1);
                return is_sign(next, ":") || !matches!(next.kind, Kind::Sign(_));
            }
        }
        false
    }

    fn key_set(&mut self) -> Parsed<KeySet> {
        if matches!(self.peek().kind, Kind::Keyword("_" | "default")) {
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

/// Whether a value begins here that could not go on an expression in parentheses.
fn begins_plain_value(token: &Token) -> bool {
    matches!(token.kind, Kind::Ident(_) | Kind::Number(..) | Kind::Keyword("true" | "false") | Kind::Sign("~" | "!"))
}
