//! What is run for a variant, and where in the result its fields stand.

use std::collections::BTreeSet;

use accredit_core::episode::Layout;
use serde_json::{Value, json};

/// Everything that is run for one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How rows are cut.
    pub layout: Layout,
    /// The runs; each gives some of the fields.
    pub runs: Vec<Run>,
}

/// One configuration on one version of the rollouts.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The schemes.
    pub credit: Vec<Scheme>,
    /// The objective; without it only the credit is computed.
    pub objective: Option<Scheme>,
    /// Advantages that stand in the rollouts.
    pub given: Given,
    /// All rewards are 0.
    pub no_rewards: bool,
    /// Rows without a response token.
    pub masked_rows: BTreeSet<usize>,
    /// The rows that have a teacher; none means all.
    pub teacher_rows: Option<BTreeSet<usize>>,
    /// Which iteration it is.
    pub iteration: u64,
    /// The input is distributions, and this is how they become episodes.
    pub distributions: Option<Places>,
    /// The critic's new value is `0.9 * value + 0.1`.
    pub new_values: bool,
    /// What is one batch.
    pub unit: Unit,
    /// The fields that it gives: name and place.
    pub fields: Vec<(String, Source)>,
}

/// Places with distributions, as tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// How many of the likeliest tokens stand at each; none means all.
    pub k: Option<usize>,
    /// Every place is trained and has a teacher, whatever the masks say.
    pub unmasked: bool,
}

/// A plugin with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// Its name.
    pub plugin: &'static str,
    /// Its parameters.
    pub params: Value,
}

/// Advantages that stand in the rollouts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    /// None.
    Nothing,
    /// The same for every token.
    Constant(f32),
    /// Whitened generalised advantages of the golden numbers for `ppo_gae`: gamma 0.99, lambda 0.95, the outcome as
    /// reward.
    Gae,
    /// Advantages of 0, and the returns of the same numbers as value targets.
    Returns,
}

/// What is one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// All rollouts.
    Whole,
    /// Every row is a batch of its own.
    Row,
    /// Every response token is a batch of its own.
    Token,
}

/// Where a field stands in the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The loss; with smaller units one for each, 0 for the environment's tokens.
    Loss,
    /// Advantages of the tokens, row by row.
    Advantages,
    /// The advantage of each row's first response token.
    RowAdvantages,
    /// Value targets of the tokens, row by row.
    ValueTargets,
    /// Weights of the tokens, row by row.
    Weights,
    /// Their sum.
    WeightSum,
    /// Derivatives with respect to the new log-probabilities, row by row.
    LogprobSlopes,
    /// Derivatives with respect to the new values, row by row.
    ValueSlopes,
    /// The groups of which a trajectory is kept, as their places among all groups.
    KeptGroups,
    /// Derivatives with respect to the policy's logits, place by place, from those with respect to the log-probabilities of
    /// the likeliest tokens.
    LogitSlopes,
    /// What a scheme or the `objective` pushed.
    Metric(&'static str, &'static str),
}

impl Run {
    /// Advantages of a scheme on all rollouts, and nothing else.
    pub fn new(credit: Vec<Scheme>) -> Self {
        Self {
            credit,
            objective: None,
            given: Given::Nothing,
            no_rewards: false,
            masked_rows: BTreeSet::new(),
            teacher_rows: None,
            iteration: 0,
            distributions: None,
            new_values: false,
            unit: Unit::Whole,
            fields: Vec::new(),
        }
    }

    /// The same advantage for every token.
    pub fn constant(advantage: f32) -> Self {
        Self { given: Given::Constant(advantage), ..Self::new(vec![given(false)]) }
    }

    /// With the objective `clip`.
    pub fn objective(self, params: Value) -> Self {
        self.objective_of("clip", params)
    }

    /// With an objective.
    pub fn objective_of(mut self, plugin: &'static str, params: Value) -> Self {
        self.objective = Some(Scheme { plugin, params });
        self
    }

    /// With a smaller batch.
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Gives a field.
    pub fn field(mut self, name: &str, source: Source) -> Self {
        self.fields.push((name.to_owned(), source));
        self
    }

    /// The configuration's text. No numbers but those of the mapping go in, so that it is always a valid table.
    pub fn config(&self) -> Value {
        let scheme = |scheme: &Scheme| json!({"plugin": scheme.plugin, "params": scheme.params});
        let credit: Vec<Value> = self.credit.iter().map(scheme).collect();
        let default = Scheme { plugin: "clip", params: json!({}) };
        let objective = scheme(self.objective.as_ref().unwrap_or(&default));
        json!({"credit": credit, "objective": objective})
    }
}

/// The plugin that hands on what stands in the rollouts.
pub fn given(value_target: bool) -> Scheme {
    Scheme { plugin: "given", params: json!({"value_target": value_target}) }
}
