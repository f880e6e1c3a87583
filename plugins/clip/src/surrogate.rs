//! Surrogates of one token: what stands in for the policy's gain, and its derivative.

use accredit_plugin_api::{math, prelude::*};

choices! {
    /// What a token's term is.
    pub enum Form {
        /// The clipped ratio times the advantage: PPO and its descendants.
        Clip = "clip",
        /// The log-probability times the advantage, with the cut ratio as a constant factor.
        Cispo = "cispo",
        /// The ratio of a step or row, as the geometric mean of token ratios that are cut first.
        GeometricMean = "geometric-mean",
        /// The log-probability times the advantage.
        Plain = "plain",
        /// A smooth gate on the ratio in place of a cut.
        Sapo = "sapo",
        /// The log-probability times the advantage, and a square that holds it near the old one.
        Dro = "dro",
    }
}

/// What a surrogate is a function of. In 32 bits, as the columns are that it comes from and goes to; sums are in 64.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// The token's log-probability under the policy as it is now.
    pub new: f32,
    /// The advantage.
    pub advantage: f32,
    /// The log-ratio that it takes part in, as it is.
    pub log_ratio: f32,
    /// The importance ratio, from the log-ratio after its cut.
    pub ratio: f32,
    /// The derivative passes that cut.
    pub passes: bool,
}

/// The surrogate of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The loss.
    pub loss: f32,
    /// Its derivative with respect to the log-probability.
    pub slope: f32,
    /// The cut ratio decides.
    pub clipped: bool,
    /// The limit for negative advantages decides.
    pub clipped_lower: bool,
}

/// A surrogate as a straight line of arithmetic, without a jump, so that a loop over it becomes one over vectors.
pub trait Surrogate: Copy {
    /// Whether it looks at the ratio.
    const RATIO: bool = true;

    /// The surrogate of a token.
    fn at(self, token: Token) -> Point;
}

/// The clipped surrogate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// Lowest ratio that still counts.
    pub low: f32,
    /// Highest ratio that still counts.
    pub high: f32,
    /// With a negative advantage the loss is at most this times the advantage's size; infinite is no limit.
    pub dual: f32,
}

impl Surrogate for Clip {
    /// The larger of `-A * ratio` and `-A * cut(ratio)` (PPO, Schulman et al. 2017, equation 7), and for `A < 0` not
    /// more than `-A * dual` (dual clip, Ye et al. 2020, equation 5).
    ///
    /// Where two losses are equal each passes half of its derivative, and a ratio at the edge of the cut counts as
    /// inside it: what automatic differentiation of the same expression gives.
    #[inline(always)]
    fn at(self, token: Token) -> Point {
        let Token { ratio, advantage, passes, .. } = token;
        let none = advantage == 0.0;
        let plain = -advantage * ratio;
        let cut = -advantage * cut(ratio, self.low, self.high);
        let inside = (ratio >= self.low) & (ratio <= self.high);
        let cut_slope = if inside { plain } else { 0.0 };
        let tied = if plain < cut { cut_slope } else { 0.5 * (plain + cut_slope) };
        let (larger, slope) = if plain > cut { (plain, plain) } else { (cut, tied) };
        let limit = if advantage < 0.0 { -advantage * self.dual } else { f32::INFINITY };
        let above = larger > limit;
        let slope = if above { 0.0 } else { slope };
        let slope = if larger == limit { 0.5 * slope } else { slope };
        // What is not a number fails every comparison, and stays visible. An advantage of 0 has no part, also where the
        // ratio is infinite.
        let loss = if above { limit } else { larger };
        Point {
            loss: if none { 0.0 } else { loss },
            slope: if none | !passes { 0.0 } else { slope },
            clipped: (cut > plain) & !none,
            clipped_lower: above & !none,
        }
    }
}

/// The log-probability with the cut ratio as a constant factor (CISPO, MiniMax-M1, arXiv 2506.13585, equation 4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cispo {
    /// Lowest factor.
    pub low: f32,
    /// Highest factor.
    pub high: f32,
}

impl Surrogate for Cispo {
    #[inline(always)]
    fn at(self, token: Token) -> Point {
        let factor = cut(token.ratio, self.low, self.high);
        let slope = -token.advantage * factor;
        Point { loss: slope * token.new, slope, clipped: factor != token.ratio, clipped_lower: false }
    }
}

/// The log-probability times the advantage: the policy gradient itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plain;

impl Surrogate for Plain {
    const RATIO: bool = false;

    #[inline(always)]
    fn at(self, token: Token) -> Point {
        let slope = -token.advantage;
        Point { loss: slope * token.new, slope, clipped: false, clipped_lower: false }
    }
}

/// A sigmoid of the ratio in place of a cut (SAPO, arXiv 2511.20347): `-A (4 / tau) sigmoid(tau (r - 1))`, whose
/// derivative at a ratio of 1 is that of the plain surrogate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sapo {
    /// `tau` with a positive advantage.
    pub tau_positive: f32,
    /// `tau` with another.
    pub tau_negative: f32,
}

impl Surrogate for Sapo {
    #[inline(always)]
    fn at(self, token: Token) -> Point {
        let tau = if token.advantage > 0.0 { self.tau_positive } else { self.tau_negative };
        let gate = math::sigmoid_f32(tau * (token.ratio - 1.0));
        let slope = -token.advantage * 4.0 * gate * (1.0 - gate) * token.ratio;
        Point {
            loss: -token.advantage * gate * (4.0 / tau),
            slope: if token.passes { slope } else { 0.0 },
            clipped: false,
            clipped_lower: false,
        }
    }
}

/// The policy gradient with a square around the old log-probability (DRO, arXiv 2405.19107): `-A new + beta / 2 d^2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dro {
    /// The factor of the square.
    pub beta: f32,
}

impl Surrogate for Dro {
    const RATIO: bool = false;

    #[inline(always)]
    fn at(self, token: Token) -> Point {
        let d = token.log_ratio;
        Point {
            loss: -token.advantage * token.new + 0.5 * self.beta * d * d,
            slope: -token.advantage + self.beta * d,
            clipped: false,
            clipped_lower: false,
        }
    }
}

/// The value in a range; what is not a number stays visible.
#[inline(always)]
pub fn cut<T: PartialOrd + Copy>(value: T, low: T, high: T) -> T {
    let value = if value < low { low } else { value };
    if value > high { high } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(surrogate: impl Surrogate, ratio: f32, advantage: f32) -> Point {
        surrogate.at(Token { new: -2.0, advantage, log_ratio: ratio.ln(), ratio, passes: true })
    }

    fn check(surrogate: impl Surrogate, ratio: f32, advantage: f32, loss: f32, slope: f32) {
        let found = at(surrogate, ratio, advantage);
        let near = |a: f32, b: f32| (a - b).abs() < 1e-6;
        assert!(near(found.loss, loss) && near(found.slope, slope), "ratio {ratio}, advantage {advantage}: {found:?}");
    }

    #[test]
    fn clipped_values_by_hand() {
        let clip = Clip { low: 0.8, high: 1.2, dual: 3.0 };
        check(clip, 0.5, 1.0, -0.5, -0.5);
        check(clip, 0.5, -1.0, 0.8, 0.0);
        check(clip, 1.5, 1.0, -1.2, 0.0);
        check(clip, 1.5, -1.0, 1.5, 1.5);
        check(clip, 5.0, 1.0, -1.2, 0.0);
        check(clip, 5.0, -1.0, 3.0, 0.0);
        let single = Clip { dual: f32::INFINITY, ..clip };
        check(single, 5.0, -1.0, 5.0, 5.0);
        check(single, f32::INFINITY, 0.0, 0.0, 0.0);
        check(single, f32::INFINITY, 2.0, -2.4, 0.0);
        check(single, f32::NAN, 0.0, 0.0, 0.0);
    }

    #[test]
    fn ties_are_those_of_automatic_differentiation() {
        let clip = Clip { low: 0.75, high: 1.25, dual: 3.0 };
        // At the edge of the cut both branches pass: half and half is the whole.
        check(clip, 1.25, 1.0, -1.25, -1.25);
        check(clip, 0.75, -1.0, 0.75, 0.75);
        // At the limit the constant takes half.
        check(clip, 3.0, -1.0, 3.0, 1.5);
    }

    #[test]
    fn the_other_surrogates_by_hand() {
        let cispo = Cispo { low: 0.8, high: 1.28 };
        check(cispo, 1.5, 2.0, 2.0 * 1.28 * 2.0, -2.0 * 1.28);
        check(cispo, 0.5, -1.0, -0.8 * 2.0, 0.8);
        check(cispo, 1.1, 1.0, 2.2, -1.1);
        check(Plain, 7.0, 0.5, 1.0, -0.5);
        // A gate of 1/2 at a ratio of 1, whatever tau is: 4 / tau / 2, and a derivative of the advantage.
        check(Sapo { tau_positive: 2.0, tau_negative: 1.0 }, 1.0, 3.0, -3.0, -3.0);
        check(Sapo { tau_positive: 2.0, tau_negative: 1.0 }, 1.0, -3.0, 6.0, 3.0);
        check(Dro { beta: 0.5 }, 2.0, 1.0, 2.0 + 0.25 * 2.0_f32.ln().powi(2), -1.0 + 0.5 * 2.0_f32.ln());
    }

    #[test]
    fn what_is_no_number_stays_visible() {
        let clip = Clip { low: 0.8, high: 1.2, dual: 3.0 };
        for advantage in [1.0, -1.0, f32::NAN] {
            assert!(at(clip, f32::NAN, advantage).loss.is_nan(), "{advantage}");
        }
        assert!(at(clip, 1.0, f32::NAN).loss.is_nan());
        assert!(at(Cispo { low: 0.8, high: 1.2 }, f32::NAN, 1.0).loss.is_nan());
        assert!(at(Sapo { tau_positive: 1.0, tau_negative: 1.0 }, f32::NAN, 1.0).loss.is_nan());
    }

    #[test]
    fn what_decides_is_reported() {
        let clip = Clip { low: 0.8, high: 1.2, dual: 3.0 };
        for (ratio, advantage, clipped, clipped_lower) in [
            (1.0, 1.0, false, false),
            (1.5, 1.0, true, false),
            (0.5, -1.0, true, false),
            (4.0, -1.0, false, true),
            (4.0, 0.0, false, false),
        ] {
            let found = at(clip, ratio, advantage);
            assert_eq!((found.clipped, found.clipped_lower), (clipped, clipped_lower), "{ratio} {advantage}");
        }
        let cispo = Cispo { low: 0.8, high: 1.2 };
        assert_eq!([0.5, 1.0, 1.3].map(|ratio| at(cispo, ratio, -1.0).clipped), [true, false, true]);
    }
}
