//! Functions that are 0 with their first derivative at 0, in 32 bits: divergences are sums of them, and what differences of
//! logarithms would lose where two distributions are close is not lost.
//!
//! Near 0 each is the square of its argument times a polynomial (Chebyshev interpolation, error below 2e-8); farther away
//! the plain formula loses a factor of 4 at most.

/// How near 0 the polynomials of exponentials reach.
const NEAR: f32 = -0.7;
/// How near 0 that of the logarithm reaches.
const NEAR_LOG: f32 = -0.5;

/// `(1 + y) ln(1 + y) - y` for `-1 < y <= 0`, where `log` is `ln(1 + y)`.
#[inline(always)]
pub fn entropy_gap(y: f32, log: f32) -> f32 {
    let (y2, y4) = (y * y, (y * y) * (y * y));
    let low = (0.5 - 0.166_669_23 * y) + y2 * (0.083_227_67 - 0.051_635_705 * y);
    let high = (0.021_164_932 - 0.071_329_44 * y) - y2 * (0.078_593_97 + 0.100_584_51 * y);
    let near = y2 * (low + y4 * high);
    let far = (1.0 + y) * log - y;
    if y > NEAR_LOG { near } else { far }
}

/// `a e^a - (e^a - 1)` for `a <= 0`, where `power` is `e^a` and `power_less_one` is `e^a - 1`.
#[inline(always)]
pub fn forward_gap(a: f32, power: f32, power_less_one: f32) -> f32 {
    let (a2, a4) = (a * a, (a * a) * (a * a));
    let low = (0.5 + 0.333_332_54 * a) + a2 * (0.124_986_75 + 0.033_251_48 * a);
    let near = a2 * (low + a4 * (0.006_713_021 + 0.000_880_058_2 * a));
    let far = a * power - power_less_one;
    if a > NEAR { near } else { far }
}

/// `e^a - 1 - a` for `a <= 0`, where `power_less_one` is `e^a - 1`.
#[inline(always)]
pub fn backward_gap(a: f32, power_less_one: f32) -> f32 {
    let (a2, a4) = (a * a, (a * a) * (a * a));
    let low = (0.5 + 0.166_666_55 * a) + a2 * (0.041_664_71 + 0.008_321_283 * a);
    let near = a2 * (low + a4 * (0.001_354_932 + 0.000_153_185_1 * a));
    let far = power_less_one - a;
    if a > NEAR { near } else { far }
}

#[cfg(test)]
mod tests {
    use accredit_plugin_api::math;

    use super::*;

    #[test]
    fn they_are_the_exact_values_however_small_the_argument_is() {
        // Series where plain formulas lose digits of 64 bits as well.
        let exact = |x: f64, plain: f64, term: &dyn Fn(f64) -> f64| {
            let series = || (2..12).map(|k| term(f64::from(k)) * x.powi(k)).sum();
            if x > -0.01 { series() } else { plain }
        };
        let factorial = |k: f64| (2..=k as u32).map(f64::from).product::<f64>();
        for i in 0..200_000 {
            let rounded = -(2.0_f64.powf(6.0 - f64::from(i) / 4000.0) as f32);
            let x = f64::from(rounded);
            let check = |name: &str, found: f32, exact: f64| {
                assert!((f64::from(found) - exact).abs() <= 1e-6 * exact, "{name} of {x:?}: {found:?} and {exact:?}");
            };
            let (power, less_one) = (math::exp_f32(rounded), math::exp_m1_f32(rounded));
            let forward = exact(x, x * x.exp() - x.exp_m1(), &|k| (k - 1.0) / factorial(k));
            check("forward", forward_gap(rounded, power, less_one), forward);
            let backward = exact(x, x.exp_m1() - x, &|k| 1.0 / factorial(k));
            check("backward", backward_gap(rounded, less_one), backward);
            if x > -1.0 {
                let entropy = exact(x, (1.0 + x) * x.ln_1p() - x, &|k| (-1.0_f64).powf(k) / (k * (k - 1.0)));
                check("entropy", entropy_gap(rounded, math::ln_1p_f32(rounded)), entropy);
            }
        }
    }
}
