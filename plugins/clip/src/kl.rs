//! Estimates of the divergence from the reference, from the log-probabilities of one sampled token.

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

use crate::{
    aggregate::{BLOCK, Run, blocks},
    surrogate::cut,
};

choices! {
    /// How the divergence is estimated (Schulman, "Approximating KL Divergence", 2020). With `d = new - reference`:
    pub enum Kl {
        /// Not at all.
        None = "none",
        /// `d`.
        K1 = "k1",
        /// `d^2 / 2`.
        K2 = "k2",
        /// `exp(-d) - 1 + d`, cut where it is large.
        K3 = "k3",
        /// `|d|`.
        Abs = "abs",
    }
}

/// Where k3 is cut, so that one token that the policy has all but given up does not decide the loss. The derivative is
/// 0 where a cut holds.
#[derive(Clone, Copy, Debug)]
pub struct KlClamp {
    exponent: f64,
    estimate: f64,
}

impl KlClamp {
    /// The exponent is cut at 20 and the estimate at `limit`; 0 cuts neither.
    pub fn new(limit: f64) -> Self {
        if limit > 0.0 {
            Self { exponent: 20.0, estimate: limit }
        } else {
            Self { exponent: f64::INFINITY, estimate: f64::INFINITY }
        }
    }
}

/// The divergence over a micro-batch: sums, and its part of the derivatives.
pub struct Divergence<'a> {
    /// The estimate.
    pub kl: Kl,
    /// Its factor in the loss.
    pub coefficient: f64,
    /// Where it is cut.
    pub clamp: KlClamp,
    /// Log-probabilities under the policy as it is now.
    pub new: &'a [f32],
    /// Log-probabilities under the reference.
    pub reference: &'a [f32],
    /// The shares.
    pub runs: &'a [Run],
    /// Derivatives, to which its own are added.
    pub slopes: &'a mut [f32],
}

impl Divergence<'_> {
    /// The sum of the tokens' terms, each times its share, and the plain sum.
    pub fn add(self) -> (f64, f64) {
        match self.kl {
            Kl::None => (0.0, 0.0),
            Kl::K1 => math::run(Loop { estimate: K1, divergence: self }),
            Kl::K2 => math::run(Loop { estimate: K2, divergence: self }),
            Kl::K3 => math::run(Loop { estimate: K3(self.clamp), divergence: self }),
            Kl::Abs => math::run(Loop { estimate: Abs, divergence: self }),
        }
    }
}

struct Loop<'a, E> {
    estimate: E,
    divergence: Divergence<'a>,
}

impl<E: Estimate> Kernel for Loop<'_, E> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run(self) -> (f64, f64) {
        let Divergence { coefficient, new, reference, runs, slopes, .. } = self.divergence;
        let mut estimates = [0.0; BLOCK];
        let (mut loss, mut sum) = (0.0, 0.0);
        for (tokens, share) in blocks(runs) {
            let slopes = &mut slopes[tokens.clone()];
            let count = slopes.len();
            let (new, reference) = (&new[tokens.clone()][..count], &reference[tokens][..count]);
            let estimates = &mut estimates[..count];
            for i in 0..count {
                let (estimate, slope) = self.estimate.at(f64::from(new[i]) - f64::from(reference[i]));
                estimates[i] = estimate;
                slopes[i] = (f64::from(slopes[i]) + coefficient * share * slope) as f32;
            }
            let block = math::sum(estimates);
            sum += block;
            loss += share * block;
        }
        (loss, sum)
    }
}

/// An estimate in nats and its derivative, from the difference of log-probabilities, as straight arithmetic.
trait Estimate: Copy {
    fn at(self, d: f64) -> (f64, f64);
}

#[derive(Clone, Copy)]
struct K1;

impl Estimate for K1 {
    #[inline(always)]
    fn at(self, d: f64) -> (f64, f64) {
        (d, 1.0)
    }
}

#[derive(Clone, Copy)]
struct K2;

impl Estimate for K2 {
    #[inline(always)]
    fn at(self, d: f64) -> (f64, f64) {
        (d * d / 2.0, d)
    }
}

#[derive(Clone, Copy)]
struct K3(KlClamp);

impl Estimate for K3 {
    #[inline(always)]
    fn at(self, d: f64) -> (f64, f64) {
        let KlClamp { exponent: widest, estimate: largest } = self.0;
        let exponent = cut(-d, -widest, widest);
        let power = math::exp(exponent);
        let estimate = power - 1.0 - exponent;
        let flat = (estimate > largest) | (exponent != -d);
        let slope = if flat { 0.0 } else { 1.0 - power };
        (if estimate > largest { largest } else { estimate }, slope)
    }
}

#[derive(Clone, Copy)]
struct Abs;

impl Estimate for Abs {
    #[inline(always)]
    fn at(self, d: f64) -> (f64, f64) {
        let slope = if d > 0.0 { 1.0 } else { -1.0 };
        // The derivative at 0 is taken as 0.
        (d.abs(), if d == 0.0 { 0.0 } else { slope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(kl: Kl, d: f32, limit: f64) -> (f64, f64) {
        let runs = [Run { tokens: 0..1, share: 1.0 }];
        let mut slopes = [0.0];
        let divergence = Divergence {
            kl,
            coefficient: 1.0,
            clamp: KlClamp::new(limit),
            new: &[d],
            reference: &[0.0],
            runs: &runs,
            slopes: &mut slopes,
        };
        (divergence.add().0, f64::from(slopes[0]))
    }

    fn check(kl: Kl, d: f32, value: f64, slope: f64) {
        check_cut_at(10.0, kl, d, value, slope);
    }

    fn check_cut_at(limit: f64, kl: Kl, d: f32, value: f64, slope: f64) {
        let found = at(kl, d, limit);
        let near = |a: f64, b: f64| (a - b).abs() < 2e-6;
        assert!(near(found.0, value) && near(found.1, slope), "{kl:?} at {d}: {found:?}");
    }

    #[test]
    fn values_by_hand() {
        check(Kl::K1, 0.3, 0.3, 1.0);
        check(Kl::K1, -0.3, -0.3, 1.0);
        check(Kl::K2, -0.3, 0.045, -0.3);
        check(Kl::K3, 0.3, 0.040_818, 0.259_182);
        check(Kl::K3, -0.3, 0.049_859, -0.349_859);
        check(Kl::Abs, -0.3, 0.3, -1.0);
        check(Kl::Abs, 0.0, 0.0, 0.0);
        check(Kl::None, 0.3, 0.0, 0.0);
    }

    #[test]
    fn k3_is_flat_where_it_is_cut() {
        check(Kl::K3, -3.0, 10.0, 0.0);
        check(Kl::K3, -2.4, 7.623_176, -10.023_176);
        check(Kl::K3, -500.0, 10.0, 0.0);
        check(Kl::K3, 9.0, 8.000_123, 0.999_877);
        check(Kl::K3, 12.0, 10.0, 0.0);
        check(Kl::K3, 500.0, 10.0, 0.0);
        check_cut_at(100.0, Kl::K3, 30.0, 19.0 + (-20.0_f64).exp(), 0.0);
        check_cut_at(0.0, Kl::K3, -3.0, 16.085_537, -19.085_537);
        check_cut_at(0.0, Kl::K3, 30.0, 29.0, 1.0);
    }

    #[test]
    fn what_is_no_number_stays_visible() {
        for kl in [Kl::K1, Kl::K2, Kl::K3, Kl::Abs] {
            assert!(at(kl, f32::NAN, 10.0).0.is_nan(), "{kl:?}");
        }
    }
}
