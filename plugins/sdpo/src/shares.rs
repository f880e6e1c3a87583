//! From numbers per token to one number: what the share of a token with a teacher is.

use accredit_plugin_api::prelude::*;

choices! {
    /// How the tokens that have a teacher become one loss.
    pub enum Aggregate {
        /// The mean over all of them.
        TokenMean = "token-mean",
        /// Their sum.
        TokenSum = "token-sum",
        /// The mean over rows of the sum.
        SeqMeanTokenSum = "seq-mean-token-sum",
        /// The mean over rows of the mean.
        SeqMeanTokenMean = "seq-mean-token-mean",
        /// The mean over rows of the sum, divided by the constant `norm_length`.
        SeqMeanTokenSumNorm = "seq-mean-token-sum-norm",
        /// The mean over steps of the mean.
        StepMeanTokenMean = "step-mean-token-mean",
    }
}

/// An aggregate with its constant, which is 1 for all but one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// The aggregate.
    pub aggregate: Aggregate,
    /// What it divides by in the end.
    pub norm_length: f64,
}

impl Mode {
    /// Writes for each token the factor of its term: 0 where it has no teacher. Rows and steps without a teacher do not
    /// count, and the denominators are those of the whole minibatch.
    pub fn shares(self, batch: &Batch<'_>, teacher: &[f32], out: &mut Vec<f64>) -> Result<()> {
        out.clear();
        out.resize(teacher.len(), 0.0);
        let mut set = |tokens: std::ops::Range<usize>, share: f64| {
            for (share_of_token, teacher) in out[tokens.clone()].iter_mut().zip(&teacher[tokens]) {
                *share_of_token = if teacher.is_nan() { 0.0 } else { share };
            }
        };
        let count =
            |tokens: std::ops::Range<usize>| teacher[tokens].iter().filter(|teacher| !teacher.is_nan()).count() as f64;
        // At least 1: a minibatch without a teacher has a loss of 0.
        let all = 0..teacher.len();
        let inverse = |denominator: f64| 1.0 / denominator.max(1.0);
        match self.aggregate {
            Aggregate::TokenMean => set(all, inverse(batch.scalar(PART_TOKENS)?)),
            Aggregate::TokenSum => set(all, 1.0),
            Aggregate::SeqMeanTokenSum | Aggregate::SeqMeanTokenSumNorm => {
                set(all, inverse(batch.scalar(PART_ROWS)?) / self.norm_length);
            }
            Aggregate::SeqMeanTokenMean => {
                let rows = inverse(batch.scalar(PART_ROWS)?);
                batch.rows().for_each(|row| set(row.tokens(), rows * inverse(count(row.tokens()))));
            }
            Aggregate::StepMeanTokenMean => {
                let steps = inverse(batch.scalar(PART_STEPS)?);
                batch.steps().for_each(|step| set(step.tokens(), steps * inverse(count(step.tokens()))));
            }
        }
        Ok(())
    }
}
