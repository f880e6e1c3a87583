//! `reinforce`: what came after a token is its credit (REINFORCE), whitened over the batch (REINFORCE++).
//!
//! # What it does
//!
//! Every response token gets the discounted sum of the rewards from itself to the end of its row. There is no critic and
//! no group; what all tokens of the batch have in common is taken off by whitening. With `baseline = "group"` the
//! outcome is first compared with the mean of its group, REINFORCE++'s form for several episodes of one task.
//!
//! # The formula
//!
//! Over the response tokens `k` of a row, from the last to the first,
//!
//! ```text
//! G_k = r_k + gamma G_{k+1}                       Williams 1992; with whitening Hu et al. 2025 (arXiv 2501.03262)
//! A   = (G - mean(G)) / sqrt(var(G) + eps)        mean and variance over all response tokens of the batch
//! ```
//!
//! `r_k` is 0 but for the last token of a row, which has the outcome `R_i` (`reward = "outcome"`), or the last token of
//! each step, which has the step's reward (`"steps"`); what `shape` gave to single tokens is added. With
//! `baseline = "group"` the row's last token has `R_i - mean(R)` over the trajectories of its group.
//!
//! # Fidelity
//!
//! | setting | equal to |
//! | --- | --- |
//! | defaults | verl's REINFORCE++ of 2026: the environment's tokens are skipped |
//! | `within = "steps"` | verl's of 2025, and those of DrMAS and SERL: the sum starts anew at the environment's tokens, so that with trajectory rows and `reward = "outcome"` only the last response is credited |
//! | `observation_steps = true`, `ddof = 0` | OpenRLHF's `reinforce`: each token of the environment costs a step of `gamma` |
//! | `baseline = "group"`, `singleton = "raw"` | verl's baseline form with trajectory rows; with step rows verl counts rows in the mean, and this counts trajectories |
//! | the same with `ddof = 0` | OpenRLHF's `reinforce_baseline` |
//! | `whiten = false` | REINFORCE |
//!
//! Whitening has verl's sample deviation with `eps` inside the root; OpenRLHF's lower limit of 1e-8 for the variance is a
//! sum here, which makes no difference above it. Rewards that `kl-reward` gave to tokens stay with their tokens, as in
//! OpenRLHF; verl's baseline form compares their sum as a part of the outcome (that is `grpo` with `std = false` before
//! `normalize`). ReMax, whose baseline is a second episode, is not here.
//!
//! - A group whose outcomes are all equal has the baseline that they are: exactly 0 is left.
//! - The reward of a response without a token stands on the last response token before it in its sequence.
//! - Numbers that are all equal become 0 by whitening. Means and deviations do not depend, in any bit, on the order of
//!   trajectories and groups.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `gamma` | `1.0` | what a reward is worth one token earlier |
//! | `reward` | `"outcome"` | `"outcome"`: the episode's reward on the last token of each row; `"steps"`: each step's on its last token |
//! | `baseline` | `"none"` | `"group"` takes the mean of the group's outcomes off; it needs `reward = "outcome"` |
//! | `singleton` | `"zero"` | with `baseline = "group"`, what a group of one is left with: `"zero"`, or `"raw"`, its outcome |
//! | `within` | `"rows"` | how far credit runs back: `"rows"`, `"steps"`, or `"trajectories"` across step rows |
//! | `observation_steps` | `false` | the environment's tokens between two responses of a row cost time steps |
//! | `whiten` | `true` | bring the batch's returns to mean 0 and deviation 1 |
//! | `ddof` | `1` | 1 the sample deviation, 0 the population's |
//! | `eps` | `1e-8` | added to the variance, inside the root |
//!
//! # What it needs
//!
//! Rewards; no signal of a model. Groups of any size, with `baseline = "group"` and `singleton = "zero"` of two or more.
//!
//! # When it goes wrong
//!
//! - Without a baseline, easy tasks are credited for being easy: all their tokens lie above the batch's mean.
//! - Whitening counts tokens, so long episodes decide the mean. A batch of one length has no such bias.
//! - `gamma` below 1 counts tokens: with 0.99 a reward is down to a third after 110 tokens.
//!
//! # Metrics
//!
//! `return_mean`, `return_std` (before whitening); with `baseline = "group"` also `groups`, `groups_singleton` and
//! `groups_without_spread`.
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
//! plugin = "reinforce"
//! params = { baseline = "group" }
//!
//! [objective]
//! plugin = "clip"
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

mod returns;

use std::ops::Range;

use accredit_plugin_api::{math, prelude::*};
use accredit_steps::{
    to_go::ToGo,
    tokens::{Returns, Reward, Walker, Within, outcomes},
    whiten::{Moments, Whitening},
};

use crate::returns::Discounted;

choices! {
    /// What is taken off the outcome of a trajectory.
    pub enum Baseline {
        /// Nothing.
        None = "none",
        /// The mean of the outcomes of its group.
        Group = "group",
    }
}

choices! {
    /// What a group of one is left with.
    pub enum Singleton {
        /// 0.
        Zero = "zero",
        /// Nothing is taken off: the outcome itself.
        Raw = "raw",
    }
}

params! {
    /// Parameters of `reinforce`.
    pub struct Params {
        /// What a reward is worth one token earlier.
        #[range(0.0..=1.0)]
        gamma: f64 = 1.0,
        /// Which rewards stand on the tokens.
        reward: Reward = Reward::Outcome,
        /// What is taken off the outcome.
        baseline: Baseline = Baseline::None,
        /// What a group of one is left with, where the group's mean is taken off.
        singleton: Singleton = Singleton::Zero,
        /// How far credit runs back.
        within: Within = Within::Rows,
        /// The environment's tokens between two responses of a row are time steps of reward 0.
        observation_steps: bool = false,
        /// Bring the batch's returns to mean 0 and deviation 1.
        whiten: bool = true,
        /// The sum of squares is divided by the number of tokens less this: 1 the sample deviation, 0 the population's.
        #[range(0..=1)]
        ddof: u32 = 1,
        /// Added to the variance, inside the root.
        #[range(0.0..)]
        eps: f64 = 1e-8,
    }
}

struct Reinforce {
    returns: Returns,
    baseline: Baseline,
    singleton: Singleton,
    whitening: Option<Whitening>,
    outcomes: Vec<f64>,
    scores: Scores,
    to_go: ToGo,
    moments: Moments,
    runs: Vec<(f32, u32)>,
}

impl Scheme for Reinforce {
    type Params = Params;
    const NAME: &'static str = "reinforce";
    const ABOUT: &'static str = "The rewards that come after a token, whitened over the batch (REINFORCE++).";

    fn new(params: Params, _host: Host) -> Result<Self> {
        let returns = Returns {
            gamma: params.gamma,
            lambda: 1.0,
            reward: params.reward,
            within: params.within,
            observation_steps: params.observation_steps,
        };
        returns.check()?;
        if params.baseline == Baseline::Group && params.reward != Reward::Outcome {
            let message = "`baseline = \"group\"` compares outcomes; it needs `reward = \"outcome\"`";
            return Err(Error::parameter("baseline", message));
        }
        let whitening = Whitening { center: true, scale: true, ddof: params.ddof, eps: params.eps };
        Ok(Self {
            returns,
            baseline: params.baseline,
            singleton: params.singleton,
            whitening: params.whiten.then_some(whitening),
            outcomes: Vec::new(),
            scores: Scores::default(),
            to_go: ToGo::new(params.gamma),
            moments: Moments::default(),
            runs: Vec::new(),
        })
    }

    fn needs(&self) -> Needs {
        let needs = self.returns.reads(Needs::hooks(&[Hook::Advantage])).except_if(
            self.whitening.is_some(),
            "other-groups",
            "advantages are whitened over the batch (`whiten`)",
        );
        match (self.baseline, self.singleton) {
            (Baseline::Group, Singleton::Zero) => needs.group_relative(),
            _ => needs,
        }
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let host = &context.host;
        self.outcomes.clear();
        if self.returns.reward == Reward::Outcome {
            outcomes(batch, &mut self.outcomes)?;
        }
        if self.baseline == Baseline::Group {
            self.compare(batch, host);
        }
        self.moments.clear();
        let mut rewards = Rewards {
            token_reward: batch.get(TOKEN_REWARD)?,
            returns: out.advantage,
            to_go: &mut self.to_go,
            moments: &mut self.moments,
            runs: &mut self.runs,
        };
        self.returns.walk(batch, &self.outcomes, &mut rewards)?;
        let Some(spread) = self.moments.spread() else {
            return Ok(());
        };
        host.metric("return_mean", spread.mean);
        host.metric("return_std", spread.deviation(0));
        if let Some(whitening) = self.whitening {
            whitening.apply(out.advantage, &spread);
        }
        Ok(())
    }
}

impl Reinforce {
    /// Takes the mean of its group off each outcome.
    fn compare(&mut self, batch: &Batch<'_>, host: &Host) {
        let (mut groups, mut singleton, mut without_spread) = (0, 0, 0);
        for group in batch.groups() {
            self.scores.clear();
            for trajectory in group.trajectories() {
                let counts = u32::from(!trajectory.tokens().is_empty());
                self.scores.push(self.outcomes[trajectory.index()], counts);
            }
            groups += 1;
            let Some(spread) = self.scores.spread() else {
                continue;
            };
            let alone = spread.count == 1;
            singleton += u32::from(alone);
            without_spread += u32::from(spread.all_equal && !alone);
            if alone && self.singleton == Singleton::Raw {
                continue;
            }
            for outcome in &mut self.outcomes[group.trajectory_range()] {
                *outcome -= spread.mean;
            }
        }
        host.metric("groups", f64::from(groups));
        host.metric("groups_singleton", f64::from(singleton));
        host.metric("groups_without_spread", f64::from(without_spread));
    }
}

/// What returns are made from, and where they go.
struct Rewards<'a> {
    token_reward: &'a [f32],
    returns: &'a mut [f32],
    to_go: &'a mut ToGo,
    moments: &'a mut Moments,
    /// Equal returns of neighbouring tokens of the trajectory, with their number.
    runs: &'a mut Vec<(f32, u32)>,
}

impl Walker for Rewards<'_> {
    fn response(&mut self, tokens: Range<usize>, last: f64) -> f64 {
        math::run(Discounted {
            to_go: self.to_go,
            token_reward: &self.token_reward[tokens.clone()],
            returns: &mut self.returns[tokens],
            last,
            runs: self.runs,
        })
    }

    fn trajectory(&mut self, tokens: Range<usize>) {
        self.moments.push_with_runs(&self.returns[tokens], self.runs);
    }
}

export_plugin!(Reinforce);

#[cfg(test)]
mod tests;
