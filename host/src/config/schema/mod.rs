//! What a configuration can say: one struct per TOML table. The doc comment of a field is its entry in the reference
//! and in the JSON schema, its range stands beside it, and its default is in the `Default` of its table.
//!
//! `config/check.rs` holds a file against the schema that is derived from these types, so a new key needs
//! nothing but its field here.

mod credit;
mod critic;
mod environment;
mod judge;
mod model;
mod rollout;
mod run;
mod update;
mod warm_start;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use credit::short_name;
pub use credit::{Credit, Objective};
pub use critic::{Critic, CriticTrunk};
pub use environment::{Environment, OnFailure};
pub use judge::Judge;
pub use model::{Create, DType, Family, Lora, Model, Targets};
pub use rollout::{Context, OverlongPrompt, Prompt, Rollout, StateKey};
pub use run::{Checkpoint, Evaluation, KeepRollouts, Plugins, Run};
pub use update::{Optimizer, Schedule, Update, gradient_checkpointing};
pub use warm_start::WarmStart;

/// Parameters that belong to a plugin or an environment: the host hands them over as they are.
pub type Parameters = serde_json::Map<String, serde_json::Value>;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The seed of everything random in the run.
    pub seed: u64,
    /// How many iterations (rollout, score, credit, update) the run has.
    #[schemars(range(min = 1))]
    pub iterations: u64,
    /// Files that this file builds on, relative to its folder. Their values come first, in this order, and the file's
    /// own win. A resolved configuration has none.
    #[serde(skip_serializing)]
    pub extends: Vec<PathBuf>,
    /// What the run is called, where it writes, and on how many threads.
    pub run: Run,
    /// The policy.
    pub model: Model,
    /// What is played. Training and evaluation need one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// How episodes are played.
    pub rollout: Rollout,
    /// Who says in words what was good and bad about episodes, where a scheme reads that; left out, nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
    /// Behaviour cloning before the first iteration; left out, there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<WarmStart>,
    /// The credit-assignment schemes, in the order in which they run.
    pub credit: Vec<Credit>,
    /// The plugin that makes the loss.
    pub objective: Objective,
    /// AdamW and its schedule.
    pub optimizer: Optimizer,
    /// The value model, where a scheme needs one.
    pub critic: Critic,
    /// How a batch is cut into optimiser steps.
    pub update: Update,
    /// Held-out tasks.
    pub evaluation: Evaluation,
    /// What is saved, and how often.
    pub checkpoint: Checkpoint,
    /// Where plugins are looked for.
    pub plugins: Plugins,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            iterations: 100,
            extends: Vec::new(),
            run: Run::default(),
            model: Model::default(),
            environment: None,
            rollout: Rollout::default(),
            judge: None,
            warm_start: None,
            credit: Vec::new(),
            objective: Objective::default(),
            optimizer: Optimizer::default(),
            critic: Critic::default(),
            update: Update::default(),
            evaluation: Evaluation::default(),
            checkpoint: Checkpoint::default(),
            plugins: Plugins::default(),
        }
    }
}

/// The JSON schema of a configuration, for editors and for the reference.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Config).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every property under `schema`, with the definition it stands in.
    fn undocumented(name: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
        if let Some(properties) = schema["properties"].as_object() {
            for (key, property) in properties {
                if property["description"].as_str().is_none_or(str::is_empty) {
                    found.push(format!("{name}.{key}"));
                }
            }
        }
    }

    #[test]
    fn every_key_is_documented_in_the_schema() {
        let schema = json_schema();
        let mut found = Vec::new();
        undocumented("Config", &schema, &mut found);
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            undocumented(name, definition, &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn the_schema_has_ranges_and_defaults() {
        let schema = json_schema();
        let rollout = &schema["$defs"]["Rollout"];
        assert_eq!(rollout["properties"]["group_size"]["minimum"], 1);
        assert_eq!(rollout["properties"]["group_size"]["default"], 8);
        assert_eq!(rollout["additionalProperties"], false);
        assert_eq!(schema["$defs"]["Environment"]["required"], serde_json::json!(["name"]));
    }
}
