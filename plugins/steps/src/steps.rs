//! What several schemes have in common. By step: returns of steps, steps put together by state, scores against their
//! mean, and numbers about the advantages that come out. By token: the way over [`tokens`], the [`recursion`] on it, rewards
//! [to go](to_go), and how numbers are [whitened](whiten).
//!
//! A step counts in a statistic if it has a response token. Sums over several steps run over sorted numbers in 64 bits,
//! so that no result depends, in any bit, on the order of trajectories or groups.
#![deny(unsafe_code, missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

mod cells;
mod comparison;
pub mod recursion;
mod returns;
#[cfg(feature = "testing")]
pub mod testing;
pub mod to_go;
pub mod tokens;
pub mod whiten;
mod write;

pub use cells::{Cells, Member};
pub use comparison::{Baseline, Comparison, Counts, Entries, Mode, Over, Singleton};
pub use returns::{discount, step_rewards};
pub use write::StepAdvantages;

use accredit_plugin_api::prelude::*;

/// Which steps have a response token.
#[derive(Clone, Copy, Debug)]
pub struct Responses<'a> {
    offsets: &'a [u32],
}

impl<'a> Responses<'a> {
    /// Those of a batch.
    pub fn of(batch: &Batch<'a>) -> Result<Self> {
        Ok(Self { offsets: batch.get(STEP_TOKENS)? })
    }

    /// Whether this step, by its index in the batch, has one.
    pub fn has(&self, step: usize) -> bool {
        self.offsets[step] < self.offsets[step + 1]
    }
}
