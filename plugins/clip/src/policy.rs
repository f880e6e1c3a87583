//! The policy's term: a surrogate of every token, times its weight and share.

use accredit_plugin_api::{
    math::{self, Kernel, SumF32},
    prelude::*,
};

use crate::{
    aggregate::BLOCK,
    ratio::{LogRatioClamp, Piece},
    surrogate::{Surrogate, Token},
};

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

/// What is counted of a token, three numbers in one, because one sum over a block is cheaper than three: each has room
/// for a whole block.
#[derive(Clone, Copy)]
pub struct Flags;

impl Flags {
    const LOWER: u32 = 1 << 10;
    const USED: u32 = 1 << 20;

    /// The number of one token.
    #[inline(always)]
    pub fn of(used: bool, clipped: bool, clipped_lower: bool) -> u32 {
        let decided = u32::from(clipped) + Self::LOWER * u32::from(clipped_lower);
        if used { Self::USED + decided } else { 0 }
    }
}

impl Sums {
    /// Adds the counts of a block, from the sum of its tokens' numbers.
    #[inline(always)]
    pub fn add_flags(&mut self, sum: u32) {
        self.count += f64::from(sum / Flags::USED);
        self.clipped_lower += f64::from(sum % Flags::USED / Flags::LOWER);
        self.clipped += f64::from(sum % Flags::LOWER);
    }

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
    /// The tokens' shares, and the log-ratios of their steps or rows: pieces of all tokens, in order.
    pub pieces: &'a [Piece],
    /// Where the derivatives go.
    pub slopes: &'a mut [f32],
}

impl<S: Surrogate> Kernel for Policy<'_, S> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let Self { surrogate, clamp, columns, pieces, slopes } = self;
        let mut scratch = Scratch::default();
        let mut sums = Sums::default();
        let (mut losses, mut moves) = (SumF32::default(), SumF32::default());
        let mut pieces = pieces.iter().filter(|piece| !piece.tokens.is_empty()).peekable();
        for (block, slopes) in slopes.chunks_mut(BLOCK).enumerate() {
            // One length for all, which the compiler then need not check again in the loops.
            let (start, count) = (block * BLOCK, slopes.len());
            let (new, old) = (&columns.new[start..][..count], &columns.old[start..][..count]);
            let (advantage, weight) = (&columns.advantage[start..][..count], &columns.weight[start..][..count]);
            let Scratch { moved, log_ratio, ratio, share, correction, loss } = &mut scratch;
            let (moved, log_ratio, ratio) = (&mut moved[..count], &mut log_ratio[..count], &mut ratio[..count]);
            let (share, correction, loss) = (&mut share[..count], &mut correction[..count], &mut loss[..count]);

            for i in 0..count {
                let difference = new[i] - old[i];
                moved[i] = if weight[i] == 0.0 { 0.0 } else { difference };
                log_ratio[i] = difference;
            }
            // What a piece has in common is written out, so that the loops run over whole blocks however short pieces are.
            let mut own_ratios = true;
            while let Some(piece) = pieces.peek() {
                let from = piece.tokens.start.max(start) - start;
                let to = (piece.tokens.end - start).min(count);
                share[from..to].fill(piece.share as f32);
                if let Some(shared) = piece.log_ratio.map(|shared| shared as f32) {
                    own_ratios = false;
                    log_ratio[from..to].fill(shared);
                    ratio[from..to].fill(math::exp_f32(clamp.cut(shared)));
                }
                if piece.tokens.end > start + count {
                    break;
                }
                pieces.next();
            }
            if own_ratios && S::RATIO {
                for i in 0..count {
                    ratio[i] = math::exp_f32(clamp.cut(log_ratio[i]));
                }
            }
            if let Some(given) = columns.correction {
                for (correction, given) in correction.iter_mut().zip(&given[start..][..count]) {
                    *correction = *given as f32;
                }
            }
            let mut flags = 0;
            for i in 0..count {
                let point = surrogate.at(Token {
                    new: new[i],
                    advantage: advantage[i],
                    log_ratio: log_ratio[i],
                    ratio: ratio[i],
                    passes: clamp.passes(log_ratio[i]),
                });
                // What has no weight has no part, whatever its numbers are.
                let has = weight[i] != 0.0;
                let factor = weight[i] * share[i] * correction[i];
                loss[i] = if has { factor * point.loss } else { 0.0 };
                slopes[i] = if has { factor * point.slope } else { 0.0 };
                flags += Flags::of(has, point.clipped, point.clipped_lower);
            }
            losses.add(loss);
            sums.add_flags(flags);
            moves.add(moved);
        }
        (sums.loss, sums.moved) = (losses.total(), moves.total());
        sums
    }
}

/// Numbers of the tokens of a block.
struct Scratch {
    moved: [f32; BLOCK],
    log_ratio: [f32; BLOCK],
    ratio: [f32; BLOCK],
    share: [f32; BLOCK],
    correction: [f32; BLOCK],
    loss: [f32; BLOCK],
}

impl Default for Scratch {
    fn default() -> Self {
        let ones = [1.0; BLOCK];
        Self { moved: ones, log_ratio: ones, ratio: ones, share: ones, correction: ones, loss: ones }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_counts_fit_into_one_number() {
        let mut sums = Sums::default();
        for (clipped, lower) in [(BLOCK, BLOCK), (0, BLOCK), (3, 0)] {
            let token = |i: usize| Flags::of(i != 5, i < clipped, i < lower);
            let expected = |limit: usize| (0..BLOCK).filter(|i| *i != 5 && *i < limit).count() as f64;
            let before = sums;
            sums.add_flags((0..BLOCK).map(token).sum::<u32>());
            assert_eq!(sums.count - before.count, BLOCK as f64 - 1.0);
            assert_eq!(sums.clipped - before.clipped, expected(clipped));
            assert_eq!(sums.clipped_lower - before.clipped_lower, expected(lower));
        }
    }
}
