//! The whole scheme: what it asks, its loss and derivatives, and its edges.

use accredit_plugin_api::{
    Layout, PartCount,
    host::{Data, Table},
    prelude::*,
    testing::{TestBatch, TestLoss, TestScheme, take_metrics},
};
use proptest::prelude::*;

use super::Sdpo;

const NONE: f32 = f32::NAN;

fn scheme(params: &str) -> TestScheme<Sdpo> {
    TestScheme::new(params).unwrap()
}

fn objective(params: &str, batch: &TestBatch) -> TestLoss {
    scheme(params).objective(batch).unwrap()
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} and not {expected}");
}

/// Trajectories of one step each, all columns set, teacher as given.
fn batch(layout: Layout, trajectories: &[&[usize]], new: &[f32], teacher: &[f32]) -> TestBatch {
    let mut batch = TestBatch::new(layout, &[trajectories]);
    batch.set(NEW_LOGPROB, new.to_vec());
    batch.set(OLD_LOGPROB, new.to_vec());
    batch.set(TEACHER_LOGPROB, teacher.to_vec());
    batch
}

const SAMPLED: &str = r#"{"form": "sampled"}"#;

#[test]
fn the_sampled_form_by_hand() {
    let batch = batch(Layout::Trajectory, &[&[2], &[2]], &[-1.0, -2.0, -0.5, -3.0], &[-0.5, -3.0, NONE, NONE]);
    take_metrics();
    let found = objective(SAMPLED, &batch);
    // (new - teacher) * new: (-0.5)(-1) + (1)(-2), over two tokens.
    near(found.loss, (0.5 - 2.0) / 2.0);
    assert_eq!(found.d_logprob, [-0.25, 0.5, 0.0, 0.0]);
    let metrics = take_metrics();
    assert_eq!(metrics["teacher_tokens"], [(0.5, 4.0)]);
    assert_eq!(metrics["teacher_gap"], [(0.25, 2.0)]);
}

#[test]
fn importance_weights_are_capped_from_above_and_constant() {
    let mut batch = batch(Layout::Trajectory, &[&[3]], &[-1.0, -1.0, -1.0], &[-2.0, -2.0, -2.0]);
    batch.set(OLD_LOGPROB, vec![-1.0 - 3.0_f32.ln(), -1.0 + 2.0_f32.ln(), -60.0]);
    take_metrics();
    let found = objective(SAMPLED, &batch);
    near(found.loss, -(2.0 + 0.5 + 2.0) / 3.0);
    near(f64::from(found.d_logprob[1]), 0.5 / 3.0);
    assert_eq!(take_metrics()["ratio_capped"], [(2.0 / 3.0, 3.0)]);
    near(objective(r#"{"form": "sampled", "ratio_cap": 0}"#, &batch).loss, -1.0);
}

#[test]
fn rows_and_steps_without_a_teacher_do_not_count() {
    // Losses of 1, 3 | 5 in one row, 7 in another, none in the third; new is -1, so that gap * new = teacher + 1.
    let teacher = [0.0, 2.0, 4.0, NONE, 6.0, NONE];
    let batch = batch(Layout::Trajectory, &[&[2, 1], &[1, 1], &[1]], &[-1.0; 6], &teacher);
    for (aggregate, expected) in [
        ("token-mean", 4.0),
        ("token-sum", 16.0),
        ("seq-mean-token-sum", 8.0),
        ("seq-mean-token-mean", 5.0),
        ("step-mean-token-mean", 14.0 / 3.0),
    ] {
        near(objective(&format!(r#"{{"form": "sampled", "aggregate": "{aggregate}"}}"#), &batch).loss, expected);
    }
    let params = r#"{"form": "sampled", "aggregate": "seq-mean-token-sum-norm", "norm_length": 4}"#;
    near(objective(params, &batch).loss, 2.0);
}

#[test]
fn a_minibatch_has_one_loss_however_it_is_cut() {
    let new = [-1.0, -2.0, -0.5, -3.0];
    let teacher = [-0.5, -3.0, NONE, -1.0];
    let whole = batch(Layout::Trajectory, &[&[2], &[2]], &new, &teacher);
    for aggregate in ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "step-mean-token-mean"] {
        let mut scheme = scheme(&format!(r#"{{"form": "sampled", "aggregate": "{aggregate}"}}"#));
        let expected = scheme.objective(&whole).unwrap();
        let part = PartCount::of(whole.table(), &scheme.needs().unwrap().part.unwrap());
        let (mut loss, mut slopes) = (0.0, Vec::new());
        for row in [0..2, 2..4] {
            let mut inputs = batch(Layout::Trajectory, &[&[2]], &new[row.clone()], &teacher[row]).table().clone();
            part.put_into(&mut inputs);
            let mut outputs = Table::default();
            outputs.put(LOSS, vec![f64::NAN]);
            outputs.put(D_LOGPROB, vec![NONE; 2]);
            let outputs = scheme.call(Hook::Objective, &inputs, outputs).unwrap();
            let Some(Data::F64(share)) = outputs.get(LOSS.name()) else { panic!("the loss is an output") };
            loss += share[0];
            slopes.extend_from_slice(outputs.f32(D_LOGPROB).unwrap());
        }
        near(loss, expected.loss);
        assert_eq!(slopes, expected.d_logprob, "{aggregate}");
    }
}

#[test]
fn nothing_to_learn_from_is_a_loss_of_zero() {
    for trajectories in [[2].as_slice(), &[0]] {
        let tokens = trajectories[0];
        let mut batch = batch(Layout::Trajectory, &[trajectories], &vec![-1.0; tokens], &vec![NONE; tokens]);
        for aggregate in ["token-mean", "seq-mean-token-mean", "step-mean-token-mean"] {
            let found = objective(&format!(r#"{{"form": "sampled", "aggregate": "{aggregate}"}}"#), &batch);
            assert_eq!((found.loss, found.d_logprob), (0.0, vec![0.0; tokens]));
        }
        lists(&mut batch, 2, &vec![-1.0; 2 * tokens], &vec![NONE; 2 * tokens]);
        let found = objective("{}", &batch);
        assert_eq!((found.loss, found.d_top_k_logprob), (0.0, vec![0.0; 2 * tokens]));
    }
}

/// The likeliest tokens of every place.
fn lists(batch: &mut TestBatch, k: u32, new: &[f32], teacher: &[f32]) {
    batch.set(TOP_K, vec![k]);
    batch.set(TOP_K_ID, vec![0; new.len()]);
    batch.set(NEW_TOP_K_LOGPROB, new.to_vec());
    batch.set(TEACHER_TOP_K_LOGPROB, teacher.to_vec());
}

#[test]
fn the_form_with_lists_by_hand() {
    let mut batch = batch(Layout::Trajectory, &[&[2], &[1]], &[-1.0; 3], &[-0.5, NONE, -0.5]);
    let student = [0.7_f32, 0.2, 0.1].map(f32::ln);
    let teacher = [0.4_f32, 0.4, 0.2].map(f32::ln);
    lists(&mut batch, 3, &[student, student, teacher].concat(), &[teacher, [NONE; 3], teacher].concat());
    take_metrics();
    // The second token has no teacher, and at the third student and teacher agree.
    let found = objective(r#"{"tail": "renormalise"}"#, &batch);
    near(found.loss, 0.046_201 / 2.0);
    assert_eq!(found.d_logprob, [0.0; 3]);
    assert_eq!(found.d_top_k_logprob[3..6], [0.0; 3]);
    assert!(found.d_top_k_logprob[0] > 0.01 && found.d_top_k_logprob[1] < -0.01);
    near(take_metrics()["divergence"][0].0, 0.046_201 / 2.0);
    near(objective(r#"{"tail": "renormalise", "alpha": 0}"#, &batch).loss, 0.192_042 / 2.0);
    near(objective(r#"{"tail": "renormalise", "alpha": 1}"#, &batch).loss, 0.183_787 / 2.0);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (params, path, part) in [
        (r#"{"form": "sampled", "alpha": 0.5}"#, "alpha", "1 and no other"),
        (r#"{"alpha": 1.5}"#, "alpha", "at most 1"),
        (r#"{"top_k": 0}"#, "top_k", "at least 1"),
        (r#"{"ratio_cap": -1}"#, "ratio_cap", "at least 0"),
        (r#"{"teacher_rate": 0}"#, "teacher_rate", "more than 0"),
        (r#"{"norm_length": 3}"#, "norm_length", "only used"),
        (r#"{"aggregate": "seq-mean-token-sum-norm"}"#, "norm_length", "missing"),
        (r#"{"tail": "drop"}"#, "tail", "unknown variant"),
    ] {
        let error = TestScheme::<Sdpo>::new(params).err().unwrap();
        assert_eq!(error.location, path, "{params}");
        assert!(error.message.contains(part), "{params}: {}", error.message);
    }
}

#[test]
fn only_what_is_used_is_asked_for() {
    let needs = scheme(SAMPLED).needs().unwrap();
    let reads: Vec<&str> = needs.reads.iter().map(|read| read.name.as_str()).collect();
    assert_eq!(reads, ["new_logprob", "old_logprob", "teacher_logprob"]);
    assert_eq!(needs.top_k, 0);
    let needs = scheme(r#"{"top_k": 20}"#).needs().unwrap();
    assert_eq!((needs.top_k, needs.reads.len()), (20, 7));
    assert_eq!(needs.part.unwrap().column.as_deref(), Some("teacher_logprob"));
}

/// Four trajectories of one step with an answer of the environment each.
fn episodes(outcomes: [f32; 4], responses: [&str; 4], feedback: [&str; 4]) -> TestBatch {
    let mut batch = TestBatch::new(Layout::Step, &[&[&[2], &[2], &[2], &[1]]]);
    batch.set(OUTCOME, outcomes.to_vec());
    batch.set_texts(RESPONSE, &responses);
    batch.set_texts(FEEDBACK, &feedback);
    batch
}

fn asked(params: &str, batch: &TestBatch) -> Vec<(usize, String)> {
    let queries = scheme(params).queries(batch).unwrap();
    assert!(queries.iter().all(|query| query.target.is_none() && query.column == "teacher_logprob"));
    queries.into_iter().map(|query| (query.step, query.added)).collect()
}

#[test]
fn a_successful_sibling_is_shown_and_nobody_sees_their_own() {
    let responses = ["<think>hm</think>right", "wrong", "also right", "x"];
    let batch = episodes([1.0, 0.0, 1.0, 0.25], responses, ["won", "lost", "won", "hm"]);
    take_metrics();
    let asked = asked("{}", &batch);
    let steps: Vec<usize> = asked.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [0, 1, 2, 3]);
    let title = "A correct solution of this task:\n\n";
    // The first is the shortest; for itself it is the other one.
    assert!(asked[0].1.starts_with(&format!("{title}also right\n\n")), "{}", asked[0].1);
    for (_, added) in &asked[1..] {
        assert!(added.starts_with(&format!("{title}right\n\n")), "{added}");
    }
    assert_eq!(take_metrics()["context_success"], [(4.0, 1.0)]);
    let kept = scheme(r#"{"remove_thinking": false}"#).queries(&batch).unwrap();
    assert!(kept[0].added.contains("also right") && kept[1].added.contains("also right"));
}

#[test]
fn without_a_success_the_feedback_is_shown_where_there_is_some() {
    let mut batch = episodes([0.0; 4], ["a"; 4], ["the box is stuck", "", " \n", "no"]);
    batch.set(TRAINED, vec![true, true, true, false]);
    take_metrics();
    let found = asked("{}", &batch);
    assert_eq!(found.len(), 1);
    assert!(found[0].1.starts_with("What the environment answered to an earlier attempt:\n\nthe box is stuck\n\n"));
    let metrics = take_metrics();
    assert_eq!((metrics["context_feedback"][0].0, metrics["context_none"][0].0), (1.0, 2.0));
    assert!(asked(r#"{"feedback": false}"#, &batch).is_empty());
    // The only success sees what the environment told it.
    let batch = episodes([1.0, 0.0, 0.0, 0.0], ["a", "b", "c", "d"], ["yes", "no", "no", "no"]);
    assert!(asked("{}", &batch)[0].1.contains("answered"));
}

#[test]
fn several_steps_are_listed_and_empty_responses_are_not_asked_about() {
    let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[1, 1], &[1, 0]]]);
    batch.set(OUTCOME, vec![1.0, 0.0]);
    batch.set_texts(RESPONSE, &["left", "down", "up", ""]);
    batch.set_texts(FEEDBACK, &[""; 4]);
    let found = asked("{}", &batch);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, 2);
    assert!(found[0].1.contains("Step 1\nleft\n\nStep 2\ndown\n\nSolve"), "{}", found[0].1);
}

#[test]
fn the_teacher_is_who_the_parameters_say() {
    let batch = episodes([1.0, 0.0, 0.0, 0.0], ["a"; 4], [""; 4]);
    for (params, expected) in [
        ("{}", QueryPolicy::MovingAverage { rate: 0.05 }),
        (r#"{"teacher": "copy", "teacher_every": 3}"#, QueryPolicy::Copy { every: 3 }),
        (r#"{"teacher": "current"}"#, QueryPolicy::Current),
    ] {
        assert_eq!(scheme(params).queries(&batch).unwrap()[0].policy, expected);
    }
}

proptest! {
    #[test]
    fn who_is_shown_does_not_depend_on_the_order_of_the_group(
        members in prop::collection::vec((0..3_u8, "[ab]{1,3}"), 4),
        turn in 0_usize..4,
    ) {
        let ask = |members: &[(u8, String)]| {
            let outcomes = [0, 1, 2, 3].map(|i| f32::from(members[i].0) / 2.0);
            let responses = [0, 1, 2, 3].map(|i| members[i].1.as_str());
            // The last of the batch has another length, which is no part of this.
            let batch = episodes(outcomes, responses, [""; 4]);
            let mut shown = vec![String::new(); 4];
            for (step, added) in asked("{}", &batch) {
                shown[step] = added;
            }
            shown
        };
        let before = ask(&members);
        let mut moved = members.clone();
        moved.rotate_left(turn);
        let mut after = ask(&moved);
        after.rotate_right(turn);
        prop_assert_eq!(before, after);
    }

    #[test]
    fn derivatives_of_the_sampled_form_are_those_of_the_reverse_divergence(
        tokens in prop::collection::vec((-4.0_f32..-0.1, -4.0_f32..-0.1, any::<bool>()), 1..6),
    ) {
        let new: Vec<f32> = tokens.iter().map(|t| t.0).collect();
        let teacher: Vec<f32> = tokens.iter().map(|t| if t.2 { t.1 } else { NONE }).collect();
        let shape = [tokens.len()];
        let found = objective(r#"{"form": "sampled", "aggregate": "token-sum"}"#, &batch(Layout::Step, &[&shape], &new, &teacher));
        for (i, token) in tokens.iter().enumerate() {
            let expected = if token.2 { f64::from(token.0) - f64::from(token.1) } else { 0.0 };
            prop_assert!((f64::from(found.d_logprob[i]) - expected).abs() < 1e-6);
        }
    }
}
