//! `hgpo`: steps against those that share a history of states, over several lengths of history (hierarchical group
//! policy optimisation).
//!
//! # What it does
//!
//! Steps from the same state are compared by what they returned afterwards, as in `gigpo`. But a policy that reads its
//! history may do different things in one state for a good reason. So steps are also compared with those that came
//! through the same last two states, the same last three, and so on; the longer the history that a comparison shares, the
//! more its advantage weighs in the mean of them. There is no term of the whole episode unless it is asked for.
//!
//! # The formula
//!
//! arXiv 2602.22817, and its authors' code for constants. For step `t` of a trajectory and `k = 1 .. min(K + 1, t + 1)`,
//! with `H_k` the steps of the group whose last `k` states, their own included, are the same ones in the same order:
//!
//! ```text
//! G_t = r_t + gamma G_{t+1}                                      the return of a step
//! a_k = G - mean(G over H_k)                                     mode = "mean_norm"
//! a_k = (G - mean(G over H_k)) / (std(G over H_k) + eps)         mode = "mean_std_norm"
//! A   = sum_k (k + 1)^alpha a_k / (sum_k (k + 1)^alpha + eps)    over the k with a_k other than 0
//! ```
//!
//! `std` is the population's deviation. A history that one step alone has gives no `a_k`. With `base_group` there is also
//! `k = 0`, of weight 1: the outcome of the trajectory against those of its group, as in `grpo` over rows, with the sample
//! deviation. `r_t` is the shaped reward, with what schemes before this one gave to the step's tokens.
//!
//! # Fidelity
//!
//! Equal to the authors' code, with its rule of the exact zero: an `a_k` of exactly 0 leaves the mean, and the other
//! weights share its part. A history in which a step did as well as the others so says nothing, rather than "average".
//! Whether a number is exactly 0 is up to rounding, here in 64 bits and there in 32; a group of equal returns is found by
//! comparing them. Differences:
//!
//! - A group of one has a base term of 0; `singleton = "raw"` lets its raw outcome through, as theirs does.
//! - A penalty by the plugin `penalty` is a part of the step's reward, and so of all returns before it. Theirs is taken
//!   off that step's return alone.
//! - A response without a token is in no comparison; the state before it is a part of the histories after it.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `history` | `2` | `K`: how many states before the step's own a history has at most, 0 to 100 |
//! | `alpha` | `1.0` | how much faster the weights of longer histories grow, 0 to 10; 0 weighs all the same |
//! | `gamma` | `0.95` | discount of a step's return, per step |
//! | `mode` | `"mean_norm"` | `"mean_norm"`, or `"mean_std_norm"`: divide by the deviation |
//! | `base_group` | `false` | add the comparison of whole episodes |
//! | `over` | `"rows"` | with `base_group`: what counts once in its statistics, `"rows"` or `"trajectories"` |
//! | `eps` | `1e-6` | added to deviations and to the sum of weights |
//! | `singleton` | `"zero"` | with `base_group`: the term of a group with one entry, `"zero"`, or `"raw"`, its outcome |
//!
//! The paper's settings: `history` is the number of past turns that the prompt shows, 2 or 4; `mean_std_norm` on ALFWorld
//! and `mean_norm` on WebShop (30 steps); `alpha` 1, no base group, groups of 8 in batches of 16, KL loss of 0.01,
//! invalid-action penalty 0.1.
//!
//! # What it needs
//!
//! Step rewards, and the environment's state before each step; an environment without states is refused. Groups of at
//! least two, unless `singleton = "raw"`. No signal of a model.
//!
//! # When it goes wrong
//!
//! - Where no state comes again, every advantage is 0 and nothing is trained; `base_group` gives such steps the episode's
//!   term. The metric `states_visited_once` is then near 1.
//! - An advantage that rounds to 0 or to next to 0 changes the weights of the others: results can jump where returns are
//!   nearly equal.
//! - `history` above what the policy sees compares by things that it cannot know.
//!
//! # Metrics
//!
//! `groups`, and with `base_group` `groups_singleton` and `groups_without_spread` (equal outcomes); `states_visited_once`
//! (share of steps whose state is visited once in its group), `levels` (mean number of comparisons that a step's advantage
//! is the mean of), `advantage_iqr` (distance between the quartiles of the steps' advantages), `advantage_above_one` (share
//! of steps whose advantage is larger than 1 in size).
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
//! plugin = "hgpo"
//! params = { history = 2, alpha = 1.0, mode = "mean_std_norm" }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.2 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod history;

use accredit_plugin_api::prelude::*;
use accredit_steps::{
    Comparison, Counts, Entries, Mode, Over, Responses, Singleton, StepAdvantages, discount, step_rewards,
};

use crate::history::Histories;

params! {
    /// Parameters of `hgpo`.
    pub struct Params {
        /// How many states before the step's own a history has at most.
        #[range(0..=100)]
        history: u32 = 2,
        /// How much faster the weights of longer histories grow; 0 weighs all the same.
        #[range(0.0..=10.0)]
        alpha: f64 = 1.0,
        /// Discount of a step's return, per step.
        #[range(0.0..=1.0)]
        gamma: f64 = 0.95,
        /// Whether advantages are divided by their deviation.
        mode: Mode = Mode::MeanNorm,
        /// Add the comparison of whole episodes.
        base_group: bool = false,
        /// With `base_group`: what counts once in its statistics.
        over: Over = Over::Rows,
        /// Added to deviations and to the sum of weights.
        #[range(0.0..)]
        eps: f64 = 1e-6,
        /// With `base_group`: the term of a group with one entry.
        singleton: Singleton = Singleton::Zero,
    }
}

/// The scheme.
pub struct Hgpo {
    params: Params,
    returns: Vec<f64>,
    histories: Histories,
    scores: Scores,
    /// For each step, the weighted comparisons so far.
    means: Vec<WeightedMean>,
    advantages: StepAdvantages,
}

/// A mean that is being built up.
#[derive(Clone, Copy, Default)]
struct WeightedMean {
    sum: f64,
    weight: f64,
    count: u32,
}

impl WeightedMean {
    /// Adds an advantage, unless it is exactly 0.
    fn add(&mut self, advantage: f64, weight: f64) {
        if advantage != 0.0 {
            self.sum += weight * advantage;
            self.weight += weight;
            self.count += 1;
        }
    }

    fn value(self, eps: f64) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / (self.weight + eps) }
    }
}

impl Scheme for Hgpo {
    type Params = Params;
    const NAME: &'static str = "hgpo";
    const ABOUT: &'static str = "The step's return against those with the same last states, over several lengths.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self {
            params,
            returns: Vec::new(),
            histories: Histories::default(),
            scores: Scores::default(),
            means: Vec::new(),
            advantages: StepAdvantages::default(),
        })
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Advantage])
            .reads(&[REWARD.any(), STATE.any()])
            .reads_if(self.params.base_group, &[OUTCOME.any()])
            .optional(&[TOKEN_REWARD.any()]);
        match self.params.singleton {
            Singleton::Zero => needs.group_relative(),
            Singleton::Raw => needs,
        }
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let responses = Responses::of(batch)?;
        step_rewards(batch, &mut self.returns)?;
        discount(batch, self.params.gamma, &mut self.returns);
        self.means.clear();
        self.means.resize(self.returns.len(), WeightedMean::default());
        let host = &context.host;
        if self.params.base_group {
            self.compare_episodes(batch)?.report(host);
        } else {
            host.metric("groups", batch.groups().len() as f64);
        }
        let visited_once = self.compare_steps(batch, responses)?;

        self.advantages.reset(self.returns.len());
        let (mut steps, mut levels) = (0_u32, 0_u32);
        for (step, mean) in self.means.iter().enumerate().filter(|(step, _)| responses.has(*step)) {
            self.advantages.of_step[step] = mean.value(self.params.eps);
            steps += 1;
            levels += mean.count;
        }
        self.advantages.write(batch, out.advantage, host);
        if steps > 0 {
            host.metric("levels", f64::from(levels) / f64::from(steps));
            host.metric("states_visited_once", f64::from(visited_once) / f64::from(steps));
        }
        Ok(())
    }
}

impl Hgpo {
    /// Adds the comparison of whole episodes, of weight 1, to their steps.
    fn compare_episodes(&mut self, batch: &Batch<'_>) -> Result<Counts> {
        let Params { mode, over, eps, singleton, .. } = self.params;
        let comparison = Comparison { mode, ddof: 1, eps };
        let outcome = batch.get(OUTCOME)?;
        let entries = Entries::of(batch, over);
        let mut counts = Counts::default();
        for group in batch.groups() {
            self.scores.clear();
            for trajectory in group.trajectories() {
                self.scores.push(f64::from(outcome[trajectory.index()]), entries.count(&trajectory));
            }
            let baseline = comparison.of_group(self.scores.spread(), singleton, &mut counts);
            for trajectory in group.trajectories() {
                let term = baseline.advantage(f64::from(outcome[trajectory.index()]));
                for mean in &mut self.means[trajectory.step_range()] {
                    mean.add(term, 1.0);
                }
            }
        }
        Ok(counts)
    }

    /// Adds the comparisons of steps, and counts the steps whose state is visited once.
    fn compare_steps(&mut self, batch: &Batch<'_>, responses: Responses<'_>) -> Result<u32> {
        let Params { history, alpha, mode, eps, .. } = self.params;
        let comparison = Comparison { mode, ddof: 0, eps };
        let state = batch.get(STATE)?;
        let mut visited_once = 0;
        for group in batch.groups() {
            self.histories.start(&group);
            for length in 1..=history + 1 {
                let weight = f64::from(length + 1).powf(alpha);
                let several_states = length > 1;
                // One step alone has nothing to compare; only its state is counted.
                for cell in self.histories.lengthen(&group, state).filter(|cell| !several_states || cell.len() > 1) {
                    let counted = || cell.iter().map(accredit_steps::Member::step).filter(|step| responses.has(*step));
                    self.scores.clear();
                    for step in counted() {
                        self.scores.push(self.returns[step], 1);
                    }
                    let spread = self.scores.spread();
                    visited_once += u32::from(length == 1 && spread.is_some_and(|spread| spread.count == 1));
                    let baseline = comparison.of(spread);
                    for step in counted() {
                        self.means[step].add(baseline.advantage(self.returns[step]), weight);
                    }
                }
            }
        }
        Ok(visited_once)
    }
}

export_plugin!(Hgpo);

#[cfg(test)]
mod tests;
