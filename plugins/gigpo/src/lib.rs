//! `gigpo`: episodes against their group, and steps against the other steps from the same state (Group-in-Group Policy
//! Optimisation).
//!
//! # What it does
//!
//! Episodes of a group start from one task, so they often come through the same states. Such a state is an anchor: the
//! steps taken from it, by any trajectory at any time, are compared by what they returned afterwards. This step term is
//! added to the episode's term, which is that of GRPO. Good steps of a failed episode are told from bad ones, without a
//! critic and without more rollouts.
//!
//! # The formula
//!
//! Feng et al. 2025 (arXiv 2505.10978), and its code for constants. With `R_i` the outcome of trajectory `i`, and `S(s)`
//! the steps of the group that start from state `s`:
//!
//! ```text
//! G_t    = r_t + gamma G_{t+1}                                  the return of a step
//! A_ep   = R_i - mean(R)                  A_step = G - mean(G over S(s))          mode = "mean_norm"
//! A_ep   = (R_i - mean(R)) / (std(R) + eps)    A_step = (G - mean) / (std + eps)  mode = "mean_std_norm"
//! A      = A_ep + omega A_step                                  on every token of the step's response
//! ```
//!
//! `std` is the sample deviation. Where all returns from a state are equal, and at a state that is visited once, the step
//! term is exactly 0. `r_t` is the shaped reward, with what schemes before this one gave to the step's tokens.
//!
//! # Fidelity
//!
//! Equal to the authors' code (verl-agent, and its later form in DrMAS with `over = "trajectories"`), except:
//!
//! - Equal scores are found by comparing them. In the authors' 32 bits the deviation of equal returns can round to
//!   something above 0, and the step term then to something like 0.05.
//! - A group of one gets an episode term of 0; `singleton = "raw"` lets the raw outcome through, as theirs does.
//! - A penalty by the plugin `penalty` is a part of the step's reward, and so of all returns before it. Theirs is taken
//!   off that step's return alone.
//! - Their trainer fills a batch up by repeating rows, which then count twice. Here every step counts once.
//! - Similar states are clustered in an order of their own (below), not in that of the batch.
//!
//! **Similar states.** With `similarity = 0.95`, states whose texts are nearly equal are one anchor. The measure is the
//! ratio of Python's `difflib.SequenceMatcher`, number for number; the state is its first text and the cluster's
//! first state the second. The authors go through the rows of the batch, and a row joins the first cluster whose first
//! row is similar enough; another order of trajectories can give other clusters. Here the group's states go through by
//! falling number of visits, equally visited ones by text, and the rest is the same: what comes out is one of the results
//! that the authors' code has for some order, and the same for every order. A cluster is named by its most visited state.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `gamma` | `0.95` | discount of a step's return, per step |
//! | `omega` | `1.0` | factor of the step term |
//! | `mode` | `"mean_norm"` | `"mean_norm"`, or `"mean_std_norm"`: divide both terms by their deviation |
//! | `over` | `"rows"` | what counts once in the episode term's statistics: `"rows"`, or `"trajectories"` |
//! | `eps` | `1e-6` | added to the deviation |
//! | `singleton` | `"zero"` | episode term of a group with one entry: `"zero"`, or `"raw"`, its outcome |
//! | `similarity` | none | states whose ratio is at least this are one; none compares exactly |
//! | `autojunk` | `true` | with `similarity`: difflib's rule for texts of 200 characters or more |
//!
//! The paper's settings: `mean_std_norm` on ALFWorld, `mean_norm` on WebShop and Sokoban; the rest as above, with groups
//! of 8 in batches of 16 (Sokoban 32), learning rate 1e-6, KL loss of 0.01, invalid-action penalty 0.1. With `over =
//! "rows"` and rows that are steps, a trajectory with more steps weighs more in its group's baseline; where a row is a
//! whole trajectory the two are the same.
//!
//! # What it needs
//!
//! Step rewards, and the environment's state before each step; an environment without states is refused. With
//! `similarity` also the states' texts. Groups of at least two, unless `singleton = "raw"`. No signal of a model.
//!
//! # When it goes wrong
//!
//! - States that never come again have no step term: `states_visited_once` near 1 means that this is GRPO. Texts that hold
//!   a counter or a clock do that; `similarity` may help.
//! - `autojunk` makes characters that are frequent in a long text useless as a beginning of a match, so that one changed
//!   letter in a page of text can bring the ratio near 0. `autojunk = false` compares such texts as one would expect, but
//!   takes longer, and is not what the authors' code does.
//! - Comparing texts takes time in the square of their length and of the number of states in a group.
//! - With one state visited in a loop, returns differ by discount only, and the step term then rewards being late in the
//!   episode.
//!
//! # Metrics
//!
//! `groups`, `groups_singleton`, `groups_without_spread` (equal outcomes), `states_visited_once` (share of steps whose
//! state, after merging similar ones, is visited once in its group), `states` (different states, after merging, per
//! step), `advantage_iqr` (distance between the quartiles of the steps' advantages), `advantage_above_one` (share of
//! steps whose advantage is larger than 1 in size).
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
//! plugin = "gigpo"
//! params = { gamma = 0.95, omega = 1.0, mode = "mean_norm", over = "rows" }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.2 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ratio;
mod similar;

use std::ops::Bound;

use accredit_plugin_api::prelude::*;
use accredit_steps::{
    Cells, Comparison, Counts, Entries, Mode, Over, Responses, Singleton, StepAdvantages, discount, step_rewards,
};

use crate::similar::Similar;

params! {
    /// Parameters of `gigpo`.
    pub struct Params {
        /// Discount of a step's return, per step.
        #[range(0.0..=1.0)]
        gamma: f64 = 0.95,
        /// Factor of the step term.
        #[range(0.0..)]
        omega: f64 = 1.0,
        /// Whether both terms are divided by their deviation.
        mode: Mode = Mode::MeanNorm,
        /// What counts once in the statistics of the episode term.
        over: Over = Over::Rows,
        /// Added to the deviation.
        #[range(0.0..)]
        eps: f64 = 1e-6,
        /// The episode term of a group with one entry.
        singleton: Singleton = Singleton::Zero,
        /// States whose texts have at least this ratio are one; none compares exactly.
        #[range((Bound::Excluded(0.0), Bound::Included(1.0)))]
        similarity: Option<f64> = None,
        /// With `similarity`: ignore frequent characters of long texts where a match begins, as difflib does.
        autojunk: bool = true,
    }
}

/// The scheme.
pub struct Gigpo {
    params: Params,
    similar: Option<Similar>,
    returns: Vec<f64>,
    cells: Cells,
    scores: Scores,
    advantages: StepAdvantages,
}

impl Scheme for Gigpo {
    type Params = Params;
    const NAME: &'static str = "gigpo";
    const ABOUT: &'static str = "The episode's reward against its group, plus the step's return against its state.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self {
            similar: params.similarity.map(|threshold| Similar::new(threshold, params.autojunk)),
            params,
            returns: Vec::new(),
            cells: Cells::default(),
            scores: Scores::default(),
            advantages: StepAdvantages::default(),
        })
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Advantage])
            .reads(&[OUTCOME.any(), REWARD.any(), STATE.any()])
            .reads_if(self.similar.is_some(), &[STATE_TEXT.any()])
            .optional(&[TOKEN_REWARD.any()]);
        match self.params.singleton {
            Singleton::Zero => needs.group_relative(),
            Singleton::Raw => needs,
        }
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let Params { gamma, omega, mode, over, eps, singleton, .. } = self.params;
        let comparison = Comparison { mode, ddof: 1, eps };
        let (outcome, state) = (batch.get(OUTCOME)?, batch.get(STATE)?);
        let responses = Responses::of(batch)?;
        let texts = self.similar.as_ref().map(|_| batch.texts(STATE_TEXT)).transpose()?;
        let entries = Entries::of(batch, over);
        let host = &context.host;
        step_rewards(batch, &mut self.returns)?;
        discount(batch, gamma, &mut self.returns);
        self.advantages.reset(self.returns.len());
        let mut counts = Counts::default();
        let (mut steps, mut states, mut visited_once) = (0_usize, 0_usize, 0_usize);
        for group in batch.groups() {
            self.scores.clear();
            for trajectory in group.trajectories() {
                self.scores.push(f64::from(outcome[trajectory.index()]), entries.count(&trajectory));
            }
            let episodes = comparison.of_group(self.scores.spread(), singleton, &mut counts);
            for trajectory in group.trajectories() {
                let term = episodes.advantage(f64::from(outcome[trajectory.index()]));
                self.advantages.of_step[trajectory.step_range()].fill(term);
            }

            self.cells.clear();
            for step in group.step_range().filter(|step| responses.has(*step)) {
                self.cells.push(u64::from(state[step]), step);
            }
            if let (Some(similar), Some(texts)) = (&mut self.similar, &texts) {
                similar.merge(&mut self.cells, texts, host)?;
            }
            for cell in self.cells.sorted() {
                steps += cell.len();
                states += 1;
                visited_once += usize::from(cell.len() == 1);
                self.scores.clear();
                for member in cell {
                    self.scores.push(self.returns[member.step()], 1);
                }
                let baseline = comparison.of(self.scores.spread());
                for member in cell {
                    let step = member.step();
                    self.advantages.of_step[step] += omega * baseline.advantage(self.returns[step]);
                }
            }
        }
        self.advantages.write(batch, out.advantage, host);
        counts.report(host);
        if steps > 0 {
            host.metric("states", states as f64 / steps as f64);
            host.metric("states_visited_once", visited_once as f64 / steps as f64);
        }
        Ok(())
    }
}

export_plugin!(Gigpo);

#[cfg(test)]
mod tests;
