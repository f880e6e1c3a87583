//! Ctrl-C in the middle of an iteration: the run stops there and goes on bit for bit, without playing anything again.

use std::fs;

use crate::training::{Bench, CONFIG, numbers};

/// A scheme that counts its calls, those in the update too: a state that changes between two optimiser steps. It is what
/// interrupts the run as well.
const COUNTING: &str = "[[credit]]\nplugin = \"misbehave\"\nmix = 0.1\nparams = { mode = \"state\", hook = \"advantage\", also = \
                        [\"refresh\"] }\n";

/// What a run is made of, beside the tiny configuration: four optimiser steps in each of three iterations.
const STEPS: [&str; 4] = ["iterations=3", "update.epochs=2", "update.minibatches=2", "update.micro_batch_tokens=4096"];

struct Interrupted {
    bench: Bench,
    sets: Vec<String>,
}

impl Interrupted {
    /// A whole run, to compare with.
    fn new(sets: &[&str]) -> Self {
        let bench = Bench::new(&format!("{CONFIG}\n{COUNTING}"));
        let sets = STEPS.iter().chain(sets).flat_map(|set| ["--set".to_owned(), (*set).to_owned()]).collect();
        let this = Self { bench, sets };
        this.train("whole", None);
        this
    }

    /// A run that is interrupted at a place such as `refresh@3`, if at all; gives what it said.
    fn train(&self, run: &str, interrupt: Option<&str>) -> String {
        let mut command = self.bench.command(&["train", "c.toml", "--run-name", run]);
        command.args(&self.sets);
        said(command, interrupt)
    }

    fn resume(&self, run: &str, interrupt: Option<&str>) -> String {
        said(self.bench.command(&["resume", &format!("runs/{run}")]), interrupt)
    }

    /// Whether a run came to the same end as the whole one.
    fn check(&self, run: &str) {
        assert_eq!(self.bench.metrics(run), self.bench.metrics("whole"), "{run}");
        for file in ["model/model.safetensors", "optimizer.safetensors", "progress.json"] {
            let [found, expected] = [run, "whole"].map(|run| numbers(self.bench.saved(run, 3, file)));
            assert!(found == expected, "{run}: {file}");
        }
    }

    /// The newest checkpoint.
    fn latest(&self, run: &str) -> String {
        let entries = fs::read_dir(self.bench.path(run).join("checkpoints")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).max().unwrap()
    }
}

fn said(mut command: std::process::Command, interrupt: Option<&str>) -> String {
    if let Some(place) = interrupt {
        command.env("ACCREDIT_MISBEHAVE_INTERRUPT", place);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn an_interrupted_iteration_goes_on_bit_for_bit() {
    let case = Interrupted::new(&[]);
    for (place, latest, said) in [
        // Between two minibatches of an epoch, at an epoch's end, and in the second epoch.
        ("refresh@4", "iteration_000001_minibatch_000001", "after 1 of its 4 optimiser steps"),
        ("refresh@5", "iteration_000001_minibatch_000002", "after 2 of its 4 optimiser steps"),
        ("refresh@6", "iteration_000001_minibatch_000003", "after 3 of its 4 optimiser steps"),
        // An evaluation is due, and put off.
        ("refresh@7", "iteration_000001_minibatch_000004", "after 4 of its 4 optimiser steps"),
        // While schemes give credit: the iteration's episodes are kept.
        ("advantage@4", "iteration_000001_minibatch_000000", "after 0 of its 4 optimiser steps"),
        // In the first iteration, which has no evaluation at its end: nothing is left to put off.
        ("refresh@3", "iteration_000001", "stopped after iteration 1;"),
    ] {
        let run = place;
        let stopped = case.train(run, Some(place));
        assert!(stopped.contains(said) && stopped.contains("go on with `accredit resume"), "{stopped}");
        let phase =
            if place.starts_with("refresh") { "after this optimiser step" } else { "when the iteration's episodes" };
        assert!(stopped.contains(&format!("stopping {phase}")), "{stopped}");
        assert_eq!(case.latest(run), latest);
        assert!(case.bench.metrics(run).len() == 1);
        let rollouts = case.bench.path(run).join("rollouts/000001.jsonl");
        let played = || fs::metadata(&rollouts).and_then(|file| file.modified()).ok();
        let before = played();
        case.resume(run, None);
        assert!(before.is_none_or(|_| played() == before), "{place}: the iteration was played again");
        case.check(run);
    }
}

#[test]
fn one_iteration_can_be_interrupted_again_and_again() {
    let case = Interrupted::new(&[]);
    case.train("r", Some("advantage@0"));
    for place in ["refresh@0", "refresh@1", "refresh@2", "refresh@9"] {
        case.resume("r", Some(place));
    }
    let said = case.resume("r", None);
    assert!(said.contains("going on in iteration 3 of 3, after 2 of its 4 optimiser steps"), "{said}");
    case.check("r");
}

#[test]
fn a_critic_and_teachers_go_on_from_the_middle_as_well() {
    let critic = ["credit.0.plugin=value-baseline", "objective.params.value_coef=0.5", "critic.lr=1e-3"];
    let teachers = ["objective={plugin='sdpo',params={top_k=4}}", "model.create.max_positions=384"];
    for sets in [&critic[..], &teachers] {
        let case = Interrupted::new(sets);
        case.train("r", Some("refresh@5"));
        let said = case.resume("r", None);
        assert!(said.contains("going on in iteration 2 of 3, after 2 of its 4"), "{said}");
        case.check("r");
        let part = if sets == critic { "critic/model.safetensors" } else { "teachers" };
        let [found, expected] = ["r", "whole"].map(|run| {
            let path = case.bench.path(run).join("checkpoints/iteration_000003").join(part);
            let file = if path.is_dir() {
                fs::read_dir(path).unwrap().next().unwrap().unwrap().path().join("model.safetensors")
            } else {
                path
            };
            numbers(fs::read(file).unwrap())
        });
        assert!(found == expected && !found.is_empty(), "{part}");
    }
}

#[test]
fn what_changes_in_the_middle_of_an_iteration_is_said() {
    let case = Interrupted::new(&[]);
    for (run, set, part) in [
        ("a", "seed=5", "iteration 1 is being updated: it keeps its rollouts, credit and minibatches"),
        ("b", "credit.misbehave.mix=0.2", "iteration 1 was being updated: the rest of its update is left out"),
    ] {
        case.train(run, Some("refresh@5"));
        let said = said(case.bench.command(&["resume", &format!("runs/{run}"), "--set", set]), None);
        assert!(said.contains(part), "`{part}` is not in\n{said}");
        let updates: Vec<_> = case.bench.metrics(run).iter().map(|line| line["training/updates"].as_f64()).collect();
        let expected = if run == "a" { [4.0, 8.0, 12.0] } else { [4.0, 6.0, 10.0] };
        assert_eq!(updates, expected.map(Some));
    }
    case.train("c", Some("refresh@5"));
    let file = case.bench.path("c").join("checkpoints/iteration_000001_minibatch_000002/unfinished.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let output = case.bench.command(&["resume", "runs/c"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("remove that folder to go on from the one before it"),
        "{error}"
    );
}
