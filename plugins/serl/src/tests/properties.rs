//! Properties of the reweighting, and of the choice of hindsight.

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme},
};
use proptest::prelude::*;

use super::weights::batch;
use crate::{Rlsd, Serl};

fn tokens() -> impl Strategy<Value = Vec<(f32, f32)>> {
    prop::collection::vec((-4.0_f32..4.0, -3.0_f32..3.0), 1..40)
}

fn split(tokens: &[(f32, f32)]) -> (Vec<f32>, Vec<f32>) {
    tokens.iter().copied().unzip()
}

/// One group as trajectories, each with its success and the states and actions of its steps.
type Episodes = Vec<(bool, Vec<(u32, u32)>)>;

fn episodes() -> impl Strategy<Value = Episodes> {
    prop::collection::vec((any::<bool>(), prop::collection::vec((0_u32..3, 0_u32..3), 1..4)), 1..5)
}

/// What each step is told, episode by episode. The texts of a step are its action and where it stands in its episode.
fn told(params: &str, episodes: &Episodes) -> Vec<Vec<Option<String>>> {
    let steps: Vec<Vec<usize>> = episodes.iter().map(|(_, steps)| vec![1; steps.len()]).collect();
    let trajectories: Vec<&[usize]> = steps.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(Layout::Step, &[&trajectories]);
    let all = || episodes.iter().flat_map(|(_, steps)| steps.iter().enumerate());
    let text =
        |prefix: &str| -> Vec<String> { all().map(|(i, (_, action))| format!("{prefix}{action}.{i}")).collect() };
    batch
        .set(KIND, vec![ACTION; batch.tokens()])
        .set(SUCCESS, episodes.iter().map(|(success, _)| *success).collect())
        .set(RAW_OUTCOME, episodes.iter().map(|(success, steps)| f32::from(*success) / steps.len() as f32).collect())
        .set(STATE, all().map(|(_, (state, _))| *state).collect())
        .set_texts(PROMPT, &text("p"))
        .set_texts(OBSERVATION, &text("o"))
        .set_texts(RESPONSE, &text("r"))
        .set_texts(FEEDBACK, &text("f"))
        .set_texts(ACTION_TEXT, &all().map(|(_, (_, action))| action.to_string()).collect::<Vec<_>>());
    let queries = TestScheme::<Serl>::new(params).unwrap().queries(&batch).unwrap();
    let mut first = 0;
    episodes
        .iter()
        .map(|(_, steps)| {
            let range = first..first + steps.len();
            first = range.end;
            range.map(|step| queries.iter().find(|query| query.step == step).map(|query| query.added.clone())).collect()
        })
        .collect()
}

proptest! {
    #[test]
    fn weights_stay_in_their_bounds_and_keep_the_sign(
        tokens in tokens(),
        lambda in 0.0_f64..=1.0,
        clip in 0.0_f64..=1.0,
        iteration in 0_u64..60,
    ) {
        let (advantages, differences) = split(&tokens);
        let params = format!(r#"{{"lambda": {lambda}, "weight_clip": {clip}}}"#);
        let mut scheme = TestScheme::<Serl>::new(&params).unwrap();
        let found = scheme.refresh(&batch(&differences, iteration), advantages.clone()).unwrap();
        let bound = lambda * (1.0 - iteration as f64 / 50.0).max(0.0) * clip;
        for (found, advantage) in found.iter().zip(&advantages) {
            let (found, advantage) = (f64::from(*found), f64::from(*advantage));
            prop_assert!((found - advantage).abs() <= bound * advantage.abs() * (1.0 + 1e-6) + 1e-6);
            prop_assert!(found * advantage >= 0.0);
        }
    }

    #[test]
    fn the_signs_of_advantage_and_difference_together_change_no_weight(tokens in tokens()) {
        let (advantages, differences) = split(&tokens);
        let refreshed = |sign: f32| {
            let differences: Vec<f32> = differences.iter().map(|d| sign * d).collect();
            let advantages = advantages.iter().map(|a| sign * a).collect();
            // A student of 0, so that the teacher's difference is exact with either sign.
            let mut batch = batch(&differences, 0);
            batch.set(NEW_LOGPROB, vec![0.0; differences.len()]).set(TEACHER_LOGPROB, differences);
            TestScheme::<Rlsd>::new("{}").unwrap().refresh(&batch, advantages).unwrap()
        };
        let turned: Vec<f32> = refreshed(-1.0).iter().map(|a| -a).collect();
        prop_assert_eq!(refreshed(1.0), turned);
    }

    #[test]
    fn without_action_tokens_nothing_changes(tokens in tokens()) {
        let (advantages, differences) = split(&tokens);
        let mut batch = batch(&differences, 0);
        batch.set(KIND, vec![THINK; differences.len()]);
        let found = TestScheme::<Serl>::new("{}").unwrap().refresh(&batch, advantages.clone()).unwrap();
        prop_assert_eq!(found, advantages);
    }

    #[test]
    fn the_order_of_episodes_changes_nothing_that_a_teacher_is_told(
        episodes in episodes(),
        turn in 0_usize..5,
        params in prop::sample::select(vec![
            r#"{"success": "and", "feedback": "none"}"#,
            r#"{"success": "or"}"#,
            r#"{"scope": "anchor"}"#,
            r#"{"scope": "anchor", "feedback": "next", "success": "or"}"#,
            r#"{"scope": "anchor", "future": true, "success": "and"}"#,
        ]),
    ) {
        let before = told(params, &episodes);
        let turn = turn % episodes.len();
        let mut moved = episodes.clone();
        moved.rotate_left(turn);
        moved.reverse();
        let mut after = told(params, &moved);
        after.reverse();
        after.rotate_right(turn);
        prop_assert_eq!(before, after);
    }
}
