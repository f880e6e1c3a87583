//! The folder of a run: its resolved configuration, versions, metrics, rollouts, checkpoints and log.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// A run's folder.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of a new run, `name` in `parent`. One that is there already is refused: nothing is overwritten.
    pub fn create(parent: &Path, name: &str) -> Result<Self> {
        let plain = Path::new(name).file_name().is_some_and(|last| last == name);
        if !plain {
            bail!("`{name}` cannot name a run: it is the name of a folder in `run.folder`, without `/`");
        }
        let path = parent.join(name);
        if path.exists() {
            bail!(
                "{} is there already; choose another `run.name`, or go on with `accredit resume {}`",
                path.display(),
                path.display()
            );
        }
        let folder = Self { path };
        for part in [folder.checkpoints(), folder.rollouts()] {
            fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        Ok(folder)
    }

    /// Locks the folder until the file is dropped, so that two processes never work in one run.
    pub fn lock(&self) -> Result<File> {
        let path = self.path.join("run.lock");
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => bail!("{}: another process works on this run", self.path.display()),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// Keeps the resolved configuration of the iterations before `iteration` beside the one that is about to be written.
    pub fn keep_config(&self, iteration: u64) -> Result<()> {
        let kept = self.path.join(format!("config.until_{iteration:06}.toml"));
        fs::copy(self.config(), &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        Ok(())
    }

    /// Removes the folder with all that is in it: of a run that has nothing to go on from yet.
    pub fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }

    /// The folder of a run that was started before.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Self::at(path);
        if !folder.config().is_file() {
            bail!("{} is no run folder: it has no config.resolved.toml", path.display());
        }
        Ok(folder)
    }

    /// The folder of a run that may not be there yet.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved configuration.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.resolved.toml")
    }

    /// Versions, hashes, threads, command line.
    pub fn environment(&self) -> PathBuf {
        self.path.join("environment.json")
    }

    /// One line for each iteration.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.path.join("run.log")
    }

    /// The checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The policy of the best evaluation.
    pub fn best(&self) -> PathBuf {
        self.path.join("best")
    }

    /// The frozen reference: the policy as it was before the first iteration.
    pub fn reference(&self) -> PathBuf {
        self.path.join("reference")
    }

    /// What lies under the policy's adapter, where it has one.
    pub fn base(&self) -> PathBuf {
        self.path.join("base")
    }

    /// The tokenizer that was made for a new model, while there is no checkpoint yet.
    pub fn tokenizer(&self) -> PathBuf {
        self.path.join("tokenizer")
    }

    fn rollouts(&self) -> PathBuf {
        self.path.join("rollouts")
    }

    /// The rollouts of an iteration.
    pub fn rollouts_of(&self, iteration: u64) -> PathBuf {
        self.rollouts().join(format!("{iteration:06}.jsonl"))
    }
}
