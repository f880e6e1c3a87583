//! A run with a critic: killed and resumed, warmed up, planned, refused; and the values that its schemes read.

use accredit::{
    credit::{Counters, plan::Signals},
    scoring::{self, Models, Rows},
};
use accredit_core::{batch::Batch, episode::Layout};
use accredit_plugin_api::columns::VALUE;
use accredit_torch::{AdamW, Critic, Optimizer, Wanted};
use serde_json::Value;

use crate::{
    gradient::{episodes, model, pipeline},
    training::{Bench, CONFIG},
};

const CREDIT: &str = "credit=[{plugin=\"value-baseline\"}]";
const VALUE_LOSS: &str = "objective.params.value_coef=0.5";
const TRUNKS: [&str; 2] = ["critic.trunk=copy", "critic.trunk=shared"];

/// Arguments that give a run a critic.
fn with_critic<'a>(sets: &[&'a str]) -> Vec<&'a str> {
    [CREDIT, VALUE_LOSS, "critic.lr=1e-3"].iter().chain(sets).flat_map(|set| ["--set", *set]).collect()
}

fn train(bench: &Bench, run: &str, sets: &[&str]) {
    let sets = with_critic(sets);
    bench.run(&[&["train", "c.toml", "--run-name", run][..], &sets].concat());
}

/// The header and the numbers of a safetensors file. Entries of the header come in any order.
fn tensors(file: &[u8]) -> (Value, &[u8]) {
    let (length, rest) = file.split_first_chunk().unwrap();
    let (header, numbers) = rest.split_at(u64::from_le_bytes(*length) as usize);
    (serde_json::from_slice(header).unwrap(), numbers)
}

#[test]
fn a_killed_run_with_a_critic_goes_on_bit_for_bit() {
    let bench = Bench::new(CONFIG);
    for (trunk, (whole, killed)) in TRUNKS.into_iter().zip([("whole-copy", "copy"), ("whole-shared", "shared")]) {
        train(&bench, whole, &[trunk, "critic.schedule=linear"]);
        bench.kill(killed, &with_critic(&[trunk, "critic.schedule=linear"]));
        bench.run(&["resume", &format!("runs/{killed}")]);
        let metrics = bench.metrics(whole);
        assert_eq!(bench.metrics(killed), metrics);
        for file in ["model/model.safetensors", "critic/model.safetensors", "critic/optimizer.safetensors"] {
            assert!(tensors(&bench.saved(killed, 5, file)) == tensors(&bench.saved(whole, 5, file)), "{trunk}: {file}");
        }
        assert!(bench.saved(whole, 4, "critic/model.safetensors") != bench.saved(whole, 5, "critic/model.safetensors"));
        let last = &metrics[4];
        for name in [
            "critic/values/mean",
            "critic/value_targets/mean",
            "critic/vf_explained_var",
            "critic/grad_norm",
            "critic/lr",
            "credit/objective/value_loss",
        ] {
            assert!(last[name].is_number(), "{name} is not in {last}");
        }
        let rollouts = std::fs::read_to_string(bench.path(whole).join("rollouts/000004.jsonl")).unwrap();
        assert!(rollouts.contains("\"value\":["));
    }
}

#[test]
fn the_warm_up_leaves_the_policy_as_it_was() {
    let bench = Bench::new(CONFIG);
    for (trunk, run) in TRUNKS.into_iter().zip(["copy", "shared"]) {
        train(&bench, run, &[trunk, "critic.warmup=2", "iterations=3", "checkpoint.keep=9"]);
        let weights: Vec<Vec<u8>> = (0..4).map(|iteration| bench.weights(run, iteration)).collect();
        assert!(weights[0] == weights[1] && weights[1] == weights[2], "{trunk}: the policy moved in the warm-up");
        assert!(weights[2] != weights[3], "{trunk}: the policy does not learn after the warm-up");
        let critics: Vec<Vec<u8>> = (0..4).map(|i| bench.saved(run, i, "critic/model.safetensors")).collect();
        assert!(critics.windows(2).all(|pair| pair[0] != pair[1]), "{trunk}: the critic does not learn");
        // Updates are the policy's: what a scheme or a schedule counts by begins after the warm-up.
        let of = |name: &str| bench.metrics(run).iter().map(|line| line[name].as_f64().unwrap()).collect::<Vec<_>>();
        assert_eq!(of("training/updates"), [0.0, 0.0, 2.0]);
        assert_eq!(of("actor/lr"), [0.0, 0.0, 1e-3]);
        assert_eq!(of("critic/lr"), [1e-3; 3]);
    }
}

#[test]
fn a_plan_names_the_critic_and_a_run_without_need_has_none() {
    let bench = Bench::new(CONFIG);
    let plan = |sets: &[&str]| {
        let output = bench.run(&[&["plan", "c.toml"][..], sets].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let copy = plan(&with_critic(&["critic.warmup=2"]));
    for part in [
        "critic\n  a value head on a copy of the policy's trunk, trained alone in the first 2 iterations\n",
        "ref_logprob, value\n",
        "  policy before the update: 1\n  reference: 1\n  critic: 1\n",
        // 340 ids of width 16; a layer of 16·32 + 32 + 16·16 + 3·16·32 + 2·16; the last norm; the head.
        "  critic: 7841 weights: 0.1 MiB\n",
    ] {
        assert!(copy.contains(part), "`{part}` is not in\n{copy}");
    }
    let shared = plan(&with_critic(&["critic.trunk=shared"]));
    assert!(shared.contains("critic\n  a value head on the policy's own trunk\n"), "{shared}");
    assert!(shared.contains("  critic: 17 weights") && !shared.contains("critic: 1\n"), "{shared}");
    let none = plan(&[]);
    assert!(!none.contains("critic"), "{none}");
    bench.run(&["train", "c.toml", "--run-name", "r", "--set", "iterations=1"]);
    assert!(!bench.path("r").join("checkpoints/iteration_000001/critic").exists());
    assert!(bench.metrics("r")[0]["critic/grad_norm"].is_null());
}

#[test]
fn a_critic_that_cannot_work_is_refused_before_anything_is_written() {
    let bench = Bench::new(CONFIG);
    let check = |sets: &[&str], expected: &str| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        let output = bench.command(&[&["train", "c.toml"][..], &sets].concat()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "`{expected}` is not in\n{error}");
        assert!(!bench.path("").exists(), "{sets:?}");
    };
    check(&[CREDIT], "`value-baseline` needs a critic, and the objective trains none: it reads no `new_value`");
    check(
        &["credit=[{plugin=\"grpo\"},{plugin=\"value-baseline\",shadow=true}]"],
        "`value-baseline` needs a critic, and the objective trains none",
    );
    check(&[VALUE_LOSS], "`clip` reads `value_target`, and from iteration 0 on no scheme that trains gives any");
    check(
        &["credit=[{plugin=\"grpo\"},{plugin=\"value-baseline\",until=3}]", VALUE_LOSS],
        "`clip` reads `value_target`, and from iteration 3 on no scheme that trains gives any",
    );
    check(
        &[CREDIT, VALUE_LOSS, "critic.warmup=5"],
        "the critic alone is trained for 5 iterations, and the run has 5\n",
    );
    check(&["critic.trunk=own"], "unknown value `own` for `critic.trunk`");
    check(&["critic.lr=0"], "`critic.lr` is out of range");
}

#[test]
fn another_critic_than_the_runs_is_not_resumed() {
    let bench = Bench::new(CONFIG);
    train(&bench, "copy", &["iterations=1"]);
    bench.run(&["train", "c.toml", "--run-name", "none", "--set", "iterations=1"]);
    let check = |run: &str, sets: &[&str], expected: &str| {
        let output = bench.command(&[&["resume", run, "--set", "iterations=2"][..], sets].concat()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(expected), "`{expected}` is not in\n{error}");
    };
    check("runs/copy", &["--set", TRUNKS[1]], "the run's critic cannot be read with `critic.trunk = \"shared\"`");
    check("runs/none", &with_critic(&[]), "the run has no critic: it was started without a scheme that needs one");
    // A scheme that needs no critic goes on without.
    let sets = ["iterations=2", "credit=[{plugin=\"grpo\"}]", "objective.params.value_coef=0"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    bench.run(&[&["resume", "runs/copy"][..], &sets].concat());
    assert!(!bench.path("copy").join("checkpoints/iteration_000002/critic").exists());
}

#[test]
fn the_values_that_schemes_read_are_those_of_a_direct_forward_pass() {
    for make in [Critic::copy, Critic::shared] {
        for layout in [Layout::Trajectory, Layout::Step] {
            let (model, episodes) = (model(), episodes(layout));
            let critic = make(&model).unwrap();
            let mut batch = Batch::build(&episodes, &[], &[]).unwrap();
            Counters::default().put_into(&mut batch);
            let rows = Rows::of(&batch, &episodes);
            let all = rows.all();
            let forward = || model.forward(&all, 1.0, Wanted::default()).unwrap();
            // One step, so that values are not 0.
            let pass = forward();
            let values = critic.forward(&all, &pass).unwrap();
            let derivatives = vec![-1.0; values.value().len()];
            values.backward(&derivatives).unwrap();
            Optimizer::of_critic(&critic, AdamW::default()).unwrap().step(0.1).unwrap();

            let signals = Signals::of(&pipeline(&["value-baseline"], "{ value_coef = 1 }"));
            assert!(signals.critic && signals.value);
            let models = Models { policy: &model, reference: None, critic: Some(&critic) };
            scoring::signals(&mut batch, &rows, models, signals, 1.0, 64).unwrap();
            let (scored, pass) = (batch.table.f32(VALUE).unwrap(), forward());
            let direct = critic.forward(&all, &pass).unwrap();
            assert_eq!(scored.len(), batch.tokens());
            for (a, b) in scored.iter().zip(direct.value()) {
                assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{a} {b}");
            }
            let spread =
                scored.iter().copied().fold(f32::MIN, f32::max) - scored.iter().copied().fold(f32::MAX, f32::min);
            assert!(spread > 0.1, "{spread}");
        }
    }
}
