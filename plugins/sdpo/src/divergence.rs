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
    student: Distribution,
    teacher: Distribution,
    /// Derivatives with respect to the student's log-probabilities.
    slopes: Vec<f64>,
    /// The terms of the divergence.
    terms: Vec<f64>,
}

/// A distribution over the listed tokens and the rest.
#[derive(Default)]
struct Distribution {
    logprobs: Vec<f64>,
    masses: Vec<f64>,
}

/// Largest probability of the listed tokens together, so that the rest has some: `e^-1e-7`.
const FULL: f64 = 0.999_999_900_000_005;

impl Divergence {
    /// The divergence in nats; writes `factor` times its derivative with respect to the student's log-probabilities,
    /// each taken as a variable of its own. All slices have one length.
    pub fn at(self, student: &[f32], teacher: &[f32], factor: f64, scratch: &mut Scratch, out: &mut [f32]) -> f64 {
        math::run(Place { divergence: self, student, teacher, factor, scratch, out })
    }

    /// The term of one token with log-probabilities `s` and `t` and probabilities `p` and `q`, and its derivative.
    #[inline(always)]
    fn term(alpha: f64, s: f64, t: f64, p: f64, q: f64) -> (f64, f64) {
        let (own, other) = ((1.0 - alpha) * p, alpha * q);
        let mixed = own + other;
        let log_mixed = math::ln(mixed);
        // The derivative through the mixture cancels against that through the probability. A token that neither gives any
        // probability has no part.
        let slope = if mixed > 0.0 { own * (s - log_mixed) } else { 0.0 };
        (slope + if mixed > 0.0 { other * (t - log_mixed) } else { 0.0 }, slope)
    }
}

/// One place: its lists, and where the derivatives go.
struct Place<'a> {
    divergence: Divergence,
    student: &'a [f32],
    teacher: &'a [f32],
    factor: f64,
    scratch: &'a mut Scratch,
    out: &'a mut [f32],
}

impl Kernel for Place<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { divergence: Divergence { alpha, tail }, factor, out, .. } = self;
        let Scratch { student, teacher, slopes, terms } = self.scratch;
        let listed = out.len();
        let passes = student.list(self.student, tail);
        teacher.list(self.teacher, tail);
        let count = student.masses.len();
        slopes.resize(count, 0.0);
        terms.resize(count, 0.0);
        let (s, p) = (&student.logprobs[..count], &student.masses[..count]);
        let (t, q) = (&teacher.logprobs[..count], &teacher.masses[..count]);
        let (slopes, terms) = (&mut slopes[..count], &mut terms[..count]);
        if alpha == 0.0 {
            for i in 0..count {
                (terms[i], slopes[i]) = (q[i] * (t[i] - s[i]), -q[i]);
            }
        } else if alpha == 1.0 {
            for i in 0..count {
                let gap = s[i] - t[i];
                (terms[i], slopes[i]) = (p[i] * gap, p[i] * (gap + 1.0));
            }
        } else {
            for i in 0..count {
                (terms[i], slopes[i]) = Divergence::term(alpha, s[i], t[i], p[i], q[i]);
            }
        }
        // From the distribution's own log-probabilities to those that were given.
        let correction = match tail {
            // The rest is 1 minus the listed probabilities.
            Tail::Bucket if passes => slopes[listed] / p[listed],
            Tail::Bucket => 0.0,
            Tail::Renormalise => math::sum(slopes),
        };
        for ((out, slope), mass) in out.iter_mut().zip(&*slopes).zip(p) {
            *out = (factor * (slope - mass * correction)) as f32;
        }
        math::sum(terms)
    }
}

impl Distribution {
    /// Takes the listed log-probabilities and does about the rest what is to be done. Says whether the listed tokens leave
    /// something over.
    #[inline(always)]
    fn list(&mut self, listed: &[f32], tail: Tail) -> bool {
        let Self { logprobs, masses } = self;
        let count = listed.len();
        let length = count + usize::from(tail == Tail::Bucket);
        logprobs.resize(length, 0.0);
        masses.resize(length, 0.0);
        // The largest becomes 0 where the tokens are scaled, so that a list of unlikely ones still has a sum.
        let largest = match tail {
            Tail::Bucket => 0.0,
            Tail::Renormalise => f64::from(listed.iter().copied().fold(f32::NEG_INFINITY, f32::max)),
        };
        for ((logprob, mass), listed) in logprobs.iter_mut().zip(&mut *masses).zip(listed) {
            *logprob = f64::from(*listed) - largest;
            *mass = math::exp(*logprob);
        }
        let sum = math::sum(&masses[..count]);
        match tail {
            Tail::Bucket => {
                let rest = if sum > FULL { 1.0 - FULL } else { 1.0 - sum };
                logprobs[count] = math::ln(rest);
                masses[count] = rest;
            }
            Tail::Renormalise => {
                let (log_sum, inverse) = (math::ln(sum), 1.0 / sum);
                for logprob in logprobs.iter_mut() {
                    *logprob -= log_sum;
                }
                for mass in masses.iter_mut() {
                    *mass *= inverse;
                }
            }
        }
        sum <= FULL
    }
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
