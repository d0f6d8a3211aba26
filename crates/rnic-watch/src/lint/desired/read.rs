//! Reads the desired state from TOML.

use super::{Accepted, Desired, Layer, Layers, Rdma, Wanted, is_per_port};
use crate::input::{InputError, Place, shown};
use crate::lint::checks::CHECKS;
use crate::lint::settings::{HOST, Kind, RAW, SWITCH, Setting};
use rnic_transport::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of the file with the name `file`.
pub(super) fn desired(text: &str, file: &str) -> Result<Desired, Vec<InputError>> {
    let mut reader = Reader { text, file, errors: Vec::new() };
    match DeTable::parse(text) {
        Ok(table) => {
            let desired = reader.desired(table.get_ref());
            if reader.errors.is_empty() { Ok(desired) } else { Err(reader.errors) }
        }
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            reader.wrong(&span, error.message().replace('\n', ", "));
            Err(reader.errors)
        }
    }
}

/// Reads the tables of the file and collects mistakes.
struct Reader<'t> {
    text: &'t str,
    file: &'t str,
    errors: Vec<InputError>,
}

type Item<'t> = (&'t Spanned<Cow<'t, str>>, &'t Spanned<DeValue<'t>>);

impl Reader<'_> {
    fn place(&self, span: &Range<usize>) -> (usize, usize) {
        let mut at = span.start.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    fn wrong(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let (line, column) = self.place(span);
        self.errors.push(InputError::new(self.file, Place::Column(line, column), message));
    }

    /// The entries of a table, in the order of the file.
    fn table<'t>(&mut self, item: &'t Spanned<DeValue<'t>>, what: &str) -> Vec<Item<'t>> {
        match item.get_ref() {
            DeValue::Table(table) => {
                let mut entries: Vec<Item<'t>> = table.iter().collect();
                entries.sort_by_key(|(key, _)| key.span().start);
                entries
            }
            _ => {
                self.wrong(&item.span(), format!("{what} must be a table"));
                Vec::new()
            }
        }
    }

    fn text_of(&mut self, item: &Spanned<DeValue<'_>>, what: &str) -> Option<String> {
        match item.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.wrong(&item.span(), format!("`{what}` must be text"));
                None
            }
        }
    }

    fn integer(&mut self, item: &Spanned<DeValue<'_>>, what: &str, max: u64) -> Option<u64> {
        match Kind::Integer(max).canonical(item.get_ref()) {
            Ok(number) => number.parse().ok(),
            Err(message) => {
                self.wrong(&item.span(), format!("`{what}`: {message}"));
                None
            }
        }
    }

    fn desired(&mut self, table: &DeTable<'_>) -> Desired {
        let mut desired = Desired::default();
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "title" => {
                    self.text_of(value, "title");
                }
                "rdma" => desired.rdma = self.rdma(value),
                "switch" => desired.switches = self.layers(value, &SWITCH, true),
                "host" => desired.hosts = self.layers(value, &HOST, false),
                "accept" => desired.accepted = self.accepted(value),
                other => self.wrong(
                    &key.span(),
                    format!("unknown table `{}`; accepted: title, rdma, switch, host, accept", shown(other)),
                ),
            }
        }
        for name in desired.switches.devices.keys().filter(|name| desired.hosts.devices.contains_key(*name)) {
            let message = format!("`{}` is both a switch and a host", shown(name));
            self.errors.push(InputError::new(self.file, Place::File, message));
        }
        desired
    }

    fn rdma(&mut self, item: &Spanned<DeValue<'_>>) -> Rdma {
        let mut rdma = Rdma::default();
        for (key, value) in self.table(item, "[rdma]") {
            match key.get_ref().as_ref() {
                "dscp" => match value.get_ref() {
                    DeValue::Array(list) => {
                        for item in list.iter() {
                            rdma.dscp.extend(self.integer(item, "dscp", 63).map(|dscp| dscp as u8));
                        }
                    }
                    _ => rdma.dscp.extend(self.integer(value, "dscp", 63).map(|dscp| dscp as u8)),
                },
                "cnp_dscp" => rdma.cnp_dscp = self.integer(value, "cnp_dscp", 63).map(|dscp| dscp as u8),
                "length" => match Kind::Metres.canonical(value.get_ref()) {
                    Ok(text) => rdma.length = text.trim_end_matches(" m").parse().ok(),
                    Err(message) => self.wrong(&value.span(), format!("`length`: {message}")),
                },
                "reaction" => match self.text_of(value, "reaction").map(|text| text.parse::<Time>()) {
                    Some(Ok(time)) if time <= Time::from_ms(1) => rdma.reaction = Some(time),
                    Some(Ok(time)) => {
                        self.wrong(&value.span(), format!("`reaction`: {time} is too long; accepted: up to 1 ms"))
                    }
                    Some(Err(error)) => self.wrong(&value.span(), format!("`reaction`: {error}")),
                    None => {}
                },
                other => self.wrong(
                    &key.span(),
                    format!("unknown key `{}` in [rdma]; accepted: dscp, cnp_dscp, length, reaction", shown(other)),
                ),
            }
        }
        rdma
    }

    fn accepted(&mut self, item: &Spanned<DeValue<'_>>) -> Vec<Accepted> {
        let DeValue::Array(list) = item.get_ref() else {
            self.wrong(&item.span(), "`accept` must be tables [[accept]]");
            return Vec::new();
        };
        let mut all = Vec::new();
        for item in list.iter() {
            let (line, _) = self.place(&item.span());
            let any = || "*".to_string();
            let mut accepted =
                Accepted { check: String::new(), device: any(), port: any(), reason: String::new(), line };
            for (key, value) in self.table(item, "[[accept]]") {
                let name = key.get_ref().as_ref();
                let text = self.text_of(value, name).unwrap_or_default();
                match name {
                    "check" => accepted.check = text,
                    "device" => accepted.device = text,
                    "port" => accepted.port = text,
                    "reason" => accepted.reason = text,
                    other => self.wrong(
                        &key.span(),
                        format!("unknown key `{}` in [[accept]]; accepted: check, device, port, reason", shown(other)),
                    ),
                }
            }
            if !CHECKS.iter().any(|check| check.name == accepted.check) {
                let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
                let message =
                    format!("no check is called \"{}\"; accepted: {}", shown(&accepted.check), names.join(", "));
                self.wrong(&item.span(), message);
            } else if accepted.reason.trim().is_empty() {
                self.wrong(&item.span(), "an accepted finding needs a `reason`");
            }
            all.push(accepted);
        }
        all
    }

    fn layers(&mut self, item: &Spanned<DeValue<'_>>, settings: &[Setting], of_switch: bool) -> Layers {
        let mut layers = Layers::default();
        let what = if of_switch { "[switch]" } else { "[host]" };
        for (key, value) in self.table(item, what) {
            match key.get_ref().as_ref() {
                "role" => {
                    for (name, role) in self.table(value, "role") {
                        let (mut layer, mut devices) = (Layer::default(), Vec::new());
                        for (key, value) in self.table(role, "a role") {
                            if key.get_ref() == "devices" {
                                devices = self.patterns(value);
                            } else {
                                self.entry(key, value, settings, of_switch, &mut layer);
                            }
                        }
                        if devices.is_empty() {
                            let example = "such as devices = [\"leaf*\"]";
                            self.wrong(
                                &name.span(),
                                format!("the role `{}` needs its devices, {example}", name.get_ref()),
                            );
                        }
                        layers.roles.push((name.get_ref().to_string(), devices, layer));
                    }
                }
                "device" => {
                    for (name, device) in self.table(value, "device") {
                        let mut layer = Layer::default();
                        for (key, value) in self.table(device, "a device") {
                            self.entry(key, value, settings, of_switch, &mut layer);
                        }
                        layers.devices.insert(name.get_ref().to_string(), layer);
                    }
                }
                _ => self.entry(key, value, settings, of_switch, &mut layers.all),
            }
        }
        layers
    }

    fn patterns(&mut self, item: &Spanned<DeValue<'_>>) -> Vec<String> {
        match item.get_ref() {
            DeValue::Array(list) => list.iter().filter_map(|item| self.text_of(item, "devices")).collect(),
            _ => self.text_of(item, "devices").into_iter().collect(),
        }
    }

    /// Reads an entry of a layer: a setting, a table of settings, or the table `port`.
    fn entry(
        &mut self, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>, settings: &[Setting], of_switch: bool,
        layer: &mut Layer,
    ) {
        match key.get_ref().as_ref() {
            "port" => {
                for (pattern, table) in self.table(value, "port") {
                    let mut values = BTreeMap::new();
                    for (key, value) in self.table(table, "the settings of a port") {
                        self.setting(key.get_ref(), &key.span(), value, settings, &mut values);
                    }
                    for path in values.keys().filter(|path| !is_per_port(settings, path)) {
                        let message = format!("`{path}` is a setting of the device, not of a port");
                        self.errors.push(InputError::new(
                            self.file,
                            Place::Path(pattern.get_ref().to_string()),
                            message,
                        ));
                    }
                    layer.ports.push((pattern.get_ref().to_string(), values));
                }
            }
            "config_db" if of_switch => {
                for (path, value) in self.table(value, "config_db") {
                    if path.get_ref().matches('|').count() < 2 {
                        self.wrong(&path.span(), "a path of CONFIG_DB has the form \"TABLE|key|field\"");
                    }
                    self.put(format!("config_db.{}", path.get_ref()), RAW.kind, value, &mut layer.settings);
                }
            }
            name => self.setting(name, &key.span(), value, settings, &mut layer.settings),
        }
    }

    /// Reads the setting `path`, or the settings below it.
    fn setting(
        &mut self, path: &str, span: &Range<usize>, value: &Spanned<DeValue<'_>>, settings: &[Setting],
        values: &mut BTreeMap<String, Wanted>,
    ) {
        let paths = match expand(path, settings) {
            Ok(paths) => paths,
            Err(message) => return self.wrong(span, message),
        };
        if let Some((_, Some(kind))) = paths.first() {
            let kind = *kind;
            for (path, _) in paths {
                self.put(path, kind, value, values);
            }
            return;
        }
        match value.get_ref() {
            DeValue::Table(table) => {
                // A number overrides a range that contains it, and a shorter range overrides a longer one.
                let length = |key: &str| numbers(key).map_or(0, |(from, to)| to - from);
                let mut entries: Vec<Item<'_>> = table.iter().collect();
                entries.sort_by_key(|(key, _)| (std::cmp::Reverse(length(key.get_ref())), key.span().start));
                for (key, value) in entries {
                    self.setting(&format!("{path}.{}", key.get_ref()), &key.span(), value, settings, values);
                }
            }
            _ => self.wrong(&value.span(), format!("`{}` must be a table", shown(path))),
        }
    }

    fn put(&mut self, path: String, kind: Kind, item: &Spanned<DeValue<'_>>, values: &mut BTreeMap<String, Wanted>) {
        match kind.canonical(item.get_ref()) {
            Ok(value) => {
                let (line, _) = self.place(&item.span());
                values.insert(path, Wanted { value, line });
            }
            Err(message) => self.wrong(&item.span(), format!("`{}`: {message}", shown(&path))),
        }
    }
}

/// Expands a path to settings: several if the path has a range of numbers such as `dscp_to_tc.0-7`. The kind is `None`
/// if the path is only the beginning of the paths of settings.
fn expand(path: &str, settings: &[Setting]) -> Result<Vec<(String, Option<Kind>)>, String> {
    let parts: Vec<&str> = path.split('.').collect();
    let mut longer = false;
    for setting in settings {
        let pattern: Vec<&str> = setting.path.split('.').collect();
        // Only a name at the end of the path may contain dots.
        let named = pattern.last() == Some(&"NAME") && parts.len() >= pattern.len();
        if parts.len() > pattern.len() && !named {
            continue;
        }
        let mut range = None;
        let fits = pattern.iter().zip(&parts).all(|(pattern, part)| match *pattern {
            "N" => {
                range = numbers(part);
                range.is_some()
            }
            "NAME" => true,
            word => word == *part,
        });
        if !fits {
            continue;
        }
        if let Some((_, to)) = range
            && to > setting.max
        {
            return Err(format!("`{}`: {to} is out of range; accepted: 0 to {}", shown(path), setting.max));
        }
        if parts.len() < pattern.len() {
            longer = true;
            continue;
        }
        let at = pattern.iter().position(|part| *part == "N");
        return Ok(match (range, at) {
            (Some((from, to)), Some(at)) => (from..=to)
                .map(|number| {
                    let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_string()).collect();
                    parts[at] = number.to_string();
                    (parts.join("."), Some(setting.kind))
                })
                .collect(),
            _ => vec![(path.to_string(), Some(setting.kind))],
        });
    }
    if longer {
        return Ok(vec![(path.to_string(), None)]);
    }
    let mut names: Vec<&str> = settings.iter().map(|setting| setting.path).collect();
    names.sort_unstable();
    Err(format!("unknown setting `{}`; accepted: {}, port, role, device", shown(path), names.join(", ")))
}

/// A number, or a range such as `24-31`.
fn numbers(text: &str) -> Option<(u8, u8)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    (from <= to).then_some((from, to))
}
