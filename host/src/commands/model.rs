//! `accredit model`.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use accredit_gguf::{Description, Dtype, Gguf, Plan, Token, describe};
use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::print;
use crate::{memory, telemetry::Progress};

#[derive(Debug, Subcommand)]
pub enum Model {
    /// Make a Hugging Face model folder of a GGUF file: architectures llama, qwen2 and qwen3
    Import {
        /// The GGUF file
        file: PathBuf,
        /// The folder to make
        folder: PathBuf,
        /// Type of the weights: `auto` keeps f32 and f16, and writes bf16 of bf16 and quantised ones; `f32` keeps quantised
        /// weights to the last bit
        #[arg(long, value_enum, default_value_t)]
        dtype: Choice,
    },
    /// Write a whole model in a type of weights of your choice: of a checkpoint, which is f32, or of an adapter, which is
    /// added to the model that it is for
    #[cfg(feature = "torch")]
    Export {
        /// A Hugging Face model folder, or a folder of an adapter
        model: PathBuf,
        /// The folder to make
        folder: PathBuf,
        /// Type of the weights
        #[arg(long, value_enum, default_value_t)]
        dtype: ExportType,
        /// Largest weights file, in GB
        #[arg(long, default_value_t = 5.0, value_parser = positive)]
        max_shard_size: f64,
    },
    /// Show what a model is: architecture, sizes, types of weights, special tokens, and whether it can be trained
    Info {
        /// A Hugging Face model folder, or a GGUF file
        model: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// The type of weights to write.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Choice {
    /// The file's own, or bf16 where it is quantised
    #[default]
    Auto,
    /// 32 bits
    F32,
    /// 16 bits
    F16,
    /// 16 bits with the range of f32
    Bf16,
}

/// The type of exported weights.
#[cfg(feature = "torch")]
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ExportType {
    /// 16 bits with the range of f32
    #[default]
    Bf16,
    /// 16 bits
    F16,
    /// 32 bits
    F32,
}

#[cfg(feature = "torch")]
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("expected a positive number".to_owned()) }
}

impl Model {
    pub fn run(self) -> Result<()> {
        match self {
            Self::Import { file, folder, dtype } => import(&file, &folder, dtype),
            #[cfg(feature = "torch")]
            Self::Export { model, folder, dtype, max_shard_size } => export(&model, &folder, dtype, max_shard_size),
            Self::Info { model, json } => {
                let (whole, adapter) = adapter_of(&model)?;
                let description = describe(&whole)?;
                let info = Info {
                    adapter,
                    training: training(&description),
                    training_bytes: TrainingBytes::of(&description),
                    description: &description,
                    is_folder: model.is_dir(),
                };
                print(&if json { format!("{:#}\n", json!(info)) } else { info.text() })
            }
        }
    }
}

fn import(file: &Path, folder: &Path, dtype: Choice) -> Result<()> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let gguf = Gguf::open(file)?;
    let plan = Plan::new(&gguf)?;
    let dtype = match dtype {
        Choice::Auto => plan.auto_dtype(),
        Choice::F32 => Dtype::F32,
        Choice::F16 => Dtype::F16,
        Choice::Bf16 => Dtype::Bf16,
    };
    // A program that cannot watch for Ctrl-C still works; what it wrote half is then left beside the folder.
    if let Err(error) = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)) {
        tracing::warn!("Ctrl-C will end the program at once: {error}");
    }
    let million = |weights: u64| weights.div_ceil(1_000_000);
    let mut progress = Progress::new("weights, in millions", 0, million(plan.weights()));
    let mut shown = 0;
    let written = plan.write(folder, dtype, |weights| {
        if million(weights) > shown {
            shown = million(weights);
            progress.at(shown, "");
        }
        if STOP.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.finish();
    written?;
    let (weights, dtype) = (grouped(plan.weights()), dtype.name());
    // The result is the folder.
    writeln!(io::stderr(), "{}: {weights} weights in {dtype}", folder.display()).or_else(|_| Ok(()))
}

#[cfg(feature = "torch")]
fn export(model: &Path, folder: &Path, dtype: ExportType, max_shard_size: f64) -> Result<()> {
    use accredit_torch::{DType, Device};
    if folder.exists() {
        anyhow::bail!("{} is there already; name a folder that is not", folder.display());
    }
    let dtype = match dtype {
        ExportType::Bf16 => DType::BF16,
        ExportType::F16 => DType::F16,
        ExportType::F32 => DType::F32,
    };
    let tokenizer = crate::run::tokenizer_folder(model)?;
    let policy = accredit_torch::Model::load(model, Device::CPU)?;
    let weights = grouped(policy.merged_weight_count() as u64);
    policy.export(folder, dtype, (max_shard_size * 1e9) as usize)?;
    crate::checkpoint::copy_tokenizer(&tokenizer, folder)?;
    writeln!(io::stderr(), "{}: {weights} weights in {dtype}", folder.display()).or_else(|_| Ok(()))
}

/// Whether the program can train a model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Training {
    Yes,
    No(Vec<String>),
    /// The program has no trainer.
    Unknown(String),
}

fn training(description: &Description) -> Training {
    let mut problems = description.problems.clone();
    let trainer = trainer(description);
    if let Some(Err(problem)) = &trainer {
        problems.push(problem.clone());
    }
    match (trainer, problems.is_empty()) {
        (_, false) => Training::No(problems),
        (Some(_), true) => Training::Yes,
        (None, true) => Training::Unknown("this program was built without libtorch".to_owned()),
    }
}

/// What the trainer says about a `config.json`.
#[cfg(feature = "torch")]
#[expect(clippy::unnecessary_wraps, reason = "a program without libtorch has no trainer to ask")]
fn trainer(description: &Description) -> Option<Result<(), String>> {
    let read = accredit_torch::ModelConfig::from_json(description.config.clone());
    Some(read.map(drop).map_err(|error| error.to_string()))
}

#[cfg(not(feature = "torch"))]
fn trainer(_: &Description) -> Option<Result<(), String>> {
    None
}

#[derive(Debug, Serialize)]
struct Info<'a> {
    #[serde(flatten)]
    description: &'a Description,
    /// What the folder adds to the model that is described.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<String>,
    training: Training,
    training_bytes: TrainingBytes,
    /// Training takes folders only.
    #[serde(skip)]
    is_folder: bool,
}

/// Bytes that weights and their copies take; what a micro-batch needs comes on top.
#[derive(Debug, Serialize)]
struct TrainingBytes {
    /// In f32, as on a CPU.
    float32: Bytes,
    /// In bf16 with f32 for what is trained, as on a GPU.
    bfloat16: Bytes,
    /// As `bfloat16`, where an adapter is trained: `[model.lora]` with its defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    lora: Option<Bytes>,
}

#[derive(Debug, Serialize)]
struct Bytes {
    /// Weights, gradient and two moments.
    policy: u64,
    /// The sampler's copy, while episodes are played.
    sampler: u64,
    /// The frozen reference, where a scheme reads it, or a teacher that is a copy.
    reference: u64,
    /// A teacher that is a moving average, where a scheme asks one.
    average: u64,
    /// A critic with a trunk of its own.
    critic: u64,
}

impl TrainingBytes {
    fn of(description: &Description) -> Self {
        let all = description.parameters;
        let bytes = |trained, bytes, extra| Bytes::of(memory::Weights { all: all + extra, trained, bytes }, all);
        let lora = adapter_weights(description).map(|adapter| bytes(adapter, 2, adapter));
        Self { float32: bytes(all, 4, 0), bfloat16: bytes(all, 2, 0), lora }
    }
}

impl Bytes {
    fn of(weights: memory::Weights, critic: u64) -> Self {
        Self {
            policy: weights.policy(),
            sampler: weights.sampler(),
            reference: weights.reference(),
            average: weights.average(),
            critic: memory::critic(critic),
        }
    }

    /// In a unit, in the order of the table's columns.
    fn columns(&self, unit: u64) -> String {
        let columns = [self.policy, self.sampler, self.reference, self.average, self.critic];
        columns.map(|bytes| format!("{:>10.1}", bytes as f64 / unit as f64)).concat()
    }
}

/// The whole model of a folder, and what it adds to it: the folder itself, unless it is that of an adapter.
#[cfg(feature = "torch")]
fn adapter_of(model: &Path) -> Result<(PathBuf, Option<String>)> {
    use accredit_torch::AdapterConfig;
    if !AdapterConfig::is_in(model) {
        return Ok((model.to_owned(), None));
    }
    let AdapterConfig { lora, base } = AdapterConfig::load(model)?;
    let targets: Vec<&str> = lora.targets.iter().map(|target| target.name()).collect();
    let (rank, alpha) = (lora.rank, lora.alpha);
    let text = format!("rank {rank}, alpha {alpha}, on {}; for {}", targets.join(", "), base.display());
    Ok((base, Some(text)))
}

#[cfg(not(feature = "torch"))]
#[expect(clippy::unnecessary_wraps, reason = "a program without libtorch knows no adapters")]
fn adapter_of(model: &Path) -> Result<(PathBuf, Option<String>)> {
    Ok((model.to_owned(), None))
}

/// Weights of an adapter with the defaults of `[model.lora]`.
#[cfg(feature = "torch")]
fn adapter_weights(description: &Description) -> Option<u64> {
    let config = accredit_torch::ModelConfig::from_json(description.config.clone()).ok()?;
    let trained = accredit_torch::Trained::Adapter(crate::run::adapter(&crate::config::Lora::default()));
    accredit_torch::Model::weight_counts_of(config.shape(), &trained).ok().map(|(_, trained)| trained as u64)
}

#[cfg(not(feature = "torch"))]
fn adapter_weights(_: &Description) -> Option<u64> {
    None
}

impl Info<'_> {
    fn text(&self) -> String {
        let Description { sizes, context_length, tokens, .. } = self.description;
        let or_none = |number: Option<u64>| number.map_or_else(|| "not said".to_owned(), grouped);
        let mut lines = vec![
            ("format", self.description.format.clone()),
            ("architecture", self.description.architecture.clone().unwrap_or_else(|| "not said".to_owned())),
            ("parameters", grouped(self.description.parameters)),
            ("on disk", format!("{} bytes", grouped(self.description.bytes_on_disk))),
        ];
        lines.extend(self.adapter.iter().map(|adapter| ("adapter", adapter.clone())));
        for weights in &self.description.weights {
            let (parameters, tensors) = (grouped(weights.parameters), weights.tensors);
            lines.push(("weights", format!("{parameters} in {} ({tensors} tensors)", weights.dtype)));
        }
        lines.extend(sizes.iter().map(|(name, size)| (name.as_str(), size.as_u64().map_or(size.to_string(), grouped))));
        lines.push(("context length", or_none(*context_length)));
        lines.push(("tokenizer", format!("{} tokens", or_none(*tokens))));
        let special = &self.description.special_tokens;
        lines.extend(special.iter().map(|(role, token)| (role.as_str(), token_text(token))));
        lines.extend(self.description.stop_tokens.iter().map(|token| ("stops at", token_text(token))));
        let template = if self.description.chat_template { "yes" } else { "no" };
        lines.push(("chat template", template.to_owned()));
        match &self.training {
            Training::Yes => {
                let imported =
                    if self.is_folder { "" } else { ", once `accredit model import` has made a folder of it" };
                lines.push(("can be trained", format!("yes{imported}")));
            }
            Training::No(problems) => lines.extend(problems.iter().map(|why| ("can be trained", format!("no: {why}")))),
            Training::Unknown(why) => lines.push(("can be trained", format!("not known: {why}"))),
        }
        let mut text: String = lines.iter().map(|(name, value)| format!("{name:<20} {value}\n")).collect();
        let (unit, name) =
            if self.training_bytes.float32.policy < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
        text.push_str(&format!(
            "\n{name} while it is trained, and what a micro-batch needs on top\n\
             computing in            policy   sampler reference   average    critic\n"
        ));
        let TrainingBytes { float32, bfloat16, lora } = &self.training_bytes;
        let rows = [("float32", Some(float32)), ("bfloat16", Some(bfloat16)), ("bfloat16, lora", lora.as_ref())];
        for (name, bytes) in rows {
            if let Some(bytes) = bytes {
                text.push_str(&format!("{name:<20}{}\n", bytes.columns(unit)));
            }
        }
        text
    }
}

fn token_text(token: &Token) -> String {
    let id = token.id.map_or_else(|| "no id".to_owned(), |id| id.to_string());
    let text = token.text.as_ref().map_or_else(|| "not in the tokenizer".to_owned(), |text| format!("{text:?}"));
    format!("{text} ({id})")
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 134_515_008].map(grouped), ["0", "999", "1 000", "134 515 008"]);
    }
}
