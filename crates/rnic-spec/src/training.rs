//! Training of a large language model: the model, how it is divided among ranks, and what a step consists of.

use crate::collective::{Algorithm, Collective, Deployment};
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern `training`: ranks carry out training steps of a transformer.
///
/// Rank r has the tensor rank r mod `tensor`, the context rank (r / `tensor`) mod `context`, the data rank
/// (r / (`tensor` `context`)) mod [`data`](Training::data), and the stage r / (`tensor` `context` `data`) of the
/// pipeline.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The model.
    pub model: Model,
    /// Number of ranks among which each layer is divided.
    pub tensor: u32,
    /// Number of stages of the pipeline; a divisor of the number of layers.
    pub pipeline: u32,
    /// Number of ranks among which the tokens of each sequence are divided; a divisor of the sequence.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub context: u32,
    /// Number of data ranks among which the experts of a layer are divided; 1 for a model without experts.
    pub expert: u32,
    /// Number of sequences of a micro-batch.
    pub micro_batch: u32,
    /// Number of micro-batches of a step, of each data rank.
    pub micro_batches: u32,
    /// In which order a stage of the pipeline carries out forward and backward passes.
    pub schedule: PipelineSchedule,
    /// Whether gradients are reduced while the backward pass of earlier layers continues.
    pub overlap: bool,
    /// Minimum number of bytes of gradients that are reduced in one operation, but for the last one of a step.
    pub bucket: Bytes,
    /// Whether the state of the optimiser is divided among the data ranks: a reduce-scatter of the gradients and an
    /// all-gather of the parameters instead of an all-reduce of the gradients.
    pub sharded: bool,
    /// Peak rate of an accelerator in 10^12 floating-point operations per second.
    pub accelerator_tflops: f64,
    /// Fraction of the peak rate that computations reach.
    pub efficiency: f64,
    /// Number of steps.
    pub steps: u32,
    /// Number of first steps whose flows do not count in the statistics.
    pub warmup_steps: u32,
    /// The algorithm of all-reduces: `ring`, `tree` or `hierarchical`.
    #[serde(default = "ring", skip_serializing_if = "is_ring")]
    pub algorithm: Algorithm,
    /// Number of independent parts of a collective operation along a ring.
    pub channels: u32,
    /// Maximum number of bytes of a message of a collective operation along a ring.
    pub chunk: Bytes,
    /// Maximum number of messages that a rank of an all-to-all sends at the same time.
    pub outstanding: u32,
    /// Where the ranks run.
    pub deployment: Deployment,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

fn ring() -> Algorithm {
    Algorithm::Ring
}

fn is_ring(algorithm: &Algorithm) -> bool {
    *algorithm == Algorithm::Ring
}

/// A transformer with a decoder only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Number of layers.
    pub layers: u32,
    /// Number of values that represent a token.
    pub hidden: u32,
    /// Number of attention heads.
    pub heads: u32,
    /// Number of heads of keys and values.
    pub kv_heads: u32,
    /// Number of values in the inner layer of the feed-forward network, of each expert.
    pub feed_forward: u32,
    /// Whether the feed-forward network has a gate: three matrices instead of two.
    pub gated: bool,
    /// Number of tokens of a sequence.
    pub sequence: u32,
    /// Number of different tokens.
    pub vocabulary: u32,
    /// Number of experts of each layer; 1 for a dense model.
    pub experts: u32,
    /// Number of experts to which each token goes.
    pub active_experts: u32,
    /// Number of bytes of a parameter, an activation and a gradient.
    pub parameter_bytes: u32,
    /// Number of bytes of a gradient when it is reduced.
    pub gradient_bytes: u32,
}

impl Model {
    /// The built-in models, with a name and a sentence about the source of their numbers.
    pub const BUILT_IN: [(&'static str, Model, &'static str); 3] = [
        (
            "gpt3-13b",
            Model {
                layers: 40,
                hidden: 5_120,
                heads: 40,
                kv_heads: 40,
                feed_forward: 4 * 5_120,
                gated: false,
                sequence: 2_048,
                vocabulary: 50_257,
                ..Model::BASE
            },
            "Brown et al.: Language Models are Few-Shot Learners, 2020, table 2.1 (40 heads of 128, so 5,120 values; the \
             table prints 5,140)",
        ),
        (
            "llama2-7b",
            Model {
                layers: 32,
                hidden: 4_096,
                heads: 32,
                kv_heads: 32,
                feed_forward: 11_008,
                gated: true,
                sequence: 4_096,
                vocabulary: 32_000,
                ..Model::BASE
            },
            "Touvron et al.: Llama 2, 2023, and the configuration file published with the model",
        ),
        (
            "mixtral-8x7b",
            Model {
                layers: 32,
                hidden: 4_096,
                heads: 32,
                kv_heads: 8,
                feed_forward: 14_336,
                gated: true,
                sequence: 32_768,
                vocabulary: 32_000,
                experts: 8,
                active_experts: 2,
                ..Model::BASE
            },
            "Jiang et al.: Mixtral of Experts, 2024, table 1",
        ),
    ];

    /// A dense model of 16-bit parameters whose gradients are reduced with 32 bits.
    const BASE: Model = Model {
        layers: 1,
        hidden: 1,
        heads: 1,
        kv_heads: 1,
        feed_forward: 1,
        gated: false,
        sequence: 1,
        vocabulary: 1,
        experts: 1,
        active_experts: 1,
        parameter_bytes: 2,
        gradient_bytes: 4,
    };

    /// The built-in model with this name.
    pub fn named(name: &str) -> Option<Model> {
        Model::BUILT_IN.iter().find(|(own, ..)| *own == name).map(|(_, model, _)| *model)
    }

    /// Number of parameters of the attention of one layer.
    pub fn attention(&self) -> u64 {
        let (hidden, heads) = (u64::from(self.hidden), u64::from(self.heads.max(1)));
        let kv = hidden / heads * u64::from(self.kv_heads);
        2 * hidden * hidden + 2 * hidden * kv
    }

    /// Number of bytes of the keys and values of a token in one layer.
    pub fn kv_bytes(&self) -> u64 {
        2 * u64::from(self.hidden / self.heads.max(1)) * u64::from(self.kv_heads) * u64::from(self.parameter_bytes)
    }

    /// Number of parameters of the feed-forward network of one layer, of one expert.
    pub fn expert(&self) -> u64 {
        let matrices = if self.gated { 3 } else { 2 };
        matrices * u64::from(self.hidden) * u64::from(self.feed_forward)
    }

    /// Number of parameters of the embedding, and of the output layer.
    pub fn embedding(&self) -> u64 {
        u64::from(self.hidden) * u64::from(self.vocabulary)
    }

    /// Number of parameters, without norms, biases and routers of experts. Embedding and output layer are different.
    pub fn parameters(&self) -> u64 {
        let layer = self.attention() + u64::from(self.experts) * self.expert();
        u64::from(self.layers) * layer + 2 * self.embedding()
    }

    /// Checks the numbers of the model.
    ///
    /// # Errors
    /// One sentence that says which number is out of range, and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("layers", self.layers, Training::MAX_COUNT),
            ("hidden", self.hidden, 1 << 20),
            ("heads", self.heads, 1 << 20),
            ("kv_heads", self.kv_heads, 1 << 20),
            ("feed_forward", self.feed_forward, 1 << 24),
            ("sequence", self.sequence, 1 << 24),
            ("vocabulary", self.vocabulary, 1 << 24),
            ("experts", self.experts, 1 << 16),
            ("active_experts", self.active_experts, self.experts),
            ("parameter_bytes", self.parameter_bytes, 16),
            ("gradient_bytes", self.gradient_bytes, 16),
        ];
        for (name, count, max) in counts {
            if !(1..=max).contains(&count) {
                return Err(format!("{name} is {count}; accepted: 1 to {max}"));
            }
        }
        let layer = u128::from(self.attention()) + u128::from(self.experts) * u128::from(self.expert());
        let parameters = layer * u128::from(self.layers) + 2 * u128::from(self.embedding());
        if parameters > Training::MAX_PARAMETERS {
            return Err(format!(
                "the model has {parameters} parameters; accepted: at most {}",
                Training::MAX_PARAMETERS
            ));
        }
        for (what, parts, of, whole) in [
            ("heads", self.heads, "the number of values `hidden`", self.hidden),
            ("kv_heads", self.kv_heads, "the number of heads", self.heads),
        ] {
            if !whole.is_multiple_of(parts) {
                return Err(format!("{what} = {parts} does not divide {of} ({whole}); accepted: a divisor of {whole}"));
            }
        }
        Ok(())
    }
}

/// In which order a stage of a pipeline carries out forward and backward passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PipelineSchedule {
    /// `gpipe`: the forward passes of all micro-batches, then all backward passes.
    GPipe,
    /// `1f1b`: as many forward passes as there are later stages, then one forward and one backward pass in turn, then
    /// the remaining backward passes.
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
}

impl PipelineSchedule {
    /// All schedules.
    pub const ALL: [PipelineSchedule; 2] = [PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe];

    /// The name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            PipelineSchedule::GPipe => "gpipe",
            PipelineSchedule::OneForwardOneBackward => "1f1b",
        }
    }
}

impl Training {
    /// Maximum number of layers, micro-batches and stages.
    pub const MAX_COUNT: u32 = 10_000;
    /// Maximum number of passes (forward or backward, of one layer) of a rank in a run.
    pub const MAX_PASSES: u64 = 100_000_000;

    /// Maximum number of parameters of a model.
    pub const MAX_PARAMETERS: u128 = 1_000_000_000_000_000;
    /// Maximum number of bytes of the activations of a micro-batch, for each active expert.
    pub const MAX_ACTIVATIONS: u128 = 100_000_000_000_000;

    /// Number of data ranks: they work on different sequences with the same parameters, but for experts.
    pub fn data(&self) -> u32 {
        self.deployment.ranks / (self.tensor * self.context * self.pipeline).max(1)
    }

    /// Number of ranks with the same parameters, but for experts, which reduce their gradients together.
    pub fn replicas(&self) -> u32 {
        self.data() * self.context
    }

    /// Number of layers of a stage of the pipeline.
    pub fn layers_of_stage(&self) -> u32 {
        self.model.layers / self.pipeline.max(1)
    }

    /// Number of tokens of a micro-batch.
    pub fn tokens(&self) -> u64 {
        u64::from(self.micro_batch) * u64::from(self.model.sequence)
    }

    /// Number of tokens of a micro-batch on a rank.
    pub fn own_tokens(&self) -> u64 {
        self.tokens() / u64::from(self.context.max(1))
    }

    /// The time in which an accelerator carries out `operations` floating-point operations.
    pub fn time_of(&self, operations: f64) -> Time {
        let seconds = operations / (self.accelerator_tflops * 1e12 * self.efficiency);
        Time::from_ps((seconds * 1e12).round().min(u64::MAX as f64 / 2.0) as u64)
    }

    /// Estimates the bytes that cross the fabric in all steps: without operations of tensor ranks that have a server in
    /// common.
    pub fn fabric_bytes(&self) -> f64 {
        let [tensor, pipeline, data, expert] = [self.tensor, self.pipeline, self.data(), self.expert].map(f64::from);
        let [context, replicas] = [self.context, self.replicas()].map(f64::from);
        let model = &self.model;
        let batches = f64::from(self.micro_batches) * data;
        let activations = self.tokens() as f64 * f64::from(model.hidden) * f64::from(model.parameter_bytes);
        let halves = 4.0 * f64::from(model.layers) * batches * activations;
        let outside = self.tensor > self.deployment.accelerators();
        let of_tensor = if outside { halves * 2.0 * (tensor - 1.0) } else { 0.0 };
        let of_experts = halves * f64::from(model.active_experts) * (expert - 1.0) / expert;
        let of_pipeline = 2.0 * (pipeline - 1.0) * batches * activations;
        let gradients = model.parameters() as f64 * f64::from(model.gradient_bytes) * 2.0 * (replicas - 1.0);
        // Keys and values go around the ring once in a forward pass; with their gradients, in a backward pass.
        let blocks = batches * f64::from(model.layers) * self.tokens() as f64 * model.kv_bytes() as f64;
        let of_context = blocks * (3.0 * (context - 1.0) + if self.context > 1 { 1.0 } else { 0.0 });
        f64::from(self.steps) * (of_context + of_tensor + of_experts + of_pipeline + gradients)
    }

    /// How the ranks carry out collective operations; operation, algorithm, size and group are to be replaced.
    pub fn plan(&self) -> Collective {
        self.deployment.plan(self.algorithm, self.channels, self.chunk, self.outstanding)
    }

    /// Checks that the model can be divided in this way.
    ///
    /// # Errors
    /// One sentence that says why not, and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        let Training { model, tensor, pipeline, expert, .. } = *self;
        let ranks = self.deployment.ranks;
        let divides = |what: &str, parts: u32, of: &str, whole: u32| match parts > 0 && whole.is_multiple_of(parts) {
            true => Ok(()),
            false => Err(format!("{what} = {parts} does not divide {of} ({whole}); accepted: a divisor of {whole}")),
        };
        let counts = [("micro_batches", self.micro_batches), ("micro_batch", self.micro_batch)];
        if let Some((name, count)) = counts.iter().find(|(_, count)| !(1..=Training::MAX_COUNT).contains(count)) {
            return Err(format!("{name} is {count}; accepted: 1 to {}", Training::MAX_COUNT));
        }
        model.check()?;
        if ranks < 2 {
            return Err(format!("ranks is {ranks}; accepted: at least 2"));
        }
        let values = u128::from(self.tokens()) * u128::from(model.hidden) * u128::from(model.active_experts);
        let bytes = values * u128::from(model.parameter_bytes);
        if bytes > Training::MAX_ACTIVATIONS {
            return Err(format!(
                "the activations of a micro-batch for all active experts have {bytes} B; accepted: at most {} B",
                Training::MAX_ACTIVATIONS
            ));
        }
        divides("tensor", tensor, "the number of heads", model.heads)?;
        divides("tensor", tensor, "the number of values `feed_forward`", model.feed_forward)?;
        divides("pipeline", pipeline, "the number of layers", model.layers)?;
        divides("context", self.context, "the number of tokens of a sequence", model.sequence)?;
        let parts = u64::from(tensor) * u64::from(self.context) * u64::from(pipeline);
        if !u64::from(ranks).is_multiple_of(parts) {
            return Err(format!(
                "{} = {parts} does not divide {ranks} ranks; accepted: a product that divides {ranks}",
                if self.context > 1 { "tensor x context x pipeline" } else { "tensor x pipeline" }
            ));
        }
        divides("expert", expert, "the number of experts", model.experts)?;
        divides("expert", expert, "the number of data ranks", self.data())?;
        let accelerators = self.deployment.accelerators();
        divides("accelerators", accelerators, "the number of ranks", ranks)?;
        self.deployment.check_algorithm(self.algorithm, self.channels)?;
        let rate = self.accelerator_tflops * self.efficiency;
        if !(rate > 0.0 && rate.is_finite() && self.efficiency <= 1.0) {
            return Err(
                "the rate of an accelerator is out of range; accepted: above 0, an efficiency of at most 1".into()
            );
        }
        if self.deployment.reaction == Time::ZERO {
            return Err("the reaction takes no time; accepted: a time above 0".to_string());
        }
        if let Some(step) = self.deployment.timeline.filter(|step| *step >= self.steps) {
            return Err(format!("timeline is step {step}; accepted: 0 to {}, the last step", self.steps - 1));
        }
        if self.warmup_steps >= self.steps {
            return Err(format!(
                "warmup_steps = {} leaves none of {} steps to measure; accepted: fewer than the steps",
                self.warmup_steps, self.steps
            ));
        }
        let passes = 2 * u64::from(self.layers_of_stage()) * u64::from(self.micro_batches) * u64::from(self.steps);
        if passes > Training::MAX_PASSES {
            return Err(format!(
                "a rank has {passes} passes through a layer (2 x layers of a stage x micro-batches x steps); accepted: at \
                 most {}",
                Training::MAX_PASSES
            ));
        }
        Ok(())
    }
}
