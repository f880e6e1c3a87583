//! Golden rollouts as episodes of the host.

use accredit_core::episode::{Layout, Status, Step, TokenKind, Tokens, TopK, Trajectory};
use accredit_plugin_api::columns::TEACHER_LOGPROB;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    files::{GoldenFile, Input},
    plan::{Given, Run, Unit},
};

/// Advantages and returns that come from golden numbers, by trajectory, the environment's tokens among them.
#[derive(Debug)]
pub struct Gae {
    advantages: Vec<Vec<f32>>,
    returns: Vec<Vec<f32>>,
}

impl Gae {
    /// Takes them out of the golden file of `ppo_gae`.
    pub fn of(file: &GoldenFile) -> Result<Self> {
        const VARIANT: &str = "verl_outcome_g0.99_l0.95";
        let variant = file.variants.iter().find(|v| v.name == VARIANT);
        let variant = variant.with_context(|| format!("ppo_gae.{}: no {VARIANT}", file.case))?;
        let matrix = |field: &str| -> Result<Vec<Vec<f32>>> {
            let value = variant.expected.get(field).unwrap_or(&Value::Null);
            serde_json::from_value(value.clone()).with_context(|| format!("ppo_gae.{}, {VARIANT}, {field}", file.case))
        };
        Ok(Self { advantages: matrix("whitened_advantages")?, returns: matrix("returns")? })
    }
}

/// The episodes that a run is made on.
pub fn episodes(input: &Input, layout: Layout, run: &Run, gae: Option<&Gae>) -> Result<Vec<Trajectory>> {
    let mut episodes = Vec::new();
    let mut rows = 0;
    for group in &input.groups {
        for source in &group.trajectories {
            let index = episodes.len();
            let mut steps = Vec::new();
            let mut place = 0;
            for step in &source.steps {
                let mut tokens = Tokens { kind: step.tokens.kind.clone(), ..Tokens::default() };
                let count = tokens.kind.len();
                tokens.columns.clone_from(&step.tokens.columns);
                let at = |matrix: &[Vec<f32>]| -> Result<Vec<f32>> {
                    let row = matrix.get(index).and_then(|row| row.get(place..place + count));
                    Ok(row.with_context(|| format!("{}: too few numbers", source.traj_id))?.to_vec())
                };
                let gae = || gae.context("the advantages of ppo_gae are needed");
                let (advantage, target) = match run.given {
                    Given::Nothing => (None, None),
                    Given::Constant(advantage) => (Some(vec![advantage; count]), None),
                    Given::Gae => (Some(at(&gae()?.advantages)?), None),
                    Given::Returns => (Some(vec![0.0; count]), Some(at(&gae()?.returns)?)),
                };
                place += count;
                adapt(&mut tokens, run, advantage, target).with_context(|| source.traj_id.clone())?;
                if layout == Layout::Step {
                    drop_observations(&mut tokens);
                }
                let row = match layout {
                    Layout::Trajectory => index,
                    Layout::Step => rows + steps.len(),
                };
                if run.masked_rows.contains(&row) {
                    tokens.kind.fill(TokenKind::Observation);
                }
                if run.teacher_rows.as_ref().is_some_and(|with_teacher| !with_teacher.contains(&row))
                    && let Some(teacher) = tokens.columns.get_mut(TEACHER_LOGPROB.name())
                {
                    teacher.fill(f32::NAN);
                }
                steps.push(Step {
                    state: Some(step.state_key.clone()),
                    next_state: step.next_state_key.clone(),
                    reward: Some(if run.no_rewards { 0.0 } else { step.reward as f32 }),
                    terminal: step.done,
                    valid_action: true,
                    tokens,
                    ..Step::default()
                });
            }
            rows += steps.len();
            episodes.push(Trajectory {
                layout,
                group: group.group_id.clone(),
                trajectory: source.traj_id.clone(),
                status: if source.truncated { Status::TruncatedSteps } else { Status::Completed },
                outcome: Some(if run.no_rewards { 0.0 } else { source.outcome_reward as f32 }),
                steps,
                ..Trajectory::default()
            });
        }
    }
    Ok(episodes)
}

/// Puts in what a run changes, and leaves out what only an objective reads where there is none.
fn adapt(tokens: &mut Tokens, run: &Run, advantage: Option<Vec<f32>>, target: Option<Vec<f32>>) -> Result<()> {
    let columns = &mut tokens.columns;
    for (name, column) in columns.iter() {
        ensure!(
            column.len() == tokens.kind.len(),
            "the column `{name}` has {} numbers for {} tokens",
            column.len(),
            tokens.kind.len()
        );
    }
    if run.objective.is_none() {
        columns.remove("new_logprob");
    }
    if let Some(entropy) = columns.get("entropy").cloned() {
        columns.insert("new_entropy".into(), entropy);
    }
    if run.new_values {
        let value = columns.get("value").context("no column `value`")?;
        let new = value.iter().map(|v| (0.9 * f64::from(*v) + 0.1) as f32);
        columns.insert("new_value".into(), new.collect());
    }
    for (name, column) in [("given_advantage", advantage), ("given_value_target", target)] {
        if let Some(column) = column {
            columns.insert(name.into(), column);
        }
    }
    Ok(())
}

fn drop_observations(tokens: &mut Tokens) {
    let keep: Vec<usize> =
        (0..tokens.kind.len()).filter(|token| tokens.kind[*token] != TokenKind::Observation).collect();
    for column in tokens.columns.values_mut() {
        *column = keep.iter().map(|token| column[*token]).collect();
    }
    tokens.kind = keep.iter().map(|token| tokens.kind[*token]).collect();
}

/// The batches of a unit: one of all episodes, or one of each row or token. Nothing stands for a token of the
/// environment.
pub fn batches(episodes: &[Trajectory], unit: Unit) -> Vec<Option<Vec<Trajectory>>> {
    let alone = |episode: &Trajectory, steps: Vec<Step>| {
        let part = Trajectory { steps, ..episode.clone() };
        Some(vec![part])
    };
    match unit {
        Unit::Whole => vec![Some(episodes.to_vec())],
        Unit::Row => episodes
            .iter()
            .flat_map(|episode| match episode.layout {
                Layout::Trajectory => vec![Some(vec![episode.clone()])],
                Layout::Step => episode.steps.iter().map(|step| alone(episode, vec![step.clone()])).collect(),
            })
            .collect(),
        Unit::Token => {
            let mut batches = Vec::new();
            for episode in episodes {
                for step in &episode.steps {
                    for (token, kind) in step.tokens.kind.iter().enumerate() {
                        let one = |(name, column): (&String, &Vec<f32>)| (name.clone(), vec![column[token]]);
                        let top_k = &step.tokens.top_k;
                        let tokens = Tokens {
                            kind: vec![*kind],
                            top_k: TopK {
                                id: alone_in(&top_k.id, token),
                                new_logprob: alone_in(&top_k.new_logprob, token),
                                teacher_logprob: alone_in(&top_k.teacher_logprob, token),
                            },
                            columns: step.tokens.columns.iter().map(one).collect(),
                            ..Tokens::default()
                        };
                        let one = Step { tokens, ..step.clone() };
                        let trained = *kind != TokenKind::Observation;
                        batches.push(if trained { alone(episode, vec![one]) } else { None });
                    }
                }
            }
            batches
        }
    }
}

/// The list of one token in a list of its own; an absent column stays absent.
fn alone_in<T: Clone>(lists: &[T], token: usize) -> Vec<T> {
    lists.get(token).cloned().into_iter().collect()
}

/// The place of each row's first response token in a list of all tokens; none for a row without one.
pub fn first_tokens(episodes: &[Trajectory]) -> Vec<Option<usize>> {
    let mut firsts = Vec::new();
    let mut place = 0;
    for episode in episodes {
        let mut kinds: Vec<&TokenKind> = Vec::new();
        for (index, step) in episode.steps.iter().enumerate() {
            kinds.extend(&step.tokens.kind);
            if episode.layout == Layout::Step || index + 1 == episode.steps.len() {
                let first = kinds.iter().position(|kind| **kind != TokenKind::Observation);
                firsts.push(first.map(|first| place + first));
                place += kinds.len();
                kinds.clear();
            }
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One trajectory of two steps: response, environment, response.
    fn input() -> Input {
        let step = |kinds: &[&str], numbers: &[f32]| {
            json!({"state_key": "s", "next_state_key": null, "reward": 0.5, "done": false,
                "tokens": {"kind": kinds, "new_logprob": numbers, "entropy": numbers, "value": numbers}})
        };
        serde_json::from_value(json!({
            "schema": "accredit-rollout/1",
            "groups": [{"group_id": "g", "trajectories": [{
                "traj_id": "t", "truncated": true, "outcome_reward": 2.0,
                "steps": [
                    step(&["observation", "think", "action"], &[9.0, 1.0, 2.0]),
                    step(&["format"], &[3.0]),
                ],
            }]}],
        }))
        .unwrap()
    }

    fn run() -> Run {
        Run::constant(0.0).objective(json!({}))
    }

    #[test]
    fn rows_of_steps_have_no_tokens_of_the_environment() {
        let gae = Gae { advantages: vec![vec![0.0, 1.0, 2.0, 3.0]], returns: vec![vec![0.0, 4.0, 5.0, 6.0]] };
        let run = Run { given: Given::Returns, new_values: true, ..run() };
        let of = |layout| episodes(&input(), layout, &run, Some(&gae)).unwrap();
        let episode = &of(Layout::Step)[0];
        assert_eq!((episode.outcome, episode.status), (Some(2.0), Status::TruncatedSteps));
        let columns = &episode.steps[0].tokens.columns;
        assert_eq!(columns["new_logprob"], [1.0, 2.0]);
        assert_eq!(columns["new_entropy"], [1.0, 2.0]);
        assert_eq!(columns["new_value"], [1.0, 1.9]);
        assert_eq!(columns["given_advantage"], [0.0, 0.0]);
        assert_eq!(columns["given_value_target"], [4.0, 5.0]);
        assert_eq!(episode.steps[1].tokens.columns["given_value_target"], [6.0]);
        assert_eq!(first_tokens(&of(Layout::Step)), [Some(0), Some(2)]);
        assert_eq!(first_tokens(&of(Layout::Trajectory)), [Some(1)]);
        assert!(episodes(&input(), Layout::Step, &run, None).is_err());
    }

    #[test]
    fn rewards_can_be_left_out() {
        let run = Run { no_rewards: true, ..run() };
        let episodes = episodes(&input(), Layout::Trajectory, &run, None).unwrap();
        assert_eq!((episodes[0].outcome, episodes[0].steps[0].reward), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_masked_row_has_no_response_token() {
        let run = Run { masked_rows: [1].into(), ..run() };
        let masked = |layout| -> Vec<bool> {
            let episodes = episodes(&input(), layout, &run, None).unwrap();
            let steps = episodes[0].steps.iter();
            steps.map(|step| step.tokens.kind.iter().all(|k| *k == TokenKind::Observation)).collect()
        };
        assert_eq!(masked(Layout::Step), [false, true]);
        assert_eq!(masked(Layout::Trajectory), [false, false]);
    }

    #[test]
    fn a_row_of_which_no_teacher_was_asked_has_no_number() {
        let mut input = input();
        for step in &mut input.groups[0].trajectories[0].steps {
            step.tokens.columns.insert("teacher_logprob".into(), vec![-1.0; step.tokens.kind.len()]);
        }
        let run = Run { teacher_rows: Some([0].into()), ..run() };
        let episode = &episodes(&input, Layout::Step, &run, None).unwrap()[0];
        let unasked = |step: usize| episode.steps[step].tokens.columns["teacher_logprob"].iter().all(|t| t.is_nan());
        assert_eq!((unasked(0), unasked(1)), (false, true));
    }

    #[test]
    fn without_an_objective_there_are_no_fresh_log_probabilities() {
        let run = Run::new(Vec::new());
        let episodes = episodes(&input(), Layout::Trajectory, &run, None).unwrap();
        assert!(!episodes[0].steps[0].tokens.columns.contains_key("new_logprob"));
    }

    #[test]
    fn units_cut_the_rollouts() {
        let of = |layout, unit| {
            let episodes = episodes(&input(), layout, &run(), None).unwrap();
            let tokens = |batch: &Option<Vec<Trajectory>>| {
                let batch = batch.as_ref()?;
                let steps = batch.iter().flat_map(|episode| &episode.steps);
                Some(steps.map(|step| step.tokens.kind.len()).sum::<usize>())
            };
            batches(&episodes, unit).iter().map(tokens).collect::<Vec<_>>()
        };
        assert_eq!(of(Layout::Trajectory, Unit::Whole), [Some(4)]);
        assert_eq!(of(Layout::Trajectory, Unit::Row), [Some(4)]);
        assert_eq!(of(Layout::Step, Unit::Row), [Some(2), Some(1)]);
        assert_eq!(of(Layout::Trajectory, Unit::Token), [None, Some(1), Some(1), Some(1)]);
    }
}
