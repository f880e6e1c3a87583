//! The recursion `A_t = x_t + c A_{t+1}`, over vectors: in the plain form every token waits for the one after it.

/// The most tokens that one call of [`Recursion::run`] works on.
pub const BLOCK: usize = 256;
/// How many recursions run beside each other.
const LANES: usize = 8;

/// Numbers of the tokens of a block, the last of which stands at the end.
#[derive(Clone, Debug)]
pub struct Recursion {
    /// Terms, and afterwards what they come to. What stands behind a block is 0.
    numbers: [f64; BLOCK + LANES],
    /// Each term with the three after it; behind a block 0 as well.
    fours: [f64; BLOCK + LANES],
}

impl Default for Recursion {
    fn default() -> Self {
        Self { numbers: [0.0; BLOCK + LANES], fours: [0.0; BLOCK + LANES] }
    }
}

impl Recursion {
    /// The numbers of a block of so many tokens, in order: terms before [`run`](Self::run), and what they come to after it.
    #[inline(always)]
    pub fn numbers(&mut self, count: usize) -> &mut [f64] {
        &mut self.numbers[BLOCK - count..BLOCK]
    }

    /// From the last of so many tokens to the first, each term becomes `x_t + c A_{t+1}`; behind the last is nothing.
    ///
    /// With `w_t = x_t + c x_{t+1} + ... + c^7 x_{t+7}` it is `A_t = w_t + c^8 A_{t+8}`: eight recursions that do not wait
    /// for each other.
    #[inline(always)]
    pub fn run(&mut self, count: usize, c: f64) {
        let (c2, c4) = (c * c, (c * c) * (c * c));
        let c8 = c4 * c4;
        // Whole vectors: what stands before the block is computed and never read.
        let start = (BLOCK - count) / LANES * LANES;
        let [x, x1, x2, x3] = [0, 1, 2, 3].map(|ahead| &self.numbers[start + ahead..BLOCK + ahead]);
        for ((((four, x), x1), x2), x3) in self.fours[start..BLOCK].iter_mut().zip(x).zip(x1).zip(x2).zip(x3) {
            *four = (x + c * x1) + c2 * (x2 + c * x3);
        }
        let mut lanes = [0.0; LANES];
        let (windows, _) = self.fours[start..BLOCK].as_chunks::<LANES>();
        let (after, _) = self.fours[start + LANES / 2..BLOCK + LANES / 2].as_chunks::<LANES>();
        let (out, _) = self.numbers[start..BLOCK].as_chunks_mut::<LANES>();
        for ((out, window), after) in out.iter_mut().zip(windows).zip(after).rev() {
            for ((lane, window), after) in lanes.iter_mut().zip(window).zip(after) {
                *lane = (window + c4 * after) + c8 * *lane;
            }
            *out = lanes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_plain_recursion_for_every_length() {
        let mut recursion = Recursion::default();
        for c in [0.0, 0.5, 1.0] {
            for count in 1..=BLOCK {
                let terms: Vec<f64> = (0..count).map(|i| ((i * i + count) % 17) as f64 - 8.0).collect();
                recursion.numbers(count).copy_from_slice(&terms);
                recursion.run(count, c);
                let mut expected = 0.0;
                for (term, found) in terms.iter().zip(recursion.numbers(count)).rev() {
                    expected = term + c * expected;
                    assert!((*found - expected).abs() < 1e-12, "{c} {count}: {found} and not {expected}");
                }
            }
        }
    }
}
