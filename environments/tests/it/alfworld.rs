//! `alfworld` against recordings of the original, and what holds for every house that is made.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use accredit_environments::{Environment, EnvironmentError, Outcome, Traits, Turn, make, traces, traits};
use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::{Value, json};

fn house(settings: &Value) -> Box<dyn Environment> {
    make("alfworld", settings.as_object().unwrap()).unwrap()
}

fn refused(settings: &Value) -> EnvironmentError {
    make("alfworld", settings.as_object().unwrap()).err().unwrap()
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Lets the expert play; gives the steps that it took, and the last outcome.
fn solve(environment: &mut dyn Environment, most: usize) -> (usize, Outcome) {
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
fn every_step_of_the_recordings_is_played_back() {
    for (name, expected) in [("alfworld_synth_trace.jsonl.gz", 801)] {
        match traces::replay(&golden(name)) {
            Ok(lines) => assert_eq!(lines, expected, "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn a_trace_whose_games_are_missing_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl.gz");
    fs::copy(golden("alfworld_synth_trace.jsonl.gz"), &trace).unwrap();
    let error = traces::replay(&trace).unwrap_err().to_string();
    assert_eq!(error, "line 1: `game` is missing or not the path of a game beside the trace or in an archive there");
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

/// A grammar in the wording of the first version of the data.
fn old_grammar(task: &str) -> String {
    let rules = json!({
        "intro": [{ "rhs": "-= Welcome to TextWorld, ALFRED! =-\n\n#look.feedback#\n\n#task#" }],
        "task": [{ "rhs": format!("Your task is to: {task}.") }],
        "look.feedback": [
            {
                "condition": "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)",
                "rhs": "You are facing the [{r.name | atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)}]. Next to it, you see #floor#.",
            },
            { "rhs": "You are in the middle of a room. Looking quickly around you, you see [{#overview(r)# | receptacleatlocation(r:receptacle, l:location)}]." },
        ],
        "floor": [{ "rhs": "[{o.indefinite + ' ' + o.name | atlocation(a:agent, l:location) & objectatlocation(o:object, l:location) & receptacleatlocation(r:receptacle, l:location) & not_inreceptacle(o:object, r:receptacle)}]" }],
        "overview(r)": [{ "rhs": "{r.indefinite} {r.name or r.id}" }],
        "inside": [{ "rhs": "you see [{o.indefinite + ' ' + o.name | inreceptacle(o:object, r:receptacle)}]." }],
        "view": [
            { "condition": "openable(r:receptacle) & opened(r:receptacle)", "rhs": "The {r.name} is open. In it, #inside#" },
            { "condition": "openable(r:receptacle)", "rhs": "The {r.name} is closed." },
            { "rhs": "On the {r.name}, #inside#" },
        ],
    });
    let mut grammar = format!("grammar :: \"\"\"\n{rules}\n\"\"\";\n");
    for (action, template, feedback) in [
        ("look", "look", "#look.feedback#"),
        ("inventory", "inventory", "You are carrying: [{o.indefinite + ' ' + o.name | holds(a:agent, o:object)}]."),
        (
            "GotoLocation",
            "go to [{r.name | receptacleatlocation(r:receptacle, lend:location)}]",
            "You arrive at {lend.name}. #view#",
        ),
        ("examineReceptacle", "examine {r}", "#view#"),
        ("examineObject", "examine {o}", "There's nothing special about {o.name}."),
        ("OpenObject", "open {r}", "You open the {r.name}. #view#"),
        ("CloseObject", "close {r}", "You close the {r.name}."),
        ("PickupObject", "take {o} from {r}", "You pick up the {o.name} from the {r.name}."),
        ("PutObject", "put {o} in/on {r}", "You put the {o.name} in/on the {r.name}."),
        ("CleanObject", "clean {o} with {r}", "You clean the {o.name} using the {r.name}."),
        ("HeatObject", "heat {o} with {r}", "You heat the {o.name} using the {r.name}."),
        ("CoolObject", "cool {o} with {r}", "You cool the {o.name} using the {r.name}."),
        ("SliceObject", "slice {co} with {ko}", "You sliced the {co.name} with the {ko.name}."),
        ("ToggleObject", "use {o}", "You turn on the {o.name}."),
    ] {
        grammar += &format!("action {action} {{\n template :: \"{template}\";\n feedback :: \"{feedback}\";\n}}\n");
    }
    grammar
}

/// The original's folders, with the recorded problems in them: all in `train`.
fn original_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = fs::File::open(golden("alfworld_synth_problems.tar.gz")).unwrap();
    let train = folder.path().join("json_2.1.1/train");
    tar::Archive::new(GzDecoder::new(archive)).unpack(&train).unwrap();
    fs::create_dir(folder.path().join("json_2.1.1/valid_seen")).unwrap();
    for task in fs::read_dir(&train).unwrap() {
        for trial in fs::read_dir(task.unwrap().path()).unwrap() {
            let trial = trial.unwrap().path();
            let trajectory: Value =
                serde_json::from_str(&fs::read_to_string(trial.join("traj_data.json")).unwrap()).unwrap();
            let game = json!({
                "pddl_domain": "(define (domain alfred))",
                "grammar": old_grammar(trajectory["turk_annotations"]["anns"][0]["task_desc"].as_str().unwrap()),
                "pddl_problem": fs::read_to_string(trial.join("initial_state.pddl")).unwrap(),
                "solvable": true,
                "walkthrough": [],
            });
            fs::write(trial.join("game.tw-pddl"), game.to_string()).unwrap();
        }
    }
    folder
}

/// The folders of all games of a split, sorted.
fn trials(folder: &Path) -> Vec<PathBuf> {
    let tasks = fs::read_dir(folder.join("json_2.1.1/train")).unwrap();
    let mut trials: Vec<PathBuf> =
        tasks.flat_map(|task| fs::read_dir(task.unwrap().path()).unwrap()).map(|trial| trial.unwrap().path()).collect();
    trials.sort();
    trials
}

#[test]
fn games_of_a_folder_are_played_in_their_own_wording() {
    let folder = original_folder();
    for data in [folder.path().to_owned(), folder.path().join("json_2.1.1")] {
        let settings = json!({ "data": data, "expert": "explorer", "commands": "hidden" });
        assert_eq!(traits("alfworld", &settings).unwrap().tasks, Some(20));
        let mut environment = house(&settings);
        let instructions = environment.instructions();
        assert!(instructions.contains("put (object) in/on (receptacle)") && !instructions.contains("help"));
        let mut firsts = HashSet::new();
        for seed in 0..20 {
            let first = environment.reset(seed).unwrap();
            assert!(!first.actions.contains(&"help".to_owned()));
            assert!(firsts.insert(first.state.clone()), "{seed}");
            // The third game in the order of paths.
            if seed == 2 {
                assert_eq!(environment.task().text, "look at pot under the floorlamp.");
            }
            let arrived = environment.step(Some(&first.actions[0]), "").unwrap();
            assert!(arrived.feedback.starts_with("You arrive at loc "), "{}", arrived.feedback);
            assert!(solve(environment.as_mut(), 100).1.success, "{seed}");
            assert_eq!(environment.reset(seed + 40).unwrap(), first);
        }
    }
}

#[test]
fn games_that_do_not_count_are_left_out_and_none_is_an_error() {
    let folder = original_folder();
    let data = folder.path().join("json_2.1.1");
    let games = |types: &str| traits("alfworld", &json!({ "data": data, "task_types": [types] }));
    assert_eq!(games("pick_two_obj_and_place").unwrap().tasks, Some(3));
    assert_eq!(games("look_at_obj_in_light").unwrap().tasks, Some(4));
    // The folders are looked through anew for each choice of types, so these see what was changed.
    let change = |prefix: &str, change: &dyn Fn(&Path)| {
        let mut trials = trials(folder.path());
        trials.retain(|trial| trial.to_string_lossy().contains(prefix));
        for trial in &trials {
            change(trial);
        }
    };
    change("pick_heat", &|trial| fs::remove_file(trial.join("game.tw-pddl")).unwrap());
    let unsolvable = |trial: &Path| {
        let game = trial.join("game.tw-pddl");
        fs::write(&game, fs::read_to_string(&game).unwrap().replace("\"solvable\":true", "\"solvable\":false"))
            .unwrap();
    };
    change("pick_cool", &unsolvable);
    let message = |types: &str| games(types).unwrap_err().to_string();
    assert!(message("pick_heat_then_place_in_recep").contains("2 without a file game.tw-pddl"));
    assert!(message("pick_cool_then_place_in_recep").contains("1 that cannot be solved"));
    let error = traits("alfworld", &json!({ "data": data, "split": "valid_seen" })).unwrap_err().to_string();
    assert!(error.contains("valid_seen: no traj_data.json is there; the games come with"), "{error}");
    let error = traits("alfworld", &json!({ "data": data, "split": "valid_unseen" })).unwrap_err().to_string();
    assert!(error.contains("has no folder `valid_unseen` of games; the games come with"), "{error}");
    let error = traits("alfworld", &json!({ "data": data, "house": "small" })).unwrap_err();
    assert_eq!(error.key(), Some("house"));
}

#[test]
fn a_file_that_is_cut_or_foreign_is_named_with_its_line() {
    let check = |file: &str, change: &dyn Fn(&str) -> String, expected: &str| {
        let folder = original_folder();
        let path = trials(folder.path())[0].join(file);
        fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
        let error = refused(&json!({ "data": folder.path() }));
        assert_eq!(error.key(), Some("data"), "{error}");
        let message = error.to_string();
        assert!(message.contains(path.to_str().unwrap()) && message.contains(expected), "{expected}: {message}");
    };
    let replace = |from: &'static str, to: &'static str| {
        move |text: &str| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        }
    };
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    check("traj_data.json", &cut, "the file is cut");
    check("traj_data.json", &|_| "{}".to_owned(), "missing field `task_type`");
    check("game.tw-pddl", &cut, "the file is cut");
    check("game.tw-pddl", &|_| "<html>".to_owned(), "not the file that was expected (JSON with `pddl_problem`");
    check(
        "game.tw-pddl",
        &replace("(:domain alfred)", "(:domain blocks)"),
        "`pddl_problem`, line 2: a problem of another",
    );
    check("game.tw-pddl", &replace("(:init", "(init"), "has no section `(:init ...)`");
    check(
        "game.tw-pddl",
        &replace("\\n(:metric minimize (total-cost))\\n)\\n", ""),
        "line 1: the list that begins here is never closed",
    );
    check("game.tw-pddl", &replace("(atLocation agent1 ", "(atLocation "), "`atlocation` has 2 arguments, not 1");
    check("game.tw-pddl", &replace("(holds ?a ?o)", "(hates ?a ?o)"), "the goal is none of the six kinds");
    check("game.tw-pddl", &replace("(holds ?a ?o)", "(holds ?a ?o) (opened ?r)"), "the goal is none of the six kinds");
    check("game.tw-pddl", &replace("action look", "action gaze"), "`grammar`: there is no action `look`");
    check("game.tw-pddl", &replace("#floor#", "#flor#"), "there is no rule `flor`");
    check(
        "game.tw-pddl",
        &replace("holds(a:agent, o:object)", "likes(a:agent, o:object)"),
        "is none that is known here",
    );
    check(
        "game.tw-pddl",
        &replace("openable(r:receptacle)\\\"", "round(r:receptacle)\\\""),
        "the condition `round(r:receptacle)`",
    );
}

#[test]
fn the_real_scene_is_solved_where_its_folder_is_named() {
    let Some(data) = std::env::var_os("ACCREDIT_ALFWORLD_DATA") else { return };
    for expert in ["oracle", "explorer"] {
        let settings = json!({ "data": data.to_str().unwrap(), "expert": expert, "commands": "hidden" });
        let mut environment = house(&settings);
        for seed in 0..traits("alfworld", &settings).unwrap().tasks.unwrap().min(200) {
            environment.reset(seed).unwrap();
            let (steps, outcome) = solve(environment.as_mut(), 150);
            assert!(outcome.success, "{expert} {seed}: {steps} steps");
        }
    }
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

#[test]
fn the_problems_archive_is_what_the_traces_need() {
    let mut names = Vec::new();
    let file = fs::File::open(golden("alfworld_synth_problems.tar.gz")).unwrap();
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with("initial_state.pddl") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("(define (problem "));
            names.push(entry.path().unwrap().into_owned());
        }
    }
    assert_eq!(names.len(), 20);
}
