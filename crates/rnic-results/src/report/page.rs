//! The HTML frame that all pages share.

use super::html::{escape, script_json};
use serde_json::Value;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("report.js");

/// The notice for readers whose browser does not run JavaScript.
pub(super) const NO_SCRIPT: &str = "<noscript><p class=\"notice\">The figures need JavaScript; the tables have their \
     numbers.</p></noscript>\n";

/// A page in one file.
pub(crate) struct Page<'p> {
    pub(crate) title: &'p str,
    /// The HTML of the content.
    pub(crate) body: &'p str,
    /// The JSON that the script reads.
    pub(crate) data: &'p Value,
    /// What the page's style sheet has in addition to the common one.
    pub(crate) style: &'p str,
    /// The script, with its imports of components.
    pub(crate) script: &'p str,
}

/// The page of a report. `body` is the HTML of its content; `data` is the JSON from which the page's script draws the
/// figures.
pub(super) fn report(title: &str, body: &str, data: &Value) -> String {
    page(&Page { title, body, data, style: STYLE, script: SCRIPT })
}

/// An HTML page in one file.
pub(crate) fn page(page: &Page<'_>) -> String {
    let Page { title, body, data, style, script } = page;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n{body}\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n",
        title = escape(title),
        style = rnic_web::style(style),
        data = script_json(data),
        script = rnic_web::script(script),
    )
}
