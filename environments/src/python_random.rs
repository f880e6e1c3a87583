//! Python's `random.Random(seed)`, bit for bit, so that a seed gives the same task as an environment that was written
//! in Python. The words come from MT19937 (Matsumoto and Nishimura, 1998), seeded with the seed's 32-bit words as
//! CPython does it; the draws follow CPython's `random` module.

use std::collections::HashSet;

use rand_mt::Mt;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct PythonRandom(Mt);

impl PythonRandom {
    /// The stream of a seed: `random.seed(seed)`.
    pub(crate) fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        Self(if high == 0 { Mt::new_with_key([low]) } else { Mt::new_with_key([low, high]) })
    }

    /// A number in `[0, 1)`: `random.random()`.
    pub(crate) fn uniform(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / (1_u64 << 53) as f64
    }

    /// A number between `low` and `high`: `random.uniform(low, high)`.
    pub(crate) fn uniform_between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A number in `0..n`, which must not be empty: `random.randrange(n)`. Numbers are drawn even where n is 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        debug_assert!((1..=u32::MAX as usize).contains(&n));
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let drawn = (self.0.next_u32() >> (32 - bits)) as usize;
            if drawn < n {
                return drawn;
            }
        }
    }

    /// A number from `low` to `high`, both included: `random.randint(low, high)`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// One of the items, of which there must be some: `random.choice(items)`; also `random.sample(items, 1)[0]` where
    /// there are no more than 21.
    pub(crate) fn choice<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// The places of `count` different items out of `n`: `random.sample(range(n), count)`.
    pub(crate) fn sample(&mut self, n: usize, count: usize) -> Vec<usize> {
        // Python draws from a list of all items where that is smaller than a set of the chosen ones.
        let mut set_size = 21;
        if count > 5 {
            let mut power = 4;
            while power < 3 * count {
                power *= 4;
            }
            set_size += power;
        }
        if n > set_size {
            let mut chosen = HashSet::with_capacity(count);
            let mut draw = || {
                loop {
                    let place = self.below(n);
                    if chosen.insert(place) {
                        return place;
                    }
                }
            };
            return (0..count).map(|_| draw()).collect();
        }
        let mut pool: Vec<usize> = (0..n).collect();
        let mut draw = |left: usize| {
            let place = self.below(left);
            let drawn = pool[place];
            pool[place] = pool[left - 1];
            drawn
        };
        (0..count).map(|drawn| draw(n - drawn)).collect()
    }

    /// Puts the items in random order: `random.shuffle(items)`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two numbers, six dice of 1 to 5, six letters, two samples (one of each of Python's two ways), a number between
    /// two bounds, a shuffle, and a number 700 further on, where the generator has begun anew: as CPython 3.11 draws them.
    #[expect(clippy::too_many_arguments, reason = "one of each draw")]
    fn check(
        seed: u64,
        uniform: [f64; 2],
        dice: [usize; 6],
        letters: &str,
        samples: [&[usize]; 2],
        between: f64,
        shuffled: [u8; 12],
        later: f64,
    ) {
        let mut stream = PythonRandom::new(seed);
        assert_eq!([(); 2].map(|()| stream.uniform()), uniform);
        assert_eq!([(); 6].map(|()| stream.between(1, 5)), dice);
        let drawn: String = (0..6).map(|_| stream.choice(&['a', 'b', 'c', 'd'])).collect();
        assert_eq!(drawn, letters);
        assert_eq!(stream.sample(4, 2), samples[0]);
        assert_eq!(stream.sample(1000, 8), samples[1]);
        assert_eq!(stream.uniform_between(3.5, 9.25), between);
        let mut order: [u8; 12] = std::array::from_fn(|i| i as u8);
        stream.shuffle(&mut order);
        assert_eq!(order, shuffled);
        let skipped = (0..700).map(|_| stream.uniform()).fold(0.0, f64::max);
        assert!(skipped < 1.0);
        assert_eq!(stream.uniform(), later);
    }

    #[test]
    fn streams_are_pythons() {
        check(
            0,
            [0.844_421_851_525_048_1, 0.757_954_402_940_302_5],
            [4, 1, 3, 5, 4, 4],
            "cdcbbc",
            [&[1, 0], &[633, 818, 256, 931, 545, 722, 829, 616]],
            8.687_454_215_027_6,
            [6, 8, 9, 3, 2, 0, 11, 7, 5, 10, 1, 4],
            0.396_514_486_951_891_3,
        );
        check(
            10_000,
            [0.577_915_816_785_009_1, 0.762_128_042_417_068_9],
            [1, 1, 1, 1, 3, 5],
            "cbadac",
            [&[0, 2], &[772, 894, 230, 953, 20, 336, 594, 272]],
            8.177_002_213_628_29,
            [7, 10, 4, 6, 11, 3, 0, 5, 9, 1, 2, 8],
            0.780_071_907_729_136_5,
        );
        check(
            (1 << 40) + 5,
            [0.504_380_297_041_844_3, 0.268_604_439_972_328_2],
            [1, 5, 1, 2, 1, 2],
            "bbbdab",
            [&[3, 0], &[114, 978, 436, 45, 337, 912, 799, 449]],
            5.139_663_523_071_920_5,
            [8, 4, 9, 6, 7, 3, 10, 0, 5, 2, 1, 11],
            0.508_431_445_660_582_1,
        );
    }
}
