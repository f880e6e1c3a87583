//! The critic's loss.

use accredit_plugin_api::math::{self, Kernel};

use crate::{
    aggregate::{BLOCK, Run, blocks},
    surrogate::cut,
};

/// The loss of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueLoss {
    /// Half the squared error.
    pub loss: f64,
    /// Its derivative with respect to the new value.
    pub slope: f64,
    /// The cut value decides.
    pub clipped: bool,
}

/// Half of the larger of two squared errors: of the value, and of the value cut to `clip` around the old one. An
/// infinite `clip` does not cut. Ties are those of automatic differentiation.
#[inline(always)]
pub fn value_loss(new: f64, old: f64, target: f64, clip: f64) -> ValueLoss {
    let error = new - target;
    let near = cut(new, old - clip, old + clip);
    let cut_error = near - target;
    let (plain, clipped) = (error * error, cut_error * cut_error);
    // Only a value that was moved can have the larger error, and then it does not move further.
    let tied = if (clipped == plain) & (near != new) { error / 2.0 } else { error };
    let worse = clipped > plain;
    ValueLoss { loss: 0.5 * if worse { clipped } else { plain }, slope: if worse { 0.0 } else { tied }, clipped: worse }
}

/// The critic's loss over a micro-batch.
pub struct Values<'a> {
    /// Its factor in the loss.
    pub coefficient: f64,
    /// How far a value may move.
    pub clip: f64,
    /// Values as they are now.
    pub new: &'a [f32],
    /// Values before the update.
    pub old: &'a [f32],
    /// What they should be.
    pub target: &'a [f32],
    /// The shares.
    pub runs: &'a [Run],
    /// Where the derivatives go.
    pub slopes: &'a mut [f32],
}

/// Sums over tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueSums {
    /// Losses times shares.
    pub loss: f64,
    /// Losses.
    pub sum: f64,
    /// Tokens whose cut value decides.
    pub clipped: f64,
}

impl Kernel for Values<'_> {
    type Output = ValueSums;

    #[inline(always)]
    fn run(self) -> ValueSums {
        let (mut losses, mut clipped) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut sums = ValueSums::default();
        for (tokens, share) in blocks(self.runs) {
            let slopes = &mut self.slopes[tokens.clone()];
            let count = slopes.len();
            let (new, old) = (&self.new[tokens.clone()][..count], &self.old[tokens.clone()][..count]);
            let target = &self.target[tokens][..count];
            let (losses, clipped) = (&mut losses[..count], &mut clipped[..count]);
            for i in 0..count {
                let term = value_loss(f64::from(new[i]), f64::from(old[i]), f64::from(target[i]), self.clip);
                losses[i] = term.loss;
                clipped[i] = if term.clipped { 1.0 } else { 0.0 };
                slopes[i] = (self.coefficient * share * term.slope) as f32;
            }
            let block = math::sum(losses);
            sums.sum += block;
            sums.loss += share * block;
            sums.clipped += math::sum(clipped);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(new: f64, old: f64, target: f64, clip: f64, loss: f64, slope: f64) {
        let found = value_loss(new, old, target, clip);
        assert!(
            (found.loss - loss).abs() < 1e-12 && (found.slope - slope).abs() < 1e-12,
            "{new} {old} {target}: {found:?}"
        );
    }

    #[test]
    fn values_by_hand() {
        // Inside the cut.
        check(1.0, 0.75, 0.0, 0.5, 0.5, 1.0);
        // Moved away from the target: the plain error is larger.
        check(2.0, 0.5, 0.0, 0.5, 2.0, 2.0);
        // Moved towards it, further than the cut: the cut value decides, and nothing pulls.
        check(1.0, 0.0, 2.0, 0.5, 1.125, 0.0);
        check(1.0, 0.0, 2.0, f64::INFINITY, 0.5, -1.0);
        // Past it, as far as the cut value stands before it.
        check(1.0, 0.0, 0.75, 0.5, 0.03125, 0.125);
    }
}
