//! Variants that are decisions of a `select` hook.

use serde_json::json;

use crate::{
    plan::{Run, Scheme, Source},
    settings::{Result, Settings},
};

/// Which groups the filter of DAPO keeps.
pub fn dynamic_sampling(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("metric", &json!("outcome_reward"))?;
    let scheme = Scheme {
        plugin: "dynamic-sampling",
        params: json!({"reward": "outcome", "singleton": "keep", "last": "drop"}),
    };
    let mut run = Run::constant(0.0);
    run.credit.push(scheme);
    Ok(vec![run.field("kept_groups", Source::KeptGroups)])
}
