//! What models take in memory while they are trained: f32 throughout, whatever their files have.

/// Copies of the policy's weights: weights, gradient, two moments, and the sampler's.
pub const POLICY: u64 = 5;
/// The frozen reference.
pub const REFERENCE: u64 = 1;
/// A teacher that is a copy of the policy.
pub const TEACHER: u64 = 1;
/// A critic: weights, gradient and two moments.
pub const CRITIC: u64 = 4;

/// A checkpoint that is being written while training goes on: weights and two moments.
pub const CHECKPOINT: u64 = 3;

/// Bytes of so many copies of so many weights.
pub fn bytes(weights: u64, copies: u64) -> u64 {
    weights.saturating_mul(4 * copies)
}
