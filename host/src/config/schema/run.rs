//! `[run]`, `[evaluation]`, `[checkpoint]` and `[plugins]`: the housekeeping of a run.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;

/// What the run is called, where it writes, and on how many threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The name of the run and of its folder; left out, the name of the configuration file and the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The folder in which the run's own folder is made.
    pub folder: PathBuf,
    /// Threads of the model's kernels. Fixed and recorded, since the last bits of a sum depend on it.
    #[schemars(range(min = 1, max = 256))]
    pub threads: usize,
    /// Which rollouts are written to the run folder.
    pub rollouts: KeepRollouts,
}

impl Default for Run {
    fn default() -> Self {
        Self { name: None, folder: PathBuf::from("runs"), threads: 1, rollouts: KeepRollouts::All }
    }
}

/// Which rollouts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeepRollouts {
    /// Every trajectory.
    All,
    /// The best and the worst trajectory of each group.
    Sample,
    /// None.
    None,
}

/// Held-out tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Evaluation {
    /// Iterations between evaluations; 0 means never.
    pub every: u64,
    /// How many held-out tasks are played, each once.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tasks: usize,
    /// The sampling temperature; 0 takes the likeliest token.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub temperature: f64,
    /// The seed of the held-out tasks. It does not depend on the run's seed, so runs are compared on the same tasks.
    pub seed: u64,
    /// The environment's own keys that are different here, such as `split`.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub environment: Parameters,
}

impl Default for Evaluation {
    fn default() -> Self {
        Self { every: 10, tasks: 128, temperature: 1.0, seed: 0, environment: Parameters::new() }
    }
}

/// What is saved, and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoint {
    /// Iterations between checkpoints.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// How many of the latest checkpoints are kept.
    #[schemars(range(min = 1))]
    pub keep: usize,
    /// The policy of the evaluation with the highest success is kept as well, as a model folder `best`.
    pub best: bool,
    /// Files are written while training goes on. Until they are there, the copied numbers take 12 more bytes of memory for
    /// each weight of the policy and of a critic, and 4 for each weight of a teacher.
    pub background: bool,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self { every: 10, keep: 2, best: true, background: true }
    }
}

/// Where plugins are looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plugins {
    /// Folders that are searched before the program's own, in this order.
    pub path: Vec<PathBuf>,
}
