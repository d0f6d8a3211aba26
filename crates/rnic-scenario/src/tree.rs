//! A parsed TOML text as a tree in which every key and value knows its position in the text.
//!
//! The values of a scenario may come from several texts: the scenario file, the files that it extends, and each `--set`
//! override.

use super::error::{Mistake, ScenarioError};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A position in one of the texts of a scenario (files and overrides).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct At {
    /// Index of the text in the list of texts, [`Documents`].
    document: usize,
    /// Range of bytes in the text.
    span: Range<usize>,
}

impl At {
    /// A position in no text, of values that are in the tree only to find further mistakes.
    pub(super) fn nowhere() -> At {
        At { document: usize::MAX, span: 0..0 }
    }

    /// Whether the position is in no text.
    pub(super) fn is_nowhere(&self) -> bool {
        self.document == usize::MAX
    }

    /// A pair of numbers that differs for values at different positions, and sorts them by text and by position in the
    /// text.
    pub(super) fn order(&self) -> (usize, usize) {
        (self.document, self.span.start)
    }
}

/// A node of the tree: a TOML value and its position in the text.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: At,
}

/// A TOML value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    String(String),
    /// An integer of more than 128 bits is stored as `i128::MAX`, which is out of the range of every key.
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Datetime,
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table, with its value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: At,
    pub(super) node: Node,
}

impl Value {
    /// The kind of this value with an article, such as "a string", for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a decimal number",
            Value::Boolean(_) => "a boolean",
            Value::Datetime => "a date",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }
}

/// How a mistake can be repaired in the tree, and from which values of the scenario it follows.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Repair {
    /// The mistake may follow from several values of the scenario. The value at which it points is removed.
    Conflict,
    /// The mistake follows from the value at which it points, and from nothing else. The value is removed.
    Remove,
    /// The mistake follows from the value at which it points, and from nothing else. This TOML text replaces the value.
    Replace(String),
    /// The mistake points at a key that its table does not have. The key is removed.
    Forget {
        /// Position of the value that determines which keys the table has.
        selector: Option<At>,
        /// Keys that the user may have meant.
        meant: Vec<String>,
    },
    /// The table at which the mistake points lacks a key. This line of TOML text is added to the table.
    Add {
        /// The missing key.
        key: String,
        /// TOML text with the key and a valid value.
        line: String,
    },
}

/// All texts from which the values of a scenario came. The first is the scenario file.
#[derive(Debug, Default)]
pub(super) struct Documents {
    documents: Vec<Document>,
    /// Whether all files count as the scenario file itself, also those that it extends ([`Documents::is_own`]).
    all_own: bool,
    /// The mistakes found so far, each with its position, its message, and how it can be repaired.
    repairs: RefCell<Vec<(At, String, Repair)>>,
}

#[derive(Debug)]
struct Document {
    name: String,
    text: String,
    /// Folder at which relative paths in the text start; for an override (`--set`), the folder of the scenario file.
    folder: PathBuf,
    is_override: bool,
}

impl Documents {
    /// Adds a file to the texts and returns its index. Relative paths in the file start at `folder`.
    pub(super) fn add_file(&mut self, name: &str, text: &str, folder: &Path) -> usize {
        let (name, text, folder) = (name.to_string(), text.to_string(), folder.to_path_buf());
        self.documents.push(Document { name, text, folder, is_override: false });
        self.documents.len() - 1
    }

    /// Adds the text of an override (`--set`) to the texts and returns its index.
    pub(super) fn add_override(&mut self, text: &str) -> usize {
        let folder = self.documents.first().map_or(PathBuf::new(), |file| file.folder.clone());
        let name = format!("--set {text}");
        self.documents.push(Document { name, text: text.to_string(), folder, is_override: true });
        self.documents.len() - 1
    }

    /// The folder at which a relative path written at the position `at` starts.
    pub(super) fn folder_at(&self, at: &At) -> &Path {
        self.documents.get(at.document).map_or(Path::new(""), |document| &document.folder)
    }

    /// Whether two positions are in the same file or override.
    pub(super) fn same_text(&self, a: &At, b: &At) -> bool {
        a.document == b.document
    }

    /// Whether a position is in the scenario file itself or in an override, not in a file that the scenario extends.
    pub(super) fn is_own(&self, at: &At) -> bool {
        self.all_own || at.document == 0 || self.documents.get(at.document).is_some_and(|document| document.is_override)
    }

    /// From now on, [`Documents::is_own`] is true for all positions.
    pub(super) fn own_all(&mut self) {
        self.all_own = true;
    }

    /// Whether a mistake points at exactly the position `at`.
    pub(super) fn is_at(&self, mistake: &Mistake, at: &At) -> bool {
        self.documents.get(at.document).is_some_and(|document| document.name == mistake.file) && at.span == mistake.span
    }

    /// Whether a mistake lies within the range of bytes `at` of its text.
    pub(super) fn within(&self, mistake: &Mistake, at: &At) -> bool {
        self.documents.get(at.document).is_some_and(|document| document.name == mistake.file)
            && at.span.start <= mistake.span.start
            && mistake.span.end <= at.span.end
    }

    /// The position of the range of bytes `span` in the text with the index `document`.
    pub(super) fn at(&self, document: usize, span: Range<usize>) -> At {
        At { document, span }
    }

    /// The part of a text at the position `at`.
    pub(super) fn text_at(&self, at: &At) -> &str {
        self.documents.get(at.document).and_then(|document| document.text.get(at.span.clone())).unwrap_or("")
    }

    /// The later of two positions. A `--set` counts as later than all files, a file as later than the files that it
    /// extends; in the same text, the position further down is later.
    pub(super) fn later<'p>(&self, a: &'p At, b: &'p At) -> &'p At {
        let rank = |at: &At| {
            let is_override = self.documents.get(at.document).is_some_and(|document| document.is_override);
            // A file is added to the texts before the files that it extends.
            let (file, argument) = if is_override { (0, at.document) } else { (at.document, 0) };
            (argument, Reverse(file), at.span.start)
        };
        if rank(a) > rank(b) { a } else { b }
    }

    /// An error that points at the position `at`.
    pub(super) fn mistake(&self, at: &At, message: impl Into<String>, help: Option<String>) -> ScenarioError {
        let (file, text, is_override) = match self.documents.get(at.document) {
            Some(document) => (document.name.clone(), document.text.clone(), document.is_override),
            None => Default::default(),
        };
        let (span, message) = (at.span.clone(), message.into());
        self.repairs.borrow_mut().push((at.clone(), message.clone(), Repair::Conflict));
        ScenarioError::Mistake(Box::new(Mistake { file, text, span, message, help, is_override }))
    }

    /// Notes how `error` can be repaired, which must be the latest error of [`Documents::mistake`]. Without this note,
    /// the mistake counts as a conflict of several values.
    pub(super) fn repaired_by(&self, repair: Repair, error: ScenarioError) -> ScenarioError {
        if let Some(last) = self.repairs.borrow_mut().last_mut() {
            last.2 = repair;
        }
        error
    }

    /// The position of a mistake, and how it can be repaired.
    pub(super) fn repair_of(&self, mistake: &Mistake) -> Option<(At, Repair)> {
        let name = |at: &At| self.documents.get(at.document).map_or("", |document| &document.name);
        let repairs = self.repairs.borrow();
        // The reader may have appended the name of the run to the message.
        let is_same = |(at, message, _): &&(At, String, Repair)| {
            at.span == mistake.span && name(at) == mistake.file && mistake.message.starts_with(message.as_str())
        };
        repairs.iter().rev().find(is_same).map(|(at, _, repair)| (at.clone(), repair.clone()))
    }

    /// Parses the whole text with the index `document` into a tree.
    pub(super) fn parse(&self, document: usize) -> Result<Node, ScenarioError> {
        let text = self.documents.get(document).map_or("", |document| document.text.as_str());
        match DeTable::parse(text) {
            Ok(table) => {
                let (span, table) = (table.span(), table.into_inner());
                Ok(convert(document, 0, span, DeValue::Table(table)))
            }
            Err(error) => Err(self.syntax_mistake(document, &error)),
        }
    }

    /// The scenario error for a syntax error of the TOML parser. If the parser misread a word without quotes as a
    /// broken number or boolean, the message says instead that the word is not a value.
    fn syntax_mistake(&self, document: usize, error: &toml::de::Error) -> ScenarioError {
        let at = self.at(document, error.span().unwrap_or(0..0));
        if error.message() == "duplicate key" {
            let message = format!("this is not TOML: the key `{}` is given twice", self.text_at(&at).trim());
            return self.mistake(&at, message, Some("remove one of the two".to_string()));
        }
        let about_a_value = ["string values must be quoted", "invalid boolean", "invalid float"];
        if !about_a_value.iter().any(|start| error.message().starts_with(start)) {
            return self.mistake(&at, format!("this is not TOML: {}", error.message()), None);
        }
        let message = match self.text_at(&at).lines().next().map(str::trim) {
            None | Some("") => "this is not TOML: a value is missing".to_string(),
            Some(word) => format!("this is not TOML: `{word}` is not a value"),
        };
        self.mistake(&at, message, Some("a value is a number, true, false, or text in quotes".to_string()))
    }

    /// Parses the TOML value at `span` of the text with the index `document`. Text that is not a TOML value counts as a
    /// string, so that quotation marks can be left out.
    ///
    /// # Errors
    /// The text begins like an array, a table or a quoted string, and is none.
    pub(super) fn parse_value(&self, document: usize, span: Range<usize>) -> Result<Node, ScenarioError> {
        let at = self.at(document, span.clone());
        let text = self.text_at(&at);
        match DeValue::parse(text) {
            Ok(value) => {
                let (inner, value) = (value.span(), value.into_inner());
                Ok(convert(document, span.start, inner, value))
            }
            Err(_) if text.starts_with(['[', '{', '"', '\'']) => {
                let help = "write for example `[0.1, 0.2]`, `{ kmin = \"5 KB\" }` or `\"40 Gbps\"`";
                Err(self.mistake(&at, format!("`{text}` is not a TOML value"), Some(help.to_string())))
            }
            Err(_) => Ok(Node { value: Value::String(text.to_string()), at }),
        }
    }
}

/// Turns a value of the TOML parser into a tree. All positions are shifted by `offset`, and keys keep the order of the
/// text.
fn convert(document: usize, offset: usize, span: Range<usize>, value: DeValue<'_>) -> Node {
    let at = |span: Range<usize>| At { document, span: span.start + offset..span.end + offset };
    let child = |value: Spanned<DeValue<'_>>| {
        let span = value.span();
        convert(document, offset, span, value.into_inner())
    };
    let converted = match value {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(digits) => {
            let number = i128::from_str_radix(digits.as_str(), digits.radix());
            Value::Integer(number.unwrap_or(i128::MAX))
        }
        DeValue::Float(digits) => Value::Float(digits.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Boolean(flag),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(values) => Value::Array(values.into_iter().map(child).collect()),
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<_>, Spanned<_>)| Entry {
                key_at: at(key.span()),
                key: std::borrow::Cow::into_owned(key.into_inner()),
                node: child(value),
            };
            let mut entries: Vec<Entry> = table.into_iter().map(entry).collect();
            entries.sort_by_key(|entry| entry.key_at.span.start);
            Value::Table(entries)
        }
    };
    Node { value: converted, at: at(span) }
}
