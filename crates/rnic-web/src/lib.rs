//! Components of rnic's pages: charts, tables, tooltips, colours.
//!
//! The components are ES modules and style sheets in the folder `components` of this crate. A page has its own script,
//! which imports the components that it needs. [`script`] makes one text of that script and its modules, so that a page
//! can be a single file that works offline, and needs no build tool. [`style`] does the same for style sheets.
//!
//! ```
//! let script = rnic_web::script("import { brief } from \"./numbers.js\";\nconsole.log(brief(\"time\", 1234));\n");
//! assert!(script.contains("const { brief } = $numbers;"));
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

/// A module of the folder `components`.
struct Module {
    /// Name of the file without its ending.
    name: &'static str,
    source: &'static str,
}

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        &[$(Module { name: $name, source: include_str!(concat!("../components/", $name, ".js")) }),*]
    };
}

/// All modules. Each module imports only from modules before it in this list.
const MODULES: &[Module] = modules![
    "numbers",
    "scale",
    "dom",
    "svg",
    "theme",
    "tip",
    "keyboard",
    "hover",
    "frame",
    "bars",
    "lines",
    "spans",
    "csv",
    "files",
    "layout",
    "table",
    "board",
    "recording",
    "columns",
    "fabric",
    "traffic",
    "player",
    "details",
    "view",
];

const STYLES: [&str; 4] = [
    include_str!("../components/theme.css"),
    include_str!("../components/page.css"),
    include_str!("../components/chart.css"),
    include_str!("../components/table.css"),
];

/// The style sheet of pages with recordings of runs (`view.js`), to be part of the style sheet of such a page.
pub const RECORDING_STYLE: &str = include_str!("../components/replay.css");

/// The script of a page as one text, without comments: the modules that it imports, directly or through other modules,
/// and the script itself.
///
/// Imports must have the form `import { NAME, NAME } from "./MODULE.js";`, each on its own line.
pub fn script(page: &str) -> String {
    let mut needed: BTreeSet<&str> = imports(page).map(|import| import.module).collect();
    let mut used: Vec<&Module> = Vec::new();
    for module in MODULES.iter().rev() {
        if needed.contains(module.name) {
            needed.extend(imports(module.source).map(|import| import.module));
            used.push(module);
        }
    }
    let mut text = "\"use strict\";\n".to_string();
    for module in used.iter().rev() {
        let exported: Vec<&str> = exports(module.source).collect();
        let body = body(module.source);
        let _ =
            write!(text, "const ${} = (() => {{\n{body}return {{ {} }};\n}})();\n", module.name, exported.join(", "));
    }
    let _ = write!(text, "(() => {{\n{}}})();\n", body(page));
    text
}

/// The style sheets of all components and `page`, the style sheet of the page itself, as one text.
pub fn style(page: &str) -> String {
    STYLES.concat() + page
}

/// An `import` line of a script.
struct Import<'s> {
    /// The imported names, separated by commas.
    names: &'s str,
    /// The module that exports them.
    module: &'s str,
}

fn import(line: &str) -> Option<Import<'_>> {
    let (names, module) = line.strip_prefix("import {")?.split_once("} from \"./")?;
    Some(Import { names: names.trim(), module: module.strip_suffix(".js\";")? })
}

fn imports(source: &str) -> impl Iterator<Item = Import<'_>> {
    source.lines().filter_map(import)
}

/// The names that a module exports.
fn exports(source: &str) -> impl Iterator<Item = &str> {
    let name = |line| str::strip_prefix(line, "export const ").and_then(|rest| rest.split_whitespace().next());
    source.lines().filter_map(name)
}

/// The source of a module as the body of a function: without comment lines and `export`. An import reads the object
/// that the function of the other module returned.
fn body(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    for line in source.lines().filter(|line| !line.trim_start().starts_with("//") && !line.is_empty()) {
        match import(line) {
            Some(Import { names, module }) => {
                let _ = writeln!(text, "const {{ {names} }} = ${module};");
            }
            None => {
                let _ = writeln!(text, "{}", line.strip_prefix("export ").unwrap_or(line));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn names(import: &Import<'static>) -> impl Iterator<Item = &'static str> {
        import.names.split(", ")
    }

    #[test]
    fn a_script_contains_the_modules_that_it_needs_in_order() {
        let text = script("import { selectedBy } from \"./keyboard.js\";\n// A comment.\nselectedBy();\n");
        assert!(text.starts_with("\"use strict\";\nconst $keyboard = (() => {\nconst selectedBy = "), "{text}");
        assert!(text.ends_with(
            "return { selectedBy };\n})();\n(() => {\nconst { selectedBy } = $keyboard;\nselectedBy();\n})();\n"
        ));
        // scale.js needs numbers.js.
        let text = script("import { logScale } from \"./scale.js\";\n");
        let at = |name: &str| text.find(&format!("const ${name} = (() =>"));
        assert!(at("numbers").unwrap() < at("scale").unwrap() && at("svg").is_none());
        assert!(!text.contains("export ") && !text.contains("import "));
    }

    #[test]
    fn modules_import_what_modules_before_them_export() {
        for (index, module) in MODULES.iter().enumerate() {
            for import in imports(module.source) {
                let before = MODULES[..index].iter().find(|other| other.name == import.module);
                let before = before.unwrap_or_else(|| panic!("{} imports {}", module.name, import.module));
                let exported: Vec<&str> = exports(before.source).collect();
                for name in names(&import) {
                    assert!(exported.contains(&name), "{} imports {name} of {}", module.name, before.name);
                    let uses = module.source.matches(name).count();
                    assert!(uses > 1, "{} does not use {name} of {}", module.name, before.name);
                }
            }
            let unread = module.source.lines().filter(|line| line.contains("import") && import(line).is_none());
            let unread: Vec<&str> = unread.filter(|line| line.starts_with("import")).collect();
            assert!(unread.is_empty(), "{}: {unread:?}", module.name);
            let exporting = module.source.lines().filter(|line| line.starts_with("export")).count();
            assert_eq!(exporting, exports(module.source).count(), "{}: an export that is no const", module.name);
        }
    }

    #[test]
    fn every_file_is_a_component() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("components");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let scripts = files.filter(|name| name.ends_with(".js")).count();
        assert_eq!(scripts, MODULES.len());
    }

    /// Components contain no text that ends the HTML element in which a page embeds them, and refer to nothing outside
    /// the page.
    #[test]
    fn components_fit_into_a_page() {
        for source in MODULES.iter().map(|module| module.source).chain(STYLES).chain([RECORDING_STYLE]) {
            let source = source.replace("http://www.w3.org/2000/svg", "");
            for outside in
                ["</", "<!--", "innerHTML", "outerHTML", "insertAdjacent", "eval(", "http:", "https:", "url("]
            {
                assert!(!source.contains(outside), "{outside}");
            }
        }
    }
}
