//! `grpo`: an episode's reward against the rewards of its group (Group Relative Policy Optimisation).
//!
//! # What it does
//!
//! A group is played from one task. Every response token of a trajectory gets the same advantage: how far the
//! trajectory's outcome lies above the group's mean, in units of the group's standard deviation. No critic is needed.
//!
//! # The formula
//!
//! With `R_i` the outcome of trajectory `i`, and mean and standard deviation over the entries of its group,
//!
//! ```text
//! A_i = (R_i - mean(R)) / (std(R) + eps)        std = true    Shao et al. 2024 (arXiv 2402.03300), section 4.1.2
//! A_i =  R_i - mean(R)                          std = false   Dr. GRPO, Liu et al. 2025 (arXiv 2503.20783), section 3.2
//! ```
//!
//! `std` divides its sum of squares by `n - ddof`. The sums are taken in 64 bits over sorted values, so the result does
//! not depend, in any bit, on the order of trajectories or groups.
//!
//! # Fidelity
//!
//! Equal to verl's GRPO (its `eps` of 1e-6 outside the root, its sample deviation) and, by its parameters, to those of
//! RAGEN, DrMAS, TRL (`eps = 1e-4`) and OpenRLHF (`eps = 1e-9`), as far as the two rules below go.
//!
//! - A group whose outcomes are all equal gets exactly 0, decided by comparing the outcomes. Elsewhere the rounding of
//!   a mean such as that of eight times 0.95 can be blown up to an advantage by a small `eps`.
//! - A group of one gets 0. verl and others give it mean 0 and deviation 1, so that its raw outcome survives;
//!   `singleton = "raw"` does that.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `over` | `"trajectories"` | what counts once in mean and deviation: `"trajectories"` or `"rows"` |
//! | `std` | `true` | divide by the deviation; `false` is Dr. GRPO |
//! | `ddof` | `1` | 1 the sample deviation, 0 the population's |
//! | `eps` | `1e-6` | added to the deviation |
//! | `singleton` | `"zero"` | the advantage of a group with one entry: `"zero"`, or `"raw"`, its outcome over `1 + eps` |
//!
//! `over` matters where a row is a step (`context = "window"`). `"rows"` is how verl-agent and GiGPO count by default: a
//! trajectory with more steps weighs more in its group's baseline. With outcomes 1 (three steps) and 0 (one step) the
//! baseline is 0.75, not 0.5. Where a row is a trajectory the two are the same.
//!
//! # What it needs
//!
//! The outcome of each trajectory; no signal of a model. Groups of at least two, unless `singleton = "raw"`.
//!
//! # When it goes wrong
//!
//! - Groups that are all solved or all failed teach nothing: the metric `groups_without_spread` counts them. Harder or
//!   easier tasks, larger groups or a filter help.
//! - Division by the deviation gives the same weight to a group that is solved once in a hundred as to one that is solved
//!   every other time; `std = false` does not.
//! - Every token of an episode gets the same credit, the costly mistake and the idle remark alike. That is what the
//!   other schemes are for.
//!
//! # Metrics
//!
//! `groups`, `groups_singleton` (one entry), `groups_without_spread` (several entries, all equal).
//!
//! # Example
//!
//! ```toml
//! seed = 7
//! iterations = 100
//!
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
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "grpo"
//! params = { std = true, singleton = "zero" }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use accredit_plugin_api::prelude::*;

choices! {
    /// What counts once in the statistics of a group.
    pub enum Over {
        /// Every trajectory.
        Trajectories = "trajectories",
        /// Every row that has a response token.
        Rows = "rows",
    }
}

choices! {
    /// The advantage of a group with one entry.
    pub enum Singleton {
        /// 0.
        Zero = "zero",
        /// Mean 0 and deviation 1: the outcome itself.
        Raw = "raw",
    }
}

params! {
    /// Parameters of `grpo`.
    pub struct Params {
        /// What counts once in the mean and the deviation of a group.
        over: Over = Over::Trajectories,
        /// Divide by the deviation; false is Dr. GRPO.
        std: bool = true,
        /// The sum of squares is divided by the number of entries less this: 1 the sample deviation, 0 the population's.
        #[range(0..=1)]
        ddof: u32 = 1,
        /// Added to the deviation.
        #[range(0.0..)]
        eps: f64 = 1e-6,
        /// The advantage of a group with one entry.
        singleton: Singleton = Singleton::Zero,
    }
}

/// The scheme.
pub struct Grpo {
    params: Params,
    /// Outcomes of the group at hand.
    scores: Scores,
}

/// What is taken off a score, and what the rest is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Baseline {
    /// Nothing to compare: 0 for all.
    Flat,
    /// `(score - mean) / scale`.
    Spread { mean: f64, scale: f64 },
}

/// Kinds of groups that give no signal.
#[derive(Default)]
struct Counts {
    groups: u32,
    singleton: u32,
    without_spread: u32,
}

impl Scheme for Grpo {
    type Params = Params;
    const NAME: &'static str = "grpo";
    const ABOUT: &'static str = "The episode's reward against its group's mean and deviation, on every token.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { params, scores: Scores::default() })
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Advantage]).reads(&[OUTCOME.any()]);
        match self.params.singleton {
            Singleton::Zero => needs.group_relative(),
            Singleton::Raw => needs,
        }
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let outcome = batch.get(OUTCOME)?;
        let mut rows = batch.rows().peekable();
        let mut counts = Counts::default();
        for group in batch.groups() {
            self.scores.clear();
            for trajectory in group.trajectories() {
                let steps = trajectory.step_range();
                let mut rows_with_tokens = 0;
                while let Some(row) = rows.next_if(|row| row.step_range().start < steps.end) {
                    rows_with_tokens += u32::from(!row.tokens().is_empty());
                }
                let entries = match self.params.over {
                    Over::Trajectories => 1,
                    Over::Rows => rows_with_tokens,
                };
                self.scores.push(f64::from(outcome[trajectory.index()]), entries);
            }
            let baseline = self.baseline(&mut counts);
            for trajectory in group.trajectories() {
                let advantage = match baseline {
                    Baseline::Flat => 0.0,
                    Baseline::Spread { mean, scale } => (f64::from(outcome[trajectory.index()]) - mean) / scale,
                };
                out.advantage[trajectory.tokens()].fill(advantage as f32);
            }
        }
        let host = &context.host;
        host.metric("groups", f64::from(counts.groups));
        host.metric("groups_singleton", f64::from(counts.singleton));
        host.metric("groups_without_spread", f64::from(counts.without_spread));
        Ok(())
    }
}

impl Grpo {
    /// The baseline of the group whose scores stand in `self.scores`.
    fn baseline(&mut self, counts: &mut Counts) -> Baseline {
        counts.groups += 1;
        let Some(spread) = self.scores.spread() else {
            return Baseline::Flat;
        };
        if spread.count == 1 {
            counts.singleton += 1;
            return match self.params.singleton {
                Singleton::Zero => Baseline::Flat,
                Singleton::Raw => {
                    Baseline::Spread { mean: 0.0, scale: if self.params.std { 1.0 + self.params.eps } else { 1.0 } }
                }
            };
        }
        if spread.all_equal {
            counts.without_spread += 1;
            return Baseline::Flat;
        }
        let scale = if self.params.std { spread.deviation(self.params.ddof) + self.params.eps } else { 1.0 };
        Baseline::Spread { mean: spread.mean, scale }
    }
}

export_plugin!(Grpo);

#[cfg(test)]
mod tests;
