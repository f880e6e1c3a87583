//! `accredit credit`, the program: schemes on rollout files, and what bad input gets.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::plugins::library;

const ROLLOUTS: &str = r#"{"group": "g", "trajectory": "a", "steps": [{"reward": 1.0, "tokens": {"kind": ["think", "observation", "action"], "ref_energy": [-1.0, 9.0, -2.0], "old_logprob": [-0.5, 0.0, -0.25], "new_logprob": [-0.4, 0.0, -0.25]}}]}
{"group": "g", "trajectory": "b", "steps": [{"reward": 0.0, "tokens": {"kind": ["think", "action"], "ref_energy": [-1.0, -4.0], "old_logprob": [-0.5, -0.5], "new_logprob": [-0.5, -0.5]}}]}
"#;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        for package in ["accredit-grpo", "accredit-actfocus", "accredit-clip", "accredit-misbehave"] {
            library(package);
        }
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        bench.write("r.jsonl", ROLLOUTS);
        bench
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_accredit")).current_dir(self.folder.path()).args(arguments).output().unwrap()
    }

    /// The credit of the rollouts under a configuration, line by line.
    fn credit(&self, config: &str) -> Vec<Value> {
        self.write("c.toml", config);
        let output = self.run(&["credit", "--config", "c.toml", "--rollouts", "r.jsonl", "--out", "o.jsonl"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(self.folder.path().join("o.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a command that fails says, and its exit code.
    fn fails(&self, config: &str) -> (i32, String) {
        self.write("c.toml", config);
        let output = self.run(&["credit", "--config", "c.toml", "--rollouts", "r.jsonl"]);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

const GRPO: &str = "[[credit]]\nplugin = \"grpo\"\n";

#[test]
fn credit_is_written_for_every_token_of_the_file_with_zeros_at_the_environment_s() {
    let bench = Bench::new();
    let lines = bench.credit(GRPO);
    assert_eq!(lines.len(), 2);
    let advantage = lines[0]["steps"][0]["advantage"].as_array().unwrap();
    assert_eq!(advantage.len(), 3);
    assert_eq!(advantage[1], 0.0);
    // (1 - 0.5) / (sqrt(0.5) + 1e-6)
    assert!((advantage[0].as_f64().unwrap() - 0.707_105_78).abs() < 1e-6, "{advantage:?}");
    assert_eq!(lines[0]["steps"][0]["d_logprob"].as_array().unwrap().len(), 3);
    assert!(lines[0]["batch_loss"].is_number());
}

#[test]
fn another_scheme_is_another_line_and_the_program_is_the_same_file() {
    let bench = Bench::new();
    let program = || fs::read(env!("CARGO_BIN_EXE_accredit")).unwrap();
    let before = program();
    let grpo = bench.credit(GRPO);
    let both = bench.credit(&format!("{GRPO}\n[[credit]]\nplugin = \"actfocus\"\n"));
    assert!(program() == before);
    assert_eq!(grpo[0]["steps"][0]["advantage"], both[0]["steps"][0]["advantage"]);
    assert_eq!(grpo[0]["steps"][0]["weight"], serde_json::json!([1.0, 0.0, 1.0]));
    let weight = |line: &Value, token: usize| line["steps"][0]["weight"][token].as_f64().unwrap();
    assert!((weight(&both[0], 0) - 0.1).abs() < 1e-6);
    // Energies -2 and -4: one standard deviation above and below their mean.
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    assert!((weight(&both[0], 2) - (1.0 + 0.5 * sigmoid(1.0))).abs() < 1e-5);
    assert!((weight(&both[1], 1) - (1.0 + 0.5 * sigmoid(-1.0))).abs() < 1e-5);
}

#[test]
fn a_parameter_can_be_set_on_the_command_line() {
    let bench = Bench::new();
    bench.write("c.toml", &format!("{GRPO}\n[[credit]]\nplugin = \"actfocus\"\n"));
    let set = "credit.actfocus.params.alpha=0.3";
    let output =
        bench.run(&["credit", "--config", "c.toml", "--rollouts", "r.jsonl", "--out", "o.jsonl", "--set", set]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(bench.folder.path().join("o.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!((line["steps"][0]["weight"][0].as_f64().unwrap() - 0.3).abs() < 1e-6);
}

#[test]
fn a_shadow_is_computed_and_does_not_train() {
    let bench = Bench::new();
    let config =
        format!("{GRPO}\n[[credit]]\nplugin = \"grpo\"\nname = \"plain\"\nshadow = true\nparams = {{ std = false }}\n");
    let lines = bench.credit(&config);
    assert_eq!(lines[0]["steps"][0]["shadows"]["plain"]["advantage"], serde_json::json!([0.5, 0.0, 0.5]));
    assert_eq!(lines[0]["steps"][0]["advantage"], bench.credit(GRPO)[0]["steps"][0]["advantage"]);
}

#[test]
fn schemes_are_mixed_by_their_weights() {
    let bench = Bench::new();
    let entry = |name: &str, mix: f64| {
        format!("[[credit]]\nplugin = \"grpo\"\nname = \"{name}\"\nmix = {mix}\nparams = {{ std = false }}\n")
    };
    let lines = bench.credit(&format!("{}{}", entry("a", 2.0), entry("b", 0.5)));
    assert_eq!(lines[0]["steps"][0]["advantage"], serde_json::json!([1.25, 0.0, 1.25]));
}

#[test]
fn what_does_not_fit_is_shown_with_its_line_and_costs_exit_code_2() {
    let bench = Bench::new();
    let check = |config: &str, expected: &[&str]| {
        let (code, error) = bench.fails(config);
        assert_eq!(code, 2, "{error}");
        for part in expected {
            assert!(error.contains(part), "`{part}` is not in\n{error}");
        }
        assert!(!error.contains("panicked"), "{error}");
    };
    check("[[credit]]\nplugin = \"gpro\"\n", &["c.toml:2:", "`gpro`", "grpo"]);
    check("[[credit]]\nplugin = \"grpo\"\nparams = { epss = 1 }\n", &["c.toml:3:", "epss", "did you mean `eps`?"]);
    check("[[credit]]\nplugin = \"grpo\"\nparams = { eps = -1 }\n", &["c.toml:3:", "at least 0"]);
    check("[[credit]]\nplugin = \"clip\"\n", &["c.toml:2:", "objective"]);
    check("[[credit]]\nplugin = \"grpo\"\n[objective]\nplugin = \"grpo\"\n", &["c.toml:4:", "is no objective"]);
    check("[[credit]]\nplugn = \"grpo\"\n", &["c.toml:2:", "did you mean `plugin`?"]);
    check(
        "[[credit]]\nplugin = \"grpo\"\nsha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n",
        &["c.toml:", "sha256"],
    );
}

#[test]
fn a_column_that_the_file_lacks_is_named_before_anything_runs() {
    let bench = Bench::new();
    bench.write("r.jsonl", "{\"group\": \"g\", \"steps\": [{\"reward\": 1, \"tokens\": {\"kind\": [\"action\"]}}]}\n");
    let (code, error) = bench.fails(&format!("{GRPO}\n[[credit]]\nplugin = \"actfocus\"\n"));
    assert_eq!(code, 1);
    assert!(error.contains("scheme `actfocus` reads `ref_energy`, which these rollouts do not have"), "{error}");
}

#[test]
fn what_a_scheme_leaves_unwritten_is_refused_with_its_place() {
    let bench = Bench::new();
    let check = |mode: &str, expected: &[&str]| {
        let config =
            format!("[[credit]]\nplugin = \"misbehave\"\nparams = {{ mode = \"{mode}\", hook = \"advantage\" }}\n");
        let (code, error) = bench.fails(&config);
        assert_eq!(code, 1, "{error}");
        for part in expected {
            assert!(error.contains(part), "{mode}: `{part}` is not in\n{error}");
        }
    };
    check("nan", &["misbehave", "advantage", "NaN", "trajectory `a`, step 0, token 0"]);
    check("infinite", &["misbehave", "inf"]);
    check("unwritten", &["misbehave", "NaN"]);
    check("panic", &["misbehave", "panicked", "lib.rs:"]);
    check("error", &["misbehave", "advantage"]);
}

#[test]
fn bad_rollouts_are_named_with_file_and_line() {
    let bench = Bench::new();
    bench.write("r.jsonl", "{\"group\": \"g\", \"steps\": [{\"reward\": \"one\"}]}\n");
    let (code, error) = bench.fails(GRPO);
    assert_eq!(code, 1);
    assert!(error.contains("r.jsonl, line 1, `steps[0].reward`"), "{error}");
    fs::remove_file(bench.folder.path().join("r.jsonl")).unwrap();
    let (code, error) = bench.fails(GRPO);
    assert_eq!(code, 1);
    assert!(error.contains("r.jsonl"), "{error}");
}

#[test]
fn the_shipped_demo_runs() {
    for package in ["accredit-grpo", "accredit-actfocus", "accredit-clip"] {
        library(package);
    }
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/demo");
    for config in ["grpo.toml", "grpo-actfocus.toml"] {
        let output = Command::new(env!("CARGO_BIN_EXE_accredit"))
            .args(["credit", "--show", "--color", "always", "--config"])
            .arg(configs.join(config))
            .arg("--rollouts")
            .arg(configs.join("rollouts.jsonl"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("\u{1b}[48;2;40;"), "{text}");
    }
}
