//! Markers of generated text in Markdown.

/// The name in a marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker<'p> {
    /// A block: `<!-- generated: NAME -->` ... `<!-- end -->`.
    Block(&'p str),
    /// An inline value: `<!--=NAME-->` ... `<!--/-->`.
    Value(&'p str),
}

const BLOCK: &str = "<!-- generated: ";
const VALUE: &str = "<!--=";
const CLOSE: &str = "-->";
const END: &str = "<!-- end -->";
const END_VALUE: &str = "<!--/-->";

/// A part of a page.
enum Part<'p> {
    Text(&'p str),
    Marked { marker: Marker<'p>, opening: &'p str },
}

/// Splits a page into text and markers. The contents of the markers are left out.
fn parts(page: &str) -> Result<Vec<Part<'_>>, Vec<String>> {
    let (mut parts, mut errors, mut rest) = (Vec::new(), Vec::new(), page);
    loop {
        let block = rest.find(BLOCK).map(|at| (at, true));
        let value = rest.find(VALUE).map(|at| (at, false));
        let Some((at, is_block)) = block.into_iter().chain(value).min() else {
            parts.push(Part::Text(rest));
            break;
        };
        parts.push(Part::Text(&rest[..at]));
        rest = &rest[at..];
        let (opening, end) = if is_block { (BLOCK, END) } else { (VALUE, END_VALUE) };
        let Some(close) = rest.find(CLOSE) else {
            errors.push(format!("`{}` has no `{CLOSE}`", line(rest)));
            break;
        };
        let name = rest[opening.len()..close].trim();
        let marker = if is_block { Marker::Block(name) } else { Marker::Value(name) };
        let after = close + CLOSE.len();
        // A marker of the same kind before the end means that the end is missing.
        let Some(length) = rest[after..].find(end).filter(|at| !rest[after..after + at].contains(opening)) else {
            errors.push(format!("`{}` has no `{end}`", line(rest)));
            rest = &rest[after..];
            continue;
        };
        parts.push(Part::Marked { marker, opening: &rest[..after] });
        rest = &rest[after + length + end.len()..];
    }
    if errors.is_empty() { Ok(parts) } else { Err(errors) }
}

fn line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// The page with the contents of all markers replaced by what `of` returns for them.
///
/// # Errors
/// A sentence for each marker that is not closed, and those of `of`.
pub fn replace<'p>(
    page: &'p str, mut of: impl FnMut(Marker<'p>) -> Result<String, String>,
) -> Result<String, Vec<String>> {
    let mut text = String::with_capacity(page.len());
    let mut errors = Vec::new();
    for part in parts(page)? {
        match part {
            Part::Text(own) => text += own,
            Part::Marked { marker, opening } => match (of(marker), marker) {
                (Ok(content), Marker::Block(_)) => {
                    text += &format!("{opening}\n\n{}\n\n{END}", content.trim());
                }
                (Ok(content), Marker::Value(_)) => text += &format!("{opening}{content}{END_VALUE}"),
                (Err(why), _) => errors.push(format!("`{opening}`: {why}")),
            },
        }
    }
    if errors.is_empty() { Ok(text) } else { Err(errors) }
}

/// The text of a page without what is generated. An inline value leaves the word `VALUE`.
///
/// # Errors
/// A sentence for each marker that is not closed.
pub fn without(page: &str) -> Result<String, Vec<String>> {
    let one = |part: Part<'_>| match part {
        Part::Text(own) => own.to_string(),
        Part::Marked { marker: Marker::Block(_), .. } => String::new(),
        Part::Marked { marker: Marker::Value(_), .. } => "VALUE".to_string(),
    };
    Ok(parts(page)?.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A\n\n<!-- generated: irn/rows -->\nold\n<!-- end -->\n\nWe have <!--=irn.inside-->1<!--/--> rows.\n";

    #[test]
    fn only_the_contents_of_markers_change() {
        let of = |marker: Marker<'_>| Ok(format!("{marker:?}"));
        let expected = "# A\n\n<!-- generated: irn/rows -->\n\nBlock(\"irn/rows\")\n\n<!-- end -->\n\n\
                        We have <!--=irn.inside-->Value(\"irn.inside\")<!--/--> rows.\n";
        assert_eq!(replace(PAGE, of).as_deref(), Ok(expected));
        assert_eq!(replace(expected, of).as_deref(), Ok(expected));
        assert_eq!(without(PAGE).unwrap(), "# A\n\n\n\nWe have VALUE rows.\n");
    }

    #[test]
    fn open_markers_and_unknown_names_are_errors() {
        let unknown = replace(PAGE, |_| Err("no data".to_string())).unwrap_err();
        assert_eq!(unknown, ["`<!-- generated: irn/rows -->`: no data", "`<!--=irn.inside-->`: no data"]);
        for (from, part) in [("<!-- end -->", "irn/rows"), ("<!--/-->", "irn.inside")] {
            let errors = replace(&PAGE.replace(from, ""), |_| Ok(String::new())).unwrap_err();
            assert!(errors[0].contains(part) && errors[0].contains("has no"), "{errors:?}");
        }
        let two = format!("{}{PAGE}", PAGE.replace("<!-- end -->", ""));
        assert!(replace(&two, |_| Ok(String::new())).is_err(), "the end of the second block is not that of the first");
    }
}
