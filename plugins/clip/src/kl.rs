//! Estimates of the divergence from the reference, from the log-probabilities of one sampled token.

use accredit_plugin_api::prelude::*;

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

impl Kl {
    /// The estimate in nats and its derivative with respect to the new log-probability.
    pub fn estimate(self, new: f64, reference: f64, clamp: KlClamp) -> (f64, f64) {
        let d = new - reference;
        match self {
            Self::None => (0.0, 0.0),
            Self::K1 => (d, 1.0),
            Self::K2 => (d * d / 2.0, d),
            Self::K3 => {
                let exponent = (-d).clamp(-clamp.exponent, clamp.exponent);
                let estimate = exponent.exp() - 1.0 - exponent;
                if estimate > clamp.estimate {
                    (clamp.estimate, 0.0)
                } else if d.abs() > clamp.exponent {
                    (estimate, 0.0)
                } else {
                    (estimate, 1.0 - exponent.exp())
                }
            }
            // `signum` of a float is 1 at 0, where the derivative is taken as 0.
            Self::Abs if d == 0.0 => (0.0, 0.0),
            Self::Abs => (d.abs(), d.signum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kl: Kl, d: f64, value: f64, slope: f64) {
        check_cut_at(10.0, kl, d, value, slope);
    }

    fn check_cut_at(limit: f64, kl: Kl, d: f64, value: f64, slope: f64) {
        let found = kl.estimate(d - 4.0, -4.0, KlClamp::new(limit));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
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
            assert!(kl.estimate(f64::NAN, -1.0, KlClamp::new(10.0)).0.is_nan(), "{kl:?}");
        }
    }
}
