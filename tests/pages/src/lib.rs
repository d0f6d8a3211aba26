//! Generates the numbers of the documentation from the records in `docs/results/data`, and checks that pages and data
//! agree.
//!
//! A page marks what is generated. A block is between the lines `<!-- generated: NAME -->` and `<!-- end -->`, an
//! inline value between `<!--=NAME-->` and `<!--/-->`. [`blocks`] has the names. `cargo run -p rnic-pages` rewrites the
//! pages, `cargo test -p rnic-pages` compares them.

pub mod blocks;
pub mod check;
pub mod data;
pub mod items;
pub mod markers;
mod settings;
pub mod study;
pub mod table;

pub use data::Data;

use std::path::{Path, PathBuf};

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page of the documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// The text; empty for a generated page that does not exist yet.
    pub text: String,
}

/// Paths, from the root of the repository, of all pages that may have numbers: `README.md`, and all Markdown files in
/// `docs` but the decisions, which are history.
///
/// # Errors
/// One sentence if a folder cannot be read.
pub fn paths(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = vec!["README.md".to_string()];
    let mut folders = vec!["docs".to_string()];
    while let Some(folder) = folders.pop() {
        for name in data::names(&root.join(&folder))? {
            let path = format!("{folder}/{name}");
            if root.join(&path).is_dir() {
                if path != "docs/adr" {
                    folders.push(path);
                }
            } else if path.ends_with(".md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// The pages as they are, with an empty one for each generated page that is missing.
///
/// # Errors
/// One sentence if a page cannot be read.
pub fn read(root: &Path, data: &Data) -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    for path in paths(root)? {
        let text =
            std::fs::read_to_string(root.join(&path)).map_err(|error| format!("cannot read `{path}`: {error}"))?;
        pages.push(Page { path, text });
    }
    for name in data.studies() {
        let path = study::rows_page(name);
        if pages.iter().all(|page| page.path != path) {
            pages.push(Page { path, text: String::new() });
        }
    }
    Ok(pages)
}

/// The page as it must be, and the names of the data that it uses (`FILE/TABLE` or `FILE.VALUE`).
///
/// # Errors
/// A sentence for each marker that has no data, or that is not closed.
pub fn generate(data: &Data, page: &Page) -> Result<(String, Vec<String>), Vec<String>> {
    if let Some(name) = study::name_of_rows_page(&page.path) {
        let text = study::all_rows(data, name).map_err(|why| vec![format!("{}: {why}", page.path)])?;
        return Ok((text, vec![format!("{name}/experiments"), format!("{name}/rows")]));
    }
    let mut used = Vec::new();
    let text = markers::replace(&page.text, |marker| {
        let of = match marker {
            markers::Marker::Block(name) => blocks::block(data, &page.path, name),
            markers::Marker::Value(name) => blocks::value(data, name),
        };
        of.map(|(text, names)| {
            used.extend(names);
            text
        })
    });
    let text =
        text.map_err(|errors| errors.into_iter().map(|why| format!("{}: {why}", page.path)).collect::<Vec<_>>())?;
    Ok((text, used))
}
