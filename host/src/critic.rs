//! The critic of a run: it is there only if a scheme needs it, and learns beside the policy from the derivatives that the
//! objective gives for values.

use std::path::Path;

use accredit_torch::{Critic, Error, Model, Moments, Optimizer, Snapshot};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    config::{self, CriticTrunk},
    update::{adamw, learning_rate},
};

const OPTIMIZER_FILE: &str = "optimizer.safetensors";

/// A critic with its optimiser, its learning rate and its warm-up.
#[derive(Debug)]
pub struct Learner {
    critic: Critic,
    optimizer: Optimizer,
    pace: config::Optimizer,
    warmup: u64,
    updates: u64,
}

/// Weights and moments of a critic at one moment.
#[derive(Debug)]
pub struct Saved {
    weights: Snapshot,
    moments: Moments,
}

impl Saved {
    /// Writes both into a folder, which is made if it is not there.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        self.weights.save(folder)?;
        self.moments.save(&folder.join(OPTIMIZER_FILE))
    }
}

/// What one optimiser step of a critic did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    /// Norm of the gradient of its own weights before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
}

impl Learner {
    /// A critic that has learnt nothing, for a policy as it is now. `updates` optimiser steps are planned.
    pub fn new(policy: &Model, config: &config::Critic, updates: u64) -> Result<Self, Error> {
        let critic = match config.trunk {
            CriticTrunk::Copy => Critic::copy(policy)?,
            CriticTrunk::Shared => Critic::shared(policy)?,
        };
        Self::of(critic, config, updates)
    }

    fn of(critic: Critic, config: &config::Critic, updates: u64) -> Result<Self, Error> {
        let pace = config.optimizer();
        let optimizer = Optimizer::of_critic(&critic, adamw(&pace))?;
        Ok(Self { critic, optimizer, pace, warmup: config.warmup, updates })
    }

    /// Reads what [`Learner::snapshot`] is written as, and goes on bit for bit. Errors: a folder that is not there, since the run was
    /// started without a critic; files that are broken, or of a critic with another trunk.
    pub fn load(folder: &Path, policy: &Model, config: &config::Critic, updates: u64) -> Result<Self> {
        if !folder.is_dir() {
            bail!("the run has no critic: it was started without a scheme that needs one");
        }
        let (critic, trunk) = match config.trunk {
            CriticTrunk::Copy => (Critic::load_copy(policy, folder), "copy"),
            CriticTrunk::Shared => (Critic::load_shared(policy, folder), "shared"),
        };
        let critic =
            critic.with_context(|| format!("the run's critic cannot be read with `critic.trunk = \"{trunk}\"`"))?;
        let mut learner = Self::of(critic, config, updates)?;
        learner.optimizer.load(&folder.join(OPTIMIZER_FILE))?;
        Ok(learner)
    }

    /// Weights and moments; see [`Model::snapshot`].
    pub fn snapshot(&self, copied: bool) -> Result<Saved, Error> {
        Ok(Saved { weights: self.critic.snapshot(copied)?, moments: self.optimizer.snapshot(copied)? })
    }

    /// The critic.
    pub fn critic(&self) -> &Critic {
        &self.critic
    }

    /// Whether the critic alone is trained in an iteration.
    pub fn warms_up(&self, iteration: u64) -> bool {
        iteration < self.warmup
    }

    /// Sets its gradient to 0.
    pub fn zero_grad(&mut self) -> Result<(), Error> {
        self.optimizer.zero_grad()
    }

    /// One optimiser step, with the gradient that backward passes have added up.
    pub fn step(&mut self) -> Result<Stepped, Error> {
        let lr = learning_rate(&self.pace, self.optimizer.steps(), self.updates);
        let report = self.optimizer.step(lr)?;
        Ok(Stepped { grad_norm: report.grad_norm, lr })
    }
}
