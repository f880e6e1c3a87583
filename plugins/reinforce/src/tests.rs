//! Values by hand, cases that broke other trainers, and properties.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::Reinforce;

/// A trajectory: an outcome, and the number of tokens of each step.
type Episode = (f32, Vec<usize>);
type Group = Vec<Episode>;

fn batch(layout: Layout, groups: &[Group]) -> TestBatch {
    let shape: Vec<Vec<&[usize]>> =
        groups.iter().map(|group| group.iter().map(|(_, steps)| steps.as_slice()).collect()).collect();
    let shape: Vec<&[&[usize]]> = shape.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(layout, &shape);
    let outcomes: Vec<f32> = groups.iter().flatten().map(|(outcome, _)| *outcome).collect();
    batch.set(RAW_OUTCOME, outcomes.clone()).set(OUTCOME, outcomes);
    batch
}

fn call(params: &str, batch: &TestBatch) -> Vec<f32> {
    TestScheme::<Reinforce>::new(params).unwrap().advantage(batch).unwrap()
}

fn check(params: &str, batch: &TestBatch, expected: &[f32]) {
    let found = call(params, batch);
    assert_eq!(found.len(), expected.len());
    let near = found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6 * e.abs().max(1.0));
    assert!(near, "{params}: {found:?} and not {expected:?}");
}

#[test]
fn an_observation_between_two_responses_is_no_time_step() {
    let batch = batch(Layout::Trajectory, &[vec![(1.0, vec![2, 2])]]);
    check(r#"{"whiten": false}"#, &batch, &[1.0; 4]);
    check(r#"{"whiten": false, "gamma": 0.5}"#, &batch, &[0.125, 0.25, 0.5, 1.0]);
}

#[test]
fn each_generation_of_a_framework_has_its_setting() {
    let mut batch = batch(Layout::Trajectory, &[vec![(1.0, vec![1, 1])]]);
    batch.set(OBSERVATION_TOKENS, vec![0, 2]);
    let check = |params: &str, expected: &[f32]| check(params, &batch, expected);
    check(r#"{"whiten": false, "gamma": 0.5, "within": "steps"}"#, &[0.0, 1.0]);
    check(r#"{"whiten": false, "gamma": 0.5, "observation_steps": true}"#, &[0.125, 1.0]);
}

#[test]
fn the_groups_mean_comes_off_the_outcome() {
    let batch = batch(
        Layout::Trajectory,
        &[vec![(1.0, vec![1]), (0.0, vec![2])], vec![(0.95, vec![1]), (0.95, vec![1])], vec![(3.0, vec![1])]],
    );
    take_metrics();
    check(r#"{"whiten": false, "baseline": "group"}"#, &batch, &[0.5, -0.5, -0.5, 0.0, 0.0, 0.0]);
    let metrics = take_metrics();
    for (name, expected) in [("groups", 3.0), ("groups_singleton", 1.0), ("groups_without_spread", 1.0)] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
    let raw = r#"{"whiten": false, "baseline": "group", "singleton": "raw"}"#;
    check(raw, &batch, &[0.5, -0.5, -0.5, 0.0, 0.0, 3.0]);
    let group_size = |params: &str| TestScheme::<Reinforce>::new(params).unwrap().needs().unwrap().group_size;
    assert_eq!((group_size("{}"), group_size(r#"{"baseline": "group"}"#), group_size(raw)), (0, 2, 0));
}

#[test]
fn equal_groups_get_exactly_zero() {
    for (count, outcome) in [(8, 0.95), (10, 0.1), (7, 0.6), (6, 0.3)] {
        let batch = batch(Layout::Step, &[vec![(outcome, vec![1, 2]); count]]);
        for params in ["{}", r#"{"baseline": "group"}"#, r#"{"baseline": "group", "whiten": false}"#] {
            assert!(call(params, &batch).iter().all(|a| *a == 0.0), "{params}");
        }
    }
}

#[test]
fn whitening_counts_tokens() {
    let batch = batch(Layout::Trajectory, &[vec![(1.0, vec![3]), (0.0, vec![1])]]);
    // Mean 0.75, squares 0.75; sample variance 0.25, that of the population 0.1875.
    check(r#"{"eps": 0}"#, &batch, &[0.5, 0.5, 0.5, -1.5]);
    let root = 3.0_f32.sqrt();
    check(r#"{"eps": 0, "ddof": 0}"#, &batch, &[1.0 / root, 1.0 / root, 1.0 / root, -root]);
    // What the group's mean took off, whitening would have taken off too.
    check(r#"{"eps": 0, "baseline": "group"}"#, &batch, &[0.5, 0.5, 0.5, -1.5]);
}

#[test]
fn what_stands_only_for_the_baseline_counts() {
    let mut batch = batch(Layout::Trajectory, &[vec![(1.0, vec![1]), (0.0, vec![2]), (0.5, vec![1])]]);
    let before = call(r#"{"baseline": "group"}"#, &batch);
    batch.set(TRAINED, vec![true, false, true]);
    assert_eq!(call(r#"{"baseline": "group"}"#, &batch), before);
}

#[test]
fn bad_parameters_are_refused() {
    for (params, key) in [
        (r#"{"gamma": 1.5}"#, "gamma"),
        (r#"{"ddof": 2}"#, "ddof"),
        (r#"{"eps": -1}"#, "eps"),
        (r#"{"lambda": 1}"#, "lambda"),
        (r#"{"baseline": "batch"}"#, "baseline"),
        (r#"{"baseline": "group", "reward": "steps"}"#, "baseline"),
        (r#"{"observation_steps": true, "within": "trajectories"}"#, "observation_steps"),
    ] {
        let error = TestScheme::<Reinforce>::new(params).err();
        assert_eq!(error.map(|e| e.location).as_deref(), Some(key), "{params}");
    }
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let steps = prop::collection::vec(0_usize..4, 1..4).prop_map(|mut steps| {
        steps[0] += 1;
        steps
    });
    prop::collection::vec(prop::collection::vec((-3.0_f32..3.0, steps), 1..5), 1..4)
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(
        groups in groups(),
        baseline in prop::sample::select(vec!["none", "group"]),
        layout in prop::sample::select(vec![Layout::Step, Layout::Trajectory]),
        turn in 0_usize..5,
    ) {
        let params = format!(r#"{{"gamma": 0.9, "baseline": "{baseline}"}}"#);
        let before = call(&params, &batch(layout, &groups));
        let mut rest = before.as_slice();
        let mut tagged: Vec<Vec<(Episode, Vec<u32>)>> = Vec::new();
        for group in &groups {
            tagged.push(group.iter().map(|(outcome, steps)| {
                let (own, others) = rest.split_at(steps.iter().sum());
                rest = others;
                ((*outcome, steps.clone()), own.iter().map(|a| a.to_bits()).collect())
            }).collect());
        }
        tagged.reverse();
        for group in &mut tagged {
            let turn = turn % group.len();
            group.rotate_left(turn);
        }
        let moved: Vec<Group> = tagged.iter().map(|group| group.iter().map(|(t, _)| t.clone()).collect()).collect();
        let after = call(&params, &batch(layout, &moved));
        let expected = tagged.iter().flatten().flat_map(|(_, bits)| bits);
        prop_assert!(after.iter().map(|a| a.to_bits()).eq(expected.copied()));
    }

    #[test]
    fn without_discount_every_token_has_its_outcome(groups in groups()) {
        let found = call(r#"{"whiten": false}"#, &batch(Layout::Step, &groups));
        let expected = groups.iter().flatten().flat_map(|(outcome, steps)| vec![*outcome; steps.iter().sum()]);
        prop_assert!(found.into_iter().eq(expected));
    }

    #[test]
    fn whitening_keeps_the_order_of_returns(groups in groups()) {
        let batch = batch(Layout::Trajectory, &groups);
        let (raw, white) = (call(r#"{"whiten": false}"#, &batch), call("{}", &batch));
        for (i, a) in raw.iter().enumerate() {
            for (j, b) in raw.iter().enumerate() {
                prop_assert!(a < b || white[i] >= white[j]);
            }
        }
    }
}
