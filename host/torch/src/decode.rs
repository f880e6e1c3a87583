//! The model as it samples: the same function as [`crate::model`], in a form that is cheap for one token per row.
//!
//! RMSNorm's weights are folded into the matrix that follows, and attention's scale into the queries' rows. The query
//! heads of a key head stand side by side, so keys and values are never repeated.
//!
//! Axes: B rows, T tokens of a prompt, D hidden size, H query heads, K key and value heads, G = H / K, C head width.

use tch::{Kind, Tensor};

use crate::cache::Cache;
use crate::config::Shape;
use crate::device::Device;
use crate::error::Result;
use crate::kernels;
use crate::model::{Model, per_head};
use crate::rotary::Rotary;

/// Prompt tokens that are read in one pass: few on a CPU, so that what lies between two matrices stays in its cache, and
/// many on a GPU, so that it is busy.
const TOKENS_PER_PREFILL_CPU: usize = 512;
const TOKENS_PER_PREFILL_GPU: usize = 16384;

/// Up to this width, matrices are kept as `[in, out]` copies: at the few rows of a decoding step that product is
/// faster. Wider ones are bound by memory, and are multiplied as they lie.
const WIDEST_TRANSPOSED: usize = 256;

/// Weights folded for decoding, all `[in, out]`. They are copies: make them anew when the model has changed.
#[derive(Debug)]
pub(crate) struct Decoder {
    shape: Shape,
    device: Device,
    /// Whether a step runs [`crate::kernels`], which are for the CPU, or libtorch's operations.
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

/// A prompt and the rows of the cache that begin with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) tokens: &'a [u32],
    /// First row.
    pub(crate) row: usize,
    /// Number of rows.
    pub(crate) count: usize,
}

impl Decoder {
    pub(crate) fn new(model: &Model) -> Result<Self> {
        let shape = model.config().shape().clone();
        let transposed = |matrix: &Tensor| -> Result<Tensor> {
            let view = matrix.f_tr()?;
            Ok(if shape.hidden_size <= WIDEST_TRANSPOSED { view.f_contiguous()? } else { view })
        };
        let (heads, kv_heads, width) = (shape.heads as i64, shape.kv_heads as i64, shape.head_dim() as i64);
        let options = (Kind::Float, model.device().0);
        // The scale goes where nothing normalises it away.
        let ones = Tensor::f_ones([heads + 2 * kv_heads, width], options)?;
        let scales = ones.f_ones_like()?;
        let _same = scales.f_narrow(0, 0, heads)?.f_fill_(1.0 / (width as f64).sqrt())?;
        let scale = if shape.qk_norm() { &ones } else { &scales }.f_view([-1])?;
        let fold = |layer: &crate::model::Layer| -> Result<Layer> {
            let qkv = layer.qkv_weight.f_mul(&layer.input_norm)?.f_mul(&scale.f_unsqueeze(1)?)?;
            Ok(Layer {
                qkv: transposed(&qkv)?,
                qkv_bias: match &layer.qkv_bias {
                    Some(bias) => bias.f_mul(&scale)?,
                    None => scale.f_zeros_like()?,
                },
                qk_norm: match &layer.qk_norm {
                    Some(norm) => Some(per_head(norm, heads, kv_heads, width)?.f_mul(&scales.f_narrow(
                        0,
                        0,
                        heads + kv_heads,
                    )?)?),
                    None => None,
                },
                output: transposed(&layer.output)?,
                gate_up: transposed(&Tensor::f_cat(&[&layer.gate, &layer.up], 0)?.f_mul(&layer.second_norm)?)?,
                down: transposed(&layer.down)?,
            })
        };
        let layers = model.layers().iter().map(fold).collect::<Result<Vec<_>>>()?;
        let head = transposed(&model.head().f_mul(model.norm())?)?;
        let (embedding, device) = (model.embedding().shallow_clone(), model.device());
        Ok(Self { shape, device, kernels: device.is_cpu(), embedding, layers, head })
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

    /// Reads prompts, fills their rows of the cache, and gives the logits after each row's prompt, `[B, V]`. The
    /// prompts' rows must follow one another from row 0.
    pub(crate) fn prefill(&self, prompts: &[Prompt], cache: &Cache, rotary: &Rotary) -> Result<Tensor> {
        let lengths: Vec<usize> = prompts.iter().map(|prompt| prompt.tokens.len()).collect();
        let mut last: Vec<Option<Tensor>> = prompts.iter().map(|_| None).collect();
        let per_pass = if self.device.is_cpu() { TOKENS_PER_PREFILL_CPU } else { TOKENS_PER_PREFILL_GPU };
        for pass in crate::rows::passes(&lengths, per_pass) {
            let chosen: Vec<Prompt> = pass.iter().map(|index| prompts[*index]).collect();
            let hidden = self.prefill_pass(&chosen, cache, rotary)?;
            for (place, index) in pass.iter().enumerate() {
                last[*index] = Some(hidden.f_narrow(0, place as i64, 1)?);
            }
        }
        let last: Vec<Tensor> = last.into_iter().flatten().collect();
        let repeats: Vec<i64> =
            prompts.iter().enumerate().flat_map(|(i, prompt)| vec![i as i64; prompt.count]).collect();
        let repeats = Tensor::f_from_slice(&repeats)?.f_to_device(self.device.0)?;
        Ok(self.logits(&Tensor::f_cat(&last, 0)?)?.f_index_select(0, &repeats)?)
    }

    /// The hidden state of each prompt's last token, `[prompts, D]`. Prompts are padded at the right, where causal
    /// attention never looks, and lie at the right in the cache.
    fn prefill_pass(&self, prompts: &[Prompt], cache: &Cache, rotary: &Rotary) -> Result<Tensor> {
        let b = prompts.len() as i64;
        let t = prompts.iter().map(|prompt| prompt.tokens.len()).max().unwrap_or(0);
        let (heads, kv_heads, width) = self.heads();
        let mut ids = vec![0_i64; prompts.len() * t];
        let mut ends = Vec::with_capacity(prompts.len());
        for (index, prompt) in prompts.iter().enumerate() {
            for (id, token) in ids[index * t..].iter_mut().zip(prompt.tokens) {
                *id = i64::from(*token);
            }
            ends.push((index * t + prompt.tokens.len() - 1) as i64);
        }
        let t = t as i64;
        let table = |table: &Tensor| table.f_narrow(0, 0, t)?.f_view([1, t, 1, width]);
        let (cosine, sine) = (table(&rotary.cosine)?, table(&rotary.sine)?);
        let mut x = self.embed(&ids)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let qkv =
                layer.qkv_bias.f_addmm(&self.rms(&x)?, &layer.qkv)?.f_view([b, t, heads + 2 * kv_heads, width])?;
            self.normalise_heads(layer, &qkv)?;
            let qk = rotate(&qkv.f_narrow(2, 0, heads + kv_heads)?, &cosine, &sine)?;
            let q = qk.f_narrow(2, 0, heads)?.f_transpose(1, 2)?;
            let k = qk.f_narrow(2, heads, kv_heads)?.f_transpose(1, 2)?;
            let v = qkv.f_narrow(2, heads + kv_heads, kv_heads)?.f_transpose(1, 2)?;
            for (place, prompt) in prompts.iter().enumerate() {
                let row =
                    |tensor: &Tensor| tensor.f_narrow(0, place as i64, 1)?.f_narrow(2, 0, prompt.tokens.len() as i64);
                cache.put(index, prompt.row, prompt.count, &row(&k)?, &row(&v)?)?;
            }
            let repeat = |tensor: &Tensor| {
                let each = [b, kv_heads, heads / kv_heads, t, width];
                tensor.f_unsqueeze(2)?.f_expand(each, false)?.f_reshape([b, heads, t, width])
            };
            let (k, v) = if heads == kv_heads { (k, v) } else { (repeat(&k)?, repeat(&v)?) };
            let attended = Tensor::f_scaled_dot_product_attention(&q, &k, &v, None::<&Tensor>, 0.0, true, 1.0, false)?;
            let attended = attended.f_transpose(1, 2)?.f_reshape([b * t, heads * width])?;
            self.rest_of_layer(layer, &mut x, &attended)?;
        }
        Ok(x.f_index_select(0, &Tensor::f_from_slice(&ends)?.f_to_device(self.device.0)?)?)
    }

    /// Reads one token of each row, `ids` `[B]` at `positions` `[B]` of its sequence, and gives the logits of the next,
    /// `[B, V]`.
    pub(crate) fn step(&self, ids: &[i64], positions: &[i64], cache: &mut Cache, rotary: &Rotary) -> Result<Tensor> {
        cache.advance();
        let (heads, kv_heads, width) = self.heads();
        let mut x = self.embed(ids)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let qkv = layer.qkv_bias.f_addmm(&self.rms(&x)?, &layer.qkv)?;
            self.normalise_heads(layer, &qkv.f_view([ids.len() as i64, heads + 2 * kv_heads, width])?)?;
            let attended = if self.kernels {
                kernels::attention(&self.shape, &qkv, rotary, positions, cache, index)?
            } else {
                self.attention(&qkv, rotary, positions, cache, index)?
            };
            self.rest_of_layer(layer, &mut x, &attended)?;
        }
        self.logits(&x)
    }

    /// What [`kernels::attention`] does, by libtorch's operations.
    fn attention(
        &self,
        qkv: &Tensor,
        rotary: &Rotary,
        positions: &[i64],
        cache: &Cache,
        layer: usize,
    ) -> Result<Tensor> {
        let b = positions.len() as i64;
        let (heads, kv_heads, width) = self.heads();
        let positions = Tensor::f_from_slice(positions)?.f_to_device(self.device.0)?;
        let table = |table: &Tensor| table.f_index_select(0, &positions)?.f_view([b, 1, width]);
        let qkv = qkv.f_view([b, heads + 2 * kv_heads, width])?;
        let qk = rotate(&qkv.f_narrow(1, 0, heads + kv_heads)?, &table(&rotary.cosine)?, &table(&rotary.sine)?)?;
        let keys = qk.f_narrow(1, heads, kv_heads)?;
        let filled = cache.append(layer, &keys, &qkv.f_narrow(1, heads + kv_heads, kv_heads)?)?;
        let q = qk.f_narrow(1, 0, heads)?.f_reshape([b, kv_heads, heads / kv_heads, width])?;
        let mut scores = q.f_matmul(&filled.keys.f_transpose(2, 3)?)?;
        if let Some(mask) = filled.mask {
            let _same = scores.f_add_(&mask.f_narrow(3, 0, cache.len())?)?;
        }
        Ok(scores.f_softmax(-1, Kind::Float)?.f_matmul(&filled.values)?.f_view([b, heads * width])?)
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
        let mut scale = qk.f_square()?.f_mean_dim(-1, true, Kind::Float)?;
        let _same = scale.f_add_scalar_(self.shape.rms_norm_eps)?.f_rsqrt_()?;
        let _same = qk.f_mul_(&scale)?.f_mul_(norm)?;
        Ok(())
    }

    fn heads(&self) -> (i64, i64, i64) {
        (self.shape.heads as i64, self.shape.kv_heads as i64, self.shape.head_dim() as i64)
    }

    fn embed(&self, ids: &[i64]) -> Result<Tensor> {
        Ok(self.embedding.f_index_select(0, &Tensor::f_from_slice(ids)?.f_to_device(self.device.0)?)?)
    }

    /// RMSNorm without a weight.
    fn rms(&self, x: &Tensor) -> Result<Tensor> {
        if self.kernels {
            return kernels::rms(x, self.shape.rms_norm_eps);
        }
        let mut scale = x.f_square()?.f_mean_dim(-1, true, Kind::Float)?;
        let _same = scale.f_add_scalar_(self.shape.rms_norm_eps)?.f_rsqrt_()?;
        Ok(x.f_mul(&scale)?)
    }

    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.rms(x)?.f_mm(&self.head)?)
    }
}

/// Turns each head by its position.
fn rotate(heads: &Tensor, cosine: &Tensor, sine: &Tensor) -> Result<Tensor> {
    let half = heads.size()[heads.dim() - 1] / 2;
    let mut turned = heads.f_mul(cosine)?;
    Ok(turned.f_addcmul_(&heads.f_roll(half, -1)?, sine)?)
}
