//! Values by hand, cases that broke other trainers, and properties.

use accredit_plugin_api::{
    host::{Data, Table},
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use accredit_steps::testing::{
    Episode, advantages, assert_near, batch, by_step, exact, groups, mean_and_deviation, order_changes_no_bit, returns,
    shuffled, toy, unique,
};
use proptest::prelude::*;

use super::Gigpo;

fn of(params: &str, groups: &[Vec<Episode>]) -> Vec<f32> {
    advantages::<Gigpo>(Layout::Step, params, groups)
}

#[test]
fn the_toy_group() {
    let mean_norm =
        [7.294_444, 10.777_778, 4.444_444, -11.730_556, -8.722_222, -5.555_556, -8.722_222, 7.769_444, 4.444_444];
    assert_near(&of("{}", &[toy()]), &mean_norm, "mean_norm");
    let mean_std_norm =
        [1.375_688, 1.997_974, 0.843_274, -2.207_656, -1.631_443, -1.054_092, -1.631_443, 1.464_423, 0.843_274];
    assert_near(&of(r#"{"mode": "mean_std_norm"}"#, &[toy()]), &mean_std_norm, "mean_std_norm");
    let trajectories = r#"{"mode": "mean_std_norm", "over": "trajectories", "omega": 0}"#;
    let episodes = [0.577_35, 0.577_35, 0.577_35, -1.154_7, -1.154_7, -1.154_7, -1.154_7, 0.577_35, 0.577_35];
    assert_near(&of(trajectories, &[toy()]), &episodes, "trajectories");
    // A row that is a trajectory counts once however it is asked for.
    let rows = r#"{"mode": "mean_std_norm", "over": "rows", "omega": 0}"#;
    assert_near(&advantages::<Gigpo>(Layout::Trajectory, rows, &[toy()]), &episodes, "rows that are trajectories");
}

#[test]
fn the_number_of_steps_moves_the_baseline_only_over_rows() {
    let group = vec![Episode::new(&[(0, 0.0), (1, 0.0), (2, 1.0)]), Episode::new(&[(3, 0.0)])];
    assert_eq!(of("{}", std::slice::from_ref(&group)), [0.25, 0.25, 0.25, -0.75]);
    assert_eq!(of(r#"{"over": "trajectories"}"#, &[group]), [0.5, 0.5, 0.5, -0.5]);
}

#[test]
fn states_are_compared_inside_their_group_only() {
    let one = vec![Episode::new(&[(0, 1.0)]), Episode::new(&[(0, 3.0)])];
    let other = vec![Episode::new(&[(0, 100.0)]), Episode::new(&[(0, 300.0)])];
    assert_eq!(of("{}", &[one, other]), [-2.0, 2.0, -200.0, 200.0]);
}

#[test]
fn a_state_that_one_trajectory_visits_twice_is_compared() {
    // The returns from state 7 are 1 and 2, and the episode is alone with its outcome.
    let group = vec![Episode::new(&[(7, -1.0), (7, 2.0)]), Episode::new(&[(8, 1.0)])];
    assert_eq!(of(r#"{"gamma": 1}"#, &[group]), [-0.5, 0.5, 0.0]);
}

#[test]
fn equal_returns_give_exactly_zero() {
    for (count, reward) in [(8, 0.95), (10, 0.1), (7, 0.6), (6, 0.3)] {
        let group = vec![Episode::new(&[(0, reward)]); count];
        for params in ["{}", r#"{"mode": "mean_std_norm", "eps": 0}"#, r#"{"over": "trajectories"}"#] {
            let found = of(params, std::slice::from_ref(&group));
            assert!(found.iter().all(|a| *a == 0.0), "{params} {found:?}");
        }
    }
}

#[test]
fn a_group_of_one_has_one_rule() {
    let group = vec![Episode::new(&[(0, 0.0), (1, 3.0)])];
    let one_row = vec![Episode::new(&[(0, 3.0)])];
    assert_eq!(of("{}", std::slice::from_ref(&one_row)), [0.0]);
    assert_eq!(of(r#"{"over": "trajectories"}"#, std::slice::from_ref(&group)), [0.0, 0.0]);
    let raw = r#"{"over": "trajectories", "singleton": "raw", "mode": "mean_std_norm", "eps": 0.5}"#;
    assert_eq!(of(raw, &[group]), [2.0, 2.0]);
    assert_eq!(of(r#"{"singleton": "raw"}"#, &[one_row]), [3.0]);
    let group_size = |params: &str| TestScheme::<Gigpo>::new(params).unwrap().needs().unwrap().group_size;
    assert_eq!((group_size("{}"), group_size(raw)), (2, 0));
}

#[test]
fn a_step_without_a_response_is_in_no_statistic() {
    let mut group = vec![Episode::new(&[(0, 0.0), (0, 4.0)]), Episode::new(&[(0, 0.0)])];
    group[0].turns[1].tokens = 0;
    // Its reward is a part of the return before it. Rows: 4 and 0; returns from the state: 4 and 0.
    assert_eq!(of(r#"{"gamma": 1}"#, &[group]), [4.0, 0.0, -4.0]);
}

#[test]
fn what_shape_gave_to_tokens_is_a_part_of_returns() {
    let group = vec![Episode::new(&[(0, 0.0), (1, 1.0)]), Episode::new(&[(0, 0.0)])];
    let groups = [group];
    let mut batch = batch(Layout::Step, &groups);
    batch.set(TOKEN_REWARD, vec![0.0, 0.0, 0.5, 0.5, 0.0, 0.0]).set(OUTCOME, vec![0.0, 0.0]);
    let found = TestScheme::<Gigpo>::new(r#"{"gamma": 0.5}"#).unwrap().advantage(&batch).unwrap();
    assert_eq!(by_step(&groups, &found), [0.5, 0.0, -0.5]);
}

#[test]
fn a_truncated_episode_counts_like_any_other() {
    let mut group = toy();
    group[1].reached = Some(0);
    assert_eq!(of("{}", &[group]), of("{}", &[toy()]));
}

#[test]
fn metrics_describe_the_batch() {
    take_metrics();
    of("{}", &[toy(), vec![Episode::new(&[(0, 1.0)]); 2], vec![Episode::new(&[(0, 1.0)])]]);
    let metrics = take_metrics();
    for (name, expected) in [
        ("groups", 3.0),
        ("groups_singleton", 1.0),
        ("groups_without_spread", 1.0),
        // States 2, 3 and 4 of the toy, and that of the last group, of 12 steps from 7 states.
        ("states_visited_once", 4.0 / 12.0),
        ("states", 7.0 / 12.0),
        ("advantage_above_one", 9.0 / 12.0),
    ] {
        assert_eq!(metrics[name], [(expected, 1.0)], "{name}");
    }
    // The quartiles lie between places 2 and 3, and between 8 and 9, of the sorted advantages.
    let (low, high) = (-8.722_222 + 0.75 * (-5.555_556 + 8.722_222), 4.444_444 + 0.25 * (7.294_444 - 4.444_444));
    let iqr = metrics["advantage_iqr"][0].0;
    assert!((iqr - (high - low)).abs() < 1e-5, "{iqr}");
}

#[test]
fn a_run_without_states_is_refused() {
    let reads = |params: &str| -> Vec<String> {
        let needs = TestScheme::<Gigpo>::new(params).unwrap().needs().unwrap();
        needs.reads.into_iter().map(|read| read.name).collect()
    };
    assert_eq!(reads("{}"), ["outcome", "reward", "state"]);
    assert_eq!(reads(r#"{"similarity": 0.9}"#), ["outcome", "reward", "state", "state_text"]);
    let mut batch = TestBatch::new(Layout::Step, &[&[&[1], &[1]]]);
    batch.set(REWARD, vec![0.0, 1.0]);
    let error = TestScheme::<Gigpo>::new("{}").unwrap().advantage(&batch).unwrap_err();
    assert!(error.message.contains("`state`"), "{error:?}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    for params in [
        r#"{"gamma": 1.1}"#,
        r#"{"gamma": -0.1}"#,
        r#"{"omega": -1}"#,
        r#"{"mode": "std"}"#,
        r#"{"over": "steps"}"#,
        r#"{"eps": -1}"#,
        r#"{"singleton": "one"}"#,
        r#"{"similarity": 0}"#,
        r#"{"similarity": 1.01}"#,
        r#"{"step_advantage_w": 1}"#,
    ] {
        assert!(TestScheme::<Gigpo>::new(params).is_err(), "{params}");
    }
}

/// Advantages of steps whose states have these texts, by their numbers.
fn with_texts(params: &str, groups: &[Vec<Episode>], text: impl Fn(u32) -> String) -> Vec<f32> {
    let mut table: Table = batch(Layout::Step, groups).table().clone();
    let (mut bytes, mut offsets) = (Vec::new(), vec![0_u64]);
    for turn in accredit_steps::testing::turns(groups) {
        bytes.extend(text(turn.state).into_bytes());
        offsets.push(bytes.len() as u64);
    }
    let (bytes_name, offsets_name) = STATE_TEXT.parts();
    table.set(bytes_name, bytes);
    table.set(offsets_name, offsets);
    let tokens = table.get(KIND.name()).map_or(0, Data::len);
    let mut outputs = Table::default();
    outputs.put(ADVANTAGE, vec![f32::NAN; tokens]);
    let mut scheme = TestScheme::<Gigpo>::new(params).unwrap();
    let outputs = scheme.call(Hook::Advantage, &table, outputs).unwrap();
    by_step(groups, outputs.f32(ADVANTAGE).unwrap())
}

/// A text for a state; neighbours differ in one letter of ten, states that are two apart in two.
fn drifting(state: u32) -> String {
    (0..10).map(|place| if place < state { 'b' } else { 'a' }).collect()
}

#[test]
fn similar_states_are_compared_with_each_other() {
    let one_step = |state, reward| Episode::new(&[(state, reward)]);
    let group = vec![one_step(0, 0.0), one_step(1, 1.0), one_step(5, 8.0)];
    let step_term = |similarity: &str| {
        let params = format!(r#"{{"mode": "mean_norm", {similarity} "omega": 2, "over": "rows"}}"#);
        let found = with_texts(&params, std::slice::from_ref(&group), drifting);
        found.iter().zip([-3.0, -2.0, 5.0]).map(|(a, episode)| (a - episode) / 2.0).collect::<Vec<f32>>()
    };
    assert_eq!(step_term(""), [0.0, 0.0, 0.0]);
    assert_eq!(step_term(r#""similarity": 0.95,"#), [0.0, 0.0, 0.0]);
    assert_eq!(step_term(r#""similarity": 0.9,"#), [-0.5, 0.5, 0.0]);
    assert_eq!(step_term(r#""similarity": 0.5,"#), [-3.0, -2.0, 5.0]);
}

#[test]
fn clusters_begin_with_the_most_visited_state() {
    // 0 and 2 are each like 1 and not like each other. 1 comes most often, so that all three are one cluster.
    let one_step = |state, reward| Episode::new(&[(state, reward)]);
    let group = vec![one_step(0, 0.0), one_step(2, 6.0), one_step(1, 3.0), one_step(1, 3.0)];
    let params = r#"{"similarity": 0.9, "omega": 1}"#;
    assert_eq!(with_texts(params, &[group], drifting), [-6.0, 6.0, 0.0, 0.0]);
    // All come once: 0 is the first text, 1 joins it, and 2 is alone.
    let group = vec![one_step(2, 6.0), one_step(1, 3.0), one_step(0, 0.0)];
    assert_eq!(with_texts(params, &[group], drifting), [3.0, 1.5, -4.5]);
}

#[test]
fn frequent_letters_of_long_texts_are_junk_unless_told_otherwise() {
    let text = |state: u32| if state == 0 { "x".repeat(250) + "y" } else { "y".to_owned() + &"x".repeat(250) };
    let group = vec![Episode::new(&[(0, 0.0)]), Episode::new(&[(1, 2.0)])];
    let found = |params: &str| with_texts(params, std::slice::from_ref(&group), text);
    assert_eq!(found(r#"{"similarity": 0.95}"#), [-1.0, 1.0]);
    assert_eq!(found(r#"{"similarity": 0.95, "autojunk": false}"#), [-2.0, 2.0]);
}

/// By the definition, in the words of the manual page.
fn reference(groups: &[Vec<Episode>], gamma: f64, omega: f64, std: bool) -> Vec<f64> {
    let eps = 1e-6;
    let compare = |score: f64, numbers: &[f64]| {
        let (mean, deviation) = mean_and_deviation(numbers, 1).unwrap();
        if numbers.len() == 1 || deviation == 0.0 {
            0.0
        } else {
            (score - mean) / if std { deviation + eps } else { 1.0 }
        }
    };
    let mut out = Vec::new();
    for group in groups {
        let mut rows = Vec::new();
        for episode in group {
            for (turn, g) in episode.turns.iter().zip(returns(episode, gamma)) {
                rows.push((*turn, g, f64::from(episode.outcome())));
            }
        }
        let counted = || rows.iter().filter(|row| row.0.tokens > 0);
        let outcomes: Vec<f64> = counted().map(|row| row.2).collect();
        for (turn, g, outcome) in &rows {
            let same: Vec<f64> = counted().filter(|row| row.0.state == turn.state).map(|row| row.1).collect();
            let whole = || compare(*outcome, &outcomes) + omega * compare(*g, &same);
            out.push(if turn.tokens > 0 { whole() } else { 0.0 });
        }
    }
    out
}

proptest! {
    #[test]
    fn the_definition_gives_the_same(groups in groups(), omega in 0.0..2.0, std in any::<bool>()) {
        let groups = exact(groups);
        let mode = if std { "mean_std_norm" } else { "mean_norm" };
        let params = format!(r#"{{"gamma": 0.5, "omega": {omega}, "mode": "{mode}"}}"#);
        assert_near(&of(&params, &groups), &reference(&groups, 0.5, omega, std), &params);
    }

    #[test]
    fn order_does_not_matter(
        groups in groups(),
        seed in any::<u64>(),
        mode in prop::sample::select(vec!["mean_norm", "mean_std_norm"]),
        over in prop::sample::select(vec!["rows", "trajectories"]),
        layout in prop::sample::select(vec![Layout::Step, Layout::Trajectory]),
    ) {
        let params = format!(r#"{{"mode": "{mode}", "over": "{over}", "singleton": "raw"}}"#);
        order_changes_no_bit::<Gigpo>(layout, &params, &groups, seed)?;
    }

    #[test]
    fn similar_states_do_not_depend_on_order(groups in groups(), seed in any::<u64>(), similarity in 0.5..1.0) {
        let params = format!(r#"{{"similarity": {similarity}}}"#);
        let before = with_texts(&params, &groups, drifting);
        let (other, places) = shuffled(&groups, seed);
        let after = with_texts(&params, &other, drifting);
        for (after, place) in after.iter().zip(places) {
            prop_assert_eq!(after.to_bits(), before[place].to_bits());
        }
    }

    #[test]
    fn a_similarity_of_one_compares_exactly(groups in groups()) {
        prop_assert_eq!(with_texts(r#"{"similarity": 1}"#, &groups, drifting), of("{}", &groups));
    }

    #[test]
    fn states_that_never_come_again_have_no_step_term(groups in groups(), omega in 0.0..3.0) {
        let unique = unique(groups);
        prop_assert_eq!(of(&format!(r#"{{"omega": {omega}}}"#), &unique), of(r#"{"omega": 0}"#, &unique));
    }
}
