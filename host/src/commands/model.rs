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

impl Model {
    pub fn run(self) -> Result<()> {
        match self {
            Self::Import { file, folder, dtype } => import(&file, &folder, dtype),
            Self::Info { model, json } => {
                let description = describe(&model)?;
                let info = Info {
                    training: training(&description),
                    training_bytes: TrainingBytes::of(description.parameters),
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
    training: Training,
    training_bytes: TrainingBytes,
    /// Training takes folders only.
    #[serde(skip)]
    is_folder: bool,
}

/// Bytes that copies of all weights take, which are f32 whatever the file has; what a micro-batch needs comes on top.
#[derive(Debug, Serialize)]
struct TrainingBytes {
    /// Weights, gradient, two moments, and the sampler's copy.
    policy: u64,
    /// The frozen reference, where a scheme reads it.
    reference: u64,
    /// A teacher that is a copy or a moving average of the policy, where a scheme asks one.
    teacher: u64,
    /// A critic with a trunk of its own: weights, gradient and two moments.
    critic: u64,
}

impl TrainingBytes {
    fn of(parameters: u64) -> Self {
        let copies = |copies| memory::bytes(parameters, copies);
        Self {
            policy: copies(memory::POLICY),
            reference: copies(memory::REFERENCE),
            teacher: copies(memory::TEACHER),
            critic: copies(memory::CRITIC),
        }
    }
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
        let TrainingBytes { policy, reference, teacher, critic } = self.training_bytes;
        let gibibytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        lines.push(("training takes", format!("{}, and what a micro-batch needs", gibibytes(policy))));
        for (what, bytes) in [("+ reference", reference), ("+ teacher", teacher), ("+ critic", critic)] {
            lines.push((what, gibibytes(bytes)));
        }
        match &self.training {
            Training::Yes => {
                let imported =
                    if self.is_folder { "" } else { ", once `accredit model import` has made a folder of it" };
                lines.push(("can be trained", format!("yes{imported}")));
            }
            Training::No(problems) => lines.extend(problems.iter().map(|why| ("can be trained", format!("no: {why}")))),
            Training::Unknown(why) => lines.push(("can be trained", format!("not known: {why}"))),
        }
        lines.iter().map(|(name, value)| format!("{name:<20} {value}\n")).collect()
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
