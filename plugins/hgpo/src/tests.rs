//! Values by hand, cases that broke other trainers, and properties.

use accredit_plugin_api::{
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use accredit_steps::testing::{
    Episode, advantages, assert_near, exact, groups, mean_and_deviation, order_changes_no_bit, returns, toy,
};
use proptest::prelude::*;

use super::Hgpo;

fn of(params: &str, groups: &[Vec<Episode>]) -> Vec<f32> {
    advantages::<Hgpo>(Layout::Step, params, groups)
}

#[test]
fn the_toy_group() {
    let mean_norm = [2.849_999, 5.383_332, 0.0, -6.174_997, -4.116_666, 0.0, -3.166_665, 3.324_998, 0.0];
    assert_near(&of("{}", &[toy()]), &mean_norm, "mean_norm");
    let last = -0.5_f64.sqrt();
    let mean_std_norm = [0.652_071, 1.165_685, 0.0, -1.412_82, -0.882_842, 0.0, last, 0.760_749, 0.0];
    assert_near(&of(r#"{"mode": "mean_std_norm"}"#, &[toy()]), &mean_std_norm, "mean_std_norm");
}

#[test]
fn longer_histories_weigh_more() {
    // From state 1: returns 0 and 4 after state 0, 8 after state 5. The means are 4 of all and 2 after state 0.
    let group = vec![
        Episode::new(&[(0, 0.0), (1, 0.0)]),
        Episode::new(&[(0, 0.0), (1, 4.0)]),
        Episode::new(&[(5, 0.0), (1, 8.0)]),
    ];
    let last = |params: &str| {
        let found = of(params, std::slice::from_ref(&group));
        [found[1], found[3], found[5]]
    };
    assert_eq!(last(r#"{"history": 0, "eps": 0}"#), [-4.0, 0.0, 4.0]);
    // Weights 2 and 3. The second return is the mean of all, and that comparison is left out.
    assert_eq!(last(r#"{"eps": 0}"#), [-14.0 / 5.0, 2.0, 4.0]);
    assert_eq!(last(r#"{"eps": 0, "alpha": 0}"#), [-3.0, 2.0, 4.0]);
    assert_eq!(last(r#"{"eps": 0, "alpha": 2}"#), [-34.0 / 13.0, 2.0, 4.0]);
    // The whole episodes, of weight 1: outcomes 0, 4 and 8.
    assert_eq!(last(r#"{"eps": 0, "base_group": true}"#), [-18.0 / 6.0, 2.0, 4.0]);
}

#[test]
fn a_history_is_the_same_states_in_the_same_order() {
    // Before state 2: 0 then 1, twice, and 1 then 0.
    let episode = |states: [u32; 3], reward| Episode::new(&[(states[0], 0.0), (states[1], 0.0), (states[2], reward)]);
    let group = vec![episode([0, 1, 2], 1.0), episode([0, 1, 2], 3.0), episode([1, 0, 2], 5.0)];
    let found = of(r#"{"eps": 0, "alpha": 0, "gamma": 1}"#, &[group]);
    // Of state 2 alone the mean is 3; of two and three states it is 2 for the first two.
    assert_eq!([found[2], found[5], found[8]], [-4.0 / 3.0, 1.0, 2.0]);
}

#[test]
fn equal_returns_give_exactly_zero() {
    for (count, reward) in [(8, 0.95), (10, 0.1), (7, 0.6), (6, 0.3)] {
        let group = vec![Episode::new(&[(0, 0.0), (0, reward)]); count];
        for params in [r#"{"mode": "mean_std_norm", "eps": 0, "gamma": 1}"#, r#"{"base_group": true, "gamma": 1}"#] {
            let found = of(params, std::slice::from_ref(&group));
            assert!(found.iter().all(|a| *a == 0.0), "{params} {found:?}");
        }
    }
}

#[test]
fn states_that_never_come_again_have_only_the_base_group() {
    let group = vec![Episode::new(&[(0, 0.0), (1, 4.0)]), Episode::new(&[(2, 0.0), (3, 0.0)])];
    assert_eq!(of("{}", std::slice::from_ref(&group)), [0.0; 4]);
    assert_eq!(of(r#"{"base_group": true, "eps": 0}"#, &[group]), [2.0, 2.0, -2.0, -2.0]);
}

#[test]
fn a_group_of_one_has_one_rule() {
    let group = vec![Episode::new(&[(0, 3.0)])];
    let params = |singleton: &str| format!(r#"{{"base_group": true, "eps": 0, "singleton": "{singleton}"}}"#);
    assert_eq!(of(&params("zero"), std::slice::from_ref(&group)), [0.0]);
    assert_eq!(of(&params("raw"), &[group]), [3.0]);
    let group_size = |params: &str| TestScheme::<Hgpo>::new(params).unwrap().needs().unwrap().group_size;
    assert_eq!((group_size("{}"), group_size(&params("raw"))), (2, 0));
}

#[test]
fn a_step_without_a_response_is_in_histories_and_in_no_comparison() {
    let mut group = vec![Episode::new(&[(0, 0.0), (1, 2.0)]), Episode::new(&[(0, 0.0), (1, 6.0)])];
    group[0].turns[0].tokens = 0;
    // Both steps from state 1 came from state 0; the one that stands alone at state 0 has nothing to compare.
    assert_eq!(of(r#"{"eps": 0}"#, std::slice::from_ref(&group)), [0.0, -2.0, 0.0, 2.0]);
    group[1].turns[0].state = 7;
    take_metrics();
    assert_eq!(of(r#"{"eps": 0}"#, &[group]), [0.0, -2.0, 0.0, 2.0]);
    let metrics = take_metrics();
    assert_eq!(metrics["levels"], [(2.0 / 3.0, 1.0)]);
    assert_eq!(metrics["states_visited_once"], [(1.0 / 3.0, 1.0)]);
}

#[test]
fn metrics_describe_the_batch() {
    take_metrics();
    of("{}", &[toy()]);
    let metrics = take_metrics();
    assert!(!metrics.contains_key("groups_singleton"));
    for (name, expected) in [
        ("groups", 1.0),
        ("states_visited_once", 3.0 / 9.0),
        // One comparison for the first steps and the last of `b`, two for the second steps of `a` and `b`, none for the
        // steps whose state stands alone.
        ("levels", 8.0 / 9.0),
        ("advantage_above_one", 6.0 / 9.0),
    ] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
    of(r#"{"base_group": true}"#, &[vec![Episode::new(&[(0, 1.0)])], vec![Episode::new(&[(0, 1.0)]); 2]]);
    let metrics = take_metrics();
    for (name, expected) in [("groups", 2.0), ("groups_singleton", 1.0), ("groups_without_spread", 1.0)] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
}

#[test]
fn a_run_without_states_is_refused() {
    let reads = |params: &str| -> Vec<String> {
        let needs = TestScheme::<Hgpo>::new(params).unwrap().needs().unwrap();
        needs.reads.into_iter().map(|read| read.name).collect()
    };
    assert_eq!(reads("{}"), ["reward", "state"]);
    assert_eq!(reads(r#"{"base_group": true}"#), ["reward", "state", "outcome"]);
    let batch = TestBatch::new(Layout::Step, &[&[&[1], &[1]]]);
    let error = TestScheme::<Hgpo>::new("{}").unwrap().advantage(&batch).unwrap_err();
    assert!(error.message.contains("`state`"), "{error:?}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    for params in [
        r#"{"history": -1}"#,
        r#"{"history": 101}"#,
        r#"{"history": 1.5}"#,
        r#"{"alpha": -1}"#,
        r#"{"alpha": 11}"#,
        r#"{"gamma": 2}"#,
        r#"{"mode": "none"}"#,
        r#"{"eps": -1}"#,
        r#"{"singleton": "one"}"#,
        r#"{"omega": 1}"#,
    ] {
        assert!(TestScheme::<Hgpo>::new(params).is_err(), "{params}");
    }
}

/// By the definition, in the words of the manual page.
fn reference(groups: &[Vec<Episode>], history: usize, alpha: f64, std: bool, base_group: bool) -> Vec<f64> {
    let eps = 1e-6;
    let compare = |score: f64, numbers: &[f64], ddof| {
        let (mean, deviation) = mean_and_deviation(numbers, ddof)?;
        let advantage = (score - mean) / if std { deviation + eps } else { 1.0 };
        // Rounding aside, these numbers are 0 or far from it.
        (numbers.len() > 1 && deviation > 0.0 && advantage.abs() > 1e-9).then_some(advantage)
    };
    let mut out = Vec::new();
    for group in groups {
        let mut rows = Vec::new();
        for episode in group {
            let states: Vec<u32> = episode.turns.iter().map(|turn| turn.state).collect();
            for (t, g) in returns(episode, 0.5).into_iter().enumerate() {
                rows.push((states[..=t].to_vec(), g, f64::from(episode.outcome()), episode.turns[t].tokens > 0));
            }
        }
        let counted = || rows.iter().filter(|row| row.3);
        let outcomes: Vec<f64> = counted().map(|row| row.2).collect();
        for (states, g, outcome, responds) in &rows {
            let (mut sum, mut weights) = (0.0, 0.0);
            let mut add = |advantage: Option<f64>, weight: f64| {
                sum += advantage.map_or(0.0, |a| weight * a);
                weights += advantage.map_or(0.0, |_| weight);
            };
            if base_group {
                add(compare(*outcome, &outcomes, 1), 1.0);
            }
            for k in 1..=(history + 1).min(states.len()) {
                let same: Vec<f64> = counted()
                    .filter(|row| row.0.len() >= k && row.0[row.0.len() - k..] == states[states.len() - k..])
                    .map(|row| row.1)
                    .collect();
                add(compare(*g, &same, 0), (k as f64 + 1.0).powf(alpha));
            }
            out.push(if *responds { sum / (weights + eps) } else { 0.0 });
        }
    }
    out
}

proptest! {
    #[test]
    fn the_definition_gives_the_same(
        groups in groups(),
        history in 0_usize..6,
        alpha in 0.0..2.0,
        std in any::<bool>(),
        base_group in any::<bool>(),
    ) {
        let groups = exact(groups);
        let mode = if std { "mean_std_norm" } else { "mean_norm" };
        let params = format!(
            r#"{{"gamma": 0.5, "history": {history}, "alpha": {alpha}, "mode": "{mode}", "base_group": {base_group}}}"#
        );
        assert_near(&of(&params, &groups), &reference(&groups, history, alpha, std, base_group), &params);
    }

    #[test]
    fn order_does_not_matter(
        groups in groups(),
        seed in any::<u64>(),
        mode in prop::sample::select(vec!["mean_norm", "mean_std_norm"]),
        over in prop::sample::select(vec!["rows", "trajectories"]),
        base_group in any::<bool>(),
        layout in prop::sample::select(vec![Layout::Step, Layout::Trajectory]),
    ) {
        let params =
            format!(r#"{{"mode": "{mode}", "over": "{over}", "base_group": {base_group}, "singleton": "raw"}}"#);
        order_changes_no_bit::<Hgpo>(layout, &params, &groups, seed)?;
    }

    #[test]
    fn without_history_it_is_the_comparison_by_state_alone(groups in groups()) {
        let groups = exact(groups);
        // One weight of 2, over itself and eps.
        let found = of(r#"{"history": 0, "gamma": 0.5}"#, &groups);
        let mut expected = reference(&groups, 0, 0.0, false, false);
        for advantage in &mut expected {
            *advantage *= (2.0 / (2.0 + 1e-6)) * (1.0 + 1e-6);
        }
        assert_near(&found, &expected, "history 0");
    }
}
