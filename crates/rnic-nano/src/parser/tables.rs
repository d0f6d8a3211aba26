//! The part of the P4 parser for match-action tables with their keys, actions and entries.

use super::{Parsed, Parser, is_punctuation};
use crate::ast::{ActionRef, Entry, Expr, Ident, Table};
use crate::diagnostic::{Diagnostic, nearest};
use crate::lexer::TokenKind;
use crate::source::Span;

/// The properties of a P4 table that this compiler supports.
const PROPERTIES: [&str; 6] = ["key", "actions", "entries", "default_action", "size", "largest_priority_wins"];
const KNOWN: &str = "a table has `key`, `actions`, `entries`, `default_action`, `size` and `largest_priority_wins`";

impl Parser {
    pub(super) fn table(&mut self) -> Parsed<Table> {
        self.bump();
        let name = self.ident("the table")?;
        let what = format!("the table `{}`", name.name);
        let mut table = Table {
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default: None,
            entries: Vec::new(),
            entries_const: false,
            size: None,
            largest_priority_wins: true,
        };
        let mut seen: Vec<(String, Span)> = Vec::new();
        self.braces(&what, |parser| parser.property(&mut table, &mut seen))?;
        Ok(table)
    }

    fn property(&mut self, table: &mut Table, seen: &mut Vec<(String, Span)>) -> Parsed<()> {
        self.annotations()?;
        let constant = self.eat_keyword("const");
        let span = self.span();
        let TokenKind::Ident(word) = &self.peek().kind else {
            let error = self.unexpected_error("a property of the table");
            let help = if self.is_keyword("action") { "did you mean `actions`?" } else { KNOWN };
            return self.fail(error.with_help(help));
        };
        let word = word.to_string();
        if !PROPERTIES.contains(&word.as_str()) {
            return self.unknown_property(&word);
        }
        if let (Some(const_span), false) = (constant, matches!(word.as_str(), "entries" | "default_action")) {
            let error =
                Diagnostic::new(const_span, format!("`{word}` cannot be `const`"), "`const` is not allowed here");
            return self.fail(error.with_help(
                "only `entries` and `default_action` can be `const`: then the control plane cannot change them",
            ));
        }
        if let Some((_, first)) = seen.iter().find(|(name, _)| *name == word) {
            let error = Diagnostic::new(span, format!("the table has a second `{word}`"), "duplicate property");
            let error = error.with_related(*first, "the first one");
            return self.fail(error);
        }
        seen.push((word.clone(), span));
        self.bump();
        match word.as_str() {
            "key" => self.keys(&mut table.keys),
            "actions" => self.actions(&mut table.actions),
            "entries" => {
                table.entries_const = constant.is_some();
                self.entries(&mut table.entries)
            }
            "largest_priority_wins" => {
                self.expect("=", "after `largest_priority_wins`")?;
                let wins = self.is_keyword("true");
                if !wins && !self.is_keyword("false") {
                    return self.unexpected("`true` or `false`");
                }
                self.bump();
                table.largest_priority_wins = wins;
                self.semicolon("`largest_priority_wins`").map(|_| ())
            }
            "size" => {
                table.size = Some(self.property_value("size")?);
                Ok(())
            }
            _ => {
                self.expect("=", "after `default_action`")?;
                let action = self.action_ref()?;
                self.semicolon("the default action")?;
                table.default = Some((action, constant.is_some()));
                Ok(())
            }
        }
    }

    fn unknown_property(&mut self, word: &str) -> Parsed<()> {
        let help = nearest(word, PROPERTIES).map_or_else(|| KNOWN.into(), |near| format!("did you mean `{near}`?"));
        self.unsupported(&format!("the table property `{word}`"), Some(&help))
    }

    fn keys(&mut self, keys: &mut Vec<(Expr, Ident)>) -> Parsed<()> {
        self.expect("=", "after `key`")?;
        self.braces("the keys", |parser| {
            let key = parser.expr()?;
            if parser.is(";") {
                let error = parser.unexpected_error("`:` and the match kind of the key");
                return parser.fail(error.with_help("write `key: exact;`, `key: ternary;` or `key: lpm;`"));
            }
            parser.expect(":", "after the key")?;
            if !matches!(parser.peek().kind, TokenKind::Ident(_)) {
                return parser.unexpected("a match kind: `exact`, `ternary` or `lpm`");
            }
            let kind = parser.ident("a match kind")?;
            parser.annotations()?;
            parser.semicolon("the key")?;
            keys.push((key, kind));
            Ok(())
        })?;
        self.eat(";");
        Ok(())
    }

    fn actions(&mut self, actions: &mut Vec<ActionRef>) -> Parsed<()> {
        self.expect("=", "after `actions`")?;
        self.braces("the actions", |parser| {
            let action = parser.action_ref()?;
            if parser.is(",") {
                let error = parser.unexpected_error("`;` after the action");
                return parser.fail(error.with_help("each action in this list ends with `;`"));
            }
            parser.semicolon("the action")?;
            actions.push(action);
            Ok(())
        })?;
        self.eat(";");
        Ok(())
    }

    fn action_ref(&mut self) -> Parsed<ActionRef> {
        let annotations = self.annotations()?;
        if self.is(".") {
            return self.unsupported("a leading `.` before an action", Some("remove the `.`"));
        }
        let name = self.ident("an action")?;
        let arguments = if self.is("(") { self.arguments()? } else { Vec::new() };
        Ok(ActionRef { name, arguments, annotations })
    }

    fn entries(&mut self, entries: &mut Vec<Entry>) -> Parsed<()> {
        self.expect("=", "after `entries`")?;
        self.braces("the entries", |parser| {
            entries.push(parser.entry()?);
            Ok(())
        })?;
        self.eat(";");
        Ok(())
    }

    fn entry(&mut self) -> Parsed<Entry> {
        self.annotations()?;
        if self.is_keyword("const") {
            return self.unsupported("`const` before an entry", Some("write `const entries`, or remove `const`"));
        }
        let priority = if self.is_word("priority") && matches!(self.ahead(1).kind, TokenKind::Punctuation("=")) {
            self.bump();
            self.bump();
            let value = self.expr()?;
            self.expect(":", "after the priority of an entry")?;
            Some(value)
        } else {
            None
        };
        let (keys, span) = self.key_sets()?;
        if is_punctuation(self.peek(), ",") {
            let error = self.unexpected_error("`:` after the keys of an entry");
            return self.fail(error.with_help("several keys stand in parentheses: `(1, 2): action();`"));
        }
        self.expect(":", "after the keys of an entry")?;
        let action = self.action_ref()?;
        self.annotations()?;
        self.semicolon("the entry")?;
        Ok(Entry { keys, span, action, priority })
    }
}
