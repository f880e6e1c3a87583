//! From a variant of the golden numbers to plugins and parameters. The function that upstream ran says what a variant
//! is, its settings say how; where there is no function, algorithm and name do.

mod advantages;
mod losses;

use crate::{
    files::Variant,
    plan::Plan,
    settings::{Inexpressible, Settings, inexpressible},
};

/// What has to be run for a variant.
pub fn plan(algorithm: &str, variant: &Variant) -> Result<Plan, Inexpressible> {
    let mut settings = Settings::new(&variant.settings);
    let name = variant.name.as_str();
    let runs = match (algorithm, variant.provenance.function.as_deref()) {
        ("grpo", Some("compute_grpo_outcome_advantage")) => advantages::verl(&mut settings),
        ("grpo", Some("RemoteExperienceMaker.compute_advantages_and_returns")) => {
            advantages::openrlhf(&mut settings)
        }
        ("grpo", None) if name == "trl_advantage_formula" => advantages::trl(&mut settings),
        ("actfocus", None) => losses::actfocus(&mut settings),
        ("kl", Some("kl_penalty_forward")) => losses::divergence(&mut settings),
        (_, Some("compute_policy_loss_vanilla")) => losses::verl_vanilla(&mut settings),
        (_, Some("compute_policy_loss_gspo")) => losses::verl_gspo(&mut settings),
        (_, Some("agg_loss")) => losses::verl_2025_aggregates(&mut settings),
        (_, Some("compute_value_loss")) => losses::verl_value(&mut settings),
        (_, Some("ValueLoss.forward")) => losses::openrlhf_value(&mut settings),
        (_, Some("PolicyLoss.forward")) => losses::openrlhf(&mut settings),
        (_, Some("GRPOTrainer._compute_loss")) => losses::trl(&mut settings),
        (_, Some(function)) => {
            return inexpressible(format!("nothing here stands for `{function}`"));
        }
        (_, None) => return inexpressible(format!("nothing here stands for `{algorithm}`")),
    }?;
    settings.finish()?;
    Ok(Plan {
        layout: variant.layout,
        runs,
    })
}
