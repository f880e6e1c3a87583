//! The loop that scales advantages by a teacher's weights, a block of tokens at a time.

use accredit_plugin_api::{
    ACTION, Host,
    math::{self, Kernel, SumF32},
};

/// The teacher's and the student's difference is cut here before it is exponentiated, in nats.
const LOG_RATIO_LIMIT: f32 = 20.0;
/// The sign of a number of 32 bits.
const SIGN: u32 = 1 << 31;
/// The most tokens of a block: their counts fit into a third of a number of 32 bits each.
const BLOCK: usize = 512;
/// Tokens of a block where only action tokens are scaled: few, so that many blocks have none and are passed over.
const SMALL_BLOCK: usize = 64;

/// What is counted of a token, three numbers in one, because one sum over a block is cheaper than three.
struct Flags;

impl Flags {
    const SELECTED: u32 = 1 << 10;
    const CLIPPED: u32 = 1 << 20;

    #[inline(always)]
    fn of(asked: bool, selected: bool, clipped: bool) -> u32 {
        u32::from(asked) + Self::SELECTED * u32::from(selected) + Self::CLIPPED * u32::from(clipped)
    }
}

/// Scales advantages in place. All columns have one element for each token.
pub struct Scale<'a> {
    /// Log-probabilities of the teacher; NaN where nobody asked.
    pub teacher: &'a [f32],
    /// Log-probabilities of the student.
    pub student: &'a [f32],
    /// What each token is, where only action tokens are scaled.
    pub kind: Option<&'a [u8]>,
    /// The advantages.
    pub advantage: &'a mut [f32],
    /// The share of the teacher's weight.
    pub share: f32,
    /// The lowest weight.
    pub low: f32,
    /// The highest weight.
    pub high: f32,
    /// Only tokens with a positive advantage are scaled.
    pub positive_only: bool,
}

/// Numbers of one micro-batch.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    with_teacher: u64,
    selected: u64,
    clipped: u64,
    weights: f64,
    differences: f64,
    /// The least weight less one, and the greatest, as bits: those of positive numbers have the same order.
    less_one: u32,
    greatest: u32,
}

impl Kernel for Scale<'_> {
    type Output = Counts;

    #[inline(always)]
    fn run(self) -> Counts {
        let Self { teacher, student, kind, advantage, share, low, high, positive_only } = self;
        let rest = 1.0 - share;
        let above = if positive_only { 0.0 } else { f32::NEG_INFINITY };
        let mut counts = Counts::default();
        let (mut sum_of_weights, mut sum_of_differences) = (SumF32::default(), SumF32::default());
        let (mut weights, mut differences) = ([0.0; BLOCK], [0.0; BLOCK]);
        // Without kinds every token is one of those that are scaled.
        let mut scaled = [ACTION; BLOCK];
        let size = if kind.is_some() { SMALL_BLOCK } else { BLOCK };
        for (i, advantage) in advantage.chunks_mut(size).enumerate() {
            let (first, count) = (i * size, advantage.len());
            let (teacher, student) = (&teacher[first..][..count], &student[first..][..count]);
            if let Some(kind) = kind {
                scaled[..count].copy_from_slice(&kind[first..][..count]);
                if !scaled[..count].contains(&ACTION) {
                    counts.with_teacher += teacher.iter().map(|teacher| u64::from(!teacher.is_nan())).sum::<u64>();
                    continue;
                }
            }
            let (scaled, weights, differences) = (&scaled[..count], &mut weights[..count], &mut differences[..count]);
            // The exponential in a loop of its own: what comes after it would wait for it.
            for i in 0..count {
                let credit = advantage[i];
                let difference = teacher[i] - student[i];
                differences[i] = difference;
                let limited = if difference < -LOG_RATIO_LIMIT { -LOG_RATIO_LIMIT } else { difference };
                let limited = if limited > LOG_RATIO_LIMIT { LOG_RATIO_LIMIT } else { limited };
                // Turned over where the advantage is negative.
                let signed = f32::from_bits(limited.to_bits() ^ (credit.to_bits() & SIGN));
                weights[i] = math::exp_f32(if credit == 0.0 { 0.0 } else { signed });
            }
            let (mut flags, mut less_one, mut greatest) = (0, u32::MAX, 0);
            for i in 0..count {
                let (credit, free) = (advantage[i], weights[i]);
                let asked = !teacher[i].is_nan();
                let on = asked & (scaled[i] == ACTION) & (credit > above);
                let weight = if free < low { low } else { free };
                let weight = if weight > high { high } else { weight };
                advantage[i] = credit * if on { rest + share * weight } else { 1.0 };
                // A weight is never 0: that is what is not scaled, and as bits less one it is the greatest of all.
                let counted = if on { weight } else { 0.0 };
                weights[i] = counted;
                less_one = less_one.min(counted.to_bits().wrapping_sub(1));
                greatest = greatest.max(counted.to_bits());
                differences[i] = if on { differences[i] } else { 0.0 };
                flags += Flags::of(asked, on, on & (weight != free));
            }
            counts.with_teacher += u64::from(flags % Flags::SELECTED);
            counts.selected += u64::from(flags % Flags::CLIPPED / Flags::SELECTED);
            counts.clipped += u64::from(flags / Flags::CLIPPED);
            sum_of_weights.add(weights);
            sum_of_differences.add(differences);
            counts.less_one = counts.less_one.min(less_one);
            counts.greatest = counts.greatest.max(greatest);
        }
        (counts.weights, counts.differences) = (sum_of_weights.total(), sum_of_differences.total());
        counts
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            with_teacher: 0,
            selected: 0,
            clipped: 0,
            weights: 0.0,
            differences: 0.0,
            less_one: u32::MAX,
            greatest: 0,
        }
    }
}

impl Counts {
    /// Pushes what they come to as metrics.
    pub fn report(&self, host: &Host, tokens: usize) {
        let (tokens, with_teacher, selected) = (tokens as f64, self.with_teacher as f64, self.selected as f64);
        if tokens > 0.0 {
            host.metric_weighted("teacher_fraction", with_teacher / tokens, tokens);
        }
        if with_teacher > 0.0 {
            host.metric_weighted("selected_fraction", selected / with_teacher, with_teacher);
        }
        if selected > 0.0 {
            host.metric_weighted("weight_mean", self.weights / selected, selected);
            host.metric_weighted("weight_min", f64::from(f32::from_bits(self.less_one.wrapping_add(1))), selected);
            host.metric_weighted("weight_max", f64::from(f32::from_bits(self.greatest)), selected);
            host.metric_weighted("clipped_fraction", self.clipped as f64 / selected, selected);
            host.metric_weighted("teacher_gain", self.differences / selected, selected);
        }
    }
}
