//! Checkpoints: everything that a run needs to go on bit for bit. A checkpoint is written aside, synced and renamed, so
//! that one that is there is whole, whatever kills the run.

mod best;
mod schemes;
mod writer;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use accredit_torch::{Moments, Optimizer, Snapshot};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

pub use best::Best;
pub use schemes::Fate;
pub use writer::Writer;

use crate::{credit::Pipeline, critic};

/// Version of the files' meaning.
const VERSION: u32 = 2;
/// Folder of a checkpoint that holds the policy.
const MODEL: &str = "model";
/// Folder of a checkpoint that holds the teachers.
const TEACHERS: &str = "teachers";
/// The policy's optimiser.
const OPTIMIZER: &str = "optimizer.safetensors";
/// Where the run stands; written last.
const PROGRESS: &str = "progress.json";
/// End of the name of a checkpoint that is being written.
const PARTIAL: &str = ".partial";
/// Folder of the critic.
const CRITIC: &str = "critic";
/// The resolved configuration that a checkpoint was made with.
const CONFIG: &str = "config.resolved.toml";
/// What a checkpoint in the middle of an iteration holds of it.
const UNFINISHED: &str = "unfinished.bin";
/// Files of a model folder that belong to the tokenizer, copied as they are.
const TOKENIZER_FILES: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
];

/// Where a run stands, beside weights and moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    version: u32,
    /// The iteration to play next, or in whose middle the run is.
    pub iteration: u64,
    /// Optimiser steps taken.
    pub update: u64,
    schemes: Vec<schemes::Saved>,
}

/// A checkpoint on disk.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// Where the run stood.
    pub progress: Progress,
}

impl Checkpoint {
    /// The policy as a Hugging Face folder.
    pub fn model(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// The folder of the teachers; not there if the run had none.
    pub fn teachers(&self) -> PathBuf {
        self.path.join(TEACHERS)
    }

    /// The folder of the critic, which is there only if the run has one.
    pub fn critic(&self) -> PathBuf {
        self.path.join(CRITIC)
    }

    /// The newest whole checkpoint of a run.
    pub fn latest(checkpoints: &Path) -> Result<Self> {
        let mut found: Vec<PathBuf> = list(checkpoints)?;
        let Some(path) = found.pop() else {
            bail!("{} holds no checkpoint", checkpoints.display());
        };
        let file = path.join(PROGRESS);
        let text = fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))
            .with_context(|| damaged(&path))?;
        let progress: Progress = serde_json::from_str(&text)
            .with_context(|| format!("{} is broken", file.display()))
            .with_context(|| damaged(&path))?;
        if progress.version != VERSION {
            bail!("{}: version {} of a checkpoint, and this program reads {VERSION}", file.display(), progress.version);
        }
        Ok(Self { path, progress })
    }

    /// What it holds of the iteration in whose middle it was made; not there if it was made between two.
    pub fn unfinished(&self) -> PathBuf {
        self.path.join(UNFINISHED)
    }

    /// What to say of a file in it that cannot be read.
    pub fn damaged(&self) -> String {
        damaged(&self.path)
    }

    /// The configuration that it was made with.
    pub fn config(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    /// Restores the optimiser and the schemes, and says what became of each scheme's state.
    pub fn restore(&self, optimizer: &mut Optimizer, pipeline: &mut Pipeline) -> Result<Vec<(String, Fate)>> {
        optimizer.load(&self.path.join(OPTIMIZER)).with_context(|| self.damaged())?;
        schemes::restore(&self.progress.schemes, pipeline)
    }
}

fn damaged(checkpoint: &Path) -> String {
    format!(
        "a file of the checkpoint in {} is damaged; remove that folder to go on from the one before it",
        checkpoint.display()
    )
}

/// All of a checkpoint but the policy, at one moment.
#[derive(Debug)]
pub struct Numbers {
    /// The policy's optimiser.
    pub optimizer: Moments,
    /// The teachers, with the names of their folders.
    pub teachers: Vec<(String, Snapshot)>,
    /// The critic, where there is one.
    pub critic: Option<critic::Saved>,
    /// Where the run stands.
    pub progress: Progress,
    /// What it holds of an unfinished iteration, and how many of its minibatches are done.
    pub unfinished: Option<(u64, Vec<u8>)>,
    /// The resolved configuration.
    pub config: String,
}

impl Progress {
    /// Where a run stands, with what its schemes remember.
    pub fn of(iteration: u64, update: u64, pipeline: &mut Pipeline) -> Result<Self> {
        Ok(Self { version: VERSION, iteration, update, schemes: schemes::save(pipeline)? })
    }
}

/// Writes a checkpoint and removes the oldest ones beyond `keep`.
pub fn write(policy: &Snapshot, numbers: &Numbers, checkpoints: &Path, keep: usize, tokenizer: &Path) -> Result<()> {
    let iteration = numbers.progress.iteration;
    let path = match &numbers.unfinished {
        None => path_of(checkpoints, iteration),
        // Sorted after the checkpoint of the iteration's beginning, and before that of the next one's.
        Some((done, _)) => checkpoints.join(format!("iteration_{iteration:06}_minibatch_{done:06}")),
    };
    let aside = checkpoints.join(format!(".{}{PARTIAL}", path.file_name().unwrap_or_default().display()));
    if aside.exists() {
        fs::remove_dir_all(&aside).with_context(|| format!("cannot remove {}", aside.display()))?;
    }
    let folder = aside.join(MODEL);
    policy.save(&folder)?;
    copy_tokenizer(tokenizer, &folder)?;
    for (name, teacher) in &numbers.teachers {
        teacher.save(&aside.join(TEACHERS).join(name))?;
    }
    numbers.optimizer.save(&aside.join(OPTIMIZER))?;
    if let Some(critic) = &numbers.critic {
        critic.save(&aside.join(CRITIC))?;
    }
    let put = |name: &str, bytes: &[u8]| {
        let file = aside.join(name);
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))
    };
    if let Some((_, bytes)) = &numbers.unfinished {
        put(UNFINISHED, bytes)?;
    }
    put(CONFIG, numbers.config.as_bytes())?;
    put(PROGRESS, format!("{}\n", serde_json::to_string_pretty(&numbers.progress)?).as_bytes())?;
    sync(&aside)?;
    if path.exists() {
        fs::remove_dir_all(&path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    fs::rename(&aside, &path).with_context(|| format!("cannot write {}", path.display()))?;
    sync_folder(checkpoints)?;
    let mut all = list(checkpoints)?;
    all.truncate(all.len().saturating_sub(keep.max(1)));
    for old in all {
        fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(())
}

/// Removes what is left of checkpoints that were being written when a run ended.
pub fn remove_partial(checkpoints: &Path) -> Result<()> {
    for entry in fs::read_dir(checkpoints).with_context(|| format!("cannot read {}", checkpoints.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", checkpoints.display()))?.path();
        if path.is_dir() && path.to_string_lossy().ends_with(PARTIAL) {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn path_of(checkpoints: &Path, iteration: u64) -> PathBuf {
    checkpoints.join(format!("iteration_{iteration:06}"))
}

/// Where the policy of an iteration is, if its checkpoint is kept.
pub fn model_of(checkpoints: &Path, iteration: u64) -> PathBuf {
    path_of(checkpoints, iteration).join(MODEL)
}

/// Copies the tokenizer's files into a model folder.
pub fn copy_tokenizer(from: &Path, to: &Path) -> Result<()> {
    for name in TOKENIZER_FILES {
        let source = from.join(name);
        if source.is_file() {
            let target = to.join(name);
            fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    Ok(())
}

/// Whole checkpoints, oldest first.
fn list(checkpoints: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(checkpoints).with_context(|| format!("cannot read {}", checkpoints.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", checkpoints.display()))?.path();
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("iteration_"));
        if named && path.join(PROGRESS).is_file() {
            found.push(path);
        } else if named {
            tracing::warn!("{} has no progress.json and is passed over", path.display());
        }
    }
    found.sort();
    Ok(found)
}

fn sync(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            sync(&path)?;
        } else {
            let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            file.sync_all().with_context(|| format!("cannot sync {}", path.display()))?;
        }
    }
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> Result<()> {
    let file = File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    file.sync_all().with_context(|| format!("cannot sync {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_checkpoint_is_none() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".iteration_000004.partial")).unwrap();
        fs::create_dir(folder.path().join("iteration_000003")).unwrap();
        let error = Checkpoint::latest(folder.path()).unwrap_err().to_string();
        assert!(error.contains("holds no checkpoint"), "{error}");
    }
}
