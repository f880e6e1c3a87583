//! The integration tests of the `accredit` package, in one binary.
#![allow(clippy::unwrap_used)]

mod credit;
#[cfg(feature = "torch")]
mod critic;
#[cfg(feature = "torch")]
mod gradient;
mod loader;
mod manuals;
mod plugins;
#[cfg(feature = "torch")]
mod training;
