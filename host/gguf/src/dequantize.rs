//! Blocks of quantised weights become numbers, as ggml computes them: in f32, in the same order, so to the same bits.
//!
//! A block is a number of weights in a row with what they share: `d` is a scale, `m` or `dmin` an offset, `q` the small
//! integer of a weight. K-quants have blocks of 256 weights in 8 or 16 groups, each group with a small scale of its own.

use half::{bf16, f16};

use crate::tensor_type::{BF16, F16, F32, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TensorType};

/// The types that can be read.
pub const READABLE: [TensorType; 13] = [F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K];

/// Appends the weights of whole blocks. False where the type cannot be read.
pub fn dequantize(kind: TensorType, blocks: &[u8], out: &mut Vec<f32>) -> bool {
    let block: fn(&[u8], &mut [f32]) = match kind {
        F32 => |b, out| out[0] = f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        F16 => |b, out| out[0] = half(b),
        BF16 => |b, out| out[0] = bf16::from_le_bytes([b[0], b[1]]).to_f32(),
        Q4_0 => |b, out| {
            let d = half(b);
            split(&b[2..18], out, |q| d * f32::from(q as i8 - 8));
        },
        Q4_1 => |b, out| {
            let (d, m) = (half(b), half(&b[2..]));
            split(&b[4..20], out, |q| d * f32::from(q) + m);
        },
        Q5_0 => |b, out| {
            let d = half(b);
            five(&b[2..6], &b[6..22], out, |q| d * f32::from(q as i8 - 16));
        },
        Q5_1 => |b, out| {
            let (d, m) = (half(b), half(&b[2..]));
            five(&b[4..8], &b[8..24], out, |q| d * f32::from(q) + m);
        },
        Q8_0 => |b, out| {
            let d = half(b);
            out.iter_mut().zip(&b[2..]).for_each(|(out, q)| *out = f32::from(*q as i8) * d);
        },
        Q2_K => q2_k,
        Q3_K => q3_k,
        Q4_K => q4_k,
        Q5_K => q5_k,
        Q6_K => q6_k,
        _ => return false,
    };
    let start = out.len();
    out.resize(start + blocks.len() / kind.bytes * kind.block, 0.0);
    for (bytes, weights) in blocks.chunks_exact(kind.bytes).zip(out[start..].chunks_exact_mut(kind.block)) {
        block(bytes, weights);
    }
    true
}

/// The f16 at the front.
fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Sixteen bytes hold 32 integers of 4 bits: the low halves first, then the high ones.
fn split(nibbles: &[u8], out: &mut [f32], weight: impl Fn(u8) -> f32) {
    let (low, high) = out.split_at_mut(16);
    for ((byte, low), high) in nibbles.iter().zip(low).zip(high) {
        (*low, *high) = (weight(byte & 15), weight(byte >> 4));
    }
}

/// As `split`, with the fifth bit of each integer in 32 bits of their own.
fn five(fifth: &[u8], nibbles: &[u8], out: &mut [f32], weight: impl Fn(u8) -> f32) {
    let fifth = u32::from_le_bytes([fifth[0], fifth[1], fifth[2], fifth[3]]);
    let bit = |i: usize| ((fifth >> i & 1) as u8) << 4;
    for (i, byte) in nibbles.iter().enumerate() {
        out[i] = weight(byte & 15 | bit(i));
        out[i + 16] = weight(byte >> 4 | bit(i + 16));
    }
}

/// The two bits of weight `i` of 256: each run of 32 bytes holds four runs of 32 weights, the lowest bits first.
fn two_bits(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3
}

/// The four bits of weight `i` of 256: each run of 32 bytes holds two runs of 32 weights, the low halves first.
fn four_bits(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15
}

/// Scale and offset of group `i` of 8, six bits each in 12 bytes.
fn scale_and_offset(bytes: &[u8], i: usize) -> (f32, f32) {
    let (scale, offset) = if i < 4 {
        (bytes[i] & 63, bytes[i + 4] & 63)
    } else {
        (bytes[i + 4] & 15 | bytes[i - 4] >> 6 << 4, bytes[i + 4] >> 4 | bytes[i] >> 6 << 4)
    };
    (f32::from(scale), f32::from(offset))
}

/// 16 bytes of scales and offsets, 64 of two bits, d, dmin.
fn q2_k(b: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(&b[80..]), half(&b[82..]));
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let (scale, offset) = (d * f32::from(b[group] & 15), dmin * f32::from(b[group] >> 4));
        for (i, out) in out.iter_mut().enumerate() {
            *out = scale * f32::from(two_bits(&b[16..80], group * 16 + i)) - offset;
        }
    }
}

/// 32 bytes of third bits, 64 of two bits, 12 of scales, d. A third bit that is not set takes 4 away.
fn q3_k(b: &[u8], out: &mut [f32]) {
    let (third, scales, d) = (&b[..32], &b[96..108], half(&b[108..]));
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let low = if group < 8 { scales[group] & 15 } else { scales[group - 8] >> 4 };
        let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = d * f32::from((low | high << 4) as i8 - 32);
        for (i, out) in out.iter_mut().enumerate() {
            let i = group * 16 + i;
            let missing = if third[i % 32] >> (i / 32) & 1 == 1 { 0 } else { 4 };
            *out = scale * f32::from(two_bits(&b[32..96], i) as i8 - missing);
        }
    }
}

/// d, dmin, 12 bytes of scales and offsets, 128 of four bits.
fn q4_k(b: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(b), half(&b[2..]));
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, offset) = scale_and_offset(&b[4..16], group);
        let (scale, offset) = (d * scale, dmin * offset);
        for (i, out) in out.iter_mut().enumerate() {
            *out = scale * f32::from(four_bits(&b[16..], group * 32 + i)) - offset;
        }
    }
}

/// As `q4_k`, with 32 bytes of fifth bits before the four.
fn q5_k(b: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(b), half(&b[2..]));
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, offset) = scale_and_offset(&b[4..16], group);
        let (scale, offset) = (d * scale, dmin * offset);
        for (i, out) in out.iter_mut().enumerate() {
            let fifth = b[16 + i] >> group & 1;
            *out = scale * f32::from(four_bits(&b[48..], group * 32 + i) | fifth << 4) - offset;
        }
    }
}

/// 128 bytes of low four bits, 64 of high two bits, 16 scales, d. The low bits lie in runs of 64 bytes for 128 weights.
fn q6_k(b: &[u8], out: &mut [f32]) {
    let d = half(&b[208..]);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let scale = d * f32::from(b[192 + group] as i8);
        for (i, out) in out.iter_mut().enumerate() {
            let i = group * 16 + i;
            let low = b[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
            *out = scale * f32::from((low | two_bits(&b[128..192], i) << 4) as i8 - 32);
        }
    }
}
