//! # shuffle
//!
//! A control: deals the credit of each trajectory to another one. Magnitudes, spread and the number of optimiser steps
//! stay as they are; only who earned what is lost. A run that improves with this scheme at its end improves for another
//! reason than its credit.
//!
//! **Fidelity**: the usual permutation control, as in the ablations of ActFocus (arXiv 2605.14558) and AEM (arXiv
//! 2605.00425), which shuffle their own signals.
//!
//! **Formula**: every token of trajectory `i` gets the mean advantage of the tokens of trajectory `p(i)`, where `p` is a
//! permutation of the batch's trajectories that is drawn anew in each iteration.
//!
//! | parameter | default | what |
//! | --- | --- | --- |
//! | `seed` | 0 | chooses the permutations, together with the iteration |
//!
//! **Signals**: none. **Hook**: `weigh`. Unlike other schemes, its result depends on the order of trajectories.
//!
//! **When it goes wrong**: in a batch of few trajectories many keep their credit by chance.
//!
//! ```toml
//! [environment]
//! name = "frozen-lake"
//!
//! [model.create]
//! hidden_size = 64
//! intermediate_size = 192
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 384
//! max_positions = 128
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [[credit]]
//! plugin = "shuffle"
//! ```

use accredit_plugin_api::{math, prelude::*};

params! {
    /// Parameters of `shuffle`.
    pub struct Params {
        /// Chooses the permutations, together with the iteration.
        seed: u64 = 0,
    }
}

struct Shuffle {
    seed: u64,
}

impl Scheme for Shuffle {
    type Params = Params;
    const NAME: &'static str = "shuffle";
    const ABOUT: &'static str = "A control: deals the credit of each trajectory to another one.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { seed: params.seed })
    }

    fn needs(&self) -> Needs {
        let why = "it deals the credit of the batch to other trajectories, by their places";
        Needs::hooks(&[Hook::Weigh]).except("order", why).except("other-groups", why)
    }

    fn weigh(&mut self, batch: &Batch<'_>, credit: &mut Credit<'_>, context: &Context) -> Result<()> {
        let mut dealt: Vec<f32> = batch
            .trajectories()
            .map(|trajectory| {
                let tokens = &credit.advantage[trajectory.tokens()];
                (math::sum_f32_all(tokens) / tokens.len().max(1) as f64) as f32
            })
            .collect();
        let mut state = mix(self.seed ^ mix(context.iteration));
        for last in (1..dealt.len()).rev() {
            state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
            // The bias of a remainder is below 2^-50 for any batch.
            dealt.swap(last, (state % (last as u64 + 1)) as usize);
        }
        for (trajectory, advantage) in batch.trajectories().zip(dealt) {
            credit.advantage[trajectory.tokens()].fill(advantage);
        }
        Ok(())
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

export_plugin!(Shuffle);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme},
    };

    use super::*;

    #[test]
    fn credit_is_dealt_anew_in_each_iteration_and_none_is_lost() {
        let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2], &[1], &[1, 1], &[1]]]);
        let mut scheme = TestScheme::<Shuffle>::new(r#"{"seed": 4}"#).expect("it is made");
        let advantage = vec![1.0, 1.0, 2.0, 3.0, 3.0, 4.0];
        let mut seen = std::collections::BTreeSet::new();
        for iteration in 0..50 {
            batch.set(ITERATION, vec![iteration]);
            let (dealt, weight) = scheme.weigh(&batch, advantage.clone()).expect("it weighs");
            assert_eq!((dealt[0], dealt[3]), (dealt[1], dealt[4]));
            let mut each = [dealt[0], dealt[2], dealt[3], dealt[5]].map(|a| a as i32);
            seen.insert(each);
            each.sort_unstable();
            assert_eq!(each, [1, 2, 3, 4]);
            assert_eq!(weight, [1.0; 6]);
        }
        assert!(seen.len() > 10, "{seen:?}");
    }
}
