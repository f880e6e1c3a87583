//! The keys and values of a batch of growing rows.
//!
//! All rows end at the same slot: a row whose prompt is shorter than the longest one begins later (left padding), and a
//! mask hides the slots before it. So each step writes one slot of all rows at once.
//!
//! Axes: B rows, K key and value heads, C head width, S slots.

use tch::{Kind, Tensor};

use crate::config::Shape;
use crate::device::Device;
use crate::error::Result;

/// Keys and values of all layers.
#[derive(Debug)]
pub(crate) struct Cache {
    layers: Vec<LayerCache>,
    /// The first slot of each row.
    firsts: Vec<i64>,
    /// `[B, 1, 1, S]`: 0 where a row may look, minus infinity before its first token; none where all rows begin at 0.
    mask: Option<Tensor>,
    /// Slots that are filled.
    len: i64,
    device: Device,
}

/// Keys and values of one layer.
#[derive(Debug)]
pub(crate) struct LayerCache {
    /// `[B, K, S, C]`.
    pub(crate) keys: Tensor,
    /// `[B, K, S, C]`.
    pub(crate) values: Tensor,
}

/// Keys, values and mask of the filled slots of one layer.
pub(crate) struct Filled<'a> {
    /// `[B, K, len, C]`.
    pub(crate) keys: Tensor,
    /// `[B, K, len, C]`.
    pub(crate) values: Tensor,
    /// `[B, 1, 1, S]`, to be cut to `len`.
    pub(crate) mask: Option<&'a Tensor>,
}

impl Cache {
    /// Room for rows with prompts of these lengths and up to `new` tokens more. The prompts' slots count as filled: the
    /// caller puts them in with [`Cache::put`].
    pub(crate) fn new(shape: &Shape, prompt_lengths: &[usize], new: usize, device: Device) -> Result<Self> {
        let rows = prompt_lengths.len() as i64;
        let len = prompt_lengths.iter().copied().max().unwrap_or(0) as i64;
        let slots = len + new as i64;
        let (kv_heads, width) = (shape.kv_heads as i64, shape.head_dim() as i64);
        let options = (Kind::Float, device.0);
        let layer = || {
            let keys = Tensor::f_empty([rows, kv_heads, slots, width], options)?;
            let values = Tensor::f_empty([rows, kv_heads, slots, width], options)?;
            Ok(LayerCache { keys, values })
        };
        let layers = (0..shape.layers).map(|_| layer()).collect::<Result<Vec<_>>>()?;
        let firsts = prompt_lengths.iter().map(|length| len - *length as i64).collect();
        let mut cache = Self { layers, firsts, mask: None, len, device };
        if cache.firsts.iter().any(|first| *first != 0) {
            let mask = Tensor::f_zeros([rows, 1, 1, slots], options)?;
            for (row, padding) in cache.firsts.iter().copied().enumerate() {
                let mut padded = mask.f_narrow(0, row as i64, 1)?.f_narrow(3, 0, padding)?;
                let _same = padded.f_fill_(f64::NEG_INFINITY)?;
                // What is hidden is still multiplied, by 0, so it must be finite.
                for layer in &cache.layers {
                    let _same = layer.keys.f_narrow(0, row as i64, 1)?.f_narrow(2, 0, padding)?.f_zero_()?;
                    let _same = layer.values.f_narrow(0, row as i64, 1)?.f_narrow(2, 0, padding)?.f_zero_()?;
                }
            }
            cache.mask = Some(mask);
        }
        Ok(cache)
    }

    /// Puts the keys `[1, K, t, C]` and values `[1, K, t, C]` of a prompt of t tokens into `count` rows from `row` on.
    pub(crate) fn put(&self, layer: usize, row: usize, count: usize, keys: &Tensor, values: &Tensor) -> Result<()> {
        let t = keys.size()[2];
        let layer = &self.layers[layer];
        let place = |tensor: &Tensor| tensor.f_narrow(0, row as i64, count as i64)?.f_narrow(2, self.len - t, t);
        place(&layer.keys)?.f_copy_(keys)?;
        place(&layer.values)?.f_copy_(values)?;
        Ok(())
    }

    /// Opens the next slot of every row.
    pub(crate) fn advance(&mut self) {
        self.len += 1;
    }

    /// Slots that are filled, the last one opened included.
    pub(crate) fn len(&self) -> i64 {
        self.len
    }

    /// The first slot of each row.
    pub(crate) fn firsts(&self) -> &[i64] {
        &self.firsts
    }

    pub(crate) fn layer(&self, layer: usize) -> &LayerCache {
        &self.layers[layer]
    }

    /// Fills the last slot with keys and values `[B, K, C]`, and gives all that is filled.
    pub(crate) fn append(&self, layer: usize, keys: &Tensor, values: &Tensor) -> Result<Filled<'_>> {
        let layer = &self.layers[layer];
        layer.keys.f_narrow(2, self.len - 1, 1)?.f_copy_(&keys.f_unsqueeze(2)?)?;
        layer.values.f_narrow(2, self.len - 1, 1)?.f_copy_(&values.f_unsqueeze(2)?)?;
        Ok(Filled {
            keys: layer.keys.f_narrow(2, 0, self.len)?,
            values: layer.values.f_narrow(2, 0, self.len)?,
            mask: self.mask.as_ref(),
        })
    }

    /// Keeps these rows, in this order, and forgets the others.
    pub(crate) fn keep(&mut self, rows: &[i64]) -> Result<()> {
        self.firsts = rows.iter().map(|row| self.firsts[*row as usize]).collect();
        let rows = Tensor::f_from_slice(rows)?.f_to_device(self.device.0)?;
        for layer in &mut self.layers {
            layer.keys = layer.keys.f_index_select(0, &rows)?;
            layer.values = layer.values.f_index_select(0, &rows)?;
        }
        if let Some(mask) = &mut self.mask {
            *mask = mask.f_index_select(0, &rows)?;
        }
        Ok(())
    }
}
