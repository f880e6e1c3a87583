//! Rotary positions (Su et al. 2021, arXiv:2104.09864) in the form of Llama and Qwen2: coordinate `i` of a head turns
//! with coordinate `i + head_dim / 2`, by `position * theta^(-2 i / head_dim)`.

use tch::{Kind, Tensor};

use crate::config::Shape;
use crate::device::Device;
use crate::error::Result;

/// Cosines and sines of the positions `0..length`, each `[length, head_dim]`. The sine's first half carries the minus
/// of the rotation, so that a vector turns by `x * cosine + roll(x, head_dim / 2) * sine`.
#[derive(Debug)]
pub(crate) struct Rotary {
    pub(crate) cosine: Tensor,
    pub(crate) sine: Tensor,
}

impl Rotary {
    pub(crate) fn new(shape: &Shape, length: usize, device: Device) -> Result<Self> {
        let head_dim = shape.head_dim();
        // In f32 and in this order, as transformers does: at thousands of positions the rounding shows.
        let frequencies: Vec<f32> = (0..head_dim / 2)
            .map(|i| 1.0 / (shape.rope_theta as f32).powf((2 * i) as f32 / head_dim as f32))
            .collect();
        let positions = Tensor::f_arange(length as i64, (Kind::Float, tch::Device::Cpu))?;
        let angles = positions.f_outer(&Tensor::f_from_slice(&frequencies)?)?;
        let (cosine, sine) = (angles.f_cos()?, angles.f_sin()?);
        Ok(Self {
            cosine: Tensor::f_cat(&[&cosine, &cosine], 1)?.f_to_device(device.0)?,
            sine: Tensor::f_cat(&[&sine.f_neg()?, &sine], 1)?.f_to_device(device.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_turn_by_position_times_frequency() {
        let shape = Shape { head_dim: Some(4), rope_theta: 100.0, ..Shape::default() };
        let rotary = Rotary::new(&shape, 8, Device::CPU).unwrap();
        let at = |table: &Tensor, i| table.double_value(&[7, i]);
        for (i, angle) in [(0, 7.0), (1, 0.7_f64)] {
            assert!((at(&rotary.cosine, i) - angle.cos()).abs() < 1e-6);
            assert!((at(&rotary.cosine, i + 2) - angle.cos()).abs() < 1e-6);
            assert!((at(&rotary.sine, i) + angle.sin()).abs() < 1e-6);
            assert!((at(&rotary.sine, i + 2) - angle.sin()).abs() < 1e-6);
        }
    }
}
