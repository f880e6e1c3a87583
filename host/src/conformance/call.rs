//! One call of a hook on a made-up batch, and what it gave, by trajectory.

use std::collections::BTreeMap;

use accredit_plugin_api::{
    Denominators, Hook, PartCount, Query,
    columns::{
        ADVANTAGE, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, LOSS, NEW_ENTROPY, NEW_LOGPROB,
        NEW_TOP_K_LOGPROB, NEW_VALUE, REWARD, ROUND, ROUND_GROUPS, ROUNDS, SAMPLE_MORE, TOKEN_REWARD, VALUE_TARGET,
        WEIGHT,
    },
    host::{Data, Table, read_queries},
};

use super::world::World;
use crate::plugin::Scheme;

/// What a hook gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// By trajectory and column.
    pub by_trajectory: BTreeMap<u64, BTreeMap<&'static str, Vec<f64>>>,
    /// What belongs to the batch.
    pub batch: BTreeMap<&'static str, f64>,
    /// What was asked for.
    pub queries: Vec<Query>,
}

/// Columns that are there in one hook only.
const FRESH: [&str; 4] = [NEW_LOGPROB.name(), NEW_ENTROPY.name(), NEW_VALUE.name(), NEW_TOP_K_LOGPROB.name()];

/// Calls a hook on a whole batch, after its columns were changed.
pub fn call(scheme: &mut Scheme, hook: Hook, world: &World, change: &dyn Fn(&mut Table)) -> Result<Given, String> {
    let whole: Vec<usize> = (0..world.trajectories.len()).collect();
    call_part(scheme, hook, world, &whole, change)
}

/// Calls a hook on some trajectories of a minibatch, after columns were changed.
pub fn call_part(
    scheme: &mut Scheme,
    hook: Hook,
    minibatch: &World,
    trajectories: &[usize],
    change: &dyn Fn(&mut Table),
) -> Result<Given, String> {
    let needs = scheme.needs().clone();
    let prepared = |world: &World| {
        let mut table = world.table(&needs);
        if matches!(hook, Hook::Weigh | Hook::Refresh | Hook::Objective) {
            table.put(ADVANTAGE, world.numbers(60, -1.5, 1.5));
            table.put(WEIGHT, vec![1.0; world.tokens()]);
        }
        change(&mut table);
        table
    };
    let world = minibatch.with(trajectories.iter().map(|index| minibatch.trajectories[*index].clone()).collect());
    let (whole, mut table) = (prepared(minibatch), prepared(&world));
    let mut outputs = Table::default();
    let tokens = world.tokens();
    let take = |table: &mut Table, column: &str| table.remove(column).unwrap_or(Data::F32(Vec::new()));
    if hook != Hook::Select {
        for column in [ROUND.name(), ROUNDS.name(), ROUND_GROUPS.name()] {
            table.remove(column);
        }
    }
    let fresh = match hook {
        Hook::Objective => FRESH.len(),
        Hook::Refresh => 1,
        _ => 0,
    };
    for column in &FRESH[fresh..] {
        table.remove(column);
    }
    match hook {
        Hook::Select => {
            outputs.put(DECISION, vec![2; world.trajectories.len()]);
            outputs.put(SAMPLE_MORE, vec![false]);
        }
        Hook::Queries => {}
        Hook::Shape => {
            for column in [REWARD, TOKEN_REWARD] {
                outputs.put(column, table.f32(column).unwrap_or_default().to_vec());
            }
        }
        Hook::Advantage => {
            outputs.put(ADVANTAGE, vec![f32::NAN; tokens]);
            if needs.value_target {
                outputs.put(VALUE_TARGET, vec![f32::NAN; tokens]);
            }
        }
        Hook::Weigh => {
            outputs.set(ADVANTAGE.name(), take(&mut table, ADVANTAGE.name()));
            outputs.set(WEIGHT.name(), take(&mut table, WEIGHT.name()));
        }
        Hook::Refresh => {
            outputs.set(ADVANTAGE.name(), take(&mut table, ADVANTAGE.name()));
            table.remove(WEIGHT.name());
        }
        Hook::Objective => {
            let weight = |table: &Table| table.f32(WEIGHT).unwrap_or_default().to_vec();
            if let Some(denominators) = Denominators::of(&whole, &weight(&whole)) {
                let own = weight(&table);
                denominators.put_into(&mut table, &own, trajectories);
            }
            if let Some(part) = &needs.part {
                PartCount::of(&whole, part).put_into(&mut table);
            }
            outputs.put(LOSS, vec![f64::NAN]);
            outputs.put(D_LOGPROB, vec![f32::NAN; tokens]);
            for (derivative, column, each) in [
                (D_ENTROPY, NEW_ENTROPY, 1),
                (D_VALUE, NEW_VALUE, 1),
                (D_TOP_K_LOGPROB, NEW_TOP_K_LOGPROB, needs.top_k as usize),
            ] {
                if scheme.reads(column.name()) {
                    outputs.put(derivative, vec![f32::NAN; each * tokens]);
                }
            }
        }
    }
    let mut inputs = Vec::new();
    table.raw(&mut inputs);
    let replies = scheme.call(hook, &inputs, &mut outputs.raw_mut()).map_err(|error| error.to_string())?;
    let mut given = split(&world, &outputs, needs.top_k as usize);
    if hook == Hook::Queries {
        given.queries = read_queries(&replies).map_err(|error| error.message)?;
    }
    Ok(given)
}

fn split(world: &World, outputs: &Table, top_k: usize) -> Given {
    let mut given = Given::default();
    for column in [DECISION.name(), REWARD.name(), TOKEN_REWARD.name(), ADVANTAGE.name(), WEIGHT.name()]
        .into_iter()
        .chain([VALUE_TARGET.name(), D_LOGPROB.name(), D_ENTROPY.name(), D_VALUE.name(), D_TOP_K_LOGPROB.name()])
    {
        let Some(data) = outputs.get(column) else { continue };
        let numbers: Vec<f64> = match data {
            Data::F32(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
            Data::U8(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
            _ => continue,
        };
        let mut start = 0;
        for trajectory in &world.trajectories {
            let tokens: usize = trajectory.steps.iter().sum();
            let count = match column {
                name if name == DECISION.name() => 1,
                name if name == REWARD.name() => trajectory.steps.len(),
                name if name == D_TOP_K_LOGPROB.name() => top_k * tokens,
                _ => tokens,
            };
            let part = numbers[start..start + count].to_vec();
            given.by_trajectory.entry(trajectory.id).or_default().insert(column, part);
            start += count;
        }
    }
    if let Some(Data::F64(loss)) = outputs.get(LOSS.name()) {
        given.batch.insert(LOSS.name(), loss[0]);
    }
    if let Some(Data::Bool(more)) = outputs.get(SAMPLE_MORE.name()) {
        given.batch.insert(SAMPLE_MORE.name(), f64::from(u8::from(more[0])));
    }
    given
}

impl Given {
    /// The first place where two differ by more than a share of what is there, in words. Trajectories that only one of
    /// them has are passed over.
    pub fn differs(&self, other: &Self, tolerance: f64) -> Option<String> {
        let far = |a: f64, b: f64| {
            let same =
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()));
            !same
        };
        for (name, a) in &self.batch {
            match other.batch.get(name) {
                Some(b) if far(*a, *b) => return Some(format!("`{name}` is {a} and {b}")),
                _ => {}
            }
        }
        for (id, columns) in &self.by_trajectory {
            let Some(others) = other.by_trajectory.get(id) else { continue };
            for (name, numbers) in columns {
                let Some(others) = others.get(name) else { continue };
                for (place, (a, b)) in numbers.iter().zip(others).enumerate() {
                    if far(*a, *b) {
                        return Some(format!("`{name}` of trajectory {id}, number {place}, is {a} and {b}"));
                    }
                }
            }
        }
        if self.queries != other.queries {
            return Some(format!("{} and {} queries, or other ones", self.queries.len(), other.queries.len()));
        }
        None
    }

    /// The first number that is none, in words.
    pub fn not_finite(&self) -> Option<String> {
        if let Some((name, number)) = self.batch.iter().find(|(_, number)| !number.is_finite()) {
            return Some(format!("`{name}` is {number}"));
        }
        for (id, columns) in &self.by_trajectory {
            for (name, numbers) in columns {
                if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
                    let number = numbers[place];
                    return Some(format!("`{name}` of trajectory {id}, number {place}, is {number}"));
                }
            }
        }
        None
    }

    /// A column over all trajectories, in the order of their ids.
    pub fn column(&self, name: &str) -> Vec<f64> {
        self.by_trajectory.values().filter_map(|columns| columns.get(name)).flatten().copied().collect()
    }
}
