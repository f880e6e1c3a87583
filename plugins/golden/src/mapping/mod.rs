//! From a variant of the golden numbers to plugins and parameters. The function that upstream ran says what a variant
//! is, its settings say how; where there is no function, algorithm and name do.

mod advantages;
mod anchors;
mod baselines;
mod distillation;
mod hindsight;
mod losses;
mod selection;

use accredit_core::episode::Layout;

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
        ("grpo", Some("compute_opo_outcome_advantage")) => Ok(baselines::verl_opo()),
        (_, Some("compute_rloo_outcome_advantage")) => Ok(baselines::verl_rloo("raw")),
        (_, Some("compute_rloo_vectorized_outcome_advantage")) => Ok(baselines::verl_rloo("zero")),
        (_, Some("compute_gae_advantage_return")) => baselines::verl_gae(&mut settings),
        (_, Some("compute_reinforce_plus_plus_outcome_advantage")) => baselines::verl_reinforce(&mut settings),
        (_, Some("compute_reinforce_plus_plus_baseline_outcome_advantage")) => {
            baselines::verl_reinforce_baseline(&mut settings)
        }
        (_, Some("RemoteExperienceMaker.compute_advantages_and_returns")) => baselines::openrlhf(&mut settings),
        (_, Some("compute_rewards")) => baselines::verl_divergence_in_reward(&mut settings),
        (_, Some("apply_overlong_penalty")) => baselines::openrlhf_overlong(&mut settings),
        ("grpo", None) if name == "trl_advantage_formula" => advantages::trl(&mut settings),
        ("actfocus", None) => losses::actfocus(&mut settings),
        ("serl", Some("compute_serl_action_mask_reweighted_advantages + compute_policy_loss")) => {
            hindsight::serl(&mut settings)
        }
        (
            "rlsd",
            Some("compute_serl_action_mask_reweighted_advantages" | "RLSDTrainer._generate_and_score_completions"),
        ) => hindsight::rlsd(&mut settings),
        ("dapo", None) if name == "dynamic_sampling_kept_groups" => selection::dynamic_sampling(&mut settings),
        ("gigpo", Some("episode_norm_reward")) => anchors::gigpo_episodes(&mut settings),
        ("gigpo", Some("compute_gigpo_outcome_advantage" | "compute_gigpo_outcome_advantage(enable_similarity)")) => {
            anchors::gigpo(&mut settings)
        }
        ("hgpo", Some("compute_hgpo_outcome_advantage")) => anchors::hgpo(&mut settings),
        ("gagpo", None) => anchors::gagpo(&mut settings),
        ("aem", None) => anchors::aem(&mut settings),
        ("kl", Some("kl_penalty_forward")) => losses::divergence(&mut settings),
        (_, Some("compute_policy_loss_vanilla")) => losses::verl_vanilla(&mut settings),
        (_, Some("compute_policy_loss_gspo")) => losses::verl_gspo(&mut settings),
        (_, Some("compute_policy_loss_cispo")) => losses::verl_cispo(&mut settings),
        (_, Some("compute_policy_loss_geo_mean")) => losses::verl_geo_mean(&mut settings),
        (_, Some("compute_policy_loss_gpg")) => losses::verl_gpg(&mut settings),
        (_, Some("compute_policy_loss_sapo")) => losses::verl_sapo(&mut settings),
        (_, Some("compute_policy_loss_dro")) => losses::verl_dro(&mut settings),
        (_, Some("compute_self_distillation_loss")) => distillation::authors(&mut settings),
        (_, Some("compute_topk/full_logit_self_distillation_loss")) => distillation::trl(&mut settings),
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
    let layout = match variant.layout.as_str() {
        "traj" => Layout::Trajectory,
        "step" => Layout::Step,
        "dist" if runs.iter().all(|run| run.distributions.is_some()) => Layout::Step,
        other => return inexpressible(format!("nothing here stands for rows of `{other}`")),
    };
    Ok(Plan { layout, runs })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{exceptions::Exceptions, files::Folder};

    fn variant(function: &str, settings: &str, layout: &str) -> Variant {
        let text = format!(
            r#"{{"variant": "v", "provenance": {{"function": "{function}"}}, "settings": {settings},
            "layout": "{layout}", "expected": {{}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_checked_in_numbers_are_all_mapped_or_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let files = Folder::open(&folder).unwrap().golden_files(&[]).unwrap();
        let list = Exceptions::checked_in().unwrap();
        let mut mapped = 0;
        for file in &files {
            for variant in &file.variants {
                let planned = plan(&file.algorithm, variant);
                let listed = list.variant(&file.algorithm, &variant.name);
                assert_eq!(planned.is_err(), listed.is_some(), "{} {}: {planned:?}", file.algorithm, variant.name);
                mapped += usize::from(planned.is_ok());
            }
        }
        assert!(mapped > 200, "{mapped}");
        assert_eq!(list.unused(&files), Vec::<String>::new());
    }

    #[test]
    fn settings_decide() {
        let settings = r#"{"epsilon": 0.5, "norm_adv_by_std_in_grpo": false}"#;
        let one = plan("grpo", &variant("compute_grpo_outcome_advantage", settings, "step")).unwrap();
        assert_eq!(one.layout, Layout::Step);
        assert_eq!(one.runs[0].credit[0].params["eps"], 0.5);
        assert_eq!(one.runs[0].credit[0].params["std"], false);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let reason = |function, settings, layout| {
            let planned = plan("grpo", &variant(function, settings, layout));
            planned.unwrap_err().0
        };
        let settings = r#"{"epsilon": 1e-6, "norm_adv_by_std_in_grpo": true}"#;
        let function = "compute_grpo_outcome_advantage";
        assert!(reason("compute_other", settings, "traj").contains("compute_other"));
        assert!(reason(function, settings, "dist").contains("dist"));
        let more = r#"{"epsilon": 1e-6, "norm_adv_by_std_in_grpo": true, "delta": 1}"#;
        assert!(reason(function, more, "traj").contains("delta"));
        assert!(reason(function, "{}", "traj").contains("norm_adv_by_std_in_grpo"));
    }
}
