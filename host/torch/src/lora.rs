//! Low-rank adapters (Hu et al. 2021, arXiv:2106.09685): beside a frozen matrix `W` a product `B A` of rank `r`, so that a
//! layer computes `W x + (alpha / r) B A x`. In folders as PEFT writes and reads them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::Shape;
use crate::error::{Error, Result};

const CONFIG_FILE: &str = "adapter_config.json";
/// The weights of an adapter.
pub(crate) const ADAPTER_FILE: &str = "adapter_model.safetensors";
/// What PEFT puts before the names of a causal language model.
pub(crate) const PREFIX: &str = "base_model.model.";

/// No matrix has more rows and columns.
const MOST_RANK: usize = 65_536;

/// Keys of PEFT that change what is computed, or the model that the adapter is for; refused where they say anything.
const UNSUPPORTED: [&str; 20] = [
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "fan_in_fan_out",
    "lora_bias",
    "rank_pattern",
    "alpha_pattern",
    "modules_to_save",
    "layers_to_transform",
    "layers_pattern",
    "layer_replication",
    "exclude_modules",
    "target_parameters",
    "trainable_token_indices",
    "alora_invocation_tokens",
    "megatron_config",
    "arrow_config",
    "corda_config",
    "loftq_config",
    "lora_ga_config",
];

/// Whether a key of a configuration says nothing.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(table) => table.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A matrix that may have an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// What attention gives.
    O,
    /// The gate of the feed-forward layer.
    Gate,
    /// Its way up.
    Up,
    /// Its way down.
    Down,
}

impl Target {
    /// All matrices of a layer, which PEFT calls `all-linear`.
    pub const ALL: [Self; 7] = [Self::Q, Self::K, Self::V, Self::O, Self::Gate, Self::Up, Self::Down];

    /// Its name in `target_modules`, such as `q_proj`.
    pub fn name(self) -> &'static str {
        let module = self.module();
        module.split_once('.').map_or(module, |(_, name)| name)
    }

    /// The target of a name in `target_modules`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Its name in a layer.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Q => "self_attn.q_proj",
            Self::K => "self_attn.k_proj",
            Self::V => "self_attn.v_proj",
            Self::O => "self_attn.o_proj",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
        }
    }
}

/// Targets whose weights are one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Group {
    Qkv,
    O,
    Gate,
    Up,
    Down,
}

impl Group {
    pub(crate) const ALL: [Self; 5] = [Self::Qkv, Self::O, Self::Gate, Self::Up, Self::Down];

    /// Columns of the matrix, and its targets in order with their rows.
    pub(crate) fn parts(self, shape: &Shape) -> (usize, Vec<(Target, usize)>) {
        let (hidden, inner, width) = (shape.hidden_size, shape.intermediate_size, shape.head_dim());
        let (query, key) = (shape.heads * width, shape.kv_heads * width);
        match self {
            Self::Qkv => (hidden, vec![(Target::Q, query), (Target::K, key), (Target::V, key)]),
            Self::O => (query, vec![(Target::O, hidden)]),
            Self::Gate => (hidden, vec![(Target::Gate, inner)]),
            Self::Up => (hidden, vec![(Target::Up, inner)]),
            Self::Down => (inner, vec![(Target::Down, hidden)]),
        }
    }
}

/// The shape of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// r.
    pub rank: usize,
    /// The product counts `alpha / rank` times.
    pub alpha: f64,
    /// Which matrices of every layer have one.
    pub targets: Vec<Target>,
}

impl Lora {
    /// What the product is multiplied with.
    pub(crate) fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=MOST_RANK).contains(&self.rank) {
            return Err(Error::argument(
                "lora.rank",
                format!("{} must be at least 1 and at most {MOST_RANK}", self.rank),
            ));
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return Err(Error::argument("lora.alpha", format!("{} must be positive", self.alpha)));
        }
        if self.targets.is_empty() {
            return Err(Error::argument("lora.targets", "names no matrix"));
        }
        Ok(())
    }
}

/// What `adapter_config.json` says.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// The adapter's shape.
    pub lora: Lora,
    /// The folder of the model that it is for.
    pub base: PathBuf,
}

/// The keys that matter here. Others that change what the layers compute are refused if they are set.
#[derive(Deserialize)]
struct Raw {
    peft_type: String,
    base_model_name_or_path: Option<PathBuf>,
    r: usize,
    lora_alpha: f64,
    target_modules: Modules,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    init_lora_weights: Value,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Modules {
    One(String),
    Several(Vec<String>),
}

impl AdapterConfig {
    /// Whether a folder holds an adapter and not a whole model.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(CONFIG_FILE).is_file()
    }

    /// Reads `adapter_config.json`. Errors: a file that is missing or broken, a kind of adapter that is not supported.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG_FILE);
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        let raw: Raw = serde_json::from_str(&text).map_err(|e| Error::file(&path, e))?;
        let wrong = |message: String| Err(Error::file(&path, message));
        if raw.peft_type != "LORA" {
            return wrong(format!("peft_type \"{}\" is not supported, only \"LORA\"", raw.peft_type));
        }
        let set = |key: &&str| raw.others.get(*key).is_some_and(|value| !says_nothing(value));
        let bias = raw.bias.as_deref().is_some_and(|bias| bias != "none").then_some("bias");
        if let Some(key) = bias.or_else(|| UNSUPPORTED.into_iter().find(set)) {
            return wrong(format!("`{key}` is set, which is not supported"));
        }
        // PEFT changes the model itself for the other ways to begin, such as `pissa`.
        if let Some(way) = raw.init_lora_weights.as_str().filter(|way| !["gaussian", "eva", "orthogonal"].contains(way))
        {
            return wrong(format!(
                "init_lora_weights \"{way}\" is not supported; PEFT's `path_initial_model_for_weight_conversion` saves \
                 such an adapter as an ordinary one"
            ));
        }
        let names = match raw.target_modules {
            Modules::One(all) if all == "all-linear" => Target::ALL.map(|target| target.name().to_owned()).to_vec(),
            Modules::One(name) => vec![name],
            Modules::Several(names) => names,
        };
        let mut targets = Vec::new();
        for name in names {
            // PEFT may name each layer's by its place; which are there is seen by the tensors.
            match Target::of_name(name.rsplit('.').next().unwrap_or(&name)) {
                Some(target) if targets.contains(&target) => {}
                Some(target) => targets.push(target),
                None => return wrong(format!("target_modules: \"{name}\" is not one of {}", target_names())),
            }
        }
        let Some(base) = raw.base_model_name_or_path else {
            return wrong("no `base_model_name_or_path`".to_owned());
        };
        let rank = raw.r as f64;
        // alpha / sqrt(r), said as alpha / r.
        let alpha = if raw.use_rslora { raw.lora_alpha * rank.sqrt() } else { raw.lora_alpha };
        let lora = Lora { rank: raw.r, alpha, targets };
        lora.check().map_err(|error| Error::file(&path, error))?;
        Ok(Self { lora, base })
    }

    /// As PEFT's file.
    pub(crate) fn to_json(&self) -> String {
        let names: Vec<&str> = self.lora.targets.iter().map(|target| target.name()).collect();
        let value = json!({
            "base_model_name_or_path": self.base,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "lora_alpha": self.lora.alpha,
            "lora_dropout": 0.0,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.lora.rank,
            "target_modules": names,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": false,
        });
        format!("{value:#}\n")
    }

    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        crate::files::write_aside(&folder.join(CONFIG_FILE), |to| {
            fs::write(to, self.to_json()).map_err(|e| Error::io(to, e))
        })
    }
}

/// The names of all targets, for messages.
pub fn target_names() -> String {
    Target::ALL.map(Target::name).join(", ")
}
