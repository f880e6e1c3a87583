//! The types that tensors of a GGUF file have. Every type that exists has a size, so that any file can be described;
//! [`crate::dequantize`] reads those that are common.

/// A tensor type, as ggml numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorType {
    /// Its number in a file.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// Weights in a block.
    pub block: usize,
    /// Bytes of a block.
    pub bytes: usize,
}

const fn new(id: u32, name: &'static str, block: usize, bytes: usize) -> TensorType {
    TensorType { id, name, block, bytes }
}

pub(crate) const F32: TensorType = new(0, "F32", 1, 4);
pub(crate) const F16: TensorType = new(1, "F16", 1, 2);
pub(crate) const BF16: TensorType = new(30, "BF16", 1, 2);
pub(crate) const Q4_0: TensorType = new(2, "Q4_0", 32, 18);
pub(crate) const Q4_1: TensorType = new(3, "Q4_1", 32, 20);
pub(crate) const Q5_0: TensorType = new(6, "Q5_0", 32, 22);
pub(crate) const Q5_1: TensorType = new(7, "Q5_1", 32, 24);
pub(crate) const Q8_0: TensorType = new(8, "Q8_0", 32, 34);
pub(crate) const Q2_K: TensorType = new(10, "Q2_K", 256, 84);
pub(crate) const Q3_K: TensorType = new(11, "Q3_K", 256, 110);
pub(crate) const Q4_K: TensorType = new(12, "Q4_K", 256, 144);
pub(crate) const Q5_K: TensorType = new(13, "Q5_K", 256, 176);
pub(crate) const Q6_K: TensorType = new(14, "Q6_K", 256, 210);

const TYPES: [TensorType; 35] = [
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    new(9, "Q8_1", 32, 40),
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    new(15, "Q8_K", 256, 292),
    new(16, "IQ2_XXS", 256, 66),
    new(17, "IQ2_XS", 256, 74),
    new(18, "IQ3_XXS", 256, 98),
    new(19, "IQ1_S", 256, 50),
    new(20, "IQ4_NL", 32, 18),
    new(21, "IQ3_S", 256, 110),
    new(22, "IQ2_S", 256, 82),
    new(23, "IQ4_XS", 256, 136),
    new(24, "I8", 1, 1),
    new(25, "I16", 1, 2),
    new(26, "I32", 1, 4),
    new(27, "I64", 1, 8),
    new(28, "F64", 1, 8),
    new(29, "IQ1_M", 256, 56),
    BF16,
    new(34, "TQ1_0", 256, 54),
    new(35, "TQ2_0", 256, 66),
    new(39, "MXFP4", 32, 17),
    new(40, "NVFP4", 64, 36),
    new(41, "Q1_0", 128, 18),
    new(42, "Q2_0", 64, 18),
];

impl TensorType {
    /// The type with this number, if there is one.
    pub fn of(id: u32) -> Option<Self> {
        TYPES.into_iter().find(|kind| kind.id == id)
    }
}
