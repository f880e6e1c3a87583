//! Rotary positions (Su et al. 2021, arXiv:2104.09864) in the form of Llama and Qwen: coordinate `i` of a head turns
//! with coordinate `i + head_dim / 2`, by `position * theta^(-2 i / head_dim)`. Long contexts stretch the angles.

use serde_json::{Value, json};
use tch::{Kind, Tensor};

use crate::config::Shape;
use crate::device::Device;
use crate::error::{Error, Result};

/// How the frequencies of rotary angles are lowered, so that more positions fit into the angles of pre-training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stretch {
    /// All by the same factor (Chen et al. 2023, arXiv:2306.15595).
    Linear {
        /// What they are divided by.
        factor: f64,
    },
    /// As Llama 3.1 does: slow ones are divided, fast ones stay, and those between change over gradually.
    Llama3 {
        /// What slow ones are divided by.
        factor: f64,
        /// A frequency that turns fewer times than this over the original positions is slow.
        low: f64,
        /// A frequency that turns more often than this is fast.
        high: f64,
        /// Positions of pre-training.
        original_positions: usize,
    },
}

impl Stretch {
    /// Reads the object under `key` of a `config.json`, of this kind. Errors: a kind that is not supported, numbers that
    /// are missing or make no sense.
    pub(crate) fn read(key: &str, kind: Option<&Value>, rope: &Value) -> Result<Self> {
        let number = |name: &str| {
            let place = format!("{key}.{name}");
            let value = rope.get(name).ok_or_else(|| Error::config(&place, "missing"))?;
            let number = value.as_f64().ok_or_else(|| Error::config(&place, format!("{value} is not a number")))?;
            if number < 1.0 {
                return Err(Error::config(&place, format!("{number} must be at least 1")));
            }
            Ok(number)
        };
        match kind.and_then(Value::as_str) {
            Some("linear") => Ok(Self::Linear { factor: number("factor")? }),
            Some("llama3") => {
                let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
                if low >= high {
                    let place = format!("{key}.high_freq_factor");
                    return Err(Error::config(&place, format!("{high} must be greater than low_freq_factor = {low}")));
                }
                let original_positions = number("original_max_position_embeddings")? as usize;
                Ok(Self::Llama3 { factor: number("factor")?, low, high, original_positions })
            }
            Some(other) => {
                Err(Error::config(key, format!("\"{other}\" is not supported, only \"linear\" and \"llama3\"")))
            }
            None => Err(Error::config(key, "no `rope_type` that is a text")),
        }
    }

    /// As `rope_scaling` of a `config.json`.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Self::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
            Self::Llama3 { factor, low, high, original_positions } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original_positions,
            }),
        }
    }

    /// A frequency, stretched. In f32 and in this order, as transformers does.
    fn of(self, frequency: f32) -> f32 {
        match self {
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 { factor, low, high, original_positions } => {
                let (factor, low, high, original) = (factor as f32, low as f32, high as f32, original_positions as f32);
                let wavelength = std::f32::consts::TAU / frequency;
                if wavelength > original / low {
                    frequency / factor
                } else if wavelength < original / high {
                    frequency
                } else {
                    let smooth = (original / wavelength - low) / (high - low);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}

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
            .map(|frequency| shape.rope_stretch.map_or(frequency, |stretch| stretch.of(frequency)))
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
