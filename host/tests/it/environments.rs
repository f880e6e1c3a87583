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
    assert!(text.ends_with("solved after 7 steps, reward 1\n"), "{text}");
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
