//! The integration tests of the `accredit` package, in one binary.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "torch")]
mod adapters;
#[cfg(feature = "torch")]
mod checkpoints;
#[cfg(feature = "torch")]
mod configs;
mod conformance;
mod credit;
#[cfg(feature = "torch")]
mod critic;
#[cfg(feature = "torch")]
mod device;
mod environments;
#[cfg(feature = "torch")]
mod gradient;
#[cfg(feature = "torch")]
mod interrupt;
mod judge;
mod loader;
mod manuals;
#[cfg(feature = "torch")]
mod outside;
mod plugins;
#[cfg(feature = "torch")]
mod resume;
#[cfg(feature = "torch")]
mod study;
#[cfg(feature = "torch")]
mod training;
