//! Which groups are kept, round by round.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::DynamicSampling;

/// A step of one token for each of these rewards.
fn batch(groups: &[&[f32]]) -> TestBatch {
    let trajectory: &[usize] = &[1];
    let shapes: Vec<Vec<&[usize]>> = groups.iter().map(|group| vec![trajectory; group.len()]).collect();
    let shapes: Vec<&[&[usize]]> = shapes.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(Layout::Step, &shapes);
    batch.set(RAW_OUTCOME, groups.concat());
    batch
}

fn in_round(mut batch: TestBatch, round: u64, rounds: u64, wanted: u64) -> TestBatch {
    batch.set(ROUND, vec![round]).set(ROUNDS, vec![rounds]).set(ROUND_GROUPS, vec![wanted]);
    batch
}

/// The decision of each group's first trajectory, and whether more are wanted.
fn decided(scheme: &mut TestScheme<DynamicSampling>, groups: &[&[f32]], batch: &TestBatch) -> (Vec<u8>, bool) {
    let (decisions, more) = scheme.select(batch).unwrap();
    let mut firsts = Vec::new();
    let mut at = 0;
    for group in groups {
        assert!(decisions[at..at + group.len()].iter().all(|decision| *decision == decisions[at]));
        firsts.push(decisions[at]);
        at += group.len();
    }
    (firsts, more)
}

fn scheme(params: &str) -> TestScheme<DynamicSampling> {
    TestScheme::new(params).unwrap()
}

const MIXED: &[f32] = &[0.0, 1.0];
const EQUAL: &[f32] = &[1.0, 1.0];
const ALONE: &[f32] = &[0.5];

#[test]
fn groups_without_spread_are_dropped() {
    let groups = [MIXED, EQUAL, ALONE, &[0.95; 8], &[1.0, 1.000_001]];
    assert_eq!(decided(&mut scheme("{}"), &groups, &batch(&groups)), (vec![2, 0, 2, 0, 2], false));
    let params = r#"{"singleton": "drop"}"#;
    assert_eq!(decided(&mut scheme(params), &groups, &batch(&groups)), (vec![2, 0, 0, 0, 2], false));
}

#[test]
fn success_can_be_what_is_compared() {
    let groups = [MIXED, &[0.3, 0.4]];
    let mut batch = batch(&groups);
    batch.set(SUCCESS, vec![false, true, true, true]);
    assert_eq!(decided(&mut scheme(r#"{"reward": "success"}"#), &groups, &batch), (vec![2, 0], false));
}

#[test]
fn more_is_sampled_until_enough_groups_are_kept() {
    take_metrics();
    let mut scheme = scheme("{}");
    let first = [MIXED, EQUAL];
    assert_eq!(decided(&mut scheme, &first, &in_round(batch(&first), 0, 3, 2)), (vec![2, 0], true));
    assert!(take_metrics().is_empty());
    let second = [MIXED, EQUAL, MIXED, EQUAL];
    assert_eq!(decided(&mut scheme, &second, &in_round(batch(&second), 1, 3, 2)), (vec![2, 0, 2, 0], false));
    let metrics = take_metrics();
    for (name, value) in [("groups", 4.0), ("groups_without_spread", 2.0), ("rounds", 2.0)] {
        assert_eq!(metrics[name], [(value, 1.0)], "{name}");
    }
}

#[test]
fn when_the_rounds_are_used_up_the_parameter_decides() {
    let (first, second) = ([EQUAL, MIXED], [EQUAL, MIXED, EQUAL, EQUAL]);
    let decide = |params: &str| {
        let mut scheme = scheme(params);
        decided(&mut scheme, &first, &in_round(batch(&first), 0, 2, 2));
        scheme.select(&in_round(batch(&second), 1, 2, 2))
    };
    assert_eq!(decide("{}"), Ok((vec![0, 0, 2, 2, 0, 0, 0, 0], false)));
    assert_eq!(decide(r#"{"last": "keep"}"#), Ok((vec![0, 0, 2, 2, 2, 2, 2, 2], false)));
    let error = decide(r#"{"last": "fail"}"#).unwrap_err();
    assert!(error.message.contains("after 2 rounds of sampling only 1 of 4 groups"), "{}", error.message);
}

#[test]
fn another_iteration_begins_anew() {
    let mut scheme = scheme(r#"{"last": "keep"}"#);
    let groups = [EQUAL, MIXED];
    let mut batch = in_round(batch(&groups), 0, 1, 2);
    assert_eq!(decided(&mut scheme, &groups, &batch).0, [2, 2]);
    batch.set(ITERATION, vec![1]);
    assert_eq!(decided(&mut scheme, &groups, &batch).0, [2, 2]);
}

#[test]
fn a_batch_without_any_spread_is_not_trained_and_not_empty() {
    let groups = [EQUAL, EQUAL];
    assert_eq!(decided(&mut scheme("{}"), &groups, &in_round(batch(&groups), 0, 1, 2)), (vec![1, 1], false));
}

#[test]
fn what_does_not_fit_is_refused() {
    for params in [r#"{"last": "stop"}"#, r#"{"singleton": "raw"}"#, r#"{"reward": "score"}"#, r#"{"rounds": 3}"#] {
        assert!(TestScheme::<DynamicSampling>::new(params).is_err(), "{params}");
    }
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_decisions(
        groups in prop::collection::vec(prop::collection::vec(0_u8..3, 1..5), 1..8),
        turn in 0_usize..8,
    ) {
        let rewards = |groups: &[Vec<u8>]| -> Vec<Vec<f32>> {
            groups.iter().map(|group| group.iter().map(|reward| f32::from(*reward)).collect()).collect()
        };
        let decide = |groups: &[Vec<u8>]| {
            let rewards = rewards(groups);
            let views: Vec<&[f32]> = rewards.iter().map(Vec::as_slice).collect();
            decided(&mut scheme("{}"), &views, &batch(&views)).0
        };
        let turn = turn % groups.len();
        let mut before = decide(&groups);
        before.rotate_left(turn);
        let mut moved = groups.clone();
        moved.rotate_left(turn);
        for group in &mut moved {
            group.reverse();
        }
        prop_assert_eq!(before, decide(&moved));
    }
}
