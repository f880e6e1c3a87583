//! Training, the program: a tiny run from scratch, killed and resumed, and what goes wrong on the way.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::plugins::library;

pub const CONFIG: &str = r#"
seed = 3
iterations = 5

[model]
device = "cpu"

[model.create]
hidden_size = 16
intermediate_size = 32
layers = 1
heads = 2
kv_heads = 1
vocab_size = 340
max_positions = 96
initializer_range = 0.1

[environment]
name = "frozen-lake"
success_rate = 1.0

[rollout]
groups = 2
group_size = 3
max_steps = 3
context = "window"
prompt = "bare"
max_tokens = 24

[warm_start]
episodes = 30
expert_noise = 0.3
updates = 15
batch_rows = 16
lr = 5e-3

[[credit]]
plugin = "grpo"

[[credit]]
plugin = "actfocus"

[objective]
plugin = "clip"
params = { entropy_coef = 0.01, kl = "k3", kl_coef = 0.05 }

[optimizer]
lr = 1e-3

[update]
minibatches = 2
micro_batch_tokens = 256

[evaluation]
every = 2
tasks = 4

[checkpoint]
every = 1
"#;

pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new(config: &str) -> Self {
        for package in ["accredit-grpo", "accredit-actfocus", "accredit-clip", "accredit-sdpo", "accredit-misbehave"] {
            library(package);
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("c.toml"), config).unwrap();
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accredit"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("runs").join(name)
    }

    /// Starts a run of five iterations, and kills it after its first one.
    pub fn kill(&self, run: &str, arguments: &[&str]) {
        let mut command = self.command(&["train", "c.toml", "--run-name", run]);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let started = Instant::now();
        while self.path(run).join("metrics.jsonl").metadata().map_or(0, |m| m.len()) == 0 {
            assert!(started.elapsed() < Duration::from_mins(2), "no iteration ended");
            sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!self.path(run).join("checkpoints/iteration_000005").exists(), "the run ended before it was killed");
    }

    /// The lines of a run's metrics without what is measured in seconds.
    pub fn metrics(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(run).join("metrics.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let mut value: Value = serde_json::from_str(line).unwrap();
                value.as_object_mut().unwrap().retain(|name, _| !accredit::telemetry::names::is_timing(name));
                value
            })
            .collect()
    }

    pub fn weights(&self, run: &str, iteration: u64) -> Vec<u8> {
        self.saved(run, iteration, "model/model.safetensors")
    }

    /// A file of a checkpoint.
    pub fn saved(&self, run: &str, iteration: u64, file: &str) -> Vec<u8> {
        let checkpoint = self.path(run).join(format!("checkpoints/iteration_{iteration:06}"));
        fs::read(checkpoint.join(file)).unwrap()
    }
}

/// A file without the header of its tensors, whose entries come in any order.
pub fn numbers(mut file: Vec<u8>) -> Vec<u8> {
    match file.first_chunk() {
        Some(length) if file.get(8) == Some(&b'{') => file.split_off(8 + u64::from_le_bytes(*length) as usize),
        _ => file,
    }
}

#[test]
fn a_killed_run_goes_on_bit_for_bit() {
    // A scheme whose advantages are how often it was called: its state must survive as well.
    let counting =
        "[[credit]]\nplugin = \"misbehave\"\nmix = 0.1\nparams = { mode = \"state\", hook = \"advantage\" }\n";
    let bench = Bench::new(&format!("{CONFIG}\n{counting}"));
    bench.run(&["train", "c.toml", "--run-name", "whole"]);
    let whole = bench.metrics("whole");
    assert_eq!(whole.iter().map(|line| line["iteration"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);

    bench.kill("killed", &[]);
    bench.run(&["resume", "runs/killed"]);
    assert_eq!(bench.metrics("killed"), whole);
    assert!(bench.weights("killed", 5) == bench.weights("whole", 5));
    let rollouts = |run: &str| fs::read_to_string(bench.path(run).join("rollouts/000004.jsonl")).unwrap();
    assert_eq!(rollouts("killed"), rollouts("whole"));

    // The first of the best evaluations is kept.
    let read = |run: &str| fs::read_to_string(bench.path(run).join("best/best.json")).unwrap();
    let best: Value = serde_json::from_str(&read("whole")).unwrap();
    let evaluations =
        whole.iter().filter_map(|line| Some((line["iteration"].as_u64()?, line["val/success_rate"].as_f64()?)));
    let highest = evaluations.fold((0, -1.0), |best, next| if next.1 > best.1 { next } else { best });
    assert_eq!((best["iteration"].as_u64(), best["val/success_rate"].as_f64()), (Some(highest.0 + 1), Some(highest.1)));
    assert_eq!(read("killed"), read("whole"));
}

#[test]
fn the_run_folder_holds_what_was_run() {
    let bench = Bench::new(CONFIG);
    bench.run(&["train", "c.toml", "--run-name", "r", "--set", "iterations=1"]);
    let folder = bench.path("r");
    let resolved = fs::read_to_string(folder.join("config.resolved.toml")).unwrap();
    assert!(resolved.contains("iterations = 1") && resolved.contains("weight_decay"), "{resolved}");
    let environment: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("environment.json")).unwrap()).unwrap();
    assert_eq!(environment["plugins"].as_array().unwrap().len(), 3);
    assert_eq!(environment["threads"], 1);
    let model = folder.join("checkpoints/iteration_000001/model");
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        assert!(model.join(file).is_file(), "{file}");
    }
    let metrics = &bench.metrics("r")[0];
    for name in
        ["episode/success_rate", "actor/grad_norm", "credit/actfocus/weight_mean", "credit/objective/clip_fraction"]
    {
        assert!(metrics[name].is_number(), "{name} is not in {metrics}");
    }

    // The rollouts that a run wrote are what offline credit reads, and schemes see no difference.
    let output = bench.run(&[
        "credit",
        "--config",
        "c.toml",
        "--rollouts",
        "runs/r/rollouts/000000.jsonl",
        "--set",
        "credit=[{plugin=\"grpo\"}]",
        "--out",
        "o.jsonl",
    ]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("6 trajectories"));
    // A model that was trained is evaluated without the run.
    let model = model.to_string_lossy().into_owned();
    let output = bench.run(&["eval", "c.toml", "--model", &model]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("val/success_rate"));
}

#[test]
fn a_conversation_is_trained_as_one_row() {
    let bench = Bench::new(CONFIG);
    bench.run(&[
        "train",
        "c.toml",
        "--run-name",
        "r",
        "--set",
        "iterations=2",
        "--set",
        "rollout.context=concat",
        "--set",
        "model.create.max_positions=256",
    ]);
    let text = fs::read_to_string(bench.path("r").join("rollouts/000001.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["layout"], "trajectory");
}

#[test]
fn a_plan_runs_nothing() {
    let bench = Bench::new(CONFIG);
    let output = bench.run(&["plan", "c.toml"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in
        ["advantage  grpo", "weigh      actfocus", "objective  clip", "ref_energy", "reference: 1", "2 optimiser steps"]
    {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(!bench.folder.path().join("runs").exists());
}

#[test]
fn a_scheme_that_fails_in_a_run_loses_nothing() {
    let broken = "[[credit]]\nplugin = \"misbehave\"\nfrom = 1\nparams = { mode = \"panic\", hook = \"weigh\" }\n";
    let bench = Bench::new(&format!("{CONFIG}\n{broken}"));
    let output = bench.command(&["train", "c.toml", "--run-name", "r"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("misbehave") && error.contains("weigh") && error.contains("lib.rs:"), "{error}");
    assert_eq!(bench.metrics("r").len(), 1);
    // Without it the run goes on from the checkpoint before.
    let credit = "credit=[{plugin=\"grpo\"},{plugin=\"actfocus\"}]";
    bench.run(&["resume", "runs/r", "--set", credit]);
    assert_eq!(bench.metrics("r").len(), 5);
}

#[test]
fn a_scheme_that_cannot_restore_its_state_makes_resume_fail() {
    let broken =
        "[[credit]]\nplugin = \"misbehave\"\nparams = { mode = \"wrong_state_version\", hook = \"advantage\" }\n";
    let bench = Bench::new(&format!("{CONFIG}\n{broken}"));
    bench.run(&["train", "c.toml", "--run-name", "r", "--set", "iterations=1"]);
    let output = bench.command(&["resume", "runs/r", "--set", "iterations=2"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("misbehave") && error.contains("version"), "{error}");
    assert_eq!(bench.metrics("r").len(), 1);
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_written() {
    let bench = Bench::new(CONFIG);
    let check = |sets: &[&str], expected: &str| {
        let mut arguments = vec!["train", "c.toml"];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        let output = bench.command(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "`{expected}` is not in\n{error}");
        assert!(!bench.folder.path().join("runs").exists(), "{sets:?}");
    };
    check(&["rollout.group_size=1"], "compares the trajectories of a group");
    check(&["environment.name=frozen-lik"], "frozen-lake");
    check(&["environment.siz=4"], "siz");
    check(&["credit.grpo.until=3"], "from iteration 3 on, no scheme that trains gives advantages");
    check(&["model.device=tpu"], "model.device");
}

#[test]
fn a_run_is_not_overwritten() {
    let bench = Bench::new(CONFIG);
    fs::create_dir_all(bench.path("r")).unwrap();
    let output = bench.command(&["train", "c.toml", "--run-name", "r"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("accredit resume"));
    assert!(fs::read_dir(bench.path("r")).unwrap().next().is_none());
    let output = bench.command(&["resume", "nowhere"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no run folder"));
    assert!(!Path::new("nowhere").exists());
}

#[test]
fn a_signal_is_computed_once_however_many_schemes_read_it_and_never_for_none() {
    let bench = Bench::new(CONFIG);
    let tokens = |run: &str, credit: &str| {
        let set = format!("credit=[{{plugin=\"grpo\"}}{credit}]");
        let no_kl = "objective.params={kl=\"none\", kl_coef=0.0}";
        bench.run(&["train", "c.toml", "--run-name", run, "--set", "iterations=1", "--set", &set, "--set", no_kl]);
        let text = fs::read_to_string(bench.path(run).join("metrics.jsonl")).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        (line["reference/tokens"].as_f64(), bench.path(run).join("reference").exists())
    };
    let scheme = |name: &str| format!(", {{plugin=\"actfocus\", name=\"{name}\"}}");
    let once = tokens("once", &scheme("a"));
    assert!(once.0 > Some(0.0) && once.1);
    assert_eq!(tokens("three", &[scheme("a"), scheme("b"), scheme("c")].concat()), once);
    assert_eq!(tokens("none", ""), (None, false));
}
