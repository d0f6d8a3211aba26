//! The part of the P4 compiler's parser for declarations of P4 parsers with their states, of controls, and of actions.

use super::declarations::VALUE_SETS;
use super::{Parsed, Parser, is_punctuation, near_keyword};
use crate::ast::{
    Action, Block, Control, ItemKind, Local, Parameter, Parser as ParserDeclaration, Prototype, SelectCase, State,
    Transition, Variable,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::TokenKind;

impl Parser {
    /// Parses a declaration of a parser. A declaration without a body is a parser type.
    pub(super) fn parser_item(&mut self) -> Parsed<ItemKind> {
        self.bump();
        let head = self.bodiless("the parser")?;
        self.types.insert(head.name.name.clone());
        if self.eat(";").is_some() {
            return Ok(ItemKind::ParserType(head));
        }
        let constructor = if self.is("(") { self.parameters()? } else { Vec::new() };
        let Prototype { name, parameters, .. } = self.head_with_body(head, "parsers")?;
        let mut locals = Vec::new();
        let mut states = Vec::new();
        self.braces(&format!("the parser `{}`", name.name), |parser| {
            parser.annotations()?;
            if parser.is_word("state") && matches!(parser.ahead(1).kind, TokenKind::Ident(_)) {
                states.push(parser.state()?);
                return Ok(());
            }
            if !states.is_empty() {
                let help = "constants, variables and instances are declared before the first state";
                let error = parser.unexpected_error("a state or the end of the parser");
                return parser.fail(error.with_help(help));
            }
            locals.push(parser.local(false)?);
            Ok(())
        })?;
        self.eat(";");
        Ok(ItemKind::Parser(ParserDeclaration { name, parameters, constructor, locals, states }))
    }

    /// Parses a declaration of a control. A declaration without a body is a control type.
    pub(super) fn control_item(&mut self) -> Parsed<ItemKind> {
        self.bump();
        let head = self.bodiless("the control")?;
        self.types.insert(head.name.name.clone());
        if self.eat(";").is_some() {
            return Ok(ItemKind::ControlType(head));
        }
        let constructor = if self.is("(") { self.parameters()? } else { Vec::new() };
        let Prototype { name, parameters, .. } = self.head_with_body(head, "controls")?;
        let errors = self.errors.len();
        let mut locals = Vec::new();
        let mut apply = None;
        let body = self.braces(&format!("the control `{}`", name.name), |parser| {
            if let Some(first) = apply.as_ref().map(|block: &Block| block.span) {
                let error = parser.unexpected_error("the end of the control");
                let error = error.with_related(first, "a control ends after its `apply` block");
                return parser.fail(error);
            }
            if parser.is_word("apply") && is_punctuation(parser.ahead(1), "{") {
                parser.bump();
                apply = Some(parser.block("`apply`")?);
                return Ok(());
            }
            locals.push(parser.local(true)?);
            Ok(())
        })?;
        self.eat(";");
        if apply.is_none() && self.errors.len() == errors {
            let error = Diagnostic::new(
                name.span,
                format!("the control `{}` has no `apply` block", name.name),
                "`apply` is missing",
            );
            self.failed_at = None;
            return self.fail(error.with_help("a control ends with `apply { ... }`, which may be empty"));
        }
        let apply = apply.unwrap_or(Block { body: Vec::new(), span: body });
        Ok(ItemKind::Control(Control { name, parameters, constructor, locals, apply }))
    }

    /// Reports an error if a parser or control with a body has type parameters, which only a parser type or control
    /// type may have.
    fn head_with_body(&mut self, head: Prototype, what: &str) -> Parsed<Prototype> {
        if let (Some(first), true) = (head.type_parameters.first(), self.is("{")) {
            let what = format!("type parameters of {what} with a body");
            return self.fail(Diagnostic::unsupported(
                first.span,
                &what,
                Some("hardware has wires of a fixed width: write the actual types"),
            ));
        }
        if !self.is("{") {
            return self.unexpected(&format!("`{{` or `;` after the parameters of `{}`", head.name.name));
        }
        Ok(head)
    }

    /// Parses a declaration within a parser (before its states) or within a control (before `apply`).
    fn local(&mut self, in_control: bool) -> Parsed<Local> {
        let annotations = self.annotations()?;
        match self.peek().kind {
            TokenKind::Keyword("const") => return Ok(Local::Const(self.constant()?)),
            TokenKind::Keyword("action") if in_control => return Ok(Local::Action(self.action()?)),
            TokenKind::Keyword("table") if in_control => return Ok(Local::Table(self.table()?)),
            TokenKind::Keyword("action" | "table") => {
                let error = self.unexpected_error("a state or a declaration");
                return self.fail(error.with_help("actions and tables are declared in a control"));
            }
            TokenKind::Keyword("value_set") => {
                return self.unsupported("value sets", Some(VALUE_SETS));
            }
            _ => {}
        }
        if self.is_word("state") && matches!(self.ahead(1).kind, TokenKind::Ident(_)) {
            let error = self.unexpected_error("a declaration or `apply`");
            return self.fail(error.with_help("states are declared in a parser"));
        }
        if self.begins_declaration() {
            return self.variable_or_unknown(in_control);
        }
        if matches!(self.peek().kind, TokenKind::Ident(_)) && self.begins_instance() {
            let ty = self.ty()?;
            return Ok(Local::Instance(self.instance(annotations, ty)?));
        }
        self.no_local(in_control)
    }

    /// Whether an instantiation begins at the current token: `T(` or `T<A>(`.
    fn begins_instance(&self) -> bool {
        match self.ahead(1).kind {
            TokenKind::Punctuation("(") => true,
            TokenKind::Punctuation("<") => {
                self.type_arguments_len(1).is_some_and(|len| is_punctuation(self.ahead(len + 1), "("))
            }
            _ => false,
        }
    }

    /// Parses a variable declaration `T name;`. A misspelt keyword, as in `tabel name {`, begins like a variable
    /// declaration and gets an error message of its own.
    fn variable_or_unknown(&mut self, in_control: bool) -> Parsed<Local> {
        let unknown = matches!(&self.peek().kind, TokenKind::Ident(word) if !self.types.contains(word));
        if unknown && matches!(self.ahead(2).kind, TokenKind::Punctuation("{" | "(")) {
            return self.no_local(in_control);
        }
        Ok(Local::Variable(self.variable()?))
    }

    fn no_local<T>(&mut self, in_control: bool) -> Parsed<T> {
        let expected = if in_control { "a declaration or `apply`" } else { "a declaration or a state" };
        let error = self.unexpected_error(expected);
        let near = match &self.peek().kind {
            TokenKind::Ident(word) => near_keyword(word, if in_control { &["apply"] } else { &["state"] }),
            _ => None,
        };
        let help = near.unwrap_or_else(|| {
            let statements =
                if in_control { "statements belong in `apply { ... }`" } else { "statements belong in a state" };
            statements.into()
        });
        self.fail(error.with_help(help))
    }

    /// Parses a variable declaration: `T name;` or `T name = value;`.
    pub(super) fn variable(&mut self) -> Parsed<Variable> {
        let ty = self.ty()?;
        let name = self.ident("the variable")?;
        let value = if self.eat("=").is_some() { Some(self.expr()?) } else { None };
        self.semicolon("the variable")?;
        Ok(Variable { ty, name, value })
    }

    pub(super) fn action(&mut self) -> Parsed<Action> {
        self.bump();
        let name = self.ident("the action")?;
        let parameters: Vec<Parameter> = self.parameters()?;
        let body = self.block(&format!("the action `{}`", name.name))?;
        Ok(Action { name, parameters, body })
    }

    fn state(&mut self) -> Parsed<State> {
        self.bump();
        let name = self.ident("the state")?;
        let mut body = Vec::new();
        let mut transition = None;
        self.in_state = true;
        let parsed = self.braces(&format!("the state `{}`", name.name), |parser| {
            if transition.is_some() {
                let error = parser.unexpected_error("the end of the state");
                return parser.fail(error.with_help("nothing follows the transition"));
            }
            if parser.is_keyword("transition") {
                transition = Some(parser.transition()?);
                return Ok(());
            }
            body.push(parser.statement()?);
            Ok(())
        });
        self.in_state = false;
        parsed?;
        Ok(State { name, body, transition })
    }

    fn transition(&mut self) -> Parsed<Transition> {
        let start = self.bump();
        if self.eat_keyword("select").is_none() {
            if self.is("(") {
                let error = self.unexpected_error("the name of a state or `select`");
                return self.fail(error.with_help("write `transition select(key) { ... }`"));
            }
            let next = self.ident("a state")?;
            self.semicolon("the transition")?;
            return Ok(Transition::To(next));
        }
        let open = self.expect("(", "before the keys of `select`")?;
        let keys = self.list(")", open, "the keys of `select`", Parser::expr)?;
        let mut cases = Vec::new();
        let end = self.braces("the cases of `select`", |parser| {
            cases.push(parser.select_case()?);
            Ok(())
        })?;
        self.eat(";");
        Ok(Transition::Select { span: start.to(end), keys, cases })
    }

    fn select_case(&mut self) -> Parsed<SelectCase> {
        self.annotations()?;
        let (keys, span) = self.key_sets()?;
        self.expect(":", "after the keys of a case")?;
        let next = self.ident("a state")?;
        self.semicolon("the case")?;
        Ok(SelectCase { keys, span, next })
    }
}
