//! The geometric mean of cut token ratios, one for each step or row (GMPO, arXiv 2507.20673, equation 4, as verl's
//! `geo_mean` computes it).

use accredit_plugin_api::prelude::*;

use crate::{
    aggregate::Run,
    policy::{Columns, Sums},
    ratio::{LogRatioClamp, Ratio, each_unit},
    surrogate::cut,
};

/// Where the log-ratio of a token is cut, before the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeometricMean {
    /// Lowest log-ratio that still counts for a negative advantage.
    pub low: f64,
    /// Highest log-ratio that still counts for a positive advantage.
    pub high: f64,
}

/// Buffers that are used again in the next call.
#[derive(Default)]
pub struct Buffers {
    /// Weight, share and correction of each token.
    factor: Vec<f64>,
    /// Whether each token's derivative passes the cut.
    passes: Vec<bool>,
}

/// The term: `-A s` for every token with `s = exp(mean of the cut log-ratios)` of the tokens of its step or row that have a
/// weight. Writes the derivatives, which are those of the whole step or row: `s / length` times the sum of its tokens' terms.
#[expect(clippy::too_many_arguments, reason = "what a loss is made of, and none of it twice")]
pub fn geometric_mean(
    batch: &Batch<'_>,
    ratio: Ratio,
    form: GeometricMean,
    clamp: LogRatioClamp,
    columns: Columns<'_>,
    runs: &[Run],
    buffers: &mut Buffers,
    slopes: &mut [f32],
) -> Sums {
    let Columns { new, old, advantage, weight, correction } = columns;
    let Buffers { factor, passes } = buffers;
    factor.clear();
    for run in runs {
        factor.extend(weight[run.tokens.clone()].iter().map(|weight| f64::from(*weight) * run.share));
    }
    if let Some(correction) = correction {
        factor.iter_mut().zip(correction).for_each(|(factor, correction)| *factor *= correction);
    }
    passes.clear();
    passes.resize(new.len(), false);
    let mut sums = Sums::default();
    each_unit(batch, ratio, |tokens| {
        let (mut sum, mut length, mut gain) = (0.0, 0.0, 0.0);
        for token in tokens.clone().filter(|token| weight[*token] != 0.0) {
            let advantage = f64::from(advantage[token]);
            let difference = f64::from(new[token]) - f64::from(old[token]);
            let log_ratio = clamp.cut(difference);
            let inside = cut(log_ratio, form.low, form.high);
            // The smaller gain: a positive advantage is cut from above, a negative one from below.
            let counted = if advantage > 0.0 {
                log_ratio.min(inside)
            } else if advantage < 0.0 {
                log_ratio.max(inside)
            } else {
                0.0 * log_ratio
            };
            passes[token] = advantage != 0.0 && counted == difference;
            sum += counted;
            length += 1.0;
            gain -= factor[token] * advantage;
            sums.moved += difference;
            sums.clipped += f64::from(u8::from(log_ratio != inside && advantage > 0.0));
            sums.clipped_lower += f64::from(u8::from(log_ratio != inside && advantage < 0.0));
        }
        let loss = if length > 0.0 { gain * (sum / length).exp() } else { 0.0 };
        sums.loss += loss;
        sums.count += length;
        for token in tokens {
            slopes[token] = if passes[token] { (loss / length) as f32 } else { 0.0 };
        }
    });
    sums
}
