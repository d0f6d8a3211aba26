//! Mutants: copies of a block with one changed condition. A comparison that does not detect a mutant is too weak.

/// One change in a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Line of the change, from 1.
    pub line: usize,
    /// Byte offset of the change in the source text.
    at: usize,
    /// The text that the change replaces.
    pub from: &'static str,
    /// The replacement.
    pub to: &'static str,
}

/// The changes of mutants, as (text, replacement): operators, conditions, constants. The first text that occurs at a
/// place is replaced.
const CHANGES: [(&str, &str); 12] = [
    (" && ", " || "),
    (" || ", " && "),
    (" >= ", " > "),
    (" < ", " <= "),
    (" == ", " != "),
    (" != ", " == "),
    (" + ", " - "),
    (" - 24'd1", ""),
    ("!", ""),
    ("~|", "|"),
    (" ? ", " == 0 ? "),
    (" & ~", " & "),
];

impl Change {
    /// Lists all changes of a source text: each place after the port list to which an entry of `CHANGES` applies.
    pub(crate) fn all(text: &str) -> Vec<Change> {
        let body = text.find(");\n").unwrap_or_default();
        let mut found = Vec::new();
        for (from, to) in CHANGES {
            for (at, _) in text.match_indices(from).filter(|(at, _)| *at > body) {
                let line = &text[text[..at].rfind('\n').map_or(0, |newline| newline + 1)..at];
                let after = text.as_bytes().get(at + from.len()).copied();
                // Comments, loops over constants, and `!=` are not conditions.
                let comment = line.contains("//") || line.trim_start().starts_with("for");
                if comment || (from == "!" && after == Some(b'=')) {
                    continue;
                }
                found.push(Change { line: text[..at].matches('\n').count() + 1, at, from, to });
            }
        }
        found.sort_by_key(|change| change.at);
        found
    }

    /// Applies the change to `text`, which must be the source text in which the change was found.
    pub fn apply(&self, text: &mut String) {
        text.replace_range(self.at..self.at + self.from.len(), self.to);
    }
}
