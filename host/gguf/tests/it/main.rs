//! The integration tests of `accredit-gguf`, in one binary.
#![allow(clippy::unwrap_used)]

mod describe;
mod hostile;
mod import;
mod numbers;
mod tokenizer;
mod writer;
