//! A run through the shared libraries: the host loads the plugins of a configuration and calls them on the episodes, as
//! `accredit credit` does.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
};

use accredit::{
    config::Loaded,
    credit::{
        Counters, Pipeline, Supply,
        offline::{self, ScoredStep},
        plan,
    },
    plugin::{SearchPath, Services},
};
use accredit_core::episode::Trajectory;
use anyhow::{Context, Result, bail, ensure};

use crate::{
    plan::{Run, Source, Unit},
    rollouts::{batches, first_tokens},
};

/// What one batch gave.
struct Scored {
    loss: Option<f64>,
    /// The steps' columns, episode by episode; those of an episode that was left out are empty.
    steps: Vec<ScoredStep>,
    /// The number of tokens of each of the steps.
    tokens: Vec<usize>,
    /// Which episodes are in the batch.
    kept: Vec<bool>,
    /// By scheme and name.
    metrics: BTreeMap<(String, String), f64>,
}

/// The plugins, and the configurations that are loaded so far: many variants share one.
pub struct Evaluator {
    search: SearchPath,
    pipelines: BTreeMap<String, Pipeline>,
}

impl Evaluator {
    /// With plugins from here.
    pub fn new(search: SearchPath) -> Self {
        Self { search, pipelines: BTreeMap::new() }
    }

    fn pipeline(&mut self, run: &Run) -> Result<&mut Pipeline> {
        let text = toml::to_string(&run.config()).context("the configuration of a run")?;
        match self.pipelines.entry(text) {
            Entry::Occupied(loaded) => Ok(loaded.into_mut()),
            Entry::Vacant(place) => {
                let loaded = Loaded::from_text(Path::new("golden.toml"), place.key())?;
                let supply = Supply::rollouts();
                let services = Services::default();
                Ok(place.insert(plan::load(&loaded, &self.search, &supply, services)?))
            }
        }
    }

    /// Makes a run on these episodes: its fields' numbers, in the order of the fields.
    pub fn evaluate(&mut self, run: &Run, episodes: &[Trajectory]) -> Result<Vec<Vec<f64>>> {
        let pipeline = self.pipeline(run)?;
        let counters = Counters { iteration: run.iteration, iterations: run.iteration + 1, update: 0, updates: 1 };
        let scored = batches(episodes, run.unit)
            .iter()
            .map(|batch| batch.as_ref().map(|batch| score(pipeline, batch, counters)).transpose())
            .collect::<Result<Vec<_>>>()?;
        run.fields
            .iter()
            .map(|(name, source)| numbers(source, run.unit, &scored, episodes).with_context(|| name.clone()))
            .collect()
    }
}

fn score(pipeline: &mut Pipeline, episodes: &[Trajectory], counters: Counters) -> Result<Scored> {
    let scored = offline::score(pipeline, episodes, counters)?;
    let mut metrics = BTreeMap::new();
    for scheme in pipeline.schemes_mut() {
        for (name, value) in scheme.take_metrics() {
            metrics.insert((scheme.label().to_owned(), name), value);
        }
    }
    let trajectories = scored.trajectories(episodes);
    let sources = episodes.iter().flat_map(|episode| &episode.steps);
    Ok(Scored {
        loss: scored.objective.map(|(_, evaluated)| evaluated.loss),
        tokens: sources.map(|step| step.tokens.kind.len()).collect(),
        kept: trajectories.iter().map(|trajectory| trajectory.left_out.is_none()).collect(),
        steps: trajectories.into_iter().flat_map(|t| t.steps).collect(),
        metrics,
    })
}

fn numbers(source: &Source, unit: Unit, scored: &[Option<Scored>], episodes: &[Trajectory]) -> Result<Vec<f64>> {
    if unit != Unit::Whole {
        let loss = |batch: &Option<Scored>| match batch {
            None => Ok(0.0),
            Some(batch) => batch.loss.context("there is no loss"),
        };
        return match source {
            Source::Loss => scored.iter().map(loss).collect(),
            other => bail!("{other:?} has no meaning by row or token"),
        };
    }
    let [Some(whole)] = scored else {
        bail!("one batch was expected");
    };
    let column = |of: fn(&ScoredStep) -> &Vec<f32>| -> Vec<f64> {
        let steps = whole.steps.iter().zip(&whole.tokens);
        steps
            .flat_map(|(step, tokens)| {
                let column = of(step);
                (0..*tokens).map(|token| f64::from(column.get(token).copied().unwrap_or(0.0)))
            })
            .collect()
    };
    Ok(match source {
        Source::Loss => vec![whole.loss.context("there is no loss")?],
        Source::Advantages => column(|step| &step.advantage),
        Source::RowAdvantages => {
            let advantages = column(|step| &step.advantage);
            first_tokens(episodes).into_iter().map(|first| first.map_or(0.0, |first| advantages[first])).collect()
        }
        Source::ValueTargets => {
            let absent = whole.steps.iter().all(|step| step.value_target.is_empty());
            ensure!(!absent, "no scheme gave value targets");
            column(|step| &step.value_target)
        }
        Source::Weights => column(|step| &step.weight),
        Source::WeightSum => vec![column(|step| &step.weight).iter().sum()],
        Source::LogprobSlopes => column(|step| &step.d_logprob),
        Source::ValueSlopes => column(|step| &step.d_value),
        Source::KeptGroups => kept_groups(episodes, &whole.kept),
        // Still with respect to log-probabilities: only who knows the logits can go on.
        Source::LogitSlopes => {
            whole.steps.iter().flat_map(|step| &step.d_top_k_logprob).flatten().map(|d| f64::from(*d)).collect()
        }
        Source::Metric(scheme, name) => {
            let key = ((*scheme).to_owned(), (*name).to_owned());
            let value = whole.metrics.get(&key);
            vec![*value.with_context(|| format!("`{scheme}` pushed no `{name}`"))?]
        }
    })
}

/// The groups of which an episode is kept, as their places among all groups in the order in which they first appear.
fn kept_groups(episodes: &[Trajectory], kept: &[bool]) -> Vec<f64> {
    let mut names: Vec<&str> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    for (episode, kept) in episodes.iter().zip(kept) {
        let place = names.iter().position(|name| *name == episode.group).unwrap_or(names.len());
        if place == names.len() {
            names.push(&episode.group);
        }
        if *kept && !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_unstable();
    places.into_iter().map(|place| place as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_kept_if_one_of_its_episodes_is() {
        let episode = |group: &str| Trajectory { group: group.to_owned(), ..Trajectory::default() };
        let episodes = [episode("a"), episode("b"), episode("c"), episode("a"), episode("c")];
        assert_eq!(kept_groups(&episodes, &[false, false, true, true, true]), [0.0, 2.0]);
        assert_eq!(kept_groups(&episodes, &[false; 5]), Vec::<f64>::new());
    }
}
