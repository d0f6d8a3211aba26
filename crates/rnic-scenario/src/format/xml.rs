//! Reads the subset of XML that topology files of NCCL use: elements with attributes, comments and a declaration.

use super::list::AtLine;

/// Maximum depth of nested elements.
const MAX_DEPTH: usize = 64;

/// An element with its attributes and its nested elements. Text between elements is ignored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    /// Line of the file in which the element begins.
    pub line: u64,
}

impl Element {
    /// The value of an attribute; `None` if the element does not have the attribute, or if it is empty.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// The part of a file that has not been read.
struct Rest<'t> {
    text: &'t str,
    line: u64,
}

impl<'t> Rest<'t> {
    /// Takes the next `bytes` bytes.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.text.split_at(bytes);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.text = rest;
        taken
    }

    /// Takes the text up to `end`, and `end`.
    fn until(&mut self, end: &str, what: &str) -> Result<&'t str, AtLine> {
        match self.text.find(end) {
            Some(at) => {
                let taken = self.take(at);
                self.take(end.len());
                Ok(taken)
            }
            None => Err((self.line, format!("{what} has no end; write `{end}`"))),
        }
    }

    fn skip_space(&mut self) {
        let space = self.text.len() - self.text.trim_start().len();
        self.take(space);
    }

    /// Takes a name of an element or an attribute.
    fn name(&mut self) -> Result<&'t str, AtLine> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let end = self.text.find(|c| !is_part(c)).unwrap_or(self.text.len());
        match end {
            0 => Err((self.line, "a name is missing; write for example `<gpu dev=\"0\"/>`".to_string())),
            end => Ok(self.take(end)),
        }
    }

    /// Takes the attributes of an element and the end of its tag; returns whether the element ends there.
    fn attributes(&mut self, element: &mut Element) -> Result<bool, AtLine> {
        loop {
            self.skip_space();
            if self.text.starts_with("/>") {
                self.take(2);
                return Ok(true);
            }
            if self.text.starts_with('>') {
                self.take(1);
                return Ok(false);
            }
            let name = self.name()?;
            self.skip_space();
            let missing = (self.line, format!("the attribute `{name}` has no value; write `{name}=\"VALUE\"`"));
            if !self.text.starts_with('=') {
                return Err(missing);
            }
            self.take(1);
            self.skip_space();
            let quote = match self.text.as_bytes().first() {
                Some(b'"') => "\"",
                Some(b'\'') => "'",
                _ => return Err(missing),
            };
            self.take(1);
            let value = self.until(quote, "a value")?;
            if element.attributes.iter().any(|(own, _)| own == name) {
                return Err((self.line, format!("the attribute `{name}` is there twice; once is enough")));
            }
            element.attributes.push((name.to_string(), value.to_string()));
        }
    }
}

/// Reads the one element of a file.
pub(super) fn parse(text: &str) -> Result<Element, AtLine> {
    let mut rest = Rest { text: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let mut open: Vec<Element> = Vec::new();
    loop {
        let Some(at) = rest.text.find('<') else {
            let error = match open.last() {
                Some(element) => (element.line, format!("`<{0}>` has no end; write `</{0}>`", element.name)),
                None => (1, "the file has no XML element; accepted: `<system version=\"1\">` ...".to_string()),
            };
            return Err(error);
        };
        rest.take(at + 1);
        let ended = if rest.text.starts_with("!--") {
            rest.until("-->", "a comment")?;
            None
        } else if rest.text.starts_with('?') {
            rest.until("?>", "a declaration")?;
            None
        } else if rest.text.starts_with('!') {
            return Err((rest.line, "`<!` begins neither a comment nor an element; remove it".to_string()));
        } else if rest.text.starts_with('/') {
            rest.take(1);
            let name = rest.name()?;
            rest.skip_space();
            if !rest.text.starts_with('>') {
                return Err((rest.line, format!("`</{name}` has no end; write `>`")));
            }
            rest.take(1);
            match open.pop() {
                Some(element) if element.name == name => Some(element),
                _ => return Err((rest.line, format!("`</{name}>` ends no open element; remove it"))),
            }
        } else {
            let line = rest.line;
            let mut element = Element { name: rest.name()?.to_string(), line, ..Element::default() };
            if rest.attributes(&mut element)? {
                Some(element)
            } else {
                open.push(element);
                None
            }
        };
        if open.len() > MAX_DEPTH {
            return Err((rest.line, format!("elements are nested too deeply; accepted: at most {MAX_DEPTH}")));
        }
        if let Some(element) = ended {
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => return Ok(element),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_have_attributes_children_and_lines() {
        let text = "<?xml version='1.0'?>\n<!-- a\n<b/> -->\n<a x=\"1\" y = '>'>text\n  <b/><c>\n</c >\n</a>\n";
        let root = parse(text).unwrap();
        assert_eq!((root.name.as_str(), root.line), ("a", 4));
        assert_eq!((root.attribute("x"), root.attribute("y"), root.attribute("z")), (Some("1"), Some(">"), None));
        let children: Vec<_> = root.children.iter().map(|child| (child.name.as_str(), child.line)).collect();
        assert_eq!(children, [("b", 5), ("c", 5)]);
    }

    #[test]
    fn damaged_files_say_where_and_what() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("x"), (1, "the file has no XML element; accepted: `<system version=\"1\">` ...".to_string()));
        assert_eq!(error("<a>\n<b>\n</a>").1, "`</a>` ends no open element; remove it");
        assert_eq!(error("\n<a>\n").0, 2);
        assert_eq!(error("<a x>").1, "the attribute `x` has no value; write `x=\"VALUE\"`");
        assert_eq!(error("<a x=\"1\" x=\"1\"/>").1, "the attribute `x` is there twice; once is enough");
        assert_eq!(error("<a x=\"1").1, "a value has no end; write `\"`");
        assert_eq!(error(&"<a>".repeat(100)).1, "elements are nested too deeply; accepted: at most 64");
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6)) {
            let mut bytes = b"<a x=\"1\"><!-- c --><b y='2'/></a>".to_vec();
            for (at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
