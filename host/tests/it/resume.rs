//! A run that goes on with a changed configuration: what it says, what is refused, and what becomes of schemes' states.

use std::fs;

use crate::training::{Bench, CONFIG};

/// A scheme that counts its calls, and gives the count as advantages.
const COUNTING: &str =
    "[[credit]]\nplugin = \"misbehave\"\nmix = 0.1\nparams = { mode = \"state\", hook = \"advantage\" }\n";

/// A run of one iteration.
fn run(config: &str) -> Bench {
    let bench = Bench::new(config);
    bench.run(&["train", "c.toml", "--run-name", "r", "--set", "iterations=1"]);
    bench
}

/// Resumes with these settings; gives the exit code and what was said.
fn resume(bench: &Bench, sets: &[&str]) -> (Option<i32>, String) {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    let output = bench.command(&[&["resume", "runs/r"][..], &sets].concat()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn each_changed_key_is_said_with_what_it_means() {
    let bench = run(CONFIG);
    let sets = ["iterations=2", "optimizer.lr=5e-4", "update.minibatches=3", "seed=4", "rollout.groups=3"];
    let (code, said) = resume(&bench, &sets);
    assert_eq!(code, Some(0), "{said}");
    let log = fs::read_to_string(bench.path("r").join("run.log")).unwrap();
    for part in [
        "changed from iteration 1 on (counted from 0):",
        "  seed: 3 -> 4: tasks, sampling and minibatches are drawn anew",
        "  iterations: 1 -> 2: 6 optimiser steps are planned in place of 2, and 2 are done",
        "  optimizer.lr: 0.001 -> 0.0005: the optimiser keeps its moments and its count of steps; the next learning rate is \
         5e-4 in place of 1e-3",
        "  update.minibatches: 2 -> 3: 6 optimiser steps are planned in place of 2",
        "  rollout.groups: 2 -> 3: other episodes, and batches of another size",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
        assert!(log.contains(part.trim()), "`{part}` is not in\n{log}");
    }
    assert_eq!(bench.metrics("r")[1]["actor/lr"], 5e-4);
    assert_eq!(bench.metrics("r")[1]["training/updates"], 5.0);

    // What the checkpoint was made with is compared: nothing is said twice.
    let (code, said) = resume(&bench, &["iterations=3"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("iterations: 2 -> 3") && !said.contains("optimizer.lr"), "{said}");
}

#[test]
fn a_scheme_can_be_swapped_and_what_becomes_of_its_state_is_said() {
    let bench = run(&format!("{CONFIG}\n{COUNTING}"));
    // The same scheme goes on counting; another one under its name starts anew.
    let (code, said) = resume(&bench, &["iterations=2", "credit.misbehave.mix=0.2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("credit.misbehave.mix: 0.1 -> 0.2: other credit") && !said.contains("state"), "{said}");
    assert_eq!(bench.metrics("r")[1]["credit/misbehave/advantage_mean"], 2.0);

    let (code, said) =
        resume(&bench, &["iterations=3", "credit=[{plugin='grpo'},{plugin='actfocus',name='misbehave'}]"]);
    assert_eq!(code, Some(0), "{said}");
    for part in [
        "credit.misbehave: { plugin = \"misbehave\"",
        "scheme `misbehave` starts without state: before, `misbehave` was called so, and its state is dropped",
        "scheme `actfocus` is gone: it had no state",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
    let (code, said) =
        resume(&bench, &["iterations=4", "credit=[{plugin='grpo'},{plugin='misbehave',params={mode='state'}}]"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("scheme `misbehave` starts without state: before, `actfocus` was called so, and it had no state"),
        "{said}"
    );
    assert_eq!(bench.metrics("r")[3]["credit/misbehave/advantage_mean"], 1.0);
}

#[test]
fn what_cannot_change_is_refused_with_a_hint() {
    let bench = run(CONFIG);
    for (set, key) in [
        ("model.create.hidden_size=32", "model.create.hidden_size"),
        ("warm_start.updates=3", "warm_start.updates"),
        ("run.name=other", "run.name"),
    ] {
        let (code, said) = resume(&bench, &["iterations=2", set]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("`{key}` cannot change when a run goes on")), "{said}");
        assert!(said.contains("= hint: leave it as it was, or start another run"), "{said}");
    }
    let (code, said) = resume(&bench, &["iterations=2", "run.threads=2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("run.threads: 1 -> 2: the same numbers but for rounding"), "{said}");
}
