//! Policies that score what schemes ask for beside the one that is trained: copies that are synchronised every so many
//! optimiser steps, and moving averages. One is made when it is first asked for, equal to the policy of that moment.

use std::{fs, path::Path};

use accredit_plugin_api::{Query, QueryPolicy};
use accredit_torch::{Error, Model, Snapshot};
use anyhow::{Context, Result, bail};

/// The teachers of a run.
#[derive(Debug, Default)]
pub struct Teachers {
    list: Vec<Teacher>,
}

#[derive(Debug)]
struct Teacher {
    policy: QueryPolicy,
    model: Model,
}

impl Teachers {
    /// Makes those that these queries ask for and that are not there yet.
    pub fn make(&mut self, queries: &[Query], policy: &Model) -> Result<(), Error> {
        for query in queries {
            if query.policy != QueryPolicy::Current && self.find(query.policy).is_none() {
                let model = if is_average(query.policy) { policy.precise_copy()? } else { policy.frozen_copy()? };
                self.list.push(Teacher { policy: query.policy, model });
            }
        }
        Ok(())
    }

    /// Who scores a query of this policy.
    pub fn scorer<'a>(&'a self, wanted: QueryPolicy, policy: &'a Model) -> &'a Model {
        self.find(wanted).unwrap_or(policy)
    }

    fn find(&self, policy: QueryPolicy) -> Option<&Model> {
        self.list.iter().find(|teacher| teacher.policy == policy).map(|teacher| &teacher.model)
    }

    /// Follows the policy after its optimiser step number `update`, counted from 1.
    pub fn follow(&mut self, policy: &Model, update: u64) -> Result<(), Error> {
        for teacher in &mut self.list {
            match teacher.policy {
                QueryPolicy::Copy { every } if update.is_multiple_of(every) => teacher.model.follow(policy, 1.0)?,
                QueryPolicy::MovingAverage { rate } => teacher.model.follow(policy, rate)?,
                QueryPolicy::Copy { .. } | QueryPolicy::Current => {}
            }
        }
        Ok(())
    }

    /// Each with the name of its folder, which stands beside those of the others; see [`Model::snapshot`].
    pub fn snapshot(&self, copied: bool) -> Result<Vec<(String, Snapshot)>, Error> {
        let one = |teacher: &Teacher| Ok((folder_name(teacher.policy), teacher.model.snapshot(copied)?));
        self.list.iter().map(one).collect()
    }

    /// Reads the folder of such folders, for the same policy later; no folder means no teacher.
    pub fn load(folder: &Path, policy: &Model) -> Result<Self> {
        let mut list = Vec::new();
        if folder.is_dir() {
            for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
                let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let Some(wanted) = policy_of(&name) else {
                    bail!("{}: no teacher is called so", path.display());
                };
                list.push(Teacher { policy: wanted, model: policy.load_beside(&path, is_average(wanted))? });
            }
        }
        Ok(Self { list })
    }
}

/// Whether a teacher moves in steps that are too small for the precision of what is computed with.
fn is_average(policy: QueryPolicy) -> bool {
    matches!(policy, QueryPolicy::MovingAverage { .. })
}

/// Name of a teacher's folder. A rate stands as its bits, so that it is read back as it was.
fn folder_name(policy: QueryPolicy) -> String {
    match policy {
        QueryPolicy::Current => "current".to_owned(),
        QueryPolicy::Copy { every } => format!("copy-{every}"),
        QueryPolicy::MovingAverage { rate } => format!("moving-average-{:016x}", rate.to_bits()),
    }
}

fn policy_of(name: &str) -> Option<QueryPolicy> {
    if let Some(every) = name.strip_prefix("copy-") {
        return Some(QueryPolicy::Copy { every: every.parse().ok()? });
    }
    let bits = u64::from_str_radix(name.strip_prefix("moving-average-")?, 16).ok()?;
    Some(QueryPolicy::MovingAverage { rate: f64::from_bits(bits) })
}

#[cfg(test)]
mod tests {
    use accredit_torch::{Device, ModelConfig, Row, Shape, SpecialIds, Wanted};

    use super::*;

    fn model(seed: u64) -> Model {
        let shape = Shape { vocab_size: 11, hidden_size: 8, intermediate_size: 8, ..Shape::default() };
        Model::create(ModelConfig::new(shape, SpecialIds::default()).unwrap(), seed, Device::CPU).unwrap()
    }

    fn query(policy: QueryPolicy) -> Query {
        Query { step: 0, added: String::new(), target: None, policy, column: "teacher_logprob".to_owned() }
    }

    fn logprobs(model: &Model) -> Vec<f32> {
        let row = Row { tokens: &[1, 2, 3, 4], targets: &[1, 2, 3] };
        model.score(&[row], Wanted { logprob: true, ..Wanted::default() }, 1.0, 0).unwrap().logprob
    }

    #[test]
    fn a_copy_waits_and_an_average_moves() {
        let (before, after) = (model(1), model(2));
        let copy = QueryPolicy::Copy { every: 2 };
        let average = QueryPolicy::MovingAverage { rate: 0.25 };
        let mut teachers = Teachers::default();
        teachers.make(&[query(copy), query(average), query(copy), query(QueryPolicy::Current)], &before).unwrap();
        assert_eq!(teachers.list.len(), 2);
        assert_eq!(logprobs(teachers.scorer(QueryPolicy::Current, &after)), logprobs(&after));

        teachers.follow(&after, 1).unwrap();
        assert_eq!(logprobs(teachers.scorer(copy, &after)), logprobs(&before));
        let moved = logprobs(teachers.scorer(average, &after));
        assert!(moved != logprobs(&before) && moved != logprobs(&after));
        teachers.follow(&after, 2).unwrap();
        assert_eq!(logprobs(teachers.scorer(copy, &after)), logprobs(&after));
    }

    #[test]
    fn teachers_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let (before, after) = (model(1), model(2));
        let policies = [QueryPolicy::Copy { every: 10 }, QueryPolicy::MovingAverage { rate: 0.1 }];
        let mut teachers = Teachers::default();
        teachers.make(&policies.map(query), &before).unwrap();
        teachers.follow(&after, 1).unwrap();
        for (name, snapshot) in teachers.snapshot(true).unwrap() {
            snapshot.save(&folder.path().join(name)).unwrap();
        }
        let back = Teachers::load(folder.path(), &after).unwrap();
        for policy in policies {
            assert_eq!(logprobs(back.scorer(policy, &after)), logprobs(teachers.scorer(policy, &after)));
        }
        assert!(Teachers::load(&folder.path().join("none"), &after).unwrap().list.is_empty());
        fs::create_dir(folder.path().join("other")).unwrap();
        assert!(Teachers::load(folder.path(), &after).unwrap_err().to_string().contains("other"));
    }
}
