//! `[environment]`: what is played, and what happens when it breaks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;

/// What is played. Keys that are not listed here belong to the environment, which checks them itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The environment's name in the registry.
    pub name: String,
    /// Threads that step environments; 0 means as many as `run.threads`.
    #[serde(default)]
    #[schemars(range(max = 4096))]
    pub threads: usize,
    /// How long one step may take before the episode counts as failed.
    #[serde(default = "timeout_seconds")]
    #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0))]
    pub timeout_seconds: f64,
    /// The run stops when a larger share of an iteration's episodes has failed.
    #[serde(default = "max_failed_share")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_failed_share: f64,
    /// What becomes of a failed episode.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The environment's own keys.
    #[serde(flatten)]
    pub parameters: Parameters,
}

/// What becomes of a failed episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is played again.
    #[default]
    Replace,
    /// Its group is smaller by one.
    LeaveOut,
}

fn timeout_seconds() -> f64 {
    60.0
}

fn max_failed_share() -> f64 {
    0.5
}
