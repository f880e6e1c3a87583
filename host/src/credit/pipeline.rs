//! The credit of a batch: `select`, `shape`, `advantage`, `weigh`, in the configuration's order.

use std::collections::BTreeSet;

use accredit_core::batch::{Address, Batch, Role};
use accredit_plugin_api::{
    Hook, Query, QueryPolicy,
    abi::RawColumn,
    columns::{
        ADVANTAGE, DECISION, ITERATION, ITERATIONS, OUTCOME, RAW_OUTCOME, RAW_REWARD, REWARD, SAMPLE_MORE, STEP_TOKENS,
        TOKEN_REWARD, TRAJECTORY_STEPS, UPDATE, UPDATES, VALUE_TARGET, WEIGHT,
    },
    host::{Data, Table, read_queries},
};
use serde::{Deserialize, Serialize};

use super::check::{CreditError, finite, first_not_finite, not_negative};
use crate::plugin::Scheme;

/// Where the run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Which iteration this is, from 0.
    pub iteration: u64,
    /// How many iterations are planned.
    pub iterations: u64,
    /// Optimiser steps taken so far.
    pub update: u64,
    /// Optimiser steps planned in all.
    pub updates: u64,
}

impl Counters {
    /// Puts the counters into a batch.
    pub fn put_into(self, batch: &mut Batch) {
        batch.put_scalar(ITERATION, self.iteration);
        batch.put_scalar(ITERATIONS, self.iterations);
        batch.put_scalar(UPDATE, self.update);
        batch.put_scalar(UPDATES, self.updates);
    }
}

/// One entry of `[[credit]]`.
#[derive(Debug)]
pub struct Stage {
    /// The scheme.
    pub scheme: Scheme,
    /// Its advantages count so many times in the sum.
    pub mix: f64,
    /// It is computed and logged, and does not train.
    pub shadow: bool,
    /// First iteration in which it is active.
    pub from: Option<u64>,
    /// First iteration in which it is not active any more.
    pub until: Option<u64>,
}

impl Stage {
    /// Whether it is active in an iteration.
    pub fn active(&self, iteration: u64) -> bool {
        self.from.is_none_or(|from| from <= iteration) && self.until.is_none_or(|until| iteration < until)
    }

    fn has(&self, hook: Hook) -> bool {
        self.scheme.needs().hooks.contains(&hook)
    }
}

/// The schemes of a run in the order in which they work.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// The entries of `[[credit]]`.
    pub stages: Vec<Stage>,
    /// The objective, where it is wanted.
    pub objective: Option<Scheme>,
}

/// The credit of every token of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Credit {
    /// Advantages.
    pub advantage: Vec<f32>,
    /// Weights in the loss.
    pub weight: Vec<f32>,
    /// What the critic should say.
    pub value_target: Option<Vec<f32>>,
    /// What the shadows would have given; for reports, and not kept with an unfinished iteration.
    #[serde(skip)]
    pub shadows: Vec<Shadow>,
    /// What each stage wrote, in numbers; for reports, too.
    #[serde(skip)]
    pub statistics: Vec<StageStatistics>,
}

/// What a scheme that does not train would have given.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadow {
    /// What the run calls the scheme.
    pub label: String,
    /// Its advantages.
    pub advantage: Vec<f32>,
    /// Its weights.
    pub weight: Vec<f32>,
}

/// Numbers about what one stage wrote; the reports of every scheme, whatever it is.
#[derive(Clone, Debug, PartialEq)]
pub struct StageStatistics {
    /// What the run calls the scheme.
    pub label: String,
    /// The column: `advantage` or `weight`.
    pub column: &'static str,
    /// Mean over tokens.
    pub mean: f64,
    /// Standard deviation over tokens.
    pub std: f64,
    /// Share of tokens with exactly 0.
    pub zero_share: f64,
}

impl StageStatistics {
    fn of(label: &str, column: &'static str, elements: &[f32]) -> Self {
        let count = elements.len().max(1) as f64;
        let mean = elements.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
        let variance = elements.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
        let zeros = elements.iter().filter(|x| **x == 0.0).count();
        Self { label: label.to_owned(), column, mean, std: variance.sqrt(), zero_share: zeros as f64 / count }
    }
}

/// What `select` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// A role for each episode that the batch was built from.
    pub roles: Vec<Role>,
    /// Some scheme wants more groups.
    pub sample_more: bool,
}

impl Pipeline {
    /// Whether any active scheme, shadows aside, has a hook. Of the objective, `queries` counts.
    pub fn has(&self, hook: Hook, iteration: u64) -> bool {
        let asks = |objective: &Scheme| hook == Hook::Queries && objective.needs().hooks.contains(&hook);
        self.stages.iter().any(|stage| !stage.shadow && stage.active(iteration) && stage.has(hook))
            || self.objective.as_ref().is_some_and(asks)
    }

    /// Whether the objective or an active scheme, shadows too, reads a column.
    pub fn reads(&self, name: &str, iteration: u64) -> bool {
        let active = self.stages.iter().filter(|stage| stage.active(iteration)).map(|stage| &stage.scheme);
        active.chain(&self.objective).any(|scheme| scheme.reads(name))
    }

    /// Whether something has to give advantages: not so with an objective that does not read them.
    pub fn needs_advantages(&self) -> bool {
        let reads = |scheme: &Scheme| scheme.needs().reads.iter().any(|read| read.name == ADVANTAGE.name());
        self.objective.as_ref().is_none_or(reads)
    }

    /// All schemes, the objective last.
    pub fn schemes(&self) -> impl Iterator<Item = &Scheme> {
        self.stages.iter().map(|stage| &stage.scheme).chain(&self.objective)
    }

    /// All schemes, the objective last.
    pub fn schemes_mut(&mut self) -> impl Iterator<Item = &mut Scheme> {
        self.stages.iter_mut().map(|stage| &mut stage.scheme).chain(&mut self.objective)
    }

    fn trains(&mut self, hook: Hook, iteration: u64) -> impl Iterator<Item = &mut Stage> {
        self.stages.iter_mut().filter(move |stage| !stage.shadow && stage.active(iteration) && stage.has(hook))
    }

    /// Asks which of the `episodes` episodes behind this batch are trained. Several schemes agree by the weakest: one
    /// drop drops.
    pub fn select(&mut self, batch: &Batch, episodes: usize, iteration: u64) -> Result<Selected, CreditError> {
        let mut roles = vec![Role::Train; episodes];
        let mut sample_more = false;
        for stage in self.trains(Hook::Select, iteration) {
            let mut outputs = Table::default();
            outputs.put(DECISION, vec![2; batch.trajectories()]);
            outputs.put(SAMPLE_MORE, vec![false]);
            call(&mut stage.scheme, Hook::Select, &[&batch.table], &mut outputs)?;
            if let Some(Data::U8(decisions)) = outputs.get(DECISION.name()) {
                for (trajectory, decision) in decisions.iter().enumerate() {
                    let role = match decision {
                        0 => Role::Drop,
                        1 => Role::BaselineOnly,
                        2 => Role::Train,
                        other => {
                            return Err(CreditError::Range {
                                label: stage.scheme.label().to_owned(),
                                plugin: stage.scheme.origin().to_string(),
                                hook: Hook::Select,
                                column: DECISION.name(),
                                value: other.to_string(),
                                address: batch.address_of_trajectory(trajectory),
                                expected: "a decision is 0 (drop), 1 (baseline only) or 2 (train)",
                            });
                        }
                    };
                    let slot = &mut roles[batch.episodes[trajectory]];
                    *slot = weakest(*slot, role);
                }
            }
            sample_more |= outputs.get(SAMPLE_MORE.name()) == Some(&Data::Bool(vec![true]));
        }
        Ok(Selected { roles, sample_more })
    }

    /// Columns that the results of queries become.
    pub fn announced(&self) -> BTreeSet<String> {
        self.schemes().flat_map(|scheme| &scheme.needs().asks).map(|column| column.name.clone()).collect()
    }

    /// Asks which texts to score. A shadow asks too, if what it asks for can show in what it is logged for.
    pub fn queries(&mut self, batch: &Batch, iteration: u64) -> Result<Vec<Query>, CreditError> {
        let mut all = Vec::new();
        let asks = |stage: &&mut Stage| {
            let shown = !stage.shadow || stage.has(Hook::Advantage) || stage.has(Hook::Weigh);
            shown && stage.active(iteration)
        };
        let stages = self.stages.iter_mut().filter(asks).map(|stage| &mut stage.scheme);
        for scheme in stages.chain(&mut self.objective) {
            if !scheme.needs().hooks.contains(&Hook::Queries) {
                continue;
            }
            let mut raw = Vec::new();
            batch.table.raw(&mut raw);
            let replies = scheme.call(Hook::Queries, &raw, &mut [])?;
            let queries = read_queries(&replies).map_err(|error| CreditError::Reply {
                label: scheme.label().to_owned(),
                hook: Hook::Queries,
                error,
            })?;
            check_queries(scheme, batch, &queries)?;
            all.extend(queries);
        }
        Ok(all)
    }

    /// Computes the credit of every token. The batch keeps what `shape` made of its rewards.
    pub fn credit(&mut self, batch: &mut Batch, iteration: u64) -> Result<Credit, CreditError> {
        for stage in self.trains(Hook::Shape, iteration) {
            shape(&mut stage.scheme, batch)?;
        }

        let tokens = batch.tokens();
        let mut credit = Credit { weight: vec![1.0; tokens], ..Credit::default() };
        let mut summed = false;
        for stage in self.trains(Hook::Advantage, iteration) {
            let (advantage, value_target) = advantage(&mut stage.scheme, batch)?;
            credit.statistics.push(StageStatistics::of(stage.scheme.label(), ADVANTAGE.name(), &advantage));
            if summed {
                for (sum, term) in credit.advantage.iter_mut().zip(&advantage) {
                    *sum += stage.mix as f32 * term;
                }
            } else if stage.mix == 1.0 {
                credit.advantage = advantage;
            } else {
                credit.advantage = advantage.iter().map(|term| stage.mix as f32 * term).collect();
            }
            summed = true;
            credit.value_target = value_target.or(credit.value_target);
        }
        if let Some((_, index, value)) = first_not_finite(&credit.advantage) {
            return Err(CreditError::Sum { value: value.to_string(), address: batch.address_of_token(index) });
        }
        if !summed {
            credit.advantage = match batch.table.f32(ADVANTAGE) {
                Some(advantage) => advantage.to_vec(),
                None if self.needs_advantages() => return Err(CreditError::NoAdvantage),
                None => vec![0.0; tokens],
            };
        }

        for stage in self.trains(Hook::Weigh, iteration) {
            (credit.advantage, credit.weight) = weigh(
                &mut stage.scheme,
                batch,
                std::mem::take(&mut credit.advantage),
                std::mem::take(&mut credit.weight),
            )?;
            let label = stage.scheme.label();
            credit.statistics.push(StageStatistics::of(label, ADVANTAGE.name(), &credit.advantage));
            credit.statistics.push(StageStatistics::of(label, WEIGHT.name(), &credit.weight));
        }
        credit.shadows = self.shadows(batch, iteration, &credit)?;
        Ok(credit)
    }

    /// What the shadows give: those with `advantage` on their own, those with `weigh` alone on top of what trains.
    fn shadows(&mut self, batch: &Batch, iteration: u64, credit: &Credit) -> Result<Vec<Shadow>, CreditError> {
        let mut shadows = Vec::new();
        for stage in self.stages.iter_mut().filter(|stage| stage.shadow && stage.active(iteration)) {
            let (mut advantages, mut weights) = (credit.advantage.clone(), credit.weight.clone());
            if stage.has(Hook::Advantage) {
                (advantages, _) = advantage(&mut stage.scheme, batch)?;
                weights.fill(1.0);
            }
            if stage.has(Hook::Weigh) {
                (advantages, weights) = weigh(&mut stage.scheme, batch, advantages, weights)?;
            }
            shadows.push(Shadow { label: stage.scheme.label().to_owned(), advantage: advantages, weight: weights });
        }
        Ok(shadows)
    }
}

/// Refuses requests that make no sense, before anything is paid for them.
fn check_queries(scheme: &Scheme, batch: &Batch, queries: &[Query]) -> Result<(), CreditError> {
    let steps = batch.offsets(STEP_TOKENS).len().saturating_sub(1);
    let announced = |name: &str| scheme.needs().asks.iter().any(|column| column.name == name);
    for query in queries {
        let message = if query.step >= steps {
            format!("it asks about step {}, and the batch has {steps}", query.step)
        } else if !announced(&query.column) {
            format!("it asks for the column `{}`, which its needs do not announce", query.column)
        } else if query.target.as_ref().is_some_and(String::is_empty) {
            format!("it asks for an empty target at {}", batch.address_of_step(query.step))
        } else {
            match query.policy {
                QueryPolicy::Copy { every: 0 } => "it asks for a copy that is synchronised every 0 steps".to_owned(),
                QueryPolicy::MovingAverage { rate } if !(0.0..=1.0).contains(&rate) => {
                    format!("it asks for a moving average at rate {rate}, which is outside 0..=1")
                }
                _ => continue,
            }
        };
        let (label, plugin) = (scheme.label().to_owned(), scheme.origin().to_string());
        return Err(CreditError::Query { label, plugin, message });
    }
    Ok(())
}

fn weakest(a: Role, b: Role) -> Role {
    match (a, b) {
        (Role::Drop, _) | (_, Role::Drop) => Role::Drop,
        (Role::BaselineOnly, _) | (_, Role::BaselineOnly) => Role::BaselineOnly,
        (Role::Train, Role::Train) => Role::Train,
    }
}

/// Calls a hook on the columns of some tables.
pub(super) fn call(scheme: &mut Scheme, hook: Hook, inputs: &[&Table], outputs: &mut Table) -> Result<(), CreditError> {
    let mut raw: Vec<RawColumn<'_>> = Vec::with_capacity(64);
    for table in inputs {
        table.raw(&mut raw);
    }
    scheme.call(hook, &raw, &mut outputs.raw_mut())?;
    Ok(())
}

fn taken(table: &mut Table, name: &str) -> Vec<f32> {
    match table.remove(name) {
        Some(Data::F32(elements)) => elements,
        _ => Vec::new(),
    }
}

fn shape(scheme: &mut Scheme, batch: &mut Batch) -> Result<(), CreditError> {
    let mut outputs = Table::default();
    for column in [REWARD, TOKEN_REWARD] {
        outputs.put(column, batch.table.f32(column).map(<[f32]>::to_vec).unwrap_or_default());
    }
    call(scheme, Hook::Shape, &[&batch.table], &mut outputs)?;
    let (reward, token_reward) = (taken(&mut outputs, REWARD.name()), taken(&mut outputs, TOKEN_REWARD.name()));
    finite(scheme, Hook::Shape, REWARD.name(), &reward, |i| batch.address_of_step(i))?;
    finite(scheme, Hook::Shape, TOKEN_REWARD.name(), &token_reward, |i| batch.address_of_token(i))?;
    let outcome = shaped_outcome(batch, &reward, &token_reward);
    batch.table.put(REWARD, reward);
    batch.table.put(TOKEN_REWARD, token_reward);
    batch.table.put(OUTCOME, outcome);
    Ok(())
}

/// The outcome moves by what its steps and tokens moved.
fn shaped_outcome(batch: &Batch, reward: &[f32], token_reward: &[f32]) -> Vec<f32> {
    let raw_outcome = batch.table.f32(RAW_OUTCOME).unwrap_or_default();
    let raw_reward = batch.table.f32(RAW_REWARD).unwrap_or_default();
    let (trajectories, steps) = (batch.offsets(TRAJECTORY_STEPS), batch.offsets(STEP_TOKENS));
    raw_outcome
        .iter()
        .enumerate()
        .map(|(t, raw)| {
            let range = trajectories[t] as usize..trajectories[t + 1] as usize;
            let tokens = steps[range.start] as usize..steps[range.end] as usize;
            let moved: f64 = range.map(|s| f64::from(reward[s]) - f64::from(raw_reward[s])).sum::<f64>()
                + tokens.map(|i| f64::from(token_reward[i])).sum::<f64>();
            (f64::from(*raw) + moved) as f32
        })
        .collect()
}

fn advantage(scheme: &mut Scheme, batch: &Batch) -> Result<(Vec<f32>, Option<Vec<f32>>), CreditError> {
    let tokens = batch.tokens();
    let mut outputs = Table::default();
    outputs.put(ADVANTAGE, vec![f32::NAN; tokens]);
    if scheme.needs().value_target {
        outputs.put(VALUE_TARGET, vec![f32::NAN; tokens]);
    }
    call(scheme, Hook::Advantage, &[&batch.table], &mut outputs)?;
    let address = |i| -> Address { batch.address_of_token(i) };
    let advantages = taken(&mut outputs, ADVANTAGE.name());
    finite(scheme, Hook::Advantage, ADVANTAGE.name(), &advantages, address)?;
    let targets = scheme.needs().value_target.then(|| taken(&mut outputs, VALUE_TARGET.name()));
    if let Some(targets) = &targets {
        finite(scheme, Hook::Advantage, VALUE_TARGET.name(), targets, address)?;
    }
    Ok((advantages, targets))
}

fn weigh(
    scheme: &mut Scheme,
    batch: &Batch,
    advantages: Vec<f32>,
    weights: Vec<f32>,
) -> Result<(Vec<f32>, Vec<f32>), CreditError> {
    let mut outputs = Table::default();
    outputs.put(ADVANTAGE, advantages);
    outputs.put(WEIGHT, weights);
    call(scheme, Hook::Weigh, &[&batch.table], &mut outputs)?;
    let (advantages, weights) = (taken(&mut outputs, ADVANTAGE.name()), taken(&mut outputs, WEIGHT.name()));
    let address = |i| -> Address { batch.address_of_token(i) };
    finite(scheme, Hook::Weigh, ADVANTAGE.name(), &advantages, address)?;
    finite(scheme, Hook::Weigh, WEIGHT.name(), &weights, address)?;
    not_negative(scheme, Hook::Weigh, &weights, batch)?;
    Ok((advantages, weights))
}
