//! Weights by hand.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme, take_metrics},
};

use crate::{Rlsd, Serl};

/// The teacher's and the student's difference on four tokens; the student's log-probability is -1.
const DIFFERENCES: [f32; 4] = [0.05, 0.5, -0.1, -1.0];

/// One step of these differences, all action tokens.
pub fn batch(differences: &[f32], iteration: u64) -> TestBatch {
    let mut batch = TestBatch::new(Layout::Step, &[&[&[differences.len()]]]);
    batch
        .set(ITERATION, vec![iteration])
        .set(KIND, vec![ACTION; differences.len()])
        .set(NEW_LOGPROB, vec![-1.0; differences.len()])
        .set(TEACHER_LOGPROB, differences.iter().map(|difference| difference - 1.0).collect());
    batch
}

fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() < 2e-6, "{found:?} and not {expected:?}");
    }
}

fn refreshed(params: &str, iteration: u64, advantage: f32) -> Vec<f32> {
    let mut scheme = TestScheme::<Serl>::new(params).unwrap();
    scheme.refresh(&batch(&DIFFERENCES, iteration), vec![advantage; 4]).unwrap()
}

#[test]
fn the_vectors_by_hand() {
    near(&refreshed("{}", 0, 1.5), &[1.538_453, 1.65, 1.428_628, 1.35]);
    near(&refreshed("{}", 0, -1.5), &[-1.463_422, -1.35, -1.578_878, -1.65]);
    near(&refreshed("{}", 25, 1.5), &[1.519_227, 1.575, 1.464_314, 1.425]);
    // All of the teacher's weight: the weights themselves.
    near(&refreshed(r#"{"lambda": 1, "decay": 0}"#, 90, 1.0), &[1.051_271, 1.2, 0.904_837, 0.8]);
    near(&refreshed(r#"{"lambda": 1, "decay": 0}"#, 0, -1.0), &[-0.951_229, -0.8, -1.105_171, -1.2]);
}

#[test]
fn a_share_of_0_changes_no_bit() {
    for (params, iteration) in [("{}", 50), ("{}", 77), (r#"{"lambda": 0}"#, 0)] {
        assert_eq!(refreshed(params, iteration, 1.7), [1.7; 4], "{params} {iteration}");
    }
}

#[test]
fn decay_counts_what_it_is_told_to() {
    let mut batch = batch(&[0.5], 0);
    batch.set(UPDATE, vec![25]);
    let by = |params: &str| TestScheme::<Serl>::new(params).unwrap().refresh(&batch, vec![1.0]).unwrap()[0];
    near(&[by("{}"), by(r#"{"decay_over": "updates"}"#)], &[1.1, 1.05]);
}

#[test]
fn tokens_without_a_teacher_or_an_advantage_keep_theirs() {
    let mut batch = batch(&[f32::NAN, 0.5, 0.5], 0);
    let mut scheme = TestScheme::<Serl>::new("{}").unwrap();
    near(&scheme.refresh(&batch, vec![1.0, 0.0, 1.0]).unwrap(), &[1.0, 0.0, 1.1]);
    // Only action tokens, unless the scheme is for all.
    batch.set(KIND, vec![THINK, FORMAT, ACTION]);
    near(&scheme.refresh(&batch, vec![1.0, 1.0, 1.0]).unwrap(), &[1.0, 1.0, 1.1]);
    let mut all = TestScheme::<Rlsd>::new("{}").unwrap();
    near(&all.refresh(&batch, vec![1.0, 1.0, 1.0]).unwrap(), &[1.0, 1.1, 1.1]);
    let mut positive = TestScheme::<Rlsd>::new(r#"{"rollouts": "positive"}"#).unwrap();
    near(&positive.refresh(&batch, vec![1.0, 1.0, -1.0]).unwrap(), &[1.0, 1.1, -1.0]);
}

#[test]
fn the_student_can_be_the_policy_before_the_update() {
    let mut batch = batch(&[0.5], 0);
    batch.set(OLD_LOGPROB, vec![-0.5]);
    let mut scheme = TestScheme::<Serl>::new(r#"{"student": "old"}"#).unwrap();
    near(&scheme.refresh(&batch, vec![1.0]).unwrap(), &[1.0]);
    let needs = scheme.needs().unwrap();
    assert!(needs.reads.iter().any(|read| read.name == OLD_LOGPROB.name()));
    assert!(needs.reads.iter().all(|read| read.name != NEW_LOGPROB.name()));
}

#[test]
fn an_absent_column_is_an_error_while_the_teacher_has_a_share() {
    let mut batch = TestBatch::new(Layout::Step, &[&[&[1]]]);
    batch.set(KIND, vec![ACTION]).set(NEW_LOGPROB, vec![-1.0]);
    let mut scheme = TestScheme::<Serl>::new("{}").unwrap();
    let error = scheme.refresh(&batch, vec![1.0]).unwrap_err();
    assert!(error.message.contains("`teacher_logprob` is absent"), "{}", error.message);
    batch.set(ITERATION, vec![50]);
    assert_eq!(scheme.refresh(&batch, vec![1.0]), Ok(vec![1.0]));
}

#[test]
fn extreme_log_probabilities_give_bounded_weights() {
    let batch = batch(&[1e30, -1e30, f32::MAX, f32::MIN], 0);
    let mut scheme = TestScheme::<Serl>::new("{}").unwrap();
    near(&scheme.refresh(&batch, vec![1.0; 4]).unwrap(), &[1.1, 0.9, 1.1, 0.9]);
}

#[test]
fn the_numbers_of_a_micro_batch_are_reported() {
    take_metrics();
    let mut batch = batch(&[0.05, 0.5, -1.0, f32::NAN], 0);
    batch.set(KIND, vec![ACTION, ACTION, THINK, ACTION]);
    TestScheme::<Serl>::new("{}").unwrap().refresh(&batch, vec![1.0; 4]).unwrap();
    let metrics = take_metrics();
    let value = |name: &str| metrics[name][0];
    assert_eq!(value("effective_lambda"), (0.5, 1.0));
    assert_eq!(value("teacher_fraction"), (0.75, 4.0));
    assert_eq!(value("selected_fraction"), (2.0 / 3.0, 3.0));
    assert!((value("weight_max").0 - 1.2).abs() < 1e-6);
    assert_eq!(value("clipped_fraction"), (0.5, 2.0));
    assert!((value("weight_min").0 - 0.05_f64.exp()).abs() < 1e-6);
    assert!((value("teacher_gain").0 - 0.275).abs() < 1e-6);
}
