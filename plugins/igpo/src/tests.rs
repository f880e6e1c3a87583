//! Values by hand, what is asked, and properties.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::{ANSWER_LOGPROB, Igpo};

/// An episode: the probability of the answer before each turn, and the outcome.
type Episode = (Vec<f32>, f32);

/// Two tokens a turn.
fn batch(groups: &[Vec<Episode>]) -> TestBatch {
    let shapes: Vec<Vec<Vec<usize>>> =
        groups.iter().map(|group| group.iter().map(|(turns, _)| vec![2; turns.len()]).collect()).collect();
    let shapes: Vec<Vec<&[usize]>> = shapes.iter().map(|group| group.iter().map(Vec::as_slice).collect()).collect();
    let shapes: Vec<&[&[usize]]> = shapes.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(Layout::Trajectory, &shapes);
    let episodes = || groups.iter().flatten();
    batch
        .set(OUTCOME, episodes().map(|(_, outcome)| *outcome).collect())
        .set(ANSWER_LOGPROB, episodes().flat_map(|(turns, _)| turns.iter().flat_map(|p| [p.ln(); 2])).collect())
        .set_texts(ANSWER, &vec!["42"; groups.len()]);
    batch
}

/// The credit of each turn, after checking that it is the same on its tokens.
fn credits(params: &str, groups: &[Vec<Episode>]) -> Vec<f32> {
    let tokens = TestScheme::<Igpo>::new(params).unwrap().advantage(&batch(groups)).unwrap();
    let turns = tokens.chunks_exact(2);
    turns.map(|turn| if turn[0].to_bits() == turn[1].to_bits() { turn[0] } else { f32::NAN }).collect()
}

fn check(params: &str, groups: &[Vec<Episode>], expected: &[f32]) {
    let found = credits(params, groups);
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() < 2e-6, "{params}: {found:?} and not {expected:?}");
    }
}

/// Rewards 0.25, 0.25, 1 and -0.125, 0.
fn group() -> Vec<Episode> {
    vec![(vec![0.25, 0.5, 0.75], 1.0), (vec![0.25, 0.125], 0.0)]
}

#[test]
fn all_rewards_of_the_group_together() {
    // Mean 0.275, population variance 0.1525, deviation 0.390512.
    check(r#"{"variance_eps": 0, "eps": 0}"#, &[group()], &[1.728_498, 1.792_516, 1.856_535, -1.728_498, -0.704_203]);
    check(
        r#"{"variance_eps": 0, "eps": 0, "gamma": 0.5}"#,
        &[group()],
        &[0.368_106, 0.864_249, 1.856_535, -1.376_396, -0.704_203],
    );
    check(r#"{"std": false}"#, &[group()], &[0.675, 0.7, 0.725, -0.675, -0.275]);
    // A sample variance of 0.190625, deviation 0.436606.
    check(
        r#"{"variance_eps": 0, "eps": 0, "ddof": 1, "gamma": 0}"#,
        &[group()],
        &[-0.057_260, -0.057_260, 1.660_535, -0.916_157, -0.629_858],
    );
    // Both additions to the deviation count: the root of 0.16 plus 0.1 is 0.5.
    check(r#"{"variance_eps": 0.0075, "eps": 0.1, "gamma": 0}"#, &[group()], &[-0.05, -0.05, 1.45, -0.8, -0.55]);
}

#[test]
fn gains_and_outcomes_on_their_own() {
    // Gains 0.25, 0.25, -0.125: mean 0.125, deviation 0.176777. Outcomes 1, 0: mean 0.5, deviation 0.5.
    check(
        r#"{"normalise": "separate", "variance_eps": 0, "eps": 0}"#,
        &[group()],
        &[2.414_214, 1.707_107, 1.0, -2.414_214, -1.0],
    );
}

#[test]
fn turns_of_one_position() {
    // Position 0: 0.25, -0.125; position 1: 0.25 and the outcome 0; position 2: the outcome 1 alone.
    check(r#"{"over": "position", "std": false}"#, &[group()], &[0.3125, 0.125, 0.0, -0.3125, -0.125]);
    check(
        r#"{"over": "position", "std": false, "singleton": "raw"}"#,
        &[group()],
        &[1.3125, 1.125, 1.0, -0.3125, -0.125],
    );
    // Gains by position, outcomes over the group.
    check(
        r#"{"over": "position", "std": false, "normalise": "separate"}"#,
        &[group()],
        &[0.6875, 0.5, 0.5, -0.6875, -0.5],
    );
}

#[test]
fn gains_of_log_probabilities() {
    let group = vec![(vec![0.25, 0.5], 1.0), (vec![0.5, 0.25], 0.0)];
    let ln2 = std::f32::consts::LN_2;
    check(
        r#"{"gain": "log-probability", "normalise": "separate", "std": false, "gamma": 0}"#,
        &[group],
        &[ln2, 0.5, -ln2, -0.5],
    );
}

#[test]
fn equal_rewards_give_exactly_zero() {
    let group = vec![(vec![0.3, 0.3, 0.3], 0.95); 5];
    assert!(credits(r#"{"normalise": "separate"}"#, &[group]).iter().all(|credit| *credit == 0.0));
    let group = vec![(vec![0.3], 0.95); 8];
    assert!(credits(r#"{"eps": 1e-12, "variance_eps": 0}"#, &[group]).iter().all(|credit| *credit == 0.0));
}

#[test]
fn a_group_of_one_has_one_rule() {
    let one = || vec![(vec![0.5], 0.8)];
    check("{}", &[one()], &[0.0]);
    check(r#"{"singleton": "raw", "eps": 0.25}"#, &[one()], &[0.64]);
    let size = |params: &str| TestScheme::<Igpo>::new(params).unwrap().needs().unwrap().group_size;
    assert_eq!((size("{}"), size(r#"{"singleton": "raw"}"#)), (2, 0));
}

#[test]
fn without_an_answer_only_outcomes_are_compared() {
    take_metrics();
    let group = vec![(vec![f32::NAN, f32::NAN], 1.0), (vec![f32::NAN], 0.0)];
    check(r#"{"std": false, "gamma": 0.5}"#, &[group], &[0.25, 0.5, -0.5]);
    let metrics = take_metrics();
    assert_eq!((metrics["groups"][0].0, metrics["groups_without_answer"][0].0), (1.0, 1.0));
    assert!(!metrics.contains_key("gain_mean"));
}

#[test]
fn a_turn_without_a_token_takes_no_part() {
    let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[1, 0, 1, 1], &[0, 1]]]);
    batch
        .set(OUTCOME, vec![1.0, 0.0])
        .set(ANSWER_LOGPROB, [0.25_f32, 0.5, 0.25, 0.5].map(f32::ln).to_vec())
        .set_texts(ANSWER, &["42"]);
    let mut scheme = TestScheme::<Igpo>::new(r#"{"normalise": "separate", "std": false, "gamma": 0}"#).unwrap();
    let found = scheme.advantage(&batch).unwrap();
    for (found, expected) in found.iter().zip([0.25, -0.25, 0.5, -0.5]) {
        assert!((found - expected).abs() < 1e-6, "{found} and not {expected}");
    }
    let steps: Vec<usize> = scheme.queries(&batch).unwrap().iter().map(|query| query.step).collect();
    assert_eq!(steps, [0, 2, 3, 5]);
}

#[test]
fn the_answer_is_asked_for_before_every_turn() {
    let mut batch = batch(&[group(), group()]);
    batch.set_texts(ANSWER, &[" 42 ", ""]);
    let queries = TestScheme::<Igpo>::new(r#"{"target": "<a>{answer}</a>"}"#).unwrap().queries(&batch).unwrap();
    assert_eq!(queries.len(), 5);
    for (step, query) in queries.iter().enumerate() {
        assert_eq!(
            (query.step, query.target.as_deref(), query.policy),
            (step, Some("<a>42</a>"), QueryPolicy::Current)
        );
        assert_eq!(query.added, "\n\nEnough is known. Say the final answer now, and nothing else.\n");
        assert_eq!(query.column, "answer_logprob");
    }
    let needs = TestScheme::<Igpo>::new("{}").unwrap().needs().unwrap();
    assert_eq!(needs.asks.iter().map(|read| read.name.as_str()).collect::<Vec<_>>(), ["answer_logprob"]);
}

#[test]
fn the_gains_are_reported() {
    take_metrics();
    credits("{}", &[group()]);
    let metrics = take_metrics();
    for (name, mean, count) in
        [("answer_probability", 0.375, 5.0), ("gain_mean", 0.125, 3.0), ("gain_positive", 2.0 / 3.0, 3.0)]
    {
        let (value, weight) = metrics[name][0];
        assert!((value - mean).abs() < 1e-6 && weight == count, "{name} {value} {weight}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (params, path) in [
        (r#"{"target": "answer"}"#, "target"),
        (r#"{"gamma": 1.5}"#, "gamma"),
        (r#"{"ddof": 2}"#, "ddof"),
        (r#"{"normalise": "none"}"#, "normalise"),
        (r#"{"lambda": 1}"#, "lambda"),
    ] {
        let error = TestScheme::<Igpo>::new(params).err();
        assert_eq!(error.map(|error| error.location).as_deref(), Some(path), "{params}");
    }
}

fn groups() -> impl Strategy<Value = Vec<Vec<Episode>>> {
    let episode = (prop::collection::vec(0.01_f32..1.0, 1..4), -1.0_f32..1.0);
    prop::collection::vec(prop::collection::vec(episode, 1..5), 1..4)
}

proptest! {
    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(
        groups in groups(),
        turn in 0_usize..12,
        normalise in prop::sample::select(vec!["joint", "separate"]),
        over in prop::sample::select(vec!["group", "position"]),
        gamma in 0.0_f64..=1.0,
    ) {
        let params = format!(r#"{{"normalise": "{normalise}", "over": "{over}", "gamma": {gamma}}}"#);
        let by_episode = |groups: &[Vec<Episode>]| -> Vec<Vec<Vec<u32>>> {
            let mut credits = credits(&params, groups).into_iter();
            let mut of = |(turns, _): &Episode| credits.by_ref().take(turns.len()).map(f32::to_bits).collect();
            groups.iter().map(|group| group.iter().map(&mut of).collect()).collect()
        };
        let mut before = by_episode(&groups);
        let mut moved = groups.clone();
        moved.rotate_left(turn % groups.len());
        before.rotate_left(turn % groups.len());
        for (group, before) in moved.iter_mut().zip(&mut before) {
            let turn = turn % group.len();
            group.rotate_left(turn);
            before.rotate_left(turn);
        }
        prop_assert_eq!(before, by_episode(&moved));
    }

    #[test]
    fn without_decay_of_later_turns_the_advantages_of_a_set_sum_to_zero(groups in groups()) {
        let found = credits(r#"{"gamma": 0}"#, &groups);
        let mut found = found.iter();
        for group in &groups {
            let turns: usize = group.iter().map(|(turns, _)| turns.len()).sum();
            let sum: f32 = found.by_ref().take(turns).sum();
            prop_assert!(sum.abs() < 1e-3, "{}", sum);
        }
    }
}
