//! Importance ratios: how much likelier the policy makes what it did than it was before the update, by token, step or
//! row.

use std::ops::Range;

use accredit_plugin_api::{math, prelude::*};

use crate::surrogate::cut;

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
    low: f64,
    high: f64,
}

impl LogRatioClamp {
    /// The cut of a ratio: 20 at both ends of a token's and 10 from above of the others, as verl has them, unless a
    /// value is given; 0 does not cut.
    pub fn new(ratio: Ratio, given: Option<f64>) -> Self {
        let limit = match given {
            Some(limit) if limit > 0.0 => limit,
            Some(_) => f64::INFINITY,
            None if ratio == Ratio::Token => 20.0,
            None => 10.0,
        };
        let low = if ratio == Ratio::Token { -limit } else { f64::NEG_INFINITY };
        Self { low, high: limit }
    }

    /// The log-ratio after the cut.
    #[inline(always)]
    pub fn cut(self, log_ratio: f64) -> f64 {
        cut(log_ratio, self.low, self.high)
    }

    /// Whether the derivative passes.
    #[inline(always)]
    pub fn passes(self, log_ratio: f64) -> bool {
        (log_ratio >= self.low) & (log_ratio <= self.high)
    }
}

/// Calls a function with the tokens of every step or row, in order.
pub fn each_unit(batch: &Batch<'_>, ratio: Ratio, mut function: impl FnMut(Range<usize>)) {
    match ratio {
        Ratio::Token => {}
        Ratio::Step => batch.steps().for_each(|step| function(step.tokens())),
        Ratio::Row => batch.rows().for_each(|row| function(row.tokens())),
    }
}

/// Writes the log-ratio that each token takes part in: the mean over its step or row. Every token counts in that mean,
/// whatever its weight in the loss.
pub fn mean_log_ratios(batch: &Batch<'_>, ratio: Ratio, new: &[f32], old: &[f32], out: &mut Vec<f64>) {
    out.clear();
    out.extend(new.iter().zip(old).map(|(new, old)| f64::from(*new) - f64::from(*old)));
    each_unit(batch, ratio, |tokens| {
        let count = tokens.len() as f64;
        let own = &mut out[tokens];
        let mean = math::sum(own) / count;
        own.fill(mean);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_those_of_each_ratio() {
        let at = |ratio, given, log_ratio| {
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
}
