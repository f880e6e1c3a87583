//! Which groups are kept.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::VarianceFilter;

/// A group as rewards with the number of tokens of the one step.
type Group<'a> = &'a [(f32, usize)];

/// The decision of each group.
fn decided(params: &str, groups: &[Group<'_>]) -> Vec<u8> {
    let shapes: Vec<Vec<[usize; 1]>> =
        groups.iter().map(|group| group.iter().map(|(_, tokens)| [*tokens]).collect()).collect();
    let shapes: Vec<Vec<&[usize]>> =
        shapes.iter().map(|group| group.iter().map(<[usize; 1]>::as_slice).collect()).collect();
    let shapes: Vec<&[&[usize]]> = shapes.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(Layout::Step, &shapes);
    let rewards: Vec<f32> = groups.iter().flat_map(|group| group.iter().map(|(reward, _)| *reward)).collect();
    batch.set(SUCCESS, rewards.iter().map(|reward| *reward >= 1.0).collect()).set(RAW_OUTCOME, rewards);
    let (decisions, more) = TestScheme::<VarianceFilter>::new(params).unwrap().select(&batch).unwrap();
    assert!(!more);
    let mut at = 0;
    groups
        .iter()
        .map(|group| {
            let own = &decisions[at..at + group.len()];
            at += group.len();
            assert!(own.iter().all(|decision| *decision == own[0]));
            own[0]
        })
        .collect()
}

/// How many groups are kept.
fn kept(decisions: &[u8]) -> usize {
    decisions.iter().map(|decision| usize::from(*decision == 2)).sum()
}

/// Deviations of 0, 0.707, 1.414 and 0.071.
const FOUR: [Group<'static>; 4] =
    [&[(1.0, 1), (1.0, 1)], &[(0.0, 1), (1.0, 1)], &[(0.0, 1), (2.0, 1)], &[(0.0, 1), (0.1, 1)]];

#[test]
fn the_top_share_of_groups_is_kept() {
    assert_eq!(decided("{}", &FOUR), [0, 0, 2, 0]);
    assert_eq!(decided(r#"{"share": 0.5}"#, &FOUR), [0, 2, 2, 0]);
    assert_eq!(decided(r#"{"share": 0.74}"#, &FOUR), [0, 2, 2, 0]);
    assert_eq!(decided(r#"{"share": 1}"#, &FOUR), [2; 4]);
    // At least one.
    assert_eq!(decided(r#"{"share": 0.01}"#, &FOUR), [0, 0, 2, 0]);
}

#[test]
fn the_share_can_be_one_of_the_spread() {
    // The sum is 2.192: half of it is the first alone, 0.96 of it less the slack the first two, 0.98 three.
    assert_eq!(decided(r#"{"of": "spread", "share": 0.5}"#, &FOUR), [0, 0, 2, 0]);
    assert_eq!(decided(r#"{"of": "spread", "share": 0.96}"#, &FOUR), [0, 2, 2, 0]);
    assert_eq!(decided(r#"{"of": "spread", "share": 0.98}"#, &FOUR), [0, 2, 2, 2]);
    assert_eq!(decided(r#"{"of": "spread", "share": 0.97, "slack": 0}"#, &FOUR), [0, 2, 2, 2]);
    assert_eq!(decided(r#"{"of": "spread", "share": 1}"#, &FOUR), [2; 4]);
}

#[test]
fn groups_without_spread_come_last_or_not_at_all() {
    assert_eq!(decided(r#"{"share": 1, "equal": "drop"}"#, &FOUR), [0, 2, 2, 2]);
    let equal: [Group<'_>; 2] = [&[(0.95, 1); 8], &[(0.1, 1); 10]];
    assert_eq!(decided(r#"{"equal": "drop"}"#, &equal), [1, 1]);
    assert_eq!(decided(r#"{"equal": "drop", "of": "spread"}"#, &equal), [1, 1]);
    assert_eq!(kept(&decided("{}", &equal)), 1);
    assert_eq!(kept(&decided(r#"{"of": "spread"}"#, &equal)), 1);
}

#[test]
fn success_can_be_what_is_compared() {
    assert_eq!(decided(r#"{"reward": "success", "share": 0.5}"#, &FOUR), [0, 2, 2, 0]);
}

#[test]
fn a_group_of_one_has_no_spread() {
    assert_eq!(decided(r#"{"share": 0.5}"#, &[&[(9.0, 1)], &[(0.0, 1), (0.1, 1)]]), [0, 2]);
}

#[test]
fn lengths_decide_between_equal_deviations_and_nothing_else_does() {
    let groups: [Group<'_>; 4] =
        [&[(0.0, 1), (1.0, 2)], &[(1.0, 3), (0.0, 3)], &[(0.0, 5), (1.0, 1)], &[(1.0, 4), (0.0, 1)]];
    let decisions = decided("{}", &groups);
    assert_eq!(kept(&decisions), 1);
    let mut turned = groups;
    turned.reverse();
    assert_eq!(decided("{}", &turned), decisions.into_iter().rev().collect::<Vec<_>>());
    // The same in everything.
    assert_eq!(decided("{}", &[&[(0.0, 1), (1.0, 2)], &[(1.0, 2), (0.0, 1)]]), [2, 2]);
}

#[test]
fn the_groups_are_counted() {
    take_metrics();
    decided(r#"{"share": 0.5}"#, &FOUR);
    let metrics = take_metrics();
    let value = |name: &str| metrics[name][0].0;
    assert_eq!((value("groups_kept"), value("groups_without_spread")), (2.0, 1.0));
    assert!((value("spread") - 0.548).abs() < 1e-3);
    assert!((value("spread_kept") - 1.061).abs() < 1e-3);
}

#[test]
fn what_does_not_fit_is_refused() {
    for params in [r#"{"share": 0}"#, r#"{"share": 1.5}"#, r#"{"slack": -1}"#, r#"{"of": "tokens"}"#, r#"{"top": 1}"#] {
        assert!(TestScheme::<VarianceFilter>::new(params).is_err(), "{params}");
    }
    let needs = TestScheme::<VarianceFilter>::new("{}").unwrap().needs().unwrap();
    assert_eq!(needs.group_size, 2);
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_decisions(
        groups in prop::collection::vec(prop::collection::vec((0_u8..3, 1_usize..3), 1..4), 1..8),
        turn in 0_usize..8,
        of in prop::sample::select(vec!["groups", "spread"]),
        share in 0.05_f64..=1.0,
    ) {
        let params = format!(r#"{{"of": "{of}", "share": {share}}}"#);
        let decide = |groups: &[Vec<(u8, usize)>]| {
            let rewards: Vec<Vec<(f32, usize)>> =
                groups.iter().map(|group| group.iter().map(|(r, n)| (f32::from(*r), *n)).collect()).collect();
            let views: Vec<Group<'_>> = rewards.iter().map(Vec::as_slice).collect();
            decided(&params, &views)
        };
        let turn = turn % groups.len();
        let mut before = decide(&groups);
        before.rotate_left(turn);
        let mut moved = groups.clone();
        moved.rotate_left(turn);
        for group in &mut moved {
            group.reverse();
        }
        prop_assert!(before.contains(&2));
        prop_assert_eq!(before, decide(&moved));
    }
}
