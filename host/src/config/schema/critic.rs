//! `[critic]`: the value model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::update::{Optimizer, Schedule};

/// The value model. It is made only if a scheme reads values or gives value targets; its loss is the objective's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Critic {
    /// What the value head stands on.
    pub trunk: CriticTrunk,
    /// Iterations at the beginning in which the critic alone is trained: the policy's weights do not change.
    pub warmup: u64,
    /// The highest learning rate of what is the critic's own: the value head, and a copied trunk.
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
    /// A gradient of the critic's own weights with a larger norm is scaled down to this one.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_grad_norm: f64,
    /// Optimiser steps of the critic in which the learning rate rises from 0.
    pub warmup_updates: u64,
    /// How the learning rate falls after that.
    pub schedule: Schedule,
    /// The share of `lr` that a falling schedule ends at.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_lr_share: f64,
}

/// What a value head stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CriticTrunk {
    /// A copy of the policy's trunk, made before the first iteration and trained apart. Four more copies of the weights
    /// in memory, and a second model to run.
    Copy,
    /// The policy's own trunk, which then learns from both losses, with the policy's optimiser. It costs next to nothing.
    Shared,
}

impl Default for Critic {
    fn default() -> Self {
        let Optimizer {
            beta1, beta2, eps, weight_decay, max_grad_norm, warmup_updates, schedule, min_lr_share, ..
        } = Optimizer::default();
        Self {
            trunk: CriticTrunk::Copy,
            warmup: 0,
            lr: 1e-5,
            beta1,
            beta2,
            eps,
            weight_decay,
            max_grad_norm,
            warmup_updates,
            schedule,
            min_lr_share,
        }
    }
}

impl Critic {
    /// Its optimiser, in the terms of the policy's.
    pub fn optimizer(&self) -> Optimizer {
        let Self { lr, beta1, beta2, eps, weight_decay, max_grad_norm, warmup_updates, schedule, min_lr_share, .. } =
            *self;
        Optimizer { lr, beta1, beta2, eps, weight_decay, max_grad_norm, warmup_updates, schedule, min_lr_share }
    }
}
