//! Writes GGUF files of tiny models.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A value of a key.
#[derive(Clone)]
pub enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'static str),
    Texts(Vec<String>),
    I32s(Vec<i32>),
}

use Value::{Bool, F32, I32s, Text, Texts, U32};

/// A file that is being put together.
#[derive(Clone)]
pub struct Writer {
    pub version: u32,
    pub keys: Vec<(String, Value)>,
    /// Name, sizes innermost first as the format has them, type, bytes.
    pub tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

/// The tokens of the tiny models: bytes are left out but for what the tests need.
pub const TOKENS: [&str; 16] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "a",
    "b",
    "ab",
    "1",
    "2",
    "3",
    "12",
    "123",
    "Ġ",
    "Ġa",
    "<think>",
    "'",
    "[PAD15]",
];
const TYPES: [i32; 16] = [3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 5];
const MERGES: [&str; 4] = ["a b", "1 2", "12 3", "Ġ a"];

pub const HIDDEN: u64 = 8;
pub const HEADS: u64 = 2;
pub const KV_HEADS: u64 = 1;
pub const HEAD: u64 = 4;
pub const INNER: u64 = 6;
pub const VOCABULARY: u64 = TOKENS.len() as u64;

/// Weights that tell where they are: 100 tensors apart, one for each place.
pub fn weights(first: f32, count: u64) -> Vec<u8> {
    (0..count).flat_map(|i| (first + i as f32 / 8.0).to_le_bytes()).collect()
}

impl Writer {
    /// A model of one layer, all in F32.
    pub fn model(architecture: &'static str, pre: &'static str) -> Self {
        let mut writer = Self { version: 3, keys: Vec::new(), tensors: Vec::new() };
        writer.set("general.architecture", Text(architecture));
        for (name, value) in [
            ("context_length", U32(64)),
            ("embedding_length", U32(HIDDEN as u32)),
            ("block_count", U32(1)),
            ("feed_forward_length", U32(INNER as u32)),
            ("attention.head_count", U32(HEADS as u32)),
            ("attention.head_count_kv", U32(KV_HEADS as u32)),
            ("attention.layer_norm_rms_epsilon", F32(1e-6)),
            ("rope.freq_base", F32(1_000_000.0)),
        ] {
            writer.set(&format!("{architecture}.{name}"), value);
        }
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        for (name, value) in [
            ("model", Text("gpt2")),
            ("pre", Text(pre)),
            ("tokens", Texts(texts(&TOKENS))),
            ("token_type", I32s(TYPES.to_vec())),
            ("merges", Texts(texts(&MERGES))),
            ("bos_token_id", U32(1)),
            ("eos_token_id", U32(2)),
            ("padding_token_id", U32(0)),
            ("add_bos_token", Bool(false)),
        ] {
            writer.set(&format!("tokenizer.ggml.{name}"), value);
        }
        writer.set("tokenizer.chat_template", Text("{{ messages }}"));
        let (queries, keys) = (HEADS * HEAD, KV_HEADS * HEAD);
        let mut list = vec![
            ("token_embd.weight", vec![HIDDEN, VOCABULARY]),
            ("blk.0.attn_norm.weight", vec![HIDDEN]),
            ("blk.0.attn_q.weight", vec![HIDDEN, queries]),
            ("blk.0.attn_k.weight", vec![HIDDEN, keys]),
            ("blk.0.attn_v.weight", vec![HIDDEN, keys]),
            ("blk.0.attn_output.weight", vec![queries, HIDDEN]),
            ("blk.0.ffn_norm.weight", vec![HIDDEN]),
            ("blk.0.ffn_gate.weight", vec![HIDDEN, INNER]),
            ("blk.0.ffn_up.weight", vec![HIDDEN, INNER]),
            ("blk.0.ffn_down.weight", vec![INNER, HIDDEN]),
            ("output_norm.weight", vec![HIDDEN]),
        ];
        match architecture {
            "qwen2" => list.extend([
                ("blk.0.attn_q.bias", vec![queries]),
                ("blk.0.attn_k.bias", vec![keys]),
                ("blk.0.attn_v.bias", vec![keys]),
            ]),
            "qwen3" => {
                list.extend([("blk.0.attn_q_norm.weight", vec![HEAD]), ("blk.0.attn_k_norm.weight", vec![HEAD])]);
            }
            _ => {}
        }
        for (index, (name, sizes)) in list.into_iter().enumerate() {
            let data = weights(100.0 * index as f32, sizes.iter().product());
            writer.tensor(name, &sizes, 0, data);
        }
        writer
    }

    /// Sets a key, in place of the one that is there.
    pub fn set(&mut self, key: &str, value: Value) -> &mut Self {
        self.unset(key);
        self.keys.push((key.to_owned(), value));
        self
    }

    pub fn unset(&mut self, key: &str) -> &mut Self {
        self.keys.retain(|(name, _)| name != key);
        self
    }

    /// Adds a tensor, in place of the one that is there.
    pub fn tensor(&mut self, name: &str, sizes: &[u64], kind: u32, data: Vec<u8>) -> &mut Self {
        self.tensors.retain(|(there, ..)| there != name);
        self.tensors.push((name.to_owned(), sizes.to_vec(), kind, data));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            string(&mut out, key);
            match value {
                U32(number) => typed(&mut out, 4, &number.to_le_bytes()),
                F32(number) => typed(&mut out, 6, &number.to_le_bytes()),
                Bool(truth) => typed(&mut out, 7, &[u8::from(*truth)]),
                Text(text) => {
                    typed(&mut out, 8, &[]);
                    string(&mut out, text);
                }
                Texts(texts) => {
                    list(&mut out, 8, texts.len());
                    for text in texts {
                        string(&mut out, text);
                    }
                }
                I32s(numbers) => {
                    list(&mut out, 5, numbers.len());
                    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                }
            }
        }
        let mut data = Vec::new();
        for (name, sizes, kind, bytes) in &self.tensors {
            string(&mut out, name);
            out.extend((sizes.len() as u32).to_le_bytes());
            out.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        out
    }

    /// Writes the file into a folder.
    pub fn file(&self, folder: &Path) -> PathBuf {
        let path = folder.join("model.gguf");
        fs::write(&path, self.bytes()).unwrap();
        path
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn typed(out: &mut Vec<u8>, kind: u32, bytes: &[u8]) {
    out.extend(kind.to_le_bytes());
    out.extend(bytes);
}

fn list(out: &mut Vec<u8>, kind: u32, count: usize) {
    typed(out, 9, &kind.to_le_bytes());
    out.extend((count as u64).to_le_bytes());
}
