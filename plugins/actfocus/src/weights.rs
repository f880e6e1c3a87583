//! The weight of every token, in a loop over blocks.

use accredit_plugin_api::{
    ACTION, THINK,
    math::{self, Kernel},
};

/// Tokens of a block: few, so that many blocks have no action token and need no sigmoid.
const BLOCK: usize = 64;

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
    pub beta: f32,
    /// The weight of think tokens.
    pub alpha: f32,
    /// The weight of other tokens.
    pub format: f32,
    /// The weights.
    pub weight: &'a mut [f32],
}

/// Sums over tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Action tokens.
    pub actions: u64,
    /// The factors that they got.
    pub action_weight: f64,
    /// Think tokens.
    pub thinks: u64,
}

impl Kernel for Weights<'_> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let Self { mean, sigma, beta, alpha, format, .. } = self;
        let inverse = 1.0 / sigma;
        let mut action_weight = [0.0; BLOCK];
        let mut sums = Sums::default();
        let columns = self.kind.chunks(BLOCK).zip(self.signal.chunks(BLOCK)).zip(self.weight.chunks_mut(BLOCK));
        for ((kind, signal), weight) in columns {
            let of_kind = |wanted: u8| u64::from(kind.iter().map(|kind| u8::from(*kind == wanted)).sum::<u8>());
            let actions = of_kind(ACTION);
            sums.actions += actions;
            sums.thinks += of_kind(THINK);
            if actions == 0 {
                for (weight, kind) in weight.iter_mut().zip(kind) {
                    *weight *= if *kind == THINK { alpha } else { format };
                }
                continue;
            }
            let count = weight.len();
            let (kind, signal, action_weight) = (&kind[..count], &signal[..count], &mut action_weight[..count]);
            for i in 0..count {
                action_weight[i] = ((f64::from(signal[i]) - mean) * inverse) as f32;
            }
            for i in 0..count {
                let raised = 1.0 + beta * math::sigmoid_f32(action_weight[i]);
                let lowered = if kind[i] == THINK { alpha } else { format };
                let factor = if kind[i] == ACTION { raised } else { lowered };
                action_weight[i] = if kind[i] == ACTION { raised } else { 0.0 };
                weight[i] *= factor;
            }
            sums.action_weight += math::sum_f32(action_weight);
        }
        sums
    }
}
