//! `[warm_start]`: behaviour cloning before reinforcement learning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Behaviour cloning of the environment's scripted expert, before the first iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmStart {
    /// How many episodes of the expert are cloned.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub episodes: usize,
    /// The share of the expert's steps in which it acts at random instead.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub expert_noise: f64,
    /// Optimiser steps.
    #[schemars(range(min = 1))]
    pub updates: u64,
    /// Rows per optimiser step.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batch_rows: usize,
    /// The highest learning rate.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub lr: f64,
    /// Optimiser steps in which the learning rate rises from 0.
    #[serde(default)]
    pub warmup_updates: u64,
    /// The share of `lr` that the cosine schedule ends at.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_lr_share: f64,
    /// AdamW's weight decay.
    #[serde(default = "weight_decay")]
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// The decay of AdamW's squared gradient.
    #[serde(default = "beta2")]
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1))]
    pub beta2: f64,
}

fn beta2() -> f64 {
    0.98
}

fn weight_decay() -> f64 {
    0.01
}
