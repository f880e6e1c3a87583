//! The TOML examples in the manual pages of the plugins are configurations that load.

use std::{fs, path::Path};

use accredit::{
    config::Loaded,
    credit::{
        Supply,
        plan::{self, Gives},
    },
    plugin::{SearchPath, Services},
};

use crate::plugins::{library, target_folder};

/// The blocks of TOML in a crate's documentation.
fn examples(source: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in source.lines().filter_map(|line| line.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        match (&mut block, line.trim()) {
            (None, "```toml") => block = Some(String::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(text), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

#[test]
fn every_manual_page_has_an_example_that_loads() {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    let mut folders: Vec<String> = Vec::new();
    for entry in fs::read_dir(&plugins).unwrap() {
        let path = entry.unwrap().path();
        if path.join("src/lib.rs").is_file() {
            folders.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    folders.sort();
    assert!(folders.len() >= 4, "{folders:?}");
    for folder in &folders {
        library(&format!("accredit-{folder}"));
    }
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let search = SearchPath::of_folders([target_folder().join(profile)]);
    for folder in &folders {
        let source = fs::read_to_string(plugins.join(folder).join("src/lib.rs")).unwrap();
        let blocks = examples(&source);
        assert!(!blocks.is_empty(), "the manual page of `{folder}` has no TOML example");
        for block in blocks {
            let loaded =
                Loaded::from_text(Path::new(folder), block).unwrap_or_else(|error| panic!("{folder}: {error}"));
            loaded.for_training().unwrap_or_else(|error| panic!("{folder}: {error}"));
            let supply = Supply::playing(
                Gives { states: true, answers: true, judgements: loaded.config.judge.is_some() },
                loaded.config.rollout.group_size,
            );
            plan::load(&loaded, &search, &supply, Services::default())
                .unwrap_or_else(|error| panic!("{folder}: {error}"));
        }
    }
}
