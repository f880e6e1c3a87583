//! Means with their uncertainty.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean and half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean; NaN of nothing.
    pub mean: f64,
    /// Half the width of Student's interval; NaN of fewer than two numbers.
    pub half: f64,
}

impl Interval {
    /// Of these numbers, one for each seed.
    pub fn of(numbers: &[f64]) -> Self {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // The only error is a number of degrees of freedom below 1, of which there is no interval.
        let quantile = StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::NAN, |t| t.inverse_cdf(0.975));
        Self { mean, half: quantile * (variance / count).sqrt() }
    }

    /// As per cent with one decimal.
    pub fn percent(self) -> String {
        Self { mean: 100.0 * self.mean, half: 100.0 * self.half }.decimals(1)
    }

    fn decimals(self, decimals: usize) -> String {
        if self.mean.is_nan() {
            "-".to_owned()
        } else if self.half.is_nan() {
            format!("{:.decimals$}", self.mean)
        } else {
            format!("{:.decimals$} ± {:.decimals$}", self.mean, self.half)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_numbers_have_student_s_interval() {
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // t(0.975, 4) = 2.776445, s = sqrt(2.5).
        assert!((interval.mean - 3.0).abs() < 1e-12 && (interval.half - 1.963_243).abs() < 1e-5, "{interval:?}");
        assert_eq!(Interval::of(&[0.25, 0.75]).percent(), "50.0 ± 317.7");
    }

    #[test]
    fn one_number_has_no_interval_and_none_has_no_mean() {
        assert_eq!(Interval::of(&[0.5]).percent(), "50.0");
        assert_eq!(Interval::of(&[]).percent(), "-");
    }
}
