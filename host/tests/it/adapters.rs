//! Runs that train an adapter, a part of the weights, or in bfloat16: resumed bit for bit, saved as others read them,
//! and trained on.

use std::fs;

use serde_json::Value;

use crate::training::{Bench, CONFIG};

const LORA: &str = "model.lora={rank=4, alpha=8.0, targets=[\"q_proj\",\"v_proj\",\"down_proj\"]}";
const BF16: &str = "model.dtype=bfloat16";

fn train(bench: &Bench, run: &str, sets: &[&str]) {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    bench.run(&[&["train", "c.toml", "--run-name", run][..], &sets].concat());
}

#[test]
fn every_form_goes_on_bit_for_bit() {
    let forms: [(&str, &[&str], &str); 3] = [
        ("lora", &[LORA], "model/adapter_model.safetensors"),
        ("frozen", &["model.frozen=[\"model.embed_tokens\", \"model.layers.0.mlp\"]"], "model/model.safetensors"),
        ("bf16", &[BF16, LORA], "model/adapter_model.safetensors"),
    ];
    let bench = Bench::new(CONFIG);
    for (form, sets, file) in forms {
        let (whole, parted) = (format!("{form}-whole"), format!("{form}-parted"));
        train(&bench, &whole, &[sets, &["iterations=3", "evaluation.every=0"]].concat());
        train(&bench, &parted, &[sets, &["iterations=1", "evaluation.every=0"]].concat());
        bench.run(&["resume", &format!("runs/{parted}"), "--set", "iterations=3"]);
        assert!(bench.saved(&whole, 3, file) == bench.saved(&parted, 3, file), "{form}");
        assert!(bench.saved(&whole, 3, file) != bench.saved(&whole, 2, file), "{form}");
        assert_eq!(bench.metrics(&whole), bench.metrics(&parted), "{form}");
        let difference = bench.metrics(&whole)[2]["rollout/logprob_diff/max"].as_f64().unwrap();
        assert!(difference < if form == "bf16" { 0.3 } else { 1e-3 }, "{form}: {difference}");
    }
}

#[test]
fn an_adapter_is_saved_alone_exported_whole_and_trained_on() {
    let bench = Bench::new(CONFIG);
    train(&bench, "r", &[LORA, "iterations=2"]);
    let (run, model) = (bench.path("r"), bench.path("r").join("checkpoints/iteration_000002/model"));
    // What the adapter is for is in the run's folder, and named by its place.
    let text = fs::read_to_string(model.join("adapter_config.json")).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let base = fs::canonicalize(run.join("base")).unwrap();
    assert_eq!(fs::canonicalize(config["base_model_name_or_path"].as_str().unwrap()).unwrap(), base);
    assert_eq!((&config["r"], &config["peft_type"]), (&4.into(), &"LORA".into()));
    assert!(!model.join("model.safetensors").exists() && model.join("tokenizer.json").is_file());
    let size = |path: &std::path::Path| fs::metadata(path).unwrap().len();
    assert!(4 * size(&model.join("adapter_model.safetensors")) < size(&base.join("model.safetensors")));
    // The reference that the objective reads takes no weights of its own beside the base.
    assert!(run.join("reference/adapter_model.safetensors").is_file());

    // Both say the same, as a run of its own and as whole weights.
    let success = |model: &str| {
        let output = bench.run(&["eval", "c.toml", "--model", model]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let model = model.to_string_lossy().into_owned();
    bench.run(&["model", "export", &model, "whole", "--dtype", "f32"]);
    assert_eq!(success(&model), success("whole"));
    let output = bench.command(&["model", "export", &model, "whole"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("whole is there already"));

    // A run on the adapter goes on with it, and another one puts a new adapter on the whole weights.
    let on = |run: &str, path: &str, more: &[&str]| {
        let config = format!("model={{path=\"{path}\", device=\"cpu\"}}");
        let sets = [&[config.as_str(), "iterations=1", "evaluation.every=0"], more].concat();
        let text = CONFIG.split("[warm_start]").next().unwrap().replace("[model]\ndevice = \"cpu\"\n", "");
        let begin = text.find("[model.create]").unwrap();
        let end = text.find("[environment]").unwrap();
        let rest = CONFIG.split("[[credit]]").skip(1).map(|part| format!("[[credit]]{part}")).collect::<String>();
        fs::write(bench.folder().join("on.toml"), format!("{}{}{rest}", &text[..begin], &text[end..])).unwrap();
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        bench.run(&[&["train", "on.toml", "--run-name", run][..], &sets].concat());
    };
    on("further", &model, &[]);
    let start = bench.saved("further", 0, "model/adapter_model.safetensors");
    assert!(start == bench.saved("r", 2, "model/adapter_model.safetensors"));
    assert!(start != bench.saved("further", 1, "model/adapter_model.safetensors"));
    on("anew", "whole", &["model.lora={rank=2}"]);
    assert_eq!(
        fs::read(bench.path("anew").join("base/model.safetensors")).unwrap(),
        fs::read(bench.folder().join("whole/model.safetensors")).unwrap()
    );
}

#[test]
fn what_an_adapter_cannot_be_is_refused_with_its_place() {
    let bench = Bench::new(CONFIG);
    let check = |sets: &[&str], code: i32, expected: &str| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        let output = bench.command(&[&["train", "c.toml"][..], &sets].concat()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(expected), "`{expected}` is not in\n{error}");
        assert!(!bench.folder().join("runs").exists(), "{sets:?}");
    };
    check(&["model.lora={targets=\"all\"}"], 2, "all-linear");
    check(&["model.lora={targets=[\"qproj\"]}"], 2, "\"qproj\" is not one of q_proj");
    check(&["model.lora={rank=0}"], 2, "model.lora.rank");
    check(&[LORA, "model.frozen=[\"model.norm\"]"], 2, "`model.frozen` has no meaning beside `model.lora`");
    check(&["model.dtype=float16"], 2, "bfloat16");
    check(&["model.frozen=[\"embed\"]"], 1, "`embed` is the beginning of no weight's name");
}
