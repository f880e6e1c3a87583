//! Environments of real Python libraries, installed with pip into the target folder once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{fs, io};

use serde_json::{Value, json};

use super::{environment, file, folder};

/// The folder with the libraries.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let requirements = file("requirements.txt");
        // All that is needed is listed, and less than what these libraries ask for when they are installed.
        installed("libraries", &["--no-deps", "--requirement", &requirements], &[Path::new(&requirements)])
    })
}

/// The folder of this name in the target folder, into which pip has installed something. It is installed again when one of
/// the files changes that it was made of.
fn installed(name: &str, what: &[&str], made_of: &[&Path]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (folder, stamp) = (target.join("installed"), target.join("stamp"));
    let wanted: String = made_of.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        remove(&target).unwrap();
        install(&folder, what);
        fs::write(&stamp, wanted).unwrap();
    }
    folder
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn install(target: &Path, what: &[&str]) {
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-compile", "--target"])
        .arg(target)
        .args(what)
        .env("MAKEFLAGS", "-j4")
        // A virtual environment is not needed for a folder of its own.
        .env("PIP_USER", "0")
        .env("PIP_REQUIRE_VIRTUALENV", "0")
        .output()
        .unwrap();
    assert!(output.status.success(), "pip cannot install {what:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Settings of a process that serves an environment that is in `accredit_env` already.
fn served(name: &str, settings: &Value, supplies: &Value) -> Value {
    json!({
        "command": ["python3", folder("python").join("accredit_env.py"), name],
        "env": { "PYTHONPATH": libraries() },
        "settings": settings,
        "supplies": supplies,
    })
}

#[test]
fn the_python_side_is_installed_from_its_folder() {
    // pip builds inside the folder that it installs from.
    let scratch = tempfile::tempdir().unwrap();
    let sources = ["accredit_env.py", "pyproject.toml"].map(|name| folder("python").join(name));
    for source in &sources {
        fs::copy(source, scratch.path().join(source.file_name().unwrap())).unwrap();
    }
    let target = installed("accredit_env", &[scratch.path().to_str().unwrap()], &[&sources[0], &sources[1]]);
    let help =
        Command::new("python3").args(["-m", "accredit_env", "--help"]).env("PYTHONPATH", target).output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("Serves a Python environment to accredit"));
}

#[test]
fn frozen_lake_of_gymnasium_is_the_native_one() {
    for slippery in [false, true] {
        let settings = json!({
            "id": "FrozenLake-v1", "actions": ["Left", "Down", "Right", "Up"], "arguments": { "is_slippery": slippery },
        });
        let mut theirs = environment("process", &served("gymnasium", &settings, &json!({ "states": true })));
        let success_rate = if slippery { 1.0 / 3.0 } else { 1.0 };
        let mut ours = environment("frozen-lake", &json!({ "map": "gym", "success_rate": success_rate }));
        let (mut steps, mut solved) = (0, 0);
        for seed in 0..40 {
            theirs.reset(seed).unwrap();
            ours.reset(seed).unwrap();
            for step in 0..99 {
                // The expert's action, and now and then another one.
                let action = match (seed * 7 + step) % 4 {
                    0 => ["Left", "Down", "Right", "Up", "Jump"][((seed + step) % 5) as usize].to_owned(),
                    _ => ours.expert().unwrap().action,
                };
                let (their, our) = (theirs.step(Some(&action), "").unwrap(), ours.step(Some(&action), "").unwrap());
                let at = format!("seed {seed}, step {step}, {action}: {their:?} {our:?}");
                assert_eq!(
                    (their.reward, their.terminal, their.success),
                    (our.reward, our.terminal, our.success),
                    "{at}"
                );
                assert_eq!(their.valid_action, our.valid_action, "{at}");
                assert_eq!(place(their.turn.state.as_deref()), agent(our.turn.state.as_deref()), "{at}");
                steps += 1;
                solved += i32::from(our.success);
                if our.terminal {
                    break;
                }
            }
        }
        assert!(steps > 200 && solved > 0, "{steps} steps, {solved} solved");
    }
}

/// Gymnasium's state is the number of the cell.
fn place(state: Option<&str>) -> usize {
    state.unwrap().parse().unwrap()
}

/// Ours is the map with the agent in it, as `P`, `X` or `√`.
fn agent(state: Option<&str>) -> usize {
    state.unwrap().chars().filter(|cell| *cell != '\n').position(|cell| "PX√".contains(cell)).unwrap()
}

#[test]
fn a_game_of_textworld_is_won_by_its_walkthrough() {
    let games = libraries().with_file_name("games");
    fs::create_dir_all(&games).unwrap();
    let game = games.join("coin.z8");
    if !game.is_file() {
        let made = Command::new("python3")
            .arg(libraries().join("bin/tw-make"))
            .args(["tw-coin_collector", "--level", "5", "--seed", "7", "--output"])
            .arg(&game)
            .env("PYTHONPATH", libraries())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let supplies = json!({ "states": true, "expert": true, "tasks": 1 });
    let mut environment = environment("process", &served("textworld", &json!({ "games": game }), &supplies));
    let first = environment.reset(3).unwrap();
    assert!(environment.task().text.contains("coin"), "{:?}", environment.task());
    let mut walked = Vec::new();
    let mut states = vec![first.state];
    let last = loop {
        let action = environment.expert().unwrap().action;
        let outcome = environment.step(Some(&action), "").unwrap();
        assert!(outcome.valid_action, "{action}");
        walked.push(action);
        states.push(outcome.turn.state.clone());
        if outcome.terminal || walked.len() > 20 {
            break outcome;
        }
    };
    assert_eq!(walked, ["go south", "go east", "go north", "go north", "take coin"]);
    assert!(last.terminal && last.success && last.reward == 1.0, "{last:?}");
    states.dedup();
    assert_eq!(states.len(), 6);

    environment.reset(3).unwrap();
    let outcome = environment.step(Some("fly to the moon"), "").unwrap();
    assert!(!outcome.valid_action && !outcome.terminal && outcome.reward == 0.0);
    // What leads nowhere changes no state, and a text of a model may be anything.
    assert_eq!(outcome.turn.state, environment.step(Some("look"), "").unwrap().turn.state);
    for odd in ["", "\u{0}", "é√🦀", &"open ".repeat(2000), "</answer>\n>quit", "\u{1b}[2J"] {
        environment.reset(3).unwrap();
        assert!(!environment.step(Some(odd), odd).unwrap().valid_action, "{odd:?}");
    }
}
