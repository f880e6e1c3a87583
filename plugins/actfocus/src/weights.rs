//! The weight of every token, in a loop over blocks.

use accredit_plugin_api::{
    ACTION, THINK,
    math::{self, Kernel},
};

/// Tokens of a block: few, so that many blocks have no action token and need no sigmoid.
const BLOCK: usize = 32;

/// Multiplies weights in place.
pub struct Weights<'a> {
    /// What each token is.
    pub kind: &'a [u8],
    /// What tells confidence from doubt.
    pub signal: &'a [f32],
    /// How high the weights are.
    pub level: Level,
    /// The weights.
    pub weight: &'a mut [f32],
}

/// How high weights are.
#[derive(Clone, Copy)]
pub struct Level {
    /// The signal's mean over action tokens.
    pub mean: Mean,
    /// 1 by its deviation over them.
    pub inverse: f32,
    /// How far the weight of an action token can rise above 1.
    pub beta: f32,
    /// The weight of think tokens.
    pub alpha: f32,
    /// The weight of other tokens.
    pub format: f32,
}

/// A number in two of 32 bits: a difference from the first is exact where it matters, and the second is what the first lost
/// by rounding.
#[derive(Clone, Copy)]
pub struct Mean {
    high: f32,
    low: f32,
}

impl From<f64> for Mean {
    fn from(mean: f64) -> Self {
        let high = mean as f32;
        Self { high, low: (mean - f64::from(high)) as f32 }
    }
}

impl Level {
    /// Multiplies the weights of a block.
    #[inline(always)]
    fn block(&self, kind: &[u8], signal: &[f32], weight: &mut [f32], sums: &mut Sums) {
        let Self { mean, inverse, beta, alpha, format } = *self;
        let of_kind = |wanted: u8| u64::from(kind.iter().map(|kind| u8::from(*kind == wanted)).sum::<u8>());
        let actions = of_kind(ACTION);
        sums.actions += actions;
        sums.thinks += of_kind(THINK);
        if actions == 0 {
            for (weight, kind) in weight.iter_mut().zip(kind) {
                *weight *= if *kind == THINK { alpha } else { format };
            }
            return;
        }
        let count = weight.len();
        let mut raised = [0.0; BLOCK];
        let (kind, signal, raised) = (&kind[..count], &signal[..count], &mut raised[..count]);
        for i in 0..count {
            let deviations = ((signal[i] - mean.high) - mean.low) * inverse;
            raised[i] = 1.0 + beta * math::sigmoid_f32(deviations);
        }
        for i in 0..count {
            let lowered = if kind[i] == THINK { alpha } else { format };
            weight[i] *= if kind[i] == ACTION { raised[i] } else { lowered };
            raised[i] = if kind[i] == ACTION { raised[i] } else { 0.0 };
        }
        sums.action_weight += math::sum_f32(raised);
    }
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
        let Self { kind, signal, weight, .. } = self;
        let mut sums = Sums::default();
        let columns = kind.chunks(BLOCK).zip(signal.chunks(BLOCK)).zip(weight.chunks_mut(BLOCK));
        for ((kind, signal), weight) in columns {
            self.level.block(kind, signal, weight, &mut sums);
        }
        sums
    }
}
