//! Random streams that are a function of what they are for, and of nothing else.
//!
//! A draw is addressed by (seed, purpose, iteration, group, trajectory, attempt, step, position), so it does not depend
//! on batch order, on how finished rows leave a batch, or on threads; and there is no generator state to save.

/// What a stream of random numbers is used for. Streams of different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Purpose {
    /// Tokens sampled from the policy.
    Sampling = 1,
    /// Tasks drawn for a group.
    Task = 2,
    /// What an environment does by chance.
    Environment = 3,
    /// Initial weights.
    Weights = 4,
    /// Order of rows in minibatches.
    Minibatch = 5,
    /// Behaviour cloning: episodes, expert noise, order of rows.
    WarmStart = 6,
    /// Evaluation: tasks and tokens.
    Evaluation = 7,
    /// Anything that a test or a tool wants.
    Other = 8,
}

/// An address in the space of random numbers: two equal addresses give equal numbers, two different ones independent
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(u64);

impl Stream {
    /// The root of all streams of one purpose in a run with this seed.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self(mix(seed ^ 0x6163_6372_6564_6974)).with(purpose as u64)
    }

    /// The stream one level down: `stream.with(iteration).with(group)`.
    #[must_use]
    pub fn with(self, index: u64) -> Self {
        Self(mix(self.0.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ mix(index.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    /// 64 random bits at a position of the stream.
    pub fn bits(self, position: u64) -> u64 {
        self.with(position).0
    }

    /// A number in `[0, 1)` at a position of the stream, with 53 random bits.
    pub fn uniform(self, position: u64) -> f64 {
        (self.bits(position) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `0..n` at a position of the stream. `n` must not be 0.
    pub fn below(self, position: u64, n: u64) -> u64 {
        // The bias of a multiply-shift is below n / 2^64.
        ((u128::from(self.bits(position)) * u128::from(n)) >> 64) as u64
    }

    /// Puts a slice in random order (Fisher-Yates), using positions `0..len`.
    pub fn shuffle<T>(self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64, i as u64 + 1) as usize);
        }
    }

    /// The address itself, as a seed for a generator of another kind.
    pub fn seed(self) -> u64 {
        self.0
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits with full avalanche.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_addresses_give_equal_numbers_and_different_ones_do_not() {
        let a = Stream::new(7, Purpose::Sampling).with(3).with(1);
        assert_eq!(a.bits(9), Stream::new(7, Purpose::Sampling).with(3).with(1).bits(9));
        let others = [
            Stream::new(8, Purpose::Sampling).with(3).with(1).bits(9),
            Stream::new(7, Purpose::Task).with(3).with(1).bits(9),
            Stream::new(7, Purpose::Sampling).with(1).with(3).bits(9),
            Stream::new(7, Purpose::Sampling).with(3).bits(9),
            a.bits(8),
        ];
        assert!(others.iter().all(|other| *other != a.bits(9)));
    }

    #[test]
    fn uniform_numbers_have_the_moments_of_the_uniform_distribution() {
        let stream = Stream::new(0, Purpose::Other);
        let n = 200_000;
        let (mut sum, mut squares, mut lagged) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let u = stream.uniform(i);
            assert!((0.0..1.0).contains(&u));
            sum += u;
            squares += u * u;
            lagged += u * stream.uniform(i + 1);
        }
        let n = n as f64;
        assert!((sum / n - 0.5).abs() < 0.005);
        assert!((squares / n - 1.0 / 3.0).abs() < 0.005);
        assert!((lagged / n - 0.25).abs() < 0.005);
    }

    #[test]
    fn shuffling_is_a_permutation_and_reaches_every_place() {
        let mut seen = [[false; 5]; 5];
        for seed in 0..200 {
            let mut items = [0, 1, 2, 3, 4];
            Stream::new(seed, Purpose::Other).shuffle(&mut items);
            for (place, item) in items.iter().enumerate() {
                seen[*item][place] = true;
            }
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3, 4]);
        }
        assert!(seen.iter().flatten().all(|s| *s));
    }
}
