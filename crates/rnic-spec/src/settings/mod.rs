//! The declarations of all settings of a scenario and its runs, apart from those of transports and congestion controls,
//! which declare their own [`Parameter`](rnic_transport::settings::Parameter)s.
//!
//! A [`Section`] is a table of a scenario file, and a [`Setting`] is a key of it: its name, kind, range, default and
//! description, and where the JSON document of a run has its value. These declarations are the only place for all of
//! this. The reader of scenario files (`rnic-scenario`), the check of documents, both JSON
//! Schemas, `rnic list` and the tables of the reference (`rnic-pages`) come from them.
//!
//! ```
//! use rnic_spec::settings;
//!
//! let ecn = settings::section("fabric.switch.ecn").expect("the table [fabric.switch.ecn]");
//! let kmax = ecn.setting("kmax", "").expect("the key kmax");
//! assert_eq!(kmax.kind.range(), "0 B to 1000 GB");
//! ```

pub(crate) mod document;
mod fabric;
mod faults;
pub(crate) mod schema;
mod switch;
mod traffic;
mod whole;

pub use fabric::{MAX_HOSTS, MAX_UPLINKS};
pub use faults::MAX_MESH_PAIRS;
pub use traffic::{COMPLETION, MAX_FLOWS, MAX_PAIRS, ROTATIONS};
pub use whole::CONSTANT;

use rnic_transport::settings::Kind;

/// A table of a scenario file: its settings, and the place of its values in the JSON document of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Section {
    /// Name of the table without brackets, such as `fabric.switch`; empty for the top level.
    pub table: &'static str,
    /// Path of the table's values in the document of a run: `fabric.links[]` are the elements of a list.
    pub document: &'static str,
    /// The setting that determines which other settings the table has.
    pub selector: Option<Selector>,
    /// Whether the table has further keys: settings of transports and congestion controls, or paths.
    pub is_open: bool,
    /// The settings of the table. Several settings of one name belong to different variants of the table.
    pub settings: &'static [Setting],
}

/// A setting whose value determines which other settings its table has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Selector {
    /// Name of the setting, such as `topology`.
    pub key: &'static str,
    /// The values of the setting, one for each variant of the table; empty if they are not known at compile time, as
    /// the names of transports.
    pub variants: &'static [Variant],
}

/// A variant of a table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Variant {
    /// The value of the selecting setting.
    pub name: &'static str,
    /// Description of the variant in one line.
    pub about: &'static str,
}

/// A key of a table of a scenario file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    /// Name of the key.
    pub key: &'static str,
    /// Kind and range of the value.
    pub kind: Kind,
    /// Value of a scenario that does not have the key.
    pub default: Preset,
    /// A valid value as TOML text, for error messages.
    pub example: &'static str,
    /// What the setting means, in Markdown. Ranges and defaults are not repeated.
    pub about: &'static str,
    /// The variants of the table that have the setting; empty if all have it.
    pub only: &'static [&'static str],
    /// Where the document of a run has the value.
    pub place: Place,
    /// The runs in which the setting has an effect.
    pub effect: Effect,
    /// Whether a key of this name in another table is probably this setting, so that the error names this table.
    pub is_well_known: bool,
    /// Whether a scenario inherits the setting (`extends`) even if it chooses another variant of the table.
    pub is_inherited: bool,
}

/// The value of a setting that a scenario does not have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Preset {
    /// The setting is required.
    Required,
    /// This value, as text without quotes.
    Value(&'static str),
    /// The value depends on other settings; a sentence says how.
    Derived(&'static str),
    /// There is no value.
    Nothing,
}

/// Where the JSON document of a run has the value of a setting.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    /// The field of the setting's name, at the path of the section.
    Key,
    /// The fields with these paths below the path of the section; a path that begins with `/` begins at the run.
    Fields(&'static [&'static str]),
    /// Nowhere: the document has something that follows from the value, such as the number of a host instead of its
    /// name.
    Nowhere,
}

/// The runs in which a setting has an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// All runs.
    Always,
    /// Runs with PFC.
    WithPfc,
    /// Runs with traffic in a priority without PFC.
    WithoutPfc,
    /// Runs with PFC and a pause storm.
    WithStorm,
}

impl Setting {
    /// A setting without a default, which all variants of its table have.
    const fn new(key: &'static str, kind: Kind, example: &'static str, about: &'static str) -> Setting {
        Setting {
            key,
            kind,
            default: Preset::Nothing,
            example,
            about,
            only: &[],
            place: Place::Key,
            effect: Effect::Always,
            is_well_known: false,
            is_inherited: false,
        }
    }
    const fn required(self) -> Setting {
        Setting { default: Preset::Required, ..self }
    }
    const fn default(self, text: &'static str) -> Setting {
        Setting { default: Preset::Value(text), ..self }
    }
    const fn derived(self, sentence: &'static str) -> Setting {
        Setting { default: Preset::Derived(sentence), ..self }
    }
    const fn only(self, variants: &'static [&'static str]) -> Setting {
        Setting { only: variants, ..self }
    }
    const fn fields(self, paths: &'static [&'static str]) -> Setting {
        Setting { place: Place::Fields(paths), ..self }
    }
    const fn nowhere(self) -> Setting {
        Setting { place: Place::Nowhere, ..self }
    }
    const fn effect(self, effect: Effect) -> Setting {
        Setting { effect, ..self }
    }
    const fn well_known(self) -> Setting {
        Setting { is_well_known: true, ..self }
    }
    const fn inherited(self) -> Setting {
        Setting { is_inherited: true, ..self }
    }

    /// Whether a variant of the table has the setting.
    pub fn is_of(&self, variant: &str) -> bool {
        self.only.is_empty() || self.only.contains(&variant)
    }

    /// The default as a word of documentation: TOML text, a description, or `None`.
    pub fn default_text(&self) -> Option<String> {
        match self.default {
            Preset::Value(text) if is_string(&self.kind) => Some(format!("\"{text}\"")),
            Preset::Value(text) => Some(text.to_string()),
            Preset::Derived(sentence) => Some(sentence.to_string()),
            Preset::Required | Preset::Nothing => None,
        }
    }
}

/// Whether TOML has values of this kind in quotes.
fn is_string(kind: &Kind) -> bool {
    match kind {
        Kind::Either(kinds) => kinds.first().is_some_and(is_string),
        Kind::Choice(_) | Kind::Title | Kind::Text | Kind::Rate => true,
        kind => kind.times().is_some() || kind.sizes().is_some(),
    }
}

impl Section {
    /// The setting called `key` of a variant of the table; `variant` is empty for a table without variants.
    pub fn setting(&self, key: &str, variant: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.key == key && setting.is_of(variant))
    }

    /// Names of all settings of a variant of the table, in the order of their declaration.
    pub fn keys(&self, variant: &str) -> Vec<&'static str> {
        self.settings.iter().filter(|setting| setting.is_of(variant)).map(|setting| setting.key).collect()
    }

    /// Names of all settings of the table, each once.
    pub fn all_keys(&self) -> Vec<&'static str> {
        let mut keys = Vec::new();
        for setting in self.settings {
            if !keys.contains(&setting.key) {
                keys.push(setting.key);
            }
        }
        keys
    }

    /// The variants of the table; empty for a table without variants.
    pub fn variants(&self) -> &'static [Variant] {
        self.selector.map_or(&[], |selector| selector.variants)
    }

    /// Names and descriptions of the variants; a description ends with the settings that only this variant has.
    pub fn descriptions(&self) -> Vec<(&'static str, String)> {
        let describe = |variant: &Variant| {
            let own = self.settings.iter().filter(|setting| setting.only.contains(&variant.name));
            let keys: Vec<String> = own.map(|setting| format!("`{}`", setting.key)).collect();
            (variant.name, format!("{}: {}", variant.about, keys.join(", ")))
        };
        self.variants().iter().map(describe).collect()
    }

    /// Paths of a setting of this table in the document of a run, which begin at the run.
    pub fn paths(&self, setting: &Setting) -> Vec<String> {
        let below = |path: &str| match (path.strip_prefix('/'), self.document) {
            (Some(path), _) => path.to_string(),
            (None, "") => path.to_string(),
            (None, table) => format!("{table}.{path}"),
        };
        match setting.place {
            Place::Key => vec![below(setting.key)],
            Place::Fields(paths) => paths.iter().map(|path| below(path)).collect(),
            Place::Nowhere => Vec::new(),
        }
    }
}

/// Names of variants, as the words of the setting that selects one.
const fn names<const N: usize>(variants: &[Variant; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = variants[index].name;
        index += 1;
    }
    names
}

/// All tables of a scenario, the top level first. Of `[[run]]` and `[transport]`, transports and congestion controls
/// declare further settings.
pub const SECTIONS: [&Section; 21] = [
    &whole::ROOT,
    &fabric::FABRIC,
    &fabric::LINK,
    &fabric::ROUTE,
    &faults::STORM,
    &faults::DROP,
    &faults::DEAD,
    &faults::RECEIVER,
    &faults::WATCHDOG,
    &faults::NIC_WATCHDOG,
    &faults::MESH,
    &switch::SWITCH,
    &switch::ECN,
    &switch::TRIM,
    &traffic::TRAFFIC,
    &whole::TRANSPORT,
    &whole::RUN,
    &whole::BESIDE,
    &whole::LIMITS,
    &whole::WATCH,
    &whole::SWEEP,
];

/// The table of this name.
pub fn section(table: &str) -> Option<&'static Section> {
    SECTIONS.into_iter().find(|section| section.table == table)
}

/// The kind of a setting of this table and name; for several variants, of the first.
pub(crate) fn kind(table: &str, key: &str) -> Option<Kind> {
    section(table)?.settings.iter().find(|setting| setting.key == key).map(|setting| setting.kind)
}

#[cfg(test)]
mod tests;
