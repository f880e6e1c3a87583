//! Training in a program that breaks on some tasks, and takes with it whatever else it plays.

use std::{fs, path::Path, process::Output};

use serde_json::Value;

use crate::training::Bench;

/// Two steps to success. Every task whose seed is divisible by `every` ends the whole program in its first step, once
/// `after` steps were played.
const WALK: &str = r#"
import os

class Walk:
    instructions, expert, states = "Say go twice.", True, True

    def __init__(self, every, after=0):
        self.every, self.after = every, after

    def turn(self):
        state = f"{self.seed}.{self.steps}"
        return {"observation": state, "state": state, "expert": {"think": "on", "action": "go"}}

    def reset(self, seed):
        self.seed, self.steps = seed, 0
        return self.turn()

    def step(self, action, response):
        with open("played", "a") as file:
            file.write(".")
        if self.seed % self.every == 0 and os.path.getsize("played") > self.after:
            os._exit(9)
        self.steps += 1
        solved = self.steps == 2
        return {**self.turn(), "reward": float(solved), "terminal": solved, "success": solved}
"#;

const CONFIG: &str = r#"
iterations = 1

[model]
device = "cpu"

[model.create]
hidden_size = 16
intermediate_size = 32
layers = 1
heads = 2
kv_heads = 1
vocab_size = 300
max_positions = 128
initializer_range = 0.1

[environment]
name = "process"
command = ["python3", "PYTHON", "walk.py:Walk"]
settings = { every = 5 }
supplies = { states = true, expert = true }
threads = 16
max_failed_share = 0.6

[rollout]
groups = 8
group_size = 2
max_steps = 3
context = "window"
prompt = "bare"
max_tokens = 8

[warm_start]
episodes = 8
updates = 3
batch_rows = 8
lr = 1e-3

[[credit]]
plugin = "grpo"

[objective]
plugin = "clip"

[optimizer]
lr = 1e-4

[evaluation]
every = 1
tasks = 8
"#;

fn train(settings: &[&str]) -> (Bench, Output) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../environments/python/accredit_env.py");
    let bench = Bench::new(&CONFIG.replace("PYTHON", python.to_str().unwrap()));
    fs::write(bench.folder().join("walk.py"), WALK).unwrap();
    let sets = settings.iter().flat_map(|set| ["--set", set]);
    let output = bench.command(&["train", "c.toml", "--set", "run.name=r"]).args(sets).output().unwrap();
    (bench, output)
}

#[test]
fn tasks_that_break_their_program_are_left_out_and_the_run_goes_on() {
    let (bench, output) = train(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metrics = fs::read_to_string(bench.path("r/metrics.jsonl")).unwrap();
    let failed = |line: &str| serde_json::from_str::<Value>(line).unwrap()["episode/failed"].as_f64().unwrap();
    let failed: Vec<f64> = metrics.lines().map(failed).collect();
    assert!(failed.len() == 1 && failed.iter().sum::<f64>() > 0.0, "{failed:?}");
}

#[test]
fn a_run_stops_in_words_where_too_many_episodes_break() {
    let said = |settings: &[&str]| {
        let both =
            ["environment.settings.every=1", "environment.max_failed_share=0.1", "environment.limits.max_restarts=4"];
        let output = train(&[&both, settings].concat()).1;
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = said(&[]);
    assert!(
        error.contains("1 of 8 episodes of the expert failed, more than `environment.max_failed_share`"),
        "{error}"
    );
    // The warm start plays 16 steps.
    let error = said(&["environment.settings.after=16", "evaluation.every=0"]);
    assert!(error.contains("16 of 16 episodes failed, more than `environment.max_failed_share` (0.1)"), "{error}");
    assert!(error.contains("ended with exit status: 9"), "{error}");
}
