//! Exponentials over many numbers at once: code that the compiler turns into vector instructions, with the same bits on
//! every machine.
//!
//! The standard library's `exp` is a call per number. The ones here are short straight lines of additions,
//! multiplications and bit operations, so that a loop over them becomes a loop over vectors. No operation is fused and
//! none is reordered: a vector's element is exactly what the scalar code gives.
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

/// A loop that runs with the widest vectors that this processor and this crate know; see [`run`].
///
/// The loop stands in [`run`](Self::run), marked `#[inline(always)]` as everything that it calls, so that all of it is
/// compiled for those vectors.
///
/// ```
/// use accredit_plugin_api::math::{self, Kernel};
///
/// struct Ratios<'a>(&'a mut [f64]);
///
/// impl Kernel for Ratios<'_> {
///     type Output = ();
///
///     #[inline(always)]
///     fn run(self) {
///         for log_ratio in self.0 {
///             *log_ratio = math::exp(*log_ratio);
///         }
///     }
/// }
///
/// let mut ratios = [0.0; 1000];
/// math::run(Ratios(&mut ratios));
/// assert_eq!(ratios, [1.0; 1000]);
/// ```
pub trait Kernel {
    /// What the loop gives.
    type Output;

    /// The loop.
    fn run(self) -> Self::Output;
}

/// Runs a loop compiled for the processor's widest vectors. Its result is the same in every bit on a processor without
/// them.
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        // Without fused multiply-add: it would round once where other processors round twice.
        #[target_feature(enable = "avx2")]
        fn wide<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { wide(kernel) };
        }
    }
    kernel.run()
}

/// `e^x` to within 1 ulp of the exact value. Above 709.78 it is infinite; below -707.7, where the result is under
/// 5e-308, it is 0; NaN stays NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln(2) / 2`, and `e^r` is a polynomial of degree 11 (Chebyshev interpolation, relative
/// error 2e-17) that is put together in pairs.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    // Adding and taking off 1.5 * 2^52 rounds to an integer, which then stands in the lowest bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LOWEST: f64 = -707.7;
    const HIGHEST: f64 = 709.782_712_893_384;
    // ln 2 in two parts; the first has so few bits that its product with n is exact.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let low = (0.500_000_000_000_000_1 + 0.166_666_666_666_666_69 * r)
        + r2 * (0.041_666_666_666_624_13 + 0.008_333_333_333_330_062 * r);
    let middle = (0.001_388_888_891_721_371_7 + 0.000_198_412_698_630_536_18 * r)
        + r2 * (2.480_152_129_595_437_6e-5 + 2.755_726_845_999_706_4e-6 * r);
    let high = 2.762_008_844_540_974_6e-7 + 2.510_038_549_551_032e-8 * r;
    let power = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)));
    // 2^(n - 1) is a number for every n up to 1024, and the last factor of 2 is exact.
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1022) << 52);
    let result = power * scale * 2.0;
    let result = if x < LOWEST { 0.0 } else { result };
    if x > HIGHEST { f64::INFINITY } else { result }
}

/// `1 / (1 + e^-x)`, between 0 and 1, with a relative error below 1e-15.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// The sum, in eight parts that are added at the end: fast, and the same for the same numbers in the same order.
#[inline(always)]
pub fn sum(values: &[f64]) -> f64 {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut parts = [0.0; 8];
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = parts;
    let mut total = ((a + e) + (c + g)) + ((b + f) + (d + h));
    for value in rest {
        total += value;
    }
    total
}

/// [`exp`] of every element, in place.
pub fn exp_all(values: &mut [f64]) {
    struct Exp<'a>(&'a mut [f64]);
    impl Kernel for Exp<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for value in self.0 {
                *value = exp(*value);
            }
        }
    }
    run(Exp(values));
}

/// [`sigmoid`] of every element, in place.
pub fn sigmoid_all(values: &mut [f64]) {
    struct Sigmoid<'a>(&'a mut [f64]);
    impl Kernel for Sigmoid<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for value in self.0 {
                *value = sigmoid(*value);
            }
        }
    }
    run(Sigmoid(values));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many numbers lie between two.
    fn ulps(a: f64, b: f64) -> u64 {
        a.to_bits().abs_diff(b.to_bits())
    }

    /// Numbers over a range, none of them round.
    fn over(low: f64, high: f64) -> impl Iterator<Item = f64> {
        let count = 200_003;
        (0..=count).map(move |i| low + (high - low) * f64::from(i) / f64::from(count))
    }

    #[test]
    fn it_is_the_standard_library_s_within_its_rounding() {
        for (low, high) in [(-1.0, 1.0), (-20.0, 20.0), (-707.6, 709.78), (-1e-9, 1e-9)] {
            for x in over(low, high) {
                assert!(ulps(exp(x), x.exp()) <= 1, "{x:?}: {:?} and {:?}", exp(x), x.exp());
            }
        }
    }

    #[test]
    fn the_ends_are_defined() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!((exp(710.0), exp(f64::INFINITY)), (f64::INFINITY, f64::INFINITY));
        assert_eq!((exp(-708.0), exp(f64::NEG_INFINITY)), (0.0, 0.0));
        assert!(exp(709.7).is_finite() && exp(-707.0) > 0.0);
        assert!(exp(f64::NAN).is_nan() && sigmoid(f64::NAN).is_nan());
        assert_eq!((sigmoid(f64::NEG_INFINITY), sigmoid(0.0), sigmoid(f64::INFINITY)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn a_sigmoid_is_the_standard_library_s_within_its_rounding() {
        for x in over(-40.0, 40.0) {
            let expected = 1.0 / (1.0 + (-x).exp());
            assert!((sigmoid(x) - expected).abs() < 1e-15 * expected, "{x:?}");
        }
    }

    #[test]
    fn a_slice_has_the_bits_of_its_elements() {
        let values: Vec<f64> = over(-30.0, 30.0).take(1003).collect();
        let (mut powers, mut shares) = (values.clone(), values.clone());
        exp_all(&mut powers);
        sigmoid_all(&mut shares);
        for (i, value) in values.iter().enumerate() {
            assert_eq!(powers[i].to_bits(), exp(*value).to_bits());
            assert_eq!(shares[i].to_bits(), sigmoid(*value).to_bits());
        }
    }

    #[test]
    fn sums_of_any_length() {
        for count in 0..40_u32 {
            let values: Vec<f64> = (0..count).map(f64::from).collect();
            assert_eq!(sum(&values), values.iter().sum::<f64>());
        }
    }
}
