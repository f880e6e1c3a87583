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
        /// `exp(-d) - 1 + d`, the exponent cut at 20 to both sides, the result at 10.
        K3 = "k3",
        /// `|d|`.
        Abs = "abs",
    }
}

/// Where the exponent of k3 is cut.
const EXPONENT_LIMIT: f64 = 20.0;
/// Where its result is cut.
const RESULT_LIMIT: f64 = 10.0;

impl Kl {
    /// The estimate in nats and its derivative with respect to the new log-probability; 0 where a cut holds.
    pub fn estimate(self, new: f64, reference: f64) -> (f64, f64) {
        let d = new - reference;
        match self {
            Self::None => (0.0, 0.0),
            Self::K1 => (d, 1.0),
            Self::K2 => (d * d / 2.0, d),
            Self::K3 => {
                let exponent = (-d).clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT);
                let estimate = exponent.exp() - 1.0 - exponent;
                let inside = d.abs() <= EXPONENT_LIMIT && estimate <= RESULT_LIMIT;
                let slope = if inside { 1.0 - exponent.exp() } else { 0.0 };
                (estimate.min(RESULT_LIMIT), slope)
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
        let found = kl.estimate(d - 4.0, -4.0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(
            near(found.0, value) && near(found.1, slope),
            "{kl:?} at {d}: {found:?}"
        );
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
    }
}
