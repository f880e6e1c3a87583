//! Mean and deviation of a group's scores, the same in every bit for every order of the scores.

/// Scores of a group, collected one by one; the buffer is used again for the next group.
///
/// ```
/// use accredit_plugin_api::Scores;
///
/// let mut scores = Scores::default();
/// for score in [1.0, 0.0, 0.0, 1.0] {
///     scores.push(score, 1);
/// }
/// let spread = scores.spread().unwrap();
/// assert_eq!((spread.count, spread.mean, spread.deviation(0)), (4, 0.5, 0.5));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scores {
    entries: Vec<(f64, u32)>,
}

/// What a group's scores come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many scores there are, each as often as it counts; at least 1.
    pub count: u32,
    /// Their mean.
    pub mean: f64,
    /// Their sum of squared distances from the mean; exactly 0 where all are equal.
    pub squares: f64,
    /// Whether all scores are equal, decided by comparing them and not by a rounded deviation.
    pub all_equal: bool,
}

impl Scores {
    /// Forgets all scores and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a score that counts `count` times; 0 times is as if it was not added.
    pub fn push(&mut self, score: f64, count: u32) {
        if count > 0 {
            self.entries.push((score, count));
        }
    }

    /// Their mean and spread; none without a score. Sums run over sorted scores in 64 bits.
    pub fn spread(&mut self) -> Option<Spread> {
        self.entries.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let first = self.entries.first()?.0;
        let count = self.entries.iter().map(|entry| entry.1).sum();
        if self.entries.iter().all(|entry| entry.0 == first) {
            return Some(Spread { count, mean: first, squares: 0.0, all_equal: true });
        }
        let sum = |term: &dyn Fn(f64) -> f64| -> f64 {
            self.entries.iter().map(|(score, count)| f64::from(*count) * term(*score)).sum()
        };
        let mean = sum(&|score| score) / f64::from(count);
        let squares = sum(&|score| (score - mean).powi(2));
        Some(Spread { count, mean, squares, all_equal: false })
    }
}

impl Spread {
    /// Standard deviation: the root of `squares / (count - ddof)`, with `ddof` 1 that of a sample and 0 that of a
    /// population; 0 where `count` is not above `ddof`.
    pub fn deviation(&self, ddof: u32) -> f64 {
        if self.count > ddof { (self.squares / f64::from(self.count - ddof)).sqrt() } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(entries: &[(f64, u32)]) -> Option<Spread> {
        let mut scores = Scores::default();
        for (score, count) in entries {
            scores.push(*score, *count);
        }
        scores.spread()
    }

    #[test]
    fn a_count_stands_for_as_many_scores() {
        let counted = spread(&[(1.0, 3), (0.25, 1), (7.0, 0)]).unwrap();
        let written = spread(&[(1.0, 1), (0.25, 1), (1.0, 1), (1.0, 1)]).unwrap();
        assert_eq!(counted.count, 4);
        assert_eq!(counted, written);
    }

    #[test]
    fn order_changes_no_bit() {
        let scores = [0.1, 0.7, 0.3, 1e9, -0.2].map(|score| (score, 1));
        let mut turned = scores;
        turned.reverse();
        turned.swap(0, 2);
        assert_eq!(spread(&scores), spread(&turned));
    }

    #[test]
    fn equal_scores_have_no_spread_however_they_round() {
        let equal = spread(&[(0.95, 1); 8]).unwrap();
        assert!(equal.all_equal);
        assert_eq!((equal.mean, equal.deviation(1)), (0.95, 0.0));
        assert_eq!(spread(&[(2.0, 1)]).unwrap().deviation(1), 0.0);
        assert_eq!(spread(&[]), None);
    }
}
