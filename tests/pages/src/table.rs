//! Tables and cells in Markdown.

use rnic_record::{Column, Table};
use serde_json::Value;

/// A table in Markdown, without a line feed at its end.
pub fn markdown(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|column| escaped(&column.name)).collect();
    let rows = table.rows.iter().map(|row| {
        row.iter().zip(&table.columns).map(|(value, column)| escaped(&cell(column, value))).collect::<Vec<_>>()
    });
    let right: Vec<bool> = table.columns.iter().map(|column| column.right).collect();
    lines(&heads, &right, rows)
}

/// The lines of a table with these headings; `right` says which columns are aligned to the right.
pub fn lines(heads: &[String], right: &[bool], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        cells.iter().fold("|".to_string(), |line, cell| {
            line + &if cell.is_empty() { " |".into() } else { format!(" {cell} |") }
        })
    };
    let rule: String = right.iter().map(|right| if *right { "---:|" } else { "---|" }).collect();
    let mut text = format!("{}\n|{rule}", line(heads));
    for row in rows {
        text.push('\n');
        text += &line(&row);
    }
    text
}

/// Text in a cell: a bar would end the cell, and a line feed the row.
pub fn escaped(text: &str) -> String {
    text.replace("\\|", "|").replace('|', "\\|").replace('\n', " ")
}

/// A cell as text: see [`Table::rows`] for the forms.
pub fn cell(column: &Column, value: &Value) -> String {
    let number = |value: &Value| value.as_f64().map_or("-".to_string(), |number| shown(column, number));
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => return text.clone(),
        Value::Array(values) => match &values[..] {
            [low, high] if number(low) == number(high) => number(low),
            [low, high] => format!("{} to {}", number(low), number(high)),
            [median, low, high] => format!("{} ({} to {})", number(median), number(low), number(high)),
            _ => value.to_string(),
        },
        Value::Object(map) => match (map.get("mean"), map.get("half_width")) {
            (Some(mean), Some(half)) if half.is_number() => format!("{} ± {}", number(mean), number(half)),
            (Some(mean), _) => number(mean),
            _ => value.to_string(),
        },
        value => number(value),
    };
    text + &column.suffix
}

fn shown(column: &Column, number: f64) -> String {
    let text = match (column.decimals, column.digits) {
        (Some(decimals), _) => format!("{number:.decimals$}"),
        (_, Some(digits)) => significant(number, digits),
        _ => format!("{number}"),
    };
    if column.thousands { grouped(&text) } else { text }
}

/// A number with this many significant digits.
fn significant(number: f64, digits: usize) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    // Rounding can carry into another digit: 9.996 has the exponent of 10.0.
    let text = format!("{number:.0$e}", digits.saturating_sub(1));
    let exponent: i32 = text.rsplit('e').next().and_then(|exponent| exponent.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// A whole number with commas between thousands.
pub fn thousands(number: u64) -> String {
    grouped(&number.to_string())
}

/// The text of a number with commas between thousands of its whole part.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.find('.').map_or((number, ""), |at| number.split_at(at));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut text = sign.to_string();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_as_shown() {
        let two = Column::new("a").decimals(2);
        assert_eq!(cell(&two, &json!([6.47, 6.46, 6.5])), "6.47 (6.46 to 6.50)");
        assert_eq!(cell(&two, &json!([1.2, 1.201])), "1.20");
        assert_eq!(cell(&two, &json!([1.2, 1.3])), "1.20 to 1.30");
        assert_eq!(cell(&two, &json!({"mean": 1.5, "half_width": 0.25, "seeds": 3})), "1.50 ± 0.25");
        assert_eq!(cell(&two, &json!({"mean": 1.5, "half_width": null, "seeds": 1})), "1.50");
        assert_eq!(cell(&two.suffix(" s"), &json!(0.1)), "0.10 s");
        assert_eq!(cell(&Column::new("a"), &json!(54)), "54");
        assert_eq!(cell(&Column::new("a"), &json!("text")), "text");
        assert_eq!(cell(&Column::new("a"), &Value::Null), "");
        for (number, expected) in [(19.44, "19.4"), (9.996, "10.0"), (107.4, "107"), (0.0512, "0.0512")] {
            assert_eq!(significant(number, 3), expected);
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(["-1234.5", "12.25"].map(grouped), ["-1,234.5", "12.25"]);
        assert_eq!(cell(&Column::new("a").thousands(), &json!([1_000, 20_000])), "1,000 to 20,000");
    }

    #[test]
    fn a_table_has_a_line_per_row() {
        let mut table = Table::new(vec![Column::new("run"), Column::new("rate | s").decimals(1).right()]);
        table.rows.push(vec![json!("a | b"), json!(1)]);
        table.rows.push(vec![json!("c"), Value::Null]);
        assert_eq!(markdown(&table), "| run | rate \\| s |\n|---|---:|\n| a \\| b | 1.0 |\n| c | |");
    }
}
