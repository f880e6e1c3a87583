//! `variance-filter`: only the groups whose rewards differ most are trained.
//!
//! # What it does
//!
//! Groups are ordered by the deviation of their rewards, and the top share of them is kept; at least one. The rest is
//! dropped before any signal is computed for it. More is played than is trained, and what is trained teaches more.
//!
//! # The formula
//!
//! With `s_g` the sample deviation of the rewards of group `g`, in descending order, of `G` groups:
//!
//! ```text
//! kept = max(1, floor(share G)) groups                                        of = "groups"
//! kept = the fewest groups with sum(s_g) >= share sum over all - slack        of = "spread"
//! ```
//!
//! StarPO-S of RAGEN, Wang et al. 2025 (arXiv 2504.20073), section 4.2. `of = "spread"` is the "top-p" of its newer code:
//! how many groups are kept then follows from how unequal they are.
//!
//! # Fidelity
//!
//! The rules of RAGEN's code (`rollout_filter_strategy` `top_k` and linear `top_p`, largest deviation first). Different on
//! purpose:
//!
//! - A group whose rewards are all equal has a deviation of exactly 0, decided by comparing; a group of one as well.
//! - Rewards that take few values, such as 0 and 1, make many groups equal in deviation. Among these, a number that is
//!   mixed from their rewards and lengths decides, which prefers none and does not depend on the order of groups, where
//!   RAGEN's choice is that of a sort. Groups that are equal even in these are kept together.
//! - `of = "spread"` keeps at least one group as well, where RAGEN's code can come out with none.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `share` | `0.25` | what is kept; 1 keeps all |
//! | `of` | `"groups"` | the share counts groups, or `"spread"`, the sum of deviations |
//! | `slack` | `0.01` | with `"spread"`: how much may be missing from the share |
//! | `equal` | `"keep"` | groups without spread: `"keep"` lets them fill the share, `"drop"` does not |
//! | `reward` | `"outcome"` | the episode's reward, or `"success"`, whether the task was solved |
//!
//! RAGEN's paper and ActFocus keep 0.25 of the groups on Sokoban and Sudoku. Newer RAGEN runs have `of = "spread"` with
//! `share = 0.9`.
//!
//! # What it needs
//!
//! Rewards; groups of at least two. No signal of a model.
//!
//! # When it goes wrong
//!
//! - A small `share` trains few tasks per iteration, and few episodes: raise `rollout.groups` with it.
//! - Where most tasks are all solved or all failed, the share is filled with groups that teach nothing: `spread_kept` near 0.
//!   `equal = "drop"` leaves them out; if there is no other group, all count as a baseline and nothing is trained.
//! - A penalty that varies makes spread of its own; rewards here are those of the environment, before any penalty.
//!
//! # Metrics
//!
//! `groups_kept`, `groups_without_spread` (their numbers), `spread`, `spread_kept` (the mean deviation of all groups and
//! of those that are kept).
//!
//! # Example
//!
//! ```toml
//! seed = 7
//! iterations = 200
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
//! groups = 16
//! group_size = 8
//!
//! [[credit]]
//! plugin = "variance-filter"
//! params = { share = 0.25 }
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
    /// What the share counts.
    pub enum Of {
        /// Groups.
        Groups = "groups",
        /// The sum of their deviations.
        Spread = "spread",
    }
}

choices! {
    /// What becomes of groups whose rewards are all equal.
    pub enum Equal {
        /// They are the last to be kept.
        Keep = "keep",
        /// They are dropped.
        Drop = "drop",
    }
}

choices! {
    /// What is compared inside a group.
    pub enum Reward {
        /// The episode's reward as the environment gave it.
        Outcome = "outcome",
        /// Whether the task was solved.
        Success = "success",
    }
}

params! {
    /// Parameters of `variance-filter`.
    pub struct Params {
        /// What is kept; 1 keeps all.
        #[range((std::ops::Bound::Excluded(0.0), std::ops::Bound::Included(1.0)))]
        share: f64 = 0.25,
        /// What the share counts.
        of: Of = Of::Groups,
        /// With `of = "spread"`: how much may be missing from the share.
        #[range(0.0..)]
        slack: f64 = 0.01,
        /// What becomes of groups whose rewards are all equal.
        equal: Equal = Equal::Keep,
        /// What is compared inside a group.
        reward: Reward = Reward::Outcome,
    }
}

/// The scheme.
pub struct VarianceFilter {
    params: Params,
    /// Rewards of the group at hand.
    scores: Scores,
    /// The groups, best first once they are sorted.
    ranked: Vec<Ranked>,
}

/// A group with what orders it.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    deviation: f64,
    lot: u64,
    group: usize,
}

impl Scheme for VarianceFilter {
    type Params = Params;
    const NAME: &'static str = "variance-filter";
    const ABOUT: &'static str = "Trains on the groups whose rewards differ most.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { params, scores: Scores::default(), ranked: Vec::new() })
    }

    fn needs(&self) -> Needs {
        let reward = match self.params.reward {
            Reward::Outcome => RAW_OUTCOME.any(),
            Reward::Success => SUCCESS.any(),
        };
        Needs::hooks(&[Hook::Select]).reads(&[reward]).group_relative()
    }

    fn select(&mut self, batch: &Batch<'_>, selection: &mut Selection<'_>, context: &Context) -> Result<()> {
        self.rank(batch)?;
        let groups = self.ranked.len();
        let without = self.ranked.iter().filter(|ranked| ranked.deviation == 0.0).count();
        let candidates = if self.params.equal == Equal::Drop { groups - without } else { groups };
        let kept = self.kept(candidates);

        let host = &context.host;
        host.metric("groups_kept", kept as f64);
        host.metric("groups_without_spread", without as f64);
        host.metric("spread", mean_deviation(&self.ranked));
        host.metric("spread_kept", mean_deviation(&self.ranked[..kept]));
        if kept == 0 && groups > 0 {
            host.warn("no group has rewards that differ; nothing is trained in this iteration");
        }
        let decision = if kept == 0 { Decision::BaselineOnly } else { Decision::Drop };
        let mut left_out: Vec<bool> = vec![false; groups];
        for ranked in &self.ranked[kept..] {
            left_out[ranked.group] = true;
        }
        for group in batch.groups().filter(|group| left_out[group.index()]) {
            for trajectory in group.trajectory_range() {
                selection.decide(trajectory, decision);
            }
        }
        Ok(())
    }
}

impl VarianceFilter {
    /// Puts the groups in order, the one of the largest deviation first.
    fn rank(&mut self, batch: &Batch<'_>) -> Result<()> {
        let reward: &dyn Fn(usize) -> f64 = match self.params.reward {
            Reward::Outcome => {
                let outcome = batch.get(RAW_OUTCOME)?;
                &move |trajectory| f64::from(outcome[trajectory])
            }
            Reward::Success => {
                let success = batch.get(SUCCESS)?;
                &move |trajectory| f64::from(u8::from(success[trajectory]))
            }
        };
        self.ranked.clear();
        for group in batch.groups() {
            self.scores.clear();
            let mut lot = 0_u64;
            for trajectory in group.trajectories() {
                let reward = reward(trajectory.index());
                self.scores.push(reward, 1);
                // A sum, so that the order of trajectories does not matter.
                let lengths =
                    trajectory.steps().fold(reward.to_bits(), |lot, step| mix(lot ^ step.tokens().len() as u64));
                lot = lot.wrapping_add(mix(lengths));
            }
            let deviation = self.scores.spread().map_or(0.0, |spread| spread.deviation(1));
            self.ranked.push(Ranked { deviation, lot, group: group.index() });
        }
        self.ranked.sort_unstable_by(|a, b| b.deviation.total_cmp(&a.deviation).then(b.lot.cmp(&a.lot)));
        Ok(())
    }

    /// How many of the ranked groups are kept, of which the first `candidates` may be.
    fn kept(&self, candidates: usize) -> usize {
        let share = self.params.share;
        let mut kept = match self.params.of {
            _ if share >= 1.0 => candidates,
            Of::Groups => ((share * self.ranked.len() as f64).floor() as usize).clamp(1, candidates.max(1)),
            Of::Spread => {
                let total: f64 = self.ranked.iter().map(|ranked| ranked.deviation).sum();
                let wanted = share * total - self.params.slack;
                let mut sum = 0.0;
                let enough = |ranked: &&Ranked| {
                    let more = sum < wanted && ranked.deviation > 0.0;
                    sum += ranked.deviation;
                    more
                };
                self.ranked.iter().take_while(enough).count().max(1)
            }
        };
        kept = kept.min(candidates);
        // What cannot be told from the last that is kept is kept as well.
        while kept > 0 && kept < candidates && self.ranked[kept].ties_with(self.ranked[kept - 1]) {
            kept += 1;
        }
        kept
    }
}

impl Ranked {
    fn ties_with(self, other: Self) -> bool {
        self.deviation == other.deviation && self.lot == other.lot
    }
}

fn mean_deviation(ranked: &[Ranked]) -> f64 {
    ranked.iter().map(|ranked| ranked.deviation).sum::<f64>() / ranked.len().max(1) as f64
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

export_plugin!(VarianceFilter);

#[cfg(test)]
mod tests;
