//! What a plugin for accredit needs, and all of it.
//!
//! A plugin is a shared library that holds one or more *schemes*: methods that say which token of a rollout earned the
//! reward, filters, penalties, objectives. An author writes parameters, implements [`Scheme`] with any of its seven
//! hooks, and exports it:
//!
//! ```
//! use accredit_plugin_api::prelude::*;
//!
//! params! {
//!     /// Parameters of `mean-baseline`.
//!     pub struct Params {
//!         /// Multiplies every advantage.
//!         #[range(0.0..)]
//!         scale: f64 = 1.0,
//!     }
//! }
//!
//! struct MeanBaseline(Params);
//!
//! impl Scheme for MeanBaseline {
//!     type Params = Params;
//!     const NAME: &'static str = "mean-baseline";
//!     const ABOUT: &'static str = "The episode's reward minus its group's mean, on every token.";
//!
//!     fn new(params: Params, _host: Host) -> Result<Self> {
//!         Ok(Self(params))
//!     }
//!
//!     fn needs(&self) -> Needs {
//!         Needs::hooks(&[Hook::Advantage]).reads(&[OUTCOME.any()]).group_relative()
//!     }
//!
//!     fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, _: &Context) -> Result<()> {
//!         let outcome = batch.get(OUTCOME)?;
//!         for group in batch.groups() {
//!             let mut scores = Scores::default();
//!             for trajectory in group.trajectories() {
//!                 scores.push(f64::from(outcome[trajectory.index()]), 1);
//!             }
//!             let mean = scores.spread().map_or(0.0, |spread| spread.mean as f32);
//!             for trajectory in group.trajectories() {
//!                 let advantage = (outcome[trajectory.index()] - mean) * self.0.scale as f32;
//!                 out.advantage[trajectory.tokens()].fill(advantage);
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//! export_plugin!(MeanBaseline);
//! ```
//!
//! With `crate-type = ["cdylib"]` and this crate as its only dependency, that is a complete plugin; `accredit plugin
//! new NAME` writes such a project. No `unsafe`, and no type of the boundary, is in sight.
//!
//! What the host guarantees: a [`Batch`] is read-only and holds no trajectory that failed, was never scored, was
//! dropped, or has no response token; every output was allocated by the host and is checked after the hook. What a
//! scheme must keep: its result does not depend on the order of trajectories in a group or of groups in the batch, and
//! it writes every element of what it writes.
//!
//! [`testing`] builds a batch from literals and calls the hooks through the same functions that the host uses. The crate's
//! README is a guide: the batch in a picture, each hook with an example, testing, shipping.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

// The macros name this crate by its path, also in its own tests.
extern crate self as accredit_plugin_api;

#[doc(hidden)]
pub mod abi;
mod batch;
mod column;
mod context;
#[cfg(feature = "host")]
mod denominators;
mod error;
#[cfg(feature = "host")]
pub mod host;
#[doc(hidden)]
pub mod manifest;
pub mod math;
mod outputs;
mod params;
mod query;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod rt;
mod scheme;
mod statistics;
#[cfg(feature = "testing")]
pub mod testing;

pub use batch::{Batch, Group, Layout, Row, Step, Texts, Trajectory};
pub use column::{ACTION, AnyColumn, Column, Element, FORMAT, Level, NO_STATE, THINK, TextColumn, columns};
pub use context::{Context, Host};
#[cfg(feature = "host")]
pub use denominators::{Denominators, PartCount};
pub use error::{Error, Result};
pub use outputs::{Advantages, Credit, Decision, Loss, Refreshed, Rewards, Selection};
pub use params::{Bounded, Params};
pub use query::{Queries, Query, QueryPolicy};
pub use scheme::{Exception, Hook, Needs, Part, Read, Scheme, State};
pub use statistics::{Scores, Spread};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Guide;

/// Everything that a scheme's file needs: `use accredit_plugin_api::prelude::*;`.
pub mod prelude {
    pub use crate::{
        ACTION, Advantages, Batch, Column, Context, Credit, Decision, Error, FORMAT, Group, Hook, Host, Layout, Level,
        Loss, NO_STATE, Needs, Part, Queries, Query, QueryPolicy, Refreshed, Result, Rewards, Row, Scheme, Scores,
        Selection, Spread, State, Step, THINK, Texts, Trajectory, choices, columns::*, export_plugin, fail, params,
    };
}
