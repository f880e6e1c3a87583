//! What every target does: plays an environment with texts, and checks what holds whatever the texts are.
//!
//! Here a panic is a finding, so what should hold is asserted.

use accredit_environments::make;
use serde_json::Value;

/// Plays an episode of the environment whose answers are the parts of `data` between zero bytes; the first byte is the
/// seed.
pub fn play(name: &str, settings: &Value, data: &[u8]) {
    let Some((seed, answers)) = data.split_first() else { return };
    let settings = settings.as_object().expect("settings are a table");
    let mut environment = make(name, settings).expect("the settings fit");
    let start = environment.reset((*seed).into()).expect("the seed has a task");
    let mut state = start.state.clone();
    for answer in answers.split(|byte| *byte == 0) {
        let answer = String::from_utf8_lossy(answer);
        let outcome = environment.step(Some(&answer), &answer).expect("no text is an error");
        assert!(outcome.reward.is_finite());
        assert_eq!(outcome.turn.actions.is_empty(), outcome.terminal);
        assert!(outcome.terminal || !outcome.success);
        if !outcome.valid_action && !answer.contains("||") {
            assert_eq!(outcome.turn.state, state, "what is no action changes nothing");
        }
        assert!(outcome.turn.observation.len() < 8_000, "the observation grows with the text");
        if outcome.terminal {
            break;
        }
        environment.expert();
        state = outcome.turn.state;
    }
    assert_eq!(environment.reset((*seed).into()).expect("the seed has a task"), start);
}
