//! The update: minibatches of rows, each one optimiser step; micro-batches that fit in memory; the objective's
//! derivatives; the learning rate.

pub mod imitate;
mod schedule;

pub use schedule::learning_rate;

use std::collections::VecDeque;

use accredit_core::{Slice, batch::Batch, rng::Stream};
use accredit_plugin_api::{
    columns::{NEW_ENTROPY, NEW_TOP_K_LOGPROB, NEW_VALUE, OLD_LOGPROB, TOP_K_ID},
    host::Data,
};
use accredit_torch::{AdamW, Critic, Derivatives, Listed, Model, Optimizer, TrunkGradient, Values, Wanted, passes};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    config::{self, Schedule},
    credit::{Counters, Credit, CreditError, Fresh, Pipeline, objective::Minibatch},
    critic::{Learner, Stepped},
    scoring::{Rows, Teachers},
};

/// An update that could not be made.
#[derive(Debug, Error)]
pub enum UpdateError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] accredit_torch::Error),
    /// A scheme failed.
    #[error(transparent)]
    Credit(#[from] CreditError),
}

/// The update of one iteration: the minibatches that are left, and what those so far did. It can be put away between two of
/// them, and goes on the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Rows of the minibatches that are left, in their order.
    left: VecDeque<Vec<usize>>,
    /// Minibatches that are done.
    done: u64,
    /// Sums over these.
    sums: Updated,
}

/// What an update did, over all its optimiser steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Updated {
    /// Optimiser steps of the policy.
    pub steps: u64,
    /// Mean loss of a minibatch.
    pub loss: f64,
    /// Mean norm of the policy's gradient before clipping.
    pub grad_norm: f64,
    /// Share of steps whose gradient was scaled down.
    pub clipped_share: f64,
    /// How far the policy moved, over all forward passes.
    pub moved: Moved,
    /// Learning rate of the policy's last step; 0 where it made none.
    pub lr: f64,
    /// The critic's mean gradient norm and its last learning rate, where it made steps.
    pub critic: Option<Stepped>,
    /// Tokens that went through forward and backward, prompts included.
    pub tokens: usize,
}

/// How far the policy has moved from the one that was scored, as the forward passes of an update see it: sums over
/// tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Tokens.
    pub tokens: f64,
    /// Log-probability before the update less that of now.
    pub kl: f64,
    /// Weight times advantage times what the log-probability has gained.
    pub gain: f64,
}

impl Moved {
    fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.kl += other.kl;
        self.gain += other.gain;
    }

    fn of(old: &[f32], new: &[f32], advantage: &[f32], weight: &[f32]) -> Self {
        let mut moved = Self { tokens: old.len() as f64, ..Self::default() };
        for (((old, new), advantage), weight) in old.iter().zip(new).zip(advantage).zip(weight) {
            let gained = f64::from(*new) - f64::from(*old);
            moved.kl -= gained;
            moved.gain += gained * f64::from(*advantage) * f64::from(*weight);
        }
        moved
    }
}

/// What a minibatch gave beside its gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passed {
    /// Its loss.
    pub loss: f64,
    /// How far the policy had moved.
    pub moved: Moved,
}

/// How an update is cut and paced.
#[derive(Clone, Copy, Debug)]
pub struct Pace<'a> {
    /// Epochs, minibatches, micro-batches.
    pub update: &'a config::Update,
    /// Learning rate and its schedule.
    pub optimizer: &'a config::Optimizer,
    /// The sampling temperature: log-probabilities are those of the distribution that was sampled from.
    pub temperature: f32,
}

/// What the gradient of a minibatch goes into.
#[derive(Clone, Copy, Debug)]
pub struct Trained<'a> {
    /// The policy.
    pub policy: &'a Model,
    /// The critic, where there is one.
    pub critic: Option<&'a Critic>,
    /// Only the critic learns: the policy's gradient stays as it is.
    pub critic_alone: bool,
}

/// All that an optimiser step changes.
#[derive(Debug)]
pub struct Learners<'a> {
    /// The policy.
    pub policy: &'a Model,
    /// Its optimiser.
    pub optimizer: &'a mut Optimizer,
    /// What follows the policy.
    pub teachers: &'a mut Teachers,
    /// The critic with its own optimiser, where there is one.
    pub critic: Option<&'a mut Learner>,
}

impl Update {
    /// The update of a batch, of which nothing is done. `order` shuffles the rows in each epoch.
    pub fn new(batch: &Batch, config: &config::Update, order: Stream) -> Self {
        let mut trained = batch.trained_rows();
        let mut left = VecDeque::new();
        for epoch in 0..if trained.is_empty() { 0 } else { config.epochs as u64 } {
            order.with(epoch).shuffle(&mut trained);
            left.extend(deal(&trained, config.minibatches));
        }
        Self { left, ..Self::default() }
    }

    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Minibatches that are done, and all of them.
    pub fn position(&self) -> (u64, u64) {
        (self.done, self.done + self.left.len() as u64)
    }

    /// Leaves out what is left.
    pub fn leave_out_rest(&mut self) {
        self.left.clear();
    }

    /// Makes one optimiser step, with the next minibatch, and gives the number of optimiser steps of the policy that it was:
    /// in the critic's warm-up the policy makes none, and the count of updates stands still.
    pub fn step(
        &mut self,
        learners: Learners<'_>,
        pipeline: &mut Pipeline,
        (batch, rows, credit): (&mut Batch, &Rows, &Credit),
        pace: Pace<'_>,
        counters: Counters,
    ) -> Result<u64, UpdateError> {
        let Some(minibatch) = self.left.front() else { return Ok(0) };
        let Learners { policy, optimizer, teachers, mut critic } = learners;
        let iteration = counters.iteration;
        let critic_alone = critic.as_ref().is_some_and(|critic| critic.warms_up(iteration));
        counters.put_into(batch);
        optimizer.zero_grad()?;
        if let Some(critic) = &mut critic {
            critic.zero_grad()?;
        }
        let critic_of = critic.as_ref().map(|learner| learner.critic());
        let models = Trained { policy, critic: critic_of, critic_alone };
        let passed = gradient(models, pipeline, batch, rows, credit, minibatch, pace, iteration)?;
        let sums = &mut self.sums;
        sums.loss += passed.loss;
        sums.moved.add(passed.moved);
        sums.tokens += minibatch.iter().map(|row| rows.len_of(*row)).sum::<usize>();
        if let Some(critic) = &mut critic {
            let stepped = critic.step()?;
            let sum = sums.critic.get_or_insert_default();
            *sum = Stepped { grad_norm: sum.grad_norm + stepped.grad_norm, lr: stepped.lr };
        }
        let steps = u64::from(!critic_alone);
        if !critic_alone {
            let lr = learning_rate(pace.optimizer, counters.update, counters.updates);
            let report = optimizer.step(lr)?;
            teachers.follow(policy, counters.update + 1)?;
            sums.steps += 1;
            sums.lr = lr;
            sums.grad_norm += report.grad_norm;
            sums.clipped_share += f64::from(u8::from(report.clipped));
        }
        self.left.pop_front();
        self.done += 1;
        Ok(steps)
    }

    /// What the steps so far did.
    pub fn updated(&self) -> Updated {
        let mut updated = self.sums.clone();
        let (steps, minibatches) = (updated.steps.max(1) as f64, self.done.max(1) as f64);
        updated.loss /= minibatches;
        updated.grad_norm /= steps;
        updated.clipped_share /= steps;
        if let Some(critic) = &mut updated.critic {
            critic.grad_norm /= minibatches;
        }
        updated
    }
}

/// Adds the gradient of one minibatch to the models', micro-batch by micro-batch. Nothing of it depends on how the
/// minibatch is cut.
#[expect(clippy::too_many_arguments, reason = "everything that an update brings together, and none of it twice")]
pub fn gradient(
    trained: Trained<'_>,
    pipeline: &mut Pipeline,
    batch: &Batch,
    rows: &Rows,
    credit: &Credit,
    minibatch_rows: &[usize],
    pace: Pace<'_>,
    iteration: u64,
) -> Result<Passed, UpdateError> {
    let minibatch = Minibatch::of(batch, credit, minibatch_rows);
    let wants_entropy = pipeline.reads_fresh(NEW_ENTROPY.name());
    let lists = pipeline.reads_fresh(NEW_TOP_K_LOGPROB.name());
    let critic = trained.critic.filter(|_| pipeline.reads_fresh(NEW_VALUE.name()));
    let lengths: Vec<usize> = minibatch_rows.iter().map(|row| rows.len_of(*row)).collect();
    let mut passed = Passed::default();
    for pass in passes(&lengths, pace.update.micro_batch_tokens) {
        let micro_rows: Vec<usize> = pass.iter().map(|index| minibatch_rows[*index]).collect();
        let slice = Slice::of(batch, &micro_rows);
        let inputs: Vec<_> = slice.rows.iter().map(|row| rows.get(*row)).collect();
        let wanted = Wanted { logprob: true, entropy: wants_entropy, energy: false };
        let listed = match slice.column(TOP_K_ID.name()) {
            Some(Data::U32(ids)) if lists => Some(Listed { k: batch.top_k(), ids }),
            _ => None,
        };
        let forward = trained.policy.forward_listed(&inputs, pace.temperature, wanted, listed)?;
        let values = critic.map(|critic| critic.forward(&inputs, &forward)).transpose()?;
        let fresh = Fresh {
            logprob: forward.logprob(),
            entropy: wants_entropy.then(|| forward.entropy()),
            value: values.as_ref().map(Values::value),
            top_k_logprob: lists.then(|| forward.listed()),
        };
        let evaluated = pipeline.evaluate(batch, credit, &minibatch, &slice, fresh, iteration)?;
        passed.loss += evaluated.loss;
        if let Some(Data::F32(old)) = slice.column(OLD_LOGPROB.name()) {
            let weight = slice.gather(&credit.weight);
            passed.moved.add(Moved::of(old, forward.logprob(), &evaluated.advantage, &weight));
        }
        let to_trunk = match (values, &evaluated.d_value) {
            (Some(values), Some(d_value)) => values.backward(d_value)?,
            _ => TrunkGradient::default(),
        };
        if !trained.critic_alone {
            let derivatives = Derivatives {
                logprob: &evaluated.d_logprob,
                entropy: evaluated.d_entropy.as_deref(),
                listed: evaluated.d_top_k_logprob.as_deref(),
            };
            forward.backward_with(&derivatives, to_trunk)?;
        }
    }
    Ok(passed)
}

/// Deals rows into minibatches whose sizes differ by at most one; none is empty.
fn deal(rows: &[usize], minibatches: usize) -> Vec<Vec<usize>> {
    let count = minibatches.clamp(1, rows.len().max(1));
    (0..count).map(|i| rows[rows.len() * i / count..rows.len() * (i + 1) / count].to_vec()).collect()
}

/// The constants of an optimiser.
pub fn adamw(optimizer: &config::Optimizer) -> AdamW {
    let config::Optimizer { lr, beta1, beta2, eps, weight_decay, max_grad_norm, .. } = *optimizer;
    AdamW { lr, beta1, beta2, eps, weight_decay, max_grad_norm }
}

/// How many optimiser steps so many iterations plan.
pub fn planned_updates(iterations: u64, update: &config::Update) -> u64 {
    iterations * update.epochs as u64 * update.minibatches as u64
}

/// A schedule that warm start uses: up in a line, down along a cosine.
pub(crate) fn cosine(lr: f64, warmup_updates: u64, min_lr_share: f64) -> config::Optimizer {
    config::Optimizer { lr, warmup_updates, min_lr_share, schedule: Schedule::Cosine, ..config::Optimizer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_dealt_once_and_no_minibatch_is_empty() {
        let rows: Vec<usize> = (0..7).collect();
        for minibatches in 1..10 {
            let dealt = deal(&rows, minibatches);
            assert_eq!(dealt.concat(), rows);
            assert!(dealt.iter().all(|part| !part.is_empty()));
            let sizes = dealt.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }
}
