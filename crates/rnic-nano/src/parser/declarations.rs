//! The part of the P4 parser for top-level declarations, except the bodies of parsers and controls.

use super::{Parsed, Parser, is_punctuation, near_keyword};
use crate::ast::{
    Action, Annotation, Const, Enum, Expr, Extern, Field, Function, Ident, Instance, Item, ItemKind, Module, Prototype,
    Struct,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::TokenKind;
use crate::source::Span;

/// Why there are no value sets, and what would do.
pub(super) const VALUE_SETS: &str =
    "the comparisons of a `select` are wired: list the values in the `select`, or use a table";

/// The words for a declaration in error messages.
const DECLARATION: &str = "a declaration";

impl Parser {
    pub(super) fn module(&mut self) -> Module {
        let mut items = Vec::new();
        while !self.at_end() {
            let before = self.at;
            self.misindented = None;
            match self.item() {
                Ok(item) => items.extend(item),
                Err(_) => self.recover_item(before),
            }
        }
        Module { items }
    }

    /// Recovers from a syntax error at the top level: skips tokens up to the next declaration. `start` is the index of
    /// the declaration's first token.
    fn recover_item(&mut self, start: usize) {
        if self.at == start {
            self.bump();
        }
        self.recover();
        if self.is("}") {
            self.bump();
        }
        // After the fields of `typedef struct { ... } name;`, which P4 does not have, `name;` is left. It is skipped,
        // too.
        if matches!(self.peek().kind, TokenKind::Ident(_)) && is_punctuation(self.ahead(1), ";") {
            self.bump();
        }
        self.eat(";");
    }

    /// Parses one top-level declaration. Returns `None` for an empty declaration, which is only a `;`.
    fn item(&mut self) -> Parsed<Option<Item>> {
        let start = self.span();
        let annotations = self.annotations()?;
        if annotations.is_empty() && self.eat(";").is_some() {
            return Ok(None);
        }
        let kind = self.item_kind(&annotations)?;
        Ok(Some(Item { annotations, span: start.to(self.last_span()), kind }))
    }

    fn item_kind(&mut self, annotations: &[Annotation]) -> Parsed<ItemKind> {
        let TokenKind::Keyword(keyword) = self.peek().kind else { return self.item_without_keyword(annotations) };
        match keyword {
            "const" => Ok(ItemKind::Const(self.constant()?)),
            "typedef" => self.typedef(),
            "header" => Ok(ItemKind::Header(self.structure("the header")?)),
            "struct" => Ok(ItemKind::Struct(self.structure("the struct")?)),
            "enum" => Ok(ItemKind::Enum(self.enumeration()?)),
            "error" if is_punctuation(self.ahead(1), "{") => Ok(ItemKind::Error(self.names("an error constant")?)),
            "match_kind" => Ok(ItemKind::MatchKind(self.names("a match kind")?)),
            "extern" => self.external(),
            "parser" => self.parser_item(),
            "control" => self.control_item(),
            "package" => self.package(),
            "action" => Ok(ItemKind::Action(self.action()?)),
            "header_union" => self.unsupported(
                "header unions",
                Some("the bits of each header have wires of their own: use several headers of which one is valid"),
            ),
            "value_set" => self.unsupported("value sets", Some(VALUE_SETS)),
            "table" => self.misplaced("a table", "a table is declared in a control, before its `apply`"),
            "transition" | "select" => self.misplaced("a transition", "a transition ends a state of a parser"),
            "if" | "switch" | "return" | "exit" | "for" | "else" => {
                self.misplaced("a statement", "statements belong in actions, in `apply`, and in the states of a parser")
            }
            _ if Parser::is_type_keyword(self.peek()) => self.item_without_keyword(annotations),
            _ => self.unexpected(DECLARATION),
        }
    }

    fn misplaced<T>(&mut self, what: &str, help: &str) -> Parsed<T> {
        let error = Diagnostic::new(self.span(), format!("{what} at the top level"), "not allowed here");
        self.fail(error.with_help(help))
    }

    /// Parses a declaration that does not begin with a keyword: `type T NAME;` or an instantiation. Reports functions
    /// and variables, which this compiler does not support at the top level.
    fn item_without_keyword(&mut self, annotations: &[Annotation]) -> Parsed<ItemKind> {
        let next = self.ahead(1);
        let type_follows = Parser::is_type_keyword(next) || matches!(next.kind, TokenKind::Ident(_));
        if self.is_word("type") && type_follows && !is_punctuation(self.ahead(2), "(") {
            return self.typedef();
        }
        if self.is_keyword("void") {
            self.bump();
            let name = self.ident("the function")?;
            return self.function(None, name);
        }
        let next = self.ahead(1);
        if let TokenKind::Ident(name) = &self.peek().kind {
            if !self.types.contains(name) && !is_punctuation(next, "(") && !is_punctuation(next, "<") {
                let name = name.clone();
                return self.unknown_word(&name);
            }
        } else if !Parser::is_type_keyword(self.peek()) {
            return self.stray_item();
        }
        let ty = self.ty()?;
        if self.is("(") {
            return Ok(ItemKind::Instance(self.instance(annotations.to_vec(), ty)?));
        }
        let name = self.ident("what is declared")?;
        if self.is("(") || self.is("<") {
            return self.function(Some(ty), name);
        }
        let error =
            Diagnostic::new(name.span, format!("a variable at the top level: `{}`", name.name), "not allowed here");
        self.fail(
            error
                .with_help("write `const` before the type, or declare the variable in a control; use registers for state between packets"),
        )
    }

    /// Parses a function from its parameters on.
    fn function(&mut self, result: Option<crate::ast::Type>, name: Ident) -> Parsed<ItemKind> {
        if self.is("<") {
            let instead = "hardware has wires of a fixed width: write one function for each type";
            return self.unsupported("type parameters of functions", Some(instead));
        }
        let parameters = self.parameters()?;
        let body = self.block(&format!("the function `{}`", name.name))?;
        Ok(ItemKind::Function(Function { result, body: Action { name, parameters, body } }))
    }

    fn stray_item<T>(&mut self) -> Parsed<T> {
        if self.is("}") {
            let error = Diagnostic::new(self.span(), "an unmatched `}`", "no `{` is open here");
            return self.fail(error);
        }
        self.unexpected(DECLARATION)
    }

    fn unknown_word<T>(&mut self, word: &str) -> Parsed<T> {
        if matches!(word, "state" | "apply" | "key" | "actions" | "entries") {
            let place = if word == "state" {
                "a parser"
            } else if word == "apply" {
                "a control"
            } else {
                "a table"
            };
            return self.misplaced(&format!("`{word}`"), &format!("it belongs in {place}"));
        }
        let error = self.unexpected_error(DECLARATION);
        let help = near_keyword(word, &["type"]).unwrap_or_else(|| {
            "declarations begin with const, typedef, header, struct, enum, error, extern, parser, control, package or action, or are instances".into()
        });
        self.fail(error.with_help(help))
    }

    /// Parses `const T NAME = value;`.
    pub(super) fn constant(&mut self) -> Parsed<Const> {
        self.bump();
        let ty = self.ty()?;
        let name = self.ident("the constant")?;
        self.expect("=", "and the value of the constant")?;
        let value = self.expr()?;
        self.semicolon("the constant")?;
        Ok(Const { ty, name, value })
    }

    /// Parses `typedef T NAME;` or `type T NAME;`.
    fn typedef(&mut self) -> Parsed<ItemKind> {
        self.bump();
        if let TokenKind::Keyword(kind @ ("struct" | "header" | "enum")) = self.peek().kind {
            let error = self.unexpected_error("a type");
            return self.fail(error.with_help(format!("a {kind} is declared with its name: `{kind} name {{ ... }}`")));
        }
        let of = self.ty()?;
        let name = self.ident("the type")?;
        self.types.insert(name.name.clone());
        self.semicolon("the type")?;
        Ok(ItemKind::Typedef { name, of })
    }

    fn structure(&mut self, what: &str) -> Parsed<Struct> {
        self.bump();
        let name = self.ident(what)?;
        self.types.insert(name.name.clone());
        let type_parameters = self.type_parameters()?;
        let mut fields = Vec::new();
        self.braces(&format!("{what} `{}`", name.name), |parser| {
            fields.push(parser.field()?);
            Ok(())
        })?;
        self.eat(";");
        Ok(Struct { name, type_parameters, fields })
    }

    fn field(&mut self) -> Parsed<Field> {
        self.annotations()?;
        let ty = self.ty()?;
        if self.is(";") {
            let error = self.unexpected_error("the name of the field");
            return self.fail(error.with_help("a field has a type and a name: `bit<32> address;`"));
        }
        let name = self.ident("the field")?;
        if self.is("=") {
            return self.fail(self.unexpected_error("`;` after the field").with_help("a field has no initial value"));
        }
        self.semicolon("the field")?;
        Ok(Field { ty, name })
    }

    fn enumeration(&mut self) -> Parsed<Enum> {
        self.bump();
        let typed = Parser::is_type_keyword(self.peek()) || matches!(self.ahead(1).kind, TokenKind::Ident(_));
        let representation = if typed { Some(self.ty()?) } else { None };
        let name = self.ident("the enumeration")?;
        self.types.insert(name.name.clone());
        let open = self.expect("{", "before the members")?;
        let members = self.comma_list(open, "the members", |parser| {
            let member = parser.ident("the member")?;
            let value = if parser.eat("=").is_some() { Some(parser.expr()?) } else { None };
            Ok((member, value))
        })?;
        self.eat(";");
        Ok(Enum { name, representation, members })
    }

    /// Parses `error { A, B }` or `match_kind { a, b }`.
    fn names(&mut self, what: &str) -> Parsed<Vec<Ident>> {
        self.bump();
        let open = self.expect("{", "before the names")?;
        let names = self.comma_list(open, "the names", |parser| parser.ident(what))?;
        self.eat(";");
        Ok(names)
    }

    /// Parses a comma-separated list up to `}`; a trailing comma is allowed.
    fn comma_list<T>(&mut self, open: Span, what: &str, parse: impl Fn(&mut Parser) -> Parsed<T>) -> Parsed<Vec<T>> {
        let parts = self.comma_parts(open, what, parse);
        if parts.is_err() {
            while !self.at_end() && !self.begins_item() && self.eat("}").is_none() {
                self.bump();
            }
            self.recovered = Some(self.at);
        }
        parts
    }

    fn comma_parts<T>(&mut self, open: Span, what: &str, parse: impl Fn(&mut Parser) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut parts = Vec::new();
        while self.eat("}").is_none() {
            self.annotations()?;
            parts.push(parse(self)?);
            if self.eat(",").is_none() && !self.is("}") {
                let error = self.unexpected_error(&format!("`,` or `}}` in {what}"));
                return self.fail(error.with_related(open, "the opening is here"));
            }
        }
        Ok(parts)
    }

    /// Parses `extern NAME<T> { ... }` or `extern R name<T>(...);`.
    fn external(&mut self) -> Parsed<ItemKind> {
        self.bump();
        let is_object = matches!(self.peek().kind, TokenKind::Ident(_)) && self.extern_body_follows();
        if !is_object {
            let prototype = self.prototype("the function")?;
            self.semicolon("the function")?;
            return Ok(ItemKind::ExternFunction(prototype));
        }
        let name = self.ident("the extern")?;
        self.types.insert(name.name.clone());
        let type_parameters = self.type_parameters()?;
        let mut constructors = Vec::new();
        let mut methods = Vec::new();
        self.braces(&format!("the extern `{}`", name.name), |parser| {
            parser.annotations()?;
            if parser.is_keyword("abstract") {
                return parser
                    .unsupported("abstract methods", Some("the blocks of the NIC are fixed: call their methods"));
            }
            let constructs = parser.is_word(&name.name) && is_punctuation(parser.ahead(1), "(");
            let prototype =
                if constructs { parser.bodiless("the constructor")? } else { parser.prototype("the method")? };
            parser.semicolon(if constructs { "the constructor" } else { "the method" })?;
            if constructs {
                constructors.push(prototype)
            } else {
                methods.push(prototype)
            }
            Ok(())
        })?;
        Ok(ItemKind::Extern(Extern { name, type_parameters, constructors, methods }))
    }

    /// Whether an extern type with a body begins at the current token: `NAME {` or `NAME<...> {`.
    fn extern_body_follows(&self) -> bool {
        match self.ahead(1).kind {
            TokenKind::Punctuation("{") => true,
            TokenKind::Punctuation("<") => {
                self.type_arguments_len(1).is_some_and(|len| is_punctuation(self.ahead(len + 1), "{"))
            }
            _ => false,
        }
    }

    /// Parses `R name<T>(...)` or `void name(...)`.
    fn prototype(&mut self, what: &str) -> Parsed<Prototype> {
        let result_is_parameter = matches!(self.peek().kind, TokenKind::Ident(_));
        let result = if self.eat_keyword("void").is_some() { None } else { Some(self.ty()?) };
        if result_is_parameter && self.is("(") {
            let error = self.unexpected_error(&format!("the name of {what}"));
            return self.fail(error.with_help("a declaration begins with the return type or `void`"));
        }
        Ok(Prototype { result, ..self.bodiless(what)? })
    }

    /// Parses `name<T>(...)`: a signature without a return type.
    pub(super) fn bodiless(&mut self, what: &str) -> Parsed<Prototype> {
        let name = self.ident(what)?;
        let type_parameters = self.type_parameters()?;
        let parameters = self.parameters()?;
        Ok(Prototype { result: None, name, type_parameters, parameters })
    }

    fn package(&mut self) -> Parsed<ItemKind> {
        self.bump();
        let prototype = self.bodiless("the package")?;
        self.types.insert(prototype.name.name.clone());
        self.semicolon("the package")?;
        Ok(ItemKind::Package(prototype))
    }

    /// Parses the part `(arguments) NAME;` of an instantiation; `ty` is the type that precedes this part.
    pub(super) fn instance(&mut self, annotations: Vec<Annotation>, ty: crate::ast::Type) -> Parsed<Instance> {
        let arguments = self.arguments()?;
        if self.is("{") {
            return self.unsupported(
                "functions of an instance",
                Some("the blocks of the NIC are fixed: write a function, and call it"),
            );
        }
        let name = self.ident("the instance")?;
        if self.is("=") {
            return self.unsupported(
                "instances with an initialiser",
                Some("the blocks of the NIC are fixed: remove the part that begins with `=`"),
            );
        }
        self.semicolon("the instance")?;
        Ok(Instance { annotations, ty, arguments, name })
    }

    /// Parses the value of a table property, as in `size = 16`.
    pub(super) fn property_value(&mut self, what: &str) -> Parsed<Expr> {
        self.expect("=", &format!("after `{what}`"))?;
        let value = self.expr()?;
        self.semicolon(&format!("`{what}`"))?;
        Ok(value)
    }
}
