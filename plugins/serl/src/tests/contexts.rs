//! What teachers are told, and who is asked.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme},
};

use crate::{Rlsd, Serl};

/// A group of three episodes: the second and the third succeed, and all begin in the same state. Each step has a think
/// and an action token.
fn batch() -> TestBatch {
    let mut batch = TestBatch::new(Layout::Step, &[&[&[2, 2], &[2, 2, 2], &[2]]]);
    batch
        .set(KIND, [THINK, ACTION].repeat(6))
        .set(SUCCESS, vec![false, true, true])
        .set(RAW_OUTCOME, vec![0.0, 1.0, 0.5])
        .set(STATE, vec![0, 1, 0, 1, 2, 0]);
    let texts = |of: &dyn Fn(&str, usize) -> String| -> Vec<String> {
        [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)].map(|(name, step)| of(name, step)).to_vec()
    };
    batch.set_texts(PROMPT, &texts(&|name, step| format!("prompt {name}{step}")));
    batch.set_texts(OBSERVATION, &texts(&|name, step| format!("seen {name}{step}")));
    batch.set_texts(RESPONSE, &texts(&|name, step| format!("<think>hm</think>did {name}{step}")));
    batch.set_texts(FEEDBACK, &texts(&|name, step| format!("answer {name}{step}")));
    batch.set_texts(ACTION_TEXT, &["Left", "up", " left ", "", "up", "right"]);
    batch
}

/// What each asked step is told.
fn contexts<S: Scheme>(params: &str, batch: &TestBatch) -> Vec<(usize, String)> {
    let queries = TestScheme::<S>::new(params).unwrap().queries(batch).unwrap();
    let end = "\n\nTake this into account and do the current task correctly.\n";
    queries
        .into_iter()
        .map(|query| {
            assert_eq!((query.target, query.column.as_str()), (None, "teacher_logprob"));
            let inner = query.added.strip_prefix("\n\n").and_then(|text| text.strip_suffix(end));
            (query.step, inner.unwrap_or_else(|| panic!("{:?}", query.added)).to_owned())
        })
        .collect()
}

fn serl(params: &str) -> Vec<(usize, String)> {
    contexts::<Serl>(params, &batch())
}

fn text_of(told: &[(usize, String)], step: usize) -> Option<&str> {
    told.iter().find(|(asked, _)| *asked == step).map(|(_, text)| text.as_str())
}

#[test]
fn immediate_feedback_is_the_answer_to_the_step() {
    let told = serl("{}");
    assert_eq!(told.len(), 6);
    assert_eq!(text_of(&told, 4), Some("The environment's answer to this step:\nanswer b2"));
    // Without an answer, what was observed next; at the end of an episode there is neither.
    let mut silent = batch();
    silent.set_texts(FEEDBACK, &["", " ", "", "", "x", ""]);
    let told = contexts::<Serl>("{}", &silent);
    assert_eq!(text_of(&told, 0), Some("The environment's answer to this step:\nseen a1"));
    assert_eq!(told.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 2, 3, 4]);
}

#[test]
fn next_observation_is_the_next_prompt() {
    let told = serl(r#"{"feedback": "next"}"#);
    assert_eq!(text_of(&told, 0), Some("What comes next:\nprompt a1"));
    assert_eq!(text_of(&told, 1), Some("What comes next:\nanswer a1"));
    let mut concat = batch();
    concat.set_texts(PROMPT, &[""; 6]);
    let told = contexts::<Serl>(r#"{"feedback": "next"}"#, &concat);
    assert_eq!(text_of(&told, 0), Some("What comes next:\nseen a1"));
}

#[test]
fn the_future_is_what_the_episode_did_later() {
    let told = serl(r#"{"feedback": "none", "future": true}"#);
    let title = "What follows in this episode:\n";
    assert_eq!(text_of(&told, 2), Some(format!("{title}Step 2: did b1\nStep 3: did b2").as_str()));
    assert_eq!(told.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 2, 3]);
    let told = serl(r#"{"feedback": "none", "future": true, "format": "observation-action", "max_steps": 1}"#);
    let expected = format!("{title}Step 2, observation: seen b1\nStep 2, action: (no action)");
    assert_eq!(text_of(&told, 2), Some(expected.as_str()));
    let told = serl(r#"{"feedback": "none", "future": true, "think_tag": ""}"#);
    assert_eq!(text_of(&told, 0), Some(format!("{title}Step 2: <think>hm</think>did a1").as_str()));
}

#[test]
fn a_successful_episode_is_another_one_and_the_shortest() {
    let title = "A successful episode of the same task:\n";
    let (short, long) =
        (format!("{title}Step 1: did c0"), format!("{title}Step 1: did b0\nStep 2: did b1\nStep 3: did b2"));
    let told = serl(r#"{"feedback": "none", "success": "and"}"#);
    for (step, expected) in [(0, &short), (3, &short), (5, &long)] {
        assert_eq!(text_of(&told, step), Some(expected.as_str()));
    }
    let told = serl(r#"{"success": "and"}"#);
    let both = format!("{short}\n\nThe environment's answer to this step:\nanswer a0");
    assert_eq!(text_of(&told, 0), Some(both.as_str()));
    let told = serl(r#"{"success": "or"}"#);
    assert_eq!(text_of(&told, 0), Some(short.as_str()));
    // All parts or none: the last step of an episode has no future.
    let told = serl(r#"{"success": "and", "future": true}"#);
    assert_eq!(told.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 2, 3]);
    let parts = format!(
        "{short}\n\nWhat follows in this episode:\nStep 2: did a1\n\nThe environment's answer to this step:\nanswer a0"
    );
    assert_eq!(text_of(&told, 0), Some(parts.as_str()));
}

#[test]
fn without_a_successful_episode_the_rest_stands_in_or_nothing_does() {
    let mut failed = batch();
    failed.set(SUCCESS, vec![false, false, true]);
    let told = |params: &str| contexts::<Serl>(params, &failed);
    // The third episode is the only one that succeeded, so it has no other.
    assert_eq!(text_of(&told(r#"{"success": "and"}"#), 5), None);
    let or = told(r#"{"success": "or"}"#);
    assert_eq!(text_of(&or, 5), Some("The environment's answer to this step:\nanswer c0"));
}

const ANCHOR: &str = "What was tried from this very state, and what came of it:\n";

#[test]
fn an_anchor_lists_what_the_group_tried() {
    let told = serl(r#"{"scope": "anchor"}"#);
    let first = format!("{ANCHOR}- left: answer a0\n- left: answer b0\n- right: answer c0");
    for step in [0, 2, 5] {
        assert_eq!(text_of(&told, step), Some(first.as_str()));
    }
    assert_eq!(text_of(&told, 1), Some(format!("{ANCHOR}- (no action): answer b1\n- up: answer a1").as_str()));
}

#[test]
fn an_anchor_counts_and_gives_examples() {
    let told = serl(r#"{"scope": "anchor", "feedback": "immediate", "future": true}"#);
    let expected = format!(
        "{ANCHOR}- left: tried 2, succeeded 1, mean return 0.5000, best 1.0000, worst 0.0000\n\
         \x20 best feedback: answer b0\n  worst feedback: answer a0\n\
         \x20 what followed in a successful episode: Step 2: did b1\nStep 3: did b2\n\
         \x20 what followed in a failed episode: Step 2: did a1\n\
         - right: tried 1, succeeded 1, mean return 0.5000, best 0.5000, worst 0.5000\n\
         \x20 best feedback: answer c0\n  worst feedback: answer c0"
    );
    assert_eq!(text_of(&told, 0), Some(expected.as_str()));
    let told = serl(r#"{"scope": "anchor", "feedback": "next"}"#);
    assert!(text_of(&told, 0).unwrap().contains("\n  next observation: prompt b1\n"), "{told:?}");
}

#[test]
fn an_anchor_needs_only_itself() {
    // No future and, for the only one that succeeded, no other success: the anchor is told all the same.
    let mut one = batch();
    one.set(SUCCESS, vec![false, false, true]);
    for feedback in ["none", "immediate", "next"] {
        for success in ["none", "and", "or"] {
            for future in [false, true] {
                let params = format!(
                    r#"{{"scope": "anchor", "feedback": "{feedback}", "success": "{success}", "future": {future}}}"#
                );
                let told = contexts::<Serl>(&params, &one);
                assert_eq!(told.len(), 6, "{params}");
                let successful = told.iter().filter(|(_, text)| text.starts_with("A successful episode")).count();
                assert_eq!(successful, if success == "none" { 0 } else { 5 }, "{params}");
            }
        }
    }
    // Where a successful episode stands in, examples of feedback are left out.
    let or = contexts::<Serl>(r#"{"scope": "anchor", "success": "or"}"#, &one);
    assert!(!text_of(&or, 0).unwrap().contains("feedback"));
    assert!(text_of(&or, 5).unwrap().contains("best feedback"));
}

#[test]
fn who_cannot_be_reweighted_is_not_asked() {
    let mut batch = batch();
    batch.set(TRAINED, vec![true, false, true]);
    let mut kinds = [THINK, ACTION].repeat(6);
    kinds[3] = FORMAT;
    batch.set(KIND, kinds);
    let steps = |told: Vec<(usize, String)>| told.into_iter().map(|(step, _)| step).collect::<Vec<_>>();
    assert_eq!(steps(contexts::<Serl>("{}", &batch)), [0, 5]);
    assert_eq!(steps(contexts::<Rlsd>(r#"{"privileged": "success"}"#, &batch)), [0, 1, 5]);
    batch.set(ITERATION, vec![50]);
    assert_eq!(steps(contexts::<Serl>("{}", &batch)), Vec::<usize>::new());
    let mut empty = TestBatch::new(Layout::Step, &[&[&[0, 1]]]);
    empty.set(KIND, vec![ACTION]).set_texts(FEEDBACK, &["x", "y"]).set_texts(OBSERVATION, &["", ""]);
    assert_eq!(steps(contexts::<Serl>("{}", &empty)), [1]);
}

#[test]
fn a_judge_speaks_of_the_whole_episode_and_its_silence_is_no_context() {
    let mut batch = batch();
    batch.set_texts(JUDGEMENT, &["too slow\n", "", "fine"]);
    batch.set_texts(JUDGEMENT_WITH_SUCCESS, &["b was faster", " ", "b was slower"]);
    let told = contexts::<Serl>(r#"{"feedback": "none", "judge": "alone"}"#, &batch);
    assert_eq!(told.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1, 5]);
    assert_eq!(text_of(&told, 1), Some("What a judge says about this episode:\ntoo slow"));
    let told = contexts::<Serl>(r#"{"judge": "with-success"}"#, &batch);
    assert_eq!(told.len(), 3);
    let both =
        "What a judge says about this episode:\nb was slower\n\nThe environment's answer to this step:\nanswer c0";
    assert_eq!(text_of(&told, 5), Some(both));
    // In place of the judge where there is a successful episode, which here is everywhere.
    let told = contexts::<Serl>(r#"{"feedback": "none", "judge": "alone", "success": "or"}"#, &batch);
    assert!(told.len() == 6 && told.iter().all(|(_, text)| text.starts_with("A successful episode")), "{told:?}");
}

#[test]
fn rlsd_knows_the_answer_or_a_success() {
    let mut batch = batch();
    let success = "A successful episode of the same task:\nStep 1: did c0";
    assert_eq!(text_of(&contexts::<Rlsd>("{}", &batch), 0), Some(success));
    batch.set_texts(ANSWER, &["42"]);
    let answer = "The known answer of this task:\n42";
    for params in ["{}", r#"{"privileged": "answer"}"#] {
        assert!(contexts::<Rlsd>(params, &batch).iter().all(|(_, text)| text == answer), "{params}");
    }
    assert_eq!(text_of(&contexts::<Rlsd>(r#"{"privileged": "success"}"#, &batch), 0), Some(success));
    batch.set_texts(ANSWER, &[" "]);
    assert_eq!(contexts::<Rlsd>(r#"{"privileged": "answer"}"#, &batch), Vec::new());
    assert_eq!(text_of(&contexts::<Rlsd>("{}", &batch), 0), Some(success));
}

#[test]
fn what_is_shown_can_be_cut() {
    assert_eq!(text_of(&serl(r#"{"max_characters": 7}"#), 0), Some("The env"));
}

#[test]
fn the_teacher_is_who_the_parameters_say() {
    let policy = |params: &str| TestScheme::<Serl>::new(params).unwrap().queries(&batch()).unwrap()[0].policy;
    assert_eq!(policy("{}"), QueryPolicy::Copy { every: 10 });
    assert_eq!(policy(r#"{"sync_every": 3}"#), QueryPolicy::Copy { every: 3 });
    assert_eq!(policy(r#"{"teacher": "current"}"#), QueryPolicy::Current);
    assert_eq!(policy(r#"{"teacher": "average"}"#), QueryPolicy::MovingAverage { rate: 0.05 });
    let rlsd = TestScheme::<Rlsd>::new("{}").unwrap().queries(&batch()).unwrap()[0].policy;
    assert_eq!(rlsd, QueryPolicy::Copy { every: 20 });
}

fn reads<S: Scheme>(params: &str) -> Vec<String> {
    let needs = TestScheme::<S>::new(params).unwrap().needs().unwrap();
    assert_eq!(needs.asks.iter().map(|read| read.name.as_str()).collect::<Vec<_>>(), ["teacher_logprob"]);
    needs.reads.into_iter().map(|read| read.name).collect()
}

#[test]
fn needs_are_what_the_source_needs() {
    let always = ["new_logprob", "kind"];
    for (params, more) in [
        ("{}", &["feedback", "observation"][..]),
        (r#"{"feedback": "next"}"#, &["prompt", "observation", "feedback"]),
        (r#"{"feedback": "none", "future": true}"#, &["response"]),
        (
            r#"{"feedback": "none", "success": "and", "format": "observation-action"}"#,
            &["success", "observation", "action"],
        ),
        (r#"{"feedback": "none", "judge": "alone"}"#, &["judgement"]),
        (r#"{"feedback": "none", "judge": "with-success"}"#, &["judgement_with_success"]),
        (r#"{"scope": "anchor"}"#, &["feedback", "observation", "state", "action"]),
        (r#"{"scope": "anchor", "feedback": "none"}"#, &["state", "action", "success"]),
    ] {
        assert_eq!(reads::<Serl>(params), [&always[..], more].concat(), "{params}");
    }
    assert_eq!(reads::<Rlsd>("{}"), ["new_logprob", "success", "response"]);
    assert_eq!(reads::<Rlsd>(r#"{"privileged": "answer"}"#), ["new_logprob", "answer"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (params, path) in [
        (r#"{"feedback": "none"}"#, "feedback"),
        (r#"{"feedback": "none", "success": "or"}"#, "success"),
        (r#"{"feedback": "later"}"#, "feedback"),
        (r#"{"judge": "alone", "scope": "anchor"}"#, "judge"),
        (r#"{"lambda": 1.5}"#, "lambda"),
        (r#"{"weight_clip": -0.1}"#, "weight_clip"),
        (r#"{"sync_every": 0}"#, "sync_every"),
        (r#"{"teacher": "current", "sync_every": 5}"#, "sync_every"),
        (r#"{"rate": 0.1}"#, "rate"),
        (r#"{"sampling_mode": "immediate_feedback"}"#, "sampling_mode"),
    ] {
        let error = TestScheme::<Serl>::new(params).err();
        assert_eq!(error.map(|error| error.location).as_deref(), Some(path), "{params}");
    }
    let error = TestScheme::<Rlsd>::new(r#"{"privileged": "all"}"#).err();
    assert_eq!(error.map(|error| error.location).as_deref(), Some("privileged"));
}
