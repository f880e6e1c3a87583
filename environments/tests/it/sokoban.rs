//! `sokoban`: its settings, its rules, and what holds for every seed. `traces.rs` has the recordings of the original.

use std::fs;

use accredit_environments::{Environment, EnvironmentError, Outcome, make, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

fn sokoban(settings: &Value) -> Box<dyn Environment> {
    make("sokoban", settings.as_object().unwrap()).unwrap()
}

/// An environment that plays this level, with more settings.
fn level(rows: &str, mut settings: Value) -> Box<dyn Environment> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("level.txt"), rows).unwrap();
    settings["levels"] = folder.path().to_str().unwrap().into();
    settings["split"] = "all".into();
    let mut environment = sokoban(&settings);
    environment.reset(0).unwrap();
    environment
}

fn play(environment: &mut dyn Environment, action: &str) -> Outcome {
    environment.step(Some(action), "").unwrap()
}

#[test]
fn pushes_pay_what_ragen_pays() {
    let rows = "########\n#@ $. .#\n#  $   #\n########\n";
    let mut environment = level(rows, json!({ "max_actions_per_turn": 9 }));
    let check = |outcome: &Outcome, reward: f32, feedback: &str| {
        assert_eq!((outcome.reward, outcome.feedback.as_str()), (reward, feedback));
    };
    check(&play(&mut *environment, "up"), -0.1, "You cannot move Up.");
    check(&play(&mut *environment, "RIGHT"), -0.1, "You moved Right.");
    let outcome = play(&mut *environment, "Right");
    check(&outcome, 0.9, "You pushed a box Right, onto a target.");
    assert_eq!(outcome.turn.observation, "########\n#__P√_O#\n#__X___#\n########");
    assert_eq!(outcome.turn.state.as_deref(), Some("########\n#  @* .#\n#  $   #\n########\n"));
    check(&play(&mut *environment, "Down"), -0.1, "You cannot move Down.");
    check(&play(&mut *environment, "Right"), -1.1, "You pushed a box Right, off its target.");
    check(&play(&mut *environment, "Right"), 0.9, "You pushed a box Right, onto a target.");
    // Several actions are summed: the walk round the other box and a push.
    let outcome = play(&mut *environment, "Left||Left||Left||Down||Right");
    assert!((outcome.reward - -0.5).abs() < 1e-6, "{}", outcome.reward);
    assert!(outcome.feedback.ends_with("You moved Down. You pushed a box Right."), "{}", outcome.feedback);
    assert!(!outcome.terminal && outcome.valid_action);
}

#[test]
fn the_last_box_ends_the_episode() {
    let mut environment = level("######\n#@ $.#\n######\n", json!({ "max_actions_per_turn": 5 }));
    let outcome = play(&mut *environment, "Right || Right || Left || Left");
    assert!(outcome.terminal && outcome.success && outcome.valid_action && outcome.turn.actions.is_empty());
    assert!((outcome.reward - 10.8).abs() < 1e-6);
    assert_eq!(outcome.feedback, "You moved Right. You pushed a box Right, onto a target. Every box is on a target.");
    assert!(matches!(environment.step(Some("Left"), ""), Err(EnvironmentError::EpisodeOver)));
    assert!(environment.expert().is_none());
    environment.reset(0).unwrap();
    assert!(environment.expert().is_some());
}

#[test]
fn the_step_limit_ends_the_episode_without_success() {
    let rows = "######\n#@ $.#\n######\n";
    let mut environment = level(rows, json!({ "max_steps": 2 }));
    assert!(!play(&mut *environment, "Up").terminal);
    // What is no action is no step.
    assert!(!play(&mut *environment, "Jump").terminal);
    let outcome = play(&mut *environment, "Up");
    assert!(outcome.terminal && !outcome.success);
    assert_eq!(outcome.feedback, "You cannot move Up. No moves are left.");
    let mut environment = level(rows, json!({ "max_steps": 0 }));
    assert!((0..500).all(|_| !play(&mut *environment, "Up").terminal));
}

#[test]
fn what_is_no_action_changes_nothing_in_ragens_grammar() {
    let mut environment = sokoban(&json!({}));
    let start = environment.reset(0).unwrap();
    assert_eq!(start.actions, ["Up", "Down", "Left", "Right"]);
    for nonsense in [None, Some(""), Some("Still"), Some("go Up"), Some("Up || Up"), Some("Up.")] {
        let outcome = environment.step(nonsense, "").unwrap();
        assert!(!outcome.valid_action && !outcome.terminal && outcome.reward == 0.0, "{nonsense:?}");
        assert_eq!(outcome.turn, start, "{nonsense:?}");
        assert!(outcome.feedback.ends_with("the actions are Up, Down, Left, Right."), "{}", outcome.feedback);
    }
}

#[test]
fn verl_agents_grammar_takes_the_first_name_that_occurs() {
    let settings = json!({ "grammar": "verl_agent", "max_steps": 3, "view": "tabbed" });
    let mut environment = level("#######\n#     #\n# @ $.#\n#     #\n#######\n", settings);
    let row =
        |outcome: &Outcome, row: usize| outcome.turn.observation.lines().nth(row).unwrap().replace([' ', '\t'], "");
    let outcome = play(&mut *environment, "STILL here");
    assert!(outcome.valid_action && outcome.reward == -0.1 && !outcome.terminal);
    assert_eq!(outcome.turn.actions, ["up", "down", "left", "right", "still"]);
    assert!(outcome.turn.observation.starts_with(" # \t # \t # \t"));
    // None of the names: it costs the same, and is not valid; neither counts as a step.
    for nothing in [None, Some(""), Some("north"), Some("u p")] {
        let outcome = environment.step(nothing, "").unwrap();
        assert!(!outcome.valid_action && outcome.reward == -0.1 && !outcome.terminal, "{nothing:?}");
        assert_eq!(row(&outcome, 2), "#_P_XO#");
    }
    // `up` comes first in their order, wherever it stands.
    assert_eq!(row(&play(&mut *environment, "Right after supper"), 1), "#_P___#");
    assert_eq!(row(&play(&mut *environment, "down||right"), 2), "#_P_XO#");
    let outcome = play(&mut *environment, "bright");
    assert_eq!((row(&outcome, 2).as_str(), outcome.terminal), ("#__PXO#", true));
}

#[test]
fn levels_are_played_in_order_and_wrap_around() {
    let folder = tempfile::tempdir().unwrap();
    let write = |split: &str, text: &str| {
        fs::create_dir(folder.path().join(split)).unwrap();
        fs::write(folder.path().join(split).join("000.txt"), text).unwrap();
    };
    write("train", "; 0\n#####\n#@$.#\n#####\n\n; 1\n#####\n#.$@#\n#####\n");
    write("valid", "; 0\n#####\n#@$.#\n#   #\n#####\n");
    let settings = json!({ "levels": folder.path().to_str().unwrap() });
    assert_eq!(traits("sokoban", &settings).unwrap().tasks, Some(2));
    let mut environment = sokoban(&settings);
    let starts: Vec<_> = (0..4).map(|seed| environment.reset(seed).unwrap().state.unwrap()).collect();
    assert_eq!(starts[..2], ["#####\n#@$.#\n#####\n", "#####\n#.$@#\n#####\n"]);
    assert_eq!(starts[..2], starts[2..]);
    let settings = json!({ "levels": folder.path().to_str().unwrap(), "split": "valid" });
    assert_eq!(traits("sokoban", &settings).unwrap().tasks, Some(1));
    assert_eq!(traits("sokoban", &json!({})).unwrap().tasks, None);
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let check = |settings: Value, key: &str, message: &str| {
        let error = make("sokoban", settings.as_object().unwrap()).err().unwrap();
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(traits("sokoban", &settings).unwrap_err().to_string(), error.to_string());
    };
    check(json!({ "row": 6 }), "row", "did you mean `rows`?");
    check(json!({ "rows": 2 }), "rows", "must be 3 to 32, not 2");
    check(json!({ "cols": 33 }), "cols", "must be 3 to 32, not 33");
    check(json!({ "boxes": 0 }), "boxes", "must be 1 to 8, not 0");
    check(json!({ "boxes": 3, "rows": 4, "cols": 4 }), "boxes", "a room of 4 x 4 has no place for 3 boxes");
    check(json!({ "rows": 3, "cols": 3 }), "boxes", "a room of 3 x 3 has no place for 1 boxes");
    check(json!({ "search_depth": 2 }), "search_depth", "must be 3 to 1000, not 2");
    check(json!({ "max_actions_per_turn": 0 }), "max_actions_per_turn", "must be at least 1");
    let two = json!({ "max_actions_per_turn": 2, "grammar": "verl_agent" });
    check(two, "max_actions_per_turn", "must be 1 with grammar = \"verl_agent\"");
    check(json!({ "split": "valid" }), "split", "`levels` names no folder");
    check(json!({ "levels": "/no/such/folder" }), "levels", "cannot read /no/such/folder/train: No such file");
    check(json!({ "view": "Grid" }), "view", "expected one of `grid`, `coord`, `grid_coord`, `tabbed`");
}

#[test]
fn a_seed_without_a_room_is_an_error_that_says_why() {
    let error = sokoban(&json!({ "rows": 4, "cols": 4, "boxes": 2 })).reset(5).unwrap_err().to_string();
    assert!(error.contains("sokoban` has no task for seed 5: neither it nor the seeds that follow from it"), "{error}");
}

#[test]
fn the_expert_says_what_it_pushes_and_gives_up_on_what_is_lost() {
    let mut environment = level("#######\n#     #\n# @ $.#\n#     #\n#######\n", json!({}));
    let demonstration = environment.expert().unwrap();
    assert_eq!(demonstration.action, "Right");
    assert_eq!(demonstration.think, "push the box at (2, 4) right from (2, 3); I am at (2, 2)");
    play(&mut *environment, "Right");
    assert_eq!(environment.expert().unwrap().think, "push the box at (2, 4) right from (2, 3); I am there");
    // A detour, and it plans again.
    play(&mut *environment, "Up");
    assert!(["Left", "Down"].contains(&environment.expert().unwrap().action.as_str()));
    // A box against the wall for good.
    for action in ["Right", "Down"] {
        play(&mut *environment, action);
    }
    assert_eq!(environment.expert(), None);
    environment.reset(0).unwrap();
    assert!(environment.expert().is_some());
}

#[test]
fn the_expert_solves_the_rooms_of_every_common_configuration() {
    for (settings, seeds) in [
        (json!({}), 100),
        (json!({ "rows": 8, "cols": 8, "boxes": 2, "search_depth": 10 }), 50),
        (json!({ "boxes": 3 }), 20),
        (json!({ "rows": 10, "cols": 10, "boxes": 4, "search_depth": 60, "max_steps": 0 }), 5),
    ] {
        let mut environment = sokoban(&settings);
        for seed in 10_000..10_000 + seeds {
            environment.reset(seed).unwrap();
            let mut solved = false;
            while let Some(demonstration) = environment.expert() {
                let outcome = play(&mut *environment, &demonstration.action);
                assert!(!outcome.feedback.contains("cannot"), "{settings} {seed}: {}", outcome.feedback);
                solved = outcome.success;
            }
            assert!(solved, "{settings} {seed}");
        }
    }
}

#[test]
fn instructions_say_what_the_settings_mean() {
    let ragen = sokoban(&json!({ "max_actions_per_turn": 2 })).instructions();
    assert!(
        ragen.contains("√ box on a target") && ragen.contains("Actions: Up, Down, Left, Right. Answer with 1 to 2")
    );
    assert!(ragen.contains("You have 100 moves."));
    let settings = json!({ "grammar": "verl_agent", "max_steps": 0, "symbols": "letters", "view": "grid_coord" });
    let verl = sokoban(&settings).instructions();
    assert!(verl.contains("up, down, left, right, still. Answer with one action.") && !verl.contains("You have"));
    assert!(verl.contains("C box on a target") && verl.contains("(row, column)"));
}

proptest! {
    #[test]
    fn equal_seeds_play_equal_episodes_and_keep_walls_and_boxes(
        seed: u32,
        before: u32,
        actions in prop::collection::vec(prop::sample::select(vec!["Up", "Down", "Left", "Right", "Fly"]), 1..40),
    ) {
        let settings = json!({ "rows": 7, "cols": 8, "boxes": 2, "search_depth": 30 });
        let (mut fresh, mut used) = (sokoban(&settings), sokoban(&settings));
        used.reset(before.into()).unwrap();
        used.step(Some("Left"), "").unwrap();
        used.expert();
        let start = fresh.reset(seed.into()).unwrap();
        prop_assert_eq!(&start, &used.reset(seed.into()).unwrap());
        let count = |text: &str, symbols: &[char]| text.chars().filter(|symbol| symbols.contains(symbol)).count();
        let start = start.state.unwrap();
        for action in actions {
            let outcome = fresh.step(Some(action), "").unwrap();
            prop_assert_eq!(used.expert(), used.expert());
            prop_assert_eq!(&outcome, &used.step(Some(action), "").unwrap());
            let state = outcome.turn.state.unwrap();
            for kind in [&['#'][..], &['$', '*'], &['.', '*', '+'], &['@', '+']] {
                prop_assert_eq!(count(&state, kind), count(&start, kind));
            }
            prop_assert_eq!(outcome.success, count(&state, &['$']) == 0);
            if outcome.terminal {
                break;
            }
        }
    }
}
