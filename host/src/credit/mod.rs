//! Credit assignment: the schemes of a configuration, run over a batch.
//!
//! [`plan`] loads the schemes and refuses what cannot work; [`pipeline`] calls their hooks in order and checks what they
//! write; [`objective`] evaluates a micro-batch; [`offline`] does all of it for rollout files. Nothing here knows an
//! algorithm: it knows hooks, columns, and what a scheme says that it needs.

mod check;
pub mod objective;
pub mod offline;
pub mod pipeline;
pub mod plan;

pub use check::CreditError;
pub use objective::{Evaluated, Fresh};
pub use pipeline::{Counters, Credit, Pipeline, Selected, Shadow, StageStatistics};
pub use plan::Supply;
