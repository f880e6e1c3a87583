//! What a model may write: no text makes a grid game panic, stop, or break its rules.

use accredit_environments::{Environment, EnvironmentError, make};
use proptest::prelude::*;
use serde_json::json;

/// Settings that differ in how actions are read.
fn games() -> Vec<(&'static str, Box<dyn Environment>)> {
    [
        ("frozen-lake", json!({})),
        ("frozen-lake", json!({ "max_actions_per_turn": 3 })),
        ("sokoban", json!({})),
        ("sokoban", json!({ "max_actions_per_turn": 1000, "view": "grid_coord" })),
        ("sokoban", json!({ "grammar": "verl_agent", "view": "tabbed", "max_steps": 15 })),
        ("sudoku", json!({})),
        ("sudoku", json!({ "size": 9, "max_actions_per_turn": 5, "difficulty": "hard" })),
    ]
    .into_iter()
    .map(|(name, settings)| (name, make(name, settings.as_object().unwrap()).unwrap()))
    .collect()
}

/// Texts near what is an action, and far from it.
fn text() -> impl Strategy<Value = String> {
    let parts = vec![
        "Up",
        "down",
        "LEFT",
        "right",
        "still",
        "||",
        "|",
        " ",
        "\n",
        "\t",
        "\0",
        "\u{1b}[2J",
        "\u{feff}",
        "√",
        "é",
        "\u{202e}",
        "<answer>",
        "</answer>",
        "<action>",
        "<think>",
        "</think>",
        "<|im_end|>",
        "place",
        "at",
        "row",
        "col",
        "(",
        ")",
        ",",
        "0",
        "1",
        "2",
        "9",
        "99999999999999999999999",
        "-1",
        "１",
        "𝟙",
        "💥",
        "e\u{301}",
        "\u{130}",
        "\u{10ffff}",
    ];
    prop_oneof![
        prop::collection::vec(prop::sample::select(parts), 0..30).prop_map(|parts| parts.concat()),
        any::<String>(),
        (any::<char>(), 0..3000_usize).prop_map(|(symbol, times)| symbol.to_string().repeat(times)),
    ]
}

proptest! {
    #[test]
    fn no_text_breaks_a_game(seed: u32, texts in prop::collection::vec(text(), 1..8)) {
        for (name, mut environment) in games() {
            let start = environment.reset(seed.into()).unwrap();
            let mut state = start.state.clone();
            for text in &texts {
                let outcome = environment.step(Some(text), text).unwrap();
                prop_assert!(outcome.reward.is_finite());
                prop_assert_eq!(outcome.turn.actions.is_empty(), outcome.terminal, "{}", name);
                prop_assert!(outcome.success <= outcome.terminal);
                let now = outcome.turn.state.unwrap();
                prop_assert_eq!(now.chars().count(), start.state.as_ref().unwrap().chars().count());
                if !outcome.valid_action && !text.contains("||") {
                    prop_assert_eq!(Some(&now), state.as_ref(), "{} {:?}", name, text);
                }
                // A text that is given back is cut.
                prop_assert!(outcome.feedback.chars().count() < 40_000 && outcome.turn.observation.len() < 4_000);
                if outcome.terminal {
                    prop_assert!(matches!(environment.step(Some(text), text), Err(EnvironmentError::EpisodeOver)));
                    break;
                }
                state = Some(now);
            }
            prop_assert_eq!(environment.reset(seed.into()).unwrap(), start);
        }
    }
}

#[test]
fn a_text_of_a_megabyte_is_read_in_time() {
    for text in ["x".repeat(1 << 20), "Up||".repeat(1 << 18), "1,".repeat(1 << 19), "place 1 at row ".repeat(1 << 16)] {
        for (_, mut environment) in games() {
            environment.reset(3).unwrap();
            let outcome = environment.step(Some(&text), &text).unwrap();
            assert!(outcome.turn.observation.len() < 4_000 && outcome.feedback.len() < 40_000);
        }
    }
}

#[test]
fn every_listed_action_is_valid() {
    for seed in 0..20 {
        for (name, mut environment) in games() {
            for action in environment.reset(seed).unwrap().actions {
                environment.reset(seed).unwrap();
                assert!(environment.step(Some(&action), "").unwrap().valid_action, "{name} {action}");
            }
        }
    }
}
