//! What both schemes do: score the trajectories of a group, compare, and write the same advantage on all tokens of one.

use accredit_plugin_api::prelude::*;

choices! {
    /// The advantage of a group with one entry.
    pub enum Singleton {
        /// 0.
        Zero = "zero",
        /// Nothing is taken off: the outcome itself.
        Raw = "raw",
    }
}

choices! {
    /// What becomes of the rewards that `shape` gave to single tokens.
    pub enum TokenRewards {
        /// A trajectory's are a part of the outcome that is compared.
        Outcome = "outcome",
        /// The comparison leaves them out; each token gets the sum of those from itself to the end of its row.
        ToGo = "to-go",
    }
}

/// How often a trajectory counts in the statistics of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Once.
    Trajectories,
    /// As often as it has rows with a response token.
    Rows,
    /// As often as it has response tokens.
    Tokens,
}

/// The settings of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How often a trajectory counts.
    pub counting: Counting,
    /// What a group with one entry gets.
    pub singleton: Singleton,
    /// What becomes of token rewards.
    pub token_rewards: TokenRewards,
    /// The outcome of a group with one entry is divided by this, where it stays.
    pub singleton_scale: f64,
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

impl Rules {
    /// The columns that are read, and the smallest group.
    pub fn needs(&self) -> Needs {
        let to_go = self.token_rewards == TokenRewards::ToGo;
        let needs = Needs::hooks(&[Hook::Advantage])
            .reads(&[OUTCOME.any()])
            .reads_if(to_go, &[RAW_OUTCOME.any(), REWARD.any(), RAW_REWARD.any(), TOKEN_REWARD.any()]);
        match self.singleton {
            Singleton::Zero => needs.group_relative(),
            Singleton::Raw => needs,
        }
    }

    /// Writes the advantages. `scale` is what a score's distance from the mean is divided by in a group with a spread.
    pub fn compare(
        &self,
        batch: &Batch<'_>,
        out: &mut [f32],
        host: &Host,
        buffers: &mut Buffers,
        scale: impl Fn(&Spread) -> f64,
    ) -> Result<()> {
        let Buffers { scores, outcomes } = buffers;
        self.outcomes(batch, outcomes)?;
        let mut rows = batch.rows().peekable();
        let mut counts = Counts::default();
        for group in batch.groups() {
            scores.clear();
            let mut entries = 0;
            for trajectory in group.trajectories() {
                let steps = trajectory.step_range();
                let mut rows_with_tokens = 0;
                while let Some(row) = rows.next_if(|row| row.step_range().start < steps.end) {
                    rows_with_tokens += u32::from(!row.tokens().is_empty());
                }
                let count = match self.counting {
                    Counting::Trajectories => u32::from(!trajectory.tokens().is_empty()),
                    Counting::Rows => rows_with_tokens,
                    Counting::Tokens => trajectory.tokens().len() as u32,
                };
                entries += u32::from(count > 0);
                scores.push(f64::from(outcomes[trajectory.index()]), count);
            }
            let baseline = self.baseline(scores.spread(), entries, &mut counts, &scale);
            for trajectory in group.trajectories() {
                let advantage = match baseline {
                    Baseline::Flat => 0.0,
                    Baseline::Spread { mean, scale } => (f64::from(outcomes[trajectory.index()]) - mean) / scale,
                };
                out[trajectory.tokens()].fill(advantage as f32);
            }
        }
        if self.token_rewards == TokenRewards::ToGo {
            add_rewards_to_go(batch, out)?;
        }
        host.metric("groups", f64::from(counts.groups));
        host.metric("groups_singleton", f64::from(counts.singleton));
        host.metric("groups_without_spread", f64::from(counts.without_spread));
        Ok(())
    }

    /// What is compared of each trajectory: its outcome, with or without the rewards of its tokens.
    fn outcomes(&self, batch: &Batch<'_>, outcomes: &mut Vec<f32>) -> Result<()> {
        outcomes.clear();
        if self.token_rewards == TokenRewards::Outcome {
            outcomes.extend_from_slice(batch.get(OUTCOME)?);
            return Ok(());
        }
        let (raw, reward, raw_reward) = (batch.get(RAW_OUTCOME)?, batch.get(REWARD)?, batch.get(RAW_REWARD)?);
        outcomes.extend(batch.trajectories().map(|trajectory| {
            let moved: f64 = trajectory.step_range().map(|s| f64::from(reward[s]) - f64::from(raw_reward[s])).sum();
            (f64::from(raw[trajectory.index()]) + moved) as f32
        }));
        Ok(())
    }

    /// The baseline of a group, `entries` of whose trajectories count.
    fn baseline(
        &self,
        spread: Option<Spread>,
        entries: u32,
        counts: &mut Counts,
        scale: impl Fn(&Spread) -> f64,
    ) -> Baseline {
        counts.groups += 1;
        let Some(spread) = spread else {
            return Baseline::Flat;
        };
        let alone = match self.counting {
            Counting::Trajectories | Counting::Rows => spread.count == 1,
            Counting::Tokens => entries == 1,
        };
        if alone {
            counts.singleton += 1;
            return match self.singleton {
                Singleton::Zero => Baseline::Flat,
                Singleton::Raw => Baseline::Spread { mean: 0.0, scale: self.singleton_scale },
            };
        }
        if spread.all_equal {
            counts.without_spread += 1;
            return Baseline::Flat;
        }
        Baseline::Spread { mean: spread.mean, scale: scale(&spread) }
    }
}

/// Buffers that are used again for each batch.
#[derive(Debug, Default)]
pub struct Buffers {
    scores: Scores,
    outcomes: Vec<f32>,
}

/// Adds to each token the token rewards from itself to the end of its row.
fn add_rewards_to_go(batch: &Batch<'_>, out: &mut [f32]) -> Result<()> {
    let reward = batch.get(TOKEN_REWARD)?;
    for row in batch.rows() {
        let tokens = row.tokens();
        let mut to_go = 0.0;
        for (advantage, reward) in out[tokens.clone()].iter_mut().zip(&reward[tokens]).rev() {
            to_go += f64::from(*reward);
            *advantage = (f64::from(*advantage) + to_go) as f32;
        }
    }
    Ok(())
}
