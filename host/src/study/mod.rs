//! Studies: configurations (arms) times seeds, run side by side as processes of their own, and what came out of them.
//!
//! [`Study::read`] reads the file that describes one, [`runs`] runs what is not done yet, [`report`] reads the metrics of
//! all runs. A study that was stopped goes on where it was: a run that is done is not run again, and one that was
//! interrupted is resumed.

mod interval;
pub mod report;
pub mod runs;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{ConfigError, Document, Loaded, near::nearest};

static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(|| schemars::schema_for!(Study).to_value());

/// A study, as its file says it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its name and that of its folder; the name of the file if left out.
    #[serde(default)]
    pub name: String,
    /// The folder in which the study's own folder is made.
    #[serde(default = "runs_folder")]
    pub folder: PathBuf,
    /// The seeds with which each arm is run.
    pub seeds: Vec<u64>,
    /// Keys that every run is given, such as `iterations=40`.
    #[serde(default, rename = "set")]
    pub sets: Vec<String>,
    /// Metrics that the report follows over the iterations.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// What the policy of a seed is made by, once for all arms; without it each run makes its own.
    pub start: Option<Start>,
    /// The configurations to compare.
    #[serde(default, rename = "arm")]
    pub arms: Vec<Arm>,
    /// Where all this is written.
    #[serde(skip)]
    written: Document,
}

/// A configuration whose warm start gives all arms of a seed their policy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The configuration, relative to the study's file.
    pub config: PathBuf,
    /// Keys that it is given.
    #[serde(default, rename = "set")]
    pub sets: Vec<String>,
}

/// One configuration of a study.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The configuration, relative to the study's file.
    pub config: PathBuf,
    /// What it is called; the name of the configuration if left out.
    #[serde(default)]
    pub name: String,
    /// Keys that it is given.
    #[serde(default, rename = "set")]
    pub sets: Vec<String>,
    /// The arm that it is compared with, seed by seed.
    pub baseline: Option<String>,
}

fn runs_folder() -> PathBuf {
    PathBuf::from("runs")
}

impl Study {
    /// Reads a study and checks it. The configurations of its arms are read when they are to be run.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let (written, mut study): (Document, Self) = Document::read(file, &SCHEMA)?;
        study.written = written;
        let base = file.parent().unwrap_or(Path::new(""));
        study.name = named(&study.name, file);
        for arm in &mut study.arms {
            arm.name = named(&arm.name, &arm.config);
            arm.config = base.join(&arm.config);
        }
        if let Some(start) = &mut study.start {
            start.config = base.join(&start.config);
        }
        study.check()?;
        Ok(study)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |path: &str, message: String, hint: &str| {
            Err(self.written.error_at(path, message, Some(hint).filter(|hint| !hint.is_empty()).map(str::to_owned)))
        };
        if self.seeds.is_empty() {
            return wrong("seeds", "a study needs a seed at least".to_owned(), "write `seeds = [1, 2, 3]`");
        }
        if self.arms.is_empty() {
            let hint = "write `[[arm]]`, and below it `config = \"grpo.toml\"`, for each configuration to compare";
            return wrong("arm", "a study needs an `[[arm]]` at least".to_owned(), hint);
        }
        if let Some(twice) = duplicate(&self.seeds) {
            let message = format!("the seed {} stands in `seeds` twice", self.seeds[twice]);
            return wrong(&format!("seeds[{twice}]"), message, "leave one of them out");
        }
        let folder = "it is the name of a folder, so it has no `/` and does not begin with `start`";
        let fits =
            |name: &str| Path::new(name).file_name().is_some_and(|last| last == name) && !name.starts_with(runs::START);
        if !fits(&self.name) {
            return wrong("name", format!("a study cannot be called `{}`", self.name), folder);
        }
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        if let Some(twice) = duplicate(&names) {
            let message = format!("two arms are called `{}`", names[twice]);
            return wrong(&self.naming(twice), message, "give this one another `name`");
        }
        for (index, arm) in self.arms.iter().enumerate() {
            if !fits(&arm.name) {
                return wrong(&self.naming(index), format!("an arm cannot be called `{}`", arm.name), folder);
            }
            let Some(baseline) = arm.baseline.as_deref() else { continue };
            let path = format!("arm[{index}].baseline");
            if baseline == arm.name {
                let message = format!("`{baseline}` is its own baseline");
                return wrong(&path, message, "name the arm that it is compared with, or leave `baseline` out");
            }
            if !names.contains(&baseline) {
                let message = format!("there is no arm `{baseline}`; the arms are {}", names.join(", "));
                let near = nearest(baseline, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
                return wrong(&path, message, &near.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The path of what an arm is named by.
    fn naming(&self, index: usize) -> String {
        let key = if self.written.has(&format!("arm[{index}].name")) { "name" } else { "config" };
        format!("arm[{index}].{key}")
    }

    /// The study's folder.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// What `whose`, an arm or the start, runs with one seed.
    fn load(&self, whose: &str, config: &Path, sets: &[String], name: &str, seed: u64) -> Result<Loaded, ConfigError> {
        self.written.check_file(&format!("{whose}.config"), config)?;
        let sets: Vec<String> = self.sets.iter().chain(sets).cloned().chain(self.own_sets(name, seed)).collect();
        Loaded::read(&[config.to_owned()], &sets)
            .map_err(|error| self.written.with_sets(error, &[&format!("{whose}.set"), "set"], config))
    }

    fn own_sets(&self, name: &str, seed: u64) -> [String; 3] {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        [
            format!("seed={seed}"),
            format!("run.folder={}", text(&self.path().display().to_string())),
            format!("run.name={}", text(name)),
        ]
    }
}

/// A name, or else that of a file.
fn named(name: &str, file: &Path) -> String {
    if name.is_empty() { file.file_stem().unwrap_or_default().to_string_lossy().into_owned() } else { name.to_owned() }
}

/// The place of the first item that stands before it as well.
fn duplicate<T: PartialEq>(items: &[T]) -> Option<usize> {
    (0..items.len()).find(|index| items[..*index].contains(&items[*index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Study, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pairs.toml");
        std::fs::write(&file, text).unwrap();
        Study::read(&file)
    }

    #[test]
    fn names_come_from_files_and_paths_from_the_study_s_folder() {
        let study = read("seeds = [1]\n[[arm]]\nconfig = \"../lake/grpo.toml\"").unwrap();
        assert_eq!((study.name.as_str(), study.arms[0].name.as_str()), ("pairs", "grpo"));
        assert!(study.arms[0].config.ends_with("../lake/grpo.toml") && study.arms[0].config.is_absolute());
        assert_eq!(study.path(), Path::new("runs/pairs"));
    }

    #[test]
    fn what_does_not_fit_is_refused_at_its_place_with_a_hint() {
        let arm = "[[arm]]\nconfig = \"grpo.toml\"\n";
        for (text, message, place, hint) in [
            ("seeds = []\n".to_owned() + arm, "a study needs a seed at least", "1:1", "write `seeds = [1, 2, 3]`"),
            ("seeds = [1, 2, 1]\n".to_owned() + arm, "the seed 1 stands in `seeds` twice", "1:16", "leave one"),
            (format!("seeds = [1]\n{arm}{arm}"), "two arms are called `grpo`", "5:1", "another `name`"),
            ("seeds = [1]\n".to_owned(), "a study needs an `[[arm]]` at least", "1:1", "write `[[arm]]`"),
            (format!("{arm}baseline = \"grop\""), "this file lacks `seeds`", "1:1", "an array of integers"),
            (format!("seeds = [1]\n{arm}baseline = \"grop\""), "there is no arm `grop`", "4:1", "did you mean `grpo`?"),
            (format!("seeds = [1]\n{arm}baseline = \"grpo\""), "is its own baseline", "4:1", "leave `baseline` out"),
            (format!("seeds = [1]\n{arm}name = \"a/b\""), "an arm cannot be called `a/b`", "4:1", "has no `/`"),
            (format!("name = \"..\"\nseeds = [1]\n{arm}"), "a study cannot be called `..`", "1:1", "has no `/`"),
            (format!("sedes = [1]\nseeds = [1]\n{arm}"), "unknown key `sedes`", "1:1", "did you mean `seeds`?"),
            (format!("seeds = [\"1\"]\n{arm}"), "wrong type for `seeds[0]`", "1:10", "without quotes"),
            (format!("seeds = [-1]\n{arm}"), "`seeds[0]` is out of range: -1", "1:10", "an integer of at least 0"),
            ("seeds = [1]\n[[arm]]\nname = \"a\"".to_owned(), "`arm[0]` lacks `config`", "2:1", "a string"),
            ("seeds = [1]\n[arm]\nconfig = \"a\"".to_owned(), "wrong type for `arm`", "2:1", "write `[[arm]]`"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            let place = format!("pairs.toml:{place}\n");
            assert!([message, &place, hint].iter().all(|part| error.contains(part)) && error.contains('^'), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_configuration_is_shown_where_the_study_says_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        write("grpo.toml", "iterations = 2\n");
        let load = |arm: &str| {
            let study =
                Study::read(&write("pairs.toml", &format!("seeds = [1]\nset = [\"iteration=3\"]\n[[arm]]\n{arm}")));
            let study = study.unwrap();
            let arm = &study.arms[0];
            study.load("arm[0]", &arm.config, &arm.sets, "a", 1).unwrap_err().to_string()
        };
        let error = load("config = \"grop.toml\"");
        assert!(error.contains("pairs.toml:4:10\n") && error.contains("grpo.toml`?"), "{error}");
        let error = load("config = \"grpo.toml\"\nset = [\"rollout.groups=none\"]");
        for part in ["pairs.toml:2:9\n", "^^^^^^^^^\n", "did you mean `iterations`?", "pairs.toml:5:24\n", "grpo.toml"]
        {
            assert!(error.contains(part), "{part} is not in\n{error}");
        }
    }
}
