//! Reads the traffic of the pattern `inference`.

use super::deployment::{self, read_ranks};
use super::extends::Files;
use super::reader::{Result, Table};
use super::training::read_model;
use rnic_spec::{Algorithm, Inference};

/// Reads the instances of a model and their requests, on a fabric with `hosts` hosts.
pub(super) fn read(table: &Table<'_>, hosts: u32, files: Files<'_>) -> Result<Inference> {
    let inference = Inference {
        model: read_model(table, false)?,
        tensor: table.value("tensor")?,
        prefill: table.value("prefill")?,
        requests: table.value("requests")?,
        rate: table.given("request_rate")?,
        prompt: table.value("prompt")?,
        output: table.value("output")?,
        batch: table.value("batch")?,
        kv_parts: table.value("kv_parts")?,
        accelerator_tflops: table.value("accelerator_tflops")?,
        efficiency: table.value("efficiency")?,
        memory_gb_per_s: table.value("memory_gb_per_s")?,
        algorithm: table.given_word("algorithm")?.unwrap_or(Algorithm::Ring),
        channels: table.value("channels")?,
        chunk: table.value("chunk")?,
        deployment: deployment::read(table, read_ranks(table, hosts)?, hosts, files)?,
    };
    inference.check().map_err(|error| table.error(error, "see docs/concepts/inference.md"))?;
    let used = [
        ("kv_parts", inference.prefill > 0, "without `prefill`"),
        ("algorithm", inference.tensor > 1, "without `tensor`"),
        ("channels", inference.tensor > 1, "without `tensor`"),
        ("chunk", inference.tensor > 1, "without `tensor`"),
    ];
    for (key, _, why) in used.iter().filter(|(_, used, _)| !used) {
        if let Some(item) = table.get(key) {
            return Err(item.error(format!("`{key}` has no effect {why}"), format!("remove `{key}`")));
        }
    }
    Ok(inference)
}
