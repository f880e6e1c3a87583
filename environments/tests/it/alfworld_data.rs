//! `alfworld` against recordings of the original, and with folders in the original's layout.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use accredit_environments::{traces, traits};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::alfworld::{house, refused, solve};
use crate::broken_data;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn every_step_of_the_recordings_is_played_back() {
    // The second was recorded with things in containers, things at two places, places with several receptacles, and things
    // that are clean, hot, cool or sliced at first.
    for (name, expected) in [("alfworld_synth_trace.jsonl.gz", 801), ("alfworld_varied_trace.jsonl.gz", 960)] {
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
        for trial in trials {
            change(&trial);
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

/// What every error says about where the games come from.
const HINT: &str = "`alfworld-download` writes them to";

#[test]
fn folders_and_files_that_are_broken_are_named() {
    let data = |folder: &Path| refused(&json!({ "data": folder })).to_string();
    broken_data::check_folder(HINT, &data);
    let folder = original_folder();
    let trial = &trials(folder.path())[0];
    for file in ["traj_data.json", "game.tw-pddl"] {
        broken_data::check_file(&trial.join(file), HINT, &|| data(folder.path()));
    }
}

#[test]
fn a_file_that_is_foreign_is_named_with_its_line() {
    let check = |file: &str, change: &dyn Fn(&str) -> String, expected: &str| {
        let folder = original_folder();
        let path = trials(folder.path())[0].join(file);
        fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
        let error = refused(&json!({ "data": folder.path() }));
        assert_eq!(error.key(), Some("data"), "{error}");
        let message = error.to_string();
        assert!(message.contains(path.to_str().unwrap()) && message.contains(expected), "{expected}: {message}");
        assert!(message.contains(HINT), "{message}");
    };
    let replace = |from: &'static str, to: &'static str| {
        move |text: &str| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        }
    };
    check("traj_data.json", &|_| "{}".to_owned(), "missing field `task_type`");
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
