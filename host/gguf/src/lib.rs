//! GGUF files in, Hugging Face model folders out; and descriptions of both.
//!
//! This crate knows files and numbers. It runs no model, and it needs no tensor library.
//!
//! Start reading at [`Plan`], which is a GGUF file as a folder, then [`Gguf`], which is the file itself.
//!
//! | file | what |
//! | --- | --- |
//! | `file.rs`, `cursor.rs`, `metadata.rs` | a GGUF file, checked when it is opened |
//! | `tensor_type.rs`, `dequantize.rs` | types of weights, and how they become numbers |
//! | `architecture.rs` | keys become `config.json` |
//! | `tensors.rs` | tensors get their names in a folder, and rows their order |
//! | `tokenizer.rs` | tokens and merges become `tokenizer.json` and its companions |
//! | `import.rs`, `shards.rs` | the folder is written |
//! | `describe.rs`, `folder.rs` | what a model is |

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod architecture;
mod cursor;
mod dequantize;
mod describe;
mod error;
mod file;
mod folder;
mod import;
mod metadata;
mod shards;
mod tensor_type;
mod tensors;
mod tokenizer;

pub use dequantize::{READABLE, dequantize};
pub use describe::{Description, Token, Weights, describe};
pub use error::{Error, Result};
pub use file::{Gguf, TensorInfo};
pub use import::{Dtype, Plan};
pub use tensor_type::TensorType;
