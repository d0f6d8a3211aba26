//! Inference of a large language model: how the model is divided among ranks, and which requests arrive.

use crate::collective::{Algorithm, Collective, Deployment};
use crate::training::{Model, Training};
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern `inference`: instances of a model answer requests.
///
/// Rank r has the tensor rank r mod `tensor` of the instance r / `tensor`. The first `prefill` instances process the
/// prompts of requests, all others generate tokens; without `prefill`, every instance does both.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// The model.
    pub model: Model,
    /// Number of ranks of an instance, among which each layer is divided.
    pub tensor: u32,
    /// Number of instances that only process prompts; 0 if every instance also generates tokens.
    pub prefill: u32,
    /// Number of requests.
    pub requests: u32,
    /// Mean number of requests per second, which arrive as a Poisson process; `None` if all arrive at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Number of tokens of the prompt of a request.
    pub prompt: u32,
    /// Number of tokens that a request generates, at least 2.
    pub output: u32,
    /// Maximum number of requests for which an instance generates tokens at the same time.
    pub batch: u32,
    /// Number of messages in which a rank sends the keys and values of a request to another instance, each for as many
    /// layers; 1 without `prefill`.
    pub kv_parts: u32,
    /// Peak rate of an accelerator in 10^12 floating-point operations per second.
    pub accelerator_tflops: f64,
    /// Fraction of the peak rate that computations reach.
    pub efficiency: f64,
    /// Rate at which an accelerator reads its memory, in 10^9 bytes per second.
    pub memory_gb_per_s: f64,
    /// The algorithm of all-reduces: `ring`, `tree` or `hierarchical`.
    pub algorithm: Algorithm,
    /// Number of independent parts of a collective operation along a ring.
    pub channels: u32,
    /// Maximum number of bytes of a message of a collective operation.
    pub chunk: Bytes,
    /// Where the ranks run.
    pub deployment: Deployment,
}

impl Inference {
    /// Maximum number of requests.
    pub const MAX_REQUESTS: u32 = 10_000_000;
    /// Maximum number of messages for the keys and values of a request.
    pub const MAX_PARTS: u32 = 256;

    /// Number of instances.
    pub fn instances(&self) -> u32 {
        self.deployment.ranks / self.tensor.max(1)
    }

    /// Number of layers whose keys and values are in message `part` of a request.
    pub fn layers_of_part(&self, part: u32) -> u32 {
        let end = |part: u32| (u64::from(self.model.layers) * u64::from(part) / u64::from(self.kv_parts.max(1))) as u32;
        end(part + 1) - end(part)
    }

    /// Number of bytes of the keys and values of `layers` layers of a prompt, on each tensor rank. If the ranks are
    /// more than the heads of keys and values, several have the same head.
    pub fn kv_bytes(&self, layers: u32) -> u64 {
        let heads = self.model.kv_heads.div_ceil(self.tensor.max(1));
        let of_token = self.model.kv_bytes() / u64::from(self.model.kv_heads.max(1)) * u64::from(heads);
        u64::from(self.prompt) * of_token * u64::from(layers)
    }

    /// The time in which an accelerator carries out `operations` floating-point operations and reads `bytes` bytes of
    /// its memory at the same time.
    pub fn time_of(&self, operations: f64, bytes: f64) -> Time {
        let compute = operations / (self.accelerator_tflops * 1e12 * self.efficiency);
        let seconds = compute.max(bytes / (self.memory_gb_per_s * 1e9));
        Time::from_ps((seconds * 1e12).round().min(u64::MAX as f64 / 2.0) as u64)
    }

    /// How the ranks carry out collective operations; operation, size and group are to be replaced.
    pub fn plan(&self) -> Collective {
        self.deployment.plan(self.algorithm, self.channels, self.chunk, 1)
    }

    /// Estimates the bytes that cross the fabric.
    pub fn fabric_bytes(&self) -> f64 {
        let [tensor, requests] = [self.tensor, self.requests].map(f64::from);
        let kv = if self.prefill > 0 { self.kv_bytes(self.model.layers) as f64 * tensor } else { 0.0 };
        let values = f64::from(self.model.hidden) * f64::from(self.model.parameter_bytes);
        let tokens = f64::from(self.prompt) + f64::from(self.output);
        let outside = self.tensor > self.deployment.accelerators();
        let reduced = 4.0 * (tensor - 1.0) * f64::from(self.model.layers) * values * tokens;
        requests * (kv + if outside { reduced } else { 0.0 })
    }

    /// Checks that the model can be divided in this way.
    ///
    /// # Errors
    /// One sentence that says why not, and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        self.model.check()?;
        let (tensor, ranks) = (self.tensor, self.deployment.ranks);
        let divides = |what: &str, parts: u32, of: &str, whole: u32| match parts > 0 && whole.is_multiple_of(parts) {
            true => Ok(()),
            false => Err(format!("{what} = {parts} does not divide {of} ({whole}); accepted: a divisor of {whole}")),
        };
        let counts = [
            ("requests", self.requests, 1, Inference::MAX_REQUESTS),
            ("prompt", self.prompt, 1, 1 << 24),
            ("output", self.output, 2, 1 << 24),
            ("batch", self.batch, 1, 1 << 20),
            ("kv_parts", self.kv_parts, 1, Inference::MAX_PARTS.min(self.model.layers)),
        ];
        for (name, count, min, max) in counts {
            if !(min..=max).contains(&count) {
                return Err(format!("{name} is {count}; accepted: {min} to {max}"));
            }
        }
        if ranks < 2 {
            return Err(format!("ranks is {ranks}; accepted: at least 2"));
        }
        divides("tensor", tensor, "the number of heads", self.model.heads)?;
        divides("tensor", tensor, "the number of values `feed_forward`", self.model.feed_forward)?;
        divides("tensor", tensor, "the number of ranks", ranks)?;
        divides("accelerators", self.deployment.accelerators(), "the number of ranks", ranks)?;
        self.deployment.check_algorithm(self.algorithm, self.channels)?;
        if self.prefill >= self.instances() {
            return Err(format!(
                "prefill = {} leaves none of {} instances to generate tokens; accepted: at most {}",
                self.prefill,
                self.instances(),
                self.instances() - 1
            ));
        }
        let values = u128::from(self.prompt) * u128::from(self.model.hidden) * u128::from(self.model.parameter_bytes);
        let context = u128::from(self.prompt) + u128::from(self.output);
        let kv = context * u128::from(self.model.kv_bytes()) * u128::from(self.model.layers);
        if values.max(kv) > Training::MAX_ACTIVATIONS {
            return Err(format!(
                "the activations, or the keys and values, of a request have {} B; accepted: at most {} B",
                values.max(kv),
                Training::MAX_ACTIVATIONS
            ));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return Err("the rate of requests is out of range; accepted: above 0, at most 1000000000 per second".into());
        }
        let rates = [self.accelerator_tflops * self.efficiency, self.memory_gb_per_s];
        if !rates.iter().all(|rate| *rate > 0.0 && rate.is_finite()) || self.efficiency > 1.0 {
            return Err(
                "the rate of an accelerator or of its memory is out of range; accepted: above 0, an efficiency of \
                        at most 1"
                    .into(),
            );
        }
        if self.deployment.reaction == Time::ZERO {
            return Err("the reaction takes no time; accepted: a time above 0".to_string());
        }
        Ok(())
    }
}
