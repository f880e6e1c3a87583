//! The parts of the `accredit` program, as a library.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod config;
pub mod plugin;
