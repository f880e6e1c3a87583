//! Several plugins in one process, and one plugin several times.

use std::fs;

use accredit::plugin::Library;
use accredit_plugin_api::Hook;
use serde_json::json;

use super::{advantage, call, check_harmless, misbehave, scheme};
use crate::plugins;

#[test]
fn a_copy_a_link_and_the_file_itself_load_in_any_order() {
    let original = plugins::library("accredit-misbehave");
    let folder = tempfile::tempdir().unwrap();
    let (copy, link) = (folder.path().join("another name.so"), folder.path().join("liblink.so"));
    fs::copy(&original, &copy).unwrap();
    std::os::unix::fs::symlink(&copy, &link).unwrap();
    for path in [&link, &original, &copy, &link, &original] {
        check_harmless(path);
    }
}

#[test]
fn different_plugins_live_side_by_side() {
    let packages = ["accredit-grpo", "accredit-misbehave", "accredit-actfocus"];
    let load = |package: &str| Library::load(&plugins::library(package), None).unwrap();
    let forth = packages.map(load);
    let mut back = packages;
    back.reverse();
    let mut back = back.map(load);
    back.reverse();
    for ((package, first), again) in packages.iter().zip(&forth).zip(&back) {
        assert_eq!(first.inspected().name, *package);
        assert_eq!(first.describe(), again.describe());
        let short = first.inspected().short_name();
        let names: Vec<&str> = first.describe().schemes.iter().map(|scheme| scheme.name.as_str()).collect();
        assert!(names.contains(&short), "{short} in {names:?}");
    }
}

#[test]
fn one_library_twice_gives_schemes_that_share_nothing() {
    let (first, second) = (misbehave(), misbehave());
    let state = json!({ "mode": "state" });
    let mut counts = scheme(&first, "misbehave", &state);
    let mut counts_too = scheme(&second, "misbehave", &state);
    let mut outcomes = scheme(&first, "misbehave", &json!({}));
    let mut panics = scheme(&second, "misbehave", &json!({ "mode": "panic" }));
    assert_eq!(advantage(&mut counts), [1.0; 6]);
    assert_eq!(advantage(&mut counts), [2.0; 6]);
    call(&mut panics, Hook::Advantage).unwrap_err();
    assert_eq!(advantage(&mut counts_too), [1.0; 6]);
    assert_eq!(advantage(&mut outcomes), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_scheme_outlives_the_library_value_and_moves_between_threads() {
    let mut scheme = scheme(&misbehave(), "harmless", &json!({}));
    let handle = std::thread::spawn(move || advantage(&mut scheme));
    assert_eq!(handle.join().unwrap(), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_library_says_what_it_holds() {
    let library = misbehave();
    let schemes = &library.describe().schemes;
    let names: Vec<&str> = schemes.iter().map(|scheme| scheme.name.as_str()).collect();
    assert_eq!(names, ["misbehave", "harmless", "value-baseline", "promises"]);
    assert_eq!(schemes[0].about, "Goes wrong on demand.");
    let seconds = &schemes[0].params["properties"]["seconds"];
    assert_eq!(seconds["description"], "How long `sleep` lasts.");
    assert_eq!(seconds["default"], 1.0);
    assert_eq!(seconds["minimum"], 0.0);
    let inspected = library.inspected();
    assert_eq!(inspected.version, "0.1.0");
    assert!(inspected.compiler.starts_with("rustc "));
    assert!(inspected.target.contains(std::env::consts::ARCH));
    assert_eq!(inspected.sha256.len(), 64);
}
