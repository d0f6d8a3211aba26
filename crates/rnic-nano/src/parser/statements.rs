//! Blocks and statements.

use super::{Parsed, Parser, is_sign};
use crate::ast::{Block, Expr, ExprKind, Stmt, StmtKind, SwitchCase};
use crate::diagnostic::Diagnostic;
use crate::lexer::Kind;
use crate::preprocess::nearest;

impl Parser {
    pub(super) fn block(&mut self, what: &str) -> Parsed<Block> {
        self.within(|parser| {
            let mut body = Vec::new();
            let span = parser.braces(what, |parser| {
                body.push(parser.statement()?);
                Ok(())
            })?;
            Ok(Block { body, span })
        })
    }

    pub(super) fn statement(&mut self) -> Parsed<Stmt> {
        let start = self.span();
        self.annotations()?;
        let kind = self.within(Parser::statement_kind)?;
        Ok(Stmt { span: start.to(self.last_span()), kind })
    }

    fn statement_kind(&mut self) -> Parsed<StmtKind> {
        match self.peek().kind {
            Kind::Sign(";") => {
                self.bump();
                Ok(StmtKind::Empty)
            }
            Kind::Sign("{") => Ok(StmtKind::Block(self.block("the block")?)),
            Kind::Keyword("const") => Ok(StmtKind::Const(self.constant()?)),
            Kind::Keyword("if") => self.conditional_statement(),
            Kind::Keyword("switch") => self.switch(),
            Kind::Keyword(keyword @ ("exit" | "return")) => self.leave(keyword),
            Kind::Keyword(keyword) if !Parser::is_type_keyword(self.peek()) => self.keyword_statement(keyword),
            _ if self.begins_declaration() => self.variable_statement(),
            _ => self.assignment_or_call(),
        }
    }

    /// A variable; `fi (x)` or `retrun x;` look like one, or nearly.
    fn variable_statement(&mut self) -> Parsed<StmtKind> {
        if let Kind::Ident(word) = &self.peek().kind
            && !self.types.contains(word)
            && let Some(near) = near_statement(word)
        {
            let error = self.unexpected_error("a statement");
            return self.fail(error.with_help(near));
        }
        Ok(StmtKind::Variable(self.variable()?))
    }

    fn leave(&mut self, keyword: &str) -> Parsed<StmtKind> {
        if self.in_state {
            let error = self.unexpected_error("a statement of a parser's state");
            return self.fail(error.with_help("a state ends with its transition: `transition accept;`"));
        }
        self.bump();
        if keyword == "return" && !self.is(";") && !self.peek().first_on_line && !self.is("}") {
            return self.unsupported(
                "`return` with a value",
                Some("give the result in an `out` parameter, and write `return;`"),
            );
        }
        self.semicolon(&format!("`{keyword}`"))?;
        Ok(if keyword == "exit" { StmtKind::Exit } else { StmtKind::Return })
    }

    fn keyword_statement(&mut self, keyword: &str) -> Parsed<StmtKind> {
        match keyword {
            "for" | "break" | "continue" => self.unsupported(
                &format!("`{keyword}`: loops"),
                Some("write the steps one after the other; a parser may go back to a state"),
            ),
            "action" | "table" => {
                let error = self.unexpected_error("a statement");
                self.fail(error.with_help("actions and tables stand in the control, before `apply`"))
            }
            "else" => {
                let error = Diagnostic::new(self.span(), "`else` without its `if`", "nothing to be the other case of");
                self.fail(
                    error.with_help("before `else` stands one statement, or a block: `if (a) { ... } else { ... }`"),
                )
            }
            "transition" => {
                let error = self.unexpected_error("a statement");
                self.fail(error.with_help("a transition stands at the end of a parser's state, outside of blocks"))
            }
            "true" | "false" | "this" | "_" | "select" => self.assignment_or_call(),
            _ => self.unexpected("a statement"),
        }
    }

    fn assignment_or_call(&mut self) -> Parsed<StmtKind> {
        self.refuse_word()?;
        if matches!(self.peek().kind, Kind::Sign(")" | "]" | "," | ":" | "=" | "?" | "@" | "#") | Kind::End) {
            return self.unexpected("a statement");
        }
        let target = self.expr()?;
        if self.eat("=").is_some() {
            let value = self.expr()?;
            self.semicolon("the assignment")?;
            return Ok(StmtKind::Assign { target, value });
        }
        self.refuse_operator()?;
        if matches!(target.kind, ExprKind::Call { .. }) {
            let ends = matches!(self.ahead(1).kind, Kind::Sign(";" | "="));
            if matches!(self.peek().kind, Kind::Ident(_)) && !self.peek().first_on_line && ends {
                let instead = "declare it in the control, before `apply`, or at the top level";
                return self.fail(Diagnostic::unsupported(
                    target.span,
                    "instances declared among statements",
                    Some(instead),
                ));
            }
            self.semicolon("the call")?;
            return Ok(StmtKind::Call(target));
        }
        self.no_effect(&target)
    }

    fn no_effect<T>(&mut self, value: &Expr) -> Parsed<T> {
        if matches!(value.kind, ExprKind::Name(_) | ExprKind::Member(..) | ExprKind::Slice { .. }) && !self.is(";") {
            return self.unexpected("`=` or `(` in a statement");
        }
        let error = Diagnostic::new(value.span, "a statement without effect", "its value goes nowhere");
        let compares = matches!(value.kind, ExprKind::Binary(crate::ast::BinaryOp::Eq, ..));
        let help = if compares { "`=` assigns, `==` compares" } else { "a statement is an assignment or a call" };
        self.fail(error.with_help(help))
    }

    /// `a += b` and the like.
    fn refuse_operator(&mut self) -> Parsed<()> {
        let Kind::Sign(sign) = self.peek().kind else { return Ok(()) };
        if matches!(sign, "++") && is_sign(self.ahead(1), ";") {
            return self.unsupported("`++` as a statement", Some("write `a = a + 1`"));
        }
        let assigns = sign.ends_with('=') && sign.len() >= 2 && !matches!(sign, "==" | "!=" | "<=" | ">=");
        if !assigns {
            return Ok(());
        }
        let op = &sign[..sign.len() - 1];
        self.unsupported(&format!("`{op}=`"), Some(&format!("write `a = a {op} b`")))
    }

    /// `esle {`, `fi (...) {`: a keyword with a slip of the pen.
    fn refuse_word(&mut self) -> Parsed<()> {
        let Kind::Ident(word) = &self.peek().kind else { return Ok(()) };
        let next = self.ahead(1);
        let block_follows = is_sign(next, "{") || is_sign(next, "(") && self.block_follows_parentheses(1);
        if !block_follows && !is_sign(next, ";") {
            return Ok(());
        }
        let near = near_statement(word);
        if !block_follows && near.is_none() {
            return Ok(());
        }
        let error = self.unexpected_error("a statement");
        self.fail(match near {
            Some(near) => error.with_help(near),
            None => error.with_help("no statement begins like this: there are `if`, `switch`, assignments and calls"),
        })
    }

    /// Whether the parentheses that open `from` tokens ahead are followed by a block.
    fn block_follows_parentheses(&self, from: usize) -> bool {
        let mut open = 0usize;
        for (count, token) in self.tokens[self.at + from..].iter().enumerate() {
            match token.kind {
                Kind::Sign("(") => open += 1,
                Kind::Sign(")") => open -= 1,
                Kind::Sign(";" | "{" | "}") | Kind::End => return false,
                _ => {}
            }
            if open == 0 {
                return is_sign(self.ahead(from + count + 1), "{");
            }
        }
        false
    }

    fn conditional_statement(&mut self) -> Parsed<StmtKind> {
        let keyword = self.bump();
        let condition = self.condition(keyword, "if")?;
        let then = Box::new(self.branch("`if`")?);
        let otherwise = if self.eat_keyword("else").is_some() { Some(Box::new(self.branch("`else`")?)) } else { None };
        Ok(StmtKind::If { condition, then, otherwise })
    }

    /// `(value)` behind `if` or `switch`.
    fn condition(&mut self, keyword: crate::source::Span, name: &str) -> Parsed<Expr> {
        if !self.is("(") {
            let error = self.unexpected_error(&format!("`(` after `{name}`")).with_related(keyword, "this one");
            return self.fail(error.with_help(format!("what `{name}` looks at stands in parentheses")));
        }
        let open = self.bump();
        let value = self.expr()?;
        if self.is("=") {
            let error = self.unexpected_error(&format!("`)` at the end of the condition of `{name}`"));
            return self.fail(error.with_help("`==` compares, `=` assigns"));
        }
        self.close(")", open, &format!("the condition of `{name}`"))?;
        Ok(value)
    }

    fn branch(&mut self, of: &str) -> Parsed<Stmt> {
        let start = self.span();
        if self.is("{") {
            let block = self.block(&format!("the block of {of}"))?;
            return Ok(Stmt { span: block.span, kind: StmtKind::Block(block) });
        }
        let kind = self.within(Parser::statement_kind)?;
        Ok(Stmt { span: start.to(self.last_span()), kind })
    }

    fn switch(&mut self) -> Parsed<StmtKind> {
        if self.in_state {
            return self.unsupported("`switch` in a parser's state", Some("use `transition select(...)`"));
        }
        let keyword = self.bump();
        let value = self.condition(keyword, "switch")?;
        let mut cases = Vec::new();
        self.braces("the cases of `switch`", |parser| {
            cases.push(parser.switch_case()?);
            Ok(())
        })?;
        Ok(StmtKind::Switch { value, cases })
    }

    fn switch_case(&mut self) -> Parsed<SwitchCase> {
        let span = self.span();
        let label = match self.peek().kind {
            Kind::Keyword("default") => {
                self.bump();
                None
            }
            Kind::Keyword("_") => {
                let error = self.unexpected_error("a label");
                return self.fail(error.with_help("the case for all others is `default`"));
            }
            Kind::Ident(_) if self.word() == "case" && !is_sign(self.ahead(1), ":") => {
                let error = self.unexpected_error("a label");
                return self.fail(error.with_help("a case is `label: { ... }`, without a word before it"));
            }
            _ => Some(self.expr()?),
        };
        let span = span.to(self.last_span());
        self.expect(":", "after the label of a case")?;
        let body = if self.is("{") { Some(self.block("the case")?) } else { None };
        if body.is_none() && !self.begins_label() {
            let error = self.unexpected_error("`{` or the next case");
            return self.fail(error.with_help("what a case does stands in a block: `label: { ... }`"));
        }
        Ok(SwitchCase { label, span, body })
    }

    fn word(&self) -> &str {
        match &self.peek().kind {
            Kind::Ident(word) => word,
            _ => "",
        }
    }

    /// Whether what follows may be a label, or the end of the cases.
    fn begins_label(&self) -> bool {
        match self.peek().kind {
            Kind::Keyword("default" | "true" | "false") | Kind::Sign("}" | "(" | "-" | "~") | Kind::Number(..) => true,
            Kind::Ident(_) => matches!(self.ahead(1).kind, Kind::Sign(":" | ".")) && !self.call_follows(),
            _ => false,
        }
    }

    /// `a.b(`: a statement, and no label.
    fn call_follows(&self) -> bool {
        is_sign(self.ahead(1), ".") && is_sign(self.ahead(3), "(")
    }
}

/// The word of a statement that `word` is like.
fn near_statement(word: &str) -> Option<String> {
    let words = ["if", "else", "switch", "return", "exit", "const", "transition"];
    nearest(word, words.into_iter()).map(|near| format!("did you mean `{near}`?"))
}
