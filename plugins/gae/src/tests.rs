//! Values by hand, cases that broke other trainers, and properties.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::Gae;

/// Trajectories as numbers of tokens per step, an outcome, and values per token.
#[derive(Clone, Debug)]
struct Episode {
    steps: Vec<usize>,
    outcome: f32,
    values: Vec<f32>,
}

fn batch(layout: Layout, groups: &[Vec<Episode>]) -> TestBatch {
    let shape: Vec<Vec<&[usize]>> =
        groups.iter().map(|group| group.iter().map(|episode| episode.steps.as_slice()).collect()).collect();
    let shape: Vec<&[&[usize]]> = shape.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(layout, &shape);
    let outcomes: Vec<f32> = groups.iter().flatten().map(|episode| episode.outcome).collect();
    batch.set(RAW_OUTCOME, outcomes.clone()).set(OUTCOME, outcomes);
    batch.set(VALUE, groups.iter().flatten().flat_map(|episode| episode.values.clone()).collect());
    batch
}

fn one(layout: Layout, steps: &[usize], outcome: f32, values: &[f32]) -> TestBatch {
    batch(layout, &[vec![Episode { steps: steps.to_vec(), outcome, values: values.to_vec() }]])
}

fn call(params: &str, batch: &TestBatch) -> (Vec<f32>, Vec<f32>) {
    TestScheme::<Gae>::new(params).unwrap().advantage_and_targets(batch).unwrap()
}

fn check(params: &str, batch: &TestBatch, advantages: &[f32], targets: &[f32]) {
    let found = call(params, batch);
    for (found, expected) in [(&found.0, advantages), (&found.1, targets)] {
        assert_eq!(found.len(), expected.len());
        let near = found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6 * e.abs().max(1.0));
        assert!(near, "{params}: {found:?} and not {expected:?}");
    }
}

#[test]
fn the_recursion_by_hand() {
    let batch = one(Layout::Trajectory, &[1, 1], 1.0, &[0.5, 0.25]);
    // delta = (0.5 * 0.25 - 0.5, 1 - 0.25); with lambda 0.5 the first adds a quarter of the second.
    check(r#"{"gamma": 0.5, "lambda": 0.5, "whiten": false}"#, &batch, &[-0.1875, 0.75], &[0.3125, 1.0]);
    check(r#"{"gamma": 0.5, "lambda": 0, "whiten": false}"#, &batch, &[-0.375, 0.75], &[0.125, 1.0]);
}

#[test]
fn the_environments_tokens_are_no_time_steps() {
    // Values 0, 0 and then an observation with a value of 100 that is no response token and so has no element here.
    let batch = one(Layout::Trajectory, &[1, 1], 1.0, &[0.0, 0.0]);
    check(r#"{"lambda": 0.95, "whiten": false}"#, &batch, &[0.95, 1.0], &[0.95, 1.0]);
}

#[test]
fn the_environments_tokens_cost_steps_where_it_is_asked_for() {
    let mut batch = one(Layout::Trajectory, &[1, 1], 1.0, &[0.5, 0.25]);
    batch.set(OBSERVATION_TOKENS, vec![3, 5]);
    // Two tokens: what the second response hands back counts a 16th.
    let expected = -0.5 + (0.5 * 0.25 + 0.25 * 0.75) / 16.0;
    let params = r#"{"gamma": 0.5, "lambda": 0.5, "whiten": false, "observation_steps": true}"#;
    check(params, &batch, &[expected, 0.75], &[expected + 0.5, 1.0]);
}

#[test]
fn how_far_credit_runs_back() {
    let check = |layout, within: &str, reward: &str, expected: &[f32]| {
        let mut batch = one(layout, &[1, 2], 8.0, &[0.0; 3]);
        batch.set(RAW_REWARD, vec![4.0, 2.0]).set(REWARD, vec![4.0, 2.0]);
        let params = format!(r#"{{"gamma": 0.5, "whiten": false, "within": "{within}", "reward": "{reward}"}}"#);
        check(&params, &batch, expected, expected);
    };
    check(Layout::Trajectory, "rows", "outcome", &[2.0, 4.0, 8.0]);
    check(Layout::Trajectory, "steps", "outcome", &[0.0, 4.0, 8.0]);
    check(Layout::Trajectory, "rows", "steps", &[4.5, 1.0, 2.0]);
    check(Layout::Trajectory, "steps", "steps", &[4.0, 1.0, 2.0]);
    check(Layout::Step, "rows", "outcome", &[8.0, 4.0, 8.0]);
    check(Layout::Step, "steps", "outcome", &[8.0, 4.0, 8.0]);
    check(Layout::Step, "trajectories", "outcome", &[2.0, 4.0, 8.0]);
    check(Layout::Step, "rows", "steps", &[4.0, 1.0, 2.0]);
    check(Layout::Step, "trajectories", "steps", &[4.5, 1.0, 2.0]);
}

#[test]
fn the_reward_of_an_empty_response_stands_on_the_token_before_it() {
    let check = |within: &str, reward: &str, expected: &[f32]| {
        let mut batch = one(Layout::Trajectory, &[0, 1, 0, 1, 0], 8.0, &[0.0; 2]);
        batch.set(REWARD, vec![1.0, 2.0, 4.0, 8.0, 16.0]);
        batch.set(RAW_REWARD, vec![1.0, 2.0, 4.0, 8.0, 16.0]);
        let params = format!(r#"{{"whiten": false, "within": "{within}", "reward": "{reward}"}}"#);
        check(&params, &batch, expected, expected);
    };
    check("rows", "outcome", &[8.0, 8.0]);
    check("rows", "steps", &[30.0, 24.0]);
    check("steps", "steps", &[2.0, 8.0]);
}

#[test]
fn shaped_rewards_count_once() {
    let mut batch = one(Layout::Trajectory, &[1, 1], 1.0, &[0.0, 0.0]);
    batch.set(RAW_REWARD, vec![0.0, 1.0]).set(REWARD, vec![-0.5, 1.0]).set(TOKEN_REWARD, vec![0.25, -0.125]);
    batch.set(OUTCOME, vec![0.625]);
    let (outcome, steps) = (r#"{"whiten": false}"#, r#"{"whiten": false, "reward": "steps"}"#);
    check(outcome, &batch, &[0.625, 0.375], &[0.625, 0.375]);
    check(steps, &batch, &[0.625, 0.875], &[0.625, 0.875]);
}

#[test]
fn whitening_by_hand() {
    let batch = one(Layout::Trajectory, &[3], 1.0, &[0.0, 1.0, 2.0]);
    // Advantages 1, 0, -1: sample variance 1, that of the population 2/3.
    check(r#"{"eps": 0}"#, &batch, &[1.0, 0.0, -1.0], &[1.0; 3]);
    let root = 1.5_f32.sqrt();
    check(r#"{"eps": 0, "ddof": 0}"#, &batch, &[root, 0.0, -root], &[1.0; 3]);
    check(r#"{"eps": 3}"#, &batch, &[0.5, 0.0, -0.5], &[1.0; 3]);
}

#[test]
fn equal_advantages_become_exactly_zero() {
    for steps in [&[1][..], &[2, 3][..]] {
        let tokens = steps.iter().sum();
        let batch = one(Layout::Trajectory, steps, 0.95, &vec![0.0; tokens]);
        check("{}", &batch, &vec![0.0; tokens], &vec![0.95; tokens]);
    }
}

#[test]
fn a_critic_that_is_right_explains_everything() {
    let explained = |values: &[f32]| {
        let episode = |outcome, value: f32| Episode { steps: vec![1], outcome, values: vec![value] };
        let batch = batch(Layout::Trajectory, &[vec![episode(1.0, values[0]), episode(3.0, values[1])]]);
        take_metrics();
        call("{}", &batch);
        take_metrics()
    };
    let metrics = explained(&[1.0, 3.0]);
    assert_eq!((metrics["explained_variance"][0].0, metrics["advantage_std"][0].0), (1.0, 0.0));
    assert_eq!((metrics["value_mean"][0].0, metrics["value_target_mean"][0].0), (2.0, 2.0));
    assert_eq!(explained(&[2.0, 2.0])["explained_variance"][0].0, 0.0);
}

#[test]
fn bad_parameters_are_refused() {
    for (params, key) in [
        (r#"{"gamma": 1.5}"#, "gamma"),
        (r#"{"lambda": -0.1}"#, "lambda"),
        (r#"{"ddof": 2}"#, "ddof"),
        (r#"{"eps": -1}"#, "eps"),
        (r#"{"reward": "step"}"#, "reward"),
        (r#"{"within": "groups"}"#, "within"),
        (r#"{"observation_steps": true, "within": "steps"}"#, "observation_steps"),
    ] {
        assert_eq!(TestScheme::<Gae>::new(params).err().map(|e| e.location).as_deref(), Some(key), "{params}");
    }
}

#[test]
fn what_it_reads_follows_its_parameters() {
    let reads = |params: &str| {
        let needs = TestScheme::<Gae>::new(params).unwrap().needs().unwrap();
        assert!(needs.value_target);
        needs.reads.into_iter().map(|read| read.name).collect::<Vec<_>>()
    };
    assert_eq!(reads("{}"), ["value", "reward", "token_reward", "raw_outcome", "raw_reward"]);
    assert_eq!(reads(r#"{"reward": "steps"}"#), ["value", "reward", "token_reward"]);
    assert!(reads(r#"{"observation_steps": true}"#).contains(&"observation_tokens".to_owned()));
}

fn episode() -> impl Strategy<Value = Episode> {
    (prop::collection::vec(0_usize..4, 1..4), -3.0_f32..3.0).prop_flat_map(|(mut steps, outcome)| {
        steps[0] += 1;
        let tokens = steps.iter().sum::<usize>();
        prop::collection::vec(-2.0_f32..2.0, tokens).prop_map(move |values| Episode {
            steps: steps.clone(),
            outcome,
            values,
        })
    })
}

fn groups() -> impl Strategy<Value = Vec<Vec<Episode>>> {
    prop::collection::vec(prop::collection::vec(episode(), 1..4), 1..4)
}

fn layout() -> impl Strategy<Value = Layout> {
    prop::sample::select(vec![Layout::Step, Layout::Trajectory])
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(groups in groups(), layout in layout(), turn in 0_usize..4) {
        let params = r#"{"gamma": 0.9, "lambda": 0.7}"#;
        let (before, _) = call(params, &batch(layout, &groups));
        let mut rest = before.as_slice();
        let mut tagged: Vec<Vec<(Episode, Vec<u32>)>> = Vec::new();
        for group in &groups {
            tagged.push(group.iter().map(|episode| {
                let (own, others) = rest.split_at(episode.values.len());
                rest = others;
                (episode.clone(), own.iter().map(|a| a.to_bits()).collect())
            }).collect());
        }
        tagged.reverse();
        for group in &mut tagged {
            let turn = turn % group.len();
            group.rotate_left(turn);
        }
        let moved: Vec<Vec<Episode>> =
            tagged.iter().map(|group| group.iter().map(|(episode, _)| episode.clone()).collect()).collect();
        let (after, _) = call(params, &batch(layout, &moved));
        let expected = tagged.iter().flatten().flat_map(|(_, bits)| bits);
        prop_assert!(after.iter().map(|a| a.to_bits()).eq(expected.copied()));
    }

    #[test]
    fn whitened_advantages_have_mean_0_and_deviation_1(groups in groups()) {
        let batch = batch(Layout::Trajectory, &groups);
        let (raw, _) = call(r#"{"whiten": false}"#, &batch);
        let (low, high) = raw.iter().fold((f32::MAX, f32::MIN), |(low, high), a| (low.min(*a), high.max(*a)));
        prop_assume!(high - low > 0.1);
        let (found, _) = call("{}", &batch);
        let count = found.len() as f64;
        let mean = found.iter().map(|a| f64::from(*a)).sum::<f64>() / count;
        let squares = found.iter().map(|a| (f64::from(*a) - mean).powi(2)).sum::<f64>();
        prop_assert!(mean.abs() < 1e-5, "{mean}");
        prop_assert!((squares / (count - 1.0) - 1.0).abs() < 1e-4, "{squares}");
    }

    #[test]
    fn without_discount_the_target_is_what_came(groups in groups(), layout in layout()) {
        let (advantages, targets) = call(r#"{"whiten": false}"#, &batch(layout, &groups));
        let mut token = 0;
        for episode in groups.iter().flatten() {
            for value in &episode.values {
                prop_assert!((targets[token] - episode.outcome).abs() < 1e-5);
                prop_assert!((advantages[token] - (episode.outcome - value)).abs() < 1e-5);
                token += 1;
            }
        }
    }

    #[test]
    fn the_recursion_is_the_sum_of_discounted_residuals(
        episode in episode(),
        gamma in 0.0_f64..1.0,
        lambda in 0.0_f64..1.0,
    ) {
        let params = format!(r#"{{"gamma": {gamma}, "lambda": {lambda}, "whiten": false}}"#);
        let (found, _) = call(&params, &batch(Layout::Trajectory, &[vec![episode.clone()]]));
        let values: Vec<f64> = episode.values.iter().map(|v| f64::from(*v)).collect();
        for (start, found) in found.iter().enumerate() {
            let mut expected = 0.0;
            for k in start..values.len() {
                let last = k + 1 == values.len();
                let next = if last { f64::from(episode.outcome) } else { gamma * values[k + 1] };
                expected += (gamma * lambda).powi((k - start) as i32) * (next - values[k]);
            }
            prop_assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} and not {expected}");
        }
    }
}
