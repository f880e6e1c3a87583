//! `gagpo`: generalised advantage estimation over steps, with a table of mean returns per state in place of a critic
//! (Generalized Advantage Grouped Policy Optimization).
//!
//! # What it does
//!
//! The value of a state is the mean return of all steps of the group that start from it. With these values every step has
//! a temporal-difference residual, and a recursion over `lambda` hands what a later step gained on to the steps before it.
//! The advantages are normalised inside the group.
//!
//! # The formula
//!
//! arXiv 2605.13217, method section. With `S(s)` the steps of the group that start from state `s`, by any trajectory at
//! any time, this one among them:
//!
//! ```text
//! G_t     = r_t + gamma G_{t+1}                              the return of a step
//! V(s)    = mean(G over S(s))
//! delta_t = r_t + gamma V(s_{t+1}) - V(s_t)                  V after the last step: see `truncated`
//! A_t     = delta_t + gamma lambda A_{t+1}
//! A       = (A_t - mean(A over B)) / (std(A over B) + eps)   B: all steps of the group
//! ```
//!
//! Every token of a response gets its step's advantage. `r_t` is the shaped reward, with what schemes before this one gave
//! to the step's tokens: `penalty` is part of returns, values and residuals alike. With `lambda = 1` the recursion
//! telescopes to `G_t - V(s_t)`, the step term of `gigpo`; with `lambda = 0` it is the residual.
//!
//! # Fidelity
//!
//! To the paper's text as far as it could be read; no code of its authors was found, and two independent
//! reimplementations were compared. Our reading:
//!
//! - `gamma` 0.95 and `lambda` 0.8 are what those reimplementations use. The paper finds both ends of `lambda` worse.
//! - The deviation is that of a sample, and `eps` is 1e-6; the paper gives neither.
//! - States are compared inside a group, never across groups: equal texts in another task are another problem.
//! - How the end of a truncated episode is valued is not said. By default it is like any end, with a value of 0. The
//!   returns `G` end with the last reward in both treatments.
//! - A response without a token adds nothing to the table and to `B`; where its state has no other visit, its own return
//!   stands for the value.
//! - Where all advantages of `B` are equal, or there is one, they are 0.
//!
//! The paper's ratio belongs to a step, `ratio = "step"` of `clip`: the geometric mean over its tokens. A range of 0.2
//! rarely cuts such a ratio; that of GSPO is some hundred times smaller.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `gamma` | `0.95` | discount, per step |
//! | `lambda` | `0.8` | how far the recursion reaches: 0 the residual alone, 1 the whole return |
//! | `normalize` | `"group"` | what `B` is: `"group"`, `"batch"`, or `"none"` for no normalisation |
//! | `ddof` | `1` | 1 the sample deviation, 0 the population's |
//! | `eps` | `1e-6` | added to the deviation |
//! | `truncated` | `"terminal"` | value after the last step of an episode that the environment did not end: `"terminal"`, 0, or `"bootstrap"`, that of the state reached if the group has visited it, else 0 |
//!
//! The paper's environments are ALFWorld and WebShop, with the same settings as far as they are known: groups of 8 in
//! batches of 16, learning rate 1e-6, KL loss. Its ablations are `normalize = "batch"`, `normalize = "none"`, `lambda = 1`,
//! `ratio = "token"` in the objective, and a second scheme `grpo` beside this one; it finds all of them worse.
//!
//! # What it needs
//!
//! Step rewards, and the environment's state before each step; with `"bootstrap"` also the state after it. An environment
//! without states is refused, and so are groups of one. No signal of a model.
//!
//! # When it goes wrong
//!
//! - A state that is visited once is worth its own return, so a step between two such states has a residual of 0: where no
//!   state comes again, nothing is trained. `states_visited_once` says how far that goes.
//! - Normalisation takes the mean off: in a group whose every step did well, half of them are pushed down.
//! - A group in which little happens has advantages that are small in value, and large after the division by their
//!   deviation.
//!
//! # Metrics
//!
//! `groups`, `groups_without_spread` (all advantages equal before normalisation), `states_visited_once` (share of steps
//! whose state is visited once in its group), `advantage_iqr` (distance between the quartiles of the steps' advantages),
//! `advantage_above_one` (share of steps whose advantage is larger than 1 in size). The paper gives the last two late in a
//! run: 0.56 and 17 %, against 1.61 and 43 % for GiGPO.
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
//! context = "window"
//!
//! [[credit]]
//! plugin = "gagpo"
//! params = { gamma = 0.95, lambda = 0.8 }
//!
//! [objective]
//! plugin = "clip"
//! params = { ratio = "step", low = 0.2, high = 0.2, kl = "k3", kl_coef = 0.01 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod values;

use std::ops::Range;

use accredit_plugin_api::prelude::*;
use accredit_steps::{Baseline, Comparison, Mode, Responses, StepAdvantages, discount, step_rewards};

use crate::values::Values;

choices! {
    /// What an advantage is normalised over.
    pub enum Normalize {
        /// All steps of its group.
        Group = "group",
        /// All steps of the batch.
        Batch = "batch",
        /// It is not normalised.
        None = "none",
    }
}

choices! {
    /// The value after the last step of an episode that the environment did not end.
    pub enum Truncated {
        /// 0, as after any last step.
        Terminal = "terminal",
        /// That of the state reached, if the group has visited it, else 0.
        Bootstrap = "bootstrap",
    }
}

params! {
    /// Parameters of `gagpo`.
    pub struct Params {
        /// Discount, per step.
        #[range(0.0..=1.0)]
        gamma: f64 = 0.95,
        /// How far the recursion reaches: 0 the residual alone, 1 the whole return.
        #[range(0.0..=1.0)]
        lambda: f64 = 0.8,
        /// What advantages are normalised over.
        normalize: Normalize = Normalize::Group,
        /// The sum of squares is divided by the number of steps less this: 1 the sample deviation, 0 the population's.
        #[range(0..=1)]
        ddof: u32 = 1,
        /// Added to the deviation.
        #[range(0.0..)]
        eps: f64 = 1e-6,
        /// The value after the last step of an episode that the environment did not end.
        truncated: Truncated = Truncated::Terminal,
    }
}

/// The scheme.
pub struct Gagpo {
    params: Params,
    rewards: Vec<f64>,
    returns: Vec<f64>,
    values: Values,
    scores: Scores,
    advantages: StepAdvantages,
}

impl Scheme for Gagpo {
    type Params = Params;
    const NAME: &'static str = "gagpo";
    const ABOUT: &'static str = "Generalised advantage estimation over steps, with the group's mean return per state.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self {
            params,
            rewards: Vec::new(),
            returns: Vec::new(),
            values: Values::default(),
            scores: Scores::default(),
            advantages: StepAdvantages::default(),
        })
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Advantage])
            .reads(&[REWARD.any(), STATE.any()])
            .reads_if(self.params.truncated == Truncated::Bootstrap, &[NEXT_STATE.any(), TERMINAL.any()])
            .optional(&[TOKEN_REWARD.any()])
            .group_relative()
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let Params { gamma, lambda, normalize, truncated, .. } = self.params;
        let state = batch.get(STATE)?;
        let reached = match truncated {
            Truncated::Terminal => None,
            Truncated::Bootstrap => Some((batch.get(NEXT_STATE)?, batch.get(TERMINAL)?)),
        };
        let responses = Responses::of(batch)?;
        step_rewards(batch, &mut self.rewards)?;
        self.returns.clone_from(&self.rewards);
        discount(batch, gamma, &mut self.returns);
        self.advantages.reset(self.returns.len());
        let (mut steps, mut visited_once, mut without_spread) = (0, 0, 0);
        for group in batch.groups() {
            let visits = self.values.tabulate(group.step_range(), state, &self.returns, responses);
            steps += visits.steps;
            visited_once += visits.once;
            for trajectory in group.trajectories() {
                let range = trajectory.step_range();
                let mut after = reached.map_or(0.0, |(next_state, terminal)| {
                    // A trajectory has at least one step.
                    let last = range.end - 1;
                    if terminal[last] { 0.0 } else { self.values.of_state(next_state[last]).unwrap_or(0.0) }
                });
                let mut advantage = 0.0;
                for step in range.rev() {
                    let value = self.values.of_step(step);
                    // Summed like a return, so that the residual between states that are worth theirs is exactly 0.
                    let residual = (self.rewards[step] + gamma * after) - value;
                    advantage = residual + gamma * lambda * advantage;
                    self.advantages.of_step[step] = advantage;
                    after = value;
                }
            }
            if normalize == Normalize::Group {
                without_spread += u32::from(!self.normalize(group.step_range(), responses));
            }
        }
        if normalize == Normalize::Batch {
            self.normalize(0..self.returns.len(), responses);
        }
        let host = &context.host;
        self.advantages.write(batch, out.advantage, host);
        host.metric("groups", batch.groups().len() as f64);
        if normalize == Normalize::Group {
            host.metric("groups_without_spread", f64::from(without_spread));
        }
        if steps > 0 {
            host.metric("states_visited_once", f64::from(visited_once) / f64::from(steps));
        }
        Ok(())
    }
}

impl Gagpo {
    /// Normalises the advantages of steps over those among them that have a response. Says whether there was a spread.
    fn normalize(&mut self, steps: Range<usize>, responses: Responses<'_>) -> bool {
        let Params { ddof, eps, .. } = self.params;
        self.scores.clear();
        for step in steps.clone().filter(|step| responses.has(*step)) {
            self.scores.push(self.advantages.of_step[step], 1);
        }
        let baseline = Comparison { mode: Mode::MeanStdNorm, ddof, eps }.of(self.scores.spread());
        for advantage in &mut self.advantages.of_step[steps] {
            *advantage = baseline.advantage(*advantage);
        }
        baseline != Baseline::Flat
    }
}

export_plugin!(Gagpo);

#[cfg(test)]
mod tests;
