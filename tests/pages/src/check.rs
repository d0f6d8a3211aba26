//! What must hold of pages and data, apart from the contents of markers.

use crate::markers::without;
use crate::{Data, Page, study};
use rnic_record::{Claim, Measured, Outcome, Record, Table, judge};
use serde_json::{Value, json};

/// Maximum number of words of a page of results, as `wc -w` counts them.
pub const WORDS: usize = 3_000;

/// The page of the papers' items.
const ITEMS: &str = "docs/results/items.md";

/// Maximum number of words of the page of items without its tables.
const WORDS_OF_ITEMS: usize = 400;

/// The outcome of the rule for the numbers of a row.
fn judged(table: &Table, row: &[Value]) -> Result<Outcome, String> {
    let Some(mean) = table.number(row, "mean") else { return Ok(Outcome::NoResult) };
    let claim = Claim::from_json(table.cell(row, "claim").unwrap_or(&Value::Null))?;
    let exact = table.text(row, "sample") == "exact";
    Ok(judge(&claim, &Measured { mean, half_width: table.number(row, "half_width"), exact }))
}

/// A sentence for each row whose stored outcome is not that of the rule.
pub fn outcomes(data: &Data) -> Vec<String> {
    let mut errors = Vec::new();
    for name in data.studies() {
        let Ok(table) = data.table(name, "rows") else { continue };
        for row in &table.rows {
            let stored = table.text(row, "outcome");
            let metric = format!("{name}: {}: {}", table.text(row, "experiment"), table.text(row, "metric"));
            match judged(table, row) {
                Ok(outcome) if outcome.text() == stored => {}
                Ok(outcome) => errors.push(format!(
                    "{metric}: stored is `{stored}`, the rule gives `{}`; `cargo run -p rnic-pages -- --rejudge`",
                    outcome.text()
                )),
                Err(why) => errors.push(format!("{metric}: {why}")),
            }
        }
    }
    errors
}

/// Replaces the stored outcomes by those of the rule; returns the changed records with their numbers of changed rows.
///
/// # Errors
/// One sentence about a row whose claim cannot be read.
pub fn rejudge(data: &mut Data) -> Result<Vec<(String, usize)>, String> {
    let mut all = Vec::new();
    for (name, record) in &mut data.records {
        let mut changed = 0;
        for (_, table) in record.tables.iter_mut().filter(|(table, _)| table == "rows") {
            let Some(column) = table.column("outcome") else { continue };
            let outcomes: Result<Vec<Outcome>, String> = table.rows.iter().map(|row| judged(table, row)).collect();
            for (row, outcome) in table.rows.iter_mut().zip(outcomes?) {
                let new = json!(outcome.text());
                changed += usize::from(row[column] != new);
                row[column] = new;
            }
        }
        if changed > 0 {
            all.push((name.clone(), changed));
        }
    }
    Ok(all)
}

/// A sentence for each record, table and value that no page uses. `used` has the names that the pages use.
pub fn unused(data: &Data, used: &[String]) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, record) in &data.records {
        let tables = record.tables.iter().map(|(table, _)| format!("{name}/{table}"));
        let values = record.values.keys().map(|value| format!("{name}.{value}"));
        for own in tables.chain(values).filter(|own| !used.contains(own)) {
            errors.push(format!("no page uses `{own}`"));
        }
        if record.tables.is_empty() && record.values.is_empty() {
            errors.push(format!("`{name}` has no data"));
        }
    }
    errors
}

/// A sentence for each record of a short test, and for each record without the properties that pages show.
pub fn records(data: &Data) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, record) in &data.records {
        let Record { command, date, quick, .. } = record;
        if *quick {
            errors.push(format!("`{name}` has results of --quick, which are not published"));
        }
        if command.is_empty() || date.is_empty() {
            errors.push(format!("`{name}` has no command or no date"));
        }
    }
    errors
}

/// A sentence for each study whose page does not state the origin of its data.
pub fn origins(data: &Data, pages: &[Page]) -> Vec<String> {
    let has = |name: &str, page: &Page| page.text.contains(&format!("<!-- generated: {name}/provenance -->"));
    let missing = |name: &&str| !pages.iter().any(|page| has(name, page));
    let studies = data.studies();
    let error =
        |name: &str| format!("no page has the block `{name}/provenance`, which says whether the data are stale");
    studies.into_iter().filter(missing).map(error).collect()
}

/// A sentence for each page of results with more than [`WORDS`] words. The pages of all rows are lists and have no
/// limit; of the page of items, which is a list with an introduction, only the introduction counts.
pub fn lengths(pages: &[Page]) -> Vec<String> {
    let is_results =
        |page: &&Page| page.path.starts_with("docs/results/") && study::name_of_rows_page(&page.path).is_none();
    let words = |text: &str| text.split_whitespace().count();
    let count = |page: &Page| match page.path.as_str() {
        ITEMS => (without(&page.text).map_or(usize::MAX, |text| words(&text)), WORDS_OF_ITEMS),
        _ => (words(&page.text), WORDS),
    };
    let counted = pages.iter().filter(is_results).map(|page| (page, count(page)));
    let long = counted.filter(|(_, (words, limit))| words > limit);
    long.map(|(page, (words, limit))| format!("{}: {words} words; at most {limit}", page.path)).collect()
}

/// A sentence for each page of all rows that the book's table of contents does not name.
pub fn contents(data: &Data, pages: &[Page]) -> Vec<String> {
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md").map_or("", |page| page.text.as_str());
    let named = |name: &&str| !summary.contains(&format!("(results/rows/{name}.md)"));
    data.studies()
        .into_iter()
        .filter(named)
        .map(|name| format!("docs/SUMMARY.md does not name results/rows/{name}.md"))
        .collect()
}

/// Words that may stand between a number and the outcome that it counts.
const BETWEEN: [&str; 22] = [
    "row", "rows", "metric", "metrics", "verdict", "verdicts", "of", "the", "these", "those", "them", "all", "are",
    "is", "were", "lie", "which", "that", "other", "others", "measured", "and",
];

/// Words before a number that is a name and no count.
const LABELS: [&str; 6] = ["figure", "figures", "section", "sections", "table", "decision"];

/// A sentence for each number outside markers that counts verdicts: "33 inside", "22 rows are outside", "177 metrics".
///
/// # Errors
/// A sentence for each marker that is not closed.
pub fn counts(page: &Page) -> Result<Vec<String>, Vec<String>> {
    let text = without(&page.text)?;
    let mut prose = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        // Tables, headings and code are no sentences.
        if is_code || is_fence || line.trim_start().starts_with(['|', '#']) || line.trim().is_empty() {
            prose.push_str(" . ");
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    let words: Vec<&str> = prose.split_whitespace().collect();
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let is_number = |word: &str| {
        let digits = word.trim_matches(|c: char| !c.is_alphanumeric()).replace(',', "");
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    };
    let ends = |word: &str| word.ends_with(['.', ';', ':', '!', '?', '|']);
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate().filter(|(_, word)| is_number(word)) {
        // "Figures 1 and 2 are inside" counts nothing.
        let before = words[..index].iter().rev().take(4).take_while(|word| !ends(word));
        let is_label = before.into_iter().any(|word| LABELS.contains(&plain(word).as_str()));
        if ends(word) || is_label {
            continue;
        }
        let next = words.get(index + 1).copied().unwrap_or("");
        let mut counts = ["metrics", "verdicts"].contains(&plain(next).as_str());
        for next in &words[index + 1..] {
            let own = plain(next);
            if ["inside", "outside", "inconclusive"].contains(&own.as_str()) {
                counts = true;
            }
            let is_between = BETWEEN.contains(&own.as_str()) || is_number(next) || *next == "VALUE";
            if counts || ends(next) || !is_between {
                break;
            }
        }
        if counts {
            let context = words[index..words.len().min(index + 7)].join(" ");
            found.push(format!("{}: \"{context} ...\" counts verdicts without a marker", page.path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        counts(&Page { path: "a.md".into(), text: text.into() }).unwrap().len()
    }

    #[test]
    fn sentences_that_count_verdicts_are_found() {
        for text in [
            "We compare 177 metrics with the paper.",
            "Of these, 114 are inside the range.",
            "33 inside, and more.",
            "It has 22 rows outside.",
            "In all, **114** of the 150 rows are inside.",
            "12 of them are\ninconclusive.",
        ] {
            assert!(found(text) > 0, "{text}");
        }
        for text in [
            "We compare <!--=irn.rows-->177<!--/--> metrics, <!--=irn.inside-->1<!--/--> are inside.",
            "A queue of 100 KB is inside the buffer.",
            "The load is 70. Inside the switch nothing changes.",
            "The rows of figures 1 and 2 are inside the range, and figure 9 is outside.",
            "| 177 metrics | 114 inside |",
            "```text\n114 inside\n```",
            "<!-- generated: irn/summary -->\n114 inside\n<!-- end -->",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    #[test]
    fn long_pages_of_results_are_found() {
        let page = |path: &str, words| Page { path: path.into(), text: "word ".repeat(words) };
        assert!(lengths(&[page("docs/results/a.md", WORDS), page("docs/guides/a.md", WORDS + 1)]).is_empty());
        assert!(lengths(&[page("docs/results/rows/a.md", WORDS + 1)]).is_empty());
        assert_eq!(lengths(&[page("docs/results/a.md", WORDS + 1)]).len(), 1);
        assert_eq!(lengths(&[page(ITEMS, WORDS_OF_ITEMS + 1)]).len(), 1);
        let table = format!("<!-- generated: items/irn -->\n{}\n<!-- end -->", "word ".repeat(WORDS + 1));
        assert!(lengths(&[Page { path: ITEMS.into(), text: table }]).is_empty());
    }
}
