//! The weight of every token, in a loop over blocks.

use accredit_plugin_api::{
    ACTION, THINK,
    math::{self, Kernel, SumF32},
};
use accredit_steps::whiten::Halves;

/// Tokens of a block: few, so that many blocks have no action token and need no sigmoid.
const BLOCK: usize = 64;

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
    pub mean: Halves,
    /// 1 by its deviation over them.
    pub inverse: f32,
    /// How far the weight of an action token can rise above 1.
    pub beta: f32,
    /// The weight of think tokens.
    pub alpha: f32,
    /// The weight of other tokens.
    pub format: f32,
}

impl Level {
    /// Multiplies the weights of a block.
    #[inline(always)]
    fn block(&self, kind: &[u8], signal: &[f32], weight: &mut [f32], sums: &mut Sums) {
        let Self { mean, inverse, beta, alpha, format } = *self;
        let any = |wanted: u8| kind.iter().map(|kind| u8::from(*kind == wanted)).max() == Some(1);
        sums.thinks |= any(THINK);
        if !any(ACTION) {
            for (weight, kind) in weight.iter_mut().zip(kind) {
                *weight *= if *kind == THINK { alpha } else { format };
            }
            return;
        }
        let count = weight.len();
        let mut raised = [0.0; BLOCK];
        let (kind, signal, raised) = (&kind[..count], &signal[..count], &mut raised[..count]);
        for i in 0..count {
            let deviations = mean.taken_off(signal[i]) * inverse;
            raised[i] = 1.0 + beta * math::sigmoid_f32(deviations);
        }
        let mut actions = 0;
        for i in 0..count {
            let lowered = if kind[i] == THINK { alpha } else { format };
            weight[i] *= if kind[i] == ACTION { raised[i] } else { lowered };
            raised[i] = if kind[i] == ACTION { raised[i] } else { 0.0 };
            actions += u32::from(kind[i] == ACTION);
        }
        sums.actions += u64::from(actions);
        sums.raised.add(raised);
    }
}

/// Sums over tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Action tokens.
    pub actions: u64,
    /// The factors that they got.
    pub raised: SumF32,
    /// Whether there are think tokens.
    pub thinks: bool,
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
