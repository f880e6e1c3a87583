//! `accredit env`: environments from the command line.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

fn env(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_accredit")).arg("env").args(arguments).output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let output = env(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_environment_is_listed_and_described() {
    let list = text(&["list"]);
    for name in accredit_environments::names() {
        assert!(list.contains(name), "{list}");
    }
    let page = text(&["describe", "frozen-lake", "--set", "success_rate=1.0"]);
    for part in [
        "expert: yes",
        "success_rate (1.0, default 0.8)",
        "The ice is not slippery.",
        "actions: Left | Down",
        "- gym: ",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

#[test]
fn a_person_plays_a_game_to_its_end() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_accredit"))
        .args(["env", "play", "frozen-lake", "--set", "map=gym", "--set", "success_rate=1.0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "?\n!\nJump\ndown\nDown\nRight\nRight\nDown\nRight\nnever read\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("[not a valid action; reward 0]") && text.contains("-> "), "{text}");
    assert!(text.ends_with("solved after 7 steps, reward 1.000\n"), "{text}");
}

#[test]
fn a_player_may_type_anything_and_an_environment_may_show_anything() {
    let play = |name: &str, sets: &[&str], input: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_accredit"))
            .args(["env", "play", name])
            .args(sets.iter().flat_map(|set| ["--set", set]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that gives up reads no further.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    };
    let output = play("sudoku", &[], b"\xff\xfe\n\x1b[31m\x00\n\nq\n");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("\\u{1b}[31m") && !text.contains('\x1b'), "{text}");
    assert!(text.ends_with("left after 2 steps, reward -0.200\n"), "{text}");

    let output = play("sudoku", &[], &vec![b'a'; (16 << 20) + 1]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("at most 16 MiB"));
}

#[test]
fn settings_are_described_before_they_fit() {
    let output = env(&["describe", "process"]);
    let page = String::from_utf8(output.stdout).unwrap();
    for part in ["command (default [])", "limits (a table)", "limits.answer_seconds (default 50.0)", "supplies.expert"]
    {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("hint: `--set 'command=...'` sets it"), "{error}");
}

#[test]
fn episodes_that_were_played_are_a_rollout_file() {
    let folder = tempfile::tempdir().unwrap();
    let (episodes, config) = (folder.path().join("episodes.jsonl"), folder.path().join("grpo.toml"));
    let arguments = ["rollout", "sudoku", "--noise", "0.5", "--tasks", "2", "--copies", "4", "--out"];
    text(&[&arguments[..], &[episodes.to_str().unwrap()]].concat());
    fs::write(&config, "[[credit]]\nplugin = \"grpo\"\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_accredit"))
        .args([
            "credit",
            "--color",
            "never",
            "--config",
            config.to_str().unwrap(),
            "--rollouts",
            episodes.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let (shown, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert!(shown.contains("s1 s1t0: reward") && shown.contains("8 trajectories"), "{shown}{told}");
}

#[test]
fn the_number_of_threads_changes_nothing_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let written = |threads: &str| {
        let out = folder.path().join(threads);
        let shared = ["frozen-lake", "--tasks", "150", "--copies", "2", "--noise", "0.4", "--max-steps", "12"];
        let mut arguments = vec!["rollout"];
        arguments.extend(shared);
        arguments.extend(["--threads", threads, "--out", out.to_str().unwrap()]);
        let summary = text(&arguments);
        assert!(summary.starts_with("300 episodes, 0 failed: success "), "{summary}");
        fs::read_to_string(out).unwrap()
    };
    let one = written("1");
    assert_eq!(one.lines().count(), 300);
    assert_eq!(one, written("8"));
}

#[test]
fn what_does_not_fit_is_shown_at_its_key() {
    for (arguments, expected) in [
        (vec!["play", "frozen_lake"], "did you mean `frozen-lake`?"),
        (vec!["describe", "frozen-lake", "--set", "size=1"], "--set environment.size=1"),
        (
            vec!["describe", "frozen-lake", "--set", "size=9223372036854775808"],
            "whole numbers go from -9223372036854775808",
        ),
        (vec!["describe", "frozen-lake", "--set", "size=64", "--set", "min_distance=126"], "lower `min_distance`"),
        (vec!["rollout", "nowhere.toml"], "cannot read `nowhere.toml`"),
        (vec!["rollout", "frozen-lake", "--noise", "2"], "a share is a number from 0 to 1"),
        (vec!["bench", "frozen-lake", "--seconds", "inf"], "a number of seconds from 0.001"),
        (vec!["rollout", "frozen-lake", "--timeout-seconds", "-1"], "a number of seconds from 0.001"),
        (vec!["rollout", "frozen-lake", "--tasks", "0"], "0 is not in 1..=1000000"),
    ] {
        let output = env(&arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn the_bench_names_what_it_measured() {
    let text = text(&["bench", "frozen-lake", "--seconds", "0.05"]);
    for part in ["open ", "reset ", "random ", "expert "] {
        assert!(text.contains(part), "{text}");
    }
}
