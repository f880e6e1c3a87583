//! The divergence between student and teacher at one place, over the likeliest tokens there.

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

use crate::pairs::Pairs;

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

/// Numbers of one place, which are used again for the next; one for each listed token, in whole vectors.
#[derive(Default)]
pub struct Scratch {
    /// Log-probabilities as they are given.
    student: Vec<f32>,
    teacher: Vec<f32>,
    pairs: Pairs,
    /// Derivatives with respect to the student's log-probabilities.
    slopes: Vec<f32>,
    /// The terms of the divergence.
    terms: Vec<f32>,
}

/// How many numbers the widest vectors hold; a loop over the last ones of a list would cost as much as several vectors.
pub const VECTOR: usize = 16;

/// The least that the listed tokens leave over: `1 - e^-1e-7`.
pub const LEAST: f64 = 9.999_999_5e-8;

impl Divergence {
    /// The divergence in nats; writes `factor` times its derivative with respect to the student's log-probabilities,
    /// each taken as a variable of its own. All slices have one length.
    ///
    /// The lists are compared in 32 bits, which their log-probabilities are rounded to, and in a form that keeps what the
    /// difference of two of them still says; sums and the rest are in 64.
    pub fn at(self, student: &[f32], teacher: &[f32], factor: f64, scratch: &mut Scratch, out: &mut [f32]) -> f64 {
        math::run(Place { divergence: self, student, teacher, factor: factor as f32, scratch, out })
    }
}

/// One place: its lists, and where the derivatives go.
struct Place<'a> {
    divergence: Divergence,
    student: &'a [f32],
    teacher: &'a [f32],
    factor: f32,
    scratch: &'a mut Scratch,
    out: &'a mut [f32],
}

impl Kernel for Place<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { divergence: Divergence { alpha, tail }, factor, scratch, out, .. } = self;
        let count = out.len().next_multiple_of(VECTOR);
        let Scratch { student, teacher, pairs, slopes, terms } = scratch;
        for (list, given) in [(&mut *student, self.student), (&mut *teacher, self.teacher)] {
            list.resize(count, 0.0);
            list[..given.len()].copy_from_slice(given);
            list[given.len()..].fill(f32::NEG_INFINITY);
        }
        slopes.resize(count, 0.0);
        terms.resize(count, 0.0);
        let (slopes, terms) = (&mut slopes[..count], &mut terms[..count]);
        let rest = match tail {
            Tail::Bucket => {
                pairs.take(student, teacher);
                Some(pairs.rest(largest(student), largest(teacher)))
            }
            Tail::Renormalise => {
                pairs.take_scaled(student, teacher);
                None
            }
        };
        pairs.compare(alpha, slopes, terms);
        let listed = sum(terms);
        let (own, correction) = match &rest {
            Some(rest) => rest.compare(alpha),
            // The probabilities of each sum to 1, so that the differences of both sum to 0.
            None if alpha == 0.0 => (0.0, 0.0),
            None => {
                let top = largest(student);
                let top = student.iter().position(|logprob| *logprob == top).unwrap_or(0);
                (0.0, pairs.center(top, slopes, terms))
            }
        };
        if alpha == 0.0 {
            pairs.write_forward((1.0 - correction) as f32, correction as f32, factor, out);
        } else {
            pairs.write(slopes, correction as f32, factor, out);
        }
        listed + own
    }
}

/// The sum of some whole vectors of numbers, in 64 bits; for few of them, which are not worth the many parts of
/// [`math::sum_f32`].
#[inline(always)]
pub fn sum(numbers: &[f32]) -> f64 {
    let mut parts = [0.0; VECTOR];
    for vector in numbers.as_chunks::<VECTOR>().0 {
        for (part, number) in parts.iter_mut().zip(vector) {
            *part += f64::from(*number);
        }
    }
    // In halves: one after the other, each would wait for the one before.
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            parts[i] += parts[i + half];
        }
    }
    parts[0]
}

/// The largest of some whole vectors of numbers.
#[inline(always)]
pub fn largest(numbers: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; VECTOR];
    for vector in numbers.as_chunks::<VECTOR>().0 {
        for (lane, number) in lanes.iter_mut().zip(vector) {
            *lane = if *number > *lane { *number } else { *lane };
        }
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = if lanes[i + half] > lanes[i] { lanes[i + half] } else { lanes[i] };
        }
    }
    lanes[0]
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

    /// The formulas as they are written, in 64 bits: the value, its derivatives, and the size of what these are differences
    /// of.
    fn plain(alpha: f64, tail: Tail, student: &[f64], teacher: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
        let own = |logprobs: &[f64]| {
            let mut logprobs = logprobs.to_vec();
            if tail == Tail::Renormalise {
                let log_sum = logprobs.iter().map(|logprob| logprob.exp()).sum::<f64>().ln();
                for logprob in &mut logprobs {
                    *logprob -= log_sum;
                }
                return (logprobs, false);
            }
            let largest = (0..logprobs.len()).max_by(|a, b| logprobs[*a].total_cmp(&logprobs[*b])).unwrap();
            let others = (0..logprobs.len()).filter(|i| *i != largest).map(|i| logprobs[i].exp()).sum::<f64>();
            let rest = -logprobs[largest].exp_m1() - others;
            logprobs.push(rest.max(LEAST).ln());
            (logprobs, rest >= LEAST)
        };
        let ((s, passes), (t, _)) = (own(student), own(teacher));
        let (mut value, mut slopes) = (0.0, Vec::new());
        for (s, t) in s.iter().zip(&t) {
            let (p, q) = (s.exp(), t.exp());
            let mixed = s + (alpha * (t - s).exp_m1()).ln_1p();
            let slope = (1.0 - alpha) * p * (s - mixed);
            if alpha == 0.0 {
                value += q * (t - s);
                slopes.push(-q);
            } else if alpha == 1.0 {
                value += p * (s - t);
                slopes.push(p * (s - t + 1.0));
            } else {
                value += slope + alpha * q * (t - mixed);
                slopes.push(slope);
            }
        }
        let correction = match tail {
            Tail::Bucket if passes => slopes[student.len()] / s[student.len()].exp(),
            Tail::Bucket => 0.0,
            Tail::Renormalise => slopes.iter().sum(),
        };
        let masses = || s.iter().map(|logprob| logprob.exp()).take(student.len());
        let largest = slopes.iter().zip(masses()).map(|(slope, mass)| (slope / mass).abs()).fold(0.0, f64::max);
        // Those with `alpha` 0 are differences of two probabilities, which are compared as such.
        let sizes = masses().map(|mass| if alpha == 0.0 { 0.0 } else { mass * largest }).collect();
        (value, slopes.iter().zip(masses()).map(|(slope, mass)| slope - mass * correction).collect(), sizes)
    }

    proptest! {
        #[test]
        fn the_error_is_what_rounding_the_log_probabilities_costs(
            logits in prop::collection::vec((-1.0_f64..1.0, -1.0_f64..1.0), 1..12),
            spread in prop::sample::select(vec![0.5, 3.0, 15.0]),
            distance in prop::sample::select(vec![1e-4, 1e-3, 0.05, 1.0, 12.0]),
            rest in prop::sample::select(vec![0.0, 1e-5, 1e-3, 0.1, 0.6]),
            alpha in prop::sample::select(vec![0.0, 0.1, 0.5, 0.75, 1.0]),
            bucket in any::<bool>(),
        ) {
            let tail = if bucket { Tail::Bucket } else { Tail::Renormalise };
            let list = |rest: f64, logits: Vec<f64>| -> Vec<f32> {
                let log_sum = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
                logits.iter().map(|logit| (logit - log_sum + (1.0 - rest).ln()) as f32).collect()
            };
            let student = list(rest, logits.iter().map(|pair| spread * pair.0).collect());
            let moved = logits.iter().map(|pair| spread * pair.0 + distance * pair.1).collect();
            let teacher = list(rest * (1.0 + 0.5 * distance.min(1.0) * logits[0].1), moved);
            let wide = |list: &[f32]| list.iter().map(|logprob| f64::from(*logprob)).collect::<Vec<_>>();
            let (s, t) = (wide(&student), wide(&teacher));
            let exact = plain(alpha, tail, &s, &t);
            // What half a unit in the last place of each log-probability changes, all together.
            let mut cost = (0.0, vec![0.0; s.len()]);
            for i in 0..2 * s.len() {
                let (mut s, mut t) = (s.clone(), t.clone());
                if let Some(moved) = s.get_mut(i) {
                    *moved *= 1.0 + f64::from(f32::EPSILON) / 2.0;
                } else {
                    let i = i - s.len();
                    t[i] *= 1.0 + f64::from(f32::EPSILON) / 2.0;
                }
                let moved = plain(alpha, tail, &s, &t);
                cost.0 += (moved.0 - exact.0).abs();
                cost.1.iter_mut().zip(moved.1.iter().zip(&exact.1)).for_each(|(cost, (a, b))| *cost += (a - b).abs());
            }
            let mut slopes = vec![0.0; s.len()];
            let divergence = Divergence { alpha, tail };
            let value = divergence.at(&student, &teacher, 1.0, &mut Scratch::default(), &mut slopes);
            // Beside that, what 32 bits round of the result itself.
            let limit = |cost: f64, size: f64| 8.0 * (cost + f64::from(f32::EPSILON) * size) + 1e-15;
            prop_assert!(
                (value - exact.0).abs() <= limit(cost.0, exact.0.abs()),
                "{value:e} and {:e}, cost {:e}: {student:?} {teacher:?}", exact.0, cost.0
            );
            for (i, slope) in slopes.iter().enumerate() {
                let (found, exact, size, cost) = (f64::from(*slope), exact.1[i], exact.2[i], cost.1[i]);
                prop_assert!(
                    (found - exact).abs() <= limit(cost, exact.abs().max(size)),
                    "{i}: {found:e} and {exact:e}, cost {cost:e}: {student:?} {teacher:?}"
                );
            }
        }
    }
}
