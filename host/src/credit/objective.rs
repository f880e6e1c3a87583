//! One micro-batch: `refresh`, then the objective: a loss and its derivative with respect to every fresh column.

use std::cell::OnceCell;

use accredit_core::{
    Slice,
    batch::{Address, Batch},
};
use accredit_plugin_api::{
    Denominators, Hook, Part, PartCount,
    columns::{
        ADVANTAGE, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, LOSS, NEW_ENTROPY, NEW_LOGPROB, NEW_TOP_K_LOGPROB,
        NEW_VALUE, VALUE_TARGET, WEIGHT,
    },
    host::{Data, Table},
};

use super::{
    check::{CreditError, finite},
    pipeline::{Credit, Pipeline, call},
};

/// Columns of a micro-batch under the policy as it is now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fresh<'a> {
    /// Log-probabilities.
    pub logprob: &'a [f32],
    /// Entropies, where something reads them.
    pub entropy: Option<&'a [f32]>,
    /// Values, where something reads them.
    pub value: Option<&'a [f32]>,
    /// Log-probabilities of the likeliest tokens, where something reads them.
    pub top_k_logprob: Option<&'a [f32]>,
}

/// What an objective gave for a micro-batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluated {
    /// The micro-batch's share of the minibatch's loss.
    pub loss: f64,
    /// Derivative with respect to the log-probabilities.
    pub d_logprob: Vec<f32>,
    /// Derivative with respect to the entropies.
    pub d_entropy: Option<Vec<f32>>,
    /// Derivative with respect to the values.
    pub d_value: Option<Vec<f32>>,
    /// Derivative with respect to the log-probabilities of the likeliest tokens.
    pub d_top_k_logprob: Option<Vec<f32>>,
    /// The advantages that it saw, after `refresh`.
    pub advantage: Vec<f32>,
}

/// A minibatch whose denominators are counted: what its micro-batches divide by.
#[derive(Debug)]
pub struct Minibatch {
    denominators: Denominators,
    /// How much of it is in the objective's part, counted when the first micro-batch needs it.
    part: OnceCell<PartCount>,
    rows: Vec<usize>,
    trajectories: Vec<usize>,
}

impl Minibatch {
    /// Counts the rows of a minibatch.
    pub fn of(batch: &Batch, credit: &Credit, rows: &[usize]) -> Self {
        let slice = Slice::of(batch, rows);
        let weight = slice.gather(&credit.weight);
        Self::of_slice(&slice, &weight)
    }

    fn of_slice(slice: &Slice, weight: &[f32]) -> Self {
        // A slice always has its offsets, so the denominators are always there.
        let denominators = Denominators::of(&slice.table, weight).unwrap_or_else(|| Denominators {
            tokens: 0.0,
            weight: 0.0,
            steps: 0.0,
            rows: 0.0,
            trajectories: 0.0,
            trajectory_tokens: Vec::new(),
            trajectory_weight: Vec::new(),
            trajectory_rows: Vec::new(),
        });
        Self { denominators, part: OnceCell::new(), rows: slice.rows.clone(), trajectories: slice.trajectories.clone() }
    }

    fn part(&self, batch: &Batch, part: &Part) -> PartCount {
        *self.part.get_or_init(|| PartCount::of(&Slice::of(batch, &self.rows).table, part))
    }

    /// Tokens of the minibatch.
    pub fn tokens(&self) -> f64 {
        self.denominators.tokens
    }
}

impl Pipeline {
    /// Whether `refresh` or the objective reads a fresh column.
    pub fn reads_fresh(&self, name: &str) -> bool {
        self.schemes().any(|scheme| scheme.needs().reads.iter().any(|read| read.name == name))
    }

    /// Evaluates a micro-batch of a minibatch.
    pub fn evaluate(
        &mut self,
        batch: &Batch,
        credit: &Credit,
        minibatch: &Minibatch,
        micro_batch: &Slice,
        fresh: Fresh<'_>,
        iteration: u64,
    ) -> Result<Evaluated, CreditError> {
        let mut inputs = micro_batch.table.clone();
        let weight = micro_batch.gather(&credit.weight);
        let places: Vec<usize> = micro_batch
            .trajectories
            .iter()
            .filter_map(|trajectory| minibatch.trajectories.binary_search(trajectory).ok())
            .collect();
        minibatch.denominators.put_into(&mut inputs, &weight, &places);
        inputs.put(NEW_LOGPROB, fresh.logprob.to_vec());
        for (column, elements) in
            [(NEW_ENTROPY, fresh.entropy), (NEW_VALUE, fresh.value), (NEW_TOP_K_LOGPROB, fresh.top_k_logprob)]
        {
            if let Some(elements) = elements {
                inputs.put(column, elements.to_vec());
            }
        }
        if let Some(targets) = &credit.value_target {
            inputs.put(VALUE_TARGET, micro_batch.gather(targets));
        }
        inputs.put(WEIGHT, weight);
        let address = |i: usize| {
            let token = micro_batch.tokens.get(i);
            token.map_or_else(Address::default, |token| batch.address_of_token(*token))
        };

        let mut advantage = micro_batch.gather(&credit.advantage);
        for stage in self.stages.iter_mut().filter(|stage| !stage.shadow && stage.active(iteration)) {
            if stage.scheme.needs().hooks.contains(&Hook::Refresh) {
                let mut outputs = Table::default();
                outputs.put(ADVANTAGE, advantage);
                call(&mut stage.scheme, Hook::Refresh, &[&inputs], &mut outputs)?;
                advantage = floats(&mut outputs, ADVANTAGE.name());
                finite(&stage.scheme, Hook::Refresh, ADVANTAGE.name(), &advantage, address)?;
            }
        }
        inputs.put(ADVANTAGE, advantage.clone());

        let Some(scheme) = &mut self.objective else {
            return Ok(Evaluated { advantage, ..Evaluated::default() });
        };
        let needs = scheme.needs();
        if let Some(part) = &needs.part {
            minibatch.part(batch, part).put_into(&mut inputs);
        }
        let tokens = micro_batch.tokens.len();
        let reads = |name: &str| needs.reads.iter().any(|read| read.name == name);
        let (entropy, value) = (reads(NEW_ENTROPY.name()), reads(NEW_VALUE.name()));
        let top_k = reads(NEW_TOP_K_LOGPROB.name());
        let k = batch.top_k();
        let mut outputs = Table::default();
        outputs.put(LOSS, vec![f64::NAN]);
        outputs.put(D_LOGPROB, vec![f32::NAN; tokens]);
        if entropy {
            outputs.put(D_ENTROPY, vec![f32::NAN; tokens]);
        }
        if value {
            outputs.put(D_VALUE, vec![f32::NAN; tokens]);
        }
        if top_k {
            outputs.put(D_TOP_K_LOGPROB, vec![f32::NAN; tokens * k]);
        }
        call(scheme, Hook::Objective, &[&inputs], &mut outputs)?;

        let loss = match outputs.get(LOSS.name()) {
            Some(Data::F64(loss)) if loss.len() == 1 => loss[0],
            _ => f64::NAN,
        };
        finite(scheme, Hook::Objective, LOSS.name(), &[loss], |_| address(0))?;
        let mut derivative = |column: &'static str, per_token: usize| {
            let elements = floats(&mut outputs, column);
            finite(scheme, Hook::Objective, column, &elements, |i| address(i / per_token)).map(|()| elements)
        };
        let d_logprob = derivative(D_LOGPROB.name(), 1)?;
        let d_entropy = entropy.then(|| derivative(D_ENTROPY.name(), 1)).transpose()?;
        let d_value = value.then(|| derivative(D_VALUE.name(), 1)).transpose()?;
        let d_top_k_logprob = top_k.then(|| derivative(D_TOP_K_LOGPROB.name(), k.max(1))).transpose()?;
        Ok(Evaluated { loss, d_logprob, d_entropy, d_value, d_top_k_logprob, advantage })
    }
}

fn floats(table: &mut Table, name: &str) -> Vec<f32> {
    match table.remove(name) {
        Some(Data::F32(elements)) => elements,
        _ => Vec::new(),
    }
}
