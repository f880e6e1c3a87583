use accredit_plugin_api::{Layout, prelude::*, testing::TestScheme};
use proptest::prelude::*;

use super::{Group, advantages, batch, check_order};
use crate::rloo::Rloo;

const ROWS: &str = r#"{"over": "rows"}"#;

fn check(layout: Layout, params: &str, groups: &[Group<'_>], expected: &[f32]) {
    let found = advantages::<Rloo>(layout, params, groups);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{params} {groups:?}: {found} and not {expected}");
    }
}

#[test]
fn the_toy_group() {
    let group: Group<'_> = &[(10.0, 3), (0.0, 4), (10.0, 2)];
    check(Layout::Step, ROWS, &[group], &[5.0, -6.25, 5.0]);
    check(Layout::Step, "{}", &[group], &[5.0, -10.0, 5.0]);
    check(Layout::Trajectory, ROWS, &[group], &[5.0, -10.0, 5.0]);
}

#[test]
fn equal_outcomes_give_exactly_zero() {
    for (count, outcome) in [(8, 0.95), (10, 0.1), (7, 0.6), (6, 0.3)] {
        let found = advantages::<Rloo>(Layout::Step, "{}", &[&vec![(outcome, 1); count]]);
        assert!(found.iter().all(|a| *a == 0.0), "{found:?}");
    }
}

#[test]
fn a_group_of_one_has_one_rule() {
    let groups: &[Group<'_>] = &[&[(0.75, 1)], &[(0.0, 1), (1.0, 1)]];
    check(Layout::Trajectory, "{}", groups, &[0.0, -1.0, 1.0]);
    check(Layout::Trajectory, r#"{"singleton": "raw"}"#, groups, &[0.75, -1.0, 1.0]);
    let group_size = |params: &str| TestScheme::<Rloo>::new(params).unwrap().needs().unwrap().group_size;
    assert_eq!((group_size("{}"), group_size(r#"{"singleton": "raw"}"#)), (2, 0));
}

#[test]
fn what_stands_only_for_the_baseline_counts() {
    let mut batch = batch(Layout::Trajectory, &[&[(1.0, 1), (0.0, 1), (0.0, 1)]]);
    let mut scheme = TestScheme::<Rloo>::new("{}").unwrap();
    let before = scheme.advantage(&batch).unwrap();
    batch.set(TRAINED, vec![true, false, true]);
    assert_eq!(scheme.advantage(&batch).unwrap(), before);
    assert_eq!(before[..2], [1.0, 1.0]);
}

#[test]
fn parameters_out_of_range_are_refused() {
    for params in [r#"{"over": "tokens"}"#, r#"{"std": true}"#, r#"{"singleton": 0}"#] {
        assert!(TestScheme::<Rloo>::new(params).is_err(), "{params}");
    }
}

proptest! {
    #[test]
    fn an_advantage_is_the_distance_from_the_others_mean(
        group in prop::collection::vec((-3.0_f32..3.0, 1_usize..4), 2..8),
    ) {
        let found = advantages::<Rloo>(Layout::Trajectory, "{}", &[&group]);
        for (i, found) in found.iter().enumerate() {
            let others = group.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, t)| f64::from(t.0));
            let expected = f64::from(group[i].0) - others.sum::<f64>() / (group.len() - 1) as f64;
            prop_assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} and not {expected}");
        }
    }

    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(
        groups in prop::collection::vec(prop::collection::vec((-3.0_f32..3.0, 1_usize..4), 1..6), 1..4),
        over in prop::sample::select(vec!["rows", "trajectories"]),
        seed in any::<u64>(),
        layout in prop::sample::select(vec![Layout::Step, Layout::Trajectory]),
    ) {
        check_order::<Rloo>(layout, &format!(r#"{{"over": "{over}"}}"#), &groups, seed);
    }
}
