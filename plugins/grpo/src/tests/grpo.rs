use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::{Group, advantages, check_order};
use crate::grpo::Grpo;

fn check(params: &str, groups: &[Group<'_>], expected: &[f32]) {
    check_layout(Layout::Trajectory, params, groups, expected);
}

fn check_layout(layout: Layout, params: &str, groups: &[Group<'_>], expected: &[f32]) {
    let found = advantages::<Grpo>(layout, params, groups);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let near = (found - expected).abs() < 1e-6 * expected.abs().max(1.0);
        assert!(near, "{params} {groups:?}: {found} and not {expected}");
    }
}

#[test]
fn the_toy_group() {
    let group: Group<'_> = &[(10.0, 3), (0.0, 4), (10.0, 2)];
    let (rows, trajectories) = (r#"{"over": "rows"}"#, "{}");
    check_layout(Layout::Step, rows, &[group], &[0.843_274, -1.054_092, 0.843_274]);
    check_layout(Layout::Step, trajectories, &[group], &[0.577_35, -1.154_7, 0.577_35]);
    // A row that is a trajectory counts once however it is asked for.
    check(rows, &[group], &[0.577_35, -1.154_7, 0.577_35]);
}

#[test]
fn ragged_groups_have_their_own_baselines() {
    check(
        r#"{"std": false}"#,
        &[&[(1.0, 1), (2.0, 1), (3.0, 1), (4.0, 1)], &[(10.0, 1), (12.0, 1)], &[(5.0, 1), (6.0, 1), (7.0, 1)]],
        &[-1.5, -0.5, 0.5, 1.5, -1.0, 1.0, -1.0, 0.0, 1.0],
    );
    let constant: Group<'_> = &[(5.0, 1), (5.0, 2), (5.0, 1)];
    let found = advantages::<Grpo>(Layout::Trajectory, "{}", &[&[(1.0, 1), (0.0, 1)], constant, &[(2.0, 1), (9.0, 1)]]);
    assert_eq!(found[2..5], [0.0; 3]);
}

#[test]
fn one_task_with_four_rollouts_is_one_group() {
    let group: Group<'_> = &[(1.0, 1), (0.0, 1), (1.0, 1), (0.0, 1)];
    check(r#"{"std": false}"#, &[group], &[0.5, -0.5, 0.5, -0.5]);
    check(r#"{"eps": 0}"#, &[group], &[0.866_025_4, -0.866_025_4, 0.866_025_4, -0.866_025_4]);
    check(r#"{"eps": 0, "ddof": 0}"#, &[group], &[1.0, -1.0, 1.0, -1.0]);
}

#[test]
fn equal_outcomes_give_exactly_zero() {
    for (count, outcome) in [(8, 0.95), (10, 0.1), (7, 0.6), (6, 0.3)] {
        let group = vec![(outcome, 1); count];
        for params in ["{}", r#"{"eps": 1e-12}"#, r#"{"std": false}"#, r#"{"over": "rows"}"#] {
            let found = advantages::<Grpo>(Layout::Step, params, &[&group]);
            assert!(found.iter().all(|a| *a == 0.0), "{params} {found:?}");
        }
    }
}

#[test]
fn a_small_spread_is_not_taken_for_none() {
    let found = advantages::<Grpo>(Layout::Trajectory, "{}", &[&[(1.0, 1), (1.000_01, 1)]]);
    assert!((found[0] + 0.619).abs() < 1e-3, "{found:?}");
    assert!((found[1] - 0.619).abs() < 1e-3, "{found:?}");
}

#[test]
fn the_number_of_steps_moves_the_baseline_only_over_rows() {
    let group: Group<'_> = &[(1.0, 3), (0.0, 1)];
    let no_std = r#"{"std": false}"#;
    check_layout(Layout::Step, no_std, &[group], &[0.5, -0.5]);
    check_layout(Layout::Step, r#"{"std": false, "over": "rows"}"#, &[group], &[0.25, -0.75]);
}

#[test]
fn a_row_without_a_token_does_not_count() {
    let mut batch = TestBatch::new(Layout::Step, &[&[&[2, 0, 1], &[1, 1]]]);
    batch.set(OUTCOME, vec![1.0, 0.0]);
    let params = r#"{"std": false, "over": "rows"}"#;
    let found = TestScheme::<Grpo>::new(params).unwrap().advantage(&batch);
    assert_eq!(found.unwrap(), [0.5, 0.5, 0.5, -0.5, -0.5]);
}

#[test]
fn a_trajectory_without_a_token_moves_nobodys_baseline() {
    let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[0], &[2], &[0, 1]]]);
    batch.set(OUTCOME, vec![100.0, 1.0, 0.0]);
    for over in ["trajectories", "rows"] {
        let mut scheme = TestScheme::<Grpo>::new(&format!(r#"{{"std": false, "over": "{over}"}}"#)).unwrap();
        assert_eq!(scheme.advantage(&batch).unwrap(), [0.5, 0.5, -0.5], "{over}");
    }
}

#[test]
fn a_trajectory_counts_by_its_tokens_where_it_is_asked_for() {
    // OPO: with 6 tokens at 1 and 2 at 0 the baseline is 0.75.
    let opo = r#"{"std": false, "over": "tokens"}"#;
    check(opo, &[&[(1.0, 3), (0.0, 1)]], &[0.25, -0.75]);
    check(opo, &[&[(1.0, 3)]], &[0.0]);
    check(r#"{"std": false, "over": "tokens", "singleton": "raw"}"#, &[&[(2.0, 3)]], &[2.0]);
}

#[test]
fn token_rewards_are_compared_or_go_to_their_tokens() {
    let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[1, 2], &[2]]]);
    batch.set(RAW_OUTCOME, vec![1.0, 0.0]).set(TOKEN_REWARD, vec![-0.25, 0.0, -0.5, 0.0, 0.5]);
    batch.set(RAW_REWARD, vec![0.0, 1.0, 0.0]).set(REWARD, vec![0.0, 0.5, 0.0]);
    // As the host sums them: 1 - 0.5 - 0.75 and 0 + 0.5.
    batch.set(OUTCOME, vec![-0.25, 0.5]);
    let found = |params| TestScheme::<Grpo>::new(params).unwrap().advantage(&batch).unwrap();
    assert_eq!(found(r#"{"std": false}"#), [-0.375, -0.375, -0.375, 0.375, 0.375]);
    // Compared are 0.5 and 0.
    assert_eq!(found(r#"{"std": false, "token_rewards": "to-go"}"#), [-0.5, -0.25, -0.25, 0.25, 0.25]);
    let mut rows = TestBatch::new(Layout::Step, &[&[&[1, 2], &[2]]]);
    rows.set(TOKEN_REWARD, vec![-0.25, 0.0, -0.5, 0.0, 0.5]);
    let to_go = TestScheme::<Grpo>::new(r#"{"token_rewards": "to-go"}"#).unwrap().advantage(&rows).unwrap();
    assert_eq!(to_go, [-0.25, -0.5, -0.5, 0.5, 0.5]);
}

#[test]
fn a_group_of_one_has_one_rule() {
    check("{}", &[&[(1.0, 1)], &[(0.0, 1), (1.0, 1)]], &[0.0, -0.707_105_8, 0.707_105_8]);
    let raw = |rest: &str| format!(r#"{{"singleton": "raw"{rest}}}"#);
    check(&raw(r#", "eps": 0.25"#), &[&[(1.0, 1)]], &[0.8]);
    check(&raw(r#", "std": false"#), &[&[(3.0, 1)]], &[3.0]);
    check(&raw(r#", "ddof": 0"#), &[&[(0.0, 1)]], &[0.0]);
    let group_size = |params: &str| TestScheme::<Grpo>::new(params).unwrap().needs().unwrap().group_size;
    assert_eq!((group_size("{}"), group_size(&raw(""))), (2, 0));
}

#[test]
fn groups_without_a_signal_are_counted() {
    take_metrics();
    check(
        "{}",
        &[&[(1.0, 1)], &[(0.5, 1), (0.5, 2)], &[(0.0, 1), (1.0, 1)]],
        &[0.0, 0.0, 0.0, -0.707_105_8, 0.707_105_8],
    );
    let metrics = take_metrics();
    for (name, expected) in [("groups", 3.0), ("groups_singleton", 1.0), ("groups_without_spread", 1.0)] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    for params in [
        r#"{"ddof": 2}"#,
        r#"{"eps": -1}"#,
        r#"{"token_rewards": "none"}"#,
        r#"{"over": "steps"}"#,
        r#"{"singleton": "one"}"#,
        r#"{"standard": true}"#,
    ] {
        assert!(TestScheme::<Grpo>::new(params).is_err(), "{params}");
    }
}

fn groups() -> impl Strategy<Value = Vec<Vec<(f32, usize)>>> {
    prop::collection::vec(prop::collection::vec((-3.0_f32..3.0, 1_usize..4), 1..6), 1..4)
}

fn params() -> impl Strategy<Value = String> {
    let choice = |names: [&'static str; 2]| prop::sample::select(names.to_vec());
    (prop::sample::select(vec!["rows", "trajectories", "tokens"]), choice(["true", "false"]), choice(["zero", "raw"]))
        .prop_map(|(over, std, singleton)| format!(r#"{{"over": "{over}", "std": {std}, "singleton": "{singleton}"}}"#))
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(
        groups in groups(),
        params in params(),
        seed in any::<u64>(),
        layout in prop::sample::select(vec![Layout::Step, Layout::Trajectory]),
    ) {
        check_order::<Grpo>(layout, &params, &groups, seed);
    }

    #[test]
    fn the_advantages_of_a_group_sum_to_zero(
        group in prop::collection::vec((-3.0_f32..3.0, 1_usize..4), 2..8),
        std in any::<bool>(),
    ) {
        let params = format!(r#"{{"std": {std}}}"#);
        let found = advantages::<Grpo>(Layout::Trajectory, &params, &[&group]);
        prop_assert!(found.iter().sum::<f32>().abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn a_better_outcome_never_gets_less(group in prop::collection::vec((-3.0_f32..3.0, 1_usize..4), 2..8)) {
        let found = advantages::<Grpo>(Layout::Trajectory, "{}", &[&group]);
        for (i, a) in group.iter().enumerate() {
            for (j, b) in group.iter().enumerate() {
                prop_assert!(a.0 < b.0 || found[i] >= found[j]);
            }
        }
    }

    #[test]
    fn scaled_and_shifted_outcomes_give_the_same_without_eps(
        outcomes in prop::collection::vec(-8_i32..8, 2..8),
        power in -3_i32..4,
        shift in -4_i32..4,
    ) {
        // Powers of two and small integers: the outcomes themselves are exact.
        let group = |f: &dyn Fn(f32) -> f32| -> Vec<(f32, usize)> {
            outcomes.iter().map(|r| (f(*r as f32), 1)).collect()
        };
        let params = r#"{"eps": 0}"#;
        let plain = advantages::<Grpo>(Layout::Trajectory, params, &[&group(&|r| r)]);
        let moved = advantages::<Grpo>(
            Layout::Trajectory,
            params,
            &[&group(&|r| (r + shift as f32) * 2.0_f32.powi(power))],
        );
        for (a, b) in plain.iter().zip(&moved) {
            prop_assert!((a - b).abs() < 1e-5, "{plain:?} {moved:?}");
        }
    }
}
