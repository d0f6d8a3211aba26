//! The part of the P4 parser for types, parameters and annotations.

use super::{Failed, Parsed, Parser, is_punctuation};
use crate::ast::{Annotation, Argument, Direction, Expr, ExprKind, Ident, Parameter, Type, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Token, TokenKind};

/// Maximum number of tokens that the parser examines ahead to distinguish type arguments from a comparison.
const MAX_LOOKAHEAD: usize = 256;

impl Parser {
    /// Whether the token is a keyword that begins a type, such as `bit`.
    pub(super) fn is_type_keyword(token: &Token) -> bool {
        let TokenKind::Keyword(keyword) = token.kind else { return false };
        matches!(
            keyword,
            "bit" | "int" | "bool" | "error" | "varbit" | "tuple" | "list" | "string" | "void" | "match_kind"
        )
    }

    pub(super) fn ty(&mut self) -> Parsed<Type> {
        self.nested_parse(Parser::ty_here)
    }

    fn ty_here(&mut self) -> Parsed<Type> {
        let start = self.span();
        let kind = match self.peek().kind {
            TokenKind::Keyword("bool") => self.simple_type(TypeKind::Bool),
            TokenKind::Keyword("error") => self.simple_type(TypeKind::Error),
            TokenKind::Keyword("bit") => TypeKind::Bit(Box::new(self.bits(true)?.ok_or(Failed)?)),
            TokenKind::Keyword("int") => {
                self.bits(false)?.map_or(TypeKind::Integer, |width| TypeKind::Int(Box::new(width)))
            }
            TokenKind::Keyword("_") => self.simple_type(TypeKind::Any),
            TokenKind::Keyword("tuple") => {
                self.bump();
                TypeKind::Tuple(self.type_arguments()?)
            }
            TokenKind::Ident(_) => {
                let name = self.ident("a type")?;
                let arguments = if self.is("<") { self.type_arguments()? } else { Vec::new() };
                TypeKind::Named { name, arguments }
            }
            TokenKind::Punctuation(".") => {
                return self.unsupported("a leading `.` before a type", Some("remove the `.`"));
            }
            TokenKind::Keyword(keyword) => return self.no_type(keyword),
            _ => return self.unexpected("a type"),
        };
        let ty = Type { span: start.to(self.last_span()), kind };
        let Some(open) = self.eat("[") else { return Ok(ty) };
        let size = self.expr()?;
        self.close("]", open, "the number of elements")?;
        Ok(Type { span: start.to(self.last_span()), kind: TypeKind::Stack(Box::new(ty), Box::new(size)) })
    }

    fn simple_type(&mut self, kind: TypeKind) -> TypeKind {
        self.bump();
        kind
    }

    fn no_type<T>(&mut self, keyword: &str) -> Parsed<T> {
        match keyword {
            "varbit" => self.unsupported(
                "`varbit`",
                Some("the fields behind it would have no fixed wires: use headers of fixed size, one for each size"),
            ),
            "list" => self.unsupported("`list`", Some("wires have no variable number: use a tuple or a struct")),
            "string" => self.unsupported("strings", Some("a packet has no strings: use a number of fixed width")),
            "match_kind" => self.unsupported(
                "`match_kind` as a type",
                Some("the comparators of a table are wired: write the match kind in the table's key"),
            ),
            "void" => {
                let error = self.unexpected_error("a type");
                self.fail(error.with_help("`void` is only allowed as the return type of a function or method"))
            }
            _ => self.unexpected("a type"),
        }
    }

    /// Parses the width in `bit<W>` or `int<W>`, which is an integer or an expression. If there is no `<`, the width is
    /// 1 if `alone_is_one` is true, else `None`.
    fn bits(&mut self, alone_is_one: bool) -> Parsed<Option<Expr>> {
        let keyword = self.bump();
        let Some(open) = self.eat("<") else {
            let one = Expr { span: keyword, kind: ExprKind::Number { value: 1, width: None } };
            return Ok(alone_is_one.then_some(one));
        };
        if self.is(">") {
            return self.unexpected("the number of bits");
        }
        let width = self.width()?;
        self.close(">", open, "the number of bits")?;
        Ok(Some(width))
    }

    pub(super) fn type_arguments(&mut self) -> Parsed<Vec<Type>> {
        let open = self.expect("<", "before type arguments")?;
        if self.is(">") {
            return self.unexpected("a type");
        }
        self.list(">", open, "type arguments", Parser::ty)
    }

    /// Returns the number of tokens of a list of type arguments whose `<` is at the token index `from`. Returns `None`
    /// if the tokens are not type arguments.
    pub(super) fn type_arguments_len(&self, from: usize) -> Option<usize> {
        let mut angles = 0usize;
        let mut parentheses = 0usize;
        for count in from..from + MAX_LOOKAHEAD {
            let token = self.ahead(count);
            match &token.kind {
                TokenKind::Punctuation("(") if count > from => parentheses += 1,
                TokenKind::Punctuation(")") => parentheses = parentheses.checked_sub(1)?,
                TokenKind::End | TokenKind::Punctuation(";" | "{" | "}") => return None,
                _ if parentheses > 0 => {}
                TokenKind::Punctuation("<") => angles += 1,
                TokenKind::Punctuation(">") => {
                    angles = angles.checked_sub(1)?;
                    if angles == 0 {
                        return Some(count + 1 - from);
                    }
                }
                TokenKind::Ident(_) | TokenKind::Number(..) | TokenKind::Punctuation("," | "." | "+" | "-" | "*") => {}
                TokenKind::Keyword("_") => {}
                _ if Parser::is_type_keyword(token) => {}
                _ => return None,
            }
        }
        None
    }

    /// Parses a list of type parameters `<A, B>` and declares their names as types. Returns an empty list if there is
    /// no `<`.
    pub(super) fn type_parameters(&mut self) -> Parsed<Vec<Ident>> {
        let Some(open) = self.eat("<") else { return Ok(Vec::new()) };
        let names = self.list(">", open, "type parameters", |parser| parser.ident("a type parameter"))?;
        self.types.extend(names.iter().map(|ident| ident.name.clone()));
        Ok(names)
    }

    pub(super) fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
        let open = self.expect("(", "before the parameters")?;
        self.list(")", open, "the parameters", Parser::parameter)
    }

    fn parameter(&mut self) -> Parsed<Parameter> {
        self.annotations()?;
        let direction = match self.peek().kind {
            TokenKind::Keyword("in") => Direction::In,
            TokenKind::Keyword("out") => Direction::Out,
            TokenKind::Keyword("inout") => Direction::InOut,
            _ => Direction::None,
        };
        if direction != Direction::None {
            self.bump();
        }
        let ty = self.ty()?;
        if self.is(",") || self.is(")") {
            let error = self.unexpected_error("the name of the parameter");
            return self.fail(error.with_help("a parameter has a type and a name: `in bit<32> size`"));
        }
        let name = self.ident("the parameter")?;
        let default = match self.eat("=") {
            Some(_) if matches!(direction, Direction::Out | Direction::InOut) => {
                let error =
                    Diagnostic::new(name.span, "an `out` or `inout` parameter with a default value", "not allowed");
                return self.fail(error.with_help("only a value that the callee reads can be omitted"));
            }
            Some(_) => {
                let value = self.expr()?;
                Some(Argument { name: None, span: value.span, value: Some(value) })
            }
            None => None,
        };
        Ok(Parameter { direction, ty, name, default })
    }

    /// Parses any number of annotations: `@name` or `@name(...)`.
    pub(super) fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut annotations = Vec::new();
        while self.eat("@").is_some() {
            if self.is_word("pragma") {
                return self.unsupported("`@pragma`", Some("write `@name(arguments)`"));
            }
            let name = self.ident("an annotation")?;
            if self.is("[") {
                return self.unsupported("annotations in brackets", Some("write the arguments in parentheses"));
            }
            let arguments = match self.eat("(") {
                Some(open) => self.annotation_arguments(open)?,
                None => Vec::new(),
            };
            annotations.push(Annotation { name, arguments });
        }
        Ok(annotations)
    }

    /// Parses the arguments of an annotation, which are expressions. If the parentheses contain other tokens, the
    /// function skips them and returns no arguments.
    fn annotation_arguments(&mut self, open: crate::source::Span) -> Parsed<Vec<Expr>> {
        let start = self.at;
        let errors = self.errors.len();
        let failed_at = self.failed_at;
        let outer = std::mem::replace(&mut self.in_annotation, true);
        let arguments = self.list(")", open, "the arguments", Parser::expr);
        self.in_annotation = outer;
        if arguments.is_ok() || self.stopped {
            return arguments;
        }
        (self.at, self.failed_at) = (start, failed_at);
        self.errors.truncate(errors);
        let mut parentheses = 1;
        while parentheses > 0 {
            if self.peek().kind == TokenKind::Invalid {
                return Err(Failed);
            }
            if self.at_end() || self.is(";") {
                return self.close(")", open, "the annotation").map(|_| Vec::new());
            }
            parentheses += usize::from(self.is("("));
            parentheses -= usize::from(self.is(")"));
            self.bump();
        }
        Ok(Vec::new())
    }

    /// Whether a type followed by a name begins at the current token: `T name` or `T<A> name`.
    pub(super) fn begins_declaration(&self) -> bool {
        let token = self.peek();
        if Parser::is_type_keyword(token) {
            // A name after `error.` is a value: a member of the type `error`.
            return !is_punctuation(self.ahead(1), ".");
        }
        if !matches!(token.kind, TokenKind::Ident(_)) {
            return false;
        }
        match &self.ahead(1).kind {
            TokenKind::Ident(_) => true,
            TokenKind::Punctuation("<") => {
                self.type_arguments_len(1).is_some_and(|len| match self.ahead(len + 1).kind {
                    TokenKind::Ident(_) => true,
                    TokenKind::Punctuation("[") => self.stack_follows(len + 1),
                    _ => false,
                })
            }
            TokenKind::Punctuation("[") => self.stack_follows(1),
            _ => false,
        }
    }

    /// Whether the tokens from index `from` on are `[size] name`: the declaration of a header stack.
    fn stack_follows(&self, from: usize) -> bool {
        for count in from + 1..from + MAX_LOOKAHEAD {
            match self.ahead(count).kind {
                TokenKind::Punctuation("]") => return matches!(self.ahead(count + 1).kind, TokenKind::Ident(_)),
                TokenKind::End | TokenKind::Punctuation("[" | ";" | ":" | "{" | "}") => return false,
                _ => {}
            }
        }
        false
    }
}
