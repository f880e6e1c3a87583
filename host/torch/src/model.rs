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
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Layout, Trained};
use crate::linear::{Adapter, Linear, converted};
use crate::lora::{AdapterConfig, Group, Lora};
use crate::rotary::Rotary;
use crate::rows::{Batch, Block, Row};
use crate::weights::{Draw, Weights};

/// Weights of one layer, views of the flat buffers.
#[derive(Debug)]
pub(crate) struct Layer {
    /// `[D]`.
    pub(crate) input_norm: Tensor,
    /// `[(H + 2 K) C, D]`, with a bias where the family has it.
    pub(crate) qkv: Linear,
    /// `[2 C]`: the norm of the heads of q, then that of k, where the family has them.
    pub(crate) qk_norm: Option<Tensor>,
    /// `[D, H C]`.
    pub(crate) output: Linear,
    /// `[D]`.
    pub(crate) second_norm: Tensor,
    /// `[I, D]`, I the intermediate size.
    pub(crate) gate: Linear,
    /// `[I, D]`.
    pub(crate) up: Linear,
    /// `[D, I]`.
    pub(crate) down: Linear,
}

impl Layer {
    /// Its matrices, in the order of [`Group::ALL`].
    pub(crate) fn matrices(&self) -> [&Linear; 5] {
        [&self.qkv, &self.output, &self.gate, &self.up, &self.down]
    }

    fn matrices_mut(&mut self) -> [&mut Linear; 5] {
        [&mut self.qkv, &mut self.output, &mut self.gate, &mut self.up, &mut self.down]
    }
}

/// A model: its configuration and its weights.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    device: Device,
    weights: Weights,
    trunk: Trunk,
    head: Option<Tensor>,
    adapter: Option<AdapterConfig>,
}

/// All but the output layer: from token ids to hidden states.
#[derive(Debug)]
pub(crate) struct Trunk {
    shape: Shape,
    device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// What it computes with; weights of another type are converted where they are used.
    dtype: DType,
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
    /// Reads a Hugging Face model folder: `config.json` and `model.safetensors`, or its shards; or a folder of an adapter
    /// as PEFT writes it, with the model that it names. In f32. Errors: a file that is missing or broken, a model that is
    /// not supported, weights that do not fit.
    pub fn load(folder: &Path, device: Device) -> Result<Self> {
        Self::load_over(folder, None, device)
    }

    /// As [`Model::load`]; an adapter goes onto the model in the folder `base`, and not onto the one that it names.
    pub fn load_over(folder: &Path, base: Option<&Path>, device: Device) -> Result<Self> {
        if !AdapterConfig::is_in(folder) {
            let config = ModelConfig::load(folder)?;
            let weights = Weights::load(config.shape(), folder)?.placed(device, DType::F32.kind())?;
            return Self::new(config, weights, device, DType::F32, None);
        }
        let adapter = AdapterConfig::load(folder)?;
        let base = base.unwrap_or(&adapter.base);
        if !base.is_dir() {
            let message = format!(
                "the adapter is for the model {}, which is no folder here; put its folder as `base_model_name_or_path`",
                base.display()
            );
            return Err(Error::file(&folder.join("adapter_config.json"), message));
        }
        if AdapterConfig::is_in(base) {
            return Err(Error::file(&base.join("adapter_config.json"), "an adapter cannot be for another adapter"));
        }
        let model = Self::load(base, Device::CPU)?;
        let model = model.arranged(device, DType::F32, &Trained::Adapter(adapter.lora.clone()), base, 0)?;
        model.weights.read_adapter(folder)?;
        Ok(model)
    }

    /// A new model. Its weights are a function of the seed and the configuration.
    pub fn create(config: ModelConfig, seed: u64, device: Device) -> Result<Self> {
        let weights = Weights::create(config.shape(), seed)?.placed(device, DType::F32.kind())?;
        Self::new(config, weights, device, DType::F32, None)
    }

    /// The same weights on a device, computing with a type of numbers, and trained as told. What is trained is kept in
    /// f32, the rest in the type. An adapter that the model does not have yet begins as nothing: one of its factors is a
    /// function of the seed, the other 0. `base` is the folder that its files will name.
    ///
    /// Errors: [`DType::F16`], whose range is too small; a model with an adapter that is to have another one, or none;
    /// names of frozen weights that do not fit.
    pub fn arranged(self, device: Device, dtype: DType, trained: &Trained, base: &Path, seed: u64) -> Result<Self> {
        if dtype == DType::F16 {
            return Err(Error::argument("dtype", "float16 is for files only: its range is too small to compute with"));
        }
        let draw = Draw { seed, deviation: self.config.shape().initializer_range };
        let (layout, adapter) = match (trained, self.adapter) {
            (Trained::Adapter(lora), None) => {
                lora.check()?;
                let adapter = AdapterConfig { lora: lora.clone(), base: base.to_owned() };
                (Layout::new(self.config.shape(), trained)?, Some(adapter))
            }
            (Trained::Adapter(lora), Some(adapter)) if *lora == adapter.lora => {
                (self.weights.layout().clone(), Some(AdapterConfig { base: base.to_owned(), ..adapter }))
            }
            (Trained::Nothing, Some(adapter)) => (self.weights.layout().clone(), Some(adapter)),
            (_, None) => (Layout::new(self.config.shape(), trained)?, None),
            (_, Some(_)) => {
                return Err(Error::argument(
                    "trained",
                    "the model has an adapter, and is to be trained in another way",
                ));
            }
        };
        let train = *trained != Trained::Nothing;
        let mut weights = self.weights.arranged(layout, device, dtype, train, draw)?;
        if train {
            weights.keep_gradients()?;
        }
        let checkpointing = self.trunk.checkpointing;
        Ok(Self::new(self.config, weights, device, dtype, adapter)?.with_gradient_checkpointing(checkpointing))
    }

    /// A copy of the weights as they are now, without gradients: a reference model. Weights that are not trained are
    /// shared and not copied, so that beside an adapter a reference takes next to no memory.
    pub fn frozen_copy(&self) -> Result<Self> {
        self.copy(self.trunk.dtype)
    }

    /// As [`Model::frozen_copy`], with the precision of what is trained: a copy that follows in small steps.
    pub fn precise_copy(&self) -> Result<Self> {
        self.copy(DType::F32)
    }

    fn copy(&self, own: DType) -> Result<Self> {
        let weights = self.weights.frozen_copy(own.kind())?;
        Self::new(self.config.clone(), weights, self.device, self.trunk.dtype, self.adapter.clone())
    }

    /// What [`Model::save`] wrote of a model that had the same weights beside those that are trained: a frozen model that
    /// shares these. `precise` as in [`Model::precise_copy`].
    pub fn load_beside(&self, folder: &Path, precise: bool) -> Result<Self> {
        let beside = self.copy(if precise { DType::F32 } else { self.trunk.dtype })?;
        if self.adapter.is_some() {
            let found = AdapterConfig::load(folder)?;
            if self.adapter.as_ref().is_some_and(|ours| ours.lora != found.lora) {
                return Err(Error::file(folder, "an adapter of another shape than the policy's"));
            }
            beside.weights.read_adapter(folder)?;
        } else {
            let config = ModelConfig::load(folder)?;
            beside.weights.take(&Weights::load(config.shape(), folder)?)?;
        }
        Ok(beside)
    }

    /// Moves these weights the share `rate` of the way to those of another model of the same shape: with 1 they become
    /// equal. Errors: a rate outside 0..=1, models of different shapes.
    pub fn follow(&mut self, other: &Self, rate: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&rate) {
            return Err(Error::argument("rate", format!("{rate} is outside 0..=1")));
        }
        self.weights.follow(&other.weights, rate)
    }

    /// The same model with all weights trained. A model is frozen until then.
    pub fn with_gradients(self) -> Result<Self> {
        let (device, dtype) = (self.device, self.trunk.dtype);
        self.arranged(device, dtype, &Trained::ALL, Path::new(""), 0)
    }

    /// Whether forward passes that record gradients keep only what each layer reads, and compute the layers again on the
    /// way back: a third more arithmetic, and a small part of the memory.
    #[must_use]
    pub fn with_gradient_checkpointing(mut self, on: bool) -> Self {
        self.trunk.checkpointing = on;
        self
    }

    /// Writes `config.json` and `model.safetensors` into a folder, which transformers can load; of a model with an adapter
    /// `adapter_config.json` and `adapter_model.safetensors`, which PEFT can load. In f32, so that nothing is lost. Each
    /// file is written aside and renamed; the folder is made if it is not there.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.snapshot(false)?.save(folder)
    }

    /// Writes a whole model into a folder, in a type of numbers and in files of at most `shard_bytes`, where one tensor is
    /// not larger. An adapter is added to the weights.
    pub fn export(self, folder: &Path, dtype: DType, shard_bytes: usize) -> Result<()> {
        self.merged()?.snapshot(false)?.write(folder, dtype, shard_bytes)
    }

    /// The same model without its adapter, which is added to the weights. Frozen, and in buffers of its own.
    pub fn merged(mut self) -> Result<Self> {
        if self.adapter.take().is_none() {
            return Ok(self);
        }
        let _no_grad = tch::no_grad_guard();
        let matrices = self.trunk.layers.iter().flat_map(Layer::matrices).map(Linear::merged);
        let matrices = matrices.collect::<Result<Vec<_>>>()?;
        let (device, dtype) = (self.device, self.trunk.dtype);
        let merged = self.arranged(device, dtype, &Trained::Nothing, Path::new(""), 0)?;
        for (linear, matrix) in merged.trunk.layers.iter().flat_map(Layer::matrices).zip(matrices) {
            linear.weight.shallow_clone().f_copy_(&matrix)?;
        }
        Ok(merged)
    }

    fn new(
        config: ModelConfig,
        weights: Weights,
        device: Device,
        dtype: DType,
        adapter: Option<AdapterConfig>,
    ) -> Result<Self> {
        let mut trunk = Trunk::new(config.shape(), &weights, device, dtype)?;
        if let Some(adapter) = &adapter {
            trunk.add_adapters(&weights, &adapter.lora)?;
        }
        let head = weights.layout().head.map(|slot| weights.parameters[slot].shallow_clone());
        Ok(Self { config, device, weights, trunk, head, adapter })
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the weights lie.
    pub fn device(&self) -> Device {
        self.device
    }

    /// What it computes with.
    pub fn dtype(&self) -> DType {
        self.trunk.dtype
    }

    /// Its adapter, where it has one.
    pub fn adapter(&self) -> Option<&AdapterConfig> {
        self.adapter.as_ref()
    }

    /// Number of weights; a tied output layer counts once.
    pub fn weight_count(&self) -> usize {
        self.weights.layout().count()
    }

    /// Number of weights that are its own: of a model that is trained, those that are.
    pub fn own_weight_count(&self) -> usize {
        self.weights.layout().count_own()
    }

    /// Number of weights of what [`Model::export`] writes.
    pub fn merged_weight_count(&self) -> usize {
        let adapter = if self.adapter.is_some() { self.weights.layout().count_own() } else { 0 };
        self.weight_count() - adapter
    }

    /// Number of weights of a model of this shape, and how many of them are trained. Errors: names of frozen weights that
    /// do not fit.
    pub fn weight_counts_of(shape: &Shape, trained: &Trained) -> Result<(usize, usize)> {
        let layout = Layout::new(shape, trained)?;
        Ok((layout.count(), if *trained == Trained::Nothing { 0 } else { layout.count_own() }))
    }

    /// A copy of the gradient that backward passes have added up, over all weights that are trained, in their layout.
    /// Errors: a frozen model.
    pub fn gradient(&self) -> Result<Vec<f32>> {
        let gradient = self.weights.gradient.as_ref().ok_or(Error::Frozen)?;
        Ok(Vec::try_from(&gradient.flat.f_to_device(tch::Device::Cpu)?)?)
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

    /// Where the gradient of the output layer is added up, `[V, D]`; none if the layer is not trained.
    pub(crate) fn head_gradient(&self) -> Result<Option<Tensor>> {
        let gradient = self.weights.gradient.as_ref().ok_or(Error::Frozen)?;
        let slot = self.weights.layout().head.unwrap_or(0);
        Ok(gradient.slots[slot].as_ref().map(Tensor::shallow_clone))
    }

    /// Hidden states that predict the batch's targets, after the last norm: `[N, D]`.
    pub(crate) fn hidden_of_targets(&self, batch: &Batch) -> Result<Tensor> {
        self.trunk.hidden_of_targets(batch)
    }
}

impl Trunk {
    /// The trunk that weights begin with.
    pub(crate) fn new(shape: &Shape, weights: &Weights, device: Device, dtype: DType) -> Result<Self> {
        let mut views = weights.parameters.iter().map(Tensor::shallow_clone);
        let mut next = || views.next().ok_or_else(|| Error::torch("the layout of the weights has too few slots"));
        let embedding = next()?;
        let mut layers = Vec::with_capacity(shape.layers);
        for _ in 0..shape.layers {
            let input_norm = next()?;
            let qkv = Linear::new(next()?, shape.qkv_bias().then(&mut next).transpose()?);
            layers.push(Layer {
                input_norm,
                qkv,
                qk_norm: shape.qk_norm().then(&mut next).transpose()?,
                output: Linear::new(next()?, None),
                second_norm: next()?,
                gate: Linear::new(next()?, None),
                up: Linear::new(next()?, None),
                down: Linear::new(next()?, None),
            });
        }
        let norm = next()?;
        Ok(Self { shape: shape.clone(), device, embedding, layers, norm, dtype, checkpointing: false })
    }

    /// Gives the layers the adapters that the weights end with.
    fn add_adapters(&mut self, weights: &Weights, lora: &Lora) -> Result<()> {
        let missing = || Error::torch("the layout of the weights has too few adapters");
        let first = weights.layout().adapters.ok_or_else(missing)?;
        let mut views = weights.parameters[first..].iter().map(Tensor::shallow_clone);
        let mut next = || views.next().ok_or_else(missing);
        for layer in &mut self.layers {
            for (group, linear) in Group::ALL.into_iter().zip(layer.matrices_mut()) {
                let (_, parts) = group.parts(&self.shape);
                if !parts.iter().any(|(target, _)| lora.targets.contains(target)) {
                    continue;
                }
                let down = next()?;
                let ups = parts.into_iter().map(|(target, rows)| {
                    Ok((rows as i64, lora.targets.contains(&target).then(&mut next).transpose()?))
                });
                let ups = ups.collect::<Result<Vec<_>>>()?;
                linear.add_adapter(Adapter { down, ups, scale: lora.scale() });
            }
        }
        Ok(())
    }

    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
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
        let embedded = Tensor::f_embedding(&self.embedding, &batch.ids, -1, false, false)?;
        Ok(embedded.f_to_kind(self.dtype.kind())?)
    }

    fn frame(&self, batch: &Batch) -> Result<Frame> {
        let longest = batch.blocks.iter().map(|block| block.length).max().unwrap_or(0);
        let rotary = Rotary::new(&self.shape, longest as usize, self.device)?;
        let kind = self.dtype.kind();
        let at = |table: &Tensor| table.f_index_select(0, &batch.positions)?.f_unsqueeze(1)?.f_to_kind(kind);
        Ok(Frame { cosine: at(&rotary.cosine)?, sine: at(&rotary.sine)?, blocks: batch.blocks.clone() })
    }

    /// The residual stream `[P, D]` after a layer.
    fn layer(&self, layer: &Layer, x: &Tensor, frame: &Frame) -> Result<Tensor> {
        let shape = &self.shape;
        let (heads, kv_heads, width) = (shape.heads as i64, shape.kv_heads as i64, shape.head_dim() as i64);
        let normed = self.rms_norm(x, &layer.input_norm)?;
        let qkv = layer.qkv.forward(&normed)?;
        let qkv = qkv.f_view([-1, heads + 2 * kv_heads, width])?;
        let [qk, v] = split(&qkv, [heads + kv_heads, kv_heads], 1)?;
        let qk = match &layer.qk_norm {
            Some(norm) => qk.f_rms_norm(width, None::<&Tensor>, shape.rms_norm_eps)?.f_mul(&per_head(
                &converted(norm, self.dtype.kind())?,
                heads,
                kv_heads,
                width,
            )?)?,
            None => qk,
        };
        let qk = qk.f_mul(&frame.cosine)?.f_add(&qk.f_roll(width / 2, -1)?.f_mul(&frame.sine)?)?;
        let [q, k] = split(&qk, [heads, kv_heads], 1)?;
        let x = x.f_add(&layer.output.forward(&attention(&q, &k, &v, &frame.blocks)?)?)?;
        let normed = self.rms_norm(&x, &layer.second_norm)?;
        let gated = layer.gate.forward(&normed)?.f_silu()?.f_mul(&layer.up.forward(&normed)?)?;
        Ok(x.f_add(&layer.down.forward(&gated)?)?)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let weight = converted(weight, self.dtype.kind())?;
        Ok(x.f_rms_norm(self.shape.hidden_size as i64, Some(&weight), self.shape.rms_norm_eps)?)
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

/// Runs autograd back from a tensor with this gradient, if anything before it is trained.
fn backward(tensor: &Tensor, gradient: &Tensor) -> Result<()> {
    if !tensor.requires_grad() {
        return Ok(());
    }
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
