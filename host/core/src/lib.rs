//! Plain types of accredit that everything else is written in: episodes as they were played or read from a file
//! ([`episode`]), the batch that schemes see ([`batch`]), and the random streams of a run ([`rng`]).
//!
//! This crate knows no file, no tensor and no loaded plugin.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod batch;
pub mod episode;
pub mod rng;
mod slice;
mod top_k;

pub use slice::Slice;
