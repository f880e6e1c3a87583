//! `accredit plugin check`: it finds a planted bug of each kind, and accuses no plugin that is shipped.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use accredit::{
    conformance::{self, Report},
    plugin::Library,
};
use serde_json::{Value, json};

use crate::plugins::library;

fn reports(package: &str, parameters: &Value) -> Vec<Report> {
    let library = Library::load(&library(package), None).unwrap();
    let names: Vec<String> = library.describe().schemes.iter().map(|described| described.name.clone()).collect();
    names.iter().map(|name| conformance::check(&library, name, parameters).unwrap()).collect()
}

/// The check in whose name a report's scheme was planted, if one was.
fn planted(scheme: &str) -> Option<&str> {
    let (check, number) = scheme.rsplit_once('-')?;
    number.parse::<u32>().is_ok().then_some(check)
}

#[test]
fn a_planted_bug_of_each_kind_is_found_and_nothing_sound_is_accused() {
    let mut found = Vec::new();
    for report in reports("accredit-planted", &json!({})) {
        let bad: Vec<&str> = report.verdicts.iter().filter(|verdict| verdict.is_bad()).map(|v| v.check).collect();
        match planted(&report.scheme) {
            None => assert!(bad.is_empty(), "{}", report.text()),
            Some(check) => {
                assert!(bad.contains(&check), "{}", report.text());
                found.push(check.to_owned());
            }
        }
    }
    found.dedup();
    let all = [
        "numbers",
        "declared",
        "gaps",
        "order",
        "other-groups",
        "equal-outcomes",
        "cut",
        "left-out",
        "derivative",
        "coverage",
        "state",
    ];
    assert_eq!(found, all);
}

#[test]
fn what_fails_is_shown_with_the_smallest_batch_in_which_it_does() {
    let report = reports("accredit-planted", &json!({})).into_iter().find(|report| report.scheme == "cut-1").unwrap();
    let verdict = report.verdicts.iter().find(|verdict| verdict.check == "cut").unwrap();
    let batch = verdict.batch.as_deref().unwrap();
    // Two trajectories of one token each.
    assert!(
        batch.starts_with("tokens by step {[1]} {[1]},") || batch.starts_with("tokens by step {[1] [1]},"),
        "{batch}"
    );
    let text = report.text();
    assert!(text.contains("cut             objective  FAILED") && text.contains(batch), "{text}");
}

#[test]
fn every_shipped_scheme_passes_or_says_why_not() {
    let mut schemes = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
        if !manifest.contains("\"cdylib\"") || name == "golden" {
            continue;
        }
        for report in reports(&format!("accredit-{name}"), &json!({})) {
            schemes += 1;
            assert!(report.bad() == 0, "{}", report.text());
            let needless =
                report.verdicts.iter().find(|verdict| verdict.failed.is_none() && verdict.exception.is_some());
            assert!(needless.is_none(), "an exception that nothing needs: {needless:?}");
        }
    }
    assert!(schemes > 20, "{schemes}");
}

#[test]
fn other_parameters_pass_as_well() {
    for (package, parameters) in [
        ("grpo", json!({ "over": "rows" })),
        ("grpo", json!({ "std": false })),
        ("clip", json!({ "surrogate": "cispo" })),
        ("clip", json!({ "kl": "k3", "kl_coef": 0.1, "entropy_coef": 0.01 })),
        ("clip", json!({ "value_coef": 0.5 })),
        ("clip", json!({ "ratio": "step" })),
        ("normalize", json!({ "over": "group" })),
        ("reinforce", json!({ "whiten": false })),
        ("gae", json!({ "whiten": false })),
        ("sdpo", json!({ "form": "sampled" })),
    ] {
        let library = Library::load(&library(&format!("accredit-{package}")), None).unwrap();
        let report = conformance::check(&library, package, &parameters).unwrap();
        assert!(report.bad() == 0, "{parameters}: {}", report.text());
    }
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_accredit")).args(["plugin", "check"]).args(arguments).output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (status.code(), text)
}

#[test]
fn a_scheme_is_described_with_its_parameters_and_what_it_reads() {
    let gae = library("accredit-gae");
    let output = Command::new(env!("CARGO_BIN_EXE_accredit")).args(["plugin", "doc"]).arg(&gae).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for line in [
        "hooks           advantage\n",
        "writes          value targets, for a critic\n",
        "excepted        from the check `other-groups`, since advantages are whitened over the batch (`whiten`)\n",
        "  whiten (default true)\n",
        "  lambda (default ",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let arguments = ["plugin", "doc", gae.to_str().unwrap(), "--params", "{\"whiten\": false}"];
    let output = Command::new(env!("CARGO_BIN_EXE_accredit")).args(arguments).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("excepted"));
}

#[test]
fn the_command_reports_in_words_and_as_json_and_fails_where_a_check_does() {
    let planted = library("accredit-planted");
    let planted = planted.to_str().unwrap();
    let (code, text) = run(&[planted, "--scheme", "sound"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&[planted, "--scheme", "state-1"]);
    assert!(code == Some(1) && text.contains("FAILED") && text.contains("1 checks of"), "{text}");
    let (code, text) = run(&[planted, "--scheme", "sound", "--json"]);
    let reports: Value = serde_json::from_str(&text).unwrap();
    assert!(code == Some(0) && reports[0]["scheme"] == "sound" && reports[0]["verdicts"].as_array().unwrap().len() > 4);
    for (arguments, expected) in [
        (&["--scheme", "soud"][..], "Did you mean `sound`?"),
        (&["--scheme", "sound", "--params", "{"], "`--params` is no JSON"),
        (&["--scheme", "sound", "--params", "{\"x\": 1}"], "unknown field `x`"),
    ] {
        let (code, text) = run(&[&[planted][..], arguments].concat());
        assert!(code == Some(1) && text.contains(expected), "{text}");
    }
    let (code, text) = run(&["no-such-plugin"]);
    assert!(code == Some(1) && text.contains("no-such-plugin"), "{text}");
}
