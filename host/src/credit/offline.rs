//! The schemes of a configuration on rollouts that were read from a file: the same hooks on the same batch as in a run.

use std::collections::BTreeMap;

use accredit_core::{
    Slice,
    batch::{Batch, BatchError, LeftOut, name_of},
    episode::{TokenKind, Trajectory},
};
use accredit_plugin_api::{
    Hook, TextColumn,
    columns::{
        ALL_TEXTS, NEW_ENTROPY, NEW_LOGPROB, NEW_TOP_K_LOGPROB, NEW_VALUE, ROUND, ROUND_GROUPS, ROUNDS, STEP_TOKENS,
    },
    host::Data,
};
use serde::Serialize;
use thiserror::Error;

use super::{
    check::CreditError,
    objective::{Evaluated, Fresh, Minibatch},
    pipeline::{Counters, Credit, Pipeline},
};

/// Offline credit that could not be computed.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// The rollouts do not make a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// No trajectory is left.
    #[error(
        "none of the {} trajectories can be used: {} failed, {} are not scored (a reward is null), {} have no response \
         token",
        .0.total(), .0.failed, .0.unscored, .0.empty
    )]
    Nothing(LeftOut),
    /// The credit could not be computed.
    #[error(transparent)]
    Credit(#[from] CreditError),
}

/// The credit of one batch of rollouts.
#[derive(Debug)]
pub struct Scored {
    /// The batch.
    pub batch: Batch,
    /// Its credit.
    pub credit: Credit,
    /// What the objective gave, and for which rows, if the rollouts have `new_logprob` and there is an objective.
    pub objective: Option<(Slice, Evaluated)>,
}

/// Computes the credit of rollouts, and evaluates the objective if they have `new_logprob`. All are one batch.
pub fn score(pipeline: &mut Pipeline, episodes: &[Trajectory], counters: Counters) -> Result<Scored, OfflineError> {
    let iteration = counters.iteration;
    let texts = wanted_texts(pipeline);
    let mut batch = Batch::build(episodes, &[], &texts)?;
    counters.put_into(&mut batch);
    if batch.trajectories() == 0 {
        return Err(OfflineError::Nothing(batch.left_out));
    }
    require_columns(pipeline, &batch, iteration)?;
    if pipeline.has(Hook::Select, iteration) {
        let groups = batch.groups() as u64;
        batch.put_scalar(ROUND, 0);
        batch.put_scalar(ROUNDS, 1);
        batch.put_scalar(ROUND_GROUPS, groups);
        let selected = pipeline.select(&batch, episodes.len(), iteration)?;
        batch = Batch::build(episodes, &selected.roles, &texts)?;
        counters.put_into(&mut batch);
    }
    let credit = pipeline.credit(&mut batch, iteration)?;
    let objective = evaluate(pipeline, &batch, &credit, iteration)?;
    Ok(Scored { batch, credit, objective })
}

/// The text columns that some scheme reads.
pub fn wanted_texts(pipeline: &Pipeline) -> Vec<TextColumn> {
    let reads = |text: &&TextColumn| pipeline.schemes().any(|scheme| scheme.reads(text.name()));
    ALL_TEXTS.iter().filter(reads).copied().collect()
}

/// Refuses a scheme that reads what the rollouts do not have, before it is called.
fn require_columns(pipeline: &Pipeline, batch: &Batch, iteration: u64) -> Result<(), CreditError> {
    let here = |name: &str| {
        let text = ALL_TEXTS.iter().find(|text| text.name() == name);
        batch.table.get(text.map_or(name, |text| text.parts().0)).is_some()
    };
    for stage in pipeline.stages.iter().filter(|stage| stage.active(iteration)) {
        let refreshes = stage.scheme.needs().hooks.contains(&Hook::Refresh);
        let missing = |name: &str| !here(name) && !super::plan::given_to_hooks(name, refreshes);
        if let Some(read) = stage.scheme.needs().reads.iter().find(|read| missing(&read.name)) {
            return Err(CreditError::Missing { label: stage.scheme.label().to_owned(), column: read.name.clone() });
        }
    }
    let objective = pipeline.objective.as_ref().filter(|_| here(NEW_LOGPROB.name()));
    if let Some(scheme) = objective {
        let missing = |name: &str| !here(name) && !super::plan::given_to_hooks(name, false);
        if let Some(read) = scheme.needs().reads.iter().find(|read| missing(&read.name)) {
            return Err(CreditError::Missing { label: scheme.label().to_owned(), column: read.name.clone() });
        }
    }
    Ok(())
}

/// Evaluates the objective with all trained rows as one minibatch and one micro-batch.
fn evaluate(
    pipeline: &mut Pipeline,
    batch: &Batch,
    credit: &Credit,
    iteration: u64,
) -> Result<Option<(Slice, Evaluated)>, CreditError> {
    if batch.table.f32(NEW_LOGPROB).is_none() || pipeline.objective.is_none() {
        return Ok(None);
    }
    let rows = batch.trained_rows();
    let minibatch = Minibatch::of(batch, credit, &rows);
    let slice = Slice::of(batch, &rows);
    let gather = |column| batch.table.f32(column).map(|elements| slice.gather(elements));
    let (logprob, entropy, value) = (gather(NEW_LOGPROB), gather(NEW_ENTROPY), gather(NEW_VALUE));
    let fresh = Fresh {
        logprob: logprob.as_deref().unwrap_or_default(),
        entropy: entropy.as_deref(),
        value: value.as_deref(),
        top_k_logprob: slice.column(NEW_TOP_K_LOGPROB.name()).and_then(Data::as_f32),
    };
    let evaluated = pipeline.evaluate(batch, credit, &minibatch, &slice, fresh, iteration)?;
    Ok(Some((slice, evaluated)))
}

/// One trajectory of the output: what `accredit credit` writes as one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredTrajectory {
    /// Its group.
    pub group: String,
    /// Its name.
    pub trajectory: String,
    /// Why it was left out, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<&'static str>,
    /// The loss of the whole batch, if the objective was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_loss: Option<f64>,
    /// Its steps.
    pub steps: Vec<ScoredStep>,
}

/// One step of the output. Each column has one number for each token of the file's step; the environment's tokens
/// have 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ScoredStep {
    /// Advantages, as the objective saw them.
    pub advantage: Vec<f32>,
    /// Weights in the loss.
    pub weight: Vec<f32>,
    /// Value targets, where a scheme gives them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub value_target: Vec<f32>,
    /// Derivative of the loss with respect to `new_logprob`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub d_logprob: Vec<f32>,
    /// Derivative of the loss with respect to `new_entropy`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub d_entropy: Vec<f32>,
    /// Derivative of the loss with respect to `new_value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub d_value: Vec<f32>,
    /// Derivative of the loss with respect to `new_top_k_logprob`: a list for each token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub d_top_k_logprob: Vec<Vec<f32>>,
    /// What each shadow would have given, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shadows: BTreeMap<String, ScoredShadow>,
}

/// What a shadow would have given.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ScoredShadow {
    /// Advantages.
    pub advantage: Vec<f32>,
    /// Weights.
    pub weight: Vec<f32>,
}

impl Scored {
    /// What was left out of the batch.
    pub fn left_out(&self) -> LeftOut {
        self.batch.left_out
    }

    /// The results in the order of the episodes, each column cut to the file's steps and tokens.
    pub fn trajectories(&self, episodes: &[Trajectory]) -> Vec<ScoredTrajectory> {
        let mut out: Vec<ScoredTrajectory> = episodes
            .iter()
            .enumerate()
            .map(|(index, episode)| ScoredTrajectory {
                group: episode.group.clone(),
                trajectory: name_of(episode, index),
                left_out: (!self.batch.episodes.contains(&index)).then(|| reason(episode)),
                batch_loss: self.objective.as_ref().map(|(_, evaluated)| evaluated.loss),
                steps: vec![ScoredStep::default(); episode.steps.len()],
            })
            .collect();
        let whole = |part: &[f32]| self.scatter(part);
        let advantage = match &self.objective {
            Some((_, evaluated)) => {
                let mut advantage = self.credit.advantage.clone();
                self.scatter_into(&evaluated.advantage, &mut advantage);
                advantage
            }
            None => self.credit.advantage.clone(),
        };
        let mut columns: Vec<(Vec<f32>, Slot)> =
            vec![(advantage, |step| &mut step.advantage), (self.credit.weight.clone(), |step| &mut step.weight)];
        if let Some(targets) = &self.credit.value_target {
            columns.push((targets.clone(), |step| &mut step.value_target));
        }
        if let Some((_, evaluated)) = &self.objective {
            columns.push((whole(&evaluated.d_logprob), |step| &mut step.d_logprob));
            if let Some(d_entropy) = &evaluated.d_entropy {
                columns.push((whole(d_entropy), |step| &mut step.d_entropy));
            }
            if let Some(d_value) = &evaluated.d_value {
                columns.push((whole(d_value), |step| &mut step.d_value));
            }
        }
        let likeliest = self.objective.as_ref().and_then(|(slice, evaluated)| {
            let k = self.batch.top_k().max(1);
            let mut whole = vec![vec![0.0; k]; self.batch.tokens()];
            for (token, list) in slice.tokens.iter().zip(evaluated.d_top_k_logprob.as_ref()?.chunks(k)) {
                whole[*token].copy_from_slice(list);
            }
            Some(whole)
        });
        let offsets = self.batch.offsets(STEP_TOKENS);
        for (s, (episode, step)) in self.batch.step_sources().into_iter().enumerate() {
            let tokens = offsets[s] as usize..offsets[s + 1] as usize;
            let kinds = &episodes[episode].steps[step].tokens.kind;
            let slot = &mut out[episode].steps[step];
            for (column, place) in &columns {
                *place(slot) = spread(kinds, &column[tokens.clone()]);
            }
            if let Some(likeliest) = &likeliest {
                slot.d_top_k_logprob = spread(kinds, &likeliest[tokens.clone()]);
            }
            for shadow in &self.credit.shadows {
                let scored = ScoredShadow {
                    advantage: spread(kinds, &shadow.advantage[tokens.clone()]),
                    weight: spread(kinds, &shadow.weight[tokens.clone()]),
                };
                slot.shadows.insert(shadow.label.clone(), scored);
            }
        }
        out
    }

    /// A column of the evaluated rows as a column of the batch, 0 elsewhere.
    fn scatter(&self, part: &[f32]) -> Vec<f32> {
        let mut whole = vec![0.0; self.batch.tokens()];
        self.scatter_into(part, &mut whole);
        whole
    }

    fn scatter_into(&self, part: &[f32], whole: &mut [f32]) {
        if let Some((slice, _)) = &self.objective {
            for (token, value) in slice.tokens.iter().zip(part) {
                whole[*token] = *value;
            }
        }
    }
}

type Slot = fn(&mut ScoredStep) -> &mut Vec<f32>;

/// Puts the numbers, or lists of them, of response tokens back among the environment's tokens, which get 0 or an empty
/// list.
fn spread<T: Clone + Default>(kinds: &[TokenKind], numbers: &[T]) -> Vec<T> {
    if kinds.is_empty() {
        return numbers.to_vec();
    }
    let mut numbers = numbers.iter();
    kinds
        .iter()
        .map(|kind| match kind {
            TokenKind::Observation => T::default(),
            _ => numbers.next().cloned().unwrap_or_default(),
        })
        .collect()
}

fn reason(episode: &Trajectory) -> &'static str {
    use accredit_core::episode::Status;
    if episode.status == Status::Failed {
        "failed"
    } else if episode.outcome.is_none() && episode.steps.iter().any(|step| step.reward.is_none()) {
        "unscored"
    } else if episode.steps.iter().all(|s| s.tokens.kind.iter().all(|k| *k == TokenKind::Observation)) {
        "empty"
    } else {
        "dropped"
    }
}

/// Rollouts of several iterations, iteration by iteration in ascending order; each is a batch of its own.
pub fn by_iteration(episodes: Vec<Trajectory>) -> BTreeMap<u64, Vec<Trajectory>> {
    let mut iterations: BTreeMap<u64, Vec<Trajectory>> = BTreeMap::new();
    for episode in episodes {
        iterations.entry(episode.iteration).or_default().push(episode);
    }
    iterations
}
