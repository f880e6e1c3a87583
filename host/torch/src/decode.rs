//! The model as it samples: the same function as [`crate::model`], in a form that is cheap for one token per row.
//!
//! RMSNorm's weights are folded into the matrix that follows, and attention's scale into the queries' rows. The query
//! heads of a key head stand side by side, so keys and values are never repeated.
//!
//! Axes: N tokens of a pass, B rows of the cache, S positions that a row has room for, D hidden size, H query heads,
//! K key and value heads, G = H / K, C head width.

use tch::{Kind, Tensor};

use crate::cache::{Cache, LayerCache};
use crate::config::Shape;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernels;
use crate::linear::converted;
use crate::model::{Model, per_head};
use crate::rotary::Rotary;

/// Tokens that are read in one pass: few on a CPU, so that what lies between two matrices stays in its cache, and many on
/// a GPU, so that it is busy.
const TOKENS_PER_PASS_CPU: usize = 512;
const TOKENS_PER_PASS_GPU: usize = 16384;

/// Up to this width, matrices are kept as `[in, out]` copies: at the few rows of a decoding step that product is
/// faster. Wider ones are bound by memory, and are multiplied as they lie.
const WIDEST_TRANSPOSED: usize = 256;

/// Weights folded for decoding, all `[in, out]`. They are copies: make them anew when the model has changed.
#[derive(Debug)]
pub(crate) struct Decoder {
    shape: Shape,
    device: Device,
    dtype: DType,
    /// Whether a step runs [`crate::kernels`], which are for f32 on the CPU, or libtorch's operations.
    kernels: bool,
    /// `[V, D]`.
    embedding: Tensor,
    layers: Vec<Layer>,
    /// `[D, V]`, with the last norm's weight.
    head: Tensor,
}

#[derive(Debug)]
struct Layer {
    /// `[D, (H + 2 K) C]`, with the input norm's weight and the scale of the queries.
    qkv: Tensor,
    /// `[(H + 2 K) C]`, with the scale of the queries; 0 in a family without it.
    qkv_bias: Tensor,
    /// `[H + K, C]`, with the scale of the queries; none in a family without it.
    qk_norm: Option<Tensor>,
    /// `[H C, D]`.
    output: Tensor,
    /// `[D, 2 I]`, with the second norm's weight.
    gate_up: Tensor,
    /// `[I, D]`.
    down: Tensor,
}

/// Tokens that are read in one pass; those of one row in the order of their positions.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// `[N]`.
    pub(crate) ids: Vec<i64>,
    /// `[N]`: the row of the cache that each belongs to.
    pub(crate) rows: Vec<i64>,
    /// `[N]`: where each stands in its row.
    pub(crate) positions: Vec<i64>,
    /// `[N]`: a row that begins alike, which may be the same row,
    pub(crate) sources: Vec<i64>,
    /// `[N]`: and how many positions of it are alike. They are read there, where the processor's cache has them if other
    /// tokens of the pass read them as well.
    pub(crate) shared: Vec<i64>,
    /// Those after which the next token is wanted, as indices into the others.
    pub(crate) wanted: Vec<i64>,
}

impl Tokens {
    /// One more token; the row's first `shared` positions are those of the row `source`.
    pub(crate) fn push(&mut self, id: u32, row: usize, position: usize, (source, shared): (usize, usize)) {
        self.ids.push(i64::from(id));
        self.rows.push(row as i64);
        self.positions.push(position as i64);
        self.sources.push(source as i64);
        self.shared.push(shared.min(position) as i64);
    }

    /// Says that the logits after the last token are wanted.
    pub(crate) fn want_last(&mut self) {
        self.wanted.push(self.ids.len() as i64 - 1);
    }
}

impl Decoder {
    pub(crate) fn new(model: &Model) -> Result<Self> {
        let shape = model.config().shape().clone();
        let transposed = |matrix: &Tensor| -> Result<Tensor> {
            let view = converted(matrix, model.dtype().kind())?.f_tr()?;
            Ok(if shape.hidden_size <= WIDEST_TRANSPOSED { view.f_contiguous()? } else { view })
        };
        let (heads, kv_heads, width) = (shape.heads as i64, shape.kv_heads as i64, shape.head_dim() as i64);
        let options = (Kind::Float, model.device().0);
        // Folded in f32, kept in what the model computes with.
        let dtype = model.dtype().kind();
        let float = |tensor: &Tensor| converted(tensor, Kind::Float);
        // The scale goes where nothing normalises it away.
        let ones = Tensor::f_ones([heads + 2 * kv_heads, width], options)?;
        let scales = ones.f_ones_like()?;
        let _same = scales.f_narrow(0, 0, heads)?.f_fill_(1.0 / (width as f64).sqrt())?;
        let scale = if shape.qk_norm() { &ones } else { &scales }.f_view([-1])?;
        let fold = |layer: &crate::model::Layer| -> Result<Layer> {
            let qkv = float(&layer.qkv.merged()?)?.f_mul(&layer.input_norm)?.f_mul(&scale.f_unsqueeze(1)?)?;
            Ok(Layer {
                qkv: transposed(&qkv)?,
                qkv_bias: match &layer.qkv.bias {
                    Some(bias) => converted(&float(bias)?.f_mul(&scale)?, dtype)?,
                    None => converted(&scale.f_zeros_like()?, dtype)?,
                },
                qk_norm: match &layer.qk_norm {
                    Some(norm) => {
                        let scales = scales.f_narrow(0, 0, heads + kv_heads)?;
                        Some(converted(&per_head(&float(norm)?, heads, kv_heads, width)?.f_mul(&scales)?, dtype)?)
                    }
                    None => None,
                },
                output: transposed(&layer.output.merged()?)?,
                gate_up: {
                    let [gate, up] = [float(&layer.gate.merged()?)?, float(&layer.up.merged()?)?];
                    transposed(&Tensor::f_cat(&[gate, up], 0)?.f_mul(&layer.second_norm)?)?
                },
                down: transposed(&layer.down.merged()?)?,
            })
        };
        let layers = model.layers().iter().map(fold).collect::<Result<Vec<_>>>()?;
        let head = transposed(&float(model.head())?.f_mul(model.norm())?)?;
        let (embedding, device) = (converted(model.embedding(), dtype)?, model.device());
        let kernels = device.is_cpu() && model.dtype() == DType::F32;
        Ok(Self { shape, device, dtype: model.dtype(), kernels, embedding, layers, head })
    }

    /// The same with libtorch's operations on every device.
    #[cfg(test)]
    pub(crate) fn without_kernels(self) -> Self {
        Self { kernels: false, ..self }
    }

    /// Handles of the same weights, for another thread.
    pub(crate) fn share(&self) -> Self {
        let share = |layer: &Layer| Layer {
            qkv: layer.qkv.shallow_clone(),
            qkv_bias: layer.qkv_bias.shallow_clone(),
            qk_norm: layer.qk_norm.as_ref().map(Tensor::shallow_clone),
            output: layer.output.shallow_clone(),
            gate_up: layer.gate_up.shallow_clone(),
            down: layer.down.shallow_clone(),
        };
        Self {
            shape: self.shape.clone(),
            device: self.device,
            dtype: self.dtype,
            kernels: self.kernels,
            embedding: self.embedding.shallow_clone(),
            layers: self.layers.iter().map(share).collect(),
            head: self.head.shallow_clone(),
        }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many tokens a pass should have.
    pub(crate) fn tokens_per_pass(&self) -> usize {
        if self.device.is_cpu() { TOKENS_PER_PASS_CPU } else { TOKENS_PER_PASS_GPU }
    }

    /// Reads tokens into their rows, and gives the logits `[wanted, V]` after those of which they are wanted.
    pub(crate) fn read(&self, tokens: &Tokens, cache: &Cache, rotary: &Rotary) -> Result<Tensor> {
        let (heads, kv_heads, width) = self.heads();
        let count = tokens.ids.len() as i64;
        let mut x = self.embedding.f_index_select(0, &self.indices(&tokens.ids)?)?;
        let places = if self.kernels { None } else { Some(Places::new(tokens, cache, rotary, self)?) };
        for (index, layer) in self.layers.iter().enumerate() {
            let qkv = layer.qkv_bias.f_addmm(&self.rms(&x)?, &layer.qkv)?;
            self.normalise_heads(layer, &qkv.f_view([count, heads + 2 * kv_heads, width])?)?;
            let attended = match &places {
                None => kernels::attention(&self.shape, &qkv, rotary, tokens, cache, index)?,
                Some(places) => self.attention(&qkv, places, cache.layer(index))?,
            };
            self.rest_of_layer(layer, &mut x, &attended)?;
        }
        self.logits(&x.f_index_select(0, &self.indices(&tokens.wanted)?)?)
    }

    fn indices(&self, indices: &[i64]) -> Result<Tensor> {
        Ok(Tensor::f_from_slice(indices)?.f_to_device(self.device.0)?)
    }

    /// What [`kernels::attention`] does, by libtorch's operations: rows that go on by one token together, with the whole
    /// cache behind a mask, and the others one by one.
    fn attention(&self, qkv: &Tensor, places: &Places, cache: &LayerCache) -> Result<Tensor> {
        let (heads, kv_heads, width) = self.heads();
        let group = heads / kv_heads;
        let qkv = qkv.f_view([-1, heads + 2 * kv_heads, width])?;
        let qk = rotate(&qkv.f_narrow(1, 0, heads + kv_heads)?, &places.cosine, &places.sine)?;
        let put = |to: &Tensor, from: Tensor| {
            to.f_view([-1, width])?.f_index_copy_(0, &places.flat, &from.f_reshape([-1, width])?)
        };
        let _same = put(&cache.keys, qk.f_narrow(1, heads, kv_heads)?)?;
        let _same = put(&cache.values, qkv.f_narrow(1, heads + kv_heads, kv_heads)?)?;
        let q = qk.f_narrow(1, 0, heads)?;
        let out = q.f_empty_like()?;
        if let Some(Singles { tokens, rows, mask }) = &places.singles {
            let longest = mask.size()[3];
            let queries = Tensor::f_zeros([cache.keys.size()[0], heads, width], (q.f_kind()?, self.device.0))?;
            let _same = queries.shallow_clone().f_index_copy_(0, rows, &q.f_index_select(0, tokens)?)?;
            let keys = cache.keys.f_narrow(2, 0, longest)?.f_transpose(2, 3)?;
            let queries = queries.f_view([-1, kv_heads, group, width])?;
            let scores = queries.f_matmul(&keys)?.f_add(mask)?.f_softmax(-1, Kind::Float)?.f_to_kind(q.f_kind()?)?;
            let attended = scores.f_matmul(&cache.values.f_narrow(2, 0, longest)?)?.f_view([-1, heads, width])?;
            let _same = out.shallow_clone().f_index_copy_(0, tokens, &attended.f_index_select(0, rows)?)?;
        }
        for Run { start, row, position, length } in &places.runs {
            let filled = position + length;
            let past = |tensor: &Tensor| {
                let each = [1, kv_heads, group, filled, width];
                let past = tensor.f_narrow(0, *row, 1)?.f_narrow(2, 0, filled)?.f_unsqueeze(2)?;
                past.f_expand(each, false)?.f_reshape([1, heads, filled, width])
            };
            let queries = q.f_narrow(0, *start, *length)?.f_transpose(0, 1)?.f_unsqueeze(0)?;
            let options = (Kind::Bool, self.device.0);
            let mask = Tensor::f_ones([*length, filled], options)?.f_tril(*position)?;
            let attended = Tensor::f_scaled_dot_product_attention(
                &queries,
                &past(&cache.keys)?,
                &past(&cache.values)?,
                Some(&mask),
                0.0,
                false,
                1.0,
                false,
            )?;
            out.f_narrow(0, *start, *length)?.f_copy_(&attended.f_squeeze_dim(0)?.f_transpose(0, 1)?)?;
        }
        Ok(out.f_view([-1, heads * width])?)
    }

    /// Adds the output projection and the feed-forward layer to the residual stream, in place.
    fn rest_of_layer(&self, layer: &Layer, x: &mut Tensor, attended: &Tensor) -> Result<()> {
        let inner = self.shape.intermediate_size as i64;
        let _same = x.f_addmm_(attended, &layer.output)?;
        let gate_up = self.rms(x)?.f_mm(&layer.gate_up)?;
        let gated = if self.kernels {
            kernels::swiglu(&gate_up)?
        } else {
            gate_up.f_narrow(-1, 0, inner)?.f_silu()?.f_mul(&gate_up.f_narrow(-1, inner, inner)?)?
        };
        let _same = x.f_addmm_(&gated, &layer.down)?;
        Ok(())
    }

    /// Normalises the heads of q and k, in place, where the family does: `qkv` is `[..., H + 2 K, C]`.
    fn normalise_heads(&self, layer: &Layer, qkv: &Tensor) -> Result<()> {
        let Some(norm) = &layer.qk_norm else {
            return Ok(());
        };
        let mut qk = qkv.f_narrow(-2, 0, norm.size()[0])?;
        let mut scale = converted(&qk, Kind::Float)?.f_square()?.f_mean_dim(-1, true, Kind::Float)?;
        let _same = scale.f_add_scalar_(self.shape.rms_norm_eps)?.f_rsqrt_()?;
        let _same = qk.f_mul_(&scale)?.f_mul_(norm)?;
        Ok(())
    }

    fn heads(&self) -> (i64, i64, i64) {
        (self.shape.heads as i64, self.shape.kv_heads as i64, self.shape.head_dim() as i64)
    }

    /// RMSNorm without a weight.
    fn rms(&self, x: &Tensor) -> Result<Tensor> {
        if self.kernels {
            return kernels::rms(x, self.shape.rms_norm_eps);
        }
        let mut scale = converted(x, Kind::Float)?.f_square()?.f_mean_dim(-1, true, Kind::Float)?;
        let _same = scale.f_add_scalar_(self.shape.rms_norm_eps)?.f_rsqrt_()?;
        converted(&x.f_mul(&scale)?, self.dtype.kind())
    }

    /// In f32.
    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        converted(&self.rms(x)?.f_mm(&self.head)?, Kind::Float)
    }
}

/// Where the tokens of a pass stand, for [`Decoder::attention`].
struct Places {
    /// `[N, 1, C]`.
    cosine: Tensor,
    /// `[N, 1, C]`.
    sine: Tensor,
    /// `[N K]`: where keys and values go in the cache, seen as `[B K S, C]`.
    flat: Tensor,
    singles: Option<Singles>,
    runs: Vec<Run>,
}

/// Rows of which there is one token.
struct Singles {
    /// The tokens.
    tokens: Tensor,
    /// Their rows.
    rows: Tensor,
    /// `[B, 1, 1, longest]`: 0 where a row may look, minus infinity beyond.
    mask: Tensor,
}

/// Several tokens of one row.
struct Run {
    start: i64,
    row: i64,
    position: i64,
    length: i64,
}

impl Places {
    fn new(tokens: &Tokens, cache: &Cache, rotary: &Rotary, decoder: &Decoder) -> Result<Self> {
        let (rows, kv_heads, slots, _) = cache.layer(0).keys.size4()?;
        let mut runs: Vec<Run> = Vec::new();
        for (index, (row, position)) in tokens.rows.iter().zip(&tokens.positions).enumerate() {
            match runs.last_mut() {
                Some(run) if run.row == *row && run.position + run.length == *position => run.length += 1,
                _ => runs.push(Run { start: index as i64, row: *row, position: *position, length: 1 }),
            }
        }
        let (single, runs): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.length == 1);
        let longest = single.iter().map(|run| run.position + 1).max().unwrap_or(0) as usize;
        // Rows without a token look at their first position; nobody looks at what comes out.
        let mut mask = vec![f32::NEG_INFINITY; rows as usize * longest];
        for row in mask.chunks_exact_mut(longest.max(1)) {
            row[0] = 0.0;
        }
        for run in &single {
            mask[run.row as usize * longest..][..=run.position as usize].fill(0.0);
        }
        let singles = if single.is_empty() {
            None
        } else {
            let column = |of: fn(&Run) -> i64| decoder.indices(&single.iter().map(of).collect::<Vec<_>>());
            let mask = Tensor::f_from_slice(&mask)?.f_to_device(decoder.device.0)?;
            Some(Singles {
                tokens: column(|run| run.start)?,
                rows: column(|run| run.row)?,
                mask: mask.f_view([rows, 1, 1, longest as i64])?,
            })
        };
        let flat: Vec<i64> = tokens
            .rows
            .iter()
            .zip(&tokens.positions)
            .flat_map(|(row, position)| (0..kv_heads).map(move |k| (row * kv_heads + k) * slots + position))
            .collect();
        let positions = decoder.indices(&tokens.positions)?;
        let kind = decoder.dtype.kind();
        let at = |table: &Tensor| table.f_index_select(0, &positions)?.f_unsqueeze(1)?.f_to_kind(kind);
        Ok(Self { cosine: at(&rotary.cosine)?, sine: at(&rotary.sine)?, flat: decoder.indices(&flat)?, singles, runs })
    }
}

/// Turns each head by its position.
fn rotate(heads: &Tensor, cosine: &Tensor, sine: &Tensor) -> Result<Tensor> {
    let half = heads.size()[heads.dim() - 1] / 2;
    let mut turned = heads.f_mul(cosine)?;
    Ok(turned.f_addcmul_(&heads.f_roll(half, -1)?, sine)?)
}
