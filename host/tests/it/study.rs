//! `accredit study`, the program: two arms from one start, gone on with, and what is refused.

use std::fs;

use serde_json::Value;

use crate::training::{Bench, CONFIG};

const STUDY: &str = r#"
seeds = [3]
set = ["iterations=2", "evaluation.every=1"]
metrics = ["actor/grad_norm"]

[start]
config = "c.toml"

[[arm]]
config = "c.toml"
name = "both"

[[arm]]
config = "c.toml"
name = "alone"
set = ["credit.actfocus.params.alpha=1.0"]
baseline = "both"
"#;

#[test]
fn arms_share_their_start_and_a_study_goes_on_where_it_was() {
    let bench = Bench::new(CONFIG);
    let file = bench.path("").parent().unwrap().join("pairs.toml");
    fs::write(&file, STUDY).unwrap();
    let report = String::from_utf8(bench.run(&["study", "pairs.toml", "--jobs", "2"]).stdout).unwrap();
    for part in ["| both | 1 | ", "| alone | 1 | ", "(both) |", "`actor/grad_norm`"] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    let before = |run: &str| {
        let text = fs::read_to_string(bench.path("pairs").join(run).join("metrics.jsonl")).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        (line["before/val/success_rate"].clone(), line["episode/reward/mean"].clone())
    };
    assert_eq!(before("both-s3"), before("alone-s3"));

    // One run is lost; the other is not made again.
    let kept = bench.path("pairs/both-s3/metrics.jsonl");
    let (text, changed) = (fs::read_to_string(&kept).unwrap(), fs::metadata(&kept).unwrap().modified().unwrap());
    fs::remove_dir_all(bench.path("pairs/alone-s3")).unwrap();
    bench.run(&["study", "pairs.toml"]);
    assert!(bench.path("pairs/alone-s3/metrics.jsonl").is_file());
    assert_eq!((fs::read_to_string(&kept).unwrap(), fs::metadata(&kept).unwrap().modified().unwrap()), (text, changed));

    // Other settings under the same name would mix two studies.
    fs::write(&file, STUDY.replace("iterations=2", "iterations=3")).unwrap();
    let output = bench.command(&["study", "pairs.toml"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("other settings of iterations"), "{message}");
}

#[test]
fn a_run_that_fails_is_named_with_its_last_words_and_the_others_are_done() {
    let bench = Bench::new(CONFIG);
    let file = bench.path("").parent().unwrap().join("broken.toml");
    let long = STUDY
        .replace("[start]\nconfig = \"c.toml\"\n", "")
        .replace("set = [\"credit.actfocus.params.alpha=1.0\"]", "set = [\"credit.actfocus.plugin=./nowhere.so\"]");
    fs::write(&file, long).unwrap();
    let output = bench.command(&["study", "broken.toml"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("1 of the runs failed: alone-s3") && message.contains("nowhere.so"), "{message}");
    assert!(bench.path("broken/both-s3/metrics.jsonl").is_file());
}
