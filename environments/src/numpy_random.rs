//! NumPy's `Generator(PCG64(SeedSequence(seed)))`, bit for bit, so that a seed gives the same task as an environment
//! that was written for NumPy. PCG64 is XSL-RR 128/64 of O'Neill, "PCG: A Family of Simple Fast Space-Efficient
//! Statistically Good Algorithms" (2014); bounded integers follow Lemire, "Fast Random Integer Generation in an
//! Interval" (2019); the seeding is NumPy's own.

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Pcg64 {
    state: u128,
    increment: u128,
    /// The high half of the last 64 bits, if only the low half was used.
    half: Option<u32>,
}

impl Pcg64 {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_sequence(seed);
        let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let increment = wide(c, d) << 1 | 1;
        let mut stream = Self { state: 0, increment, half: None };
        stream.advance();
        stream.state = stream.state.wrapping_add(wide(a, b));
        stream.advance();
        stream
    }

    fn advance(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn bits64(&mut self) -> u64 {
        self.advance();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn bits32(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let bits = self.bits64();
            self.half = Some((bits >> 32) as u32);
            bits as u32
        })
    }

    /// A number in `[0, 1)`: `Generator.random()`.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.bits64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `0..n`: `Generator.integers(n)`. `n` must be at least 2; NumPy draws nothing for 1.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        let mut product = u64::from(self.bits32()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.bits32()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// Whether the first of two things with these probabilities is drawn: `Generator.choice(2, p=p) == 0`.
    pub(crate) fn is_first(&mut self, p: [f64; 2]) -> bool {
        self.uniform() < p[0] / (p[0] + p[1])
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`: a pool of four words that the seed's words are hashed into, and eight
/// words hashed out of it.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut constant: u32 = 0x43B0_D7E5;
    let mut hash = |mut word: u32| {
        word ^= constant;
        constant = constant.wrapping_mul(0x931E_8875);
        word = word.wrapping_mul(constant);
        word ^ word >> 16
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hash);
    for source in 0..4 {
        for target in (0..4).filter(|target| *target != source) {
            let hashed = hash(pool[source]).wrapping_mul(0x4973_F715);
            let mixed = pool[target].wrapping_mul(0xCA01_F9DD).wrapping_sub(hashed);
            pool[target] = mixed ^ mixed >> 16;
        }
    }
    let mut constant: u32 = 0x8B51_F9DD;
    let mut next = |i: usize| {
        let mut word = pool[i % 4] ^ constant;
        constant = constant.wrapping_mul(0x58F3_8DED);
        word = word.wrapping_mul(constant);
        u64::from(word ^ word >> 16)
    };
    std::array::from_fn(|i| next(2 * i) | next(2 * i + 1) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three uniform numbers, five below 4, four below 3, a uniform number (which leaves the kept half in place), one
    /// below 4, four below three billion (a quarter of the draws is rejected), twelve choices with p = 0.9: as NumPy
    /// draws them.
    fn check(seed: u64, uniform: [f64; 4], below: [u32; 10], wide: [u32; 4], not_first: &[usize]) {
        let mut stream = Pcg64::new(seed);
        for expected in &uniform[..3] {
            assert_eq!(stream.uniform(), *expected);
        }
        for (i, expected) in below[..9].iter().enumerate() {
            assert_eq!(stream.below(if i < 5 { 4 } else { 3 }), *expected);
        }
        assert_eq!(stream.uniform(), uniform[3]);
        assert_eq!(stream.below(4), below[9]);
        assert_eq!([(); 4].map(|()| stream.below(3_000_000_000)), wide);
        let drawn: Vec<usize> = (0..12).filter(|_| !stream.is_first([0.9, 1.0 - 0.9])).collect();
        assert_eq!(drawn, not_first);
    }

    #[test]
    fn streams_are_numpys() {
        check(
            0,
            [0.636_961_687_321_454_3, 0.269_786_713_763_870_3, 0.040_973_523_936_194_69, 0.543_624_991_465_422_9],
            [0, 0, 0, 3, 2, 2, 1, 1, 2, 2],
            [1_679_752_336, 2_805_217_270, 832_041_137, 2_012_629_631],
            &[],
        );
        check(
            7,
            [0.625_095_466_604_667, 0.897_213_800_969_575_5, 0.775_685_690_245_193_5, 0.797_069_428_752_046_2],
            [3, 0, 0, 1, 1, 2, 2, 0, 1, 3],
            [357_248_984, 1_403_804_858, 2_449_395_468, 909_097_279],
            &[5, 8],
        );
        check(
            (1 << 40) + 5,
            [0.004_739_459_374_490_829, 0.372_584_582_411_211_5, 0.587_229_426_697_770_1, 0.728_500_908_504_847_4],
            [3, 0, 0, 1, 3, 2, 0, 1, 0, 0],
            [1_655_804_756, 528_047_470, 1_698_500_490, 127_900_530],
            &[7],
        );
    }
}
