//! The environments through the crate's public face.
#![allow(clippy::unwrap_used)]

mod frozen_lake;
mod pool;
mod webshop;
