//! `sudoku`: its settings, its rules, and what holds for every seed. `traces.rs` has the recording of the original.

use accredit_environments::{Environment, EnvironmentError, Outcome, make, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

fn sudoku(settings: &Value) -> Box<dyn Environment> {
    make("sudoku", settings.as_object().unwrap()).unwrap()
}

/// The puzzle of seed 0, of size 4 with six empty cells:
///
/// ```text
/// 3 1 2 4
/// . . . 1
/// 2 4 . .
/// 1 . 4 2
/// ```
fn first(settings: &Value) -> Box<dyn Environment> {
    let mut environment = sudoku(settings);
    environment.reset(0).unwrap();
    environment
}

fn play(environment: &mut dyn Environment, action: &str) -> Outcome {
    environment.step(Some(action), "").unwrap()
}

#[test]
fn what_was_given_stays_and_the_full_grid_pays_and_ends() {
    let mut environment = first(&json!({}));
    let outcome = play(&mut *environment, "place 3 at row 1 col 2");
    assert_eq!((outcome.reward, outcome.valid_action), (-0.1, false));
    assert_eq!(outcome.feedback, "❌ Cannot modify initial cell at (1,2)");
    assert_eq!(outcome.turn.state.as_deref(), Some("3124\n...1\n24..\n1.42\n"));
    assert_eq!(environment.task().answer.as_deref(), Some("3 1 2 4\n4 2 3 1\n2 4 1 3\n1 3 4 2"));
    for action in ["2,1,4", "2,2,2", "2,3,3", "3,3,1", "3,4,3"] {
        let outcome = play(&mut *environment, action);
        assert_eq!((outcome.reward, outcome.terminal, outcome.valid_action), (1.0, false, true), "{action}");
    }
    let last = play(&mut *environment, "4,2,3");
    assert!(last.terminal && last.success && last.reward == 11.0 && last.turn.actions.is_empty());
    assert_eq!(last.feedback, "✓ Correct! Placed 3 at (4,2)\n🎉 Congratulations! Puzzle solved!");
    assert!(last.turn.observation.contains("Progress: 16/16 cells filled (10 initial, 6 placed)\nSteps: 7/81"));
    assert!(!last.turn.observation.contains("VALID NUMBERS"));
    assert!(matches!(environment.step(Some("1,1,1"), ""), Err(EnvironmentError::EpisodeOver)));
    assert!(environment.expert().is_none());
}

#[test]
fn a_wrong_number_can_be_replaced() {
    let mut environment = first(&json!({ "view": "simple" }));
    let outcome = play(&mut *environment, "place 3 at (3,3)");
    assert_eq!((outcome.reward, outcome.valid_action), (0.5, true));
    assert_eq!(outcome.feedback, "⚠ Placed 3 at (3,3) - Valid but not optimal");
    assert_eq!(outcome.turn.observation, "3 1 | 2 4\n. . | . 1\n---------\n2 4 | 3 .\n1 . | 4 2");
    assert!(outcome.turn.actions.contains(&"place 1 at row 3 col 3".to_owned()));
    // Its own number stands in its way.
    let outcome = play(&mut *environment, "place 3 at (3,3)");
    assert_eq!(outcome.feedback, "❌ Invalid placement: 3 conflicts with row 3, column 3, box (2,2)");
    assert_eq!(play(&mut *environment, "place 1 at (3,3)").reward, 1.0);
}

#[test]
fn only_a_legal_action_ends_the_episode_at_the_limit() {
    let mut environment = first(&json!({ "max_steps": 2 }));
    for _ in 0..5 {
        assert!(!play(&mut *environment, "1,1,1").terminal);
    }
    let outcome = play(&mut *environment, "2,1,4");
    assert!(outcome.terminal && !outcome.success && outcome.valid_action);
    assert!(outcome.turn.observation.ends_with("Steps: 6/2"), "{}", outcome.turn.observation);
    let mut environment = first(&json!({ "max_steps": 0 }));
    let outcome = play(&mut *environment, "2,1,4");
    assert!(!outcome.terminal && outcome.turn.observation.ends_with("\nSteps: 1"));
}

#[test]
fn several_actions_in_one_answer_are_summed() {
    let mut environment = first(&json!({ "max_actions_per_turn": 3 }));
    let outcome = play(&mut *environment, "2,1,4 || nonsense || 2,2,2 || 2,3,3");
    assert!((outcome.reward - 1.9).abs() < 1e-6 && !outcome.valid_action);
    assert_eq!(outcome.turn.state.as_deref(), Some("3124\n42.1\n24..\n1.42\n"));
    assert_eq!(outcome.feedback.lines().count(), 3);
    // As in RAGEN, an answer without any action is no step.
    for nothing in [None, Some(""), Some(" || ")] {
        let outcome = environment.step(nothing, "").unwrap();
        assert!(!outcome.valid_action && outcome.reward == 0.0 && outcome.turn.observation.ends_with("Steps: 3/81"));
        assert!(outcome.feedback.starts_with("No action"), "{}", outcome.feedback);
    }
}

#[test]
fn views_hold_what_they_say() {
    let show = |settings: Value| first(&settings).reset(0).unwrap().observation;
    let (all, detailed) = (show(json!({})), show(json!({ "view": "detailed" })));
    assert!(all.starts_with(&detailed) && detailed.ends_with(".=empty"));
    let silent = show(json!({ "show_valid_numbers": false }));
    assert!(!silent.contains("VALID NUMBERS") && silent.ends_with("Steps: 0/81"));
    assert_eq!(show(json!({ "view": "simple" })), "3 1 | 2 4\n. . | . 1\n---------\n2 4 | . .\n1 . | 4 2");
    let large = sudoku(&json!({ "size": 16, "view": "detailed" })).reset(0).unwrap();
    assert!(large.observation.contains("\n---------------------------------------------------\n"));
    assert_eq!(large.state.unwrap().chars().filter(|symbol| *symbol == '.').count(), 102);
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let check = |settings: Value, key: &str, message: &str| {
        let error = make("sudoku", settings.as_object().unwrap()).err().unwrap();
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(traits("sudoku", &settings).unwrap_err().to_string(), error.to_string());
    };
    check(json!({ "sise": 4 }), "sise", "did you mean `size`?");
    check(json!({ "size": 6 }), "size", "must be 4, 9 or 16, not 6");
    check(json!({ "clues": 9 }), "clues", "is for puzzle = \"unique\"");
    check(json!({ "clues": 3, "puzzle": "unique" }), "clues", "must be 0, or 4 to 15 at size 4, not 3");
    check(json!({ "clues": 81, "puzzle": "unique", "size": 9 }), "clues", "24 to 80 at size 9, not 81");
    check(json!({ "difficulty": "hard", "puzzle": "unique", "size": 16 }), "difficulty", "fewer than 110 clues");
    check(json!({ "difficulty": "extreme" }), "difficulty", "expected one of `easy`, `medium`, `hard`");
    check(json!({ "max_actions_per_turn": 0 }), "max_actions_per_turn", "must be at least 1");
    let supplied = traits("sudoku", &json!({ "size": 9 })).unwrap();
    assert!(supplied.states && supplied.expert && supplied.answers && supplied.tasks.is_none());
}

#[test]
fn the_expert_names_what_stands_around_a_cell() {
    let mut environment = first(&json!({}));
    let demonstration = environment.expert().unwrap();
    assert_eq!(demonstration.action, "place 4 at row 2 col 1");
    assert_eq!(demonstration.think, "(2, 1): row has 1, column has 1 2 3, box has 1 3; only 4 fits");
}

#[test]
fn the_expert_solves_every_puzzle() {
    for (settings, seeds) in [
        (json!({}), 50),
        (json!({ "difficulty": "hard" }), 50),
        (json!({ "size": 9, "difficulty": "hard" }), 10),
        (json!({ "size": 9, "puzzle": "unique", "clues": 27 }), 3),
        (json!({ "size": 16, "max_steps": 0 }), 1),
    ] {
        let mut environment = sudoku(&settings);
        for seed in 0..seeds {
            environment.reset(seed).unwrap();
            let (mut solved, mut rewards) = (false, 0.0);
            while let Some(demonstration) = environment.expert() {
                let outcome = play(&mut *environment, &demonstration.action);
                assert!(outcome.valid_action, "{settings} {seed}: {}", outcome.feedback);
                solved = outcome.success;
                rewards += outcome.reward;
            }
            assert!(solved && rewards.fract() == 0.0, "{settings} {seed}");
        }
    }
}

#[test]
fn instructions_name_the_numbers_and_the_forms() {
    let text = sudoku(&json!({ "size": 9, "max_actions_per_turn": 2 })).instructions();
    assert!(text.contains("3x3 box") && text.contains("from 1 to 9") && text.contains("1 to 2 actions"), "{text}");
}

/// Whether no row, column or box of a state has a number twice.
fn breaks_no_rule(state: &str, size: usize) -> bool {
    let cells: Vec<char> = state.chars().filter(|symbol| *symbol != '\n').collect();
    let side = size.isqrt();
    let same_unit = |a: usize, b: usize| {
        let (row_a, col_a, row_b, col_b) = (a / size, a % size, b / size, b % size);
        row_a == row_b || col_a == col_b || (row_a / side == row_b / side && col_a / side == col_b / side)
    };
    (0..cells.len()).all(|a| (0..a).all(|b| cells[a] == '.' || cells[a] != cells[b] || !same_unit(a, b)))
}

proptest! {
    #[test]
    fn listed_actions_are_all_legal_and_all_others_are_not(
        seed: u32, hard: bool, picks in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let settings = json!({ "difficulty": if hard { "hard" } else { "easy" } });
        let mut environment = sudoku(&settings);
        let mut turn = environment.reset(seed.into()).unwrap();
        let mut over = false;
        let mut played: Vec<String> = Vec::new();
        for pick in picks {
            if over || turn.actions.is_empty() {
                break;
            }
            let action = pick.get(&turn.actions).clone();
            let outcome = play(&mut *environment, &action);
            prop_assert!(outcome.valid_action);
            prop_assert!(breaks_no_rule(outcome.turn.state.as_ref().unwrap(), 4));
            played.push(action);
            (turn, over) = (outcome.turn, outcome.terminal);
        }
        if !over {
            for row in 1..=4 {
                for col in 1..=4 {
                    for number in 1..=4 {
                        let action = format!("place {number} at row {row} col {col}");
                        let mut again = sudoku(&settings);
                        again.reset(seed.into()).unwrap();
                        for action in &played {
                            play(&mut *again, action);
                        }
                        prop_assert_eq!(play(&mut *again, &action).valid_action, turn.actions.contains(&action));
                    }
                }
            }
        }
    }

    #[test]
    fn the_expert_recovers_from_mistakes_or_says_nothing(
        seed: u32, mistakes in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut environment = sudoku(&json!({ "difficulty": "hard", "max_steps": 0 }));
        let mut turn = environment.reset(seed.into()).unwrap();
        for mistake in mistakes {
            if !turn.actions.is_empty() {
                turn = play(&mut *environment, mistake.get::<String>(&turn.actions)).turn;
            }
        }
        let mut steps = 0;
        while let Some(demonstration) = environment.expert() {
            prop_assert!(play(&mut *environment, &demonstration.action).valid_action);
            steps += 1;
            prop_assert!(steps < 100, "the expert goes round in circles");
        }
    }

    #[test]
    fn unique_puzzles_have_the_clues_that_were_asked_for(seed: u32, clues in 6_usize..15) {
        let mut environment = sudoku(&json!({ "puzzle": "unique", "clues": clues }));
        let state = environment.reset(seed.into()).unwrap().state.unwrap();
        prop_assert_eq!(state.chars().filter(char::is_ascii_digit).count(), clues);
        prop_assert!(breaks_no_rule(&state, 4));
    }
}
