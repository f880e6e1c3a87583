//! Two probabilities of each listed token, the student's and the teacher's, and what lies between them.
//!
//! Of two probabilities the larger is `e^` its logarithm, and the smaller is that times `e^a`, where `a` is minus the distance
//! of the logarithms. So nothing overflows, and the difference of two that are close has all its digits.

use accredit_plugin_api::math;

use crate::{
    convex::{backward_gap, entropy_gap, forward_gap},
    divergence::{LEAST, VECTOR, largest, sum},
};

/// The listed tokens of a place; all lists have one length, of whole vectors.
#[derive(Default)]
pub struct Pairs {
    /// The student's probabilities.
    pub student: Vec<f32>,
    /// The teacher's.
    teacher: Vec<f32>,
    /// The logarithm of the teacher's less that of the student's.
    gaps: Vec<f32>,
    /// The larger of the two.
    larger: Vec<f32>,
    /// `e^a`, what the smaller is of the larger.
    powers: Vec<f32>,
    /// `e^a - 1`.
    drops: Vec<f32>,
    /// The teacher's less the student's.
    moves: Vec<f32>,
    /// `ln(1 + w (e^a - 1))`, what the mixture is of the larger.
    logs: Vec<f32>,
}

impl Pairs {
    /// Takes log-probabilities as they are.
    #[inline(always)]
    pub fn take(&mut self, student: &[f32], teacher: &[f32]) {
        let count = self.resize(student);
        let (student, teacher) = (&student[..count], &teacher[..count]);
        let (gaps, larger) = (&mut self.gaps[..count], &mut self.larger[..count]);
        for i in 0..count {
            gaps[i] = gap(student[i], teacher[i]);
            larger[i] = math::exp_f32(if teacher[i] > student[i] { teacher[i] } else { student[i] });
        }
        self.derive();
    }

    /// Takes log-probabilities that are scaled to sum to 1.
    #[inline(always)]
    pub fn take_scaled(&mut self, student: &[f32], teacher: &[f32]) {
        let count = self.resize(student);
        let (student, teacher) = (&student[..count], &teacher[..count]);
        let (gaps, larger) = (&mut self.gaps[..count], &mut self.larger[..count]);
        let (p, q) = (&mut self.student[..count], &mut self.teacher[..count]);
        // The largest becomes 0, so that a list of unlikely tokens still has a sum, and what has nearly all of it keeps the
        // digits of what it lacks.
        let tops = [largest(student), largest(teacher)];
        for i in 0..count {
            let (own, other) = (student[i] - tops[0], teacher[i] - tops[1]);
            gaps[i] = gap(own, other);
            p[i] = math::exp_f32(own);
            q[i] = math::exp_f32(other);
        }
        let sums = [sum(p), sum(q)];
        let scales = sums.map(|sum| (1.0 / sum) as f32);
        // In two numbers: the first is taken off a difference that may be close to it, and the second is what it lost.
        let shift = math::ln(sums[1]) - math::ln(sums[0]);
        let high = shift as f32;
        let low = (shift - f64::from(high)) as f32;
        for i in 0..count {
            gaps[i] = (gaps[i] - high) - low;
            larger[i] = if gaps[i] > 0.0 { q[i] * scales[1] } else { p[i] * scales[0] };
        }
        self.derive();
    }

    fn resize(&mut self, like: &[f32]) -> usize {
        let Self { student, teacher, gaps, larger, powers, drops, moves, logs } = self;
        for list in [student, teacher, gaps, larger, powers, drops, moves, logs] {
            list.resize(like.len(), 0.0);
        }
        like.len()
    }

    /// The smaller probabilities, from the larger ones and the gaps.
    #[inline(always)]
    fn derive(&mut self) {
        let count = self.gaps.len();
        let (gaps, larger) = (&self.gaps[..count], &self.larger[..count]);
        let (powers, drops) = (&mut self.powers[..count], &mut self.drops[..count]);
        let (p, q, moves) = (&mut self.student[..count], &mut self.teacher[..count], &mut self.moves[..count]);
        for i in 0..count {
            let distance = -gaps[i].abs();
            powers[i] = math::exp_f32(distance);
            drops[i] = math::exp_m1_f32(distance);
        }
        for i in 0..count {
            let smaller = larger[i] * powers[i];
            p[i] = if gaps[i] > 0.0 { smaller } else { larger[i] };
            q[i] = if gaps[i] > 0.0 { larger[i] } else { smaller };
            moves[i] = (larger[i] * drops[i]).copysign(gaps[i]);
        }
    }

    /// What they leave over, from the largest log-probability of each.
    #[inline(always)]
    pub fn rest(&self, top_of_student: f32, top_of_teacher: f32) -> Rest {
        // In 32 bits: it only chooses.
        let mut distances = [0.0; VECTOR];
        for vector in self.moves.as_chunks::<VECTOR>().0 {
            for (distance, moved) in distances.iter_mut().zip(vector) {
                *distance += moved.abs();
            }
        }
        let distance = f64::from(distances.iter().sum::<f32>());
        let moved = sum(&self.moves);
        let (but_student, student) = left(top_of_student, &self.student);
        let (but_teacher, teacher) = left(top_of_teacher, &self.teacher);
        let passes = student >= LEAST;
        // Of two ways to the teacher's rest the one that adds up less, and so rounds less.
        let gap = if passes && distance < but_student + but_teacher && student - moved >= LEAST {
            (-moved / student).ln_1p()
        } else {
            math::ln(teacher.max(LEAST)) - math::ln(student.max(LEAST))
        };
        Rest { student: student.max(LEAST), gap, moved, passes }
    }

    /// Writes the terms of the divergence, none of which is negative, and their derivatives for each unit of the student's
    /// probability; see [`Rest::compare`].
    #[inline(always)]
    pub fn compare(&mut self, alpha: f64, slopes: &mut [f32], terms: &mut [f32]) {
        let count = slopes.len();
        let terms = &mut terms[..count];
        let (gaps, larger) = (&self.gaps[..count], &self.larger[..count]);
        let (powers, drops, logs) = (&self.powers[..count], &self.drops[..count], &mut self.logs[..count]);
        if alpha == 0.0 || alpha == 1.0 {
            let forward = alpha == 0.0;
            for i in 0..count {
                let distance = -gaps[i].abs();
                // The divergence from the larger to the smaller, or the other way.
                let term = if (gaps[i] > 0.0) == forward {
                    backward_gap(distance, drops[i])
                } else {
                    forward_gap(distance, powers[i], drops[i])
                };
                terms[i] = larger[i] * term;
                slopes[i] = -gaps[i];
            }
            return;
        }
        // The share of the smaller in the mixture.
        let (of_student, of_teacher) = ((1.0 - alpha) as f32, alpha as f32);
        // The mixture is never nothing, also where the larger has so small a share that it rounds to none.
        let lowest = -1.0 + f32::EPSILON / 2.0;
        for i in 0..count {
            let y = if gaps[i] > 0.0 { of_student } else { of_teacher } * drops[i];
            logs[i] = math::ln_1p_f32(if y < lowest { lowest } else { y });
        }
        for i in 0..count {
            let [share, other] = if gaps[i] > 0.0 { [of_student, of_teacher] } else { [of_teacher, of_student] };
            let distance = -gaps[i].abs();
            let y = share * drops[i];
            let y = if y < lowest { lowest } else { y };
            let close = share * forward_gap(distance, powers[i], drops[i]) - entropy_gap(y, logs[i]);
            let apart = share * powers[i] * (distance - logs[i]) - other * logs[i];
            terms[i] = larger[i] * if distance > -1.0 { close } else { apart };
            // The derivative through the mixture cancels against that through the probability.
            slopes[i] = of_student * if gaps[i] > 0.0 { distance - logs[i] } else { -logs[i] };
        }
    }
}

impl Pairs {
    /// Writes derivatives for the probabilities, from those for each unit of the student's, less what tokens have through
    /// the rest or through being scaled.
    #[inline(always)]
    pub fn write(&self, slopes: &[f32], correction: f32, factor: f32, out: &mut [f32]) {
        for ((out, slope), mass) in out.iter_mut().zip(slopes).zip(&self.student) {
            *out = factor * (mass * (slope - correction));
        }
    }

    /// The same of the divergence from teacher to student: `p ratio - q`, where `ratio` is what the rest, or the scale, is to
    /// the teacher of what it is to the student, and `correction` is 1 less that.
    #[inline(always)]
    pub fn write_forward(&self, ratio: f32, correction: f32, factor: f32, out: &mut [f32]) {
        let count = out.len();
        let (p, q) = (&self.student[..count], &self.teacher[..count]);
        let (gaps, moves) = (&self.gaps[..count], &self.moves[..count]);
        for i in 0..count {
            let close = -moves[i] - p[i] * correction;
            let apart = p[i] * ratio - q[i];
            let slope = if gaps[i].abs() < 0.7 { close } else { apart };
            out[i] = factor * slope;
        }
    }

    /// The mean of slopes less that of the token at `top`, by the student's probabilities, and writes each less that of
    /// this token: where it has nearly all probability, it has nearly the mean.
    #[inline(always)]
    pub fn center(&self, top: usize, slopes: &mut [f32], room: &mut [f32]) -> f64 {
        let middle = slopes[top];
        for ((slope, room), mass) in slopes.iter_mut().zip(&mut *room).zip(&self.student) {
            *slope -= middle;
            *room = mass * *slope;
        }
        sum(room)
    }
}

/// The logarithm of the teacher's probability less that of the student's; 0 where neither gives any.
#[inline(always)]
fn gap(student: f32, teacher: f32) -> f32 {
    if teacher == student { 0.0 } else { teacher - student }
}

/// What all but the likeliest token have, and what all listed ones leave over. The likeliest may be so close to 1 that its
/// distance from it is only in its logarithm.
#[inline(always)]
fn left(top: f32, masses: &[f32]) -> (f64, f64) {
    let but_top = -f64::from(math::exp_m1_f32(top));
    (but_top, but_top - (sum(masses) - f64::from(largest(masses))))
}

/// What the listed tokens leave over.
pub struct Rest {
    /// The student's.
    student: f64,
    /// The logarithm of the teacher's less that of the student's.
    gap: f64,
    /// What the listed tokens have more from the teacher than from the student.
    moved: f64,
    /// Whether the student's is what is left, and not the least that may be.
    passes: bool,
}

impl Rest {
    /// Its term of the divergence, and the derivative that the listed tokens have through it for each unit of their
    /// probability; with `alpha` 0 the latter is 1 less what the teacher's rest is of the student's.
    ///
    /// Terms of listed tokens with `alpha` 0 and 1 have `p - q` or `q - p` added, so that each vanishes where the two are
    /// equal; it is taken off here.
    pub fn compare(&self, alpha: f64) -> (f64, f64) {
        let Self { student, gap, moved, passes } = *self;
        let ratio = gap.exp();
        if alpha == 0.0 {
            (student * ratio * gap + moved, if passes { -gap.exp_m1() } else { 1.0 })
        } else if alpha == 1.0 {
            (-student * gap - moved, if passes { -gap } else { -1.0 })
        } else {
            let mixed = (alpha * gap.exp_m1()).ln_1p();
            let slope = -(1.0 - alpha) * mixed;
            (student * (slope + alpha * ratio * (gap - mixed)), if passes { slope } else { 0.0 })
        }
    }
}
