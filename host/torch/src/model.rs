//! A language model of any family: a decoder with pre-RMSNorm, rotary positions, grouped-query attention, SwiGLU, and
//! an output layer that may be the embedding. Equal to transformers' model of the family within rounding.
//!
//! Rows lie one after another without padding, but for what saves an operation (see [`crate::rows::Batch`]); attention
//! alone knows where a row begins.
//!
//! Axes: P tokens of all rows, B rows, T tokens of a row, N targets, D hidden size, H query heads, K key and value heads,
//! C head width.

use std::path::Path;

use tch::Tensor;

use crate::config::{ModelConfig, Shape};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::rotary::Rotary;
use crate::rows::{Batch, Block, Row};
use crate::weights::{Layout, Weights};

/// Weights of one layer, views of the flat buffer.
#[derive(Debug)]
pub(crate) struct Layer {
    /// `[D]`.
    pub(crate) input_norm: Tensor,
    /// `[(H + 2 K) C, D]`.
    pub(crate) qkv_weight: Tensor,
    /// `[(H + 2 K) C]`, where the family has it.
    pub(crate) qkv_bias: Option<Tensor>,
    /// `[2 C]`: the norm of the heads of q, then that of k, where the family has them.
    pub(crate) qk_norm: Option<Tensor>,
    /// `[D, H C]`.
    pub(crate) output: Tensor,
    /// `[D]`.
    pub(crate) second_norm: Tensor,
    /// `[I, D]`, I the intermediate size.
    pub(crate) gate: Tensor,
    /// `[I, D]`.
    pub(crate) up: Tensor,
    /// `[D, I]`.
    pub(crate) down: Tensor,
}

/// A model: its configuration and its weights, in f32.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    device: Device,
    weights: Weights,
    trunk: Trunk,
    head: Option<Tensor>,
}

/// All but the output layer: from token ids to hidden states.
#[derive(Debug)]
pub(crate) struct Trunk {
    shape: Shape,
    device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    checkpointing: bool,
}

/// A forward pass that recorded gradients.
#[derive(Debug)]
pub(crate) struct Pass {
    /// Hidden states that predict the batch's targets, after the last norm: `[N, D]`, with autograd's graph behind them.
    pub(crate) hidden: Tensor,
    /// With gradient checkpointing: what the way back needs to compute the layers again.
    checkpoints: Option<Checkpoints>,
}

/// The graph of `hidden` begins at `last`, and the layers have none.
#[derive(Debug)]
struct Checkpoints {
    frame: Frame,
    /// The embeddings, with their graph.
    embedded: Tensor,
    /// What each layer reads, without a graph; the first reads the embeddings.
    inputs: Vec<Tensor>,
    /// What comes out of the last layer, the leaf of the rest.
    last: Tensor,
}

/// Where the tokens of a batch stand.
#[derive(Debug)]
struct Frame {
    /// `[P, 1, C]`.
    cosine: Tensor,
    /// `[P, 1, C]`.
    sine: Tensor,
    blocks: Vec<Block>,
}

/// Multiply-adds that take as long as one more block in each layer, forward and back: what calling libtorch's operations
/// costs on a CPU, and what launching kernels costs on a GPU.
const BLOCK_COSTS_CPU: usize = 3_000_000;
const BLOCK_COSTS_GPU: usize = 1_500_000_000;

impl Model {
    /// Reads a Hugging Face model folder: `config.json` and `model.safetensors`, or its shards. Errors: a file that is
    /// missing or broken, a model that is not supported, weights that do not fit.
    pub fn load(folder: &Path, device: Device) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        let weights = Weights::load(config.shape(), folder, device)?;
        Self::new(config, weights, device)
    }

    /// A new model. Its weights are a function of the seed and the configuration.
    pub fn create(config: ModelConfig, seed: u64, device: Device) -> Result<Self> {
        let weights = Weights::create(config.shape(), seed, device)?;
        Self::new(config, weights, device)
    }

    /// A copy of the weights as they are now, without gradients: a reference model.
    pub fn frozen_copy(&self) -> Result<Self> {
        Self::new(self.config.clone(), self.weights.frozen_copy(self.config.shape())?, self.device)
    }

    /// Moves these weights the share `rate` of the way to those of another model of the same shape: with 1 they become
    /// equal. Errors: a rate outside 0..=1, models of different shapes.
    pub fn follow(&mut self, other: &Self, rate: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&rate) {
            return Err(Error::argument("rate", format!("{rate} is outside 0..=1")));
        }
        self.weights.follow(&other.weights, rate)
    }

    /// The same model with room for gradients, so that it can be trained. A model is frozen until then.
    pub fn with_gradients(mut self) -> Result<Self> {
        self.weights.keep_gradients()?;
        Ok(self)
    }

    /// Whether forward passes that record gradients keep only what each layer reads, and compute the layers again on the
    /// way back: a third more arithmetic, and a small part of the memory.
    #[must_use]
    pub fn with_gradient_checkpointing(mut self, on: bool) -> Self {
        self.trunk.checkpointing = on;
        self
    }

    /// Writes `config.json` and `model.safetensors` into a folder, which transformers can load. Each file is written
    /// aside and renamed; the folder is made if it is not there.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.snapshot(false)?.save(folder)
    }

    fn new(config: ModelConfig, weights: Weights, device: Device) -> Result<Self> {
        let trunk = Trunk::new(config.shape(), &weights, device)?;
        // The output layer is the last slot, where it is not the embedding.
        let head = weights.parameters.last().filter(|_| !config.shape().tied).map(Tensor::shallow_clone);
        Ok(Self { config, device, weights, trunk, head })
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the weights lie.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of weights; a tied output layer counts once.
    pub fn weight_count(&self) -> usize {
        self.weights.count()
    }

    /// Number of weights of a model of this shape.
    pub fn weight_count_of(shape: &Shape) -> usize {
        Layout::new(shape).count()
    }

    /// A copy of the gradient that backward passes have added up, over all weights in their layout. Errors: a frozen
    /// model.
    pub fn gradient(&self) -> Result<Vec<f32>> {
        let (flat, _) = self.weights.gradient.as_ref().ok_or(Error::Frozen)?;
        Ok(Vec::try_from(&flat.f_to_device(tch::Device::Cpu)?)?)
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn trunk(&self) -> &Trunk {
        &self.trunk
    }

    /// `[V, D]`.
    pub(crate) fn embedding(&self) -> &Tensor {
        &self.trunk.embedding
    }

    pub(crate) fn layers(&self) -> &[Layer] {
        &self.trunk.layers
    }

    /// `[D]`.
    pub(crate) fn norm(&self) -> &Tensor {
        &self.trunk.norm
    }

    /// The output layer, `[V, D]`.
    pub(crate) fn head(&self) -> &Tensor {
        self.head.as_ref().unwrap_or(&self.trunk.embedding)
    }

    /// Where the gradient of the output layer is added up, `[V, D]`.
    pub(crate) fn head_gradient(&self) -> Result<Tensor> {
        let (_, gradients) = self.weights.gradient.as_ref().ok_or(Error::Frozen)?;
        let index = if self.head.is_some() { gradients.len() - 1 } else { 0 };
        Ok(gradients[index].shallow_clone())
    }

    /// Hidden states that predict the batch's targets, after the last norm: `[N, D]`.
    pub(crate) fn hidden_of_targets(&self, batch: &Batch) -> Result<Tensor> {
        self.trunk.hidden_of_targets(batch)
    }
}

impl Trunk {
    /// The trunk that weights begin with.
    pub(crate) fn new(shape: &Shape, weights: &Weights, device: Device) -> Result<Self> {
        let mut views = weights.parameters.iter().map(Tensor::shallow_clone);
        let mut next = || views.next().ok_or_else(|| Error::torch("the layout of the weights has too few slots"));
        let embedding = next()?;
        let mut layers = Vec::with_capacity(shape.layers);
        for _ in 0..shape.layers {
            layers.push(Layer {
                input_norm: next()?,
                qkv_weight: next()?,
                qkv_bias: shape.qkv_bias().then(&mut next).transpose()?,
                qk_norm: shape.qk_norm().then(&mut next).transpose()?,
                output: next()?,
                second_norm: next()?,
                gate: next()?,
                up: next()?,
                down: next()?,
            });
        }
        Ok(Self { shape: shape.clone(), device, embedding, layers, norm: next()?, checkpointing: false })
    }

    pub(crate) fn checkpointing(&self) -> bool {
        self.checkpointing
    }

    /// See [`Model::with_gradient_checkpointing`].
    pub(crate) fn set_checkpointing(&mut self, on: bool) {
        self.checkpointing = on;
    }

    /// Rows as tensors; they must be checked, and at least one must have a target.
    pub(crate) fn batch<'a>(&self, rows: impl ExactSizeIterator<Item = Row<'a>> + Clone) -> Result<Batch> {
        let (d, i) = (self.shape.hidden_size, self.shape.intermediate_size);
        let heads = 2 * (self.shape.heads + self.shape.kv_heads) * self.shape.head_dim();
        let block_costs = if self.device.is_cpu() { BLOCK_COSTS_CPU } else { BLOCK_COSTS_GPU };
        Batch::new(rows, block_costs / (d * (heads + 3 * i)), self.device)
    }

    /// Hidden states that predict the batch's targets, after the last norm: `[N, D]`.
    pub(crate) fn hidden_of_targets(&self, batch: &Batch) -> Result<Tensor> {
        self.of_targets(&self.hidden(batch)?, batch)
    }

    /// As [`Trunk::hidden_of_targets`], for a way back.
    pub(crate) fn pass(&self, batch: &Batch) -> Result<Pass> {
        if !self.checkpointing {
            return Ok(Pass { hidden: self.hidden_of_targets(batch)?, checkpoints: None });
        }
        let (frame, embedded) = (self.frame(batch)?, self.embed(batch)?);
        let mut inputs = vec![embedded.f_detach()?];
        {
            let _no_grad = tch::no_grad_guard();
            for (index, layer) in self.layers.iter().enumerate() {
                inputs.push(self.layer(layer, &inputs[index], &frame)?);
            }
        }
        let last = inputs.pop().ok_or_else(|| Error::torch("a model without layers"))?.f_set_requires_grad(true)?;
        let hidden = self.of_targets(&last, batch)?;
        Ok(Pass { hidden, checkpoints: Some(Checkpoints { frame, embedded, inputs, last }) })
    }

    /// The residual stream after the last layer, `[P, D]`.
    pub(crate) fn hidden(&self, batch: &Batch) -> Result<Tensor> {
        let frame = self.frame(batch)?;
        let mut x = self.embed(batch)?;
        for layer in &self.layers {
            x = self.layer(layer, &x, &frame)?;
        }
        Ok(x)
    }

    fn of_targets(&self, x: &Tensor, batch: &Batch) -> Result<Tensor> {
        self.rms_norm(&x.f_index_select(0, &batch.sources)?, &self.norm)
    }

    fn embed(&self, batch: &Batch) -> Result<Tensor> {
        Ok(Tensor::f_embedding(&self.embedding, &batch.ids, -1, false, false)?)
    }

    fn frame(&self, batch: &Batch) -> Result<Frame> {
        let longest = batch.blocks.iter().map(|block| block.length).max().unwrap_or(0);
        let rotary = Rotary::new(&self.shape, longest as usize, self.device)?;
        let at = |table: &Tensor| table.f_index_select(0, &batch.positions)?.f_unsqueeze(1);
        Ok(Frame { cosine: at(&rotary.cosine)?, sine: at(&rotary.sine)?, blocks: batch.blocks.clone() })
    }

    /// The residual stream `[P, D]` after a layer.
    fn layer(&self, layer: &Layer, x: &Tensor, frame: &Frame) -> Result<Tensor> {
        let shape = &self.shape;
        let (heads, kv_heads, width) = (shape.heads as i64, shape.kv_heads as i64, shape.head_dim() as i64);
        let normed = self.rms_norm(x, &layer.input_norm)?;
        let qkv = normed.f_linear(&layer.qkv_weight, layer.qkv_bias.as_ref())?;
        let qkv = qkv.f_view([-1, heads + 2 * kv_heads, width])?;
        let [qk, v] = split(&qkv, [heads + kv_heads, kv_heads], 1)?;
        let qk = match &layer.qk_norm {
            Some(norm) => qk
                .f_rms_norm(width, None::<&Tensor>, shape.rms_norm_eps)?
                .f_mul(&per_head(norm, heads, kv_heads, width)?)?,
            None => qk,
        };
        let qk = qk.f_mul(&frame.cosine)?.f_add(&qk.f_roll(width / 2, -1)?.f_mul(&frame.sine)?)?;
        let [q, k] = split(&qk, [heads, kv_heads], 1)?;
        let x = x.f_add(&linear(&attention(&q, &k, &v, &frame.blocks)?, &layer.output)?)?;
        let normed = self.rms_norm(&x, &layer.second_norm)?;
        let gated = linear(&normed, &layer.gate)?.f_silu()?.f_mul(&linear(&normed, &layer.up)?)?;
        Ok(x.f_add(&linear(&gated, &layer.down)?)?)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        Ok(x.f_rms_norm(self.shape.hidden_size as i64, Some(weight), self.shape.rms_norm_eps)?)
    }
}

impl Pass {
    /// Adds to the gradients of the weights, from that of the hidden states, `[N, D]`.
    pub(crate) fn backward(self, trunk: &Trunk, gradient: &Tensor) -> Result<()> {
        backward(&self.hidden, gradient)?;
        let Some(Checkpoints { frame, embedded, inputs, last }) = self.checkpoints else {
            return Ok(());
        };
        let mut gradient = last.f_grad()?;
        for (layer, input) in trunk.layers.iter().zip(inputs).rev() {
            let input = input.f_set_requires_grad(true)?;
            backward(&trunk.layer(layer, &input, &frame)?, &gradient)?;
            gradient = input.f_grad()?;
        }
        backward(&embedded, &gradient)
    }
}

/// Runs autograd back from a tensor with this gradient.
fn backward(tensor: &Tensor, gradient: &Tensor) -> Result<()> {
    // tch starts a backward pass from one number only; the gradient of this one at `tensor` is `gradient`.
    tensor.f_mul(gradient)?.f_sum(tch::Kind::Float)?.f_backward()?;
    Ok(())
}

/// Causal attention of each row to itself: queries `[P, H, C]`, keys and values `[P, K, C]`, to `[P, H C]`.
fn attention(q: &Tensor, k: &Tensor, v: &Tensor, blocks: &[Block]) -> Result<Tensor> {
    let sizes: Vec<i64> = blocks.iter().map(|block| block.rows * block.length).collect();
    let cut = |heads: &Tensor| heads.f_split_with_sizes(sizes.as_slice(), 0);
    let (q, k, v) = (cut(q)?, cut(k)?, cut(v)?);
    let mut attended = Vec::with_capacity(blocks.len());
    for (block, ((q, k), v)) in blocks.iter().zip(q.iter().zip(&k).zip(&v)) {
        let by_rows = |heads: &Tensor| {
            let (_, count, width) = heads.size3()?;
            heads.f_view([block.rows, block.length, count, width])
        };
        let times = q.size()[1] / k.size()[1];
        let out = Tensor::f_scaled_dot_product_attention(
            &by_rows(q)?.f_transpose(1, 2)?,
            &repeat_heads(&by_rows(k)?, times)?,
            &repeat_heads(&by_rows(v)?, times)?,
            None::<&Tensor>,
            0.0,
            true,
            None,
            false,
        )?;
        attended.push(out.f_transpose(1, 2)?.f_reshape([block.rows * block.length, -1])?);
    }
    match attended.as_slice() {
        [one] => Ok(one.shallow_clone()),
        several => Ok(Tensor::f_cat(several, 0)?),
    }
}

/// `x` `[N, in]` times the transpose of `weight` `[out, in]`.
fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(x.f_linear(weight, None::<&Tensor>)?)
}

/// Views of the parts of a dimension. Backward of a split is one concatenation, where each `narrow` would fill a buffer
/// of full size.
fn split<const PARTS: usize>(tensor: &Tensor, sizes: [i64; PARTS], dim: i64) -> Result<[Tensor; PARTS]> {
    let parts = tensor.f_split_with_sizes(sizes.as_slice(), dim)?;
    parts.try_into().map_err(|_| Error::torch("split gave another number of parts"))
}

/// The norms `[2 C]` of q and k as one weight for each of their heads, `[H + K, C]`.
pub(crate) fn per_head(norm: &Tensor, heads: i64, kv_heads: i64, width: i64) -> Result<Tensor> {
    let [q, k] = split(&norm.f_view([2, width])?, [1, 1], 0)?;
    Ok(Tensor::f_cat(&[q.f_expand([heads, width], false)?, k.f_expand([kv_heads, width], false)?], 0)?)
}

/// `[B, T, K, C]` to `[B, K times, T, C]`, each key or value head as often as it has query heads.
fn repeat_heads(heads_btkc: &Tensor, times: i64) -> Result<Tensor> {
    let heads = heads_btkc.f_transpose(1, 2)?;
    if times == 1 {
        return Ok(heads);
    }
    let size = heads.size();
    let (b, k, t, c) = (size[0], size[1], size[2], size[3]);
    Ok(heads.f_unsqueeze(2)?.f_expand([b, k, times, t, c], false)?.f_reshape([b, k * times, t, c])?)
}
