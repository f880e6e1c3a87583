//! The learning rate of each optimiser step.

use crate::config::{Optimizer, Schedule};

/// The learning rate of optimiser step `update` (from 0) of `updates` planned ones: a straight line up over the
/// warm-up, then constant, a straight line, or half a cosine down to a share of it.
pub fn learning_rate(config: &Optimizer, update: u64, updates: u64) -> f64 {
    if update < config.warmup_updates {
        return config.lr * (update + 1) as f64 / config.warmup_updates as f64;
    }
    let falling = updates.saturating_sub(config.warmup_updates).max(1);
    let done = ((update - config.warmup_updates) as f64 / falling as f64).min(1.0);
    let share = match config.schedule {
        Schedule::Constant => return config.lr,
        Schedule::Linear => 1.0 - done,
        Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
    };
    config.lr * (config.min_lr_share + (1.0 - config.min_lr_share) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: Schedule, expected: &[f64]) {
        let config = Optimizer { lr: 1.0, warmup_updates: 2, min_lr_share: 0.1, schedule, ..Optimizer::default() };
        let found: Vec<f64> = (0..expected.len() as u64).map(|update| learning_rate(&config, update, 6)).collect();
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{schedule:?}: {found} for {expected}");
        }
    }

    #[test]
    fn the_learning_rate_rises_and_falls_as_configured() {
        check(Schedule::Constant, &[0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(Schedule::Linear, &[0.5, 1.0, 1.0, 0.775, 0.55, 0.325, 0.1, 0.1]);
        let half = 0.1 + 0.9 * 0.5;
        check(Schedule::Cosine, &[0.5, 1.0, 1.0, 0.1 + 0.9 * 0.853_553_390_593_273_7, half]);
    }
}
