//! Configuration: TOML files and `--set` in, one typed [`Config`] out, and errors that show the place.
//!
//! The way of a value: `layers` reads files and what they extend into one `tree::Node` in which every value knows
//! its place, `set` applies `--set`, `check` holds the tree against the schema that is derived from [`schema`],
//! serde decodes it, and `validate` looks at what takes two values to see. [`Loaded`] is the result; start
//! there.
//!
//! Nothing here knows a plugin or an environment: what those say about their own keys comes back through
//! [`Loaded::error_at`].

mod check;
mod document;
mod error;
mod layers;
mod load;
pub(crate) mod near;
mod path;
pub mod schema;
mod set;
#[cfg(test)]
mod tests;
mod tree;
mod validate;
mod write;

pub use document::Document;
pub use error::ConfigError;
pub use load::{Change, Loaded, Origin};
pub use schema::{
    Checkpoint, Config, Context, Create, Credit, Critic, CriticTrunk, DType, Environment, Evaluation, Family, Judge,
    KeepRollouts, Lora, Model, Objective, OnFailure, Optimizer, OverlongPrompt, Parameters, Plugins, Prompt, Rollout,
    Run, Schedule, StateKey, Targets, Update, WarmStart, gradient_checkpointing, json_schema,
};
