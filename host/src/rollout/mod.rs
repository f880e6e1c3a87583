//! Rollouts: playing episodes with the policy, and the files that hold them.

pub mod chat;
#[cfg(feature = "torch")]
pub mod collect;
pub mod demonstrate;
pub mod file;
pub mod kinds;
pub mod prompt;
pub mod tasks;
pub mod tokenizer;
