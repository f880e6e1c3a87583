//! The integration tests of the `accredit` package, in one binary.
#![allow(clippy::unwrap_used)]

mod credit;
mod loader;
mod manuals;
mod plugins;
#[cfg(feature = "torch")]
mod training;
