//! Tests of the declarations of settings.

use super::*;
use crate::RunSpec;
use rnic_transport::settings::Value;

fn all() -> impl Iterator<Item = (&'static Section, &'static Setting)> {
    SECTIONS.into_iter().flat_map(|section| section.settings.iter().map(move |setting| (section, setting)))
}

#[test]
fn no_variant_has_a_setting_twice() {
    for section in SECTIONS {
        let names: Vec<&str> = section.variants().iter().map(|variant| variant.name).collect();
        for variant in if names.is_empty() { vec![""] } else { names.clone() } {
            let mut keys = section.keys(variant);
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "[{}] {variant}", section.table);
        }
        for setting in section.settings {
            assert!(setting.only.iter().all(|variant| names.contains(variant)), "[{}] {}", section.table, setting.key);
        }
        if let Some(selector) = section.selector.filter(|selector| !selector.variants.is_empty()) {
            let words: Vec<&str> = selector.variants.iter().map(|variant| variant.name).collect();
            let setting = section.setting(selector.key, "").expect("the selector is a setting");
            assert!(matches!(setting.kind, Kind::Choice(own) if own == words), "[{}]", section.table);
        }
    }
}

#[test]
fn defaults_are_in_range() {
    for (section, setting) in all() {
        if let Preset::Value(text) = setting.default {
            let value = setting.kind.parse(text);
            let name = format!("[{}] {}", section.table, setting.key);
            assert!(value.is_ok_and(|value| setting.kind.accepts(&value)), "{name} = {text}");
        }
    }
}

#[test]
fn tables_of_settings_are_declared() {
    fn tables(kind: &Kind) -> Vec<&'static str> {
        match kind {
            Kind::Table(table) | Kind::Tables(table) => vec![table],
            Kind::Either(kinds) => kinds.iter().flat_map(tables).collect(),
            _ => Vec::new(),
        }
    }
    for table in all().flat_map(|(_, setting)| tables(&setting.kind)) {
        assert!(section(table).is_some() || ["set", "constants"].contains(&table), "{table}");
    }
}

/// A description does not repeat the range of its setting: the reference shows both.
#[test]
fn descriptions_have_no_ranges() {
    for (section, setting) in all() {
        let (is_word, range) = (matches!(setting.kind, Kind::Choice(_)), setting.kind.range());
        assert!(is_word || !setting.about.contains(&range), "[{}] {}: {range}", section.table, setting.key);
        assert!(!setting.about.ends_with('.') && !setting.about.contains('|'), "{}", setting.about);
    }
}

#[test]
fn every_path_is_a_field_of_documents() {
    let schema = RunSpec::json_schema();
    for (section, setting) in all() {
        for path in section.paths(setting) {
            assert!(!schema::fields(&schema, "/properties/run", &path).is_empty(), "[{}] {path}", section.table);
        }
    }
}

#[test]
fn the_kinds_of_a_list_and_of_alternatives_accept_each_of_their_values() {
    let kind = Kind::Either(&[Kind::Flag, Kind::Count { min: 1, max: 3 }]);
    assert!(kind.accepts(&Value::Flag(false)) && kind.accepts(&Value::Count(3)) && !kind.accepts(&Value::Count(4)));
}
