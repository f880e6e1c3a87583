//! Rollouts: playing episodes with the policy, and the files that hold them.

pub mod file;
pub mod scripted;

#[cfg(feature = "torch")]
pub mod chat;
#[cfg(feature = "torch")]
pub mod collect;
#[cfg(feature = "torch")]
pub mod demonstrate;
#[cfg(feature = "torch")]
pub mod kinds;
#[cfg(feature = "torch")]
pub mod prompt;
#[cfg(feature = "torch")]
pub mod stop;
#[cfg(feature = "torch")]
pub mod tasks;
#[cfg(feature = "torch")]
pub mod tokenizer;
