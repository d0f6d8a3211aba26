//! The tables of the settings of scenarios, from their declarations.

use crate::table::{escaped, lines, thousands};
use rnic_spec::settings::{self, MAX_FLOWS, MAX_HOSTS, Preset, SECTIONS, Section, Setting};
use rnic_transport::settings::{Kind, MAX_BYTES};

/// The text of the block `settings/NAME`: a table of settings.
///
/// # Errors
/// One sentence if no table of settings has this name.
pub(crate) fn block(name: &str) -> Result<String, String> {
    let (table, part) = name.split_once('/').map_or((name, None), |(table, part)| (table, Some(part)));
    let section = settings::section(if table == "root" { "" } else { table });
    let section = section.ok_or_else(|| {
        let names: Vec<&str> = SECTIONS.iter().map(|section| section.table).filter(|name| !name.is_empty()).collect();
        format!("`settings/{table}` is no table of settings; accepted are settings/root and {}", names.join(", "))
    })?;
    match part {
        None => Ok(rows(section, None, &|setting| setting.only.is_empty())),
        Some("variants") => Ok(variants(section)),
        Some("own") => Ok(rows(section, Some(selector(section)), &|setting| !setting.only.is_empty())),
        Some(variant) if section.variants().iter().any(|own| own.name == variant) => {
            Ok(rows(section, None, &|setting| setting.only == [variant]))
        }
        Some(part) => Err(format!("`settings/{table}/{part}` is no variant; accepted are own, variants, or a variant")),
    }
}

/// The text of the inline value `settings.NAME`.
///
/// # Errors
/// One sentence if there is no such value.
pub(crate) fn value(name: &str) -> Result<String, String> {
    let keys = |section: &str, is: &dyn Fn(&Setting) -> bool| {
        let settings = settings::section(section).map_or(&[][..], |section| section.settings);
        let keys = settings.iter().filter(|setting| is(setting)).map(|setting| format!("`{}`", setting.key));
        keys.collect::<Vec<_>>().join(", ")
    };
    match name {
        "inherited" => Ok(keys("fabric", &|setting| setting.is_inherited)),
        "max_hosts" => Ok(thousands(MAX_HOSTS.into())),
        "max_flows" => Ok(thousands(MAX_FLOWS)),
        "max_flow" => Ok(format!("{} TB", thousands(MAX_BYTES / 1_000_000_000_000))),
        _ => Err(format!("`settings.{name}` is no value of settings")),
    }
}

fn selector(section: &Section) -> &'static str {
    section.selector.map_or("", |selector| selector.key)
}

/// The table of the settings for which `is` holds; with a column `variant`, which names the variants that have a
/// setting.
fn rows(section: &Section, variant: Option<&str>, is: &dyn Fn(&Setting) -> bool) -> String {
    let row = |setting: &Setting| {
        let only: Vec<String> = setting.only.iter().map(|name| format!("`{name}`")).collect();
        let mut cells = vec![format!("`{}`", setting.key)];
        cells.extend(variant.map(|_| only.join(", ")));
        cells.extend([default(setting), accepted(&setting.kind), setting.about.to_string()]);
        cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>()
    };
    let heads: Vec<String> =
        ["key"].into_iter().chain(variant).chain(["default", "accepted", "meaning"]).map(str::to_string).collect();
    let own = section.settings.iter().filter(|setting| !is_table(&setting.kind) && is(setting));
    lines(&heads, &vec![false; heads.len()], own.map(row))
}

/// The table of the variants of a table of settings.
fn variants(section: &Section) -> String {
    let row = |variant: &settings::Variant| vec![format!("`{}`", variant.name), escaped(variant.about)];
    let heads = [selector(section).to_string(), "meaning".to_string()];
    lines(&heads, &[false; 2], section.variants().iter().map(row))
}

/// Whether a setting is a table of further settings, which the page describes by itself.
fn is_table(kind: &Kind) -> bool {
    matches!(kind, Kind::Table(_) | Kind::Tables(_) | Kind::Either([Kind::Table(_), ..]))
}

fn default(setting: &Setting) -> String {
    match (setting.default, setting.default_text()) {
        (Preset::Required, _) => "required".to_string(),
        (Preset::Value(_), Some(text)) if text.starts_with('"') => format!("`{text}`"),
        (_, text) => text.unwrap_or_default(),
    }
}

/// What a kind of values accepts, in Markdown.
fn accepted(kind: &Kind) -> String {
    match kind {
        Kind::Choice(words) => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
        Kind::Either(kinds) => kinds.iter().map(accepted).collect::<Vec<_>>().join("; or "),
        Kind::List(kind) => format!("list; each element: {}", accepted(kind)),
        Kind::Table(name) => format!("a table `[{name}]`"),
        Kind::Title => "string".to_string(),
        Kind::Text => "string that is not empty".to_string(),
        Kind::Rate => format!("rate: {}", kind.range()),
        kind if kind.times().is_some() => format!("time: {}", kind.range()),
        kind if kind.sizes().is_some() => format!("size: {}", kind.range()),
        kind => kind.range(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_ranges_and_defaults() {
        let limits = block("limits").unwrap();
        assert!(limits.starts_with("| key | default | accepted | meaning |\n|---|---|---|---|\n| `duration` | none |"));
        assert!(limits.contains("| `stall_time` | `\"1 s\"` | time: more than zero, at most 30 days | the run"));
        assert!(block("fabric/own").unwrap().contains("| `k` | `fat-tree` | required | 2 to 64 |"));
        assert!(block("fabric/leaf-spine").is_ok() && block("fabric/ring").is_err() && block("fabrik").is_err());
    }
}
