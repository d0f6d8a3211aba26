//! Mutants: copies of a block with one changed condition. A comparison that does not notice one is too weak.

/// One change in a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Line of the change, from 1.
    pub line: usize,
    /// Byte of the change.
    at: usize,
    /// The text that is replaced.
    pub from: &'static str,
    /// The text instead.
    pub to: &'static str,
}

/// What a mutant changes: an operator, a condition, a constant. The first of these texts that fits is taken.
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
    /// All changes of a source text: each place after the ports where one of the changes applies.
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
