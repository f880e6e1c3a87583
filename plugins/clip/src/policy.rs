//! The policy's term: a surrogate of every token, times its weight and share.

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

use crate::{
    aggregate::{Run, blocks},
    ratio::LogRatioClamp,
    surrogate::{Surrogate, Token},
};

/// Tokens that are worked on together: their numbers stay in the nearest cache from one loop to the next.
const BLOCK: usize = 128;

/// What the policy's term is computed from; every slice has one element for each token of the micro-batch.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// Log-probabilities under the policy as it is now.
    pub new: &'a [f32],
    /// Log-probabilities before the update.
    pub old: &'a [f32],
    /// Advantages.
    pub advantage: &'a [f32],
    /// Weights.
    pub weight: &'a [f32],
    /// Factors that make up for a sampler that is not the policy, where there are any.
    pub correction: Option<&'a [f64]>,
}

/// Sums over the tokens that have a weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Their terms.
    pub loss: f64,
    /// Their number.
    pub count: f64,
    /// Tokens whose cut ratio decides.
    pub clipped: f64,
    /// Tokens of which the limit for negative advantages decides.
    pub clipped_lower: f64,
    /// New minus old log-probability.
    pub moved: f64,
}

impl Sums {
    /// Pushes what they come to as metrics.
    pub fn report(&self, host: &Host) {
        if self.count > 0.0 {
            host.metric_weighted("clip_fraction", self.clipped / self.count, self.count);
            host.metric_weighted("clip_fraction_lower", self.clipped_lower / self.count, self.count);
            host.metric_weighted("ppo_kl", -self.moved / self.count, self.count);
        }
    }
}

/// The term's loop.
pub struct Policy<'a, S> {
    /// The surrogate.
    pub surrogate: S,
    /// Where log-ratios are cut.
    pub clamp: LogRatioClamp,
    /// The tokens.
    pub columns: Columns<'a>,
    /// The log-ratio of each token's step or row; none where every token has its own.
    pub log_ratio: Option<&'a [f64]>,
    /// The shares.
    pub runs: &'a [Run],
    /// Where the derivatives go.
    pub slopes: &'a mut [f32],
}

impl<S: Surrogate> Kernel for Policy<'_, S> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let mut scratch = Scratch::default();
        let mut sums = Sums::default();
        for (tokens, share) in blocks(self.runs, BLOCK) {
            let columns = self.columns;
            let (new, old) = (&columns.new[tokens.clone()], &columns.old[tokens.clone()]);
            let (advantage, weight) = (&columns.advantage[tokens.clone()], &columns.weight[tokens.clone()]);
            let slopes = &mut self.slopes[tokens.clone()];
            let count = slopes.len();
            // One length for all, which the compiler then need not check again in the loops.
            let (new, old, advantage, weight) = (&new[..count], &old[..count], &advantage[..count], &weight[..count]);
            let Scratch { moved, log_ratio, ratio, correction, loss, used, clipped, clipped_lower } = &mut scratch;
            let (moved, log_ratio, ratio) = (&mut moved[..count], &mut log_ratio[..count], &mut ratio[..count]);
            let (correction, loss, used) = (&mut correction[..count], &mut loss[..count], &mut used[..count]);
            let (clipped, clipped_lower) = (&mut clipped[..count], &mut clipped_lower[..count]);

            for i in 0..count {
                let has = weight[i] != 0.0;
                used[i] = f64::from(u8::from(has));
                let difference = f64::from(new[i]) - f64::from(old[i]);
                moved[i] = if has { difference } else { 0.0 };
                log_ratio[i] = difference;
            }
            if let Some(shared) = self.log_ratio {
                log_ratio.copy_from_slice(&shared[tokens.clone()]);
            }
            if S::RATIO {
                for i in 0..count {
                    ratio[i] = math::exp(self.clamp.cut(log_ratio[i]));
                }
            }
            if let Some(given) = columns.correction {
                correction.copy_from_slice(&given[tokens.clone()]);
            }
            for i in 0..count {
                let point = self.surrogate.at(Token {
                    new: f64::from(new[i]),
                    advantage: f64::from(advantage[i]),
                    log_ratio: log_ratio[i],
                    ratio: ratio[i],
                    passes: self.clamp.passes(log_ratio[i]),
                });
                // What has no weight has no part, whatever its numbers are.
                let has = weight[i] != 0.0;
                let factor = f64::from(weight[i]) * share * correction[i];
                loss[i] = if has { factor * point.loss } else { 0.0 };
                slopes[i] = if has { (factor * point.slope) as f32 } else { 0.0 };
                clipped[i] = if has & point.clipped { 1.0 } else { 0.0 };
                clipped_lower[i] = if has & point.clipped_lower { 1.0 } else { 0.0 };
            }
            sums.loss += math::sum(loss);
            sums.count += math::sum(used);
            sums.clipped += math::sum(clipped);
            sums.clipped_lower += math::sum(clipped_lower);
            sums.moved += math::sum(moved);
        }
        sums
    }
}

/// Numbers of the tokens of a block.
struct Scratch {
    moved: [f64; BLOCK],
    log_ratio: [f64; BLOCK],
    ratio: [f64; BLOCK],
    correction: [f64; BLOCK],
    loss: [f64; BLOCK],
    used: [f64; BLOCK],
    clipped: [f64; BLOCK],
    clipped_lower: [f64; BLOCK],
}

impl Default for Scratch {
    fn default() -> Self {
        let ones = [1.0; BLOCK];
        Self {
            moved: ones,
            log_ratio: ones,
            ratio: ones,
            correction: ones,
            loss: ones,
            used: ones,
            clipped: ones,
            clipped_lower: ones,
        }
    }
}
