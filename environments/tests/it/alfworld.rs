//! `alfworld`: what holds for every house that is made.

use std::collections::HashSet;

use accredit_environments::{Environment, EnvironmentError, Outcome, Traits, Turn, make, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

pub(crate) fn house(settings: &Value) -> Box<dyn Environment> {
    make("alfworld", settings.as_object().unwrap()).unwrap()
}

pub(crate) fn refused(settings: &Value) -> EnvironmentError {
    make("alfworld", settings.as_object().unwrap()).err().unwrap()
}

/// Lets the expert play; gives the steps that it took, and the last outcome.
pub(crate) fn solve(environment: &mut dyn Environment, most: usize) -> (usize, Outcome) {
    let mut last = Outcome::default();
    for step in 1..=most {
        let demonstration = environment.expert().unwrap();
        last = environment.step(Some(&demonstration.action), "").unwrap();
        assert!(last.valid_action, "{demonstration:?}");
        if last.terminal {
            return (step, last);
        }
    }
    (most, last)
}

#[test]
fn the_oracle_and_the_explorer_solve_every_task_of_every_split() {
    for expert in ["oracle", "explorer"] {
        let mut steps = 0;
        for (split, size) in [
            ("train", "full"),
            ("train", "small"),
            ("valid_seen", "full"),
            ("valid_unseen", "full"),
            ("valid_unseen", "small"),
        ] {
            let mut environment = house(&json!({ "split": split, "house": size, "expert": expert }));
            for seed in 0..120 {
                environment.reset(seed).unwrap();
                let (taken, outcome) = solve(environment.as_mut(), 100);
                assert!(outcome.success && outcome.reward == 1.0, "{expert} {split} {size} {seed}");
                assert!(environment.expert().is_none() && outcome.turn.actions.is_empty());
                assert!(matches!(environment.step(Some("look"), ""), Err(EnvironmentError::EpisodeOver)));
                steps += taken;
            }
        }
        let mean = f64::from(u32::try_from(steps).unwrap()) / 600.0;
        let expected = if expert == "oracle" { 4.0..8.0 } else { 8.0..20.0 };
        assert!(expected.contains(&mean), "{expert}: {mean} steps");
    }
}

#[test]
fn experts_find_back_from_anywhere() {
    for expert in ["oracle", "explorer"] {
        let mut environment = house(&json!({ "expert": expert, "house": "small" }));
        for seed in 0..60 {
            let mut turn = environment.reset(seed).unwrap();
            let mut over = false;
            // Something else is done as often as what the expert wants.
            for step in 0_usize..40 {
                let action = turn.actions[(step * 31 + seed as usize * 17) % turn.actions.len()].clone();
                let outcome = environment.step(Some(&action), "").unwrap();
                over = outcome.terminal;
                turn = outcome.turn;
                if over {
                    break;
                }
            }
            assert!(over || solve(environment.as_mut(), 120).1.success, "{expert} {seed}");
        }
    }
}

#[test]
fn splits_do_not_meet() {
    let firsts = |split: &str| {
        let mut environment = house(&json!({ "split": split, "house": "small" }));
        let mut goals = HashSet::new();
        for seed in 0..1500 {
            let turn = environment.reset(seed).unwrap();
            // What is there, and what is to be done: the goal on a floor plan, but for the form of the sentence.
            let room = turn.observation.split("\n\n").nth(1).unwrap().to_owned();
            let words = environment.task().text.replace(" in ", " ").replace(" on ", " ").replace("some ", "a ");
            goals.insert((room, words));
        }
        goals
    };
    let (train, seen, unseen) = (firsts("train"), firsts("valid_seen"), firsts("valid_unseen"));
    assert!(train.is_disjoint(&seen) && train.is_disjoint(&unseen) && seen.is_disjoint(&unseen));
    let rooms =
        |goals: &HashSet<(String, String)>| -> HashSet<String> { goals.iter().map(|(room, _)| room.clone()).collect() };
    assert!(rooms(&train).is_disjoint(&rooms(&unseen)));
    assert_eq!(rooms(&unseen).len(), 24);
    assert!(rooms(&seen).is_subset(&rooms(&train)) && rooms(&train).len() == 96);
}

#[test]
fn only_the_task_types_that_were_asked_for_are_played() {
    for (task_type, parts) in [
        ("pick_and_place_simple", ["put a ", "put some "]),
        ("look_at_obj_in_light", ["look at ", "examine the "]),
        ("pick_clean_then_place_in_recep", ["put a clean ", "clean some "]),
        ("pick_heat_then_place_in_recep", ["put a hot ", "heat some "]),
        ("pick_cool_then_place_in_recep", ["put a cool ", "cool some "]),
        ("pick_two_obj_and_place", ["put two ", "find two "]),
    ] {
        let mut environment = house(&json!({ "task_types": [task_type] }));
        let mut met = [false; 2];
        for seed in 0..30 {
            environment.reset(seed).unwrap();
            let task = environment.task().text;
            let form = parts.iter().position(|part| task.starts_with(part));
            met[form.unwrap_or_else(|| panic!("{task_type}: {task}"))] = true;
        }
        assert_eq!(met, [true; 2], "{task_type}");
    }
}

#[test]
fn an_episode_in_its_own_words() {
    let types = ["pick_heat_then_place_in_recep"];
    let settings = json!({ "house": "small", "commands": "hidden", "success_reward": 10.0, "task_types": types });
    let mut environment = house(&settings);
    let mut text = vec![environment.instructions(), environment.reset(4).unwrap().observation];
    text.push(format!("[{}]", environment.task().text));
    loop {
        let demonstration = environment.expert().unwrap();
        let outcome = environment.step(Some(&demonstration.action), "").unwrap();
        text.push(format!("({}) {}", demonstration.think, demonstration.action));
        text.push(outcome.feedback);
        if outcome.terminal {
            text.push(outcome.reward.to_string());
            break;
        }
    }
    assert_eq!(text.join("\n"), include_str!("alfworld_episode.txt").trim_end());
}

#[test]
fn observations_show_the_commands_as_asked() {
    let shown = |commands: &str| house(&json!({ "house": "small", "commands": commands })).reset(4).unwrap();
    let (hidden, listed, quoted) = (shown("hidden"), shown("listed"), shown("quoted"));
    assert_eq!(hidden.actions, listed.actions);
    assert_eq!(hidden.state, quoted.state);
    let list = hidden.actions.join(", ");
    assert_eq!(listed.observation, format!("{}\n\nAdmissible actions: [{list}]", hidden.observation));
    let list = list.replace("help, ", "").replace(", ", "'\n '");
    assert_eq!(quoted.observation, format!("{}\n\nAdmissible actions: ['{list}']", hidden.observation));
}

#[test]
fn conditions_of_the_goal_are_paid_in_parts() {
    let settings = |types: Value| json!({ "reward": "goal_conditions", "success_reward": 6.0, "task_types": types, "expert": "oracle" });
    for (types, parts) in [
        (json!(["pick_heat_then_place_in_recep"]), vec![2.0, 4.0]),
        (json!(["pick_two_obj_and_place"]), vec![3.0, 3.0]),
        (json!(["look_at_obj_in_light"]), vec![3.0, 3.0]),
        (json!(["pick_and_place_simple"]), vec![6.0]),
    ] {
        let mut environment = house(&settings(types));
        for seed in 0..20 {
            environment.reset(seed).unwrap();
            let mut paid = Vec::new();
            while let Some(demonstration) = environment.expert() {
                let outcome = environment.step(Some(&demonstration.action), "").unwrap();
                if outcome.reward.abs() > 1e-5 {
                    paid.push((outcome.reward * 1000.0).round() / 1000.0);
                }
            }
            assert_eq!(paid, parts, "{seed}");
        }
    }
}

#[test]
fn case_counts_unless_it_is_ignored() {
    for (ignore_case, valid) in [(false, false), (true, true)] {
        let mut environment = house(&json!({ "ignore_case": ignore_case }));
        environment.reset(0).unwrap();
        assert_eq!(environment.step(Some("Inventory"), "").unwrap().valid_action, valid);
        assert!(environment.step(Some(" \n inventory\t"), "").unwrap().valid_action);
    }
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let check = |settings: Value, key: &str, message: &str| {
        let error = refused(&settings);
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    };
    check(json!({ "splt": "train" }), "splt", "did you mean `split`?");
    check(json!({ "split": "test" }), "split", "expected one of `train`, `valid_seen`, `valid_unseen`");
    check(json!({ "task_types": [] }), "task_types", "must be at least one");
    check(json!({ "task_types": ["pick"] }), "task_types[0]", "expected one of `pick_and_place_simple`");
    check(json!({ "success_reward": 0 }), "success_reward", "must be above 0, not 0");
    check(json!({ "expert": "planner" }), "expert", "expected `oracle` or `explorer`");
    check(json!({ "data": "/no/such/folder" }), "data", "there is no folder /no/such/folder; the games come with");
    let expected = Traits { states: true, expert: true, ..Traits::default() };
    assert_eq!(traits("alfworld", &json!({})).unwrap(), expected);
}

/// Plays by numbers: the n-th action that is listed.
fn play(environment: &mut dyn Environment, mut turn: Turn, choices: &[usize]) -> Turn {
    for choice in choices {
        if turn.actions.is_empty() {
            break;
        }
        let action = turn.actions[choice % turn.actions.len()].clone();
        turn = environment.step(Some(&action), "").unwrap().turn;
    }
    turn
}

/// Texts that look like commands and others.
fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,40}",
        "[\\x00-\\x20a-z<>/]{0,40}",
        "(go to|open|close|take|examine|put|move|use|heat|slice|<action>|look) ?[a-z]{0,12} ?[0-9]{0,30}( from| to| with)? ?[a-z]{0,9} ?[0-9]{0,3}",
        Just("<think></think><action>look</action>".repeat(50)),
        Just("look ".repeat(100_000)),
        Just("\u{202E}look\u{0}\u{FEFF}".to_owned()),
        Just("go to cabinet 99999999999999999999999".to_owned()),
    ]
}

proptest! {
    #[test]
    fn what_is_listed_is_done_and_what_is_not_changes_nothing(
        seed in 0..10_000_u64,
        small: bool,
        choices in prop::collection::vec(0..1000_usize, 0..40),
        odd in odd_text(),
    ) {
        let size = if small { "small" } else { "full" };
        let mut environment = house(&json!({ "house": size, "commands": "hidden" }));
        let mut turn = environment.reset(seed).unwrap();
        for choice in choices {
            prop_assert!(turn.actions.is_sorted() && turn.actions.iter().collect::<HashSet<_>>().len() == turn.actions.len());
            if !turn.actions.contains(&odd.trim().to_owned()) {
                let nothing = environment.step(Some(&odd), &odd).unwrap();
                prop_assert!(!nothing.valid_action && !nothing.terminal && nothing.reward == 0.0);
                prop_assert_eq!(&nothing.feedback, "Nothing happens.");
                prop_assert_eq!((&nothing.turn.state, &nothing.turn.actions), (&turn.state, &turn.actions));
            }
            let outcome = environment.step(Some(&turn.actions[choice % turn.actions.len()]), "").unwrap();
            prop_assert!(outcome.valid_action && outcome.feedback != "Nothing happens.");
            prop_assert!(outcome.terminal == outcome.success && outcome.terminal == outcome.turn.actions.is_empty());
            if outcome.terminal {
                break;
            }
            turn = outcome.turn;
        }
    }

    #[test]
    fn equal_seeds_play_equal_episodes(
        seed: u64,
        before: u64,
        choices in prop::collection::vec(0..1000_usize, 0..15),
    ) {
        let (mut fresh, mut used) = (house(&json!({ "house": "small" })), house(&json!({ "house": "small" })));
        let turn = used.reset(before).unwrap();
        play(used.as_mut(), turn, &choices);
        let (first, again) = (fresh.reset(seed).unwrap(), used.reset(seed).unwrap());
        prop_assert_eq!(&first, &again);
        prop_assert_eq!(play(fresh.as_mut(), first, &choices), play(used.as_mut(), again, &choices));
        prop_assert_eq!(fresh.expert(), used.expert());
    }
}

#[test]
fn no_action_is_answered_as_nothing() {
    let mut environment = house(&json!({}));
    assert!(matches!(environment.step(Some("look"), ""), Err(EnvironmentError::NotStarted)));
    assert!(environment.expert().is_none() && environment.task().text.is_empty());
    environment.reset(1).unwrap();
    let outcome = environment.step(None, "no tags").unwrap();
    assert!(!outcome.valid_action);
    assert!(outcome.turn.observation.starts_with("Nothing happens.\n\nAdmissible actions: ["));
}
