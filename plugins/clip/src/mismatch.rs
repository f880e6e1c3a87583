//! Making up for a sampler that is not quite the policy: other kernels or another precision give other log-probabilities,
//! and the surrogate's ratio does not see it, because it starts from the policy before the update.

use accredit_plugin_api::{math, prelude::*};

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

impl Mismatch {
    /// Writes a factor for each token, and pushes how far sampler and policy are apart.
    pub fn factors(self, batch: &Batch<'_>, old: &[f32], host: &Host, out: &mut Vec<f64>) -> Result<()> {
        let sampler = batch.get(SAMPLER_LOGPROB)?;
        out.clear();
        out.extend(old.iter().zip(sampler).map(|(old, sampler)| f64::from(*old) - f64::from(*sampler)));
        let divergence = -math::sum(out);
        match self.weighed {
            Weighed::Token => {}
            Weighed::Row | Weighed::RowMean => {
                for row in batch.rows() {
                    let own = &mut out[row.tokens()];
                    let parts = if self.weighed == Weighed::RowMean { own.len() as f64 } else { 1.0 };
                    let shared = math::sum(own) / parts;
                    own.fill(shared);
                }
            }
        }
        for log_weight in &mut *out {
            *log_weight = log_weight.clamp(-LOG_LIMIT, LOG_LIMIT);
        }
        math::exp_all(out);
        let mut cut = 0.0;
        for weight in &mut *out {
            let kept = match self.correction {
                Correction::None => *weight,
                Correction::Truncate => weight.min(self.high),
                Correction::Mask if (self.low..=self.high).contains(weight) => *weight,
                Correction::Mask => 0.0,
            };
            cut += f64::from(u8::from(kept != *weight));
            *weight = kept;
        }
        if !out.is_empty() {
            let count = out.len() as f64;
            host.metric_weighted("mismatch_kl", divergence / count, count);
            host.metric_weighted("mismatch_weight", math::sum(out) / count, count);
            host.metric_weighted("mismatch_cut", cut / count, count);
        }
        Ok(())
    }
}
