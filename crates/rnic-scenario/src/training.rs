//! Reads the traffic of the pattern `training`.

use super::deployment::{self, read_ranks};
use super::extends::Files;
use super::reader::{Result, Table};
use rnic_spec::{Algorithm, Deployment, Model, Training};

/// Reads the traffic of training steps on a fabric with `hosts` hosts.
pub(super) fn read(table: &Table<'_>, hosts: u32, files: Files<'_>) -> Result<Training> {
    let training = Training {
        model: read_model(table, true)?,
        tensor: table.value("tensor")?,
        pipeline: table.value("pipeline")?,
        context: table.value("context")?,
        expert: table.value("expert")?,
        micro_batch: table.value("micro_batch")?,
        micro_batches: table.value("micro_batches")?,
        schedule: table.word("schedule")?,
        overlap: table.value("overlap")?,
        bucket: table.value("bucket")?,
        sharded: table.value("sharded")?,
        accelerator_tflops: table.value("accelerator_tflops")?,
        efficiency: table.value("efficiency")?,
        steps: table.value("steps")?,
        warmup_steps: table.value("warmup_steps")?,
        algorithm: table.given_word("algorithm")?.unwrap_or(Algorithm::Ring),
        channels: table.value("channels")?,
        chunk: table.value("chunk")?,
        outstanding: table.value("outstanding")?,
        deployment: Deployment {
            timeline: table.given("timeline")?,
            ..deployment::read(table, read_ranks(table, hosts)?, hosts, files)?
        },
    };
    training.check().map_err(|error| table.error(error, "see docs/concepts/training.md"))?;
    refuse_idle_keys(table, &training)?;
    Ok(training)
}

/// Reads the model: a built-in one, of which keys replace single numbers, or one of the keys alone. Length of sequences
/// and bytes of gradients matter if the model is trained (`is_trained`).
pub(super) fn read_model(table: &Table<'_>, is_trained: bool) -> Result<Model> {
    let named: Option<String> = table.given("model")?;
    let named = named.and_then(|name| Model::named(&name));
    let number = |key: &str, of: fn(&Model) -> u32| match (table.given::<u32>(key)?, &named) {
        (Some(number), _) => Ok(number),
        (None, Some(model)) => Ok(of(model)),
        (None, None) => table.require(key)?.typed(),
    };
    let heads = number("heads", |model| model.heads)?;
    let or = |key: &str, of: fn(&Model) -> u32, other: u32| -> Result<u32> {
        Ok(table.given(key)?.unwrap_or(named.as_ref().map_or(other, of)))
    };
    Ok(Model {
        layers: number("layers", |model| model.layers)?,
        hidden: number("hidden", |model| model.hidden)?,
        heads,
        kv_heads: or("kv_heads", |model| model.kv_heads, heads)?,
        feed_forward: number("feed_forward", |model| model.feed_forward)?,
        gated: table.given("gated")?.unwrap_or(named.is_some_and(|model| model.gated)),
        sequence: if is_trained { number("sequence", |model| model.sequence)? } else { 1 },
        vocabulary: number("vocabulary", |model| model.vocabulary)?,
        experts: or("experts", |model| model.experts, 1)?,
        active_experts: or("active_experts", |model| model.active_experts, 1)?,
        parameter_bytes: table.value("parameter_bytes")?,
        gradient_bytes: if is_trained { table.value("gradient_bytes")? } else { 1 },
    })
}

/// Fails if the table has a key that has no effect on this training.
fn refuse_idle_keys(table: &Table<'_>, training: &Training) -> Result<()> {
    let used = [
        ("schedule", training.pipeline > 1, "on a pipeline of one stage"),
        ("outstanding", training.expert > 1, "without `expert`"),
        ("overlap", training.replicas() > 1, "on one data rank"),
        ("bucket", training.replicas() > 1, "on one data rank"),
        ("sharded", training.replicas() > 1, "on one data rank"),
    ];
    for (key, _, why) in used.iter().filter(|(_, used, _)| !used) {
        if let Some(item) = table.get(key) {
            return Err(item.error(format!("`{key}` has no effect {why}"), format!("remove `{key}`")));
        }
    }
    Ok(())
}
