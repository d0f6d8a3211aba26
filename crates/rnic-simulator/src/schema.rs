//! The command `rnic schema`, which prints JSON Schemas.

use crate::args::{Schema, SchemaArgs};
use crate::error::CliError;
use crate::output;
use rnic_sim::Catalogue;
use rnic_spec::{RunEvent, RunSpec};

/// Prints a JSON Schema. The schema of scenarios contains the transports and congestion controls of `catalogue`.
pub(crate) fn schema(arguments: &SchemaArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let schema = match arguments.of {
        Schema::Scenario => rnic_scenario::schema(&catalogue.vocabulary()),
        Schema::Spec => RunSpec::json_schema(),
        Schema::Event => RunEvent::json_schema(),
    };
    output::print(|out| writeln!(out, "{schema:#}"))
}
