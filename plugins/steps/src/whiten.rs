//! Mean and deviation over tokens, linear in their number and the same in every bit for every order of trajectories.

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

/// What becomes of numbers with a spread.
#[derive(Clone, Copy, Debug)]
pub struct Whitening {
    /// Take the mean off.
    pub center: bool,
    /// Divide by the deviation, the root of `squares / (count - ddof) + eps`.
    pub scale: bool,
    /// 1 for the deviation of a sample, 0 for that of a population.
    pub ddof: u32,
    /// Added inside the root.
    pub eps: f64,
}

impl Whitening {
    /// Changes the numbers. Where all are equal there is no deviation: they become 0 if the mean is taken off, and else
    /// stay as they are.
    pub fn apply(self, values: &mut [f32], spread: &Spread) {
        if spread.all_equal {
            if self.center {
                values.fill(0.0);
            }
            return;
        }
        let offset = Halves::from(if self.center { spread.mean } else { 0.0 });
        let deviation = (spread.deviation(self.ddof).powi(2) + self.eps).sqrt();
        let factor = if self.scale { inverse(deviation) } else { 1.0 };
        math::run(Shift { values, offset, factor });
    }
}

/// 1 by a deviation. One that is too small for that belongs to differences that are none in 32 bits.
pub fn inverse(deviation: f64) -> f32 {
    (1.0 / deviation).min(f64::from(f32::MAX)) as f32
}

/// A number in two of 32 bits: a difference from the first is exact where the two are close, and the second is what the
/// first lost by rounding.
#[derive(Clone, Copy, Debug)]
pub struct Halves {
    high: f32,
    low: f32,
}

impl From<f64> for Halves {
    fn from(number: f64) -> Self {
        let high = number as f32;
        Self { high, low: (number - f64::from(high)) as f32 }
    }
}

impl Halves {
    /// The number less another one.
    #[inline(always)]
    pub fn less(self, number: f32) -> f32 {
        (self.high - number) + self.low
    }

    /// What another number has more.
    #[inline(always)]
    pub fn taken_off(self, number: f32) -> f32 {
        (number - self.high) - self.low
    }
}

/// `(value - offset) * factor` in place.
struct Shift<'a> {
    values: &'a mut [f32],
    offset: Halves,
    factor: f32,
}

impl Kernel for Shift<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for value in self.values {
            *value = self.offset.taken_off(*value) * self.factor;
        }
    }
}

/// The spread of numbers that come in parts, such as the tokens of a trajectory. Each part is summed by itself, and the
/// sums are added in an order of their own.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    parts: Vec<Part>,
    scores: Scores,
}

/// Sums over a part that has a number.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: f64,
    count: u32,
    /// The distances from the first number.
    distances: f64,
    /// Their squares. They are 0 only if all numbers are equal: no distance of numbers of 32 bits has a square that is too
    /// small for 64.
    squares: f64,
}

impl Moments {
    /// Forgets all numbers and keeps the memory.
    pub fn clear(&mut self) {
        self.parts.clear();
    }

    /// Adds a part, which may be empty.
    pub fn push(&mut self, values: &[f32]) {
        if let Some(first) = values.first() {
            self.parts.push(math::run(Distances { values, first: f64::from(*first) }));
        }
    }

    /// Adds a part of which runs of equal numbers are known, each with its length, and takes the runs. Where all of the
    /// part is in runs, no number is looked at.
    pub fn push_with_runs(&mut self, values: &[f32], runs: &mut Vec<(f32, u32)>) {
        let count: u32 = runs.iter().map(|run| run.1).sum();
        match runs.first() {
            Some(run) if count as usize == values.len() => {
                let first = f64::from(run.0);
                let mut part = Part { first, count, distances: 0.0, squares: 0.0 };
                for (number, count) in &*runs {
                    let distance = f64::from(*number) - first;
                    part.distances += f64::from(*count) * distance;
                    part.squares += f64::from(*count) * (distance * distance);
                }
                self.parts.push(part);
            }
            _ => self.push(values),
        }
        runs.clear();
    }

    /// Adds the numbers of a part whose token is of this kind.
    pub fn push_kind(&mut self, values: &[f32], kinds: &[u8], kind: u8) {
        if let Some(first) = kinds.iter().position(|own| *own == kind) {
            let (values, kinds) = (&values[first..], &kinds[first..]);
            self.parts.push(math::run(DistancesOfKind { values, kinds, kind, first: f64::from(values[0]) }));
        }
    }

    /// The spread of all numbers; none without a number.
    pub fn spread(&mut self) -> Option<Spread> {
        let first = self.parts.first()?.first;
        let count = self.parts.iter().map(|part| part.count).sum();
        if self.parts.iter().all(|part| part.first == first && part.squares == 0.0) {
            return Some(Spread { count, mean: first, squares: 0.0, all_equal: true });
        }
        let Self { parts, scores } = self;
        let mut total = |term: &dyn Fn(&Part) -> f64| {
            scores.clear();
            for part in &*parts {
                scores.push(term(part), 1);
            }
            scores.spread().map_or(0.0, |sums| sums.mean * f64::from(sums.count))
        };
        let mean = total(&|part| part.first * f64::from(part.count) + part.distances) / f64::from(count);
        let squares = total(&|part| part.squares_from(mean));
        Some(Spread { count, mean, squares, all_equal: false })
    }
}

impl Part {
    /// The sum of squared distances from another number than the first.
    ///
    /// The first is one of the part's own, so that the squares from it are at most `count` times as large as those from the
    /// part's mean, and the difference of both keeps all but so many of 16 digits.
    fn squares_from(&self, number: f64) -> f64 {
        let count = f64::from(self.count);
        let mean = self.distances / count;
        let own = self.squares - mean * self.distances;
        let distance = (self.first - number) + mean;
        count * (distance * distance) + if own < 0.0 { 0.0 } else { own }
    }
}

/// How many sums run beside each other: so many that the compiler keeps the loop over them, and makes it one over vectors.
const LANES: usize = 32;

/// Sums of distances.
struct Lanes {
    distances: [f64; LANES],
    squares: [f64; LANES],
}

impl Lanes {
    const NONE: Self = Self { distances: [0.0; LANES], squares: [0.0; LANES] };

    #[inline(always)]
    fn add(&mut self, lane: usize, distance: f64) {
        self.distances[lane] += distance;
        self.squares[lane] += distance * distance;
    }

    #[inline(always)]
    fn part(&self, first: f64, count: u32) -> Part {
        Part { first, count, distances: math::sum(&self.distances), squares: math::sum(&self.squares) }
    }
}

/// The distances of numbers from the first of them.
struct Distances<'a> {
    values: &'a [f32],
    first: f64,
}

impl Kernel for Distances<'_> {
    type Output = Part;

    #[inline(always)]
    fn run(self) -> Part {
        let Self { values, first } = self;
        let mut lanes = Lanes::NONE;
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, value) in chunk.iter().enumerate() {
                lanes.add(lane, f64::from(*value) - first);
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            lanes.add(lane, f64::from(*value) - first);
        }
        lanes.part(first, values.len() as u32)
    }
}

/// The same of the numbers whose token is of a kind.
struct DistancesOfKind<'a> {
    values: &'a [f32],
    kinds: &'a [u8],
    kind: u8,
    first: f64,
}

impl Kernel for DistancesOfKind<'_> {
    type Output = Part;

    #[inline(always)]
    fn run(self) -> Part {
        let Self { values, kinds, kind, first } = self;
        let mut lanes = Lanes::NONE;
        let mut counts = [0; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        let (kind_chunks, rest_kinds) = kinds.as_chunks::<LANES>();
        for (chunk, kinds) in chunks.iter().zip(kind_chunks) {
            // Kinds come in runs, and most chunks have no token of one that is rare.
            if kinds.iter().map(|own| u8::from(*own == kind)).max() == Some(1) {
                for (lane, (value, own)) in chunk.iter().zip(kinds).enumerate() {
                    let distance = f64::from(*value) - first;
                    lanes.add(lane, if *own == kind { distance } else { 0.0 });
                    counts[lane] += u32::from(*own == kind);
                }
            }
        }
        for (lane, (value, own)) in rest.iter().zip(rest_kinds).enumerate() {
            if *own == kind {
                counts[lane] += 1;
                lanes.add(lane, f64::from(*value) - first);
            }
        }
        lanes.part(first, counts.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(parts: &[&[f32]]) -> Spread {
        let mut moments = Moments::default();
        for part in parts {
            moments.push(part);
        }
        moments.spread().unwrap()
    }

    #[test]
    fn parts_have_the_spread_of_all_numbers() {
        let found = spread(&[&[1.0, 3.0], &[], &[8.0]]);
        assert_eq!((found.count, found.mean, found.squares), (3, 4.0, 26.0));
        let many: Vec<f32> = (0..1000).map(|i| 1e6 + (i % 7) as f32).collect();
        let (left, right) = many.split_at(123);
        let found = spread(&[left, right]);
        let mean = many.iter().map(|value| f64::from(*value)).sum::<f64>() / 1000.0;
        let squares: f64 = many.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
        assert!((found.mean - mean).abs() < 1e-9 && (found.squares / squares - 1.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn numbers_of_a_kind_are_those_alone() {
        let values: Vec<f32> = (0..500).map(|i| ((i * i) % 23) as f32).collect();
        for period in [1, 3, 90] {
            let kinds: Vec<u8> = (0..500_u32).map(|i| u8::from(i / period % 3 == 1)).collect();
            let own: Vec<f32> = values.iter().zip(&kinds).filter(|(_, kind)| **kind == 1).map(|(v, _)| *v).collect();
            let mut moments = Moments::default();
            moments.push_kind(&values, &kinds, 1);
            let (found, expected) = (moments.spread().unwrap(), spread(&[&own]));
            assert_eq!((found.count, found.all_equal), (expected.count, false));
            assert!((found.mean - expected.mean).abs() < 1e-12 && (found.squares - expected.squares).abs() < 1e-9);
            moments.clear();
            moments.push_kind(&values, &kinds, 7);
            assert_eq!(moments.spread(), None);
        }
    }

    #[test]
    fn runs_are_the_numbers_that_they_stand_for() {
        let values = [0.5, 0.5, 0.5, 2.0, 0.5, 0.5];
        let expected = Some(spread(&[&values]));
        for runs in [vec![], vec![(0.5, 3), (0.5, 2)], vec![(0.5, 3), (2.0, 1), (0.5, 2)]] {
            let (mut moments, mut runs) = (Moments::default(), runs);
            moments.push_with_runs(&values, &mut runs);
            moments.push_with_runs(&[], &mut runs);
            assert_eq!((moments.spread(), runs.len()), (expected, 0));
        }
        let mut moments = Moments::default();
        moments.push_with_runs(&[0.7; 5], &mut vec![(0.7, 3), (0.7, 2)]);
        assert!(moments.spread().unwrap().all_equal);
    }

    #[test]
    fn a_first_number_far_from_the_others_costs_few_digits() {
        let mut values = vec![1.0_f32; 4096];
        values[0] = 1e6;
        (1..4096).for_each(|i| values[i] += (i % 2) as f32);
        let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / 4096.0;
        let squares: f64 = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
        assert!((spread(&[&values]).squares / squares - 1.0).abs() < 1e-11);
    }

    #[test]
    fn equal_numbers_have_no_spread_and_the_smallest_difference_is_one() {
        assert!(spread(&[&[0.95; 40], &[0.95]]).all_equal);
        assert!(!spread(&[&[0.95; 40], &[0.96]]).all_equal);
        let found = spread(&[&[0.0, f32::from_bits(1)]]);
        assert!(!found.all_equal && found.squares > 0.0);
        assert!(Moments::default().spread().is_none());
    }
}
