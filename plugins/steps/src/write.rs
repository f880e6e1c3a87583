//! From an advantage per step to one per token, and what the advantages look like.

use accredit_plugin_api::prelude::*;

/// The advantage of each step, collected before it is written.
#[derive(Clone, Debug, Default)]
pub struct StepAdvantages {
    /// By the step's index in the batch.
    pub of_step: Vec<f64>,
    /// Those of steps with a response, for the quartiles.
    counted: Vec<f64>,
}

impl StepAdvantages {
    /// Starts a batch: 0 for every step.
    pub fn reset(&mut self, steps: usize) {
        self.of_step.clear();
        self.of_step.resize(steps, 0.0);
    }

    /// Writes each step's advantage on all its tokens, and pushes how they spread over the steps that have a response:
    /// `advantage_iqr`, the distance between their quartiles (linear between neighbours), and `advantage_above_one`, the
    /// share whose size is above 1.
    pub fn write(&mut self, batch: &Batch<'_>, out: &mut [f32], host: &Host) {
        self.counted.clear();
        let mut above_one = 0_u32;
        for step in batch.steps().filter(|step| !step.tokens().is_empty()) {
            let advantage = self.of_step[step.index()];
            out[step.tokens()].fill(advantage as f32);
            self.counted.push(advantage);
            above_one += u32::from(advantage.abs() > 1.0);
        }
        if self.counted.is_empty() {
            return;
        }
        let iqr = quantile(&mut self.counted, 0.75) - quantile(&mut self.counted, 0.25);
        host.metric("advantage_iqr", iqr);
        host.metric("advantage_above_one", f64::from(above_one) / self.counted.len() as f64);
    }
}

/// The quantile of numbers, of which there is at least one; it changes their order.
fn quantile(numbers: &mut [f64], share: f64) -> f64 {
    let place = share * (numbers.len() - 1) as f64;
    let (_, below, above) = numbers.select_nth_unstable_by(place.floor() as usize, f64::total_cmp);
    let below = *below;
    // What stands above is not sorted; without anything there the place is a number's own.
    let next = above.iter().copied().min_by(f64::total_cmp).unwrap_or(below);
    below + (next - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_neighbours() {
        let mut numbers = [2.0, 0.0, 10.0, 1.0];
        assert_eq!((quantile(&mut numbers, 0.75), quantile(&mut numbers, 0.25)), (4.0, 0.75));
        assert_eq!(quantile(&mut numbers, 1.0), 10.0);
        assert_eq!(quantile(&mut [3.0], 0.75), 3.0);
    }
}
