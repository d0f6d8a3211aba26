//! The HTML frame that all report pages share.

use super::html::{escape, script_json};
use serde_json::Value;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("report.js");

/// The notice for readers whose browser does not run JavaScript.
pub(super) const NO_SCRIPT: &str = "<noscript><p class=\"notice\">The figures need JavaScript; the tables have their \
     numbers.</p></noscript>\n";

/// An HTML page in one file. `body` is the HTML of its content; `data` is the JSON from which the page's script draws
/// the figures.
pub(super) fn page(title: &str, body: &str, data: &Value) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n{body}\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n",
        title = escape(title),
        style = rnic_web::style(STYLE),
        data = script_json(data),
        script = rnic_web::script(SCRIPT),
    )
}
