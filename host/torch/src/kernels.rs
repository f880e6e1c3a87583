//! Safe functions over `cpp/decode.cpp`: what a decoding step does between its matrix products, on the CPU.

use tch::{Kind, Tensor};

use crate::cache::Cache;
use crate::config::Shape;
use crate::decode::Tokens;
use crate::error::{Error, Result};
use crate::rotary::Rotary;

unsafe extern "C" {
    fn accredit_decode_attention(
        qkv: *const f32,
        cosine: *const f32,
        sine: *const f32,
        rows: *const i64,
        positions: *const i64,
        sources: *const i64,
        shared: *const i64,
        keys: *mut f32,
        values: *mut f32,
        scratch: *mut f32,
        out: *mut f32,
        tokens: i64,
        heads: i64,
        kv_heads: i64,
        width: i64,
        slots: i64,
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

/// Rotates queries and keys of N tokens, puts keys and values into a layer's cache, and attends to each token's row up to
/// it. `qkv` is `[N, (H + 2 K) C]`, queries scaled; gives `[N, H C]`.
pub(crate) fn attention(
    shape: &Shape,
    qkv: &Tensor,
    rotary: &Rotary,
    tokens: &Tokens,
    cache: &Cache,
    layer: usize,
) -> Result<Tensor> {
    let count = tokens.ids.len() as i64;
    let (heads, kv_heads, width) = (shape.heads as i64, shape.kv_heads as i64, shape.head_dim() as i64);
    let layer = cache.layer(layer);
    let (rows, slots) = (layer.keys.size()[0], layer.keys.size()[2]);
    let tables = [rotary.cosine.size()[0], width];
    let in_range = |limit: i64| move |n: &i64| (0..limit).contains(n);
    let columns = [&tokens.rows, &tokens.positions, &tokens.sources, &tokens.shared];
    let lengths_fit = columns.iter().all(|column| column.len() == tokens.ids.len());
    let places_fit = tokens.rows.iter().chain(&tokens.sources).all(in_range(rows))
        && tokens.positions.iter().all(in_range(slots.min(tables[0])))
        && tokens.shared.iter().zip(&tokens.positions).all(|(shared, position)| (0..=*position).contains(shared));
    if !(lengths_fit && places_fit) {
        return Err(Error::torch("the tokens of a pass do not fit its cache"));
    }
    let out = empty([count, heads * width])?;
    let mut scratch = vec![0.0_f32; (heads / kv_heads * width + 2 * slots) as usize];
    // SAFETY: `dense` has checked type, place and shape of every array, and the lines above that rows and positions lie in
    // the cache and the tables. The cache belongs to the calling thread alone.
    unsafe {
        accredit_decode_attention(
            dense(qkv, &[count, (heads + 2 * kv_heads) * width])?,
            dense(&rotary.cosine, &tables)?,
            dense(&rotary.sine, &tables)?,
            tokens.rows.as_ptr(),
            tokens.positions.as_ptr(),
            tokens.sources.as_ptr(),
            tokens.shared.as_ptr(),
            dense(&layer.keys, &[rows, kv_heads, slots, width])?,
            dense(&layer.values, &[rows, kv_heads, slots, width])?,
            scratch.as_mut_ptr(),
            dense(&out, &[count, heads * width])?,
            count,
            heads,
            kv_heads,
            width,
            slots,
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

    /// What a row shares with another one may be read there: the same numbers to the last bit, whatever the row itself
    /// holds in its place.
    #[test]
    fn a_beginning_that_is_shared_is_read_where_it_is() {
        for (heads, kv_heads, width) in [(4, 2, 32), (3, 1, 40), (2, 2, 2)] {
            let shape = Shape { heads, kv_heads, head_dim: Some(width), layers: 1, ..Shape::default() };
            let device = crate::device::Device::CPU;
            let rotary = Rotary::new(&shape, 80, device).unwrap();
            let (length, width) = (61, ((heads + 2 * kv_heads) * width) as i64);
            let [first, second] = [random(&[length, width]), random(&[1, width])];
            let run = |shared: usize| {
                let cache = Cache::new(&shape, 2, 80, device, crate::dtype::DType::F32).unwrap();
                let mut tokens = Tokens::default();
                (0..length as usize).for_each(|position| tokens.push(0, 0, position, (0, 0)));
                let _ = attention(&shape, &first, &rotary, &tokens, &cache, 0).unwrap();
                cache.copy(0, 1, length as usize).unwrap();
                for tensor in [&cache.layer(0).keys, &cache.layer(0).values] {
                    let _ = tensor.get(1).narrow(1, 0, shared as i64).fill_(f64::NAN);
                }
                let mut tokens = Tokens::default();
                tokens.push(0, 1, length as usize, (0, shared));
                Vec::<f32>::try_from(attention(&shape, &second, &rotary, &tokens, &cache, 0).unwrap().view([-1]))
                    .unwrap()
            };
            let alone = run(0);
            assert!(alone.iter().all(|number| number.is_finite()));
            for shared in [1, 4, 33, 61] {
                assert_eq!(run(shared), alone, "{shared}");
            }
        }
    }

    /// Against libtorch over random tokens, for widths and group sizes that use every path of the kernel: rows that are
    /// read whole, rows that go on by several tokens, and rows that go on by one.
    #[test]
    fn attention_is_libtorchs() {
        for (heads, kv_heads, width) in [(4, 2, 32), (3, 1, 40), (2, 2, 2), (6, 2, 12)] {
            let shape = Shape { heads, kv_heads, head_dim: Some(width), layers: 1, ..Shape::default() };
            let device = crate::device::Device::CPU;
            let rotary = Rotary::new(&shape, 60, device).unwrap();
            let cache = Cache::new(&shape, 3, 60, device, crate::dtype::DType::F32).unwrap();
            let (h, k, c) = (heads as i64, kv_heads as i64, width as i64);
            // Heads of all tokens of the three rows, and how many of them come in each of three passes.
            let lengths = [51_i64, 4, 31];
            let all: Vec<Tensor> = lengths.iter().map(|t| random(&[*t, (h + 2 * k) * c])).collect();
            let cuts = [[0_i64, 50, 51, 51], [0, 3, 4, 4], [0, 0, 30, 31]];
            let mut ours: [Vec<Tensor>; 3] = Default::default();
            for pass in 0..3 {
                let mut tokens = Tokens::default();
                let mut parts = Vec::new();
                for (row, cut) in cuts.iter().enumerate() {
                    let (start, end) = (cut[pass], cut[pass + 1]);
                    parts.push(all[row].narrow(0, start, end - start));
                    for position in start..end {
                        tokens.push(0, row, position as usize, (row, 0));
                    }
                }
                let out = attention(&shape, &Tensor::cat(&parts, 0), &rotary, &tokens, &cache, 0).unwrap();
                for (n, row) in tokens.rows.iter().enumerate() {
                    ours[*row as usize].push(out.get(n as i64));
                }
            }
            for (row, length) in lengths.iter().enumerate() {
                let heads = all[row].view([*length, h + 2 * k, c]);
                let at = |table: &Tensor| table.narrow(0, 0, *length).unsqueeze(1);
                let turned = &heads * at(&rotary.cosine) + heads.roll(c / 2, -1) * at(&rotary.sine);
                let by_heads = |tensor: Tensor| tensor.transpose(0, 1).unsqueeze(0);
                let repeat = |tensor: Tensor| by_heads(tensor.repeat_interleave_self_int(h / k, 1, None));
                let expected = Tensor::scaled_dot_product_attention(
                    &by_heads(turned.narrow(1, 0, h)),
                    &repeat(turned.narrow(1, h, k)),
                    &repeat(heads.narrow(1, h + k, k)),
                    None::<&Tensor>,
                    0.0,
                    true,
                    1.0,
                    false,
                );
                let expected = expected.squeeze_dim(0).transpose(0, 1).reshape([*length, h * c]);
                let off = (Tensor::stack(&ours[row], 0) - expected).abs().max().double_value(&[]);
                assert!(off < 1e-5, "{off}");
            }
        }
    }
}
