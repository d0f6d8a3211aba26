//! The pages of the documentation agree with the recorded data.

use rnic_pages::{Data, Page, check, generate, items, read, root};
use serde_json::json;

fn data() -> Data {
    Data::read(&root()).unwrap_or_else(|why| panic!("{why}"))
}

#[track_caller]
fn none(errors: &[String]) {
    assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
}

/// A sentence for each page that is not as it would be generated, and the names of the data that the pages use.
fn differences(data: &Data, pages: &[Page]) -> (Vec<String>, Vec<String>) {
    let (mut errors, mut used) = (Vec::new(), Vec::new());
    for page in pages {
        match generate(data, page) {
            Err(more) => errors.extend(more),
            Ok((text, names)) => {
                used.extend(names);
                if text != page.text {
                    let line = text.lines().zip(page.text.lines()).find(|(new, old)| new != old);
                    let line = line.map_or("its length".to_string(), |(new, old)| format!("`{old}`, data: `{new}`"));
                    errors.push(format!("{}: page: {line}; run `cargo run -p rnic-pages`", page.path));
                }
            }
        }
    }
    (errors, used)
}

#[test]
fn pages_agree_with_the_data_and_use_all_of_them() {
    let data = data();
    let pages = read(&root(), &data).unwrap();
    let (mut errors, used) = differences(&data, &pages);
    errors.extend(check::unused(&data, &used));
    errors.extend(check::records(&data));
    errors.extend(check::contents(&data, &pages));
    none(&errors);
}

#[test]
fn recorded_outcomes_are_those_of_the_rule() {
    none(&check::outcomes(&data()));
}

/// Stale data are allowed, because a new measurement takes its time. But the page of each study states this.
#[test]
fn pages_say_whether_their_data_are_stale() {
    let data = data();
    data.stale().iter().for_each(|(study, why)| println!("{study} is stale: {why}"));
    none(&check::origins(&data, &read(&root(), &data).unwrap()));
}

#[test]
fn sentences_count_verdicts_only_in_markers() {
    let pages = read(&root(), &data()).unwrap();
    let errors: Vec<String> =
        pages.iter().flat_map(|page| check::counts(page).unwrap_or_else(|errors| errors)).collect();
    none(&errors);
}

#[test]
fn pages_of_results_are_short() {
    none(&check::lengths(&read(&root(), &data()).unwrap()));
}

/// A renamed test, and a command that is no longer documented, would otherwise leave an item of a paper without proof.
#[test]
fn items_refer_to_tests_and_commands_that_exist() {
    let data = data();
    none(&items::references(&data.items, &root()));
    let items: Vec<_> = data.items.values().flatten().collect();
    let states: Result<Vec<_>, _> = items.iter().map(|item| items::state(&data, item)).collect();
    assert_eq!(states.map(|states| states.len()), Ok(items.len()));
}

/// A small copy of the documentation: one study with two rows, and a page with a table and a sentence.
fn copy() -> (Data, Vec<Page>) {
    let text = r#"{"schema": 1, "title": "A paper", "command": "rnic reproduce irn", "date": "2026-01-02",
        "version": "0.1.0", "commit": "1234abcd", "machine": "2 cores", "values": {"ratio": 0.87}, "tables": {
        "experiments": {"columns": ["experiment", "title", "seeds", "simulations", "date", "version", "commit", "plan", "behaviour"],
          "rows": [["fig1", "Figure 1", 5, 10, "2026-01-02", "0.1.0", "1234abcd", "p", "b"]]},
        "rows": {"columns": ["experiment", "metric", "stated", "claim", "unit", "mean", "half_width", "seeds", "sample", "outcome", "note"],
          "rows": [["fig1", "FCT", "1.5x to 2x", {"between": [1.5, 2], "neutral": 1}, "ratio", 1.7, 0.1, 5, "seeds", "inside", ""],
                   ["fig1", "slowdown", "at most 2x", {"at_most": 2}, "ratio", 2.5, 0.1, 5, "seeds", "outside: same direction, larger", ""]]}}}"#;
    let mut data = Data::default();
    data.records.insert("irn".to_string(), rnic_record::Record::from_text(text).unwrap());
    data.states.insert(("irn".to_string(), "fig1".to_string()), ("p".to_string(), Some("b".to_string())));
    let page = "# IRN\n\n<!-- generated: irn/provenance -->\n<!-- end -->\n\n<!-- generated: irn/outside -->\n<!-- end -->\n\n\
                <!--=irn.inside-->?<!--/--> of <!--=irn.rows-->?<!--/--> rows; the ratio is <!--=irn.ratio-->?<!--/-->.\n";
    let mut pages = vec![Page { path: "docs/results/irn.md".to_string(), text: page.to_string() }];
    pages.push(Page { path: "docs/results/rows/irn.md".to_string(), text: String::new() });
    for page in &mut pages {
        page.text = generate(&data, page).unwrap().0;
    }
    (data, pages)
}

#[test]
fn an_altered_digit_of_a_page_is_found() {
    let (data, pages) = copy();
    let (errors, used) = differences(&data, &pages);
    assert!(errors.is_empty() && check::unused(&data, &used).is_empty(), "{errors:?} {used:?}");
    for (page, from, to) in [
        (0, "2.50 ± 0.10x", "2.60 ± 0.10x"),
        (0, "<!--=irn.inside-->1<", "<!--=irn.inside-->2<"),
        (0, "0.87", "0.88"),
        (0, "2026-01-02", "2026-01-03"),
        (1, "1.70 ± 0.10x", "1.71 ± 0.10x"),
    ] {
        let mut altered = pages.clone();
        assert!(altered[page].text.contains(from), "{from}: {}", altered[page].text);
        altered[page].text = altered[page].text.replace(from, to);
        assert_eq!(differences(&data, &altered).0.len(), 1, "{from}");
    }
}

#[test]
fn missing_and_unused_data_are_found() {
    let (mut data, mut pages) = copy();
    data.records.get_mut("irn").unwrap().values.insert("other".to_string(), json!(1));
    let (_, used) = differences(&data, &pages);
    assert_eq!(check::unused(&data, &used), ["no page uses `irn.other`"]);
    for name in ["irn/other-table", "dcqcn/rows", "nothing"] {
        pages[0].text = format!("<!-- generated: {name} -->\n<!-- end -->\n");
        assert_eq!(differences(&data, &pages[..1]).0.len(), 1, "{name}");
    }
    pages[0].text = "<!--=irn.unknown-->1<!--/-->".to_string();
    assert_eq!(differences(&data, &pages[..1]).0.len(), 1);
    assert_eq!(check::origins(&data, &pages).len(), 1, "the page no longer says where its data come from");
}

#[test]
fn an_outcome_that_is_not_that_of_the_rule_is_found_and_mended() {
    let (mut data, _) = copy();
    assert!(check::outcomes(&data).is_empty());
    let table = &mut data.records.get_mut("irn").unwrap().tables[1].1;
    let outcome = table.column("outcome").unwrap();
    table.rows[1][outcome] = json!("inside");
    let errors = check::outcomes(&data);
    assert!(errors.len() == 1 && errors[0].contains("the rule gives `outside: same direction, larger`"), "{errors:?}");
    assert_eq!(check::rejudge(&mut data), Ok(vec![("irn".to_string(), 1)]));
    assert!(check::outcomes(&data).is_empty());
}

#[test]
fn a_page_says_that_the_code_has_changed() {
    let (mut data, pages) = copy();
    assert!(data.stale().is_empty() && !pages[0].text.contains("older than the code"));
    for (plan, behaviour, reason) in
        [("q", "b", "the study has changed (fig1)"), ("p", "c", "the simulator has changed (fig1)")]
    {
        let key = ("irn".to_string(), "fig1".to_string());
        data.states.insert(key, (plan.to_string(), Some(behaviour.to_string())));
        assert_eq!(data.stale(), [("irn".to_string(), reason.to_string())]);
        // The page that was right before is not any more: it must say that it is stale.
        assert!(!differences(&data, &pages).0.is_empty());
        assert!(generate(&data, &pages[0]).unwrap().0.contains(reason));
    }
    data.states.clear();
    assert!(data.stale()[0].1.contains("no longer exists"));
    data.states.insert(("irn".to_string(), "fig2".to_string()), (String::new(), None));
    assert!(generate(&data, &pages[0]).unwrap().0.contains("Not measured yet: fig2"));
}
