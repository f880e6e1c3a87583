//! The policy of the evaluation with the highest success, as a model folder beside the checkpoints.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accredit_torch::Snapshot;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{copy_tokenizer, sync, sync_folder};

/// What the folder says of its policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Iterations that were done.
    pub iteration: u64,
    /// Success on the held-out tasks.
    #[serde(rename = "val/success_rate")]
    pub success: f64,
}

impl Best {
    fn file(folder: &Path) -> PathBuf {
        folder.join("best.json")
    }

    /// The best so far; none if nothing was kept, or if it cannot be read, so that the next one takes its place.
    fn of(folder: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(Self::file(folder)).ok()?).ok()
    }

    /// Whether the policy in `folder`, if there is one, is not as good.
    pub fn is_better(self, folder: &Path) -> bool {
        Self::of(folder).is_none_or(|best| best.success < self.success)
    }

    /// Keeps the policy in `folder`. What was there stays until the new one is whole.
    pub fn keep(self, folder: &Path, policy: &Snapshot, tokenizer: &Path) -> Result<()> {
        let (aside, old) = (folder.with_extension("partial"), folder.with_extension("old"));
        for rest in [&aside, &old].into_iter().filter(|rest| rest.exists()) {
            fs::remove_dir_all(rest).with_context(|| format!("cannot remove {}", rest.display()))?;
        }
        policy.save(&aside)?;
        copy_tokenizer(tokenizer, &aside)?;
        let file = Self::file(&aside);
        let text = format!("{}\n", serde_json::to_string_pretty(&self)?);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        sync(&aside)?;
        if folder.exists() {
            fs::rename(folder, &old).with_context(|| format!("cannot move {}", folder.display()))?;
        }
        fs::rename(&aside, folder).with_context(|| format!("cannot write {}", folder.display()))?;
        if let Some(parent) = folder.parent() {
            sync_folder(parent)?;
        }
        if old.exists() {
            fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use accredit_torch::{Device, Model, ModelConfig, Shape, SpecialIds};

    use super::*;

    #[test]
    fn only_a_better_policy_takes_the_place() {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, tokenizer) = (scratch.path().join("best"), scratch.path().join("tokenizer"));
        fs::create_dir(&tokenizer).unwrap();
        fs::write(tokenizer.join("tokenizer.json"), "{}").unwrap();
        let shape = Shape { vocab_size: 11, hidden_size: 8, intermediate_size: 8, layers: 1, ..Shape::default() };
        let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
        let kept: Vec<bool> = [0.5, 0.4, 0.5, 0.6]
            .into_iter()
            .zip(1..)
            .map(|(success, iteration)| {
                let policy = Model::create(config.clone(), iteration, Device::CPU).unwrap();
                let best = Best { iteration, success };
                let better = best.is_better(&folder);
                if better {
                    best.keep(&folder, &policy.snapshot(true).unwrap(), &tokenizer).unwrap();
                }
                better
            })
            .collect();
        assert_eq!(kept, [true, false, false, true]);
        assert_eq!(Best::of(&folder), Some(Best { iteration: 4, success: 0.6 }));
        assert!(folder.join("tokenizer.json").is_file());
        let fourth = Model::create(config, 4, Device::CPU).unwrap();
        fourth.save(&scratch.path().join("fourth")).unwrap();
        let weights = |folder: PathBuf| fs::read(folder.join("model.safetensors")).unwrap();
        assert_eq!(weights(folder), weights(scratch.path().join("fourth")));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 3);
    }
}
