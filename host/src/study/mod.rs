//! Studies: configurations (arms) times seeds, run side by side as processes of their own, and what came out of them.
//!
//! [`Study::read`] reads the file that describes one, [`runs`] runs what is not done yet, [`report`] reads the metrics of
//! all runs. A study that was stopped goes on where it was: a run that is done is not run again, and one that was
//! interrupted is resumed.

mod interval;
pub mod report;
pub mod runs;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::config::Loaded;

/// A study, as its file says it.
#[derive(Clone, Debug, Deserialize)]
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
}

/// A configuration whose warm start gives all arms of a seed their policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The configuration, relative to the study's file.
    pub config: PathBuf,
    /// Keys that it is given.
    #[serde(default, rename = "set")]
    pub sets: Vec<String>,
}

/// One configuration of a study.
#[derive(Clone, Debug, Deserialize)]
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
    /// Reads a study and checks it, with the configurations of all its arms.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut study: Self =
            toml::from_str(&text).map_err(|error| anyhow::anyhow!("{} is no study: {error}", file.display()))?;
        let base = file.parent().unwrap_or(Path::new(""));
        study.name = named(&study.name, file);
        for arm in &mut study.arms {
            arm.name = named(&arm.name, &arm.config);
            arm.config = base.join(&arm.config);
        }
        if let Some(start) = &mut study.start {
            start.config = base.join(&start.config);
        }
        study.check().with_context(|| file.display().to_string())?;
        Ok(study)
    }

    fn check(&self) -> Result<()> {
        if self.seeds.is_empty() || self.arms.is_empty() {
            bail!("a study needs `seeds` and at least one `[[arm]]` with a `config`");
        }
        if let Some(twice) = duplicate(&self.seeds) {
            bail!("the seed {twice} stands in `seeds` twice");
        }
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        if let Some(twice) = duplicate(&names) {
            bail!("two arms are called `{twice}`; give one of them another `name`");
        }
        for name in names.iter().copied().chain([self.name.as_str()]) {
            if Path::new(name).file_name().is_none_or(|last| last != name) || name.starts_with(runs::START) {
                bail!("`{name}` names a folder here, so it is a name without `/` that does not begin with `start`");
            }
        }
        for arm in &self.arms {
            if let Some(baseline) = arm.baseline.as_deref().filter(|baseline| !names.contains(baseline)) {
                bail!("the baseline of `{}` is `{baseline}`, and the arms are {}", arm.name, names.join(", "));
            }
        }
        Ok(())
    }

    /// The study's folder.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// What one arm runs with one seed.
    fn load(&self, config: &Path, sets: &[String], name: &str, seed: u64) -> Result<Loaded> {
        let sets: Vec<String> = self.sets.iter().chain(sets).cloned().chain(self.own_sets(name, seed)).collect();
        Ok(Loaded::read(&[config.to_owned()], &sets)?)
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

fn duplicate<T: PartialEq>(items: &[T]) -> Option<&T> {
    items.iter().enumerate().find(|(index, item)| items[..*index].contains(item)).map(|(_, item)| item)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Study> {
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
    fn what_does_not_fit_is_refused_with_the_place() {
        let arm = "[[arm]]\nconfig = \"grpo.toml\"\n";
        for (text, expected) in [
            ("seeds = []\n".to_owned() + arm, "a study needs `seeds`"),
            ("seeds = [1, 2, 1]\n".to_owned() + arm, "the seed 1 stands in `seeds` twice"),
            (format!("seeds = [1]\n{arm}{arm}"), "two arms are called `grpo`"),
            (format!("seeds = [1]\n{arm}baseline = \"ppo\""), "the baseline of `grpo` is `ppo`, and the arms are grpo"),
            (format!("seeds = [1]\n{arm}name = \"a/b\""), "a name without `/`"),
            (format!("seed = [1]\n{arm}"), "unknown field `seed`"),
        ] {
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(error.contains(expected) && error.contains("pairs.toml"), "{error}");
        }
    }
}
