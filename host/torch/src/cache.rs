//! The keys and values of rows that grow one by one.
//!
//! Axes: B rows, K key and value heads, C head width, S positions that a row has room for.

use tch::Tensor;

use crate::config::Shape;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;

/// Keys and values of all layers.
#[derive(Debug)]
pub(crate) struct Cache {
    layers: Vec<LayerCache>,
    /// S.
    room: usize,
}

/// Keys and values of one layer.
#[derive(Debug)]
pub(crate) struct LayerCache {
    /// `[B, K, S, C]`.
    pub(crate) keys: Tensor,
    /// `[B, K, S, C]`.
    pub(crate) values: Tensor,
}

impl Cache {
    /// Rows with room for so many positions each.
    pub(crate) fn new(shape: &Shape, rows: usize, room: usize, device: Device, dtype: DType) -> Result<Self> {
        let size = [rows as i64, shape.kv_heads as i64, room as i64, shape.head_dim() as i64];
        // Zeros: what is hidden by a mask is still multiplied, by 0, so it must be finite.
        let zeros = || Tensor::f_zeros(size, (dtype.kind(), device.0));
        let layer = || Ok(LayerCache { keys: zeros()?, values: zeros()? });
        Ok(Self { layers: (0..shape.layers).map(|_| layer()).collect::<Result<_>>()?, room })
    }

    /// How many positions a row has room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Makes room for more positions of each row.
    pub(crate) fn grow(&mut self, room: usize) -> Result<()> {
        let (before, after) = (self.room as i64, room as i64);
        for tensor in self.layers.iter_mut().flat_map(|layer| [&mut layer.keys, &mut layer.values]) {
            let (rows, heads, _, width) = tensor.size4()?;
            let larger = Tensor::f_zeros([rows, heads, after, width], (tensor.f_kind()?, tensor.device()))?;
            larger.f_narrow(2, 0, before)?.f_copy_(tensor)?;
            *tensor = larger;
        }
        self.room = room;
        Ok(())
    }

    /// Gives a row the first `length` positions of another one.
    pub(crate) fn copy(&self, from: usize, to: usize, length: usize) -> Result<()> {
        for tensor in self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]) {
            let begin = |row: usize| tensor.f_narrow(0, row as i64, 1)?.f_narrow(2, 0, length as i64);
            begin(to)?.f_copy_(&begin(from)?)?;
        }
        Ok(())
    }

    pub(crate) fn layer(&self, layer: usize) -> &LayerCache {
        &self.layers[layer]
    }
}
