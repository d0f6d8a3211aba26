//! A strict checker of the text format of OpenMetrics 1.0, for tests. It accepts only what this crate writes: counters
//! and gauges, without exemplars.

use std::collections::{BTreeMap, BTreeSet};

/// What a correct text contains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Number of samples of each family.
    pub samples: BTreeMap<String, usize>,
}

/// The family whose lines are being read.
struct Family {
    name: String,
    is_counter: bool,
    has_unit: bool,
    has_help: bool,
    /// Labels of the previous sample, and its time stamp in nanoseconds.
    previous: Option<(String, Option<u128>)>,
    /// Labels of all series so far.
    series: BTreeSet<String>,
    samples: usize,
}

/// Checks a text in the format of OpenMetrics, and counts its samples.
///
/// # Errors
/// The text does not have the format; the message begins with the number of the line.
pub fn open_metrics(text: &str) -> Result<Contents, String> {
    let mut contents = Contents::default();
    let mut family: Option<Family> = None;
    let body = text.strip_suffix("# EOF\n").ok_or("the last line is not `# EOF`")?;
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("`# EOF` is not a line of its own".to_string());
    }
    for (number, line) in body.lines().enumerate() {
        read_line(line, &mut family, &mut contents).map_err(|error| format!("line {}: {error}: {line}", number + 1))?;
    }
    close(family, &mut contents)?;
    Ok(contents)
}

fn read_line(line: &str, family: &mut Option<Family>, contents: &mut Contents) -> Result<(), String> {
    let Some(rest) = line.strip_prefix("# ") else {
        return family.as_mut().ok_or("a sample without a TYPE")?.add(line);
    };
    let mut words = rest.splitn(3, ' ');
    let (kind, name, text) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next());
    if !is_name(name, true) {
        return Err("no name of a metric".into());
    }
    let text = text.ok_or("a description without its text")?;
    if kind == "TYPE" {
        close(family.take(), contents)?;
        if contents.samples.contains_key(name) {
            return Err(format!("the family {name} is declared twice"));
        }
        let is_counter = match text {
            "counter" => true,
            "gauge" => false,
            _ => return Err(format!("unknown type {text}")),
        };
        let (name, series) = (name.to_string(), BTreeSet::new());
        *family =
            Some(Family { name, is_counter, has_unit: false, has_help: false, previous: None, series, samples: 0 });
        return Ok(());
    }
    let family = family.as_mut().filter(|family| family.name == name).ok_or("a description of another family")?;
    if family.samples > 0 {
        return Err("a description after samples".into());
    }
    match kind {
        "UNIT" if std::mem::replace(&mut family.has_unit, true) => Err("a second UNIT".into()),
        "UNIT" if !name.ends_with(&format!("_{text}")) => Err("the name does not end in the unit".into()),
        "UNIT" => Ok(()),
        "HELP" if std::mem::replace(&mut family.has_help, true) => Err("a second HELP".into()),
        "HELP" if unescaped(text).is_some_and(|(_, rest)| rest.is_empty()) => Ok(()),
        "HELP" => Err("a HELP with a wrong escape or a quotation mark".into()),
        _ => Err("neither TYPE nor UNIT nor HELP".into()),
    }
}

fn close(family: Option<Family>, contents: &mut Contents) -> Result<(), String> {
    let Some(family) = family else { return Ok(()) };
    // A sample name belongs to one family: a gauge `a_total` and a counter `a` would have the same.
    let other = if family.is_counter { Some(format!("{}_total", family.name)) } else { None };
    let other = other.or_else(|| family.name.strip_suffix("_total").map(str::to_string));
    if let Some(other) = other.filter(|other| contents.samples.contains_key(other)) {
        return Err(format!("the families {} and {other} share the name of samples", family.name));
    }
    contents.samples.insert(family.name, family.samples);
    Ok(())
}

impl Family {
    /// Reads a sample: `name{label="value",...} value time`.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let end = line.find(['{', ' ']).ok_or("a sample without a value")?;
        let expected = if self.is_counter { format!("{}_total", self.name) } else { self.name.clone() };
        if line[..end] != expected {
            return Err(format!("a sample of another family than {}", self.name));
        }
        let (labels, rest) = match line[end..].strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (String::new(), &line[end..]),
        };
        let mut numbers = rest.strip_prefix(' ').ok_or("no blank before the value")?.split(' ');
        let value: f64 = numbers.next().unwrap_or("").parse().map_err(|_| "the value is no number")?;
        if self.is_counter && !(value >= 0.0 && value.is_finite()) {
            return Err("the value of a counter is negative or not finite".into());
        }
        let time = numbers.next().map(nanoseconds).transpose()?;
        if numbers.next().is_some() {
            return Err("more than a value and a time".into());
        }
        match self.previous.take().filter(|(previous, _)| *previous == labels) {
            Some((_, before)) if before.is_none() || time.is_none() || before >= time => {
                return Err("the times of a series do not increase".into());
            }
            Some(_) => {}
            None if !self.series.insert(labels.clone()) => return Err("the samples of a series are apart".into()),
            None => {}
        }
        self.previous = Some((labels, time));
        self.samples += 1;
        Ok(())
    }
}

/// Reads labels up to the closing brace. Returns them sorted, as text, and what follows.
fn labels(mut text: &str) -> Result<(String, &str), String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let (name, rest) = text.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name, false) {
            return Err(format!("{name} is no name of a label"));
        }
        let (value, rest) = unescaped(rest).ok_or("a label with a wrong escape")?;
        if found.insert(name.to_string(), value).is_some() {
            return Err(format!("the label {name} occurs twice"));
        }
        let rest = rest.strip_prefix('"').ok_or("a label without a closing quotation mark")?;
        match (rest.strip_prefix(','), rest.strip_prefix('}')) {
            (Some(rest), _) => text = rest,
            (None, Some(rest)) => return Ok((format!("{found:?}"), rest)),
            (None, None) => return Err("neither a comma nor a brace after a label".into()),
        }
    }
}

/// The text up to a quotation mark or the end, without its escapes, and what follows. `None` for a wrong escape.
fn unescaped(text: &str) -> Option<(String, &str)> {
    let mut plain = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((plain, &text[at..])),
            '\\' => plain.push(match characters.next()?.1 {
                'n' => '\n',
                character @ ('\\' | '"') => character,
                _ => return None,
            }),
            character => plain.push(character),
        }
    }
    Some((plain, ""))
}

fn nanoseconds(text: &str) -> Result<u128, String> {
    let wrong = || format!("{text} is no time in seconds");
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let fraction: u128 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    let seconds: u128 = seconds.parse().map_err(|_| wrong())?;
    Ok(seconds * 1_000_000_000 + fraction)
}

/// Whether the text is a name of a metric or a label. Only names of metrics may have colons.
fn is_name(text: &str, is_metric: bool) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || (is_metric && c == ':');
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correct_text() {
        let text = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds A \\\"quoted\\\" text.\n\
                    a_seconds_total{x=\"1\",y=\"a\\\"b\"} 5 0.5\na_seconds_total{x=\"1\",y=\"a\\\"b\"} 7 1\n\
                    # TYPE b gauge\nb -1.5\n# EOF\n";
        let contents = open_metrics(text).unwrap();
        let samples: Vec<_> = contents.samples.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(samples, [("a_seconds", 2), ("b", 1)]);
        assert_eq!(open_metrics("# EOF\n"), Ok(Contents::default()));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("# TYPE a gauge\na 1\n", "# EOF"),
            ("a 1\n# EOF\n", "without a TYPE"),
            ("# TYPE a gauge\na 1\n# TYPE a counter\na_total 1\n# EOF\n", "declared twice"),
            ("# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\n# EOF\n", "declared twice"),
            ("# TYPE a_total gauge\na_total 1\n# TYPE a counter\na_total 1\n# EOF\n", "share the name"),
            ("# TYPE a counter\na 1\n# EOF\n", "another family"),
            ("# TYPE a counter\na_total -1\n# EOF\n", "negative"),
            ("# TYPE a counter\na_total NaN\n# EOF\n", "not finite"),
            ("# TYPE a histogram\n# EOF\n", "unknown type"),
            ("# TYPE a gauge\na 1\n# HELP a A.\n# EOF\n", "after samples"),
            ("# TYPE a gauge\n# HELP a A.\n# HELP a A.\n# EOF\n", "second HELP"),
            ("# TYPE a gauge\n# HELP a \"A\"\n# EOF\n", "quotation mark"),
            ("# TYPE a gauge\n# UNIT a bytes\n# EOF\n", "end in the unit"),
            ("# TYPE a gauge\n# HELP b B.\n# EOF\n", "another family"),
            ("# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n# EOF\n", "occurs twice"),
            ("# TYPE a gauge\na{x=\"\\t\"} 1\n# EOF\n", "wrong escape"),
            ("# TYPE a gauge\na{1x=\"\"} 1\n# EOF\n", "no name of a label"),
            ("# TYPE a gauge\na{x=\"1\"} one\n# EOF\n", "no number"),
            ("# TYPE a gauge\na 1 2 3\n# EOF\n", "more than"),
            ("# TYPE a gauge\na 1 2\na 1 2\n# EOF\n", "do not increase"),
            ("# TYPE a gauge\na 1\na 1\n# EOF\n", "do not increase"),
            ("# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 1\na{x=\"1\"} 2\n# EOF\n", "are apart"),
            ("# TYPE a gauge\n\na 1\n# EOF\n", "without a value"),
        ] {
            let error = open_metrics(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
