//! `compact-filter`: an episode that a limit cut off is compared with, and not trained.
//!
//! # What it does
//!
//! An episode that ran into the limit of steps or of length was not ended by what its policy decided. Its reward is often 0
//! for that reason alone, and its last response may be half a sentence. By default it stays in its group's baseline, and
//! none of its tokens is trained.
//!
//! # The formula
//!
//! None: a trajectory is trained, only counts in statistics, or is dropped, by how it ended.
//!
//! # Fidelity
//!
//! The compact filtering of DeepSWE (Agentica and Together AI 2025), which masks the loss of trajectories that hit the limit
//! of the context, of steps or of time. Whether they count in the baseline is not said; that they do is our reading, since
//! their rewards exist, and `"drop"` is the other. A trajectory whose environment ran out of time counts as failed here, and
//! never reaches a scheme.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `steps` | `"baseline"` | an episode that the limit of steps ended: `"baseline"` counts in statistics, `"drop"`, `"train"` |
//! | `length` | `"baseline"` | the same for the limit of length: the response's, or the row's |
//!
//! # What it needs
//!
//! How each trajectory ended. No signal of a model.
//!
//! # When it goes wrong
//!
//! - A policy that learns to run on until the limit is never punished for it: watch `truncated_steps` and
//!   `truncated_length`. `steps = "train"` or a penalty for length works against that.
//! - Where every episode is cut off, nothing is trained: so early in training, with a small limit. `"drop"` would then leave
//!   nothing at all, so all such episodes count as a baseline instead.
//! - With `"drop"` the baseline is one of finished episodes alone, and so is too high for a policy that often is cut off.
//!
//! # Metrics
//!
//! `truncated_steps`, `truncated_length`: the share of trajectories.
//!
//! # Example
//!
//! The rest of DeepSWE's recipe is an advantage of leave-one-out without a deviation, the sum over tokens, and no
//! divergence:
//!
//! ```toml
//! seed = 7
//! iterations = 100
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 1024
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "compact-filter"
//! params = { steps = "baseline", length = "baseline" }
//!
//! [[credit]]
//! plugin = "grpo"
//! params = { std = false }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28, aggregate = "seq-mean-token-sum" }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use accredit_plugin_api::prelude::*;

choices! {
    /// What becomes of a truncated trajectory.
    pub enum Treatment {
        /// It counts in statistics and is not trained.
        Baseline = "baseline",
        /// As if it had not been played.
        Drop = "drop",
        /// It is trained like any other.
        Train = "train",
    }
}

params! {
    /// Parameters of `compact-filter`.
    pub struct Params {
        /// What becomes of an episode that the limit of steps ended.
        steps: Treatment = Treatment::Baseline,
        /// What becomes of an episode that the limit of length ended.
        length: Treatment = Treatment::Baseline,
    }
}

/// `status` of a trajectory that the limit of steps ended.
const TRUNCATED_STEPS: u8 = 1;
/// `status` of a trajectory that the limit of length ended.
const TRUNCATED_LENGTH: u8 = 2;

/// The scheme.
pub struct CompactFilter(Params);

impl Scheme for CompactFilter {
    type Params = Params;
    const NAME: &'static str = "compact-filter";
    const ABOUT: &'static str = "Truncated episodes stay in the baseline and are not trained.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self(params))
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Select]).reads(&[STATUS.any()])
    }

    fn select(&mut self, batch: &Batch<'_>, selection: &mut Selection<'_>, context: &Context) -> Result<()> {
        let status = batch.get(STATUS)?;
        let share = |wanted: u8| {
            let sum: f64 = status.iter().map(|status| f64::from(u8::from(*status == wanted))).sum();
            sum / status.len().max(1) as f64
        };
        context.host.metric("truncated_steps", share(TRUNCATED_STEPS));
        context.host.metric("truncated_length", share(TRUNCATED_LENGTH));
        let all_dropped = status.iter().all(|status| self.treatment(*status) == Treatment::Drop);
        for (trajectory, status) in status.iter().enumerate() {
            let decision = match self.treatment(*status) {
                Treatment::Train => Decision::Train,
                Treatment::Drop if !all_dropped => Decision::Drop,
                Treatment::Drop | Treatment::Baseline => Decision::BaselineOnly,
            };
            selection.decide(trajectory, decision);
        }
        Ok(())
    }
}

impl CompactFilter {
    fn treatment(&self, status: u8) -> Treatment {
        match status {
            TRUNCATED_STEPS => self.0.steps,
            TRUNCATED_LENGTH => self.0.length,
            _ => Treatment::Train,
        }
    }
}

export_plugin!(CompactFilter);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme, take_metrics},
    };
    use proptest::prelude::*;

    use super::*;

    fn decided(params: &str, status: &[u8]) -> Vec<u8> {
        let trajectory: &[usize] = &[1];
        let mut batch = TestBatch::new(Layout::Trajectory, &[&vec![trajectory; status.len()]]);
        batch.set(STATUS, status.to_vec());
        let (decisions, more) = TestScheme::<CompactFilter>::new(params).unwrap().select(&batch).unwrap();
        assert!(!more);
        decisions
    }

    #[test]
    fn the_status_decides() {
        take_metrics();
        assert_eq!(decided("{}", &[0, 1, 2, 0]), [2, 1, 1, 2]);
        let metrics = take_metrics();
        assert_eq!((metrics["truncated_steps"][0].0, metrics["truncated_length"][0].0), (0.25, 0.25));
        assert_eq!(decided(r#"{"steps": "drop", "length": "train"}"#, &[0, 1, 2, 1]), [2, 0, 2, 0]);
        assert_eq!(decided(r#"{"length": "drop"}"#, &[2, 1]), [0, 1]);
    }

    #[test]
    fn a_batch_is_never_emptied() {
        assert_eq!(decided(r#"{"steps": "drop", "length": "drop"}"#, &[1, 2, 1]), [1, 1, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for params in [r#"{"steps": "mask"}"#, r#"{"time": "drop"}"#] {
            assert!(TestScheme::<CompactFilter>::new(params).is_err(), "{params}");
        }
    }

    proptest! {
        #[test]
        fn a_permutation_permutes_the_decisions(status in prop::collection::vec(0_u8..3, 1..10), turn in 0_usize..10) {
            let params = r#"{"steps": "drop"}"#;
            let turn = turn % status.len();
            let mut before = decided(params, &status);
            before.rotate_left(turn);
            let mut moved = status.clone();
            moved.rotate_left(turn);
            prop_assert_eq!(before, decided(params, &moved));
        }
    }
}
