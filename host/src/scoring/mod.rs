//! Scoring: the columns that a model computes for the tokens of a batch, each once, however many schemes read it.

mod queries;
mod rows;
mod teachers;

pub use queries::{Answered, QueryError, Scorers, answer};
pub use rows::Rows;
pub use teachers::Teachers;

use accredit_core::batch::Batch;
use accredit_plugin_api::columns::{ENTROPY, OLD_LOGPROB, REF_ENERGY, REF_LOGPROB};
use accredit_torch::{Error, Model, Wanted};

use crate::credit::plan::Signals;

/// Puts the signals that the schemes read into the batch.
pub fn signals(
    batch: &mut Batch,
    rows: &Rows,
    policy: &Model,
    reference: Option<&Model>,
    signals: Signals,
    temperature: f32,
    tokens_per_pass: usize,
) -> Result<(), Error> {
    let all = rows.all();
    let wanted = Wanted { logprob: signals.old_logprob, entropy: signals.entropy, energy: false };
    let scores = policy.score(&all, wanted, temperature, tokens_per_pass)?;
    batch.put_tokens(OLD_LOGPROB.name(), scores.logprob);
    if signals.entropy {
        batch.put_tokens(ENTROPY.name(), scores.entropy);
    }
    if let Some(reference) = reference.filter(|_| signals.reference()) {
        let wanted = Wanted { logprob: signals.ref_logprob, entropy: false, energy: signals.ref_energy };
        let scores = reference.score(&all, wanted, temperature, tokens_per_pass)?;
        if signals.ref_logprob {
            batch.put_tokens(REF_LOGPROB.name(), scores.logprob);
        }
        if signals.ref_energy {
            batch.put_tokens(REF_ENERGY.name(), scores.energy);
        }
    }
    Ok(())
}
