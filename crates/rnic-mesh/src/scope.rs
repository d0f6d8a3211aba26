//! How far apart two hosts are.

use serde::{Deserialize, Serialize};

/// How far apart two hosts are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Below the same ToR switch.
    Tor,
    /// In the same podset.
    Podset,
    /// In the same data center.
    Datacenter,
    /// In two data centers.
    Global,
}

impl Scope {
    /// All scopes, the closest first.
    pub const ALL: [Scope; 4] = [Scope::Tor, Scope::Podset, Scope::Datacenter, Scope::Global];

    /// The name in files and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Tor => "tor",
            Scope::Podset => "podset",
            Scope::Datacenter => "datacenter",
            Scope::Global => "global",
        }
    }
}
