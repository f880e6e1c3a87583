//! The parts of the `accredit` program, as a library.

pub mod config;
pub mod plugin;
