//! An iteration in numbers: the host's metrics, and the line that stands beside the progress bar.

use std::collections::BTreeMap;

use accredit_core::{
    batch::Batch,
    episode::{Status, TokenKind, Trajectory},
};
use accredit_plugin_api::{
    ACTION, THINK,
    columns::{
        ENTROPY, GROUP_TRAJECTORIES, KIND, OLD_LOGPROB, RAW_OUTCOME, REF_ENERGY, SAMPLER_LOGPROB, STEP_TOKENS,
        TRAJECTORY_STEPS, VALUE,
    },
    host::Data,
};

use crate::{
    credit::{Credit, Pipeline},
    judge::Judged,
    rollout::collect::Played,
    scoring::{Answered, Scored},
    telemetry::{Metrics, names},
    update::Updated,
};

/// Numbers about the episodes. Episodes that failed are counted and play no other part.
pub fn rollout(metrics: &mut Metrics, played: &Played) {
    let episodes: Vec<&Trajectory> = played.episodes.iter().filter(|e| e.status != Status::Failed).collect();
    let count = episodes.len().max(1) as f64;
    let steps: usize = episodes.iter().map(|episode| episode.steps.len()).sum();
    metrics.put(names::EPISODES, episodes.len() as f64);
    metrics.put(names::SAMPLED_TOKENS, played.sampled_tokens as f64);
    metrics.put(names::OVERLONG_ENDED, played.overlong.ended as f64);
    if played.sampled_tokens == 0 && played.overlong.ended > 0 {
        tracing::warn!(
            "no prompt left room for a response: `max_position_embeddings` of the model, or `rollout.max_context`, is too \
             small for the environment's texts"
        );
    }
    metrics.put(names::OVERLONG_SHORTENED, played.overlong.shortened as f64);
    metrics.put(names::OVERLONG_DROPPED_TURNS, played.overlong.dropped_turns as f64);
    metrics.put(names::REWARD, episodes.iter().map(|episode| reward_of(episode)).sum::<f64>() / count);
    metrics.put(names::SUCCESS, share(&episodes, |episode| episode.success == Some(true)));
    metrics.put(names::STEPS, steps as f64 / count);
    let valid = episodes.iter().flat_map(|e| &e.steps).filter(|step| step.valid_action).count();
    metrics.put(names::VALID, valid as f64 / steps.max(1) as f64);
    metrics.put(names::FAILED, played.failed_attempts as f64);
    let truncated = |episode: &&Trajectory| matches!(episode.status, Status::TruncatedSteps | Status::TruncatedLength);
    metrics.put(names::TRUNCATED, share(&episodes, truncated));
    metrics.put(names::RESPONSE_LENGTH, played.sampled_tokens as f64 / steps.max(1) as f64);
    metrics.put(names::RESPONSE_CLIPPED, played.cut_responses as f64 / steps.max(1) as f64);
    let (complete, think_share) = responses(&played.episodes);
    metrics.put(names::COMPLETE, complete);
    metrics.put(names::THINK_SHARE, think_share);
}

/// Numbers about held-out episodes.
pub fn held_out(metrics: &mut Metrics, episodes: &[Trajectory]) {
    let all: Vec<&Trajectory> = episodes.iter().collect();
    metrics.put(names::EVAL_SUCCESS, share(&all, |episode| episode.success == Some(true)));
    let reward = episodes.iter().map(reward_of).sum::<f64>() / episodes.len().max(1) as f64;
    metrics.put(names::EVAL_REWARD, reward);
    metrics.put(names::EVAL_COMPLETE, responses(episodes).0);
}

fn share(episodes: &[&Trajectory], holds: impl Fn(&&Trajectory) -> bool) -> f64 {
    episodes.iter().filter(|episode| holds(episode)).count() as f64 / episodes.len().max(1) as f64
}

fn reward_of(episode: &Trajectory) -> f64 {
    episode.steps.iter().map(|step| f64::from(step.reward.unwrap_or(0.0))).sum()
}

/// Share of responses with think and action tokens, and share of response tokens that think.
fn responses(episodes: &[Trajectory]) -> (f64, f64) {
    let (mut responses, mut complete, mut tokens, mut thinking) = (0_usize, 0_usize, 0_usize, 0_usize);
    for step in episodes.iter().flat_map(|episode| &episode.steps) {
        let kinds = &step.tokens.kind;
        let think = kinds.iter().filter(|kind| **kind == TokenKind::Think).count();
        responses += 1;
        complete += usize::from(think > 0 && step.action.is_some() && kinds.contains(&TokenKind::Action));
        tokens += kinds.len();
        thinking += think;
    }
    (complete as f64 / responses.max(1) as f64, thinking as f64 / tokens.max(1) as f64)
}

/// Numbers about what a judge was asked, where it was.
pub fn judge(metrics: &mut Metrics, judged: Judged) {
    if judged.asked > 0 {
        metrics.put(names::JUDGE_ASKED, judged.asked as f64);
        metrics.put(names::JUDGE_FAILED, judged.failed as f64);
    }
}

/// Numbers about the signals that were computed.
pub fn signals(metrics: &mut Metrics, scored: Scored, batch: &Batch) {
    if scored.reference_tokens > 0 {
        metrics.put(names::REFERENCE_TOKENS, scored.reference_tokens as f64);
    }
    if let Some(old) = batch.table.f32(OLD_LOGPROB) {
        metrics.put(names::SURPRISAL, -moments(old.iter().map(|logprob| f64::from(*logprob))).0);
    }
    if let Some(entropy) = batch.table.f32(ENTROPY) {
        metrics.put(names::ENTROPY_MEAN, moments(entropy.iter().map(|entropy| f64::from(*entropy))).0);
    }
    if let (Some(energy), Some(outcomes), Some(Data::U8(kinds))) =
        (batch.table.f32(REF_ENERGY), batch.table.f32(RAW_OUTCOME), batch.table.get(KIND.name()))
    {
        for (name, kind) in [("think", Some(THINK)), ("action", Some(ACTION)), ("all", None)] {
            let correlation = energy_correlation(batch, energy, outcomes, kinds, kind);
            metrics.put(format!("{}{name}", names::ENERGY_CORRELATION), correlation);
        }
    }
}

/// Spearman's correlation, over groups, of the mean energy of a kind of token with the variance of outcomes.
fn energy_correlation(batch: &Batch, energy: &[f32], outcomes: &[f32], kinds: &[u8], kind: Option<u8>) -> f64 {
    let (steps, tokens) = (batch.offsets(TRAJECTORY_STEPS), batch.offsets(STEP_TOKENS));
    let (mut energies, mut variances) = (Vec::new(), Vec::new());
    for group in batch.offsets(GROUP_TRAJECTORIES).windows(2) {
        let (from, to) = (group[0] as usize, group[1] as usize);
        let range = tokens[steps[from] as usize] as usize..tokens[steps[to] as usize] as usize;
        let chosen = range.filter(|token| kind.is_none_or(|kind| kinds[*token] == kind));
        let (mean, _) = moments(chosen.map(|token| f64::from(energy[token])));
        if !mean.is_nan() {
            energies.push(mean);
            variances.push(moments(outcomes[from..to].iter().map(|outcome| f64::from(*outcome))).1);
        }
    }
    if energies.len() < 3 { f64::NAN } else { correlation(&ranks(&energies), &ranks(&variances)) }
}

/// Ranks from 1; equal numbers share the mean of theirs.
fn ranks(numbers: &[f64]) -> Vec<f32> {
    let rank = |number: &f64| {
        let below = numbers.iter().filter(|other| *other < number).count();
        let equal = numbers.iter().filter(|other| *other == number).count();
        below as f32 + f32::midpoint(equal as f32, 1.0)
    };
    numbers.iter().map(rank).collect()
}

/// Numbers about what schemes asked to be scored, where something was asked.
pub fn queries(metrics: &mut Metrics, answered: Answered) {
    if answered != Answered::default() {
        metrics.put(names::QUERIES, answered.scored as f64);
        metrics.put(names::QUERIES_TOO_LONG, answered.too_long as f64);
        metrics.put(names::QUERY_TOKENS, answered.tokens as f64);
    }
}

/// Numbers about the batch and its credit.
pub fn credit(metrics: &mut Metrics, batch: &Batch, credit: &Credit) {
    metrics.put(names::LEFT_OUT, batch.left_out.total() as f64);
    let outcomes = batch.table.f32(RAW_OUTCOME).unwrap_or_default();
    let groups = batch.offsets(GROUP_TRAJECTORIES);
    let flat = groups
        .windows(2)
        .filter(|group| {
            let members = &outcomes[group[0] as usize..group[1] as usize];
            members.iter().all(|outcome| *outcome == members[0])
        })
        .count();
    metrics.put(names::GROUPS_WITHOUT_SPREAD, flat as f64);
    if !credit.advantage.is_empty() {
        let sum: f64 = credit.advantage.iter().map(|a| f64::from(*a)).sum();
        let extreme = |pick: fn(f32, f32) -> f32| f64::from(credit.advantage.iter().copied().fold(f32::NAN, pick));
        metrics.put(names::ADVANTAGE_MEAN, sum / credit.advantage.len() as f64);
        metrics.put(names::ADVANTAGE_MAX, extreme(f32::max));
        metrics.put(names::ADVANTAGE_MIN, extreme(f32::min));
    }
    for stage in &credit.statistics {
        let name = |what: &str| format!("credit/{}/{}_{what}", stage.label, stage.column);
        metrics.put(name("mean"), stage.mean);
        metrics.put(name("std"), stage.std);
        metrics.put(name("zero_ratio"), stage.zero_share);
    }
    for shadow in &credit.shadows {
        let label = format!("credit/{}/correlation", shadow.label);
        metrics.put(label, correlation(&credit.advantage, &shadow.advantage));
    }
    if let (Some(old), Some(sampled)) = (batch.table.f32(OLD_LOGPROB), batch.table.f32(SAMPLER_LOGPROB)) {
        let off = || old.iter().zip(sampled).map(|(a, b)| f64::from((a - b).abs()));
        metrics.put(names::MISMATCH, off().sum::<f64>() / old.len().max(1) as f64);
        metrics.put(names::MISMATCH_MAX, off().fold(0.0, f64::max));
    }
}

/// Numbers about the critic's values before the update, where there are some.
pub fn values(metrics: &mut Metrics, batch: &Batch, credit: &Credit) {
    let (Some(values), Some(targets)) = (batch.table.f32(VALUE), &credit.value_target) else { return };
    let (value_mean, _) = moments(values.iter().map(|value| f64::from(*value)));
    let (target_mean, target_variance) = moments(targets.iter().map(|target| f64::from(*target)));
    let errors = targets.iter().zip(values).map(|(target, value)| f64::from(*target) - f64::from(*value));
    let (_, error_variance) = moments(errors);
    metrics.put(names::VALUE_MEAN, value_mean);
    metrics.put(names::VALUE_TARGET_MEAN, target_mean);
    metrics.put(names::EXPLAINED_VARIANCE, 1.0 - error_variance / target_variance);
}

/// Mean and variance; NaN of nothing.
fn moments(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = numbers.clone().count() as f64;
    let mean = numbers.clone().sum::<f64>() / count;
    (mean, numbers.map(|number| (number - mean).powi(2)).sum::<f64>() / count)
}

/// Pearson's correlation; NaN where one side does not vary.
fn correlation(a: &[f32], b: &[f32]) -> f64 {
    let count = a.len().max(1) as f64;
    let mean = |x: &[f32]| x.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let moment = |x: &[f32], mean_x: f64, y: &[f32], mean_y: f64| {
        x.iter().zip(y).map(|(x, y)| (f64::from(*x) - mean_x) * (f64::from(*y) - mean_y)).sum::<f64>()
    };
    moment(a, mean_a, b, mean_b) / (moment(a, mean_a, a, mean_a) * moment(b, mean_b, b, mean_b)).sqrt()
}

/// What the schemes themselves pushed.
pub fn schemes(metrics: &mut Metrics, pipeline: &mut Pipeline) {
    for scheme in pipeline.schemes_mut() {
        let label = scheme.label().to_owned();
        metrics.put(format!("{}scheme/{label}", names::TIMING), scheme.take_spent().as_secs_f64());
        for (name, value) in scheme.take_metrics() {
            metrics.put(format!("credit/{label}/{name}"), value);
        }
    }
}

/// Numbers about the optimiser steps.
pub fn update(metrics: &mut Metrics, updated: &Updated, updates: u64) {
    metrics.put(names::LOSS, updated.loss);
    metrics.put(names::GRAD_NORM, updated.grad_norm);
    if updated.moved.tokens > 0.0 {
        metrics.put(names::POLICY_KL, updated.moved.kl / updated.moved.tokens);
        metrics.put(names::POLICY_GAIN, updated.moved.gain / updated.moved.tokens);
    }
    metrics.put(names::LR, updated.lr);
    if let Some(critic) = updated.critic {
        metrics.put(names::CRITIC_GRAD_NORM, critic.grad_norm);
        metrics.put(names::CRITIC_LR, critic.lr);
    }
    metrics.put(names::UPDATES, updates as f64);
    metrics.put(names::TRAINING_RATE, updated.tokens as f64);
}

/// Turns counts of tokens into rates, with the times that were measured.
pub fn rates(metrics: &mut Metrics) {
    let seconds = |part: &str| metrics.get(&format!("{}{part}", names::TIMING)).unwrap_or(f64::NAN);
    let (sampling, training) = (seconds("gen"), seconds("update_actor"));
    let tokens = metrics.get(names::TRAINING_RATE).unwrap_or(0.0);
    let sampled = metrics.get(names::SAMPLED_TOKENS).unwrap_or(0.0);
    metrics.put(names::SAMPLING_RATE, sampled / sampling);
    metrics.put(names::TRAINING_RATE, tokens / training);
}

/// The line beside the progress bar.
pub fn line(metrics: &Metrics) -> String {
    let number = |name| metrics.get(name).unwrap_or(f64::NAN);
    format!(
        "success {:.0}%, reward {:.2}, {:.0} tokens/s",
        100.0 * number(names::SUCCESS),
        number(names::REWARD),
        number(names::SAMPLING_RATE)
    )
}

/// The line about an evaluation.
pub fn evaluation(iteration: Option<u64>, metrics: &Metrics) -> String {
    let number = |name| metrics.get(name).unwrap_or(f64::NAN);
    let when = iteration.map_or_else(|| "before training".to_owned(), |i| format!("after iteration {i}"));
    format!(
        "held-out tasks {when}: success {:.1}%, responses that think and act {:.1}%",
        100.0 * number(names::EVAL_SUCCESS),
        100.0 * number(names::EVAL_COMPLETE)
    )
}

/// The best and the worst trajectory of each group, by outcome; the first of equals.
pub fn best_and_worst(episodes: &[Trajectory]) -> Vec<Trajectory> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, episode) in episodes.iter().enumerate() {
        groups.entry(&episode.group).or_default().push(index);
    }
    let mut chosen: Vec<usize> = Vec::new();
    for members in groups.values() {
        let reward = |index: &usize| reward_of(&episodes[*index]);
        let best = members.iter().copied().reduce(|a, b| if reward(&b) > reward(&a) { b } else { a });
        let worst = members.iter().copied().reduce(|a, b| if reward(&b) < reward(&a) { b } else { a });
        chosen.extend(best);
        chosen.extend(worst.filter(|worst| Some(*worst) != best));
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|index| episodes[index].clone()).collect()
}

#[cfg(test)]
mod tests {
    use accredit_core::episode::{Step, Tokens};

    use super::*;

    /// Value metrics of one step's values and their targets.
    fn found(value: &[f32], target: &[f32]) -> [Option<f64>; 3] {
        let tokens = Tokens { kind: vec![TokenKind::Think; value.len()], ..Tokens::default() };
        let steps = vec![Step { reward: Some(1.0), tokens, ..Step::default() }];
        let episode = Trajectory { group: "g".to_owned(), steps, ..Trajectory::default() };
        let mut batch = Batch::build(&[episode], &[], &[]).unwrap();
        batch.put_tokens(VALUE.name(), value.to_vec());
        let credit = Credit { value_target: Some(target.to_vec()), ..Credit::default() };
        let mut metrics = Metrics::default();
        values(&mut metrics, &batch, &credit);
        [names::VALUE_MEAN, names::VALUE_TARGET_MEAN, names::EXPLAINED_VARIANCE].map(|name| metrics.get(name))
    }

    #[test]
    fn energies_are_ranked_against_the_variance_of_outcomes_by_kind() {
        // Outcomes of two trajectories in each of three groups: variances 0, 0.25 and 1.
        let outcomes = [[1.0, 1.0], [0.0, 1.0], [0.0, 2.0]];
        let episodes: Vec<Trajectory> = (0..6)
            .map(|index| {
                let kind = vec![TokenKind::Think, TokenKind::Action];
                let tokens = Tokens { kind, ..Tokens::default() };
                let reward = Some(outcomes[index / 2][index % 2]);
                let steps = vec![Step { reward, tokens, ..Step::default() }];
                Trajectory { group: format!("g{}", index / 2), steps, ..Trajectory::default() }
            })
            .collect();
        let mut batch = Batch::build(&episodes, &[], &[]).unwrap();
        // Thinking has less energy where outcomes vary, acting more, and together they are the same everywhere.
        let energy = |group: usize| [9.0 - group as f32, group as f32];
        batch.put_tokens(REF_ENERGY.name(), (0..6).flat_map(|index| energy(index / 2)).collect());
        let mut metrics = Metrics::default();
        signals(&mut metrics, Scored { reference_tokens: 12 }, &batch);
        let found = |name: &str| metrics.get(&format!("{}{name}", names::ENERGY_CORRELATION));
        assert!((found("think").unwrap() + 1.0).abs() < 1e-6);
        assert!((found("action").unwrap() - 1.0).abs() < 1e-6);
        assert_eq!(found("all"), None);
        assert_eq!(metrics.get(names::REFERENCE_TOKENS), Some(12.0));
        assert_eq!(ranks(&[0.5, 2.0, 0.5]), [1.5, 3.0, 1.5]);
    }

    #[test]
    fn explained_variance_is_1_for_the_targets_themselves_and_0_for_a_constant() {
        assert_eq!(found(&[1.0, 3.0], &[1.0, 3.0]), [Some(2.0), Some(2.0), Some(1.0)]);
        assert_eq!(found(&[0.0, 0.0], &[1.0, 3.0]), [Some(0.0), Some(2.0), Some(0.0)]);
        // Off by a constant is no loss of explanation; the wrong way round is worse than a constant.
        assert_eq!(found(&[5.0, 7.0], &[1.0, 3.0])[2], Some(1.0));
        assert_eq!(found(&[3.0, 1.0], &[1.0, 3.0])[2], Some(-3.0));
        // Targets that do not vary leave nothing to explain.
        assert_eq!(found(&[0.0, 1.0], &[2.0, 2.0])[2], None);
    }
}
