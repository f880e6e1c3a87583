//! Making up for a sampler that is not quite the policy: other kernels or another precision give other log-probabilities,
//! and the surrogate's ratio does not see it, because it starts from the policy before the update.

use std::ops::Range;

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

use crate::{
    aggregate::{self, BLOCK},
    ratio::Means,
    surrogate::cut,
};

choices! {
    /// What is done about tokens that the sampler saw otherwise than the policy before the update.
    pub enum Correction {
        /// Nothing.
        None = "none",
        /// Their terms are weighted with the importance weight, at most `mismatch_high` (truncated importance sampling).
        Truncate = "truncate",
        /// The same with a weight of 0 outside `mismatch_low` to `mismatch_high` (masked importance sampling).
        Mask = "mask",
    }
}

choices! {
    /// What one importance weight belongs to.
    pub enum Weighed {
        /// A token.
        Token = "token",
        /// A row: the product of its tokens' weights.
        Row = "row",
        /// A row: the geometric mean of its tokens' weights.
        RowMean = "row-mean",
    }
}

/// The correction and its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    /// What is done.
    pub correction: Correction,
    /// What one weight belongs to.
    pub weighed: Weighed,
    /// Lowest weight that a mask lets pass.
    pub low: f64,
    /// Highest weight.
    pub high: f64,
}

/// Where log-weights are cut before the exponential.
const LOG_LIMIT: f64 = 20.0;

/// Buffers that are used again in the next call.
#[derive(Default)]
pub struct Buffers {
    rows: Vec<Range<usize>>,
    means: Vec<f64>,
    factors: Vec<f64>,
}

impl Mismatch {
    /// A factor for each token; pushes how far sampler and policy are apart.
    pub fn factors<'a>(
        self,
        batch: &Batch<'_>,
        old: &[f32],
        host: &Host,
        buffers: &'a mut Buffers,
    ) -> Result<&'a [f64]> {
        let sampler = batch.get(SAMPLER_LOGPROB)?;
        let Buffers { rows, means, factors } = buffers;
        factors.resize(old.len(), 0.0);
        rows.clear();
        if self.weighed == Weighed::Token {
            rows.push(0..old.len());
        } else {
            rows.extend(batch.rows().map(|row| row.tokens()));
            math::run(Means { units: rows, new: old, old: sampler, out: means });
        }
        let sums = math::run(Factors { mismatch: self, old, sampler, rows, means, out: factors });
        if !old.is_empty() {
            let count = old.len() as f64;
            host.metric_weighted("mismatch_kl", -sums.log_weight / count, count);
            host.metric_weighted("mismatch_weight", sums.weight / count, count);
            host.metric_weighted("mismatch_cut", sums.cut / count, count);
        }
        Ok(factors)
    }
}

/// Sums over tokens.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Old minus the sampler's log-probability.
    log_weight: f64,
    /// Weights after the limit.
    weight: f64,
    /// Tokens whose weight a limit changes.
    cut: f64,
}

struct Factors<'a> {
    mismatch: Mismatch,
    old: &'a [f32],
    sampler: &'a [f32],
    /// The tokens of every row; with weights of tokens all of them.
    rows: &'a [Range<usize>],
    /// The mean log-weight of each row; not with weights of tokens.
    means: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for Factors<'_> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let Mismatch { correction, weighed, low, high } = self.mismatch;
        // A mask is a limit from above that lets nothing pass, and one from below.
        let masks = correction == Correction::Mask;
        let (low, above) = if masks { (low, 0.0) } else { (0.0, high) };
        let (mut log_weight, mut weights, mut changed) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        let mut sums = Sums::default();
        for (r, row) in self.rows.iter().enumerate() {
            let shared = match weighed {
                Weighed::Token => None,
                Weighed::Row => Some(self.means[r] * row.len() as f64),
                Weighed::RowMean => Some(self.means[r]),
            };
            for tokens in aggregate::cut(row) {
                let count = tokens.len();
                let (old, sampler) = (&self.old[tokens.clone()][..count], &self.sampler[tokens.clone()][..count]);
                let log_weight = &mut log_weight[..count];
                let (weights, changed) = (&mut weights[..count], &mut changed[..count]);
                for i in 0..count {
                    log_weight[i] = f64::from(old[i]) - f64::from(sampler[i]);
                }
                sums.log_weight += math::sum(log_weight);
                if let Some(shared) = shared {
                    log_weight.fill(shared);
                }
                for i in 0..count {
                    weights[i] = math::exp(cut(log_weight[i], -LOG_LIMIT, LOG_LIMIT));
                }
                for i in 0..count {
                    let weight = weights[i];
                    let kept = if weight > high { above } else { weight };
                    let kept = if weight < low { 0.0 } else { kept };
                    changed[i] = if kept == weight { 0.0 } else { 1.0 };
                    weights[i] = kept;
                }
                sums.weight += math::sum(weights);
                sums.cut += math::sum(changed);
                self.out[tokens].copy_from_slice(weights);
            }
        }
        sums
    }
}
