//! The value of the expression after `#if` and `#elif`.

use crate::lexer::{Token, TokenKind};

/// An error: the index of the token at which it was found, if the line has that token, and what is wrong.
pub(super) type Wrong = (Option<usize>, &'static str);

/// Maximum nesting of parentheses and signs.
const MAX_DEPTH: u32 = 100;

/// Operators from the weakest to the strongest.
const LEVELS: [&[&str]; 6] = [&["||"], &["&&"], &["==", "!="], &["<", "<=", ">", ">="], &["+", "-"], &["*"]];

/// The value of an expression of whole numbers. A name that is no macro is 0, as in C.
pub(super) fn value(tokens: &[Token]) -> Result<i128, Wrong> {
    let mut line = Line { tokens, at: 0, depth: 0 };
    let value = line.level(0)?;
    if line.at < tokens.len() { Err((Some(line.at), "more than one expression")) } else { Ok(value) }
}

struct Line<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: u32,
}

impl Line<'_> {
    fn sign(&self, among: &[&'static str]) -> Option<&'static str> {
        match self.tokens.get(self.at)?.kind {
            TokenKind::Punctuation(sign) => among.iter().find(|other| **other == sign).copied(),
            _ => None,
        }
    }

    fn level(&mut self, level: usize) -> Result<i128, Wrong> {
        let Some(signs) = LEVELS.get(level) else { return self.operand() };
        let mut value = self.level(level + 1)?;
        while let Some(sign) = self.operator(signs) {
            let at = self.at - 1;
            let other = self.level(level + 1)?;
            let whole = |number: Option<i128>| number.ok_or((Some(at), "a number that is too large"));
            value = match sign {
                "||" => i128::from(value != 0 || other != 0),
                "&&" => i128::from(value != 0 && other != 0),
                "==" => i128::from(value == other),
                "!=" => i128::from(value != other),
                "<" => i128::from(value < other),
                "<=" => i128::from(value <= other),
                ">" => i128::from(value > other),
                ">=" => i128::from(value >= other),
                "+" => whole(value.checked_add(other))?,
                "-" => whole(value.checked_sub(other))?,
                _ => whole(value.checked_mul(other))?,
            };
        }
        Ok(value)
    }

    /// Takes an operator.
    fn operator(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let sign = self.sign(signs)?;
        self.at += 1;
        Some(sign)
    }

    fn operand(&mut self) -> Result<i128, Wrong> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((Some(self.at.min(self.tokens.len() - 1)), "too many parentheses"));
        }
        let Some(token) = self.tokens.get(self.at) else {
            return Err((self.at.checked_sub(1), "no value at its end"));
        };
        self.at += 1;
        let at = self.at - 1;
        let value = match token.kind {
            TokenKind::Number(value, _) => i128::try_from(value).map_err(|_| (Some(at), "a number that is too large")),
            TokenKind::Ident(_) => Ok(0),
            TokenKind::Keyword("true") => Ok(1),
            TokenKind::Keyword("false") => Ok(0),
            TokenKind::Punctuation("!") => self.operand().map(|value| i128::from(value == 0)),
            TokenKind::Punctuation("-") => self.operand().map(|value| -value),
            TokenKind::Punctuation("(") => {
                let value = self.level(0)?;
                match self.sign(&[")"]) {
                    Some(_) => {
                        self.at += 1;
                        Ok(value)
                    }
                    None => Err((Some(at), "a `(` without its `)`")),
                }
            }
            _ => Err((Some(at), "something that is not a number or a name")),
        };
        self.depth -= 1;
        value
    }
}
