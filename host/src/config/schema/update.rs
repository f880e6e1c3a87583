//! `[optimizer]` and `[update]`: from a batch to new weights.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// AdamW (Loshchilov, Hutter 2019) and its schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    /// The highest learning rate.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub lr: f64,
    /// The decay of the gradient's running mean.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1))]
    pub beta1: f64,
    /// The decay of the squared gradient's running mean.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1))]
    pub beta2: f64,
    /// Added to the root of the squared gradient's running mean.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
    /// Decoupled weight decay.
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// A gradient with a larger norm is scaled down to this one.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_grad_norm: f64,
    /// Optimiser steps in which the learning rate rises from 0.
    pub warmup_updates: u64,
    /// How the learning rate falls after that.
    pub schedule: Schedule,
    /// The share of `lr` that a falling schedule ends at.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_lr_share: f64,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            lr: 1e-6,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            max_grad_norm: 1.0,
            warmup_updates: 0,
            schedule: Schedule::Constant,
            min_lr_share: 0.0,
        }
    }
}

/// How the learning rate falls after its warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// It does not.
    Constant,
    /// In a straight line to `min_lr_share` of it, at the last planned update.
    Linear,
    /// Along half a cosine to `min_lr_share` of it, at the last planned update.
    Cosine,
}

/// Models of so many weights and more use gradient checkpointing where the configuration does not say it.
const LARGE: usize = 100_000_000;

/// Whether a model of so many weights is trained with gradient checkpointing.
pub fn gradient_checkpointing(set: Option<bool>, weights: usize) -> bool {
    set.unwrap_or(weights >= LARGE)
}

/// How a batch is cut into optimiser steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Update {
    /// How often a batch is gone through.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Minibatches, which are optimiser steps, per epoch.
    #[schemars(range(min = 1))]
    pub minibatches: usize,
    /// The most tokens that go through the model at once. The gradient does not depend on it.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: usize,
    /// Layers keep only what they read, and are computed again on the way back: a third more arithmetic, and a small part
    /// of the memory. Left out, models of 100 million weights and more do so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_checkpointing: Option<bool>,
}

impl Default for Update {
    fn default() -> Self {
        Self { epochs: 1, minibatches: 1, micro_batch_tokens: 16_384, gradient_checkpointing: None }
    }
}
