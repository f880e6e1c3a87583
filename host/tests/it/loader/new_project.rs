//! `accredit plugin new`: a project outside the workspace is built, tested, and loaded into this program.

use std::{fs, path::Path};

use accredit::plugin::{Library, SearchPath, create_project};
use serde_json::json;

use super::{advantage, scheme};
use crate::plugins;

#[test]
fn a_new_project_builds_passes_its_own_tests_and_is_loaded_by_this_program() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("turn-mean");
    create_project(&folder, "turn-mean", None).unwrap();
    // Nothing is fetched: the versions are those of this workspace.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    fs::copy(lock, folder.join("Cargo.lock")).unwrap();
    // Outside of the scratch folder, so that the dependencies are built once and not at every run.
    let target = plugins::target_folder().join("new-project");
    for command in ["build", "test"] {
        let mut cargo = plugins::cargo();
        cargo.current_dir(&folder).args([command, "--offline", "--target-dir"]).arg(&target);
        plugins::run(&mut cargo);
    }

    let path = SearchPath::of_folders([target.join("debug")]);
    let (library, name) = path.open("turn-mean", &folder, None).unwrap();
    assert_eq!(library.inspected().name, "accredit-turn-mean");
    let mut mine = scheme(&library, &name, &json!({ "scale": 2.0 }));
    assert_eq!(advantage(&mut mine), [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]);
    assert_eq!(mine.take_metrics(), [("group_mean".to_owned(), 0.5)]);
    let built = target.join("debug/libaccredit_turn_mean.so");
    assert_eq!(Library::load(&built, None).unwrap().describe(), library.describe());
}
