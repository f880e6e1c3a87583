//! From numbers per token to one number: what each token's share in the loss is.

use accredit_plugin_api::prelude::*;

choices! {
    /// How tokens become one loss. "Mean" always divides by the sum of weights, which is the count where they are 1.
    pub enum Aggregate {
        /// The mean over all tokens.
        TokenMean = "token-mean",
        /// The sum over all tokens.
        TokenSum = "token-sum",
        /// The mean over rows of the sum over tokens.
        SeqMeanTokenSum = "seq-mean-token-sum",
        /// The mean over rows of the mean over tokens.
        SeqMeanTokenMean = "seq-mean-token-mean",
        /// The mean over rows of the sum over tokens, divided by the constant `norm_length`.
        SeqMeanTokenSumNorm = "seq-mean-token-sum-norm",
        /// The mean over steps of the mean over tokens.
        StepMeanTokenMean = "step-mean-token-mean",
        /// The mean over trajectories of the mean over tokens.
        TrajectoryMeanTokenMean = "trajectory-mean-token-mean",
    }
}

/// An aggregate with its constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    aggregate: Aggregate,
    norm_length: f64,
}

/// What a token counts in denominators.
#[derive(Clone, Copy)]
pub enum Count<'a> {
    /// Its weight.
    Weight(&'a [f32]),
    /// One.
    One,
}

impl Mode {
    /// `norm_length` is 1 for all aggregates but one.
    pub fn new(aggregate: Aggregate, norm_length: f64) -> Self {
        Self { aggregate, norm_length }
    }

    /// Writes for each token the factor that its term has in the loss (times its weight, where it counts by weight).
    /// The denominators are those of the whole minibatch, so the shares of micro-batches add up. A zero denominator
    /// gives 0.
    pub fn shares(self, batch: &Batch<'_>, count: Count<'_>, out: &mut Vec<f64>) -> Result<()> {
        let weighted = matches!(count, Count::Weight(_));
        let per = |by_weight, by_count| if weighted { by_weight } else { by_count };
        out.clear();
        let tokens = batch.token_count();
        match self.aggregate {
            Aggregate::TokenMean => {
                out.resize(tokens, inverse(batch.scalar(per(TOTAL_WEIGHT, TOTAL_TOKENS))?));
            }
            Aggregate::TokenSum => out.resize(tokens, 1.0),
            Aggregate::SeqMeanTokenSum | Aggregate::SeqMeanTokenSumNorm => {
                let rows = batch.scalar(TOTAL_ROWS)?;
                out.resize(tokens, inverse(rows * self.norm_length));
            }
            Aggregate::SeqMeanTokenMean => {
                let rows = batch.scalar(TOTAL_ROWS)?;
                let sums = batch.get(per(ROW_WEIGHT, ROW_TOKENS))?;
                for row in batch.rows() {
                    out.resize(row.tokens().end, inverse(rows * sums[row.index()]));
                }
            }
            Aggregate::StepMeanTokenMean => {
                let steps = batch.scalar(TOTAL_STEPS)?;
                for step in batch.steps() {
                    // A step lies in one row, and a row in one micro-batch.
                    let sum = match count {
                        Count::Weight(weight) => weight[step.tokens()].iter().map(|w| f64::from(*w)).sum(),
                        Count::One => step.tokens().len() as f64,
                    };
                    out.resize(step.tokens().end, inverse(steps * sum));
                }
            }
            Aggregate::TrajectoryMeanTokenMean => {
                let trajectories = batch.scalar(TOTAL_TRAJECTORIES)?;
                let sums = batch.get(per(TRAJECTORY_WEIGHT, TRAJECTORY_TOKENS))?;
                for trajectory in batch.trajectories() {
                    let share = inverse(trajectories * sums[trajectory.index()]);
                    out.resize(trajectory.tokens().end, share);
                }
            }
        }
        Ok(())
    }
}

fn inverse(denominator: f64) -> f64 {
    if denominator == 0.0 { 0.0 } else { 1.0 / denominator }
}
