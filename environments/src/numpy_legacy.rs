//! NumPy's legacy generator, `numpy.random.RandomState(seed)` or `numpy.random.seed(seed)`, bit for bit, for
//! environments that were written for it. It is MT19937 with Knuth's seeding; `numpy_random.rs` has the newer generator.

use rand_mt::Mt;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct RandomState(Mt);

impl RandomState {
    /// The stream of a seed. NumPy takes no larger seeds.
    pub(crate) fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// A number in `0..n`, which must not be empty: `numpy.random.randint(n)`. Nothing is drawn where n is 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        debug_assert!((1..=u32::MAX as usize).contains(&n));
        let largest = (n - 1) as u32;
        if largest == 0 {
            return 0;
        }
        let mask = u32::MAX >> largest.leading_zeros();
        loop {
            let drawn = self.0.next_u32() & mask;
            if drawn <= largest {
                return drawn as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_numpys() {
        let check = |seed: u32, expected: [usize; 12]| {
            let mut stream = RandomState::new(seed);
            let limits = [1, 2, 5, 17, 36, 100, 1, 2, 5, 17, 36, 100];
            assert_eq!(limits.map(|n| stream.below(n)), expected);
        };
        check(0, [0, 0, 0, 3, 3, 9, 0, 1, 2, 4, 23, 70]);
        check(10_000, [0, 0, 0, 15, 2, 21, 0, 0, 1, 6, 8, 85]);
        check(u32::MAX, [0, 1, 2, 12, 7, 52, 0, 0, 2, 0, 11, 74]);
    }
}
