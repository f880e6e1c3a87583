//! Text environments for agents: the trait that they share ([`Environment`]), the registry that makes one by its name
//! ([`make`]), the pool that plays many in threads ([`Pool`]), and the replay of recorded traces ([`traces`]).
//!
//! Beside them stands the [`Judge`], a program or a server that says in words what was good about an episode.
//!
//! Open `environment.rs` first, then `frozen_lake.rs` for a whole environment. To add one: a module with its settings
//! and its rules, and a line in the table of `registry.rs`.
//!
//! This crate knows no model, no token and no plugin: an environment gets text and gives text.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod action_list;
mod alfworld;
mod data;
mod environment;
mod error;
mod frozen_lake;
mod numpy_legacy;
mod numpy_random;
mod outside;
mod pool;
mod python_random;
mod registry;
mod sokoban;
mod sudoku;
pub mod traces;
mod webshop;

pub use environment::{Demonstration, Environment, Outcome, Task, Traits, Turn};
pub use error::EnvironmentError;
pub use outside::{Judge, JudgeError, JudgeSettings, Judges, Limits, Question};
pub use pool::{Failure, FailureKind, Pool, Request};
pub use registry::{make, names, schema, summary, traits};
