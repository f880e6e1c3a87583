//! The types of numbers that models compute with and are written in.

use std::fmt;

use safetensors::tensor::Dtype;
use tch::Kind;

use crate::device::Device;

/// A type of floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DType {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, with the range of F32 and three digits. For files and computing on a GPU.
    BF16,
    /// 16 bits, with a small range. For files only.
    F16,
}

impl DType {
    /// What a device computes fastest with: BF16 on a GPU, and F32 on a CPU, where BF16 is slower.
    pub fn of_device(device: Device) -> Self {
        if device.is_cpu() { Self::F32 } else { Self::BF16 }
    }

    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
        }
    }

    /// Its name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::BF16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::F32 => Kind::Float,
            Self::BF16 => Kind::BFloat16,
            Self::F16 => Kind::Half,
        }
    }

    pub(crate) fn in_files(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::BF16 => Dtype::BF16,
            Self::F16 => Dtype::F16,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
