//! Parameters and configuration of flows whose senders spray packets over many paths.

use super::FabricFacts;
use crate::Time;
use crate::config::FlowConfig;
use crate::paths::{NAMES, PathConfig, Selection};
use crate::settings::{Kind, Parameter, Settings};

const SELECTION: &str = "path_selection";
const COUNT: &str = "paths";
const REORDER: &str = "reorder_tolerance";
const FREEZE: &str = "reps_freeze";

/// Number of entropy values unless the user sets another number.
const DEFAULT_PATHS: u16 = 128;

pub(super) const PATH_SELECTION: Parameter = Parameter::choice(
    SELECTION,
    "ecmp",
    &NAMES,
    "how the sender chooses the entropy, and with it the path, of each packet; ecmp: one path per flow",
);
// A NACK has 8 bits for the entropy.
pub(super) const PATHS: Parameter = Parameter::derived(
    COUNT,
    Kind::Count { min: 1, max: 256 },
    "number of entropy values of a flow, with a `path_selection` other than ecmp; 128",
);
pub(super) const REORDER_TOLERANCE: Parameter = Parameter::derived(
    REORDER,
    Kind::Time,
    "time that a packet may arrive later than one that departed after it, before it counts as lost (RACK, RFC 8985); a base round trip if the sender sprays, no limit in a lossless fabric; without spraying an out-of-order packet shows a loss at once",
);
pub(super) const REPS_FREEZE: Parameter = Parameter::derived(
    FREEZE,
    Kind::Time,
    "REPS: how long only known good paths are used after a timeout; 10 ms (uet-htsim)",
);

fn selection(settings: &Settings) -> Selection {
    settings.choice(SELECTION).ok().and_then(|name| Selection::named(&name)).unwrap_or_default()
}

fn path_config(settings: &Settings) -> PathConfig {
    let paths = settings.count(COUNT).map_or(DEFAULT_PATHS, |paths| paths as u16);
    match selection(settings) {
        Selection::Ecmp => PathConfig::default(),
        selection => PathConfig::new(selection, paths),
    }
}

/// Whether the sender sprays the packets of a flow over several paths.
pub(super) fn sprays(settings: &Settings) -> bool {
    path_config(settings).sprays()
}

/// Whether flows tolerate reordering: because their senders spray, or because the user set a tolerance, for example for
/// switches that spray. Their loss recovery is [`Sprayed`](crate::recovery::Sprayed).
pub(super) fn reorders(settings: &Settings) -> bool {
    sprays(settings) || settings.is_set(REORDER)
}

/// The feature in these settings that needs acknowledgements, in words for a message to the user.
pub(super) fn needs_acks(settings: &Settings) -> Option<&'static str> {
    match sprays(settings) {
        true => Some("a path selection of the sender"),
        false => settings.is_set(REORDER).then_some("a reordering tolerance"),
    }
}

/// Settings of path selection that have no effect because of other settings: (name of the parameter, reason).
pub(super) fn unused_settings(settings: &Settings) -> Vec<(&'static str, &'static str)> {
    let mut unused = Vec::new();
    if selection(settings) == Selection::Ecmp {
        unused.push((COUNT, "path_selection = \"ecmp\" uses one path per flow; choose another `path_selection`"));
    }
    if selection(settings) != Selection::Reps || !sprays(settings) {
        unused.push((FREEZE, "only path_selection = \"reps\" with several paths freezes its paths"));
    }
    unused
}

/// Adds path selection and reordering tolerance to the configuration of flows.
pub(super) fn configure(settings: &Settings, fabric: &FabricFacts, cfg: FlowConfig) -> FlowConfig {
    if !reorders(settings) {
        return cfg;
    }
    with_paths(settings, fabric, cfg)
}

/// As [`configure`], for a transport that always tolerates reordering.
pub(super) fn with_paths(settings: &Settings, fabric: &FabricFacts, cfg: FlowConfig) -> FlowConfig {
    let paths = PathConfig {
        explore: fabric.bdp,
        round: fabric.base_rtt,
        freeze: settings.time(FREEZE).unwrap_or(PathConfig::FREEZE),
        ..path_config(settings)
    };
    let default: Option<Time> = (!fabric.lossless).then_some(fabric.base_rtt);
    FlowConfig { paths, reorder: settings.time(REORDER).ok().or(default), ..cfg }
}

/// Path selection and reordering tolerance as pairs of key and value, for the description of a simulation run.
pub(super) fn describe(settings: &Settings, cfg: &FlowConfig) -> super::Description {
    let mut lines = Vec::new();
    if cfg.paths.sprays() {
        lines.push((SELECTION, format!("{}, {} paths", cfg.paths.selection.name(), cfg.paths.paths)));
    }
    if reorders(settings) {
        lines.push((REORDER, cfg.reorder.map_or("no limit".to_string(), |time| time.to_string())));
    }
    lines
}
