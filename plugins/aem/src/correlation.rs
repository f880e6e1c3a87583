//! Pearson's correlation.

/// The correlation of the first with the second numbers; none where either does not vary.
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - x_mean, y - y_mean);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    let product = xx.sqrt() * yy.sqrt();
    (product > 0.0).then(|| (xy / product).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_by_hand() {
        let check = |pairs: &[(f64, f64)], expected: f64| {
            let found = pearson(pairs).unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} and not {expected}");
        };
        check(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)], 1.0);
        check(&[(0.0, 5.0), (1.0, 3.0)], -1.0);
        check(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)], 0.5);
        assert_eq!(pearson(&[(1.0, 1.0), (1.0, 3.0)]), None);
        assert_eq!(pearson(&[]), None);
    }
}
