//! The geometric mean of cut token ratios, one for each step or row (GMPO, arXiv 2507.20673, equation 4, as verl's
//! `geo_mean` computes it).

use std::ops::Range;

use accredit_plugin_api::math::{self, Kernel};

use crate::{
    aggregate::{self, BLOCK, Run},
    policy::{Columns, Flags, Sums},
    ratio::LogRatioClamp,
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

/// The term: `-A s` for every token with `s = exp(mean of the cut log-ratios)` of the tokens of its step or row that have a
/// weight. The derivatives are those of the whole step or row: `s / length` times the sum of its tokens' terms.
pub struct GeometricTerm<'a> {
    /// Where log-ratios are cut before the mean.
    pub form: GeometricMean,
    /// Where they are cut before that.
    pub clamp: LogRatioClamp,
    /// The tokens.
    pub columns: Columns<'a>,
    /// The shares.
    pub runs: &'a [Run],
    /// The tokens of each step or row.
    pub units: &'a [Range<usize>],
    /// Room for a number for each token.
    pub factor: &'a mut Vec<f64>,
    /// Where the derivatives go.
    pub slopes: &'a mut [f32],
}

impl Kernel for GeometricTerm<'_> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let Self { form, clamp, columns, runs, units, factor, slopes } = self;
        let Columns { new, old, advantage, weight, correction } = columns;
        let (lowest, highest) = (f64::from(clamp.low), f64::from(clamp.high));
        factor.clear();
        for run in runs {
            factor.extend(weight[run.tokens.clone()].iter().map(|weight| f64::from(*weight) * run.share));
        }
        if let Some(correction) = correction {
            factor.iter_mut().zip(correction).for_each(|(factor, correction)| *factor *= correction);
        }
        let (mut counted, mut gain) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut moved = [0.0; BLOCK];
        let mut sums = Sums::default();
        for unit in units {
            let before = sums.count;
            let (mut total, mut terms) = (0.0, 0.0);
            for tokens in aggregate::cut(unit) {
                let slopes = &mut slopes[tokens.clone()];
                let count = slopes.len();
                let (new, old) = (&new[tokens.clone()][..count], &old[tokens.clone()][..count]);
                let (advantage, weight) = (&advantage[tokens.clone()][..count], &weight[tokens.clone()][..count]);
                let factor = &factor[tokens][..count];
                let (counted, gain) = (&mut counted[..count], &mut gain[..count]);
                let moved = &mut moved[..count];
                let mut flags = 0;
                for i in 0..count {
                    let has = weight[i] != 0.0;
                    let advantage = f64::from(advantage[i]);
                    let difference = f64::from(new[i]) - f64::from(old[i]);
                    let log_ratio = cut(difference, lowest, highest);
                    let inside = cut(log_ratio, form.low, form.high);
                    // The smaller gain: a positive advantage is cut from above, a negative one from below.
                    let smaller = if inside < log_ratio { inside } else { log_ratio };
                    let larger = if inside > log_ratio { inside } else { log_ratio };
                    let (up, down) = (advantage > 0.0, advantage < 0.0);
                    let chosen = if up { smaller } else { larger };
                    let chosen = if up | down { chosen } else { 0.0 * log_ratio };
                    counted[i] = if has { chosen } else { 0.0 };
                    gain[i] = if has { factor[i] * advantage } else { 0.0 };
                    moved[i] = if has { difference } else { 0.0 };
                    let clipped = log_ratio != inside;
                    flags += Flags::of(has, clipped & up, clipped & down);
                    slopes[i] = if has & (up | down) & (chosen == difference) { 1.0 } else { 0.0 };
                }
                total += math::sum(counted);
                terms -= math::sum(gain);
                sums.moved += math::sum(moved);
                sums.add_flags(flags);
            }
            let length = sums.count - before;
            if length > 0.0 {
                let loss = terms * math::exp(total / length);
                sums.loss += loss;
                let slope = (loss / length) as f32;
                for passes in &mut slopes[unit.clone()] {
                    *passes = if *passes == 0.0 { 0.0 } else { slope };
                }
            }
        }
        sums
    }
}
