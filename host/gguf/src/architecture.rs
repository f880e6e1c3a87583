//! What a GGUF file's keys say about the model, as the `config.json` of its architecture.
//!
//! Read are llama (Llama 2 and 3, SmolLM2), qwen2 (Qwen2 and Qwen2.5) and qwen3. Whatever would change the numbers that
//! the model computes and has no place here is refused: experts, windows, scaled positions of an unknown kind.

use std::f64::consts::TAU;

use serde_json::{Map, Value, json};

use crate::{
    dequantize::dequantize,
    error::{Error, Result},
    file::Gguf,
    metadata::Keys,
};

/// The tensor with the factors by which Llama 3.1 divides its rotary frequencies.
pub(crate) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// An architecture that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Llama,
    Qwen2,
    Qwen3,
}

impl Architecture {
    pub const ALL: [Self; 3] = [Self::Llama, Self::Qwen2, Self::Qwen3];

    /// Its name in GGUF files, which is `model_type` in Hugging Face's too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    pub fn of(keys: &Keys) -> Result<Self> {
        let key = "general.architecture";
        let name = keys.text(key)?;
        let known = Self::ALL.map(Self::name);
        Self::ALL
            .into_iter()
            .find(|architecture| architecture.name() == name)
            .ok_or_else(|| keys.error(key, format!("{name} is not supported, expected one of {}", known.join(", "))))
    }
}

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub architecture: Architecture,
    pub vocabulary: u64,
    pub hidden: u64,
    pub intermediate: u64,
    pub layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head: u64,
    /// The output layer is the embedding matrix.
    pub tied: bool,
}

impl Shape {
    pub fn read(gguf: &Gguf) -> Result<Self> {
        let keys = gguf.keys();
        let architecture = Architecture::of(&keys)?;
        let key = |name: &str| format!("{}.{name}", architecture.name());
        let size = |name: &str| {
            let size = keys.size(&key(name))?;
            let message = || keys.error(&key(name), format!("{size}, expected 1 to {}", i32::MAX));
            (1..=i32::MAX as u64).contains(&size).then_some(size).ok_or_else(message)
        };
        let (hidden, heads) = (size("embedding_length")?, size("attention.head_count")?);
        let kv_heads = if keys.has(&key("attention.head_count_kv")) { size("attention.head_count_kv")? } else { heads };
        if !heads.is_multiple_of(kv_heads) {
            let message = format!("{kv_heads} does not divide attention.head_count = {heads}");
            return Err(keys.error(&key("attention.head_count_kv"), message));
        }
        let head = if keys.has(&key("attention.key_length")) {
            size("attention.key_length")?
        } else if hidden.is_multiple_of(heads) {
            hidden / heads
        } else {
            let message = format!("{hidden} is not a multiple of attention.head_count = {heads}");
            return Err(keys.error(&key("embedding_length"), message));
        };
        for name in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = keys.optional_size(&key(name))?.filter(|other| *other != head) {
                let message = format!("{other} is not the width of a head, {head}, which is not supported");
                return Err(keys.error(&key(name), message));
            }
        }
        if !head.is_multiple_of(2) {
            let message = format!("heads are {head} wide, expected an even number: rotary positions turn pairs");
            return Err(keys.error(&key("attention.head_count"), message));
        }
        Ok(Self {
            architecture,
            vocabulary: vocabulary(gguf)?,
            hidden,
            intermediate: size("feed_forward_length")?,
            layers: size("block_count")?,
            heads,
            kv_heads,
            head,
            tied: tied(gguf),
        })
    }
}

/// Number of rows of the embedding matrix.
fn vocabulary(gguf: &Gguf) -> Result<u64> {
    let name = "token_embd.weight";
    let tensor = gguf.tensor(name).ok_or_else(|| Error::tensor(gguf.path(), name, "missing"))?;
    match tensor.shape.as_slice() {
        [rows, _] if i32::try_from(*rows).is_ok() => Ok(*rows),
        shape => Err(Error::tensor(gguf.path(), name, format!("has shape {shape:?}, expected two sizes of 31 bits"))),
    }
}

/// Whether the output layer is the embedding matrix: it is missing, or there as a copy.
fn tied(gguf: &Gguf) -> bool {
    match (gguf.tensor("output.weight"), gguf.tensor("token_embd.weight")) {
        (Some(output), Some(embedding)) => {
            output.kind == embedding.kind
                && output.shape == embedding.shape
                && gguf.bytes(output) == gguf.bytes(embedding)
        }
        (output, _) => output.is_none(),
    }
}

/// The `config.json`, without the type of the weights and the special tokens.
pub(crate) fn config(gguf: &Gguf, shape: &Shape) -> Result<Map<String, Value>> {
    let keys = gguf.keys();
    let architecture = shape.architecture;
    let key = |name: &str| format!("{}.{name}", architecture.name());
    for name in ["expert_count", "attention.sliding_window"] {
        if let Some(number) = keys.optional_size(&key(name))?.filter(|number| *number > 0) {
            return Err(keys.error(&key(name), format!("{number}, which is not supported")));
        }
    }
    let positions = keys.size(&key("context_length"))?;
    let theta = keys.optional_number(&key("rope.freq_base"))?.unwrap_or(10_000.0);
    let epsilon = keys.number(&key("attention.layer_norm_rms_epsilon"))?;
    for (name, number) in [("rope.freq_base", theta), ("attention.layer_norm_rms_epsilon", epsilon)] {
        if number <= 0.0 {
            return Err(keys.error(&key(name), format!("{number}, expected more than 0")));
        }
    }
    let mut config = Map::new();
    let mut put = |name: &str, value: Value| config.insert(name.to_owned(), value);
    put("architectures", json!([architecture.class()]));
    put("model_type", json!(architecture.name()));
    put("vocab_size", json!(shape.vocabulary));
    put("hidden_size", json!(shape.hidden));
    put("intermediate_size", json!(shape.intermediate));
    put("num_hidden_layers", json!(shape.layers));
    put("num_attention_heads", json!(shape.heads));
    put("num_key_value_heads", json!(shape.kv_heads));
    put("head_dim", json!(shape.head));
    put("hidden_act", json!("silu"));
    put("max_position_embeddings", json!(positions));
    put("rms_norm_eps", json!(epsilon));
    put("rope_theta", json!(theta));
    if let Some(scaling) = rope_scaling(gguf, &keys, shape, theta)? {
        put("rope_scaling", scaling);
    }
    put("tie_word_embeddings", json!(shape.tied));
    put("attention_dropout", json!(0.0));
    put("initializer_range", json!(0.02));
    put("use_cache", json!(true));
    match architecture {
        Architecture::Llama => {
            put("attention_bias", json!(false));
            put("mlp_bias", json!(false));
        }
        Architecture::Qwen2 => drop(put("use_sliding_window", json!(false))),
        Architecture::Qwen3 => {
            put("attention_bias", json!(false));
            put("use_sliding_window", json!(false));
        }
    }
    Ok(config)
}

/// How rotary positions are scaled, if they are.
fn rope_scaling(gguf: &Gguf, keys: &Keys, shape: &Shape, theta: f64) -> Result<Option<Value>> {
    let prefix = format!("{}.rope.scaling.", shape.architecture.name());
    let key = |name: &str| format!("{prefix}{name}");
    let known = ["type", "factor", "original_context_length", "finetuned"];
    if let Some(other) =
        keys.starting_with(&prefix).into_iter().find(|found| known.iter().all(|name| key(name) != *found))
    {
        return Err(keys.error(other, format!("not supported; known are {}", known.join(", "))));
    }
    let factors = gguf.tensor(ROPE_FACTORS);
    let kind = keys.optional_text(&key("type"))?.unwrap_or("none");
    match (kind, factors) {
        ("none", None) => Ok(None),
        ("none", Some(_)) => llama3(gguf, shape, theta).map(Some),
        ("linear", None) => Ok(Some(json!({ "rope_type": kind, "factor": keys.number(&key("factor"))? }))),
        ("yarn", None) => Ok(Some(json!({
            "rope_type": kind,
            "factor": keys.number(&key("factor"))?,
            "original_max_position_embeddings": keys.size(&key("original_context_length"))?,
        }))),
        ("linear" | "yarn", Some(_)) => {
            Err(Error::tensor(gguf.path(), ROPE_FACTORS, format!("not expected with {} = {kind}", key("type"))))
        }
        _ => Err(keys.error(&key("type"), format!("{kind} is not supported, expected none, linear or yarn"))),
    }
}

/// Llama 3.1's scaling. The file has a factor for every frequency; the rule that they came from has two more numbers, the
/// same in every Llama since, and the original length. The factors are computed again and must be the file's.
fn llama3(gguf: &Gguf, shape: &Shape, theta: f64) -> Result<Value> {
    const LOW: f64 = 1.0;
    const HIGH: f64 = 4.0;
    const ORIGINAL: f64 = 8192.0;
    let error = |message: String| Error::tensor(gguf.path(), ROPE_FACTORS, message);
    let tensor = gguf.tensor(ROPE_FACTORS).filter(|tensor| tensor.shape == [shape.head / 2]);
    let tensor = tensor.ok_or_else(|| error(format!("expected {} numbers", shape.head / 2)))?;
    let mut factors = Vec::new();
    if !dequantize(tensor.kind, gguf.bytes(tensor), &mut factors) {
        return Err(error(format!("has type {}, expected F32", tensor.kind.name)));
    }
    let factor = factors.iter().copied().fold(1.0, f32::max);
    let factor = f64::from(factor);
    for (index, stored) in factors.iter().enumerate() {
        let wavelength = TAU * theta.powf(2.0 * index as f64 / shape.head as f64);
        let expected = if wavelength < ORIGINAL / HIGH {
            1.0
        } else if wavelength > ORIGINAL / LOW {
            factor
        } else {
            let smooth = (ORIGINAL / wavelength - LOW) / (HIGH - LOW);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        let stored = f64::from(*stored);
        if !(stored / expected - 1.0).abs().lt(&1e-3) {
            let message = format!(
                "number {index} is {stored}, and {expected} by Llama 3.1's rule with factor {factor}; no other rule is known"
            );
            return Err(error(message));
        }
    }
    Ok(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW,
        "high_freq_factor": HIGH,
        "original_max_position_embeddings": ORIGINAL as u64,
    }))
}
