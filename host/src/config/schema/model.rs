//! `[model]`: the policy, from a folder or from nothing.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The policy: exactly one of `path` and `create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// A Hugging Face model folder, or a folder of an adapter as PEFT writes it, which is then trained on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A new model with random weights, and its sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<Create>,
    /// Where the model runs: `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// What it computes with. What is trained is kept in f32 whatever this is.
    pub dtype: DType,
    /// Beginnings of the names of weights that are not trained, such as `model.embed_tokens` or `model.layers.*.mlp`,
    /// where `*` stands for any one part of a name. They take neither gradient nor moments, and copies share them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<String>,
    /// Trains a low-rank adapter beside the weights, which stay as they are and are shared with the frozen reference. A
    /// warm start still trains the weights; the adapter begins after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// `bfloat16` on a GPU and `float32` on a CPU, where `bfloat16` is slower.
    #[default]
    Auto,
    /// 32 bits.
    Float32,
    /// 16 bits: half the memory and more speed on a GPU, and three digits.
    Bfloat16,
}

/// A low-rank adapter (Hu et al. 2021, arXiv:2106.09685), saved as PEFT saves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lora {
    /// Width of the adapter.
    #[schemars(range(min = 1, max = 65_536))]
    pub rank: usize,
    /// What the adapter gives counts `alpha / rank` times.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
    /// Which matrices of every layer have one: `"all-linear"`, or names out of `q_proj`, `k_proj`, `v_proj`, `o_proj`,
    /// `gate_proj`, `up_proj` and `down_proj`.
    pub targets: Targets,
}

impl Default for Lora {
    fn default() -> Self {
        Self { rank: 32, alpha: 32.0, targets: Targets::AllLinear }
    }
}

/// Matrices that have an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TargetsText", into = "TargetsText")]
#[schemars(with = "TargetsText")]
pub enum Targets {
    /// All of them.
    AllLinear,
    /// Those of these names.
    Only(Vec<String>),
}

/// Names of targets.
pub const TARGETS: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// [`Targets`] as they are written.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TargetsText {
    Word(String),
    Names(Vec<String>),
}

impl TryFrom<TargetsText> for Targets {
    type Error = String;

    fn try_from(text: TargetsText) -> Result<Self, String> {
        match text {
            TargetsText::Word(word) if word == "all-linear" => Ok(Self::AllLinear),
            TargetsText::Word(word) => Err(format!("expected \"all-linear\" or a list of names, found \"{word}\"")),
            TargetsText::Names(names) => match names.iter().find(|name| !TARGETS.contains(&name.as_str())) {
                Some(name) => Err(format!("\"{name}\" is not one of {}", TARGETS.join(", "))),
                None if names.is_empty() => Err("expected at least one name".to_owned()),
                None => Ok(Self::Only(names)),
            },
        }
    }
}

impl From<Targets> for TargetsText {
    fn from(targets: Targets) -> Self {
        match targets {
            Targets::AllLinear => Self::Word("all-linear".to_owned()),
            Targets::Only(names) => Self::Names(names),
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self { path: None, create: None, device: "auto".to_owned(), dtype: DType::Auto, frozen: Vec::new(), lora: None }
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
