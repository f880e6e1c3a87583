//! Mean and deviation over tokens, linear in their number and the same in every bit for every order of trajectories.

use std::ops::Range;

use accredit_plugin_api::prelude::*;

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
        let offset = if self.center { spread.mean } else { 0.0 };
        let deviation = (spread.deviation(self.ddof).powi(2) + self.eps).sqrt();
        let factor = if self.scale { 1.0 / deviation } else { 1.0 };
        for value in values {
            *value = ((f64::from(*value) - offset) * factor) as f32;
        }
    }
}

/// The spread of the numbers in some ranges, which `ranges` gives anew at each call; none without a number. Each range
/// is summed by itself, and the sums are added in an order of their own.
pub fn spread<I: Iterator<Item = Range<usize>>>(
    values: &[f32],
    ranges: impl Fn() -> I,
    scores: &mut Scores,
) -> Option<Spread> {
    let first = *values.get(ranges().find(|range| !range.is_empty())?.start)?;
    let count = ranges().map(|range| range.len() as u32).sum();
    if ranges().all(|range| values[range].iter().all(|value| *value == first)) {
        return Some(Spread { count, mean: f64::from(first), squares: 0.0, all_equal: true });
    }
    let mut total = |term: &dyn Fn(&[f32]) -> f64| {
        scores.clear();
        for range in ranges() {
            scores.push(term(&values[range]), 1);
        }
        scores.spread().map_or(0.0, |sums| sums.mean * f64::from(sums.count))
    };
    let mean = total(&|part| sum(part, |value| value)) / f64::from(count);
    let squares = total(&|part| sum(part, |value| (value - mean).powi(2)));
    Some(Spread { count, mean, squares, all_equal: false })
}

/// A sum in eight lanes, which a processor adds at once.
fn sum(values: &[f32], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    for chunk in values.chunks(8) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += term(f64::from(*value));
        }
    }
    lanes.iter().sum()
}
