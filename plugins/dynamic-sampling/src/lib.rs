//! `dynamic-sampling`: groups whose rewards are all equal are left out, and new ones are played in their place.
//!
//! # What it does
//!
//! A group that is all solved or all failed has no advantage to give. It is dropped before anything is computed for it, and
//! the host is asked for another round of groups until enough groups are kept or the rounds are used up. How many groups
//! are enough is what one round plays, `rollout.groups`; how many more rounds there may be is `rollout.refill_rounds`,
//! which is 0 by default: then groups are dropped and nothing takes their place.
//!
//! # The formula
//!
//! A group is kept if two of its rewards differ. DAPO, Yu et al. 2025 (arXiv 2503.14476), section 3.2 and equation 11: a
//! batch is filled with tasks of which some answers are right and some are not.
//!
//! # Fidelity
//!
//! Equal to the filters of verl's DAPO recipe and of verl-agent, apart from what happens when the rounds are used up:
//!
//! - `last = "drop"` (the default) trains on what there is.
//! - `last = "keep"` keeps all groups of the last round, whatever their rewards, as verl-agent does.
//! - `last = "fail"` ends the run with an error, as verl's recipe does.
//!
//! Equality is decided by comparing rewards, where verl asks whether a deviation is above 0, which rounding can make so. The
//! rewards are those of the environment, before any penalty. What is kept beyond the number wanted is trained as well, as
//! in verl-agent; verl's recipe cuts it off, which would make the order of groups decide.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `reward` | `"outcome"` | what is compared: the episode's reward, or `"success"`, whether the task was solved |
//! | `singleton` | `"keep"` | a group of one: `"keep"` or `"drop"` |
//! | `last` | `"drop"` | see above |
//!
//! verl-agent's DAPO and its "GiGPO dynamic" have `last = "keep"` and `refill_rounds = 9`; DAPO's own runs draw until the
//! batch is full.
//!
//! # What it needs
//!
//! Rewards, or with `reward = "success"` an environment that says what is solved. No signal of a model. `refill_rounds` above
//! 0 for new groups.
//!
//! # When it goes wrong
//!
//! - Early in training, or with tasks that are too hard, hardly any group is kept and every iteration plays all of its
//!   rounds: `rounds` stays at the limit. If not a single group is left, all count as a baseline and nothing is trained.
//! - A reward with small differences, such as a penalty for every step, makes every group differ; `reward = "success"` does
//!   not see them.
//! - The number of episodes in an iteration varies, and so does the size of a minibatch.
//!
//! # Metrics
//!
//! Once an iteration, after the last round: `groups` (that were played), `groups_without_spread` (that are all equal),
//! `rounds`.
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
//! refill_rounds = 3
//!
//! [[credit]]
//! plugin = "dynamic-sampling"
//! params = { last = "drop" }
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use accredit_plugin_api::prelude::*;

choices! {
    /// What is compared inside a group.
    pub enum Reward {
        /// The episode's reward as the environment gave it.
        Outcome = "outcome",
        /// Whether the task was solved.
        Success = "success",
    }
}

choices! {
    /// What becomes of a group of one.
    pub enum Singleton {
        /// It is kept.
        Keep = "keep",
        /// It is dropped.
        Drop = "drop",
    }
}

choices! {
    /// What happens when the rounds are used up and too few groups are kept.
    pub enum Last {
        /// What is kept is trained.
        Drop = "drop",
        /// All groups of the last round are trained as well.
        Keep = "keep",
        /// It is an error.
        Fail = "fail",
    }
}

params! {
    /// Parameters of `dynamic-sampling`.
    pub struct Params {
        /// What is compared inside a group.
        reward: Reward = Reward::Outcome,
        /// What becomes of a group of one.
        singleton: Singleton = Singleton::Keep,
        /// What happens when the rounds are used up and too few groups are kept.
        last: Last = Last::Drop,
    }
}

/// The scheme.
pub struct DynamicSampling {
    params: Params,
    /// The iteration of the latest call, and the groups that stood in it: those after them are of a later round.
    seen: Option<(u64, usize)>,
}

impl Scheme for DynamicSampling {
    type Params = Params;
    const NAME: &'static str = "dynamic-sampling";
    const ABOUT: &'static str = "Drops groups whose rewards are all equal, and has others played in their place.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { params, seen: None })
    }

    fn needs(&self) -> Needs {
        let reward = match self.params.reward {
            Reward::Outcome => RAW_OUTCOME.any(),
            Reward::Success => SUCCESS.any(),
        };
        Needs::hooks(&[Hook::Select]).reads(&[reward]).optional(&[ROUND.any(), ROUNDS.any(), ROUND_GROUPS.any()])
    }

    fn select(&mut self, batch: &Batch<'_>, selection: &mut Selection<'_>, context: &Context) -> Result<()> {
        let kept: Vec<bool> = match self.params.reward {
            Reward::Outcome => {
                let outcome = batch.get(RAW_OUTCOME)?;
                batch.groups().map(|group| self.keeps(&outcome[group.trajectory_range()])).collect()
            }
            Reward::Success => {
                let success = batch.get(SUCCESS)?;
                batch.groups().map(|group| self.keeps(&success[group.trajectory_range()])).collect()
            }
        };
        // The groups of earlier rounds come first.
        let earlier =
            self.seen.filter(|(iteration, _)| *iteration == context.iteration).map_or(0, |(_, groups)| groups);
        self.seen = Some((context.iteration, kept.len()));
        let count = kept.iter().filter(|kept| **kept).count();
        // Rollouts that were read from a file have no rounds, and so no number of groups that is wanted.
        let number = |column| batch.get_optional(column).and_then(|column| column.first().copied());
        let (round, rounds) = (number(ROUND).unwrap_or(0), number(ROUNDS).unwrap_or(1));
        let full = number(ROUND_GROUPS).is_none_or(|wanted| count as u64 >= wanted);
        if !full && round + 1 < rounds {
            selection.sample_more();
            drop_groups(batch, selection, |group| !kept[group]);
            return Ok(());
        }
        let host = &context.host;
        host.metric("groups", kept.len() as f64);
        host.metric("groups_without_spread", (kept.len() - count) as f64);
        host.metric("rounds", (round + 1) as f64);
        match self.params.last {
            Last::Keep if !full => drop_groups(batch, selection, |group| group < earlier && !kept[group]),
            Last::Fail if !full => fail!(
                "after {rounds} rounds of sampling only {count} of {} groups have rewards that differ; choose tasks of \
                 another difficulty, raise `rollout.refill_rounds`, or set `last` to \"drop\" or \"keep\"",
                kept.len()
            ),
            _ if count == 0 => {
                host.warn("no group has rewards that differ; nothing is trained in this iteration");
                for trajectory in batch.trajectories() {
                    selection.decide(trajectory.index(), Decision::BaselineOnly);
                }
            }
            _ => drop_groups(batch, selection, |group| !kept[group]),
        }
        Ok(())
    }
}

impl DynamicSampling {
    fn keeps<T: PartialEq>(&self, rewards: &[T]) -> bool {
        match rewards {
            [_] => self.params.singleton == Singleton::Keep,
            _ => rewards.iter().any(|reward| *reward != rewards[0]),
        }
    }
}

fn drop_groups(batch: &Batch<'_>, selection: &mut Selection<'_>, dropped: impl Fn(usize) -> bool) {
    for group in batch.groups().filter(|group| dropped(group.index())) {
        for trajectory in group.trajectory_range() {
            selection.decide(trajectory, Decision::Drop);
        }
    }
}

export_plugin!(DynamicSampling);

#[cfg(test)]
mod tests;
