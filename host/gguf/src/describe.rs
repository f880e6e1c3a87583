//! What a model is: the same for a model folder and for a GGUF file.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    error::Result,
    file::Gguf,
    folder::{self, Folder},
    import::Plan,
};

/// A model.
#[derive(Debug, Serialize)]
pub struct Description {
    /// `GGUF version 3` or `Hugging Face folder`.
    pub format: String,
    /// The family, such as `qwen2`.
    pub architecture: Option<String>,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the weight files.
    pub bytes_on_disk: u64,
    /// The types of the weights, the most common first.
    pub weights: Vec<Weights>,
    /// Sizes by their names in `config.json`.
    pub sizes: Map<String, Value>,
    /// The longest text, in tokens.
    pub context_length: Option<u64>,
    /// The tokenizer's tokens.
    pub tokens: Option<u64>,
    /// Tokens with a role.
    pub special_tokens: BTreeMap<String, Token>,
    /// Tokens that end a response: those of `generation_config.json`, and the end token of the tokenizer.
    pub stop_tokens: Vec<Token>,
    /// Whether there is a chat template.
    pub chat_template: bool,
    /// What keeps the model from being trained, whatever its architecture is.
    pub problems: Vec<String>,
    /// `config.json`, or what a GGUF file's would be.
    #[serde(skip)]
    pub config: Map<String, Value>,
}

/// Weights of one type.
#[derive(Debug, Default, Serialize)]
pub struct Weights {
    /// The type.
    pub dtype: String,
    /// Number of tensors.
    pub tensors: u64,
    /// Number of weights.
    pub parameters: u64,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its id, unless the tokenizer has no such token.
    pub id: Option<u64>,
    /// Its text, unless the tokenizer has no such id.
    pub text: Option<String>,
}

/// The files of a model, as far as they are there.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub config: Map<String, Value>,
    pub generation: Value,
    pub tokenizer: Value,
    pub tokenizer_config: Value,
    pub chat_template: bool,
}

/// Sizes that are shown.
const SIZES: [&str; 8] = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "tie_word_embeddings",
];

/// The role of a token, and its names in a GGUF file.
const ROLES: [(&str, &str); 4] = [("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")];

/// Describes a model folder or a GGUF file. Errors: neither of them, or a file that cannot be understood.
pub fn describe(path: &Path) -> Result<Description> {
    if path.is_dir() { describe_folder(path) } else { describe_gguf(path) }
}

fn describe_folder(path: &Path) -> Result<Description> {
    let Folder { parts, weights, bytes, mut problems } = folder::read(path)?;
    if parts.tokenizer.is_null() {
        problems.push(format!("{} has no tokenizer.json", path.display()));
    }
    Ok(Description::new("Hugging Face folder".to_owned(), &parts, weights, bytes, problems))
}

fn describe_gguf(path: &Path) -> Result<Description> {
    let gguf = Gguf::open(path)?;
    let weights = gguf.tensors().iter().map(|tensor| (tensor.kind.name.to_owned(), tensor.weights));
    let bytes = gguf.tensors().iter().map(|tensor| tensor.bytes as u64).sum();
    let (parts, problems) = match Plan::new(&gguf) {
        Ok(plan) => (of_plan(&plan), Vec::new()),
        Err(error) => (of_keys(&gguf)?, vec![format!("cannot be imported: {error}")]),
    };
    let format = format!("GGUF version {}", gguf.version());
    Ok(Description::new(format, &parts, weights.collect(), bytes, problems))
}

fn of_plan(plan: &Plan) -> Parts {
    let tokenizer = plan.tokenizer();
    Parts {
        config: plan.config().clone(),
        generation: Value::Object(tokenizer.generation.clone()),
        tokenizer: tokenizer.tokenizer.clone(),
        tokenizer_config: Value::Object(tokenizer.config.clone()),
        chat_template: tokenizer.config.contains_key("chat_template"),
    }
}

/// What can be said about a file that cannot be imported.
fn of_keys(gguf: &Gguf) -> Result<Parts> {
    let keys = gguf.keys();
    let mut config = Map::new();
    let Some(architecture) = keys.optional_text("general.architecture")? else { return Ok(Parts::default()) };
    config.insert("model_type".to_owned(), json!(architecture));
    for (key, name) in [
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("block_count", "num_hidden_layers"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
    ] {
        // Some architectures have one for each layer.
        if let Ok(Some(size)) = keys.optional_size(&format!("{architecture}.{key}")) {
            config.insert(name.to_owned(), json!(size));
        }
    }
    if let Some(count) = keys.optional_length("tokenizer.ggml.tokens")? {
        config.insert("vocab_size".to_owned(), json!(count));
    }
    let mut tokenizer_config = Map::new();
    let texts = keys.optional_texts("tokenizer.ggml.tokens")?.unwrap_or_default();
    for (role, name) in ROLES {
        let id = keys.optional_size(&format!("tokenizer.ggml.{name}_token_id"))?;
        if let Some(text) = id.and_then(|id| texts.get(usize::try_from(id).ok()?)) {
            config.insert(format!("{role}_token_id"), json!(id));
            tokenizer_config.insert(format!("{role}_token"), json!(text));
        }
    }
    let chat_template = keys.has("tokenizer.chat_template");
    Ok(Parts { config, tokenizer_config: Value::Object(tokenizer_config), chat_template, ..Parts::default() })
}

impl Description {
    fn new(format: String, parts: &Parts, weights: Vec<(String, u64)>, bytes: u64, mut problems: Vec<String>) -> Self {
        let vocabulary = Vocabulary::new(&parts.tokenizer);
        let size = |name: &str| parts.config.get(name).filter(|value| !value.is_null());
        let sizes = SIZES.into_iter().filter_map(|name| Some((name.to_owned(), size(name)?.clone()))).collect();
        let role = |role: &str| {
            let named = &parts.tokenizer_config[format!("{role}_token")];
            let text = named.as_str().or(named["content"].as_str());
            let id = size(&format!("{role}_token_id")).and_then(Value::as_u64);
            (text.is_some() || id.is_some()).then(|| vocabulary.token(id, text))
        };
        let special_tokens: BTreeMap<_, _> =
            ROLES.iter().filter_map(|(name, _)| Some(((*name).to_owned(), role(name)?))).collect();
        let ends = match &parts.generation["eos_token_id"] {
            Value::Array(ids) => ids.iter().filter_map(Value::as_u64).collect(),
            one => one.as_u64().into_iter().collect::<Vec<_>>(),
        };
        let mut stop_tokens: Vec<_> = ends.into_iter().map(|id| vocabulary.token(Some(id), None)).collect();
        stop_tokens.extend(special_tokens.get("eos").filter(|eos| !stop_tokens.contains(eos)).cloned());
        if problems.is_empty() {
            if !parts.tokenizer["decoder"].to_string().contains("ByteLevel") {
                problems.push("its tokenizer is not byte-level".to_owned());
            }
            if stop_tokens.iter().all(|token| token.id.is_none()) {
                problems.push("neither generation_config.json nor tokenizer_config.json names a stop token".to_owned());
            }
            if !parts.chat_template {
                problems.push("there is no chat template".to_owned());
            }
        }
        let mut by_type: BTreeMap<String, Weights> = BTreeMap::new();
        for (dtype, parameters) in weights {
            let group = by_type.entry(dtype.clone()).or_insert_with(|| Weights { dtype, ..Weights::default() });
            group.tensors += 1;
            group.parameters += parameters;
        }
        let mut weights: Vec<_> = by_type.into_values().collect();
        weights.sort_by_key(|group| std::cmp::Reverse(group.parameters));
        Self {
            format,
            architecture: size("model_type").and_then(Value::as_str).map(str::to_owned),
            parameters: weights.iter().map(|group| group.parameters).sum(),
            bytes_on_disk: bytes,
            weights,
            sizes,
            context_length: size("max_position_embeddings").and_then(Value::as_u64),
            tokens: vocabulary.count(),
            special_tokens,
            stop_tokens,
            chat_template: parts.chat_template,
            problems,
            config: parts.config.clone(),
        }
    }
}

/// Texts and ids of a `tokenizer.json`.
struct Vocabulary<'a>(HashMap<u64, &'a str>);

impl<'a> Vocabulary<'a> {
    fn new(tokenizer: &'a Value) -> Self {
        let words = tokenizer["model"]["vocab"].as_object().into_iter().flatten();
        let mut texts: HashMap<u64, &str> =
            words.filter_map(|(text, id)| Some((id.as_u64()?, text.as_str()))).collect();
        for added in tokenizer["added_tokens"].as_array().into_iter().flatten() {
            if let (Some(id), Some(text)) = (added["id"].as_u64(), added["content"].as_str()) {
                texts.insert(id, text);
            }
        }
        Self(texts)
    }

    fn count(&self) -> Option<u64> {
        (!self.0.is_empty()).then_some(self.0.len() as u64)
    }

    /// The token with this id or, without one, this text.
    fn token(&self, id: Option<u64>, text: Option<&str>) -> Token {
        let id = id.or_else(|| self.0.iter().find(|(_, known)| Some(**known) == text).map(|(id, _)| *id));
        let known = id.and_then(|id| self.0.get(&id).copied());
        Token { id, text: known.or(text).map(str::to_owned) }
    }
}
