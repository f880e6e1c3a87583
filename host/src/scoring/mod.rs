//! Scoring: the columns that a model computes for the tokens of a batch, each once, however many schemes read it.

mod queries;
mod rows;
mod teachers;

pub use queries::{Answered, QueryError, Scorers, answer};
pub use rows::Rows;
pub use teachers::Teachers;

use accredit_core::batch::Batch;
use accredit_plugin_api::columns::{ENTROPY, OLD_LOGPROB, REF_ENERGY, REF_LOGPROB, VALUE};
use accredit_torch::{Critic, Error, Model, Wanted};

use crate::credit::plan::Signals;

/// The models of a run.
#[derive(Clone, Copy, Debug)]
pub struct Models<'a> {
    /// The policy.
    pub policy: &'a Model,
    /// The frozen reference, where a scheme needs it.
    pub reference: Option<&'a Model>,
    /// The critic, where a scheme needs it.
    pub critic: Option<&'a Critic>,
}

/// What the signals cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scored {
    /// Tokens that went through the reference, prompts included, each as often as it did.
    pub reference_tokens: usize,
}

/// Puts the signals that the schemes read into the batch, each computed once however many schemes read it.
pub fn signals(
    batch: &mut Batch,
    rows: &Rows,
    models: Models<'_>,
    signals: Signals,
    temperature: f32,
    tokens_per_pass: usize,
) -> Result<Scored, Error> {
    let mut scored = Scored::default();
    let all = rows.all();
    let wanted = Wanted { logprob: signals.old_logprob, entropy: signals.entropy, energy: false };
    let scores = match models.critic.filter(|_| signals.value) {
        Some(critic) => {
            let (scores, values) = critic.score(models.policy, &all, wanted, temperature, tokens_per_pass)?;
            batch.put_tokens(VALUE.name(), values);
            scores
        }
        None => models.policy.score(&all, wanted, temperature, tokens_per_pass)?,
    };
    batch.put_tokens(OLD_LOGPROB.name(), scores.logprob);
    if signals.top_k > 0 {
        batch.put_likeliest(signals.top_k, models.policy.likeliest(&all, signals.top_k, tokens_per_pass)?);
    }
    if signals.entropy {
        batch.put_tokens(ENTROPY.name(), scores.entropy);
    }
    if let Some(reference) = models.reference.filter(|_| signals.reference()) {
        let wanted = Wanted { logprob: signals.ref_logprob, entropy: false, energy: signals.ref_energy };
        let scores = reference.score(&all, wanted, temperature, tokens_per_pass)?;
        scored.reference_tokens += rows.token_count();
        if signals.ref_logprob {
            batch.put_tokens(REF_LOGPROB.name(), scores.logprob);
        }
        if signals.ref_energy {
            batch.put_tokens(REF_ENERGY.name(), scores.energy);
        }
    }
    Ok(scored)
}
