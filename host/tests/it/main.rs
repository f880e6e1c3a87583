//! The integration tests of the `accredit` package, in one binary.
#![allow(clippy::unwrap_used)]

mod loader;
mod plugins;
