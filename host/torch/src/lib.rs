//! The policy, its sampler and its optimiser, on libtorch.
//!
//! This is the only crate that names tch. It knows token ids, rows and numbers per token; it knows no text, no
//! environment, no credit and no objective. Derivatives come in from outside, and `backward` runs on the sum of column
//! times derivative.
//!
//! Start reading at [`Model`], then [`Model::forward`] (training) and [`Model::sampler`] (sampling).
//!
//! | file | what |
//! | --- | --- |
//! | `families/` | Qwen2, Qwen3, Llama: what their configurations say, and in what they differ |
//! | `model.rs` | the architecture, forward over whole rows |
//! | `weights.rs`, `layout.rs` | all weights in flat buffers, and where each lies there |
//! | `linear.rs`, `lora.rs` | a matrix with a low-rank adapter; PEFT folders |
//! | `tensors.rs` | safetensors, in one file or in shards |
//! | `head.rs` | the output layer: log-prob, entropy and energy of target tokens, and the way back |
//! | `score.rs`, `train.rs` | columns without and with gradients |
//! | `critic.rs` | values from a linear head, on the policy's trunk or on one of its own |
//! | `optimizer.rs`, `snapshot.rs` | AdamW over the flat buffer; weights and moments to be written while training goes on |
//! | `session.rs`, `generate.rs`, `decode.rs`, `cache.rs`, `sample.rs` | sampling with a KV cache |
//! | `device.rs`, `dtype.rs`, `probe.rs` | devices, types of numbers, and what a device can do |
//! | `kernels.rs`, `shim.rs` | what is written in C++: decoding kernels for the CPU, what tch does not bind |

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(test)]
mod adapted;
mod cache;
mod config;
mod critic;
mod decode;
mod device;
mod dtype;
mod error;
mod families;
mod files;
mod generate;
mod head;
mod kernels;
mod layout;
mod linear;
mod listed;
mod lora;
mod model;
mod optimizer;
#[cfg(test)]
mod parity;
mod probe;
mod rotary;
mod rows;
mod sample;
mod score;
mod session;
mod shim;
mod snapshot;
mod tensors;
#[cfg(test)]
mod testing;
mod train;
mod weights;

pub use config::{ModelConfig, Shape, SpecialIds};
pub use critic::{Critic, TrunkGradient, Values};
pub use device::{Device, Selection, select, set_threads};
pub use dtype::DType;
pub use error::{Error, Result};
pub use families::Family;
pub use generate::{Generation, Sampler};
pub use layout::Trained;
pub use listed::Listed;
pub use lora::{AdapterConfig, Lora, Target, target_names};
pub use model::Model;
pub use optimizer::{AdamW, Optimizer, StepReport};
pub use probe::{Memory, matmul_rate, memory};
pub use rotary::Stretch;
pub use rows::{Row, passes};
pub use sample::Sampling;
pub use score::{Scores, Wanted};
pub use session::{Ask, Ends, Generated, Session, StopReason};
pub use snapshot::{Moments, Snapshot};
pub use train::{Derivatives, Fresh};
