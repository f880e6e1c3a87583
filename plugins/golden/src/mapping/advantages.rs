//! Variants that are advantages of `grpo` in verl and TRL, and the advantages that the variants of losses name.

use serde_json::json;

use crate::{
    plan::{Given, Run, Scheme, Source, given},
    settings::{Result, Settings, inexpressible},
};

/// `grpo` as verl has it, with its rule for groups of one.
pub fn grpo(std: bool, eps: f64) -> Scheme {
    Scheme {
        plugin: "grpo",
        params: json!({"std": std, "eps": eps, "ddof": 1, "singleton": "raw", "over": "trajectories"}),
    }
}

/// verl's, RAGEN's and DrMAS' function: each trajectory counts once, also where a row is a step.
pub fn verl(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let std = settings.boolean("norm_adv_by_std_in_grpo")?;
    let scheme = grpo(std, settings.number("epsilon")?);
    Ok(vec![Run::new(vec![scheme]).field("row_advantages", Source::RowAdvantages)])
}

/// TRL's line, from its settings.
pub fn trl(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let scheme = grpo(true, settings.number("epsilon")?);
    Ok(vec![Run::new(vec![scheme]).field("row_advantages", Source::RowAdvantages)])
}

/// A run with the advantages that a loss was computed from, which its settings name in prose.
pub fn named(settings: &mut Settings<'_>) -> Result<Run> {
    let gae = || Run { given: Given::Gae, ..Run::new(vec![given(false)]) };
    match settings.text("advantages")? {
        "GRPO std eps 1e-6 per trajectory"
        | "verl_std GRPO row advantage on every response token"
        | "verl_std GRPO row advantage of the trajectory, on each of its steps" => Ok(Run::new(vec![grpo(true, 1e-6)])),
        "GRPO std with eps 1e-4 (TRL's), one per trajectory, ddof 1" => Ok(Run::new(vec![grpo(true, 1e-4)])),
        "verl_outcome_g0.99_l0.95 whitened GAE" | "whitened GAE gamma .99 lambda .95 on the outcome reward" => {
            Ok(gae())
        }
        other => inexpressible(format!("nothing here stands for the advantages \"{other}\"")),
    }
}
