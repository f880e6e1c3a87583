//! Variants that are advantages of `rloo`, `gae` and `reinforce`, OpenRLHF's estimators, and shaped rewards.

use serde_json::{Value, json};

use crate::{
    plan::{Run, Scheme, Source},
    settings::{Result, Settings, inexpressible},
};

fn scheme(plugin: &'static str, params: Value) -> Scheme {
    Scheme { plugin, params }
}

/// The parameter `reward` for a place of rewards.
fn placement(settings: &mut Settings<'_>) -> Result<&'static str> {
    match settings.text("reward_placement")? {
        "outcome" => Ok("outcome"),
        "step" => Ok("steps"),
        other => inexpressible(format!("nothing here places rewards as `{other}`")),
    }
}

/// verl's leave-one-out, whose two forms differ in a group of one.
pub fn verl_rloo(singleton: &str) -> Vec<Run> {
    let rloo = scheme("rloo", json!({"singleton": singleton, "over": "trajectories"}));
    vec![Run::new(vec![rloo]).field("row_advantages", Source::RowAdvantages)]
}

/// verl's baseline that is weighted by length. It has no setting.
pub fn verl_opo() -> Vec<Run> {
    let opo = scheme("grpo", json!({"std": false, "over": "tokens", "singleton": "raw"}));
    vec![Run::new(vec![opo]).field("row_advantages", Source::RowAdvantages)]
}

/// verl's generalised advantages, before and after whitening.
pub fn verl_gae(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("whiten", &json!(true))?;
    let (gamma, lambda) = (settings.number("gamma")?, settings.number("lam")?);
    let (reward, eps) = (placement(settings)?, settings.number("whiten_eps")?);
    let run = |whiten: bool| {
        let params = json!({"gamma": gamma, "lambda": lambda, "reward": reward, "whiten": whiten, "eps": eps});
        Run::new(vec![scheme("gae", params)])
    };
    let raw = run(false).field("raw_advantages", Source::Advantages).field("returns", Source::ValueTargets);
    Ok(vec![raw, run(true).field("whitened_advantages", Source::Advantages)])
}

/// verl's REINFORCE++; its returns are the advantages before whitening.
pub fn verl_reinforce(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let (gamma, reward) = (settings.number("gamma")?, placement(settings)?);
    let eps = settings.number("whiten_eps")?;
    let run = |whiten: bool| {
        let params = json!({"gamma": gamma, "reward": reward, "whiten": whiten, "eps": eps});
        Run::new(vec![scheme("reinforce", params)])
    };
    Ok(vec![run(true).field("advantages", Source::Advantages), run(false).field("returns", Source::Advantages)])
}

/// verl's baseline form of REINFORCE++.
pub fn verl_reinforce_baseline(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let eps = settings.number("whiten_eps")?;
    let params = json!({"baseline": "group", "singleton": "raw", "eps": eps});
    Ok(vec![Run::new(vec![scheme("reinforce", params)]).field("row_advantages", Source::RowAdvantages)])
}

/// OpenRLHF's estimators. Its limits, 1e-9 beside a group's deviation and 1e-8 below a batch's variance, are written in
/// its code.
pub fn openrlhf(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let (gamma, lambda) = (settings.number("gamma")?, settings.number("lambd")?);
    let coefficient = settings.number("kl_coef")?;
    settings.must_be("kl", &json!("k1 = old_logprob - ref_logprob, zero at masked tokens"))?;
    let observations = "NOT skipped: they consume a gamma*lambda step with value and reward 0";
    settings.must_be("observation_tokens", &json!(observations))?;
    let run = |plugin: &'static str, params: Value| {
        let mut credit = Vec::new();
        if coefficient != 0.0 {
            credit.push(scheme("kl-reward", json!({"estimate": "k1", "coefficient": coefficient})));
        }
        credit.push(scheme(plugin, params));
        Run::new(credit)
    };
    // These credit whole responses, and add to each token the divergence from there on, without a discount.
    let of_outcomes = |plugin: &'static str, params: Value| {
        if gamma != 1.0 {
            return inexpressible(format!("`{plugin}` has no discount, and gamma is {gamma}"));
        }
        let run = run(plugin, params);
        Ok(vec![run.field("advantages", Source::Advantages).field("returns", Source::Advantages)])
    };
    let reinforce = |baseline: &str| {
        let run = |whiten: bool| {
            let params = json!({"gamma": gamma, "observation_steps": true, "baseline": baseline, "singleton": "raw",
                "whiten": whiten, "ddof": 0, "eps": 1e-8});
            run("reinforce", params)
        };
        vec![run(true).field("advantages", Source::Advantages), run(false).field("returns", Source::Advantages)]
    };
    match settings.text("estimator")? {
        "group_norm" => {
            let params = json!({"std": true, "eps": 1e-9, "singleton": "raw", "token_rewards": "to-go"});
            of_outcomes("grpo", params)
        }
        "dr_grpo" => of_outcomes("grpo", json!({"std": false, "singleton": "raw", "token_rewards": "to-go"})),
        "rloo" => of_outcomes("rloo", json!({"singleton": "raw", "token_rewards": "to-go"})),
        "reinforce" => Ok(reinforce("none")),
        "reinforce_baseline" => Ok(reinforce("group")),
        "gae" => {
            let params = json!({"gamma": gamma, "lambda": lambda, "observation_steps": true, "ddof": 0, "eps": 1e-8});
            let run = run("gae", params).field("advantages", Source::Advantages);
            Ok(vec![run.field("returns", Source::ValueTargets)])
        }
        other => inexpressible(format!("nothing here stands for the estimator `{other}`")),
    }
}

/// verl's rewards with the divergence taken off. Without a discount towards the past, the return of a token is its reward.
pub fn verl_divergence_in_reward(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let coefficient = settings.number("kl_ratio")?;
    let reward = placement(settings)?;
    let credit = vec![
        scheme("kl-reward", json!({"estimate": "k1", "coefficient": coefficient})),
        scheme("reinforce", json!({"gamma": 0.0, "reward": reward, "whiten": false})),
    ];
    Ok(vec![Run::new(credit).field("token_rewards", Source::Advantages)])
}

/// OpenRLHF's penalty on long responses: of the rewards as they are, and alone.
pub fn openrlhf_overlong(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.remarks(&["response_length"]);
    let params = json!({
        "max_length": settings.number("max_new_tokens")? as u64,
        "buffer": settings.number("overlong_buffer_len")? as u64,
        "factor": settings.number("penalty_factor")?,
    });
    let run = || {
        let outcome = scheme("reinforce", json!({"whiten": false}));
        Run::new(vec![scheme("overlong", params.clone()), outcome])
    };
    let after = run().field("rewards_after", Source::RowAdvantages);
    let alone = Run { no_rewards: true, ..run() }.field("penalty", Source::RowAdvantages);
    Ok(vec![after, alone])
}
