//! From an advantage per step to one per token, and what the advantages look like.

use accredit_plugin_api::prelude::*;

/// The advantage of each step, collected before it is written.
#[derive(Clone, Debug, Default)]
pub struct StepAdvantages {
    /// By the step's index in the batch.
    pub of_step: Vec<f64>,
    /// Those of steps with a response, for the quartiles.
    sorted: Vec<f64>,
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
        self.sorted.clear();
        let mut above_one = 0_u32;
        for step in batch.steps().filter(|step| !step.tokens().is_empty()) {
            let advantage = self.of_step[step.index()];
            out[step.tokens()].fill(advantage as f32);
            self.sorted.push(advantage);
            above_one += u32::from(advantage.abs() > 1.0);
        }
        if self.sorted.is_empty() {
            return;
        }
        self.sorted.sort_unstable_by(f64::total_cmp);
        host.metric("advantage_iqr", quantile(&self.sorted, 0.75) - quantile(&self.sorted, 0.25));
        host.metric("advantage_above_one", f64::from(above_one) / self.sorted.len() as f64);
    }
}

/// The quantile of sorted numbers, of which there is at least one.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_neighbours() {
        let sorted = [0.0, 1.0, 2.0, 10.0];
        assert_eq!((quantile(&sorted, 0.25), quantile(&sorted, 0.75)), (0.75, 4.0));
        assert_eq!(quantile(&[3.0], 0.75), 3.0);
    }
}
