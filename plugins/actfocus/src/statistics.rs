//! Mean and deviation of many numbers in linear time, the same in every bit for every order of the numbers.

/// Mean, and root of the population variance plus `eps`; none without a number. NaN and infinite numbers give NaN.
///
/// Sums are taken over integers: each number is rounded to a multiple of a power of two, 2^-39 or less of the largest
/// of them, and integers add up without rounding, so that the order does not matter.
pub fn mean_and_sigma(values: &[f32], eps: f64) -> Option<(f64, f64)> {
    let first = *values.first()?;
    let count = values.len() as f64;
    // Decided by comparing: a mean of equal numbers may round.
    if values.iter().all(|value| *value == first) {
        return Some((f64::from(first), eps.sqrt()));
    }
    let mean = sum(values.iter().map(|value| f64::from(*value))) / count;
    let squares = sum(values.iter().map(|value| {
        let distance = f64::from(*value) - mean;
        distance * distance
    }));
    Some((mean, (squares / count + eps).sqrt()))
}

/// The sum, whatever the order.
fn sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let mut largest = 0.0_f64;
    for value in values.clone() {
        if !value.is_finite() {
            return f64::NAN;
        }
        largest = largest.max(value.abs());
    }
    if largest < f64::MIN_POSITIVE {
        return 0.0;
    }
    // The power of two in the largest number; times `scale` it becomes 2^39.
    let exponent = (largest.to_bits() >> 52) as i32 - 1023;
    let scale = 2.0_f64.powi(39 - exponent);
    let total: i128 = values.map(|value| i128::from((value * scale).round_ties_even() as i64)).sum();
    total as f64 / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        assert_eq!(mean_and_sigma(&[], 1e-8), None);
        assert_eq!(mean_and_sigma(&[3.0, 5.0], 0.0), Some((4.0, 1.0)));
        assert_eq!(mean_and_sigma(&[-7.1; 11], 0.25), Some((f64::from(-7.1_f32), 0.5)));
        assert_eq!(mean_and_sigma(&[0.0, -0.0], 1.0), Some((0.0, 1.0)));
        let (mean, sigma) = mean_and_sigma(&[1.0, f32::NAN], 1e-8).unwrap();
        assert!(mean.is_nan() && sigma.is_nan());
    }

    #[test]
    fn small_numbers_beside_a_large_one_and_tiny_ones_alone() {
        let (mean, _) = mean_and_sigma(&[1e6, 0.1, 0.2], 0.0).unwrap();
        assert!((mean - 1_000_000.3 / 3.0).abs() < 1e-5);
        let (mean, sigma) = mean_and_sigma(&[1e-30, 3e-30], 0.0).unwrap();
        assert!((mean / 2e-30 - 1.0).abs() < 1e-6 && (sigma / 1e-30 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn order_changes_no_bit() {
        let values: Vec<f32> = (0..1000).map(|i| -15.0 + 7.0 * (i as f32).sin()).collect();
        let mut turned = values.clone();
        turned.reverse();
        turned.rotate_left(137);
        assert_eq!(mean_and_sigma(&values, 1e-8), mean_and_sigma(&turned, 1e-8));
        let plain = values.iter().map(|v| f64::from(*v)).sum::<f64>() / 1000.0;
        assert!((mean_and_sigma(&values, 1e-8).unwrap().0 - plain).abs() < 1e-10);
    }
}
