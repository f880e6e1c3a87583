//! Values by hand, cases that broke other trainers, and properties.

use accredit_plugin_api::{
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::Aem;

/// Responses, each the entropies of its tokens.
type Trajectory = Vec<Vec<f32>>;
type Groups = Vec<Vec<Trajectory>>;

fn batch(groups: &Groups) -> TestBatch {
    let shape: Vec<Vec<Vec<usize>>> =
        groups.iter().map(|group| group.iter().map(|t| t.iter().map(Vec::len).collect()).collect()).collect();
    let shape: Vec<Vec<&[usize]>> = shape.iter().map(|group| group.iter().map(Vec::as_slice).collect()).collect();
    let shape: Vec<&[&[usize]]> = shape.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(Layout::Step, &shape);
    batch.set(ENTROPY, responses(groups).flatten().copied().collect());
    batch
}

fn responses(groups: &Groups) -> impl Iterator<Item = &Vec<f32>> {
    groups.iter().flatten().flatten()
}

fn weigh(params: &str, batch: &TestBatch, advantage: Vec<f32>) -> Vec<f32> {
    let (advantage, weight) = TestScheme::<Aem>::new(params).unwrap().weigh(batch, advantage).unwrap();
    assert!(weight.iter().all(|weight| *weight == 1.0), "the weights are left alone");
    advantage
}

/// The coefficient of each response that has a token, after checking that it is the same on all of them.
fn coefficients(params: &str, groups: &Groups) -> Vec<f32> {
    let batch = batch(groups);
    let found = weigh(params, &batch, vec![1.0; batch.tokens()]);
    let mut next = 0;
    let mut out = Vec::new();
    for response in responses(groups).filter(|response| !response.is_empty()) {
        let own = &found[next..next + response.len()];
        assert!(own.iter().all(|a| a.to_bits() == own[0].to_bits()), "{own:?}");
        out.push(own[0]);
        next += response.len();
    }
    out
}

/// One group of trajectories with a response each, of one token.
fn single_tokens(entropies: &[f32]) -> Groups {
    vec![entropies.iter().map(|entropy| vec![vec![*entropy]]).collect()]
}

fn assert_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-6, "{found:?} and not {expected:?}");
    }
}

const HAND: [f32; 4] = [1.527_273, 1.189_442, 0.721_433, 0.561_852];

#[test]
fn coefficients_by_hand() {
    assert_near(&coefficients("{}", &single_tokens(&[0.3, 0.5, 0.9, 1.1])), &HAND);
    // Means over tokens, and turns of one trajectory beside those of another.
    let turns = vec![vec![vec![vec![0.2, 0.4], vec![0.5]], vec![vec![0.9, 0.9, 0.9], vec![1.1, 1.1]]]];
    assert_near(&coefficients("{}", &turns), &HAND);
}

#[test]
fn advantages_keep_their_sign_and_are_scaled() {
    let batch = batch(&single_tokens(&[0.3, 0.5, 0.9, 1.1]));
    let found = weigh("{}", &batch, vec![2.0, -2.0, 0.0, -1.0]);
    assert_near(&found, &[2.0 * HAND[0], -2.0 * HAND[1], 0.0, -HAND[3]]);
}

#[test]
fn a_range_below_the_smallest_changes_nothing() {
    // Exact in binary: the ranges are 0.125 and just that.
    let groups = single_tokens(&[0.5, 0.625]);
    assert_eq!(coefficients(r#"{"min_range": 0.126}"#, &groups), [1.0, 1.0]);
    let just = coefficients(r#"{"min_range": 0.125}"#, &groups);
    assert_near(&just, &[1.462_117_2, 0.537_882_8]);
    for groups in [single_tokens(&[0.7]), single_tokens(&[0.7; 5])] {
        let found = coefficients(r#"{"min_range": 0}"#, &groups);
        assert!(found.iter().all(|c| *c == 1.0), "{found:?}");
    }
}

#[test]
fn reversed_it_gives_more_to_high_entropy() {
    let found = coefficients(r#"{"reverse": true}"#, &single_tokens(&[0.3, 0.5, 0.9, 1.1]));
    // The relative entropies 0, 1/4, 3/4 and 1 turn round.
    assert_near(&found, &[HAND[3], HAND[2], HAND[1], HAND[0]]);
}

#[test]
fn the_comparison_can_be_by_trajectory_or_batch() {
    let groups = vec![vec![vec![vec![0.0], vec![1.0]], vec![vec![2.0], vec![4.0]]], vec![vec![vec![3.0], vec![3.0]]]];
    let pair = [1.462_117_2, 0.537_882_8];
    let by_trajectory = coefficients(r#"{"over": "trajectory"}"#, &groups);
    assert_near(&by_trajectory, &[pair[0], pair[1], pair[0], pair[1], 1.0, 1.0]);
    let by_batch = coefficients(r#"{"over": "batch"}"#, &groups);
    let unscaled = [0.0_f64, 0.25, 0.5, 1.0, 0.75, 0.75].map(|h| (-h).exp());
    let mean = unscaled.iter().sum::<f64>() / 6.0;
    assert_near(&by_batch, &unscaled.map(|u| (u / mean) as f32));
    assert_ne!(coefficients("{}", &groups)[..4], by_batch[..4]);
    assert_eq!(coefficients("{}", &groups)[4..], [1.0, 1.0]);
}

#[test]
fn a_response_without_a_token_takes_no_part() {
    let with = vec![vec![vec![vec![0.3], vec![], vec![0.5]], vec![vec![], vec![0.9], vec![1.1]]]];
    assert_near(&coefficients("{}", &with), &HAND);
}

#[test]
fn a_trajectory_that_is_baseline_only_takes_part() {
    let mut batch = batch(&single_tokens(&[0.3, 0.5, 0.9, 1.1]));
    batch.set(TRAINED, vec![true, true, true, false]);
    assert_near(&weigh("{}", &batch, vec![1.0; 4]), &HAND);
}

#[test]
fn a_large_lambda_gives_finite_numbers() {
    let found = coefficients(r#"{"lambda": 1e6}"#, &single_tokens(&[0.3, 0.5, 0.9, 1.1]));
    assert_eq!(found, [4.0, 0.0, 0.0, 0.0]);
}

#[test]
fn metrics_describe_the_batch() {
    take_metrics();
    let groups = vec![single_tokens(&[0.3, 0.5, 0.9, 1.1]).remove(0), single_tokens(&[0.3, 0.31]).remove(0)];
    let mut batch = batch(&groups);
    weigh("{}", &batch, vec![1.0; 6]);
    let metrics = take_metrics();
    assert_eq!(metrics["groups"], [(2.0, 1.0)]);
    assert_eq!(metrics["groups_below_range"], [(1.0, 1.0)]);
    assert_near(&[metrics["coefficient_min"][0].0 as f32, metrics["coefficient_max"][0].0 as f32], &[HAND[3], HAND[0]]);
    assert!(!metrics.contains_key("coefficient_surprisal_correlation"));
    // A relative surprisal of the coefficient itself.
    let logprob = groups.iter().flatten().flatten().flatten().zip([HAND[0], HAND[1], HAND[2], HAND[3], 1.0, 1.0]);
    batch.set(OLD_LOGPROB, logprob.map(|(entropy, coefficient)| -entropy - coefficient).collect());
    weigh("{}", &batch, vec![1.0; 6]);
    let correlation = take_metrics()["coefficient_surprisal_correlation"][0].0;
    assert!((correlation - 1.0).abs() < 1e-6, "{correlation}");
}

#[test]
fn it_reads_the_entropy() {
    let needs = TestScheme::<Aem>::new("{}").unwrap().needs().unwrap();
    let reads: Vec<&str> = needs.reads.iter().map(|read| read.name.as_str()).collect();
    assert_eq!((reads, needs.group_size), (vec!["entropy"], 0));
    let batch = TestBatch::new(Layout::Step, &[&[&[1]]]);
    let error = TestScheme::<Aem>::new("{}").unwrap().weigh(&batch, vec![1.0]).unwrap_err();
    assert!(error.message.contains("`entropy`"), "{error:?}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    for params in [
        r#"{"lambda": -1}"#,
        r#"{"min_range": -0.1}"#,
        r#"{"over": "row"}"#,
        r#"{"reverse": 1}"#,
        r#"{"temperature": 1}"#,
    ] {
        assert!(TestScheme::<Aem>::new(params).is_err(), "{params}");
    }
}

/// Entropies in steps of 1/64, exact in binary; no trajectory is without a token.
fn groups() -> impl Strategy<Value = Groups> {
    let response = || prop::collection::vec((0_u16..256).prop_map(|entropy| f32::from(entropy) / 64.0), 0..4);
    let trajectory = (prop::collection::vec(response(), 0..3), prop::collection::vec(0_u16..256, 1..3)).prop_map(
        |(mut responses, last)| {
            responses.push(last.into_iter().map(|entropy| f32::from(entropy) / 64.0).collect());
            responses
        },
    );
    prop::collection::vec(prop::collection::vec(trajectory, 1..5), 1..4)
}

fn changed(groups: &Groups, change: impl Fn(f32) -> f32) -> Groups {
    let mut groups = groups.clone();
    groups.iter_mut().flatten().flatten().flatten().for_each(|entropy| *entropy = change(*entropy));
    groups
}

fn means(groups: &Groups) -> Vec<Vec<f64>> {
    let mean = |response: &Vec<f32>| response.iter().map(|e| f64::from(*e)).sum::<f64>() / response.len() as f64;
    let of_group = |group: &Vec<Vec<Vec<f32>>>| group.iter().flatten().filter(|r| !r.is_empty()).map(mean).collect();
    groups.iter().map(of_group).collect()
}

proptest! {
    #[test]
    fn lambda_zero_changes_no_bit(groups in groups(), over in prop::sample::select(vec!["group", "batch"])) {
        let batch = batch(&groups);
        let advantage: Vec<f32> = (0..batch.tokens()).map(|token| token as f32 - 1.7).collect();
        let params = format!(r#"{{"lambda": 0, "over": "{over}"}}"#);
        prop_assert_eq!(weigh(&params, &batch, advantage.clone()), advantage);
    }

    #[test]
    fn the_mean_of_a_group_is_one_and_low_entropy_gets_more(
        groups in groups(),
        lambda in 0.0..5.0,
        reverse in any::<bool>(),
    ) {
        let found = coefficients(&format!(r#"{{"lambda": {lambda}, "reverse": {reverse}}}"#), &groups);
        let mut next = 0;
        for entropies in means(&groups) {
            let own = &found[next..next + entropies.len()];
            next += entropies.len();
            let mean = own.iter().map(|c| f64::from(*c)).sum::<f64>() / own.len() as f64;
            prop_assert!((mean - 1.0).abs() < 1e-6, "{mean}");
            for (a, c) in entropies.iter().zip(own) {
                prop_assert!(*c > 0.0);
                for (b, d) in entropies.iter().zip(own) {
                    let more = if reverse { c <= d } else { c >= d };
                    prop_assert!(a > b || more, "{a} {b}: {c} {d}");
                }
            }
        }
    }

    #[test]
    fn offset_and_scale_of_entropies_do_not_matter(groups in groups(), offset in 0_u8..20) {
        // A range that every group but those of equal entropies has: their steps are at least 1/12 of 1/64.
        let params = r#"{"min_range": 0.001}"#;
        let plain = coefficients(params, &groups);
        let moved = coefficients(params, &changed(&groups, |entropy| entropy + f32::from(offset)));
        let scaled = coefficients(params, &changed(&groups, |entropy| 4.0 * entropy));
        assert_near(&moved, &plain);
        assert_near(&scaled, &plain);
    }

    #[test]
    fn order_changes_no_bit(
        groups in groups(),
        seed in any::<u64>(),
        over in prop::sample::select(vec!["group", "trajectory", "batch"]),
    ) {
        let params = format!(r#"{{"over": "{over}"}}"#);
        let found = coefficients(&params, &groups);
        // Each trajectory with the coefficients of its responses.
        let mut next = found.iter();
        let mut tagged: Vec<Vec<(Trajectory, Vec<u32>)>> = Vec::new();
        for group in &groups {
            let mut trajectories = Vec::new();
            for trajectory in group {
                let count = trajectory.iter().filter(|response| !response.is_empty()).count();
                let own = next.by_ref().take(count).map(|c| c.to_bits()).collect();
                trajectories.push((trajectory.clone(), own));
            }
            tagged.push(trajectories);
        }
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        for group in &mut tagged {
            group.sort_by_cached_key(|_| random());
        }
        tagged.sort_by_cached_key(|_| random());
        let other: Groups = tagged.iter().map(|group| group.iter().map(|(t, _)| t.clone()).collect()).collect();
        let after: Vec<u32> = coefficients(&params, &other).iter().map(|c| c.to_bits()).collect();
        let expected: Vec<u32> = tagged.iter().flatten().flat_map(|(_, own)| own.clone()).collect();
        prop_assert_eq!(after, expected);
    }
}
