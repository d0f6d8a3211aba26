//! Recognises programs in P4_14, the older version of the language, which this compiler does not read.

use crate::diagnostic::Diagnostic;
use crate::lexer::{Token, TokenKind};

/// Words that begin a declaration of P4_14 and none of P4_16.
const DECLARATIONS: [&str; 4] = ["header_type", "field_list", "field_list_calculation", "calculated_field"];

/// The error of a program that has a declaration of P4_14: such a word at the beginning of a declaration, and a name
/// behind it.
pub(super) fn error(tokens: &[Token]) -> Option<Diagnostic> {
    let mut depth = 0_usize;
    let mut begins = true;
    for (at, token) in tokens.iter().enumerate() {
        if let (TokenKind::Ident(word), 0, true) = (&token.kind, depth, begins)
            && DECLARATIONS.contains(&&**word)
            && matches!(tokens.get(at + 1).map(|next| &next.kind), Some(TokenKind::Ident(_)))
        {
            let error =
                Diagnostic::new(token.span, "the program is in P4_14", format!("`{word}` is a declaration of P4_14"));
            return Some(error.with_help(
                "rnic compiles P4_16; translate the program, for example with `p4test --std p4-14 --pp OUT.p4`",
            ));
        }
        begins = false;
        match token.kind {
            TokenKind::Punctuation("{") => depth += 1,
            TokenKind::Punctuation("}") => {
                depth = depth.saturating_sub(1);
                begins = true;
            }
            TokenKind::Punctuation(";") => begins = true,
            _ => {}
        }
    }
    None
}
