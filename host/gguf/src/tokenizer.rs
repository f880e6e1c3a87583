//! The tokenizer that lies in a GGUF file, as the files of a model folder.
//!
//! Read are byte-level BPE tokenizers. A file names the rule that cuts a text before the merges, and the rule itself is
//! known here; a name that is not known is refused, since another rule would give other ids.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{error::Result, metadata::Keys};

/// How Qwen2 and its successors cut a text: digits alone.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// How Llama 3 cuts a text: up to three digits together.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Tokens that end a text in every family that has them, whatever else a file says.
const ENDS: [&str; 5] = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"];

/// The files of a tokenizer.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    /// `tokenizer.json`.
    pub tokenizer: Value,
    /// `tokenizer_config.json`.
    pub config: Map<String, Value>,
    /// `generation_config.json`.
    pub generation: Map<String, Value>,
    /// The special ids of `config.json`.
    pub ids: Map<String, Value>,
}

/// The rule that a file names: how a text is normalised and cut, and what else goes with it.
struct Rule {
    normalizer: Value,
    cut: Value,
    /// A word that is a token is that token, whatever the merges say.
    ignore_merges: bool,
    /// A text begins with the bos token unless the file says otherwise.
    add_bos: bool,
}

impl Rule {
    fn of(keys: &Keys) -> Result<Self> {
        let key = "tokenizer.ggml.pre";
        let digits = json!({ "type": "Digits", "individual_digits": true });
        let split = |regex: &str| json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false });
        let sequence =
            |first: Value, use_regex| json!({ "type": "Sequence", "pretokenizers": [first, byte_level(use_regex)] });
        let plain = Self { normalizer: Value::Null, cut: byte_level(true), ignore_merges: false, add_bos: false };
        let nfc = json!({ "type": "NFC" });
        match keys.text(key)? {
            "gpt-2" => Ok(plain),
            "smollm" => Ok(Self { cut: sequence(digits, true), ..plain }),
            "qwen2" => Ok(Self { normalizer: nfc, cut: sequence(split(QWEN2), false), ..plain }),
            "llama-bpe" | "llama3" | "llama-v3" => {
                Ok(Self { cut: sequence(split(LLAMA3), false), ignore_merges: true, add_bos: true, ..plain })
            }
            other => {
                let message = format!("`{other}` is not known, expected one of gpt-2, smollm, qwen2, llama-bpe");
                Err(keys.error(key, message))
            }
        }
    }
}

fn byte_level(use_regex: bool) -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex })
}

impl Tokenizer {
    /// Makes the files. `vocabulary` is the number of ids that the model knows, `positions` the longest text.
    pub fn read(keys: &Keys, vocabulary: u64, positions: u64) -> Result<Self> {
        let model = keys.text("tokenizer.ggml.model")?;
        if model != "gpt2" {
            let hint = if model == "llama" { " (SentencePiece)" } else { "" };
            let message = format!("`{model}`{hint} is not supported, expected gpt2, which is byte-level BPE");
            return Err(keys.error("tokenizer.ggml.model", message));
        }
        let rule = Rule::of(keys)?;
        let tokens = Tokens::read(keys, vocabulary)?;
        let special = Special::read(keys, &tokens)?;
        let merges = merges(keys, &tokens)?;
        let ends = |key: &str, default| {
            let key = format!("tokenizer.ggml.{key}");
            keys.optional_truth(&key).map(|truth| truth.unwrap_or(default))
        };
        let (add_bos, add_eos) = (ends("add_bos_token", rule.add_bos)?, ends("add_eos_token", false)?);
        let added = |id: usize, special: bool| {
            json!({
                "id": id, "content": tokens.texts[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": special,
            })
        };
        let bos = special.bos.filter(|_| add_bos).map(|id| tokens.texts[id]);
        let eos = special.eos.filter(|_| add_eos).map(|id| tokens.texts[id]);
        let tokenizer = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": tokens.added.iter().map(|(id, special)| added(*id, *special)).collect::<Vec<_>>(),
            "normalizer": rule.normalizer,
            "pre_tokenizer": rule.cut,
            "post_processor": template(bos, eos, &tokens),
            "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": rule.ignore_merges, "vocab": tokens.vocabulary(), "merges": merges,
            },
        });
        let mut config = Map::new();
        for (name, value) in [
            ("tokenizer_class", json!("PreTrainedTokenizerFast")),
            ("model_max_length", json!(positions)),
            ("add_prefix_space", json!(false)),
            ("clean_up_tokenization_spaces", json!(false)),
            ("add_bos_token", json!(add_bos)),
            ("add_eos_token", json!(add_eos)),
        ] {
            config.insert(name.to_owned(), value);
        }
        for (name, id) in special.named() {
            if let Some(id) = id {
                config.insert(format!("{name}_token"), json!(tokens.texts[id]));
            }
        }
        if let Some(template) = chat_template(keys)? {
            config.insert("chat_template".to_owned(), template);
        }
        let mut ids = Map::new();
        for (name, id) in special.named().into_iter().filter(|(name, _)| *name != "unk") {
            ids.insert(format!("{name}_token_id"), json!(id));
        }
        let mut generation: Map<String, Value> = ids.clone();
        generation.retain(|_, id| !id.is_null());
        match special.stop(&tokens).as_slice() {
            [] => {}
            [one] => drop(generation.insert("eos_token_id".to_owned(), json!(one))),
            several => drop(generation.insert("eos_token_id".to_owned(), json!(several))),
        }
        Ok(Self { tokenizer, config, generation, ids })
    }
}

/// The tokens of a file.
struct Tokens<'a> {
    texts: Vec<&'a str>,
    ids: HashMap<&'a str, usize>,
    /// Those that stand for nothing, which fill the vocabulary up.
    unused: Vec<bool>,
    /// Those that are found in a text as they are, and whether they are special.
    added: Vec<(usize, bool)>,
}

impl<'a> Tokens<'a> {
    fn read(keys: &Keys<'a>, vocabulary: u64) -> Result<Self> {
        let (key, types_key) = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type");
        let texts = keys.texts(key)?;
        if texts.len() as u64 > vocabulary {
            let message = format!("{} tokens, and the embedding has {vocabulary} rows", texts.len());
            return Err(keys.error(key, message));
        }
        let types = keys.optional_integers(types_key)?.unwrap_or_else(|| vec![1; texts.len()]);
        if types.len() != texts.len() {
            return Err(keys.error(types_key, format!("{} types for {} tokens", types.len(), texts.len())));
        }
        let mut tokens = Self { ids: HashMap::new(), unused: vec![false; texts.len()], added: Vec::new(), texts };
        for (id, (text, kind)) in tokens.texts.iter().zip(types).enumerate() {
            match kind {
                1 => {}
                2 | 3 => tokens.added.push((id, true)),
                4 => tokens.added.push((id, false)),
                5 => {
                    tokens.unused[id] = true;
                    continue;
                }
                other => {
                    let message = format!("token {id} ({text:?}) has type {other}, expected 1 to 5 in byte-level BPE");
                    return Err(keys.error(types_key, message));
                }
            }
            if text.is_empty() {
                return Err(keys.error(key, format!("token {id} is empty")));
            }
            if let Some(first) = tokens.ids.insert(text, id) {
                return Err(keys.error(key, format!("tokens {first} and {id} are both {text:?}")));
            }
        }
        Ok(tokens)
    }

    fn vocabulary(&self) -> Map<String, Value> {
        let used = self.texts.iter().enumerate().filter(|(id, _)| !self.unused[*id]);
        used.map(|(id, text)| ((*text).to_owned(), json!(id))).collect()
    }
}

fn merges<'a>(keys: &Keys<'a>, tokens: &Tokens) -> Result<Vec<&'a str>> {
    let key = "tokenizer.ggml.merges";
    let merges = keys.texts(key)?;
    for (index, merge) in merges.iter().enumerate() {
        let error = |message: &str| keys.error(key, format!("merge {index} ({merge:?}) {message}"));
        let Some((left, right)) = merge.split_once(' ').filter(|(_, right)| !right.contains(' ')) else {
            return Err(error("is not two tokens with one space between them"));
        };
        if [left, right, &format!("{left}{right}")].iter().any(|token| !tokens.ids.contains_key(*token)) {
            return Err(error("has a part, or gives a result, that is no token"));
        }
    }
    Ok(merges)
}

/// The special tokens that a file names.
struct Special {
    bos: Option<usize>,
    eos: Option<usize>,
    pad: Option<usize>,
    unk: Option<usize>,
    /// Ends of a turn and of a message.
    turn: [Option<usize>; 2],
}

impl Special {
    fn read(keys: &Keys, tokens: &Tokens) -> Result<Self> {
        let read = |name: &str| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let Some(id) = keys.optional_size(&key)? else { return Ok(None) };
            let known = usize::try_from(id).ok().filter(|id| tokens.unused.get(*id) == Some(&false));
            let message = || keys.error(&key, format!("{id} is none of the {} tokens", tokens.texts.len()));
            known.map(Some).ok_or_else(message)
        };
        Ok(Self {
            bos: read("bos")?,
            eos: read("eos")?,
            pad: read("padding")?,
            unk: read("unknown")?,
            turn: [read("eot")?, read("eom")?],
        })
    }

    fn named(&self) -> [(&'static str, Option<usize>); 4] {
        [("bos", self.bos), ("eos", self.eos), ("pad", self.pad), ("unk", self.unk)]
    }

    /// All tokens that end a text, the named one first.
    fn stop(&self, tokens: &Tokens) -> Vec<usize> {
        let known = ENDS.iter().filter_map(|text| tokens.ids.get(text).copied());
        let known = known.filter(|id| tokens.added.contains(&(*id, true)));
        let mut stop = Vec::new();
        for id in self.eos.into_iter().chain(self.turn.into_iter().flatten()).chain(known) {
            if !stop.contains(&id) {
                stop.push(id);
            }
        }
        stop
    }
}

/// Puts the bos token before a text and the eos token behind it.
fn template(bos: Option<&str>, eos: Option<&str>, tokens: &Tokens) -> Value {
    if bos.is_none() && eos.is_none() {
        return Value::Null;
    }
    let special = |text: &str, part: u8| json!({ "SpecialToken": { "id": text, "type_id": part } });
    let part = |name: &str, part: u8| {
        let sequence = json!({ "Sequence": { "id": name, "type_id": part } });
        let (bos, eos) = (bos.map(|text| special(text, part)), eos.map(|text| special(text, part)));
        bos.into_iter().chain([sequence]).chain(eos).collect::<Vec<_>>()
    };
    let about = |text: &str| json!({ "id": text, "ids": [tokens.ids.get(text)], "tokens": [text] });
    let special_tokens: Map<_, _> = bos.into_iter().chain(eos).map(|text| (text.to_owned(), about(text))).collect();
    let pair: Vec<_> = part("A", 0).into_iter().chain(part("B", 1)).collect();
    json!({ "type": "TemplateProcessing", "single": part("A", 0), "pair": pair, "special_tokens": special_tokens })
}

/// The chat template; a list where the file has several.
fn chat_template(keys: &Keys) -> Result<Option<Value>> {
    let key = "tokenizer.chat_template";
    let default = keys.optional_text(key)?;
    let prefix = format!("{key}.");
    let mut list: Vec<Value> = Vec::new();
    for name in keys.starting_with(&prefix) {
        list.push(json!({ "name": name.strip_prefix(&prefix), "template": keys.text(name)? }));
    }
    Ok(match (default, list.is_empty()) {
        (default, true) => default.map(Value::from),
        (None, false) => Some(Value::from(list)),
        (Some(default), false) => {
            list.insert(0, json!({ "name": "default", "template": default }));
            Some(Value::from(list))
        }
    })
}
