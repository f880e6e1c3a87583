//! `accredit device check`, on the CPU: what it compares, measures and resumes.

use std::process::Output;

use crate::training::Bench;

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[test]
fn the_cpu_agrees_with_itself_is_measured_and_resumes_bit_for_bit() {
    let bench = Bench::new(crate::training::CONFIG);
    let output = bench.run(&["device", "check", "c.toml", "--device", "cpu", "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["device"], "cpu");
    let parts = |name: &str| found["parts"][name].as_array().unwrap().clone();
    assert_eq!(parts("agreement").len(), 15);
    assert!(parts("speed").iter().all(|finding| finding["number"].as_f64().unwrap() > 0.0));
    let resumed = parts("run").pop().unwrap();
    assert_eq!((resumed["number"].as_f64(), resumed["limit"].as_f64()), (Some(0.0), Some(0.0)), "{resumed}");
}

#[test]
fn what_cannot_be_checked_is_refused_with_the_reason() {
    let bench = Bench::new("iterations = 0\n");
    let refused = |arguments: &[&str]| {
        let output = bench.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output)
    };
    let said = refused(&["device", "check", "c.toml", "--device", "cpu"]);
    assert!(said.contains("`accredit train c.toml") && said.contains("error: "), "{said}");
    let said = refused(&["device", "check", "--device", "gpu"]);
    assert!(said.contains("device `gpu`: expected auto, cpu, cuda or cuda:N"), "{said}");
}
