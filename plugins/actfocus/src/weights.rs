//! The weight of every token, in a loop over blocks.

use accredit_plugin_api::{
    ACTION, THINK,
    math::{self, Kernel},
};

/// Multiplies weights in place.
pub struct Weights<'a> {
    /// What each token is.
    pub kind: &'a [u8],
    /// What tells confidence from doubt.
    pub signal: &'a [f32],
    /// Its mean over action tokens.
    pub mean: f64,
    /// Its deviation over them.
    pub sigma: f64,
    /// How far the weight of an action token can rise above 1.
    pub beta: f64,
    /// The weight of think tokens.
    pub alpha: f64,
    /// The weight of other tokens.
    pub format: f64,
    /// The weights.
    pub weight: &'a mut [f32],
}

/// Sums over tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Action tokens.
    pub actions: f64,
    /// The factors that they got.
    pub action_weight: f64,
    /// Think tokens.
    pub thinks: f64,
}

impl Kernel for Weights<'_> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        const BLOCK: usize = 128;
        let Self { mean, sigma, beta, alpha, format, .. } = self;
        let (mut actions, mut action_weight, mut thinks) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        let mut sums = Sums::default();
        let columns = self.kind.chunks(BLOCK).zip(self.signal.chunks(BLOCK)).zip(self.weight.chunks_mut(BLOCK));
        for ((kind, signal), weight) in columns {
            let count = weight.len();
            let (kind, signal) = (&kind[..count], &signal[..count]);
            let (actions, thinks) = (&mut actions[..count], &mut thinks[..count]);
            let action_weight = &mut action_weight[..count];
            for i in 0..count {
                let raised = 1.0 + beta * math::sigmoid((f64::from(signal[i]) - mean) / sigma);
                let (action, think) = (kind[i] == ACTION, kind[i] == THINK);
                let lowered = if think { alpha } else { format };
                let factor = if action { raised } else { lowered };
                actions[i] = if action { 1.0 } else { 0.0 };
                thinks[i] = if think { 1.0 } else { 0.0 };
                action_weight[i] = if action { raised } else { 0.0 };
                weight[i] = (f64::from(weight[i]) * factor) as f32;
            }
            sums.actions += math::sum(actions);
            sums.action_weight += math::sum(action_weight);
            sums.thinks += math::sum(thinks);
        }
        sums
    }
}
