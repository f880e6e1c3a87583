//! The configurations that are shipped: all can be planned, and those that can run here do, a few iterations of each.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accredit::{
    config::Loaded,
    credit::{
        Supply,
        plan::{self, Gives},
    },
    plugin::{SearchPath, Services},
};
use serde_json::Value;

use crate::{
    plugins::{library, target_folder},
    training::Bench,
};

/// Folders whose configurations run here, one for each environment.
const ENVIRONMENTS: [&str; 3] = ["frozen-lake", "sokoban", "sudoku"];

/// What makes a run small: two iterations of a tiny batch, no more than a moment of warm start, and one optimiser step
/// that the second epoch can see.
const SMALL: [&str; 16] = [
    "iterations=2",
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_steps=3",
    "model.create.hidden_size=16",
    "model.create.intermediate_size=32",
    "model.create.layers=1",
    "warm_start.episodes=40",
    "warm_start.updates=20",
    "warm_start.batch_rows=16",
    "update.epochs=2",
    "update.minibatches=1",
    "optimizer.warmup_updates=0",
    "optimizer.lr=1e-3",
    "evaluation.every=0",
    "run.rollouts=none",
];

fn configs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

/// Builds every plugin, and gives the folder that they are in.
fn plugins() -> PathBuf {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let name = folder.file_name().unwrap().to_str().unwrap();
        // A package with a program has its plugin for itself.
        if manifest.contains("\"cdylib\"") && !folder.join("src/main.rs").is_file() {
            library(&format!("accredit-{name}"));
        }
    }
    target_folder().join(if cfg!(debug_assertions) { "debug" } else { "release" })
}

#[test]
fn every_configuration_can_be_planned() {
    let search = SearchPath::of_folders([plugins()]);
    for file in ["", "papers", "smollm2"].into_iter().chain(ENVIRONMENTS).flat_map(configs) {
        let loaded = Loaded::read(std::slice::from_ref(&file), &[]).unwrap_or_else(|error| panic!("{error}"));
        let environment = loaded.for_training().unwrap_or_else(|error| panic!("{error}"));
        let settings = Value::Object(environment.parameters.clone());
        let traits = accredit_environments::traits(&environment.name, &settings)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let judgements = loaded.config.judge.is_some();
        let gives = Gives { states: traits.states, answers: traits.answers, judgements };
        let supply = Supply::playing(gives, loaded.config.rollout.group_size);
        plan::load(&loaded, &search, &supply, Services::default()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_configuration_that_can_run_here_runs_and_moves_the_policy_as_its_credit_says() {
    plugins();
    let bench = Bench::new("");
    for (folder, file) in
        ENVIRONMENTS.iter().flat_map(|folder| configs(folder).into_iter().map(move |file| (folder, file)))
    {
        let scheme = file.file_stem().unwrap().to_str().unwrap();
        let name = &format!("{folder}-{scheme}");
        let mut arguments = vec!["train", file.to_str().unwrap(), "--run-name", name];
        for set in SMALL {
            arguments.extend(["--set", set]);
        }
        if *folder == "frozen-lake" {
            arguments.extend(["--set", "environment.p_frozen=0.9"]);
        }
        // A critic's warm-up would be all of so short a run.
        if fs::read_to_string(&file).unwrap().contains("warmup = 2") {
            arguments.extend(["--set", "critic.warmup=0"]);
        }
        // Its program is to be started from the repository's root, and runs here have a folder of their own.
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let judge = format!(
            r#"judge.command=["python3", "{root}/environments/python/accredit_env.py", "{root}/configs/frozen-lake/judge.py:Rules"]"#
        );
        if fs::read_to_string(&file).unwrap().contains("[judge]") {
            arguments.extend(["--set", &judge]);
        }
        bench.run(&arguments);
        let text = fs::read_to_string(bench.path(name).join("metrics.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{name}");
        let mut gains = Vec::new();
        for line in &lines {
            let number = |key: &str| line[key].as_f64();
            for key in ["actor/loss", "actor/grad_norm", "critic/advantages/mean"] {
                assert!(number(key).is_none_or(f64::is_finite) && !line[key].is_null(), "{name}: {key}: {line}");
            }
            // Without a credit that differs there is nothing to follow.
            if number("critic/advantages/max") > number("critic/advantages/min") {
                gains.extend(number("actor/policy_gain"));
            }
        }
        // Distillation reads no advantages; the divergence and entropy of others are small against theirs.
        let distills = scheme == "sdpo";
        assert!(distills || gains.iter().all(|gain| *gain > 0.0), "{name}: {gains:?}");
    }
}
