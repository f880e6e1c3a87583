//! Importance ratios: how much likelier the policy makes what it did than it was before the update, by token, step or
//! row.

use std::ops::Range;

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

use crate::{
    aggregate::{self, BLOCK, Run},
    surrogate::cut,
};

choices! {
    /// What one importance ratio belongs to.
    pub enum Ratio {
        /// A token, as in PPO.
        Token = "token",
        /// A step: the geometric mean over its tokens.
        Step = "step",
        /// A row: the geometric mean over its tokens, as in GSPO.
        Row = "row",
    }
}

/// Where the log-ratio is cut, so that its exponential stays a number. Inside, both ends included, the derivative
/// passes; outside it is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogRatioClamp {
    /// Its lowest value.
    pub low: f32,
    /// Its highest value.
    pub high: f32,
}

impl LogRatioClamp {
    /// The cut of a ratio: 20 at both ends of a token's and 10 from above of the others, as verl has them, unless a
    /// value is given; 0 does not cut.
    pub fn new(ratio: Ratio, given: Option<f32>) -> Self {
        let limit = match given {
            Some(limit) if limit > 0.0 => limit,
            Some(_) => f32::INFINITY,
            None if ratio == Ratio::Token => 20.0,
            None => 10.0,
        };
        let low = if ratio == Ratio::Token { -limit } else { f32::NEG_INFINITY };
        Self { low, high: limit }
    }

    /// The log-ratio after the cut.
    #[inline(always)]
    pub fn cut(self, log_ratio: f32) -> f32 {
        cut(log_ratio, self.low, self.high)
    }

    /// Whether the derivative passes.
    #[inline(always)]
    pub fn passes(self, log_ratio: f32) -> bool {
        (log_ratio >= self.low) & (log_ratio <= self.high)
    }
}

/// Neighbouring tokens with one share, and with one log-ratio where they do not have their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The tokens.
    pub tokens: Range<usize>,
    /// The share of each.
    pub share: f64,
    /// The log-ratio of their step or row.
    pub log_ratio: Option<f64>,
}

/// Buffers that are used again in the next call.
#[derive(Default)]
pub struct Buffers {
    /// The tokens of each step or row.
    pub units: Vec<Range<usize>>,
    /// A mean for each.
    means: Vec<f64>,
    /// What they and the shares cut the tokens into.
    pub pieces: Vec<Piece>,
}

/// Writes the tokens of every step or row, in order; none with a token ratio.
pub fn units(batch: &Batch<'_>, ratio: Ratio, out: &mut Vec<Range<usize>>) {
    out.clear();
    match ratio {
        Ratio::Token => {}
        Ratio::Step => out.extend(batch.steps().map(|step| step.tokens())),
        Ratio::Row => out.extend(batch.rows().map(|row| row.tokens())),
    }
}

/// Cuts the tokens into pieces. The log-ratio of a step or row is the mean over all its tokens, whatever their weight in
/// the loss.
pub fn pieces(batch: &Batch<'_>, ratio: Ratio, new: &[f32], old: &[f32], runs: &[Run], buffers: &mut Buffers) {
    let Buffers { units: own, means, pieces } = buffers;
    pieces.clear();
    if ratio == Ratio::Token {
        pieces.extend(runs.iter().map(|run| Piece { tokens: run.tokens.clone(), share: run.share, log_ratio: None }));
        return;
    }
    units(batch, ratio, own);
    math::run(Means { units: own, new, old, out: means });
    let mut units = own.iter().zip(&*means).peekable();
    for run in runs {
        let mut start = run.tokens.start;
        while start < run.tokens.end {
            // Both cut all tokens, so some unit is left; one that ends here has no part in what follows.
            let Some((unit, mean)) =
                units.next_if(|(unit, _)| unit.end <= run.tokens.end).or_else(|| units.peek().copied())
            else {
                break;
            };
            let end = unit.end.min(run.tokens.end);
            if end > start {
                pieces.push(Piece { tokens: start..end, share: run.share, log_ratio: Some(*mean) });
                start = end;
            }
        }
    }
}

/// The mean of new minus old for each of some ranges; 0 for an empty one.
pub struct Means<'a> {
    /// The ranges.
    pub units: &'a [Range<usize>],
    /// What is taken off from.
    pub new: &'a [f32],
    /// What is taken off.
    pub old: &'a [f32],
    /// The means.
    pub out: &'a mut Vec<f64>,
}

impl Kernel for Means<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut differences = [0.0; BLOCK];
        self.out.clear();
        for unit in self.units {
            let mut total = 0.0;
            for tokens in aggregate::cut(unit) {
                let differences = &mut differences[..tokens.len()];
                let columns = self.new[tokens.clone()].iter().zip(&self.old[tokens]);
                for (difference, (new, old)) in differences.iter_mut().zip(columns) {
                    *difference = f64::from(*new) - f64::from(*old);
                }
                total += math::sum(differences);
            }
            self.out.push(total / unit.len().max(1) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_those_of_each_ratio() {
        let at = |ratio, given, log_ratio: f32| {
            let clamp = LogRatioClamp::new(ratio, given);
            (clamp.cut(log_ratio), clamp.passes(log_ratio))
        };
        assert_eq!(at(Ratio::Token, None, 20.0), (20.0, true));
        assert_eq!(at(Ratio::Token, None, 30.0), (20.0, false));
        assert_eq!(at(Ratio::Token, None, -30.0), (-20.0, false));
        assert_eq!(at(Ratio::Row, None, 11.0), (10.0, false));
        assert_eq!(at(Ratio::Step, None, -30.0), (-30.0, true));
        assert_eq!(at(Ratio::Token, Some(0.0), 30.0), (30.0, true));
        assert_eq!(at(Ratio::Row, Some(2.0), 3.0), (2.0, false));
    }

    #[test]
    fn shares_and_ratios_cut_the_tokens_together() {
        use accredit_plugin_api::testing::{TestBatch, TestScheme};

        params! {
            struct None {}
        }
        /// Sees a row of two steps and a row of one that follows an empty one.
        struct Check;
        impl Scheme for Check {
            type Params = None;
            const NAME: &'static str = "check";
            const ABOUT: &'static str = "";
            fn new(_: None, _: Host) -> Result<Self> {
                Ok(Self)
            }
            fn needs(&self) -> Needs {
                Needs::hooks(&[Hook::Advantage])
            }
            fn advantage(&mut self, batch: &Batch<'_>, _: &mut Advantages<'_>, _: &Context) -> Result<()> {
                let (new, old) = ([1.0, 3.0, 5.0, 7.0], [0.0; 4]);
                let whole = [Run { tokens: 0..4, share: 0.5 }];
                let steps = [
                    Run { tokens: 0..2, share: 0.1 },
                    Run { tokens: 2..3, share: 0.2 },
                    Run { tokens: 3..3, share: 9.0 },
                    Run { tokens: 3..4, share: 0.3 },
                ];
                let mut buffers = Buffers::default();
                let mut found = |ratio, runs: &[Run]| {
                    pieces(batch, ratio, &new, &old, runs, &mut buffers);
                    let piece = |piece: &Piece| (piece.tokens.clone(), piece.share, piece.log_ratio);
                    buffers.pieces.iter().map(piece).collect::<Vec<_>>()
                };
                assert_eq!(found(Ratio::Token, &whole), [(0..4, 0.5, None)]);
                assert_eq!(found(Ratio::Row, &whole), [(0..3, 0.5, Some(3.0)), (3..4, 0.5, Some(7.0))]);
                let by_step = [(0..2, 0.5, Some(2.0)), (2..3, 0.5, Some(5.0)), (3..4, 0.5, Some(7.0))];
                assert_eq!(found(Ratio::Step, &whole), by_step);
                let both = [(0..2, 0.1, Some(3.0)), (2..3, 0.2, Some(3.0)), (3..4, 0.3, Some(7.0))];
                assert_eq!(found(Ratio::Row, &steps), both);
                Ok(())
            }
        }
        let batch = TestBatch::new(accredit_plugin_api::Layout::Trajectory, &[&[&[2, 1], &[0, 1]]]);
        TestScheme::<Check>::new("{}").unwrap().advantage(&batch).unwrap();
    }
}
