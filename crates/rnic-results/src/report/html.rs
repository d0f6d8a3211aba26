//! Building blocks of the report's HTML: escaping, tables, formatted values.

use super::super::compare::Change;
use super::super::text;
use serde_json::Value;

/// Escapes `text` for use as the content of an HTML element, or as an attribute value in double quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes `text` for use as the content of an HTML element. Text between two backquotes becomes a `code` element.
pub(super) fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let closed = parts.len() % 2 == 1;
    let mut html = String::new();
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        match index % 2 {
            1 if closed || !last => html += &format!("<code>{}</code>", escape(part)),
            // A backquote without a partner stays a backquote.
            1 => html += &format!("`{}", escape(part)),
            _ => html += &escape(part),
        }
    }
    html
}

/// A JSON value as text for an HTML `script` element. Every `<` is written as `\u003c`, so that the text cannot end the
/// element.
pub(super) fn script_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// A time, given in microseconds, with three digits in a suitable unit: `217 µs`.
pub(super) fn time(us: f64) -> String {
    text::duration(us).replace(" us", " \u{b5}s")
}

/// A value with six significant digits, for a tooltip.
pub(super) fn exact(value: f64, unit: &str) -> String {
    format!("{}{unit}", text::round6(value))
}

/// A change relative to the first run, as text whose colour says whether it is better or worse.
pub(super) fn change(change: Change) -> String {
    let class = match change {
        Change::Same => "same",
        Change::Better(_) => "better",
        Change::Worse(_) => "worse",
    };
    format!("<small class=\"{class}\">{}</small>", change.to_string().replace('x', "\u{d7}"))
}

/// An HTML table in a frame that scrolls on narrow screens. `head` and `rows` are HTML. The first cell of each row is
/// the title of the row.
pub(super) fn table(class: &str, label: &str, head: &[String], rows: &[String]) -> String {
    let head: String = head.iter().map(|cell| format!("<th scope=\"col\">{cell}</th>")).collect();
    format!(
        "<div class=\"wide\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\
         <table class=\"{class}\"><thead><tr>{head}</tr></thead><tbody>{}</tbody></table></div></div>\n",
        rows.concat(),
        label = escape(label),
    )
}

/// A row of an HTML [`table()`]. `title` and `cells` are HTML.
pub(super) fn row(title: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr><th scope=\"row\">{title}</th>{cells}</tr>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn escapes() {
        assert_eq!(escape("<b>\"x\" & 'y'</b>"), "&lt;b&gt;&quot;x&quot; &amp; &#39;y&#39;&lt;/b&gt;");
        let value = json!({"name": "</script><!--"});
        let text = script_json(&value);
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn backquotes_become_code() {
        assert_eq!(inline("set `xoff` <= `x`"), "set <code>xoff</code> &lt;= <code>x</code>");
        assert_eq!(inline("one ` alone"), "one ` alone");
        assert_eq!(inline("`a` and ` b"), "<code>a</code> and ` b");
        assert_eq!(inline("`<b>`"), "<code>&lt;b&gt;</code>");
    }

    #[test]
    fn changes_use_the_multiplication_sign() {
        assert_eq!(change(Change::Better(2.94)), "<small class=\"better\">2.9\u{d7} better</small>");
    }
}
