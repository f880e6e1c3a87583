//! The whole objective: values by hand, cases that broke other trainers, derivatives, and cuts into micro-batches.

use accredit_plugin_api::{
    Denominators, Layout, PartCount,
    host::{Data, Table},
    prelude::*,
    testing::{TestBatch, TestLoss, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::{ClipObjective, GspoObjective};

/// One group of trajectories of steps with this many tokens. All columns are 0 and weights 1 until they are set.
fn batch(layout: Layout, trajectories: &[&[usize]]) -> TestBatch {
    let mut batch = TestBatch::new(layout, &[trajectories]);
    let zeros = vec![0.0; batch.tokens()];
    for column in [NEW_LOGPROB, OLD_LOGPROB, ADVANTAGE, REF_LOGPROB] {
        batch.set(column, zeros.clone());
    }
    batch
}

fn objective(params: &str, batch: &TestBatch) -> TestLoss {
    TestScheme::<ClipObjective>::new(params).unwrap().objective(batch).unwrap()
}

fn near(found: f64, expected: f64) {
    let limit = 1e-6 * expected.abs().max(1.0);
    assert!((found - expected).abs() < limit, "{found} and not {expected}");
}

/// Ratios of 1, so that a token's loss is minus its advantage.
fn with_losses(layout: Layout, trajectories: &[&[usize]], losses: &[f32]) -> TestBatch {
    let mut batch = batch(layout, trajectories);
    batch.set(ADVANTAGE, losses.iter().map(|loss| -loss).collect());
    batch
}

#[test]
fn aggregates_by_hand() {
    // Two rows of trajectories: (1, 1 | 4) and (2).
    let batch = with_losses(Layout::Trajectory, &[&[2, 1], &[1]], &[1.0, 1.0, 4.0, 2.0]);
    for (aggregate, loss, slopes) in [
        ("token-mean", 2.0, [0.25, 0.25, 1.0, 0.5]),
        ("token-sum", 8.0, [1.0, 1.0, 4.0, 2.0]),
        ("seq-mean-token-sum", 4.0, [0.5, 0.5, 2.0, 1.0]),
        ("seq-mean-token-mean", 2.0, [1.0 / 6.0, 1.0 / 6.0, 4.0 / 6.0, 1.0]),
        ("step-mean-token-mean", 7.0 / 3.0, [1.0 / 6.0, 1.0 / 6.0, 4.0 / 3.0, 2.0 / 3.0]),
        ("trajectory-mean-token-mean", 2.0, [1.0 / 6.0, 1.0 / 6.0, 4.0 / 6.0, 1.0]),
    ] {
        let found = objective(&format!(r#"{{"aggregate": "{aggregate}"}}"#), &batch);
        near(found.loss, loss);
        for (found, expected) in found.d_logprob.iter().zip(slopes) {
            near(f64::from(*found), expected);
        }
    }
    let params = r#"{"aggregate": "seq-mean-token-sum-norm", "norm_length": 8}"#;
    near(objective(params, &batch).loss, 0.5);
}

#[test]
fn a_minibatch_has_one_mean_however_it_is_cut() {
    let rows = with_losses(Layout::Trajectory, &[&[4], &[1]], &[1.0, 1.0, 1.0, 1.0, 3.0]);
    near(objective("{}", &rows).loss, 1.4);
    let cut: f64 = [vec![0], vec![1]].iter().map(|rows_of_cut| micro_batch("{}", &rows, rows_of_cut).0).sum();
    near(cut, 1.4);
    // A of three step rows with loss 1, B of one with loss 5.
    let steps = with_losses(Layout::Step, &[&[1, 1, 1], &[1]], &[1.0, 1.0, 1.0, 5.0]);
    near(objective(r#"{"aggregate": "trajectory-mean-token-mean"}"#, &steps).loss, 3.0);
    near(objective(r#"{"aggregate": "seq-mean-token-mean"}"#, &steps).loss, 2.0);
}

#[test]
fn weights_are_the_normaliser() {
    let mut actfocus = batch(Layout::Trajectory, &[&[10]]);
    let ratios = [1.0, 1.1, 0.7, 1.5, 0.9, 1.0, 1.3, 0.75, 1.0, 1.25_f32];
    actfocus.set(NEW_LOGPROB, ratios.iter().map(|r| r.ln()).collect());
    let mut weight = vec![0.1; 6];
    weight.extend([1.125_707, 1.170_971, 1.277_17, 1.410_822]);
    actfocus.set(WEIGHT, weight);
    let params = r#"{"low": 0.2, "high": 0.28, "dual": 0}"#;
    for (advantage, weighted, uniform) in [(1.0, -1.066_819, -1.026), (-1.0, 1.087_064, 1.065)] {
        actfocus.set(ADVANTAGE, vec![advantage; 10]);
        near(objective(params, &actfocus).loss, weighted);
        let mut plain = actfocus.clone();
        plain.set(WEIGHT, vec![1.0; 10]);
        near(objective(params, &plain).loss, uniform);
    }
}

#[test]
fn a_row_ratio_is_the_geometric_mean() {
    let mut row = batch(Layout::Trajectory, &[&[2, 1]]);
    row.set(NEW_LOGPROB, vec![0.1, -0.2, 0.05]);
    row.set(ADVANTAGE, vec![1.0; 3]);
    let found = objective(r#"{"ratio": "row"}"#, &row);
    near(found.loss, -0.983_471);
    near(f64::from(found.d_logprob[0]), -0.983_471 / 3.0);
    // Each token has its own term, so a weight stays with its token.
    row.set(WEIGHT, vec![2.0, 0.0, 1.0]);
    let found = objective(r#"{"ratio": "row"}"#, &row);
    for (slope, share) in found.d_logprob.iter().zip([2.0 / 3.0, 0.0, 1.0 / 3.0]) {
        near(f64::from(*slope), -0.983_471 * share);
    }
    row.set(WEIGHT, vec![1.0; 3]);
    // By step: mean log-ratios -0.05 and 0.05, one over two steps each.
    let found = objective(r#"{"ratio": "step"}"#, &row);
    near(found.loss, -((-0.05_f64).exp() + 0.05_f64.exp()) / 2.0);
    near(f64::from(found.d_logprob[0]), -(-0.05_f64).exp() / 4.0);
    near(f64::from(found.d_logprob[2]), -0.05_f64.exp() / 2.0);
}

#[test]
fn a_weight_of_zero_is_no_part_at_all() {
    let mut masked = batch(Layout::Trajectory, &[&[3], &[1]]);
    masked.set(ADVANTAGE, vec![-1.0, -2.0, -3.0, 0.0]);
    masked.set(WEIGHT, vec![1.0, 0.0, 1.0, 0.0]);
    for odd in [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 100.0] {
        masked.set(NEW_LOGPROB, vec![0.0, odd, 0.0, odd]);
        for aggregate in ["token-mean", "seq-mean-token-sum"] {
            let params = format!(r#"{{"aggregate": "{aggregate}", "log_ratio_clamp": 0}}"#);
            let found = objective(&params, &masked);
            near(found.loss, 2.0);
            assert_eq!((found.d_logprob[1], found.d_logprob[3]), (0.0, 0.0));
        }
    }
    masked.set(WEIGHT, vec![0.0; 4]);
    for aggregate in ["token-mean", "seq-mean-token-mean", "step-mean-token-mean", "trajectory-mean-token-mean"] {
        let found = objective(&format!(r#"{{"aggregate": "{aggregate}"}}"#), &masked);
        assert_eq!((found.loss, found.d_logprob), (0.0, vec![0.0; 4]), "{aggregate}");
    }
}

#[test]
fn a_number_that_is_none_is_passed_on_to_be_refused() {
    let mut odd = batch(Layout::Trajectory, &[&[2]]);
    odd.set(NEW_LOGPROB, vec![f32::NAN, 0.0]);
    odd.set(ADVANTAGE, vec![-1.0, -1.0]);
    assert!(objective("{}", &odd).loss.is_nan());
}

#[test]
fn an_empty_minibatch_has_no_loss() {
    let empty = batch(Layout::Trajectory, &[&[0]]);
    for aggregate in ["token-mean", "seq-mean-token-mean", "token-sum"] {
        let params = format!(r#"{{"aggregate": "{aggregate}", "kl": "k3", "kl_coef": 1}}"#);
        assert_eq!(objective(&params, &empty).loss, 0.0, "{aggregate}");
    }
}

#[test]
fn divergence_entropy_and_value_count_tokens_and_not_weights() {
    let mut all = batch(Layout::Trajectory, &[&[2], &[1]]);
    all.set(WEIGHT, vec![0.0, 3.0, 0.0]);
    all.set(REF_LOGPROB, vec![-0.3, 0.0, 0.3]);
    all.set(NEW_ENTROPY, vec![1.0, 2.0, 6.0]);
    all.set(VALUE, vec![0.0; 3]);
    all.set(NEW_VALUE, vec![0.25, 0.5, -0.25]);
    all.set(VALUE_TARGET, vec![0.25, -0.5, 0.25]);
    take_metrics();
    let found = objective(r#"{"kl": "k3", "kl_coef": 2, "entropy_coef": 0.5, "value_coef": 3}"#, &all);
    let kl = (0.040_818 + 0.049_859) / 3.0;
    let value = (0.5 + 0.125) / 3.0;
    near(found.loss, 2.0 * kl - 0.5 * 3.0 + 3.0 * value);
    near(f64::from(found.d_logprob[0]), 2.0 * 0.259_182 / 3.0);
    near(f64::from(found.d_logprob[2]), 2.0 * -0.349_859 / 3.0);
    for slope in &found.d_entropy {
        near(f64::from(*slope), -0.5 / 3.0);
    }
    near(f64::from(found.d_value[1]), 1.0);
    near(f64::from(found.d_value[2]), -0.5);
    let metrics = take_metrics();
    for (name, expected) in [("ref_kl", kl), ("entropy", 3.0), ("value_loss", value)] {
        let (mean, weight) = metrics[name][0];
        near(mean, expected);
        assert_eq!(weight, 3.0, "{name}");
    }
}

#[test]
fn what_is_cut_is_reported() {
    let mut all = batch(Layout::Trajectory, &[&[4]]);
    let ratios = [1.0, 1.5, 4.0, 9.0_f32];
    all.set(NEW_LOGPROB, ratios.iter().map(|r| r.ln()).collect());
    all.set(ADVANTAGE, vec![1.0, 1.0, -1.0, 1.0]);
    all.set(WEIGHT, vec![1.0, 1.0, 2.0, 0.0]);
    take_metrics();
    objective("{}", &all);
    let metrics = take_metrics();
    for (name, expected) in [
        ("clip_fraction", 1.0 / 3.0),
        ("clip_fraction_lower", 1.0 / 3.0),
        ("ppo_kl", -(1.5_f64.ln() + 4.0_f64.ln()) / 3.0),
    ] {
        let (mean, weight) = metrics[name][0];
        near(mean, expected);
        assert_eq!(weight, 3.0, "{name}");
    }
    assert!(!metrics.contains_key("entropy"));
}

#[test]
fn gspo_is_clip_with_a_row_s_ratio() {
    let mut row = batch(Layout::Trajectory, &[&[2, 1], &[1]]);
    row.set(NEW_LOGPROB, vec![0.1, -0.2, 0.05, 0.0003]);
    row.set(ADVANTAGE, vec![1.0, 1.0, 1.0, -2.0]);
    let gspo = TestScheme::<GspoObjective>::new("{}").unwrap().objective(&row).unwrap();
    assert_eq!(gspo.loss, objective(r#"{"ratio": "row", "low": 3e-4, "high": 4e-4}"#, &row).loss);
    gspo.d_logprob[..3].iter().for_each(|slope| near(f64::from(*slope), -0.983_471_46 / 6.0));
}

#[test]
fn a_geometric_mean_cuts_tokens_before_it() {
    // A positive advantage is cut from above: 0.3, 0.1, -0.9; a negative one from below: 0.9, -0.3.
    let mut rows = batch(Layout::Trajectory, &[&[2, 1], &[2]]);
    rows.set(NEW_LOGPROB, vec![0.5, 0.1, -0.9, 0.9, -0.5]);
    rows.set(ADVANTAGE, vec![1.0, 1.0, 1.0, -1.0, -1.0]);
    let params = r#"{"surrogate": "geometric-mean", "ratio": "row", "low": 0.3, "high": 0.3}"#;
    take_metrics();
    let found = objective(params, &rows);
    let (first, second) = ((-0.5_f64 / 3.0).exp(), (0.6_f64 / 2.0).exp());
    near(found.loss, (second - first) / 2.0);
    let expected = [0.0, -first / 6.0, -first / 6.0, second / 4.0, 0.0];
    for (slope, expected) in found.d_logprob.iter().zip(expected) {
        near(f64::from(*slope), expected);
    }
    let metrics = take_metrics();
    assert_eq!((metrics["clip_fraction"][0], metrics["clip_fraction_lower"][0]), ((0.4, 5.0), (0.4, 5.0)));
    // A token without weight is not in the mean, whatever its number is.
    rows.set(WEIGHT, vec![1.0, 1.0, 0.0, 1.0, 1.0]);
    rows.set(NEW_LOGPROB, vec![0.5, 0.1, f32::NAN, 0.9, -0.5]);
    let found = objective(params, &rows);
    near(found.loss, (second - 0.2_f64.exp()) / 2.0);
    assert_eq!(found.d_logprob[2], 0.0);
}

#[test]
fn a_constant_factor_passes_the_gradient_of_cut_tokens() {
    let mut all = batch(Layout::Trajectory, &[&[2]]);
    all.set(OLD_LOGPROB, vec![-2.0, -2.0]);
    all.set(NEW_LOGPROB, vec![-1.0, -3.0]);
    all.set(ADVANTAGE, vec![1.0, -1.0]);
    let found = objective(r#"{"surrogate": "cispo", "high": 0.28}"#, &all);
    near(found.loss, (1.28 - 0.8 * 3.0) / 2.0);
    near(f64::from(found.d_logprob[0]), -0.64);
    near(f64::from(found.d_logprob[1]), 0.4);
    let plain = objective(r#"{"surrogate": "plain"}"#, &all);
    near(plain.loss, (1.0 - 3.0) / 2.0);
    assert_eq!(plain.d_logprob, [-0.5, 0.5]);
}

#[test]
fn a_sampler_that_is_not_the_policy_is_made_up_for() {
    let mut rows = with_losses(Layout::Trajectory, &[&[2], &[1]], &[1.0, 2.0, 4.0]);
    rows.set(SAMPLER_LOGPROB, [3.0_f32, 0.25, 1.5].map(|weight| -weight.ln()).to_vec());
    take_metrics();
    for (params, loss) in [
        (r#"{"mismatch": "truncate"}"#, (2.0 + 0.5 + 6.0) / 3.0),
        (r#"{"mismatch": "mask"}"#, (0.0 + 0.0 + 6.0) / 3.0),
        (r#"{"mismatch": "mask", "mismatch_low": 0.2, "mismatch_high": 3.5}"#, (3.0 + 0.5 + 6.0) / 3.0),
        (r#"{"mismatch": "truncate", "mismatch_ratio": "row"}"#, (0.75 * 3.0 + 6.0) / 3.0),
        (r#"{"mismatch": "truncate", "mismatch_ratio": "row-mean"}"#, (0.75_f64.sqrt() * 3.0 + 6.0) / 3.0),
    ] {
        near(objective(params, &rows).loss, loss);
    }
    let metrics = take_metrics();
    let kl = -(3.0_f64.ln() + 0.25_f64.ln() + 1.5_f64.ln()) / 3.0;
    near(metrics["mismatch_kl"][0].0, kl);
    near(metrics["mismatch_weight"][0].0, (2.0 + 0.25 + 1.5) / 3.0);
    near(metrics["mismatch_cut"][0].0, 1.0 / 3.0);
    near(metrics["mismatch_cut"][1].0, 2.0 / 3.0);
    let found = objective(r#"{"mismatch": "truncate", "surrogate": "geometric-mean", "ratio": "row"}"#, &rows);
    near(found.loss, 1.25 / 2.0 + 6.0 / 2.0);
}

#[test]
fn distillation_is_a_mean_over_its_tokens_and_knows_no_weights() {
    let mut all = batch(Layout::Trajectory, &[&[3], &[2]]);
    all.set(KIND, vec![ACTION, ACTION, THINK, ACTION, FORMAT]);
    all.set(NEW_LOGPROB, vec![-1.0, -2.0, -1.0, -1.0, -1.0]);
    all.set(OLD_LOGPROB, vec![-1.0, -2.0, -1.0, -1.0, -1.0]);
    all.set(WEIGHT, vec![0.0, 1.0, 1.0, 1.0, 1.0]);
    all.set(TEACHER_LOGPROB, vec![-0.5, -3.0, 0.0, f32::NAN, f32::NAN]);
    take_metrics();
    let found = objective(r#"{"distill_coef": 2}"#, &all);
    // (-0.5)(-1) and (1)(-2), over two tokens, twice.
    near(found.loss, 0.5 - 2.0);
    assert_eq!(found.d_logprob, [-0.5, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(take_metrics()["distill_gap"], [(0.25, 2.0)]);
    let found = objective(r#"{"distill_coef": 3, "distill_kinds": "all"}"#, &all);
    assert_eq!(found.d_logprob, [-0.5, 1.0, -1.0, 0.0, 0.0]);
    assert_eq!(objective(r#"{"distill_coef": 3, "distill_kinds": "format"}"#, &all).loss, 0.0);
    // Any column of query results.
    all.set(Column::<f32>::named("mentor", Level::Token), vec![-1.0, -2.0, -1.0, -3.0, -1.0]);
    let found = objective(r#"{"distill_coef": 3, "distill_column": "mentor"}"#, &all);
    assert_eq!(found.d_logprob, [0.0, 0.0, 0.0, 2.0, 0.0]);
}

#[test]
fn only_what_is_used_is_asked_for() {
    let reads = |params: &str| -> Vec<String> {
        let needs = TestScheme::<ClipObjective>::new(params).unwrap().needs().unwrap();
        needs.reads.into_iter().map(|read| read.name).collect()
    };
    let base = ["new_logprob", "old_logprob", "advantage", "weight"];
    assert_eq!(reads("{}"), base);
    assert_eq!(reads(r#"{"kl": "k1"}"#)[4..], ["ref_logprob"]);
    assert_eq!(reads(r#"{"entropy_coef": 0.001}"#)[4..], ["new_entropy"]);
    assert_eq!(reads(r#"{"value_coef": 1}"#)[4..], ["value", "new_value", "value_target"]);
    assert_eq!(reads(r#"{"mismatch": "mask"}"#)[4..], ["sampler_logprob"]);
    assert_eq!(reads(r#"{"distill_coef": 1, "distill_column": "mentor"}"#)[4..], ["kind", "mentor"]);
    assert_eq!(reads(r#"{"distill_coef": 1, "distill_kinds": "all"}"#)[4..], ["teacher_logprob"]);
}

/// A micro-batch of some rows of a minibatch: its share of the loss, its tokens and their derivatives.
fn micro_batch(params: &str, minibatch: &TestBatch, rows: &[usize]) -> (f64, Vec<(usize, [f32; 3])>) {
    let offsets = |column: Column<u32>| match minibatch.table().get(column.name()) {
        Some(Data::U32(offsets)) => offsets.iter().map(|o| *o as usize).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let (row_steps, step_tokens) = (offsets(ROW_STEPS), offsets(STEP_TOKENS));
    let trajectory_steps = offsets(TRAJECTORY_STEPS);
    let layout = match minibatch.table().get(LAYOUT.name()) {
        Some(Data::U8(layout)) if layout == &[1] => Layout::Step,
        _ => Layout::Trajectory,
    };
    let mut shape: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut tokens = Vec::new();
    for row in rows {
        for step in row_steps[*row]..row_steps[row + 1] {
            let trajectory = trajectory_steps.partition_point(|start| *start <= step) - 1;
            if shape.last().is_none_or(|(last, _)| *last != trajectory) {
                shape.push((trajectory, Vec::new()));
            }
            let own = step_tokens[step]..step_tokens[step + 1];
            shape.last_mut().unwrap().1.push(own.len());
            tokens.extend(own);
        }
    }
    let steps: Vec<&[usize]> = shape.iter().map(|(_, steps)| steps.as_slice()).collect();
    let trajectories: Vec<usize> = shape.iter().map(|(trajectory, _)| *trajectory).collect();
    let mut inputs = TestBatch::new(layout, &[&steps]).table().clone();
    let floats = [
        NEW_LOGPROB,
        OLD_LOGPROB,
        REF_LOGPROB,
        SAMPLER_LOGPROB,
        TEACHER_LOGPROB,
        NEW_ENTROPY,
        NEW_VALUE,
        VALUE,
        VALUE_TARGET,
        ADVANTAGE,
        WEIGHT,
    ];
    for name in floats.map(Column::name).into_iter().chain([KIND.name()]) {
        if let Some(data) = minibatch.table().get(name) {
            inputs.set(name, data.gather(&tokens));
        }
    }
    let all = minibatch.table().f32(WEIGHT);
    let all = all.map_or_else(|| vec![1.0; minibatch.tokens()], <[f32]>::to_vec);
    let weight: Vec<f32> = tokens.iter().map(|token| all[*token]).collect();
    Denominators::of(minibatch.table(), &all).unwrap().put_into(&mut inputs, &weight, &trajectories);
    inputs.put(WEIGHT, weight);

    let mut outputs = Table::default();
    outputs.put(LOSS, vec![f64::NAN]);
    let columns = [D_LOGPROB, D_ENTROPY, D_VALUE];
    for column in columns {
        outputs.put(column, vec![0.0; tokens.len()]);
    }
    let mut scheme = TestScheme::<ClipObjective>::new(params).unwrap();
    if let Some(part) = scheme.needs().unwrap().part {
        PartCount::of(minibatch.table(), &part).put_into(&mut inputs);
    }
    let outputs = scheme.call(Hook::Objective, &inputs, outputs).unwrap();
    let Some(Data::F64(loss)) = outputs.get(LOSS.name()) else {
        panic!("the loss is an output");
    };
    let slopes = columns.map(|column| outputs.f32(column).unwrap().to_vec());
    let of_token = |(i, token): (usize, &usize)| (*token, [slopes[0][i], slopes[1][i], slopes[2][i]]);
    (loss[0], tokens.iter().enumerate().map(of_token).collect())
}

const AGGREGATES: [&str; 7] = [
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
    "step-mean-token-mean",
    "trajectory-mean-token-mean",
];

/// Parameters with every term on.
fn parameters() -> impl Strategy<Value = String> {
    let choice = |names: &[&'static str]| prop::sample::select(names.to_vec());
    let surrogates = choice(&["clip", "clip", "cispo", "geometric-mean", "plain", "sapo", "dro"]);
    let mismatch = (choice(&["none", "truncate", "mask"]), choice(&["token", "row", "row-mean"]));
    ((choice(&AGGREGATES), choice(&["token", "step", "row"]), surrogates), choice(&["k1", "k2", "k3", "abs"]), mismatch)
        .prop_map(|((aggregate, ratio, surrogate), kl, (mismatch, mismatch_ratio))| {
            let norm = if aggregate == "seq-mean-token-sum-norm" { r#", "norm_length": 7"# } else { "" };
            let ratio = if surrogate == "geometric-mean" && ratio == "token" { "row" } else { ratio };
            format!(
                r#"{{"aggregate": "{aggregate}", "ratio": "{ratio}", "surrogate": "{surrogate}",
                "kl": "{kl}", "kl_coef": 0.3, "entropy_coef": 0.2, "value_coef": 0.7, "high": 0.3,
                "mismatch": "{mismatch}", "mismatch_ratio": "{mismatch_ratio}", "distill_coef": 0.4{norm}}}"#
            )
        })
}

/// A minibatch with random numbers in every column.
fn minibatch() -> impl Strategy<Value = TestBatch> {
    let trajectory = prop::collection::vec(0_usize..4, 1..4);
    let shape = prop::collection::vec(trajectory, 1..5);
    let layout = prop::sample::select(vec![Layout::Step, Layout::Trajectory]);
    (shape, layout, any::<u64>()).prop_map(|(shape, layout, seed)| {
        let views: Vec<&[usize]> = shape.iter().map(Vec::as_slice).collect();
        let mut batch = TestBatch::new(layout, &[&views]);
        let mut state = seed;
        let mut uniform = move |low: f32, high: f32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            low + (high - low) * ((state >> 40) as f32 / 16_777_216.0)
        };
        for (column, low, high) in [
            (NEW_LOGPROB, -2.0, -1.0),
            (OLD_LOGPROB, -2.0, -1.0),
            (REF_LOGPROB, -2.5, -0.5),
            (SAMPLER_LOGPROB, -2.5, -0.5),
            (TEACHER_LOGPROB, -2.5, -0.5),
            (NEW_ENTROPY, 0.0, 2.0),
            (NEW_VALUE, -1.0, 1.0),
            (VALUE, -1.0, 1.0),
            (VALUE_TARGET, -1.0, 1.0),
            (ADVANTAGE, -2.0, 2.0),
            (WEIGHT, 0.0, 2.0),
        ] {
            let numbers = (0..batch.tokens()).map(|_| uniform(low, high)).collect();
            batch.set(column, numbers);
        }
        let kinds: Vec<u8> = (0..batch.tokens()).map(|_| uniform(0.0, 2.99) as u8).collect();
        batch.set(KIND, kinds);
        batch
    })
}

fn row_count(batch: &TestBatch) -> usize {
    batch.table().get(ROW_STEPS.name()).map_or(0, Data::len) - 1
}

proptest! {
    #[test]
    fn every_cut_gives_the_same_loss_and_gradient(
        batch in minibatch(),
        params in parameters(),
        cut in prop::collection::vec(any::<bool>(), 12),
    ) {
        let whole = objective(&params, &batch);
        let mut loss = 0.0;
        let mut rows = Vec::new();
        let mut seen = 0;
        let count = row_count(&batch);
        for (row, ends) in cut.iter().enumerate().take(count) {
            rows.push(row);
            if row + 1 == count || *ends {
                let (share, tokens) = micro_batch(&params, &batch, &rows);
                loss += share;
                for (token, slopes) in tokens {
                    let expected = [whole.d_logprob[token], whole.d_entropy[token], whole.d_value[token]];
                    prop_assert_eq!(slopes, expected);
                    seen += 1;
                }
                rows.clear();
            }
        }
        prop_assert_eq!(seen, batch.tokens());
        prop_assert!((loss - whole.loss).abs() < 1e-12 * whole.loss.abs().max(1.0), "{} {}", loss, whole.loss);
    }

    #[test]
    fn a_permutation_permutes_the_result_bit_for_bit(batch in minibatch(), params in parameters(), turn in any::<prop::sample::Index>()) {
        let whole = objective(&params, &batch);
        let mut rows: Vec<usize> = (0..row_count(&batch)).rev().collect();
        let middle = turn.index(rows.len());
        rows.rotate_left(middle);
        let (loss, tokens) = micro_batch(&params, &batch, &rows);
        prop_assert!((loss - whole.loss).abs() < 1e-12 * whole.loss.abs().max(1.0));
        prop_assert_eq!(tokens.len(), batch.tokens());
        for (token, slopes) in tokens {
            let expected = [whole.d_logprob[token], whole.d_entropy[token], whole.d_value[token]];
            prop_assert_eq!(slopes.map(f32::to_bits), expected.map(f32::to_bits));
        }
    }

    #[test]
    fn derivatives_are_those_of_the_loss(batch in minibatch(), params in parameters(), pick in any::<prop::sample::Index>()) {
        let mut params = params;
        let mut put = |from: &str, to: &str| params = params.replace(from, to);
        // With these a factor is held constant: no derivative of the value.
        put(r#""distill_coef": 0.4"#, r#""distill_coef": 0"#);
        put("cispo", "clip");
        let by_token = params.contains(r#""ratio": "token""#);
        let mut put = |from: &str, to: &str| params = params.replace(from, to);
        if !by_token {
            // A mean ratio passes each token only its own term: that is the whole derivative where all that share the
            // ratio have one advantage, one weight, one share and one factor, and the value is one of the ratio alone.
            put("step-mean-token-mean", "token-mean");
            put(r#""mismatch": "truncate""#, r#""mismatch": "none""#);
            put(r#""mismatch": "mask""#, r#""mismatch": "none""#);
            put("sapo", "clip");
            put("dro", "clip");
        }
        let mut batch = batch;
        if !by_token {
            for column in [ADVANTAGE, WEIGHT] {
                let first = batch.table().f32(column).and_then(<[f32]>::first).copied();
                batch.set(column, vec![first.unwrap_or(1.0); batch.tokens()]);
            }
        }
        prop_assume!(batch.tokens() > 0);
        let token = pick.index(batch.tokens());
        let found = objective(&params, &batch);
        // A token's loss is rounded to 32 bits, and so is what a difference of two says about the slope.
        let rounding = 2e-3 * found.d_logprob.iter().fold(0.0_f64, |most, d| most.max(f64::from(d.abs())));
        for (column, slopes) in [
            (NEW_LOGPROB, &found.d_logprob),
            (NEW_ENTROPY, &found.d_entropy),
            (NEW_VALUE, &found.d_value),
        ] {
            let at = |offset: f32| {
                let mut moved = batch.clone();
                let mut numbers = batch.table().f32(column).unwrap().to_vec();
                numbers[token] += offset;
                let place = f64::from(numbers[token]);
                moved.set(column, numbers);
                (place, objective(&params, &moved).loss)
            };
            let step = 1.0 / 1024.0;
            let (left, middle, right) = (at(-step), at(0.0), at(step));
            let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
            let (before, after) = (slope(left, middle), slope(middle, right));
            let scale = before.abs().max(after.abs()).max(1e-3);
            // Different on both sides: an edge lies between.
            if (before - after).abs() < 0.02 * scale {
                let expected = slope(left, right);
                let slope = f64::from(slopes[token]);
                let limit = 0.02 * scale + rounding;
                prop_assert!((slope - expected).abs() < limit, "{}: {slope} {expected}", column.name());
            }
        }
    }

    #[test]
    fn scaled_weights_change_no_mean(batch in minibatch(), power in -3_i32..4) {
        for aggregate in ["token-mean", "seq-mean-token-mean", "step-mean-token-mean", "trajectory-mean-token-mean"] {
            let params = format!(r#"{{"aggregate": "{aggregate}"}}"#);
            let plain = objective(&params, &batch);
            let mut scaled = batch.clone();
            let weight = batch.table().f32(WEIGHT).unwrap();
            scaled.set(WEIGHT, weight.iter().map(|w| w * 2.0_f32.powi(power)).collect());
            let scaled = objective(&params, &scaled);
            prop_assert!((plain.loss - scaled.loss).abs() < 1e-9);
            prop_assert_eq!(plain.d_logprob, scaled.d_logprob);
        }
    }

    #[test]
    fn rows_of_one_token_have_the_token_s_ratio(count in 1_usize..6, seed in 0.0_f32..1.0) {
        let shape = vec![[1_usize]; count];
        let views: Vec<&[usize]> = shape.iter().map(<[usize; 1]>::as_slice).collect();
        let mut batch = batch(Layout::Trajectory, &views);
        batch.set(NEW_LOGPROB, (0..count).map(|i| (seed + i as f32).sin()).collect());
        batch.set(ADVANTAGE, (0..count).map(|i| (2.0 * seed + i as f32).cos()).collect());
        let row = objective(r#"{"ratio": "row"}"#, &batch);
        let token = objective(r#"{"ratio": "token", "dual": 0}"#, &batch);
        near(row.loss, token.loss);
        prop_assert_eq!(row.d_logprob, token.d_logprob);
    }

    #[test]
    fn a_small_step_against_the_gradient_lowers_the_loss(batch in minibatch(), params in parameters()) {
        let token_ratio = params.replace(r#""ratio": "step""#, r#""ratio": "token""#);
        let token_ratio = token_ratio.replace(r#""ratio": "row""#, r#""ratio": "token""#);
        // Of these the value is not what its derivative descends.
        let token_ratio = token_ratio.replace("cispo", "clip").replace("geometric-mean", "clip");
        let token_ratio = token_ratio.replace(r#""distill_coef": 0.4"#, r#""distill_coef": 0"#);
        let before = objective(&token_ratio, &batch);
        let norm: f32 = before.d_logprob.iter().map(|d| d * d).sum();
        prop_assume!(norm > 1e-4);
        let steepest = before.d_logprob.iter().fold(0.0_f32, |a, d| a.max(d.abs()));
        let step = 1e-3 / steepest;
        let mut moved = batch.clone();
        let new = batch.table().f32(NEW_LOGPROB).unwrap();
        moved.set(NEW_LOGPROB, new.iter().zip(&before.d_logprob).map(|(n, d)| n - step * d).collect());
        let after = objective(&token_ratio, &moved);
        // Past an edge (a cut, the kink of |x|) the loss may rise again, however short the step.
        let edge = before.d_logprob.iter().zip(&after.d_logprob).any(|(b, a)| (b - a).abs() > 0.02 * steepest);
        prop_assume!(!edge);
        let gain = f64::from(step * norm);
        prop_assert!(after.loss < before.loss - 0.5 * gain, "{} {} {gain}", before.loss, after.loss);
    }
}
