//! `normalize`: advantages with mean 0 and deviation 1, over the batch or over each group.
//!
//! # What it does
//!
//! Whatever estimators left, it takes the mean off and divides by the deviation, so that the size of an update depends
//! neither on the scale of the rewards nor on how many tasks are easy.
//!
//! # The formula
//!
//! ```text
//! A' = (A - mean) / sqrt(var + eps)      var = squares / (n - ddof)
//! ```
//!
//! over the tokens of the batch or of a group. With `count = "steps"` or `"trajectories"` an entry is the mean advantage of
//! a step's or a trajectory's tokens, and each counts once, however long it is; tokens then get the same offset and factor.
//!
//! # Fidelity
//!
//! With its defaults equal to verl's masked whitening. Over groups by trajectories, after `grpo` with `std = false`, it is
//! GRPO with `eps` inside the root.
//!
//! - **Zero spread**: entries that are all equal, decided by comparing them, become 0; with `center = false` they stay as
//!   they are, since there is no deviation to divide by.
//! - **A single entry** becomes 0; `singleton = "raw"` leaves it as it is.
//! - **Signs**: taking the mean off turns the sign of what lies between 0 and the mean. With `center = false` every sign
//!   stays, and 0 stays 0.
//! - Loss weights are neither read nor changed. Trajectories that only count as a baseline count here too. The result does
//!   not depend, in any bit, on the order of trajectories and groups.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `over` | `"batch"` | what has mean 0 afterwards: `"batch"`, or each `"group"` |
//! | `count` | `"tokens"` | what counts once: `"tokens"`, `"steps"` or `"trajectories"` |
//! | `center` | `true` | take the mean off |
//! | `scale` | `true` | divide by the deviation |
//! | `ddof` | `1` | 1 the sample deviation, 0 the population's |
//! | `eps` | `1e-8` | added to the variance, inside the root |
//! | `singleton` | `"zero"` | what a single entry becomes: `"zero"`, or `"raw"`, itself |
//!
//! # What it needs
//!
//! Advantages of schemes before it. Schemes with `weigh` run in the order of the file: before `actfocus` or `aem` it is the
//! advantage that is whitened, after them their product.
//!
//! # When it goes wrong
//!
//! - After an estimator that whitens already (`gae`, `reinforce`, `grpo` over groups) it does little and hides its scale.
//! - By tokens, one long episode decides the mean.
//! - When nearly all advantages are 0, the few that are not become very large.
//!
//! # Metrics
//!
//! `units` (batches or groups), `units_singleton` (one entry), `units_without_spread` (several, all equal).
//!
//! # Example
//!
//! ```toml
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 1024
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [[credit]]
//! plugin = "grpo"
//! params = { std = false }
//!
//! [[credit]]
//! plugin = "normalize"
//! params = { over = "batch", count = "trajectories" }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::ops::Range;

use accredit_plugin_api::{math, prelude::*};
use accredit_steps::whiten::{Moments, Whitening};

choices! {
    /// What has mean 0 and deviation 1 afterwards.
    pub enum Over {
        /// The batch.
        Batch = "batch",
        /// Each group.
        Group = "group",
    }
}

choices! {
    /// What counts once.
    pub enum Count {
        /// Every response token.
        Tokens = "tokens",
        /// Every step that has a response token, by the mean of its tokens.
        Steps = "steps",
        /// Every trajectory that has a response token, by the mean of its tokens.
        Trajectories = "trajectories",
    }
}

choices! {
    /// What a single entry becomes.
    pub enum Singleton {
        /// 0.
        Zero = "zero",
        /// Itself.
        Raw = "raw",
    }
}

params! {
    /// Parameters of `normalize`.
    pub struct Params {
        /// What has mean 0 and deviation 1 afterwards.
        over: Over = Over::Batch,
        /// What counts once.
        count: Count = Count::Tokens,
        /// Take the mean off.
        center: bool = true,
        /// Divide by the deviation.
        scale: bool = true,
        /// The sum of squares is divided by the number of entries less this: 1 the sample deviation, 0 the population's.
        #[range(0..=1)]
        ddof: u32 = 1,
        /// Added to the variance, inside the root.
        #[range(0.0..)]
        eps: f64 = 1e-8,
        /// What a single entry becomes.
        singleton: Singleton = Singleton::Zero,
    }
}

struct Normalize {
    over: Over,
    count: Count,
    singleton: Singleton,
    whitening: Whitening,
    moments: Moments,
    scores: Scores,
}

/// The batch or a group, and how many of them gave no spread.
#[derive(Default)]
struct Counts {
    units: u32,
    singleton: u32,
    without_spread: u32,
}

impl Scheme for Normalize {
    type Params = Params;
    const NAME: &'static str = "normalize";
    const ABOUT: &'static str = "Advantages with mean 0 and deviation 1, over the batch or over each group.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        if !params.center && !params.scale {
            return Err(Error::parameter("scale", "without `center` and without `scale` nothing is left to do"));
        }
        Ok(Self {
            over: params.over,
            count: params.count,
            singleton: params.singleton,
            whitening: Whitening { center: params.center, scale: params.scale, ddof: params.ddof, eps: params.eps },
            moments: Moments::default(),
            scores: Scores::default(),
        })
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Weigh])
            .except_if(self.over == Over::Batch, "other-groups", "it whitens over the batch (`over`)")
            .except("coverage", "advantages that are all the same have no spread, and become 0")
    }

    fn weigh(&mut self, batch: &Batch<'_>, credit: &mut Credit<'_>, context: &Context) -> Result<()> {
        let mut counts = Counts::default();
        match self.over {
            Over::Batch => {
                self.unit(&mut counts, credit.advantage, 0..batch.token_count(), batch.trajectories());
            }
            Over::Group => {
                for group in batch.groups() {
                    self.unit(&mut counts, credit.advantage, group.token_range(), group.trajectories());
                }
            }
        }
        let host = &context.host;
        host.metric("units", f64::from(counts.units));
        host.metric("units_singleton", f64::from(counts.singleton));
        host.metric("units_without_spread", f64::from(counts.without_spread));
        Ok(())
    }
}

impl Normalize {
    /// Whitens the tokens of some trajectories.
    fn unit<'a>(
        &mut self,
        counts: &mut Counts,
        advantage: &mut [f32],
        tokens: Range<usize>,
        trajectories: impl Iterator<Item = Trajectory<'a>>,
    ) {
        let spread = match self.count {
            Count::Tokens => {
                self.moments.clear();
                for trajectory in trajectories {
                    self.moments.push(&advantage[trajectory.tokens()]);
                }
                self.moments.spread()
            }
            Count::Steps => {
                self.scores.clear();
                for trajectory in trajectories {
                    for step in trajectory.steps() {
                        push_mean(advantage, step.tokens(), &mut self.scores);
                    }
                }
                self.scores.spread()
            }
            Count::Trajectories => {
                self.scores.clear();
                for trajectory in trajectories {
                    push_mean(advantage, trajectory.tokens(), &mut self.scores);
                }
                self.scores.spread()
            }
        };
        counts.units += 1;
        let Some(spread) = spread else {
            return;
        };
        let alone = spread.count == 1;
        counts.singleton += u32::from(alone);
        counts.without_spread += u32::from(spread.all_equal && !alone);
        let values = &mut advantage[tokens];
        match self.singleton {
            _ if !alone => self.whitening.apply(values, &spread),
            Singleton::Zero => values.fill(0.0),
            Singleton::Raw => {}
        }
    }
}

/// Adds the mean of a range of tokens to the scores; that of an empty range is none.
fn push_mean(values: &[f32], tokens: Range<usize>, scores: &mut Scores) {
    let count = tokens.len();
    let sum = math::sum_f32(&values[tokens]);
    scores.push(sum / count.max(1) as f64, u32::from(count > 0));
}

export_plugin!(Normalize);

#[cfg(test)]
mod tests;
