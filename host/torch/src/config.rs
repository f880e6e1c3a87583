//! The `config.json` of a Hugging Face model folder, and the shape of a model.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::families::Family;
use crate::rotary::Stretch;

/// The file's name in a model folder.
pub(crate) const CONFIG_FILE: &str = "config.json";

/// Ten times as many as the deepest models have; each is looked for by name.
const MOST_LAYERS: usize = 10_000;
/// So that their bytes can be counted in 63 bits.
const MOST_WEIGHTS: f64 = 1e15;

/// The family of a model and its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// In what it differs from models of the same sizes.
    pub family: Family,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the gated feed-forward layer.
    pub intermediate_size: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; none means `hidden_size / heads`.
    pub head_dim: Option<usize>,
    /// The output layer is the embedding matrix.
    pub tied: bool,
    /// Longest sequence.
    pub max_positions: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// How the rotary angles are stretched for contexts that are longer than those of pre-training.
    pub rope_stretch: Option<Stretch>,
    /// Added to the mean square in every RMSNorm.
    pub rms_norm_eps: f64,
    /// Standard deviation of initial weights.
    pub initializer_range: f64,
}

impl Default for Shape {
    /// A tiny model of about one million weights that trains on a CPU.
    fn default() -> Self {
        Self {
            family: Family::Qwen2,
            vocab_size: 512,
            hidden_size: 128,
            intermediate_size: 384,
            layers: 4,
            heads: 4,
            kv_heads: 2,
            head_dim: None,
            tied: true,
            max_positions: 2048,
            rope_theta: 10_000.0,
            rope_stretch: None,
            rms_norm_eps: 1e-6,
            initializer_range: 0.02,
        }
    }
}

impl Shape {
    /// Width of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim.unwrap_or(self.hidden_size / self.heads)
    }

    /// Whether q, k and v have biases.
    pub(crate) fn qkv_bias(&self) -> bool {
        self.family.form().qkv_bias
    }

    /// Whether each head of q and k is normalised before it is turned.
    pub(crate) fn qk_norm(&self) -> bool {
        self.family.form().qk_norm
    }

    fn check(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("max_position_embeddings", self.max_positions),
        ];
        for (key, size) in sizes {
            if size == 0 || i32::try_from(size).is_err() {
                return Err(Error::config(key, format!("{size} must be at least 1 and fit 31 bits")));
            }
        }
        if self.layers > MOST_LAYERS {
            return Err(Error::config("num_hidden_layers", format!("{} is more than {MOST_LAYERS}", self.layers)));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let message = format!("{} must divide num_attention_heads = {}", self.kv_heads, self.heads);
            return Err(Error::config("num_key_value_heads", message));
        }
        if self.head_dim.is_none() && !self.hidden_size.is_multiple_of(self.heads) {
            let message = format!("{} is not a multiple of num_attention_heads = {}", self.hidden_size, self.heads);
            return Err(Error::config("hidden_size", message));
        }
        if self.head_dim() == 0 || !self.head_dim().is_multiple_of(2) {
            let message = format!("{} must be even, rotary positions turn pairs", self.head_dim());
            return Err(Error::config("head_dim", message));
        }
        let (hidden, inner) = (self.hidden_size as f64, self.intermediate_size as f64);
        let layer = hidden * (3.0 * inner + 4.0 * self.heads as f64 * self.head_dim() as f64);
        let weights = 2.0 * self.vocab_size as f64 * hidden + self.layers as f64 * layer;
        if weights > MOST_WEIGHTS {
            return Err(Error::config("hidden_size", format!("these sizes make a model of {weights:.0e} weights")));
        }
        let positive = [("rope_theta", self.rope_theta), ("rms_norm_eps", self.rms_norm_eps)];
        for (key, number) in positive {
            if !(number.is_finite() && number > 0.0) {
                return Err(Error::config(key, format!("{number} must be positive")));
            }
        }
        if !(self.initializer_range.is_finite() && self.initializer_range >= 0.0) {
            return Err(Error::config("initializer_range", format!("{} must not be negative", self.initializer_range)));
        }
        Ok(())
    }
}

/// The special token ids that a configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// Ends of a text.
    pub eos: Vec<u32>,
    /// Padding.
    pub pad: Option<u32>,
}

/// A model configuration. It keeps the JSON that it was read from, so that keys which mean nothing here survive.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    // Both are private: `shape` and `special` are what `raw` says.
    shape: Shape,
    special: SpecialIds,
    raw: Map<String, Value>,
}

impl ModelConfig {
    /// The configuration of a new model. Errors: a size that makes no sense, an id outside the vocabulary.
    pub fn new(shape: Shape, special: SpecialIds) -> Result<Self> {
        shape.check()?;
        special.check(shape.vocab_size)?;
        let eos = match special.eos.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut raw = Map::new();
        let entries = [
            ("architectures", json!([shape.family.form().architecture])),
            ("model_type", json!(shape.family.model_type())),
            ("vocab_size", json!(shape.vocab_size)),
            ("hidden_size", json!(shape.hidden_size)),
            ("intermediate_size", json!(shape.intermediate_size)),
            ("num_hidden_layers", json!(shape.layers)),
            ("num_attention_heads", json!(shape.heads)),
            ("num_key_value_heads", json!(shape.kv_heads)),
            ("head_dim", json!(shape.head_dim())),
            ("hidden_act", json!("silu")),
            ("max_position_embeddings", json!(shape.max_positions)),
            ("rope_theta", json!(shape.rope_theta)),
            ("rope_scaling", shape.rope_stretch.map_or(Value::Null, Stretch::to_json)),
            ("rms_norm_eps", json!(shape.rms_norm_eps)),
            ("initializer_range", json!(shape.initializer_range)),
            ("tie_word_embeddings", json!(shape.tied)),
            ("use_sliding_window", json!(false)),
            ("attention_dropout", json!(0.0)),
            ("use_cache", json!(true)),
            ("bos_token_id", json!(special.bos)),
            ("eos_token_id", eos),
            ("pad_token_id", json!(special.pad)),
            ("torch_dtype", json!("float32")),
        ];
        for (key, value) in entries {
            raw.insert(key.to_owned(), value);
        }
        Ok(Self { shape, special, raw })
    }

    /// Reads `config.json` of a model folder. Errors: no such file, no JSON, or a model that is not supported.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| Error::file(&path, e))?;
        let Value::Object(raw) = value else {
            return Err(Error::file(&path, "expected a JSON object"));
        };
        Self::from_json(raw).map_err(|error| Error::file(&path, error))
    }

    /// Understands the content of a `config.json`. Errors: a key that is missing or of a wrong type, or a model that is
    /// not supported.
    pub fn from_json(raw: Map<String, Value>) -> Result<Self> {
        let keys = Keys(&raw);
        let family = Family::of(&keys)?;
        refuse_unsupported(&keys)?;
        let heads = keys.size("num_attention_heads")?;
        let head_dim = keys.whole("head_dim")?.or(family.form().head_dim);
        let shape = Shape {
            family,
            vocab_size: keys.size("vocab_size")?,
            hidden_size: keys.size("hidden_size")?,
            intermediate_size: keys.size("intermediate_size")?,
            layers: keys.size("num_hidden_layers")?,
            heads,
            kv_heads: keys.whole("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            tied: keys.flag("tie_word_embeddings")?,
            max_positions: keys.size("max_position_embeddings")?,
            rope_theta: rope_theta(&keys)?,
            rope_stretch: rope_stretch(&keys)?,
            rms_norm_eps: keys.optional("rms_norm_eps", Value::as_f64, "a number")?.unwrap_or(1e-6),
            initializer_range: keys.optional("initializer_range", Value::as_f64, "a number")?.unwrap_or(0.02),
        };
        shape.check()?;
        let special = SpecialIds {
            bos: keys.ids("bos_token_id")?.pop(),
            eos: keys.ids("eos_token_id")?,
            pad: keys.ids("pad_token_id")?.pop(),
        };
        Ok(Self { shape, special, raw })
    }

    /// The sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The special token ids. As they stand in the file: a real model may name one outside its vocabulary.
    pub fn special_ids(&self) -> &SpecialIds {
        &self.special
    }

    /// The text of `config.json`: what was read, unknown keys too, in the order that it was read in, but for the type
    /// of the weights, which are written in f32.
    pub(crate) fn to_json(&self, dtype: DType) -> String {
        let mut raw = self.raw.clone();
        for key in ["torch_dtype", "dtype"] {
            if let Some(value) = raw.get_mut(key) {
                *value = json!(dtype.name());
            }
        }
        format!("{:#}\n", Value::Object(raw))
    }
}

impl SpecialIds {
    fn check(&self, vocab_size: usize) -> Result<()> {
        let named = self.bos.iter().map(|id| ("bos_token_id", id));
        let named = named.chain(self.eos.iter().map(|id| ("eos_token_id", id)));
        for (key, id) in named.chain(self.pad.iter().map(|id| ("pad_token_id", id))) {
            if *id as usize >= vocab_size {
                return Err(Error::config(key, format!("{id} is outside the vocabulary of {vocab_size}")));
            }
        }
        Ok(())
    }
}

/// Typed access to the keys; null counts as absent, as it does in transformers.
pub(crate) struct Keys<'a>(&'a Map<String, Value>);

impl<'a> Keys<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn optional<T>(&self, key: &str, read: impl Fn(&'a Value) -> Option<T>, expected: &str) -> Result<Option<T>> {
        let wrong = |value| Error::config(key, format!("{value} is not {expected}"));
        self.get(key).map(|value| read(value).ok_or_else(|| wrong(value))).transpose()
    }

    pub(crate) fn whole(&self, key: &str) -> Result<Option<usize>> {
        self.optional(key, |value| value.as_u64().map(|n| n as usize), "a whole number")
    }

    pub(crate) fn size(&self, key: &str) -> Result<usize> {
        self.whole(key)?.ok_or_else(|| Error::config(key, "missing"))
    }

    /// A switch, off where it is absent.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        Ok(self.optional(key, Value::as_bool, "true or false")?.unwrap_or(false))
    }

    pub(crate) fn list(&self, key: &str) -> Result<Option<&'a Vec<Value>>> {
        self.optional(key, Value::as_array, "a list")
    }

    /// One id or a list of ids.
    fn ids(&self, key: &str) -> Result<Vec<u32>> {
        let id = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
        let read = |value: &Value| match value {
            Value::Array(list) => list.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        };
        Ok(self.optional(key, read, "a token id or a list of them")?.unwrap_or_default())
    }
}

/// The base of the rotary angles: under `rope_parameters` since transformers 5, at top level before.
fn rope_theta(keys: &Keys) -> Result<f64> {
    let nested = keys.get("rope_parameters").and_then(|parameters| parameters.get("rope_theta"));
    match nested.filter(|value| !value.is_null()) {
        Some(value) => value
            .as_f64()
            .ok_or_else(|| Error::config("rope_parameters.rope_theta", format!("{value} is not a number"))),
        None => Ok(keys.optional("rope_theta", Value::as_f64, "a number")?.unwrap_or(10_000.0)),
    }
}

/// The stretch of the rotary angles: under `rope_parameters` since transformers 5, `rope_scaling` before.
fn rope_stretch(keys: &Keys) -> Result<Option<Stretch>> {
    for key in ["rope_parameters", "rope_scaling"] {
        let Some(rope) = keys.get(key) else { continue };
        let kind = ["rope_type", "type"].iter().find_map(|name| rope.get(name));
        // `rope_parameters` may hold the base alone; a `rope_scaling` without a type is one of unknown kind.
        if kind.map_or(key == "rope_parameters", |kind| kind == "default") {
            continue;
        }
        return Stretch::read(key, kind, rope).map(Some);
    }
    Ok(None)
}

fn refuse_unsupported(keys: &Keys) -> Result<()> {
    if let Some(activation) = keys.get("hidden_act").filter(|name| *name != "silu") {
        return Err(Error::config("hidden_act", format!("{activation} is not supported, only \"silu\"")));
    }
    if keys.optional("attention_dropout", Value::as_f64, "a number")?.is_some_and(|rate| rate != 0.0) {
        return Err(Error::config("attention_dropout", "dropout is not supported"));
    }
    if keys.get("quantization_config").is_some() {
        return Err(Error::config("quantization_config", "quantised weights are not supported"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tiny default configuration as JSON, with some keys replaced.
    fn with(changes: &Value) -> Map<String, Value> {
        let text = ModelConfig::new(Shape::default(), SpecialIds::default()).unwrap().to_json(DType::F32);
        let mut raw: Map<String, Value> = serde_json::from_str(&text).unwrap();
        raw.extend(changes.as_object().unwrap().clone());
        raw
    }

    fn check_refused(changes: &Value, message: &str) {
        let error = ModelConfig::from_json(with(changes)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn a_new_configuration_reads_back_equal() {
        let special = SpecialIds { bos: Some(1), eos: vec![2, 3], pad: Some(0) };
        let config = ModelConfig::new(Shape { head_dim: Some(16), ..Shape::default() }, special).unwrap();
        let back = ModelConfig::from_json(serde_json::from_str(&config.to_json(DType::F32)).unwrap()).unwrap();
        assert_eq!(back, config);
    }

    #[test]
    fn every_family_reads_back_equal_with_its_stretch() {
        let llama3 = Stretch::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_positions: 8192 };
        for family in Family::ALL {
            for rope_stretch in [None, Some(Stretch::Linear { factor: 2.0 }), Some(llama3)] {
                let shape = Shape { family, rope_stretch, head_dim: Some(32), ..Shape::default() };
                let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
                let back = ModelConfig::from_json(serde_json::from_str(&config.to_json(DType::F32)).unwrap()).unwrap();
                assert_eq!(back, config);
            }
        }
    }

    #[test]
    fn unknown_keys_survive() {
        let raw = with(&json!({"my_key": {"deep": [1, 2.5]}}));
        let text = ModelConfig::from_json(raw.clone()).unwrap().to_json(DType::F32);
        assert_eq!(serde_json::from_str::<Map<String, Value>>(&text).unwrap(), raw);
    }

    #[test]
    fn both_homes_of_rope_theta_are_read() {
        let theta = |changes| ModelConfig::from_json(with(&changes)).unwrap().shape().rope_theta;
        assert_eq!(theta(json!({"rope_theta": 1e6})), 1e6);
        assert_eq!(
            theta(json!({"rope_theta": null, "rope_parameters": {"rope_theta": 2e6, "rope_type": "default"}})),
            2e6
        );
        assert_eq!(theta(json!({"rope_theta": null})), 1e4);
    }

    #[test]
    fn a_window_that_no_layer_uses_is_fine() {
        let unused = json!({"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 4});
        assert!(ModelConfig::from_json(with(&unused)).is_ok());
        assert!(ModelConfig::from_json(with(&json!({"use_sliding_window": false, "sliding_window": 4096}))).is_ok());
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        check_refused(
            &json!({"model_type": "gpt2"}),
            "`model_type`: \"gpt2\" is not supported, only \"qwen2\", \"qwen3\", ",
        );
        check_refused(&json!({"model_type": null}), "`model_type`: missing; it is one of \"qwen2\"");
        check_refused(&json!({"model_type": "llama"}), "`architectures`: [\"Qwen2ForCausalLM\"] is not supported");
        let llama = |key: &str| json!({"model_type": "llama", "architectures": ["LlamaForCausalLM"], key: true});
        check_refused(&llama("mlp_bias"), "`mlp_bias`: biases of the feed-forward layers are not supported");
        check_refused(&llama("attention_bias"), "`attention_bias`");
        check_refused(&json!({"architectures": ["Qwen2ForTokenClassification"]}), "`architectures`");
        check_refused(&json!({"hidden_act": "gelu"}), "`hidden_act`");
        check_refused(&json!({"rope_scaling": {"type": "yarn", "factor": 4.0}}), "`rope_scaling`: \"yarn\" is not");
        check_refused(&json!({"rope_scaling": {"factor": 4.0}}), "`rope_scaling`: no `rope_type`");
        check_refused(&json!({"rope_parameters": {"rope_type": "linear"}}), "`rope_parameters.factor`: missing");
        check_refused(&json!({"rope_parameters": {"rope_type": "linear", "factor": 0.5}}), "must be at least 1");
        let window = json!({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 2});
        check_refused(&window, "sliding-window");
        check_refused(&json!({"layer_types": ["full_attention", "sliding_attention"]}), "sliding-window");
        check_refused(&json!({"attention_dropout": 0.1}), "dropout");
        check_refused(&json!({"quantization_config": {"bits": 4}}), "quantised");
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused_by_name() {
        check_refused(&json!({"vocab_size": null}), "`vocab_size`: missing");
        check_refused(&json!({"hidden_size": "128"}), "`hidden_size`: \"128\" is not a whole number");
        check_refused(&json!({"num_key_value_heads": 3}), "`num_key_value_heads`: 3 must divide");
        check_refused(&json!({"head_dim": 15}), "`head_dim`: 15 must be even");
        check_refused(&json!({"num_hidden_layers": 0}), "`num_hidden_layers`");
        check_refused(&json!({"rms_norm_eps": 0.0}), "`rms_norm_eps`");
        let outside = ModelConfig::new(Shape::default(), SpecialIds { pad: Some(512), ..SpecialIds::default() });
        assert!(outside.unwrap_err().to_string().contains("`pad_token_id`: 512"));
    }

    #[test]
    fn sizes_beyond_any_model_are_refused() {
        let error = |shape: Shape| ModelConfig::new(shape, SpecialIds::default()).unwrap_err().to_string();
        let layers = error(Shape { layers: 1_000_000_000, ..Shape::default() });
        assert!(layers.contains("`num_hidden_layers`: 1000000000 is more than 10000"), "{layers}");
        let most = i32::MAX as usize - 1;
        let all = Shape { head_dim: Some(2), hidden_size: most, intermediate_size: most, ..Shape::default() };
        assert!(error(all).contains("these sizes make a model of"));
        let head = Shape { head_dim: Some(1 << 40), ..Shape::default() };
        assert!(error(head).contains("these sizes make a model of"));
    }
}
