//! Reads and writes run specifications ([`RunSpec`]) as JSON documents.

use crate::check::check;
use crate::congestion::CongestionSpec;
use crate::p4::P4Source;
use crate::settings;
use crate::spec::{Beside, RunSpec};
use crate::transport::TransportSpec;
use crate::vocabulary::Vocabulary;
use rnic_transport::settings::{Settings, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Version of the JSON format of run specifications that this program reads and writes. The version rises with every
/// change that older programs would misunderstand.
pub const SPEC_VERSION: u32 = 1;

/// The transport and the congestion control of a run in its JSON document: their names, and the settings that differ
/// from the defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportDocument {
    /// Name of the transport, or `p4:FILE`; `rnic list transports` prints all names and their settings.
    pub name: String,
    /// Values of the transport's settings, by the name of the setting.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Whether the switches send PFC pauses.
    #[serde(default)]
    pub pfc: bool,
    /// The congestion control; default `none`. A message transport requires `none`, because it controls congestion
    /// itself.
    #[serde(default)]
    pub cc: CongestionDocument,
    /// Source text of the P4 program; required if `name` is `p4:FILE`, otherwise refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<P4Source>,
}

/// The congestion control of a run in its JSON document: its name, and the settings that differ from the defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CongestionDocument {
    /// Name of the congestion control; `rnic list congestion` prints all names and their settings.
    pub name: String,
    /// Values of the congestion control's settings, by the name of the setting.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
}

/// The default is `none`: no congestion control.
impl Default for CongestionDocument {
    fn default() -> CongestionDocument {
        CongestionDocument { name: "none".to_string(), settings: BTreeMap::new() }
    }
}

/// The version of a JSON document, always [`SPEC_VERSION`]: a document with any other version is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SPEC_VERSION.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        match u32::deserialize(deserializer)? {
            SPEC_VERSION => Ok(Version),
            other => Err(D::Error::custom(format!(
                "version {other} is not known; this program reads version {SPEC_VERSION}"
            ))),
        }
    }
}

impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": SPEC_VERSION, "description": "version of the format"})
    }
}

/// The JSON document of a run: everything that determines the run's results.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "rnic run specification")]
struct Document {
    /// Version of the document format.
    version: Version,
    /// Specification of the run.
    run: RunSpec<TransportDocument>,
}

/// Why a JSON document is not a valid run specification: what is wrong, where, and what would be accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);

impl<T> RunSpec<T> {
    /// The same run, in which `change` has changed every transport, possibly to another type.
    fn with_transports<U, E>(self, change: impl Fn(&str, &T) -> Result<U, E>) -> Result<RunSpec<U>, E> {
        let RunSpec {
            name,
            base,
            point,
            seed,
            fabric,
            traffic,
            transport,
            beside,
            limits,
            watch,
            fidelity,
            fidelity_quantum,
            fast_forward,
        } = self;
        let transport = change("run.transport", &transport)?;
        let others = beside.iter().enumerate().map(|(index, Beside { priority, transport })| {
            let transport = change(&format!("run.beside[{index}].transport"), transport)?;
            Ok(Beside { priority: *priority, transport })
        });
        let beside = others.collect::<Result<_, E>>()?;
        Ok(RunSpec {
            name,
            base,
            point,
            seed,
            fabric,
            traffic,
            transport,
            beside,
            limits,
            watch,
            fidelity,
            fidelity_quantum,
            fast_forward,
        })
    }
}

impl RunSpec {
    /// A copy of the run that can be written as JSON: its transport and congestion control are given by names and
    /// settings, instead of by declarations.
    pub fn to_document(&self) -> RunSpec<TransportDocument> {
        let given = |settings: &Settings| -> BTreeMap<String, Value> {
            settings.given().map(|(name, value)| (name.to_string(), value.clone())).collect()
        };
        let document = |_: &str, transport: &TransportSpec| {
            let cc =
                CongestionDocument { name: transport.cc.name().to_string(), settings: given(&transport.cc.settings) };
            Ok::<_, Infallible>(TransportDocument {
                name: transport.name.clone(),
                settings: given(&transport.settings),
                pfc: transport.pfc,
                cc,
                program: transport.program.as_ref().map(|program| program.source.clone()),
            })
        };
        let Ok(run) = self.clone().with_transports(document);
        run
    }

    /// The run as one JSON document: indented on several lines if `pretty`, else on one line.
    ///
    /// # Errors
    /// The run has a number that JSON cannot represent: infinity or NaN.
    pub fn to_json(&self, pretty: bool) -> Result<String, SpecError> {
        let document = Document { version: Version, run: self.to_document() };
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
        text.map_err(|error| SpecError(error.to_string()))
    }

    /// Reads a run from its JSON document, with the transports and congestion controls of `vocabulary`.
    ///
    /// ```
    /// use rnic_spec::{RunSpec, Vocabulary};
    /// let error = RunSpec::from_json("{\"version\": 7}", &Vocabulary::standard()).unwrap_err();
    /// assert!(error.to_string().contains("this program reads version 1"));
    /// ```
    ///
    /// # Errors
    /// The text is not a valid run specification. The error says what is wrong, with line and column if the text is not
    /// JSON or has other fields than a specification.
    pub fn from_json(text: &str, vocabulary: &Vocabulary) -> Result<RunSpec, SpecError> {
        let document: Document = serde_json::from_str(text).map_err(|error| SpecError(error.to_string()))?;
        RunSpec::from_document(document.run, vocabulary)
    }

    /// Turns a run as read from JSON into a complete specification: replaces the names of transport and congestion
    /// control by their declarations in `vocabulary`, and checks the run.
    ///
    /// # Errors
    /// The run names a transport, congestion control or setting that does not exist, or a value cannot be simulated.
    pub fn from_document(run: RunSpec<TransportDocument>, vocabulary: &Vocabulary) -> Result<RunSpec, SpecError> {
        let run = run.with_transports(|at, document| transport(at, document, vocabulary))?;
        check(&run).map_err(SpecError)?;
        Ok(run)
    }

    /// The JSON Schema of a run's JSON document, with the ranges of the settings.
    pub fn json_schema() -> serde_json::Value {
        let mut schema = schema_for!(Document).to_value();
        settings::schema::add_ranges(&mut schema);
        schema
    }
}

fn transport(at: &str, document: &TransportDocument, vocabulary: &Vocabulary) -> Result<TransportSpec, SpecError> {
    let declaration = vocabulary.transport(&document.name).ok_or_else(|| {
        let names: Vec<&str> =
            vocabulary.transports().iter().map(|t| if t.name == "p4" { "p4:FILE" } else { t.name }).collect();
        SpecError(format!("{at}.name: there is no transport \"{}\"; there are: {}", document.name, names.join(", ")))
    })?;
    let mut spec = TransportSpec::of(*declaration);
    spec.name = document.name.clone();
    spec.pfc = document.pfc;
    for (name, value) in &document.settings {
        if declaration.parameter(name).is_none() {
            let others = vocabulary.transports().iter().filter(|other| other.parameter(name).is_some());
            let others: Vec<&str> = others.map(|other| other.name).collect();
            let hint = match others.as_slice() {
                [] => String::new(),
                [other] => format!("; {other} has it"),
                others => format!("; {} have it", others.join(", ")),
            };
            let message = format!("{at}.settings: transport \"{}\" has no setting `{name}`{hint}", document.name);
            return Err(SpecError(message));
        }
        let set = spec.settings.set(name, value.clone());
        set.map_err(|error| SpecError(format!("{at}.settings: {error}")))?;
    }
    spec.program = match (&document.program, declaration.name == "p4") {
        (Some(source), true) => {
            let include = |path: &str| source.includes.get(path).cloned();
            let compiled = vocabulary.compile_p4(source.clone(), &include);
            Some(compiled.map_err(|error| SpecError(error.to_string()))?)
        }
        (None, false) => None,
        (None, true) => {
            return Err(SpecError(format!("{at}.program is missing: \"{}\" needs one", document.name)));
        }
        (Some(_), false) => {
            return Err(SpecError(format!("{at}.program has no effect: \"{}\" is no P4 program", document.name)));
        }
    };
    let cc = vocabulary.congestion_control(&document.cc.name).ok_or_else(|| {
        let names: Vec<&str> = vocabulary.congestion_controls().iter().map(|cc| cc.name).collect();
        SpecError(format!("{at}.cc.name: there is no cc \"{}\"; there are: {}", document.cc.name, names.join(", ")))
    })?;
    spec.cc = CongestionSpec::of(*cc);
    for (name, value) in &document.cc.settings {
        let set = spec.cc.settings.set(name, value.clone());
        set.map_err(|error| SpecError(format!("{at}.cc.settings: {error}")))?;
    }
    if let Some(why) = spec.misfit() {
        return Err(SpecError(format!("{at}.cc: {why}")));
    }
    Ok(spec)
}
