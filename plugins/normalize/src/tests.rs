//! Values by hand and properties.

use accredit_plugin_api::{
    Layout,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::Normalize;

fn call(params: &str, groups: &[&[&[usize]]], advantage: &[f32]) -> Vec<f32> {
    let batch = TestBatch::new(Layout::Trajectory, groups);
    let mut scheme = TestScheme::<Normalize>::new(params).unwrap();
    let (advantage, weight) = scheme.weigh(&batch, advantage.to_vec()).unwrap();
    assert!(weight.iter().all(|weight| *weight == 1.0));
    advantage
}

fn check(params: &str, groups: &[&[&[usize]]], advantage: &[f32], expected: &[f32]) {
    let found = call(params, groups, advantage);
    let near = found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6 * e.abs().max(1.0));
    assert!(near && found.len() == expected.len(), "{params}: {found:?} and not {expected:?}");
}

#[test]
fn what_counts_once() {
    // Tokens 1 1 | 0 0 | -2 in steps of two trajectories.
    let (groups, advantage): (&[&[&[usize]]], _) = (&[&[&[2, 2], &[1]]], [1.0, 1.0, 0.0, 0.0, -2.0]);
    let expected = |mean: f32, variance: f32| advantage.map(|a| (a - mean) / variance.sqrt());
    check(r#"{"eps": 0}"#, groups, &advantage, &expected(0.0, 1.5));
    check(r#"{"eps": 0, "ddof": 0}"#, groups, &advantage, &expected(0.0, 1.2));
    let third = 1.0 / 3.0;
    check(r#"{"eps": 0, "count": "steps"}"#, groups, &advantage, &expected(-third, 7.0 * third));
    check(r#"{"eps": 0, "count": "trajectories"}"#, groups, &advantage, &expected(-0.75, 3.125));
}

#[test]
fn the_mean_and_the_deviation_can_each_be_left_out() {
    let groups: &[&[&[usize]]] = &[&[&[1], &[1], &[1]]];
    check(r#"{"scale": false}"#, groups, &[1.0, 2.0, 6.0], &[-2.0, -1.0, 3.0]);
    check(r#"{"center": false, "eps": 0}"#, groups, &[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]);
    check(r#"{"center": false, "eps": 3}"#, groups, &[1.0, 2.0, 3.0], &[0.5, 1.0, 1.5]);
}

#[test]
fn groups_are_whitened_each_by_itself() {
    let groups: &[&[&[usize]]] = &[&[&[1], &[1]], &[&[2], &[1]], &[&[3]]];
    let advantage = [1.0, 3.0, 5.0, 5.0, 5.0, 7.0, 7.0, 8.0];
    let half = 0.5_f32.sqrt();
    take_metrics();
    let params = r#"{"over": "group", "count": "trajectories", "eps": 0}"#;
    check(params, groups, &advantage, &[-half, half, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let metrics = take_metrics();
    for (name, expected) in [("units", 3.0), ("units_singleton", 1.0), ("units_without_spread", 1.0)] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
    let raw = r#"{"over": "group", "count": "trajectories", "eps": 0, "singleton": "raw"}"#;
    check(raw, groups, &advantage, &[-half, half, 0.0, 0.0, 0.0, 7.0, 7.0, 8.0]);
    let uncentred = r#"{"over": "group", "count": "trajectories", "eps": 0, "center": false}"#;
    check(uncentred, groups, &advantage, &[half, 3.0 * half, 5.0, 5.0, 5.0, 0.0, 0.0, 0.0]);
}

#[test]
fn equal_advantages_become_exactly_zero() {
    for value in [0.95, 0.1, 0.6, 0.3] {
        for count in ["tokens", "steps", "trajectories"] {
            let params = format!(r#"{{"count": "{count}", "eps": 1e-30}}"#);
            let found = call(&params, &[&[&[2, 3], &[7]], &[&[1, 0, 3]]], &[value; 16]);
            assert_eq!(found, [0.0; 16], "{params} {value}");
        }
    }
}

#[test]
fn bad_parameters_are_refused() {
    for (params, key) in [
        (r#"{"over": "groups"}"#, "over"),
        (r#"{"ddof": 2}"#, "ddof"),
        (r#"{"eps": -1}"#, "eps"),
        (r#"{"center": false, "scale": false}"#, "scale"),
    ] {
        assert_eq!(TestScheme::<Normalize>::new(params).err().map(|e| e.location).as_deref(), Some(key));
    }
}

/// Groups of trajectories of tokens, each trajectory one step.
fn groups() -> impl Strategy<Value = Vec<Vec<Vec<f32>>>> {
    prop::collection::vec(prop::collection::vec(prop::collection::vec(-3.0_f32..3.0, 1..12), 1..4), 1..4)
}

fn whitened(params: &str, groups: &[Vec<Vec<f32>>]) -> Vec<Vec<Vec<f32>>> {
    let steps: Vec<Vec<[usize; 1]>> =
        groups.iter().map(|group| group.iter().map(|tokens| [tokens.len()]).collect()).collect();
    let trajectories: Vec<Vec<&[usize]>> =
        steps.iter().map(|group| group.iter().map(<[usize; 1]>::as_slice).collect()).collect();
    let shape: Vec<&[&[usize]]> = trajectories.iter().map(Vec::as_slice).collect();
    let flat: Vec<f32> = groups.iter().flatten().flatten().copied().collect();
    let mut found = call(params, &shape, &flat).into_iter();
    groups
        .iter()
        .map(|group| group.iter().map(|tokens| found.by_ref().take(tokens.len()).collect()).collect())
        .collect()
}

fn params() -> impl Strategy<Value = String> {
    let over = prop::sample::select(vec!["batch", "group"]);
    let count = prop::sample::select(vec!["tokens", "steps", "trajectories"]);
    (over, count).prop_map(|(over, count)| format!(r#"{{"over": "{over}", "count": "{count}"}}"#))
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(groups in groups(), params in params(), turn in 0_usize..4) {
        let turned = |groups: &[Vec<Vec<f32>>]| {
            let mut groups = groups.to_vec();
            groups.reverse();
            for group in &mut groups {
                let turn = turn % group.len();
                group.rotate_left(turn);
            }
            groups
        };
        let bits = |groups: Vec<Vec<Vec<f32>>>| -> Vec<u32> {
            groups.into_iter().flatten().flatten().map(f32::to_bits).collect()
        };
        prop_assert_eq!(bits(whitened(&params, &turned(&groups))), bits(turned(&whitened(&params, &groups))));
    }

    #[test]
    fn the_batch_has_mean_0_and_deviation_1(tokens in prop::collection::vec(-8_i32..8, 2..40)) {
        let tokens: Vec<f32> = tokens.into_iter().map(|token| token as f32).collect();
        prop_assume!(tokens.iter().any(|token| *token != tokens[0]));
        let found = whitened("{}", &[vec![tokens]]).remove(0).remove(0);
        let count = found.len() as f64;
        let mean = found.iter().map(|a| f64::from(*a)).sum::<f64>() / count;
        let squares = found.iter().map(|a| (f64::from(*a) - mean).powi(2)).sum::<f64>();
        prop_assert!(mean.abs() < 1e-5, "{mean}");
        prop_assert!((squares / (count - 1.0) - 1.0).abs() < 1e-5, "{squares}");
    }

    #[test]
    fn without_the_mean_every_sign_stays(groups in groups(), params in params()) {
        let params = params.replace('}', r#", "center": false}"#);
        for (before, after) in groups.iter().flatten().flatten().zip(whitened(&params, &groups).iter().flatten().flatten()) {
            prop_assert!(*after == 0.0 || after.signum() == before.signum());
        }
    }
}
