//! The part of the P4 parser for blocks and statements.

use super::{Parsed, Parser, is_punctuation};
use crate::ast::{BinaryOp, Block, Expr, ExprKind, Stmt, StmtKind, SwitchCase};
use crate::diagnostic::{Diagnostic, nearest};
use crate::lexer::TokenKind;

impl Parser {
    pub(super) fn block(&mut self, what: &str) -> Parsed<Block> {
        self.nested_parse(|parser| {
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
        let kind = self.nested_parse(Parser::statement_kind)?;
        Ok(Stmt { span: start.to(self.last_span()), kind })
    }

    fn statement_kind(&mut self) -> Parsed<StmtKind> {
        match self.peek().kind {
            TokenKind::Punctuation(";") => {
                self.bump();
                Ok(StmtKind::Empty)
            }
            TokenKind::Punctuation("{") => Ok(StmtKind::Block(self.block("the block")?)),
            TokenKind::Keyword("const") => Ok(StmtKind::Const(self.constant()?)),
            TokenKind::Keyword("if") => self.conditional_statement(),
            TokenKind::Keyword("switch") => self.switch(),
            TokenKind::Keyword(keyword @ ("exit" | "return")) => self.leave(keyword),
            TokenKind::Keyword(keyword) if !Parser::is_type_keyword(self.peek()) => self.keyword_statement(keyword),
            _ if self.begins_declaration() => self.variable_statement(),
            _ => self.assignment_or_call(),
        }
    }

    /// Parses a variable declaration. The misspelt statements `fi (x)` and `retrun x;` begin like a variable
    /// declaration and get error messages of their own.
    fn variable_statement(&mut self) -> Parsed<StmtKind> {
        if let TokenKind::Ident(word) = &self.peek().kind
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
            let value = self.expr()?;
            self.semicolon("`return`")?;
            return Ok(StmtKind::Return(Some(value)));
        }
        self.semicolon(&format!("`{keyword}`"))?;
        Ok(if keyword == "exit" { StmtKind::Exit } else { StmtKind::Return(None) })
    }

    fn keyword_statement(&mut self, keyword: &str) -> Parsed<StmtKind> {
        match keyword {
            "for" | "break" | "continue" => self.unsupported(
                &format!("`{keyword}`: loops"),
                Some("a pipeline has a fixed length: unroll the loop; a parser may loop through its states"),
            ),
            "action" | "table" => {
                let error = self.unexpected_error("a statement");
                self.fail(error.with_help("actions and tables are declared in the control, before `apply`"))
            }
            "else" => {
                let error = Diagnostic::new(self.span(), "`else` without its `if`", "no `if` precedes this `else`");
                self.fail(
                    error.with_help("`else` follows a single statement or a block: `if (a) { ... } else { ... }`"),
                )
            }
            "transition" => {
                let error = self.unexpected_error("a statement");
                self.fail(error.with_help("a state of a parser ends with its transition, outside of blocks"))
            }
            "true" | "false" | "this" | "_" | "select" => self.assignment_or_call(),
            _ => self.unexpected("a statement"),
        }
    }

    fn assignment_or_call(&mut self) -> Parsed<StmtKind> {
        self.refuse_word()?;
        if matches!(
            self.peek().kind,
            TokenKind::Punctuation(")" | "]" | "," | ":" | "=" | "?" | "@" | "#") | TokenKind::End
        ) {
            return self.unexpected("a statement");
        }
        let target = self.expr()?;
        if self.eat("=").is_some() {
            let value = self.expr()?;
            self.semicolon("the assignment")?;
            return Ok(StmtKind::Assign { target, value });
        }
        if let Some(op) = self.compound_operator()? {
            let other = self.expr()?;
            self.semicolon("the assignment")?;
            let span = target.span.to(other.span);
            let value = Expr { span, kind: ExprKind::Binary(op, Box::new(target.clone()), Box::new(other)) };
            return Ok(StmtKind::Assign { target, value });
        }
        if matches!(target.kind, ExprKind::Call { .. }) {
            let ends = matches!(self.ahead(1).kind, TokenKind::Punctuation(";" | "="));
            if matches!(self.peek().kind, TokenKind::Ident(_)) && !self.peek().first_on_line && ends {
                let instead = "declare the instance in the control before `apply`, or at the top level";
                return self.fail(Diagnostic::unsupported(
                    target.span,
                    "instantiations among statements",
                    Some(instead),
                ));
            }
            self.semicolon("the call")?;
            return Ok(StmtKind::Call(target));
        }
        self.no_effect(&target)
    }

    fn no_effect<T>(&mut self, value: &Expr) -> Parsed<T> {
        if matches!(value.kind, ExprKind::Name(_) | ExprKind::Member(..) | ExprKind::Slice { .. } | ExprKind::Index(..))
            && !self.is(";")
        {
            return self.unexpected("`=` or `(` in a statement");
        }
        let error = Diagnostic::new(value.span, "this statement has no effect", "the value is not used");
        let compares = matches!(value.kind, ExprKind::Binary(BinaryOp::Eq, ..));
        let help = if compares { "`=` assigns, `==` compares" } else { "a statement is an assignment or a call" };
        self.fail(error.with_help(help))
    }

    /// Takes the sign of a compound assignment, such as `+=`.
    fn compound_operator(&mut self) -> Parsed<Option<BinaryOp>> {
        let TokenKind::Punctuation(sign) = self.peek().kind else { return Ok(None) };
        if matches!(sign, "++") && is_punctuation(self.ahead(1), ";") {
            return self.unsupported("`++` as a statement", Some("write `a = a + 1`"));
        }
        let assigns = sign.ends_with('=') && sign.len() >= 2 && !matches!(sign, "==" | "!=" | "<=" | ">=");
        if !assigns {
            return Ok(None);
        }
        let op = match &sign[..sign.len() - 1] {
            "+" => BinaryOp::Add,
            "-" => BinaryOp::Sub,
            "*" => BinaryOp::Mul,
            "/" => BinaryOp::Div,
            "%" => BinaryOp::Mod,
            "&" => BinaryOp::And,
            "|" => BinaryOp::Or,
            "^" => BinaryOp::Xor,
            "<<" => BinaryOp::Shl,
            ">>" => BinaryOp::Shr,
            "|+|" => BinaryOp::SatAdd,
            "|-|" => BinaryOp::SatSub,
            _ => return self.unexpected("`=` in an assignment"),
        };
        self.bump();
        Ok(Some(op))
    }

    /// Reports a misspelt keyword at the beginning of a statement, as in `esle {` or `fi (...) {`.
    fn refuse_word(&mut self) -> Parsed<()> {
        let TokenKind::Ident(word) = &self.peek().kind else { return Ok(()) };
        let next = self.ahead(1);
        let block_follows = is_punctuation(next, "{") || is_punctuation(next, "(") && self.block_follows_parentheses(1);
        if !block_follows && !is_punctuation(next, ";") {
            return Ok(());
        }
        let near = near_statement(word);
        if !block_follows && near.is_none() {
            return Ok(());
        }
        let error = self.unexpected_error("a statement");
        self.fail(match near {
            Some(near) => error.with_help(near),
            None => error.with_help("statements are `if`, `switch`, assignments and calls"),
        })
    }

    /// Whether a block follows the closing parenthesis that belongs to the opening parenthesis `from` tokens ahead.
    fn block_follows_parentheses(&self, from: usize) -> bool {
        let mut open = 0usize;
        for (count, token) in self.tokens[self.at + from..].iter().enumerate() {
            match token.kind {
                TokenKind::Punctuation("(") => open += 1,
                TokenKind::Punctuation(")") => open -= 1,
                TokenKind::Punctuation(";" | "{" | "}") | TokenKind::End => return false,
                _ => {}
            }
            if open == 0 {
                return is_punctuation(self.ahead(from + count + 1), "{");
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

    /// Parses the expression in parentheses after the keyword `if` or `switch`.
    fn condition(&mut self, keyword: crate::source::Span, name: &str) -> Parsed<Expr> {
        if !self.is("(") {
            let error =
                self.unexpected_error(&format!("`(` after `{name}`")).with_related(keyword, "of this statement");
            return self.fail(error.with_help(format!("the expression of `{name}` stands in parentheses")));
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
        let kind = self.nested_parse(Parser::statement_kind)?;
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
            TokenKind::Keyword("default") => {
                self.bump();
                None
            }
            TokenKind::Keyword("_") => {
                let error = self.unexpected_error("a label");
                return self.fail(error.with_help("the label for all other values is `default`"));
            }
            TokenKind::Ident(_) if self.word() == "case" && !is_punctuation(self.ahead(1), ":") => {
                let error = self.unexpected_error("a label");
                return self.fail(error.with_help("a case is `label: { ... }`, without `case` before it"));
            }
            _ => Some(self.expr()?),
        };
        let span = span.to(self.last_span());
        self.expect(":", "after the label of a case")?;
        let body = if self.is("{") { Some(self.block("the case")?) } else { None };
        if body.is_none() && !self.begins_label() {
            let error = self.unexpected_error("`{` or the next case");
            return self.fail(error.with_help("the statements of a case stand in a block: `label: { ... }`"));
        }
        Ok(SwitchCase { label, span, body })
    }

    fn word(&self) -> &str {
        match &self.peek().kind {
            TokenKind::Ident(word) => word,
            _ => "",
        }
    }

    /// Whether the current token may begin a label of a `switch` statement, or may be the `}` after the last case.
    fn begins_label(&self) -> bool {
        match self.peek().kind {
            TokenKind::Keyword("default" | "true" | "false")
            | TokenKind::Punctuation("}" | "(" | "-" | "~")
            | TokenKind::Number(..) => true,
            TokenKind::Ident(_) => {
                matches!(self.ahead(1).kind, TokenKind::Punctuation(":" | ".")) && !self.call_follows()
            }
            _ => false,
        }
    }

    /// Whether a call `a.b(` begins at the current token. A call begins a statement, not a label.
    fn call_follows(&self) -> bool {
        is_punctuation(self.ahead(1), ".") && is_punctuation(self.ahead(3), "(")
    }
}

/// Returns the advice `did you mean ...?` if the keyword of a statement is similar to `word`.
fn near_statement(word: &str) -> Option<String> {
    let words = ["if", "else", "switch", "return", "exit", "const", "transition"];
    nearest(word, words).map(|near| format!("did you mean `{near}`?"))
}
