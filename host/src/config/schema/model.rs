//! `[model]`: the policy, from a folder or from nothing.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The policy: exactly one of `path` and `create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// A Hugging Face model folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A new model with random weights, and its sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<Create>,
    /// Where the model runs: `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: String,
}

impl Default for Model {
    fn default() -> Self {
        Self { path: None, create: None, device: "auto".to_owned() }
    }
}

/// A family of models, by its `model_type` in `config.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Qwen2 and Qwen2.5.
    #[default]
    Qwen2,
    /// Qwen3.
    Qwen3,
    /// Llama 2 and 3, SmolLM2.
    Llama,
}

/// The family and the sizes of a new model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// The family.
    #[serde(default)]
    pub family: Family,
    /// Width of the residual stream.
    #[schemars(range(min = 1, max = 65_536))]
    pub hidden_size: usize,
    /// Width inside the feed-forward blocks.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub intermediate_size: usize,
    /// Transformer blocks.
    #[schemars(range(min = 1, max = 1024))]
    pub layers: usize,
    /// Attention heads; they divide `hidden_size` into even parts.
    #[schemars(range(min = 1, max = 1024))]
    pub heads: usize,
    /// Key and value heads; they divide `heads`.
    #[schemars(range(min = 1, max = 1024))]
    pub kv_heads: usize,
    /// The most tokens that its tokenizer may have.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub vocab_size: usize,
    /// The longest sequence, in tokens.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_positions: usize,
    /// The output projection is the embedding matrix.
    #[serde(default = "tied")]
    pub tied: bool,
    /// Standard deviation of the initial weights. A model of a few hundred thousand weights learns far faster from 0.1
    /// than from the usual 0.02.
    #[serde(default = "initializer_range")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub initializer_range: f64,
}

fn initializer_range() -> f64 {
    0.02
}

fn tied() -> bool {
    true
}
