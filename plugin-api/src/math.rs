//! Exponentials, logarithms and sums over many numbers at once: code that the compiler turns into vector instructions,
//! with the same bits on every machine.
//!
//! The standard library's `exp` and `ln` are a call per number. The ones here are short straight lines of additions,
//! multiplications and bit operations, so that a loop over them becomes a loop over vectors. No operation is fused and
//! none is reordered: a vector's element is exactly what the scalar code gives.
//!
//! What becomes a column of 32 bits can be computed in 32 bits: [`exp_f32`] is twice to three times as fast as [`exp`]. Sums
//! are in 64 bits whatever they are of.
//!
//! Four things keep a loop from becoming one over vectors, or make it slow: a jump in it, so choose between two numbers and
//! not between two ways; a conditional store (`if c { out[i] = x }`, also as `out[i] = if c { x } else { out[i] }`), so
//! choose a factor; one sum of floats that runs along, so write into a block and give it to [`sum`] or [`SumF32`]; and a
//! short length that the compiler knows, which it takes apart into single numbers where vectors have masks.
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

/// Runs a loop compiled for the processor's widest vectors: of 512, 256 or 128 bits. Its result is the same in every bit on a
/// processor without them.
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        // Without fused multiply-add: it would round once where other processors round twice.
        #[target_feature(enable = "avx2")]
        fn wide<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn widest<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { widest(kernel) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the same.
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

/// Above this `e^x` is infinite in 32 bits.
const HIGHEST_F32: f32 = 88.722_83;

/// `e^r - 1` and `2^(n - 1)`, where `x = n ln 2 + r` as in [`exp`], with a polynomial of degree 6 (relative error 1e-8).
#[inline(always)]
fn parts_of_exp_f32(x: f32) -> (f32, f32) {
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let r2 = r * r;
    let low = 0.5 + 0.166_665_77 * r;
    let high = (0.041_666_555 + 0.008_363_179 * r) + 0.001_392_618_4 * r2;
    (r + r2 * (low + r2 * high), f32::from_bits(shifted.to_bits().wrapping_add(126) << 23))
}

/// `e^x` in 32 bits, to within 1 ulp of the exact value. Above 88.72 it is infinite; below -86.6, where the result is under
/// 3e-38, it is 0; NaN stays NaN.
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    const LOWEST: f32 = -86.6;
    let (less_one, half_scale) = parts_of_exp_f32(x);
    let result = (1.0 + less_one) * half_scale * 2.0;
    let result = if x < LOWEST { 0.0 } else { result };
    if x > HIGHEST_F32 { f32::INFINITY } else { result }
}

/// `e^x - 1` in 32 bits, to within 2 ulp of the exact value however small `x` is, if the result is a normal number. Above
/// 88.72 it is infinite; NaN stays NaN.
#[inline(always)]
pub fn exp_m1_f32(x: f32) -> f32 {
    const LOWEST: f32 = -80.0;
    let (less_one, half_scale) = parts_of_exp_f32(x);
    // The last two terms are exact, and 0 where `n` is.
    let result = (less_one * half_scale + (half_scale - 0.5)) * 2.0;
    let result = if x < LOWEST { -1.0 } else { result };
    if x > HIGHEST_F32 { f32::INFINITY } else { result }
}

/// `ln(1 + x)` in 32 bits, to within 3 ulp of the exact value however small `x` is. Of -1 it is minus infinity, of less NaN;
/// infinity and NaN stay.
///
/// `1 + x = 2^n (1 + f)` as in [`ln`]; where `n` is 0, `f` is `x` itself, and what the sum lost does not matter. Then
/// `ln(1 + f) = f - f^2 / 2 + f^3 R(f)`, `R` of degree 8 (Chebyshev interpolation, error 3e-8).
#[inline(always)]
pub fn ln_1p_f32(x: f32) -> f32 {
    const ROOT: u32 = 0x3f35_04f3;
    const MANTISSA: u32 = (1 << 23) - 1;
    // In the lowest bits of 2^23 an integer is its own number.
    const INTEGER: f32 = 8_388_608.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bits = (1.0 + x).to_bits();
    // Above 0 for every number: 200 is taken off again.
    let offset = bits.wrapping_sub(ROOT).wrapping_add(200 << 23);
    let n = (f32::from_bits((offset >> 23) | INTEGER.to_bits()) - INTEGER) - 200.0;
    let m = f32::from_bits((bits.wrapping_sub(ROOT) & MANTISSA).wrapping_add(ROOT));
    let f = if n == 0.0 { x } else { m - 1.0 };
    let (f2, f4) = (f * f, (f * f) * (f * f));
    let low = (0.333_333_3 - 0.249_999_97 * f) + f2 * (0.200_007_16 - 0.166_678_02 * f);
    let middle = (0.142_490_58 - 0.124_256_87 * f) + f2 * (0.116_854_2 - 0.114_797_34 * f);
    let series = low + f4 * (middle + f4 * 0.069_716_11);
    let tail = n * LN_2_LOW - f2 * (0.5 - f * series);
    let result = n * LN_2_HIGH + (f + tail);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == -1.0 { f32::NEG_INFINITY } else { result };
    if (x < -1.0) | x.is_nan() { f32::NAN } else { result }
}

/// The natural logarithm to within 1 ulp of the exact value. Of 0 it is minus infinity, of a negative number NaN; infinity
/// and NaN stay.
///
/// `x = 2^n m` with `m` between the roots of 1/2 and 2; then `ln m = 2 artanh(s)` with `s = (m - 1) / (m + 1)`, whose series
/// in `s^2` is cut to a polynomial (Chebyshev interpolation, relative error 5e-18).
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    // The root of 1/2 as bits, so that what lies between it and the root of 2 has an exponent of 0.
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    const MANTISSA: u64 = (1 << 52) - 1;
    // In the lowest bits of 2^52 an integer is its own number.
    const INTEGER: f64 = 4_503_599_627_370_496.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Numbers with few bits are made larger first.
    let small = x < f64::MIN_POSITIVE;
    let bits = (if small { x * 18_014_398_509_481_984.0 } else { x }).to_bits();
    // Above 0 for every number: 2000 is taken off again.
    let offset = bits.wrapping_sub(ROOT).wrapping_add(2000 << 52);
    let exponent = f64::from_bits((offset >> 52) | INTEGER.to_bits()) - INTEGER;
    let n = exponent - if small { 2054.0 } else { 2000.0 };
    let m = f64::from_bits((bits.wrapping_sub(ROOT) & MANTISSA).wrapping_add(ROOT));
    let f = m - 1.0;
    let s = f / (m + 1.0);
    let (s2, s4) = (s * s, (s * s) * (s * s));
    let low = 0.666_666_666_666_667 + 0.399_999_999_998_994_4 * s2;
    let middle = 0.285_714_286_260_032_7 + 0.222_222_111_302_598_77 * s2;
    let high = (0.181_828_894_556_749_46 + 0.153_317_106_182_107_72 * s2) + 0.146_165_854_248_886_22 * s4;
    // 2 s is f - s f: what the quotient's rounding lost is a small part of it.
    let tail = s2 * ((low + s4 * middle) + (s4 * s4) * high);
    let half = 0.5 * f * f;
    let result = n * LN_2_HIGH - ((half - (s * (half + tail) + n * LN_2_LOW)) - f);
    let result = if x == f64::INFINITY { x } else { result };
    let result = if x == 0.0 { f64::NEG_INFINITY } else { result };
    if (x < 0.0) | x.is_nan() { f64::NAN } else { result }
}

/// `1 / (1 + e^-x)`, between 0 and 1, with a relative error below 1e-15.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// [`sigmoid`] in 32 bits, with a relative error below 3e-7.
#[inline(always)]
pub fn sigmoid_f32(x: f32) -> f32 {
    1.0 / (1.0 + exp_f32(-x))
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
    // One after the other: where they are added in pairs, the compiler makes the loop one over pairs.
    parts.iter().chain(rest).sum()
}

/// The sum of numbers of 32 bits in 64, in sixteen parts that are added at the end: the same for the same numbers in the
/// same order.
#[inline(always)]
pub fn sum_f32(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut parts = [0.0; 16];
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += f64::from(*value);
        }
    }
    parts.iter().sum::<f64>() + rest.iter().map(|value| f64::from(*value)).sum::<f64>()
}

/// A sum of numbers of 32 bits that come in blocks: in 64 bits, and in sixteen parts that are added when all are there. For
/// short blocks that is much faster than the sum of each.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumF32 {
    parts: [f64; 16],
}

impl SumF32 {
    /// Adds a block.
    #[inline(always)]
    pub fn add(&mut self, values: &[f32]) {
        let (chunks, rest) = values.as_chunks::<16>();
        for chunk in chunks {
            for (part, value) in self.parts.iter_mut().zip(chunk) {
                *part += f64::from(*value);
            }
        }
        for (part, value) in self.parts.iter_mut().zip(rest) {
            *part += f64::from(*value);
        }
    }

    /// The sum of all blocks.
    #[inline(always)]
    pub fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// [`sum_f32`] with the widest vectors.
pub fn sum_f32_all(values: &[f32]) -> f64 {
    struct Sum<'a>(&'a [f32]);
    impl Kernel for Sum<'_> {
        type Output = f64;
        #[inline(always)]
        fn run(self) -> f64 {
            sum_f32(self.0)
        }
    }
    run(Sum(values))
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
    fn in_32_bits_it_is_the_rounded_exact_value_or_its_neighbour() {
        for (low, high) in [(-1.0, 1.0), (-20.0, 20.0), (-86.5, 88.7), (-1e-6, 1e-6)] {
            for x in over(low, high) {
                let x = x as f32;
                let exact = f64::from(x).exp() as f32;
                assert!(exp_f32(x).to_bits().abs_diff(exact.to_bits()) <= 1, "{x:?}: {:?} and {exact:?}", exp_f32(x));
                let expected = 1.0 / (1.0 + (-f64::from(x)).exp());
                assert!((f64::from(sigmoid_f32(x)) - expected).abs() <= 3e-7 * expected, "{x:?}");
            }
        }
    }

    #[test]
    fn near_0_nothing_of_32_bits_is_lost() {
        let close = |found: f32, exact: f64, most: u32, x: f32| {
            let exact = exact as f32;
            assert!(found.to_bits().abs_diff(exact.to_bits()) <= most, "{x:?}: {found:?} and {exact:?}");
        };
        for (low, high) in [(-1.0, 1.0), (-90.0, 88.7), (-1e-4, 1e-4), (-0.36, -0.34), (0.34, 0.36)] {
            over(low, high).map(|x| x as f32).for_each(|x| close(exp_m1_f32(x), f64::from(x).exp_m1(), 2, x));
        }
        for (low, high) in [(-0.999_999, 1.0), (-1e-4, 1e-4), (-0.5, -0.28), (0.4, 0.5), (0.0, 1e6)] {
            over(low, high).map(|x| x as f32).for_each(|x| close(ln_1p_f32(x), f64::from(x).ln_1p(), 3, x));
        }
        // Both signs of every size.
        for x in over(-120.0, 60.0).flat_map(|exponent| [exponent.exp2() as f32, -exponent.exp2() as f32]) {
            if x < 88.0 {
                close(exp_m1_f32(x), f64::from(x).exp_m1(), 2, x);
            }
            if x > -1.0 {
                close(ln_1p_f32(x), f64::from(x).ln_1p(), 3, x);
            }
        }
        let ends = [0.0, f32::INFINITY, f32::NEG_INFINITY, 89.0].map(exp_m1_f32);
        assert_eq!(ends, [0.0, f32::INFINITY, -1.0, f32::INFINITY]);
        assert_eq!([0.0, f32::INFINITY, -1.0].map(ln_1p_f32), [0.0, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(
            [-1.5, f32::NEG_INFINITY, f32::NAN].iter().all(|x| ln_1p_f32(*x).is_nan()) && exp_m1_f32(f32::NAN).is_nan()
        );
    }

    #[test]
    fn a_logarithm_is_the_standard_library_s_within_its_rounding() {
        let check = |x: f64| assert!(ulps(ln(x), x.ln()) <= 1, "{x:?}: {:?} and {:?}", ln(x), x.ln());
        for (low, high) in [(0.5, 2.0), (0.999, 1.001), (1e-9, 1.0), (1.0, 1e9)] {
            over(low, high).for_each(check);
        }
        over(-1070.0, 1020.0).for_each(|exponent| check(exponent.exp2()));
        for (x, expected) in [(0.0, f64::NEG_INFINITY), (-0.0, f64::NEG_INFINITY), (f64::INFINITY, f64::INFINITY)] {
            assert_eq!(ln(x), expected);
        }
        assert_eq!(ln(1.0).to_bits(), 0.0_f64.to_bits());
        assert!([-1.0, f64::NEG_INFINITY, f64::NAN].iter().all(|x| ln(*x).is_nan()));
    }

    #[test]
    fn the_ends_are_defined() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!((exp(710.0), exp(f64::INFINITY)), (f64::INFINITY, f64::INFINITY));
        assert_eq!((exp(-708.0), exp(f64::NEG_INFINITY)), (0.0, 0.0));
        assert!(exp(709.7).is_finite() && exp(-707.0) > 0.0);
        assert!(exp(f64::NAN).is_nan() && sigmoid(f64::NAN).is_nan());
        assert_eq!((exp_f32(0.0), exp_f32(f32::INFINITY), exp_f32(f32::NEG_INFINITY)), (1.0, f32::INFINITY, 0.0));
        assert_eq!((exp_f32(88.8), exp_f32(-87.0)), (f32::INFINITY, 0.0));
        assert!(exp_f32(88.7).is_finite() && exp_f32(-86.5) > 0.0 && exp_f32(f32::NAN).is_nan());
        assert_eq!((sigmoid_f32(f32::NEG_INFINITY), sigmoid_f32(0.0), sigmoid_f32(f32::INFINITY)), (0.0, 0.5, 1.0));
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
            let single: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            assert_eq!(sum_f32(&single), values.iter().sum::<f64>());
            assert_eq!(sum_f32_all(&single), sum_f32(&single));
            let mut blocks = SumF32::default();
            single.chunks(7).for_each(|block| blocks.add(block));
            assert_eq!(blocks.total(), values.iter().sum::<f64>());
        }
    }
}
