//! The parts of the `accredit` program, as a library.
//!
//! | module | what |
//! | --- | --- |
//! | [`run`] | THE loop; start reading there |
//! | [`commands`] | the command line |
//! | [`config`] | TOML in, one typed configuration out |
//! | [`plugin`] | plugins: found, inspected, loaded, called |
//! | [`conformance`] | whether a plugin keeps its promises |
//! | [`credit`] | the schemes of a configuration, run over a batch |
//! | [`rollout`] | playing episodes, and the files that hold them |
//! | [`judge`] | what a judge outside says about episodes |
//! | [`critic`] | the value model, where a scheme needs one |
//! | [`scoring`], [`update`], [`checkpoint`] | signals, optimiser steps, and what a run needs to go on |
//! | [`study`] | configurations times seeds, and what came out |
//! | [`device_check`] | what a device computes, and how fast |
//! | [`telemetry`] | the run folder, metrics, progress |
//!
//! What runs a model is behind the feature `torch`, which is on by default.
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "torch")]
pub mod checkpoint;
pub mod commands;
pub mod config;
pub mod conformance;
pub mod credit;
#[cfg(feature = "torch")]
pub mod critic;
#[cfg(feature = "torch")]
pub mod device_check;
pub mod judge;
pub mod memory;
pub mod plugin;
pub mod rollout;
#[cfg(feature = "torch")]
pub mod run;
#[cfg(feature = "torch")]
pub mod scoring;
#[cfg(feature = "torch")]
pub mod study;
pub mod telemetry;
#[cfg(feature = "torch")]
pub mod update;
