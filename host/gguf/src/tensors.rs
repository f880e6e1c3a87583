//! Which tensor of a GGUF file is which of a model folder.

use std::collections::HashSet;

use crate::{
    architecture::{Architecture, ROPE_FACTORS, Shape},
    dequantize::READABLE,
    error::{Error, Result},
    file::{Gguf, TensorInfo},
};

/// A tensor of the folder that is to be written.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub name: String,
    pub source: &'a TensorInfo,
    /// Number of heads whose rows lie in llama.cpp's order.
    pub interleaved: Option<u64>,
}

impl Target<'_> {
    /// Rows of the tensor; a vector is one row.
    pub fn rows(&self) -> u64 {
        if let [rows, _] = self.source.shape.as_slice() { *rows } else { 1 }
    }

    /// Which row of the source is row `row` of the target. llama.cpp turns neighbouring rows of a head against each
    /// other, Hugging Face a row of the first half against one of the second.
    pub fn source_row(&self, row: u64) -> u64 {
        let Some(heads) = self.interleaved else { return row };
        let height = self.rows() / heads;
        let (head, inside) = (row / height, row % height);
        let (half, pair) = (inside / (height / 2), inside % (height / 2));
        head * height + 2 * pair + half
    }
}

/// The tensors of the folder, in the model's order. Errors: one is missing, not expected, of a wrong shape, or of a type
/// that cannot be read.
pub(crate) fn targets<'a>(gguf: &'a Gguf, shape: &Shape) -> Result<Vec<Target<'a>>> {
    let mut collected = Collected { gguf, targets: Vec::new(), seen: HashSet::new() };
    let (queries, keys) = (shape.heads * shape.head, shape.kv_heads * shape.head);
    let (hidden, inner) = (shape.hidden, shape.intermediate);
    let interleaved = |heads| (shape.architecture == Architecture::Llama).then_some(heads);
    collected.add("token_embd.weight", "model.embed_tokens.weight", &[shape.vocabulary, hidden], None)?;
    for layer in 0..shape.layers {
        let mut add = |from: &str, to: &str, sizes: &[u64], interleaved| {
            collected.add(&format!("blk.{layer}.{from}"), &format!("model.layers.{layer}.{to}"), sizes, interleaved)
        };
        add("attn_norm.weight", "input_layernorm.weight", &[hidden], None)?;
        add("attn_q.weight", "self_attn.q_proj.weight", &[queries, hidden], interleaved(shape.heads))?;
        add("attn_k.weight", "self_attn.k_proj.weight", &[keys, hidden], interleaved(shape.kv_heads))?;
        add("attn_v.weight", "self_attn.v_proj.weight", &[keys, hidden], None)?;
        match shape.architecture {
            Architecture::Llama => {}
            Architecture::Qwen2 => {
                add("attn_q.bias", "self_attn.q_proj.bias", &[queries], None)?;
                add("attn_k.bias", "self_attn.k_proj.bias", &[keys], None)?;
                add("attn_v.bias", "self_attn.v_proj.bias", &[keys], None)?;
            }
            Architecture::Qwen3 => {
                add("attn_q_norm.weight", "self_attn.q_norm.weight", &[shape.head], None)?;
                add("attn_k_norm.weight", "self_attn.k_norm.weight", &[shape.head], None)?;
            }
        }
        add("attn_output.weight", "self_attn.o_proj.weight", &[hidden, queries], None)?;
        add("ffn_norm.weight", "post_attention_layernorm.weight", &[hidden], None)?;
        add("ffn_gate.weight", "mlp.gate_proj.weight", &[inner, hidden], None)?;
        add("ffn_up.weight", "mlp.up_proj.weight", &[inner, hidden], None)?;
        add("ffn_down.weight", "mlp.down_proj.weight", &[hidden, inner], None)?;
    }
    collected.add("output_norm.weight", "model.norm.weight", &[hidden], None)?;
    if !shape.tied {
        collected.add("output.weight", "lm_head.weight", &[shape.vocabulary, hidden], None)?;
    }
    // The factors are in the configuration, a tied output layer is the embedding.
    let used = |name: &str| collected.seen.contains(name) || name == ROPE_FACTORS || name == "output.weight";
    if let Some(tensor) = gguf.tensors().iter().find(|tensor| !used(&tensor.name)) {
        let message = format!("not expected in a model of architecture {}", shape.architecture.name());
        return Err(Error::tensor(gguf.path(), &tensor.name, message));
    }
    Ok(collected.targets)
}

struct Collected<'a> {
    gguf: &'a Gguf,
    targets: Vec<Target<'a>>,
    seen: HashSet<&'a str>,
}

impl Collected<'_> {
    fn add(&mut self, from: &str, to: &str, sizes: &[u64], interleaved: Option<u64>) -> Result<()> {
        let error = |message: String| Error::tensor(self.gguf.path(), from, message);
        let source = self.gguf.tensor(from).ok_or_else(|| error(format!("missing, expected shape {sizes:?}")))?;
        if source.shape != sizes {
            return Err(error(format!("has shape {:?}, expected {sizes:?}", source.shape)));
        }
        if !READABLE.contains(&source.kind) {
            let known = READABLE.map(|kind| kind.name).join(", ");
            return Err(error(format!("has type {}, which cannot be read; known are {known}", source.kind.name)));
        }
        self.seen.insert(&source.name);
        self.targets.push(Target { name: to.to_owned(), source, interleaved });
        Ok(())
    }
}
