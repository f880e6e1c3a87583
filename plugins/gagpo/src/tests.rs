//! Values by hand, cases that broke other trainers, and properties.

use accredit_plugin_api::{
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use accredit_steps::testing::{
    Episode, advantages, assert_near, batch, by_step, groups, mean_and_deviation, order_changes_no_bit, returns, toy,
    unique,
};
use proptest::prelude::*;

use super::Gagpo;

fn of(params: &str, groups: &[Vec<Episode>]) -> Vec<f32> {
    advantages::<Gagpo>(Layout::Step, params, groups)
}

/// Without normalisation.
fn raw(rest: &str, groups: &[Vec<Episode>]) -> Vec<f32> {
    of(&format!(r#"{{"normalize": "none"{rest}}}"#), groups)
}

#[test]
fn the_toy_group() {
    let check = |rest: &str, expected: &[f64]| assert_near(&raw(rest, &[toy()]), expected, rest);
    let at_08 = [1.646_667, 6.333_333, 0.0, -5.225_811, -2.709_4, 0.601_667, -3.166_667, 3.325, 0.0];
    check("", &at_08);
    check(r#", "lambda": 1"#, &[2.85, 6.333_333, 0.0, -6.175, -3.166_667, 0.0, -3.166_667, 3.325, 0.0]);
    let at_0 = [-3.166_667, 6.333_333, 0.0, -3.166_667, -3.166_667, 3.008_333, -3.166_667, 3.325, 0.0];
    check(r#", "lambda": 0"#, &at_0);
    let normalised =
        [0.443_019, 1.776_324, -0.025_439, -1.512_124, -0.796_233, 0.145_728, -0.926_321, 0.920_486, -0.025_439];
    assert_near(&of("{}", &[toy()]), &normalised, "normalised");
    assert_eq!(advantages::<Gagpo>(Layout::Trajectory, "{}", &[toy()]), of("{}", &[toy()]));
}

#[test]
fn the_deviation_can_be_that_of_a_population() {
    // Values 0.5 for both, residuals -0.5 and 0.5.
    let group = [vec![Episode::new(&[(0, 0.0)]), Episode::new(&[(0, 1.0)])]];
    assert_eq!(of(r#"{"ddof": 0, "eps": 0}"#, &group), [-1.0, 1.0]);
    assert_eq!(of(r#"{"ddof": 0, "eps": 0.5}"#, &group), [-0.5, 0.5]);
    assert_near(&of(r#"{"eps": 0}"#, &group), &[-0.5_f64.sqrt(), 0.5_f64.sqrt()], "sample");
}

#[test]
fn normalisation_is_over_the_group_or_over_the_batch() {
    let group = |reward| vec![Episode::new(&[(0, 0.0)]), Episode::new(&[(0, reward)])];
    let groups = [group(2.0), group(6.0)];
    assert_eq!(raw("", &groups), [-1.0, 1.0, -3.0, 3.0]);
    assert_eq!(of(r#"{"ddof": 0, "eps": 0}"#, &groups), [-1.0, 1.0, -1.0, 1.0]);
    let root = 5.0_f64.sqrt();
    let batch = of(r#"{"ddof": 0, "eps": 0, "normalize": "batch"}"#, &groups);
    assert_near(&batch, &[-1.0 / root, 1.0 / root, -3.0 / root, 3.0 / root], "batch");
}

#[test]
fn a_truncated_episode_ends_or_is_worth_the_state_it_reached() {
    let mut cut = Episode::new(&[(0, 1.0)]);
    cut.reached = Some(1);
    let other = Episode::new(&[(0, 0.0), (1, 8.0)]);
    let values = |first: &Episode, truncated: &str| {
        let rest = format!(r#", "gamma": 0.5, "lambda": 0, "truncated": "{truncated}""#);
        raw(&rest, &[vec![first.clone(), other.clone()]])[0]
    };
    // Returns from state 0 are 1 and 4, so it is worth 2.5; state 1 is worth 8.
    assert_eq!(values(&cut, "terminal"), -1.5);
    assert_eq!(values(&cut, "bootstrap"), 2.5);
    // A state that nobody acted from is worth 0, and so is what follows a terminal step.
    cut.reached = Some(9);
    assert_eq!(values(&cut, "bootstrap"), -1.5);
    cut.reached = None;
    assert_eq!(values(&cut, "bootstrap"), -1.5);
}

#[test]
fn a_terminal_step_that_names_a_state_ends_all_the_same() {
    let groups = [vec![Episode { reached: Some(0), ..Episode::new(&[(0, 1.0)]) }, Episode::new(&[(0, 3.0)])]];
    let mut batch = batch(Layout::Step, &groups);
    let params = r#"{"normalize": "none", "truncated": "bootstrap", "gamma": 0.5}"#;
    let first = |batch: &TestBatch| {
        let found = TestScheme::<Gagpo>::new(params).unwrap().advantage(batch).unwrap();
        by_step(&groups, &found)[0]
    };
    assert_eq!(first(&batch), 0.0);
    assert_eq!(first(batch.set(TERMINAL, vec![true, true])), -1.0);
}

#[test]
fn equal_rewards_give_exactly_zero() {
    for (count, reward) in [(8, 0.95), (10, 0.1), (7, 0.6), (6, 0.3)] {
        let group = vec![Episode::new(&[(0, 0.0), (1, reward)]); count];
        let found = of(r#"{"eps": 0}"#, &[group]);
        assert!(found.iter().all(|a| *a == 0.0), "{found:?}");
    }
}

#[test]
fn one_step_alone_has_nothing_to_be_compared_with() {
    let group = vec![Episode { reached: Some(0), ..Episode::new(&[(0, 3.0)]) }];
    let params = r#"{"truncated": "bootstrap", "eps": 0}"#;
    assert_eq!(of(params, std::slice::from_ref(&group)), [0.0]);
    // Its residual is not 0: the state that it reached is worth as much as the one before.
    assert_near(&raw(r#", "truncated": "bootstrap""#, &[group]), &[0.95 * 3.0], "raw");
}

#[test]
fn a_step_without_a_response_adds_nothing_to_the_table() {
    let mut group = vec![
        Episode::new(&[(0, 0.0), (1, 4.0)]),
        Episode::new(&[(0, 2.0)]),
        Episode::new(&[(1, 8.0), (5, 0.0)]),
        Episode::new(&[(1, 100.0)]),
    ];
    group[2].turns[1].tokens = 0;
    group[3].turns[0].tokens = 0;
    // Returns: 4 and 2 from state 0, 4 and 8 from state 1. State 5 is worth its own return of 0.
    let found = raw(r#", "gamma": 1, "lambda": 0"#, std::slice::from_ref(&group));
    assert_eq!(found, [3.0, -2.0, -1.0, 2.0, 0.0, 0.0]);
    take_metrics();
    let normalised = of(r#"{"gamma": 1, "lambda": 0, "eps": 0, "ddof": 0}"#, &[group]);
    let deviation = mean_and_deviation(&[3.0, -2.0, -1.0, 2.0], 0).unwrap().1;
    assert_near(&normalised[..4], &[2.5 / deviation, -2.5 / deviation, -1.5 / deviation, 1.5 / deviation], "of four");
    assert_eq!(take_metrics()["states_visited_once"], [(0.0, 1.0)]);
}

#[test]
fn metrics_describe_the_batch() {
    take_metrics();
    of("{}", &[toy(), vec![Episode::new(&[(0, 1.0)]); 2]]);
    let metrics = take_metrics();
    for (name, expected) in [
        ("groups", 2.0),
        ("groups_without_spread", 1.0),
        ("states_visited_once", 3.0 / 11.0),
        ("advantage_above_one", 2.0 / 11.0),
    ] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
    // The quartiles of eleven numbers lie between places 2 and 3, and 7 and 8.
    let iqr = metrics["advantage_iqr"][0].0;
    let expected = f64::midpoint(0.145_728, 0.443_019) + f64::midpoint(0.796_233, 0.025_439);
    assert!((iqr - expected).abs() < 1e-5, "{iqr}");
    raw("", &[toy()]);
    assert!(!take_metrics().contains_key("groups_without_spread"));
}

#[test]
fn a_run_without_states_is_refused() {
    let needs = |params: &str| {
        let needs = TestScheme::<Gagpo>::new(params).unwrap().needs().unwrap();
        let reads: Vec<String> = needs.reads.into_iter().map(|read| read.name).collect();
        (reads.join(" "), needs.group_size)
    };
    assert_eq!(needs("{}"), ("reward state".to_owned(), 2));
    assert_eq!(needs(r#"{"truncated": "bootstrap"}"#).0, "reward state next_state terminal");
    let batch = TestBatch::new(Layout::Step, &[&[&[1], &[1]]]);
    let error = TestScheme::<Gagpo>::new("{}").unwrap().advantage(&batch).unwrap_err();
    assert!(error.message.contains("`state`"), "{error:?}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    for params in [
        r#"{"gamma": 1.5}"#,
        r#"{"lambda": -0.1}"#,
        r#"{"lambda": 1.1}"#,
        r#"{"normalize": "row"}"#,
        r#"{"ddof": 2}"#,
        r#"{"eps": -1}"#,
        r#"{"truncated": "zero"}"#,
        r#"{"lam": 0.9}"#,
    ] {
        assert!(TestScheme::<Gagpo>::new(params).is_err(), "{params}");
    }
}

/// The raw advantages by the definition: residuals, each discounted to the step before it.
fn reference(group: &[Episode], gamma: f64, lambda: f64, bootstrap: bool) -> Vec<f64> {
    let counted = || {
        let steps = |episode: &Episode| {
            let turns = episode.turns.clone().into_iter();
            turns.zip(returns(episode, gamma)).filter(|(turn, _)| turn.tokens > 0).collect::<Vec<_>>()
        };
        group.iter().flat_map(steps)
    };
    let value = |state: u32| {
        let same: Vec<f64> = counted().filter(|(turn, _)| turn.state == state).map(|(_, g)| g).collect();
        mean_and_deviation(&same, 0).map(|(mean, _)| mean)
    };
    let mut out = Vec::new();
    for episode in group {
        let own = returns(episode, gamma);
        let mut values: Vec<f64> =
            episode.turns.iter().zip(&own).map(|(turn, g)| value(turn.state).unwrap_or(*g)).collect();
        values.push(episode.reached.filter(|_| bootstrap).and_then(value).unwrap_or(0.0));
        let residual = |t: usize| f64::from(episode.turns[t].reward) + gamma * values[t + 1] - values[t];
        let steps = episode.turns.len();
        for t in 0..steps {
            let sum: f64 = (t..steps).map(|u| (gamma * lambda).powi((u - t) as i32) * residual(u)).sum();
            out.push(if episode.turns[t].tokens > 0 { sum } else { 0.0 });
        }
    }
    out
}

proptest! {
    #[test]
    fn the_definition_gives_the_same(
        groups in groups(),
        gamma in 0.0..=1.0,
        lambda in 0.0..=1.0,
        bootstrap in any::<bool>(),
    ) {
        let truncated = if bootstrap { "bootstrap" } else { "terminal" };
        let rest = format!(r#", "gamma": {gamma}, "lambda": {lambda}, "truncated": "{truncated}""#);
        let expected: Vec<f64> =
            groups.iter().flat_map(|group| reference(group, gamma, lambda, bootstrap)).collect();
        assert_near(&raw(&rest, &groups), &expected, &rest);
    }

    #[test]
    fn order_does_not_matter(
        groups in groups(),
        seed in any::<u64>(),
        normalize in prop::sample::select(vec!["group", "batch", "none"]),
        truncated in prop::sample::select(vec!["terminal", "bootstrap"]),
        layout in prop::sample::select(vec![Layout::Step, Layout::Trajectory]),
    ) {
        let params = format!(r#"{{"normalize": "{normalize}", "truncated": "{truncated}"}}"#);
        order_changes_no_bit::<Gagpo>(layout, &params, &groups, seed)?;
    }

    #[test]
    fn other_groups_change_nothing(groups in groups()) {
        let alone: Vec<f32> = groups.iter().flat_map(|group| of("{}", std::slice::from_ref(group))).collect();
        prop_assert_eq!(of("{}", &groups), alone);
    }

    #[test]
    fn normalised_advantages_of_a_group_have_mean_zero(groups in groups()) {
        let group = &groups[0];
        let found = of("{}", std::slice::from_ref(group));
        let turns = group.iter().flat_map(|episode| &episode.turns);
        let sum: f32 = found.iter().zip(turns).filter(|(_, turn)| turn.tokens > 0).map(|(a, _)| a).sum();
        prop_assert!(sum.abs() < 1e-4, "{sum}");
    }

    #[test]
    fn lambda_one_is_the_return_less_the_value(groups in groups(), gamma in 0.0..=1.0) {
        // With a response in every step each has a value in the table.
        let mut groups = groups;
        groups.iter_mut().flatten().flat_map(|episode| &mut episode.turns).for_each(|turn| turn.tokens += 1);
        let mut expected = Vec::new();
        for group in &groups {
            let steps: Vec<(u32, f64)> = group
                .iter()
                .flat_map(|episode| episode.turns.iter().map(|turn| turn.state).zip(returns(episode, gamma)))
                .collect();
            for (state, g) in &steps {
                let same: Vec<f64> = steps.iter().filter(|step| step.0 == *state).map(|step| step.1).collect();
                expected.push(g - mean_and_deviation(&same, 0).unwrap().0);
            }
        }
        assert_near(&raw(&format!(r#", "lambda": 1, "gamma": {gamma}"#), &groups), &expected, "lambda 1");
    }

    #[test]
    fn states_that_never_come_again_give_exactly_zero(groups in groups(), lambda in 0.0..=1.0) {
        let unique = unique(groups);
        let found = raw(&format!(r#", "lambda": {lambda}"#), &unique);
        prop_assert!(found.iter().all(|advantage| *advantage == 0.0), "{found:?}");
    }
}
