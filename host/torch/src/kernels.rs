//! Safe functions over `cpp/decode.cpp`: what a decoding step does between its matrix products, on the CPU.

use tch::{Kind, Tensor};

use crate::cache::Cache;
use crate::config::Shape;
use crate::error::{Error, Result};
use crate::rotary::Rotary;

unsafe extern "C" {
    fn accredit_decode_attention(
        qkv: *const f32,
        cosine: *const f32,
        sine: *const f32,
        positions: *const i64,
        firsts: *const i64,
        keys: *mut f32,
        values: *mut f32,
        scratch: *mut f32,
        out: *mut f32,
        rows: i64,
        heads: i64,
        kv_heads: i64,
        width: i64,
        slots: i64,
        last: i64,
    );
    fn accredit_decode_rms(x: *const f32, out: *mut f32, rows: i64, n: i64, eps: f32);
    fn accredit_decode_swiglu(gate_up: *const f32, out: *mut f32, rows: i64, inner: i64);
}

/// The numbers of a dense f32 tensor on the CPU with this shape.
fn dense(tensor: &Tensor, shape: &[i64]) -> Result<*mut f32> {
    let fits = tensor.size() == shape && tensor.f_kind()? == Kind::Float;
    if fits && tensor.device() == tch::Device::Cpu && tensor.is_contiguous() {
        return Ok(tensor.data_ptr().cast());
    }
    Err(Error::torch(&format!("expected a dense f32 tensor of shape {shape:?} on the CPU, got {tensor:?}")))
}

fn empty(shape: [i64; 2]) -> Result<Tensor> {
    Ok(Tensor::f_empty(shape, (Kind::Float, tch::Device::Cpu))?)
}

/// Rotates queries and keys, puts keys and values into the last slot of a layer's cache, and attends to each row's
/// slots. `qkv` is `[B, (H + 2 K) C]`, queries scaled; `positions` `[B]`; gives `[B, H C]`.
pub(crate) fn attention(
    shape: &Shape,
    qkv: &Tensor,
    rotary: &Rotary,
    positions: &[i64],
    cache: &Cache,
    layer: usize,
) -> Result<Tensor> {
    let rows = positions.len() as i64;
    let (heads, kv_heads, width) = (shape.heads as i64, shape.kv_heads as i64, shape.head_dim() as i64);
    let (layer, last) = (cache.layer(layer), cache.len());
    let slots = layer.keys.size()[2];
    let tables = [rotary.cosine.size()[0], width];
    let in_range = |limit: i64| move |n: &i64| (0..limit).contains(n);
    let rows_fit = cache.firsts().len() as i64 == rows && cache.firsts().iter().all(in_range(last));
    if !(rows_fit && last <= slots && positions.iter().all(in_range(tables[0]))) {
        return Err(Error::torch("a decoding step does not fit its cache"));
    }
    let out = empty([rows, heads * width])?;
    let mut scratch = vec![0.0_f32; (heads / kv_heads * width + 2 * slots) as usize];
    // SAFETY: `dense` has checked type, place and shape of every array, and the lines above that positions lie in the
    // tables, and first and last slots in the cache. The cache belongs to the calling thread alone.
    unsafe {
        accredit_decode_attention(
            dense(qkv, &[rows, (heads + 2 * kv_heads) * width])?,
            dense(&rotary.cosine, &tables)?,
            dense(&rotary.sine, &tables)?,
            positions.as_ptr(),
            cache.firsts().as_ptr(),
            dense(&layer.keys, &[rows, kv_heads, slots, width])?,
            dense(&layer.values, &[rows, kv_heads, slots, width])?,
            scratch.as_mut_ptr(),
            dense(&out, &[rows, heads * width])?,
            rows,
            heads,
            kv_heads,
            width,
            slots,
            last,
        );
    }
    Ok(out)
}

/// RMSNorm without a weight over the rows of `x` `[B, n]`.
pub(crate) fn rms(x: &Tensor, eps: f64) -> Result<Tensor> {
    let (rows, n) = x.size2()?;
    let out = empty([rows, n])?;
    // SAFETY: `dense` has checked type, place and shape of both arrays.
    unsafe { accredit_decode_rms(dense(x, &[rows, n])?, dense(&out, &[rows, n])?, rows, n, eps as f32) };
    Ok(out)
}

/// silu(gate) * up of `[B, 2 I]`, gate first: `[B, I]`.
pub(crate) fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    let (rows, width) = gate_up.size2()?;
    let inner = width / 2;
    let out = empty([rows, inner])?;
    // SAFETY: `dense` has checked type, place and shape of both arrays.
    unsafe { accredit_decode_swiglu(dense(gate_up, &[rows, 2 * inner])?, dense(&out, &[rows, inner])?, rows, inner) };
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(shape: &[i64]) -> Tensor {
        Tensor::randn(shape, (Kind::Float, tch::Device::Cpu))
    }

    fn check_close(a: &Tensor, b: &Tensor) {
        let off = ((a - b).abs() / (b.abs() + 1e-3)).max().double_value(&[]);
        assert!(off < 1e-5, "{off}");
    }

    #[test]
    fn rms_is_the_formula_at_any_width() {
        for n in [1, 7, 8, 45, 128] {
            let x = random(&[5, n]);
            let scale = (x.square().mean_dim(-1, true, Kind::Float) + 1e-5).rsqrt();
            check_close(&rms(&x, 1e-5).unwrap(), &(&x * scale));
        }
    }

    #[test]
    fn swiglu_is_the_formula_also_far_from_zero() {
        for inner in [1, 7, 8, 45] {
            let gate_up = random(&[5, 2 * inner]) * 10.0;
            let gated = gate_up.narrow(1, 0, inner).silu() * gate_up.narrow(1, inner, inner);
            check_close(&swiglu(&gate_up).unwrap(), &gated);
        }
        let far = Tensor::from_slice(&[-1000.0_f32, 1000.0, 2.0, 2.0]).view([1, 4]);
        let gated: Vec<f32> = swiglu(&far).unwrap().view([2]).try_into().unwrap();
        assert!(gated[0].abs() < 1e-30 && gated[1] == 2000.0, "{gated:?}");
    }

    #[test]
    fn not_a_number_stays_one() {
        let x = Tensor::from_slice(&[1.0_f32, f32::NAN]).view([1, 2]);
        assert!(rms(&x, 1e-5).unwrap().isnan().all().int64_value(&[]) == 1);
        assert!(swiglu(&x).unwrap().isnan().all().int64_value(&[]) == 1);
    }

    /// Against libtorch over random rows, for widths and group sizes that use every path of the kernel, many slots, and
    /// rows that begin at different slots.
    #[test]
    fn attention_is_libtorchs() {
        for (heads, kv_heads, width) in [(4, 2, 32), (3, 1, 40), (2, 2, 2), (6, 2, 12)] {
            let shape = Shape { heads, kv_heads, head_dim: Some(width), layers: 1, ..Shape::default() };
            let device = crate::device::Device::CPU;
            let rotary = Rotary::new(&shape, 60, device).unwrap();
            let lengths = [50_usize, 3, 31];
            let mut cache = Cache::new(&shape, &lengths, 1, device).unwrap();
            let (h, k, c) = (heads as i64, kv_heads as i64, width as i64);
            let prompts: Vec<(Tensor, Tensor)> =
                lengths.iter().map(|t| (random(&[1, k, *t as i64, c]), random(&[1, k, *t as i64, c]))).collect();
            for (row, (keys, values)) in prompts.iter().enumerate() {
                cache.put(0, row, 1, keys, values).unwrap();
            }
            cache.advance();
            let qkv = random(&[3, (h + 2 * k) * c]);
            let positions = [50, 3, 31];
            let ours = attention(&shape, &qkv, &rotary, &positions, &cache, 0).unwrap();
            for (row, (keys, values)) in prompts.iter().enumerate() {
                let at = |table: &Tensor| table.get(positions[row]);
                let heads = qkv.get(row as i64).view([h + 2 * k, c]);
                let turned = &heads * at(&rotary.cosine) + heads.roll(c / 2, -1) * at(&rotary.sine);
                let keys = Tensor::cat(&[keys.squeeze_dim(0), turned.narrow(0, h, k).unsqueeze(1)], 1);
                let values = Tensor::cat(&[values.squeeze_dim(0), heads.narrow(0, h + k, k).unsqueeze(1)], 1);
                let queries = turned.narrow(0, 0, h).view([k, h / k, c]);
                let expected = queries.matmul(&keys.transpose(1, 2)).softmax(-1, Kind::Float).matmul(&values);
                let off = (ours.get(row as i64) - expected.view([-1])).abs().max().double_value(&[]);
                assert!(off < 1e-5, "{off}");
            }
        }
    }
}
