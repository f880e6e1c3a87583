//! A sum that the compiler can vectorise.

/// How many sums run beside each other.
const LANES: usize = 8;

/// The sum in 64 bits. Its order is fixed, so that equal slices have equal sums; one accumulator would wait for itself
/// at every element.
pub fn sum(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0_f64; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*value);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|value| f64::from(*value)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_added_once() {
        for length in [0, 1, 7, 8, 9, 16, 31] {
            let values: Vec<f32> = (1..=length).map(|value| value as f32).collect();
            assert_eq!(sum(&values), f64::from(length * (length + 1) / 2), "{length}");
        }
    }
}
