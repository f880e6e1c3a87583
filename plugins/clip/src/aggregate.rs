//! From numbers per token to one number: what each token's share in the loss is.

use std::ops::Range;

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

/// Neighbouring tokens with one share: the factor that a token's term has in the loss (times its weight, where it counts
/// by weight).
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The tokens.
    pub tokens: Range<usize>,
    /// The factor of each.
    pub share: f64,
}

impl Mode {
    /// `norm_length` is 1 for all aggregates but one.
    pub fn new(aggregate: Aggregate, norm_length: f64) -> Self {
        Self { aggregate, norm_length }
    }

    /// Writes the shares of all tokens, in order. The denominators are those of the whole minibatch, so the shares of
    /// micro-batches add up. A zero denominator gives 0.
    pub fn runs(self, batch: &Batch<'_>, count: Count<'_>, out: &mut Vec<Run>) -> Result<()> {
        let weighted = matches!(count, Count::Weight(_));
        let per = |by_weight, by_count| if weighted { by_weight } else { by_count };
        out.clear();
        let whole = |share| Run { tokens: 0..batch.token_count(), share };
        match self.aggregate {
            Aggregate::TokenMean => {
                out.push(whole(inverse(batch.scalar(per(TOTAL_WEIGHT, TOTAL_TOKENS))?)));
            }
            Aggregate::TokenSum => out.push(whole(1.0)),
            Aggregate::SeqMeanTokenSum | Aggregate::SeqMeanTokenSumNorm => {
                out.push(whole(inverse(batch.scalar(TOTAL_ROWS)? * self.norm_length)));
            }
            Aggregate::SeqMeanTokenMean => {
                let rows = batch.scalar(TOTAL_ROWS)?;
                let sums = batch.get(per(ROW_WEIGHT, ROW_TOKENS))?;
                out.extend(
                    batch.rows().map(|row| Run { share: inverse(rows * sums[row.index()]), tokens: row.tokens() }),
                );
            }
            Aggregate::StepMeanTokenMean => {
                let steps = batch.scalar(TOTAL_STEPS)?;
                out.extend(batch.steps().map(|step| {
                    // A step lies in one row, and a row in one micro-batch.
                    let sum = match count {
                        Count::Weight(weight) => weight[step.tokens()].iter().map(|w| f64::from(*w)).sum(),
                        Count::One => step.tokens().len() as f64,
                    };
                    Run { share: inverse(steps * sum), tokens: step.tokens() }
                }));
            }
            Aggregate::TrajectoryMeanTokenMean => {
                let trajectories = batch.scalar(TOTAL_TRAJECTORIES)?;
                let sums = batch.get(per(TRAJECTORY_WEIGHT, TRAJECTORY_TOKENS))?;
                out.extend(batch.trajectories().map(|trajectory| {
                    let share = inverse(trajectories * sums[trajectory.index()]);
                    Run { share, tokens: trajectory.tokens() }
                }));
            }
        }
        Ok(())
    }
}

/// Tokens that are worked on together: their numbers stay in the nearest cache from one loop to the next.
pub const BLOCK: usize = 512;

/// The blocks of runs, each with its share.
pub fn blocks(runs: &[Run]) -> impl Iterator<Item = (Range<usize>, f64)> + '_ {
    runs.iter().flat_map(|run| cut(&run.tokens).map(|tokens| (tokens, run.share)))
}

/// The blocks of a range.
pub fn cut(tokens: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = tokens.end;
    tokens.clone().step_by(BLOCK).map(move |start| start..end.min(start + BLOCK))
}

pub fn inverse(denominator: f64) -> f64 {
    if denominator == 0.0 { 0.0 } else { 1.0 / denominator }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_every_token_once() {
        let runs = [
            Run { tokens: 0..2 * BLOCK + 1, share: 0.5 },
            Run { tokens: 2 * BLOCK + 1..2 * BLOCK + 1, share: 9.0 },
            Run { tokens: 2 * BLOCK + 1..2 * BLOCK + 3, share: 0.25 },
        ];
        let found: Vec<_> = blocks(&runs).collect();
        let expected = [
            (0..BLOCK, 0.5),
            (BLOCK..2 * BLOCK, 0.5),
            (2 * BLOCK..2 * BLOCK + 1, 0.5),
            (2 * BLOCK + 1..2 * BLOCK + 3, 0.25),
        ];
        assert_eq!(found, expected);
    }
}
