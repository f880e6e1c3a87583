//! What models take in memory while they are trained. What is trained is kept in f32, the rest in what is computed with.

/// The policy's weights, as far as memory goes.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// All of them, an adapter's included.
    pub all: u64,
    /// Those that are trained.
    pub trained: u64,
    /// Bytes of a number that is computed with.
    pub bytes: u64,
}

impl Weights {
    /// Weights, gradient and two moments.
    pub fn policy(self) -> u64 {
        16 * self.trained + self.bytes * (self.all - self.trained)
    }

    /// The sampler's copy, which is there while episodes are played.
    pub fn sampler(self) -> u64 {
        self.bytes * self.all
    }

    /// The frozen reference, or a teacher that is a copy of the policy: what is not trained is shared.
    pub fn reference(self) -> u64 {
        self.bytes * self.trained
    }

    /// A teacher that is a moving average.
    pub fn average(self) -> u64 {
        4 * self.trained
    }
}

/// A critic of so many weights: weights, gradient and two moments.
pub fn critic(weights: u64) -> u64 {
    16 * weights
}

/// A checkpoint that is being written while training goes on: weights that are trained, with two moments.
pub fn checkpoint(trained: u64) -> u64 {
    12 * trained
}
