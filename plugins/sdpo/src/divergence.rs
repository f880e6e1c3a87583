//! The divergence between student and teacher at one place, over the likeliest tokens there.

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

choices! {
    /// What is done about the probability that the listed tokens leave over.
    pub enum Tail {
        /// It is one more token.
        Bucket = "bucket",
        /// It is left out: the listed tokens are scaled to sum to 1.
        Renormalise = "renormalise",
    }
}

/// The divergence and its mixing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// 0 is KL(teacher || student), 1 is KL(student || teacher), between them both are held against a mixture of which
    /// the teacher is this share.
    pub alpha: f64,
    /// What is done about the rest.
    pub tail: Tail,
}

/// Numbers of one place, which are used again for the next.
#[derive(Default)]
pub struct Scratch {
    /// Log-probabilities of the student.
    student: Vec<f64>,
    /// Log-probabilities of the teacher.
    teacher: Vec<f64>,
    /// Probabilities of the student.
    student_mass: Vec<f64>,
    /// Probabilities of the teacher.
    teacher_mass: Vec<f64>,
    /// Derivatives with respect to the student's log-probabilities.
    slopes: Vec<f64>,
}

/// Largest log-sum of the listed tokens, so that the rest has some probability.
const FULL: f64 = -1e-7;

impl Divergence {
    /// The divergence in nats; writes `factor` times its derivative with respect to the student's log-probabilities,
    /// each taken as a variable of its own. All slices have one length.
    pub fn at(self, student: &[f32], teacher: &[f32], factor: f64, scratch: &mut Scratch, out: &mut [f32]) -> f64 {
        let Scratch { student: s, teacher: t, student_mass, teacher_mass, slopes } = scratch;
        let listed = student.len();
        s.clear();
        s.extend(student.iter().map(|logprob| f64::from(*logprob)));
        t.clear();
        t.extend(teacher.iter().map(|logprob| f64::from(*logprob)));
        if self.tail == Tail::Renormalise {
            // The largest becomes 0, so that a list of unlikely tokens still has a sum.
            for logprobs in [&mut *s, &mut *t] {
                let largest = logprobs.iter().fold(f64::NEG_INFINITY, |largest, logprob| largest.max(*logprob));
                for logprob in logprobs.iter_mut() {
                    *logprob -= largest;
                }
            }
        }
        masses(s, student_mass);
        masses(t, teacher_mass);
        let mut passes = true;
        match self.tail {
            Tail::Bucket => {
                passes = math::sum(student_mass).ln() <= FULL;
                for (logprobs, mass) in [(&mut *s, &mut *student_mass), (&mut *t, &mut *teacher_mass)] {
                    let rest = -math::sum(mass).ln().min(FULL).exp_m1();
                    logprobs.push(rest.ln());
                    mass.push(rest);
                }
            }
            Tail::Renormalise => {
                for (logprobs, mass) in [(&mut *s, &mut *student_mass), (&mut *t, &mut *teacher_mass)] {
                    let sum = math::sum(mass);
                    let log_sum = sum.ln();
                    for (logprob, mass) in logprobs.iter_mut().zip(mass.iter_mut()) {
                        *logprob -= log_sum;
                        *mass /= sum;
                    }
                }
            }
        }
        slopes.clear();
        slopes.resize(s.len(), 0.0);
        let value = self.terms(s, t, student_mass, teacher_mass, slopes);
        // From the distribution's own log-probabilities to those that were given.
        let correction = match self.tail {
            // The rest is 1 minus the listed probabilities.
            Tail::Bucket if passes => slopes[listed] / student_mass[listed],
            Tail::Bucket => 0.0,
            Tail::Renormalise => math::sum(slopes),
        };
        for (i, out) in out.iter_mut().enumerate() {
            *out = (factor * (slopes[i] - student_mass[i] * correction)) as f32;
        }
        value
    }

    /// The sum over the tokens of two distributions; writes the derivatives.
    fn terms(self, s: &[f64], t: &[f64], student: &[f64], teacher: &[f64], slopes: &mut [f64]) -> f64 {
        let alpha = self.alpha;
        let mut value = 0.0;
        for (i, slope) in slopes.iter_mut().enumerate() {
            let (p, q) = (student[i], teacher[i]);
            if alpha == 0.0 {
                value += q * (t[i] - s[i]);
                *slope = -q;
            } else if alpha == 1.0 {
                value += p * (s[i] - t[i]);
                *slope = p * (s[i] - t[i] + 1.0);
            } else {
                let mixed = (1.0 - alpha) * p + alpha * q;
                // A token that neither gives any probability has no part.
                if mixed > 0.0 {
                    let log_mixed = mixed.ln();
                    // The derivative through the mixture cancels against that through the probability.
                    *slope = (1.0 - alpha) * p * (s[i] - log_mixed);
                    value += *slope + alpha * q * (t[i] - log_mixed);
                }
            }
        }
        value
    }
}

/// Probabilities of log-probabilities.
fn masses(logprobs: &[f64], out: &mut Vec<f64>) {
    struct Exp<'a>(&'a [f64], &'a mut [f64]);
    impl Kernel for Exp<'_> {
        type Output = ();
        #[expect(clippy::inline_always, reason = "it must become a part of the loop's compilation to be vectorised")]
        #[inline(always)]
        fn run(self) {
            for (out, logprob) in self.1.iter_mut().zip(self.0) {
                *out = math::exp(*logprob);
            }
        }
    }
    out.clear();
    out.resize(logprobs.len(), 0.0);
    math::run(Exp(logprobs, out));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(alpha: f64, tail: Tail, student: &[f64], teacher: &[f64]) -> (f64, Vec<f32>) {
        let logs = |masses: &[f64]| masses.iter().map(|mass| mass.ln() as f32).collect::<Vec<_>>();
        let mut slopes = vec![f32::NAN; student.len()];
        let divergence = Divergence { alpha, tail };
        let value = divergence.at(&logs(student), &logs(teacher), 1.0, &mut Scratch::default(), &mut slopes);
        (value, slopes)
    }

    #[test]
    fn values_by_hand() {
        let (student, teacher) = ([0.7, 0.2, 0.1], [0.4, 0.4, 0.2]);
        for (alpha, expected) in [(0.0, 0.192_042), (1.0, 0.183_787), (0.5, 0.046_201), (0.25, 0.035_162)] {
            let (found, _) = at(alpha, Tail::Renormalise, &student, &teacher);
            assert!((found - expected).abs() < 1e-6, "{alpha}: {found}");
            // Two of three listed, and the third in the bucket: the same distribution.
            let (found, _) = at(alpha, Tail::Bucket, &student[..2], &teacher[..2]);
            assert!((found - expected).abs() < 1e-6, "{alpha}: {found}");
        }
    }

    #[test]
    fn equal_distributions_are_at_the_bottom() {
        for alpha in [0.0, 0.3, 1.0] {
            for tail in [Tail::Bucket, Tail::Renormalise] {
                let (value, slopes) = at(alpha, tail, &[0.5, 0.25], &[0.5, 0.25]);
                assert!(value.abs() < 1e-7, "{value}");
                assert!(slopes.iter().all(|slope| slope.abs() < 1e-6), "{alpha} {tail:?}: {slopes:?}");
            }
        }
    }

    #[test]
    fn a_full_list_and_vanishing_tokens_are_numbers() {
        for alpha in [0.0, 0.5, 1.0] {
            let (value, slopes) = at(alpha, Tail::Bucket, &[0.75, 0.25], &[0.5, 0.5]);
            assert!(value.is_finite() && slopes.iter().all(|slope| slope.is_finite()), "{alpha}");
        }
        let mut slopes = [0.0; 2];
        let divergence = Divergence { alpha: 0.5, tail: Tail::Renormalise };
        let value = divergence.at(&[-0.0, -900.0], &[0.0, -900.0], 1.0, &mut Scratch::default(), &mut slopes);
        assert_eq!((value, slopes), (0.0, [0.0; 2]));
    }

    proptest! {
        #[test]
        fn derivatives_are_those_of_the_value(
            logits in prop::collection::vec((-3.0_f64..3.0, -3.0_f64..3.0), 2..6),
            rest in (0.05_f64..0.6, 0.05_f64..0.6),
            alpha in prop::sample::select(vec![0.0, 0.25, 0.5, 1.0]),
            bucket in any::<bool>(),
            pick in any::<prop::sample::Index>(),
        ) {
            let masses = |pick: fn(&(f64, f64)) -> f64, rest: f64| -> Vec<f64> {
                let sum: f64 = logits.iter().map(|pair| pick(pair).exp()).sum();
                logits.iter().map(|pair| pick(pair).exp() / sum * (1.0 - rest)).collect()
            };
            let (student, teacher) = (masses(|p| p.0, rest.0), masses(|p| p.1, rest.1));
            let tail = if bucket { Tail::Bucket } else { Tail::Renormalise };
            let i = pick.index(student.len());
            let moved = |by: f64| {
                let mut student = student.clone();
                student[i] *= by.exp();
                (f64::from(student[i].ln() as f32), at(alpha, tail, &student, &teacher).0)
            };
            let (left, right) = (moved(-0.002), moved(0.002));
            let expected = (right.1 - left.1) / (right.0 - left.0);
            let (value, slopes) = at(alpha, tail, &student, &teacher);
            prop_assert!(value > -1e-6);
            let limit = 2e-3 * expected.abs().max(1.0);
            prop_assert!((f64::from(slopes[i]) - expected).abs() < limit, "{} {}", slopes[i], expected);
        }
    }
}
