//! What a model may write: no answer makes a built-in environment panic, stop, or break its rules. The bench
//! `odd_actions` plays a million of them in each.

use accredit_environments::{make, names};

#[path = "../../fuzz/play.rs"]
mod play;
pub mod texts;

/// How many answers each game gets here.
const ANSWERS: usize = 400;

#[test]
fn no_answer_breaks_a_game() {
    let games = texts::games();
    let built_in = names().iter().filter(|name| !["process", "http"].contains(name));
    for name in built_in {
        assert!(games.iter().any(|(other, _)| other == name), "{name} is not played");
    }
    for (name, settings) in games {
        let mut environment = make(name, settings.as_object().unwrap()).unwrap();
        let mut texts = texts::Texts::new(7, 3000);
        let (mut seed, mut played) = (0, 0);
        while played < ANSWERS {
            played += play::episode(name, environment.as_mut(), seed, &texts.episode());
            seed += 1;
        }
        play::play(name, &settings, b"\x07Up\xFF\xFE\x03");
    }
}

#[test]
fn a_text_of_a_megabyte_is_read_in_time() {
    for text in [
        "x".repeat(1 << 20),
        "Up||".repeat(1 << 18),
        "1,".repeat(1 << 19),
        "place 1 at row ".repeat(1 << 16),
        "[".repeat(1 << 20),
        "search[red ".repeat(1 << 16) + "]",
    ] {
        for (name, settings) in texts::games() {
            let mut environment = make(name, settings.as_object().unwrap()).unwrap();
            environment.reset(3).unwrap();
            let outcome = environment.step(Some(&text), &text).unwrap();
            assert!(outcome.turn.observation.len() < 20_000 && outcome.feedback.len() < 40_000, "{name}");
        }
    }
}

#[test]
fn every_listed_action_is_valid() {
    for (name, settings) in texts::games() {
        let mut environment = make(name, settings.as_object().unwrap()).unwrap();
        for seed in 0..4 {
            for action in environment.reset(seed).unwrap().actions {
                environment.reset(seed).unwrap();
                assert!(environment.step(Some(&action), "").unwrap().valid_action, "{name} {action}");
            }
        }
    }
}
