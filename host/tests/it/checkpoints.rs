//! Checkpoints that are written while training goes on.

use std::fs;

use crate::training::{Bench, CONFIG, numbers};

#[test]
fn what_is_written_in_the_background_is_what_was_there_when_it_was_saved() {
    let bench = Bench::new(CONFIG);
    for (run, background) in [("with", "true"), ("without", "false")] {
        let background = format!("checkpoint.background={background}");
        bench.run(&["train", "c.toml", "--run-name", run, "--set", &background, "--set", "checkpoint.keep=9"]);
        let text = fs::read_to_string(bench.path(run).join("metrics.jsonl")).unwrap();
        assert_eq!(text.matches("\"timing_s/save_checkpoint\":0.").count(), 5, "{text}");
    }
    assert_eq!(bench.metrics("with"), bench.metrics("without"));
    let mut seen = Vec::new();
    for iteration in 0..=5 {
        for file in ["model/model.safetensors", "optimizer.safetensors", "progress.json"] {
            let [with, without] = ["with", "without"].map(|run| numbers(bench.saved(run, iteration, file)));
            assert!(with == without, "{iteration}: {file}");
            seen.push(with);
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 18, "the weights, the moments and the counters move in each iteration");
    let [with, without] = ["with", "without"].map(|run| {
        let best = bench.path(run).join("best");
        (fs::read(best.join("best.json")).unwrap(), numbers(fs::read(best.join("model.safetensors")).unwrap()))
    });
    assert!(with == without);
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_run_and_is_named() {
    let bench = Bench::new(CONFIG);
    bench.run(&["train", "c.toml", "--run-name", "r", "--set", "iterations=1"]);
    let checkpoints = bench.path("r").join("checkpoints");
    // What a crash left behind goes; a file in the way of a folder is for the user to look at.
    let left = checkpoints.join(".iteration_000001_minibatch_000001.partial");
    fs::create_dir(&left).unwrap();
    let in_the_way = checkpoints.join(".iteration_000002.partial");
    fs::write(&in_the_way, "").unwrap();
    for background in ["checkpoint.background=true", "checkpoint.background=false"] {
        let arguments = ["resume", "runs/r", "--set", "iterations=6", "--set", background];
        let output = bench.command(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains("the checkpoint could not be written: cannot remove runs/r/checkpoints/.iteration_000002")
        );
        assert!(!left.exists());
    }
    fs::remove_file(in_the_way).unwrap();
    bench.run(&["resume", "runs/r"]);
    assert_eq!(bench.metrics("r").len(), 6);
}

#[test]
fn a_plan_counts_the_copy_that_is_written() {
    let bench = Bench::new(CONFIG);
    let plan = |set| String::from_utf8_lossy(&bench.run(&["plan", "c.toml", "--set", set]).stdout).into_owned();
    let line = "  a checkpoint while it is written: 0.1 MiB more\n";
    assert!(plan("checkpoint.background=true").contains(line));
    assert!(!plan("checkpoint.background=false").contains("while it is written"));
}
