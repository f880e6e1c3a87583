//! Rollouts: playing episodes with the policy, and the files that hold them.

pub mod chat;
pub mod file;
pub mod kinds;
pub mod tokenizer;
