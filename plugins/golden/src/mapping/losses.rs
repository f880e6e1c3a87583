//! Variants that are losses of `clip`, and weights of `actfocus`.

use serde_json::{Map, Value, json};

use super::advantages::named;
use crate::{
    plan::{Given, Run, Scheme, Source, Unit, given},
    settings::{Result, Settings, inexpressible},
};

/// The paper's loss on weights of `actfocus`.
pub fn actfocus(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let mut run = named(settings)?;
    run.credit.push(Scheme {
        plugin: "actfocus",
        params: json!({
            "alpha": settings.number("alpha")?,
            "beta": settings.number("beta")?,
            "format_weight": settings.number("format_weight")?,
            "eps": settings.number("sigma_eps")?,
        }),
    });
    let params = json!({
        "low": settings.number("clip_low")?,
        "high": settings.number("clip_high")?,
        "dual": 0.0,
        "aggregate": "token-mean",
    });
    let run = run
        .objective(params)
        .field("mu_E", Source::Metric("actfocus", "energy_mean"))
        .field("sigma_E", Source::Metric("actfocus", "energy_sigma"))
        .field("weights", Source::Weights)
        .field("sum_w", Source::WeightSum);
    Ok(vec![loss_fields(run)])
}

/// verl's `kl_penalty_forward`: per token, and the mean over tokens.
pub fn divergence(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.remarks(&["clamp"]);
    let kl = match settings.text("kl_penalty")? {
        name @ ("k1" | "k2" | "k3" | "abs") => name,
        other => return inexpressible(format!("nothing here stands for the estimate `{other}`")),
    };
    let run = || {
        let params = json!({"kl": kl, "kl_coef": 1.0, "aggregate": "token-mean"});
        Run::constant(0.0).objective(params)
    };
    Ok(vec![run().field("token_mean", Source::Loss), run().unit(Unit::Token).field("kl", Source::Loss)])
}

/// verl's `vanilla`.
pub fn verl_vanilla(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let mut run = named(settings)?;
    run.masked_rows = settings.indices("rows_fully_masked")?.into_iter().collect();
    let mut params = Map::new();
    params.insert("low".into(), json!(settings.number("clip_low")?));
    params.insert("high".into(), json!(settings.number("clip_high")?));
    params.insert("dual".into(), json!(settings.number("clip_ratio_c")?));
    let mode = settings.text("loss_agg_mode")?;
    params.insert("aggregate".into(), json!(mode));
    let padded = settings.number("padded_len")?;
    let scale = settings.optional_number("loss_scale_factor")?;
    if mode == "seq-mean-token-sum-norm" {
        params.insert("norm_length".into(), json!(scale.unwrap_or(padded)));
    }
    Ok(vec![loss_fields(run.objective(Value::Object(params)))])
}

/// verl's `gspo`, whose aggregate is fixed. The ratio of a row is the loss of that row alone with an advantage of -1.
pub fn verl_gspo(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let run = named(settings)?;
    settings.must_be("loss_agg_mode", &json!("seq-mean-token-mean"))?;
    settings.remarks(&["padded_len"]);
    let params = json!({"low": settings.number("clip_low")?, "high": settings.number("clip_high")?});
    let ratio = Run::constant(-1.0)
        .objective(json!({"ratio": "row", "low": 1.0, "high": 1e9}))
        .unit(Unit::Row)
        .field("row_ratio", Source::Loss);
    Ok(vec![loss_fields(run.objective_of("gspo", params)), ratio])
}

/// verl's `cispo`.
pub fn verl_cispo(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let params = json!({
        "surrogate": "cispo",
        "low": settings.number("clip_low")?,
        "high": settings.number("clip_high")?,
    });
    surrogate(settings, params, "token-mean")
}

/// verl's `geo_mean`, which takes a mean over rows whatever `loss_agg_mode` says.
pub fn verl_geo_mean(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("note", &json!("clip is in log space"))?;
    let params = json!({
        "surrogate": "geometric-mean",
        "ratio": "row",
        "low": settings.number("clip_low")?,
        "high": settings.number("clip_high")?,
    });
    surrogate(settings, params, "token-mean")
}

/// verl's `gpg`.
pub fn verl_gpg(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    surrogate(settings, json!({"surrogate": "plain"}), "token-mean")
}

/// verl's `sapo`, whose aggregate is fixed.
pub fn verl_sapo(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let params = json!({
        "surrogate": "sapo",
        "tau_positive": settings.number("tau_pos")?,
        "tau_negative": settings.number("tau_neg")?,
    });
    surrogate(settings, params, "seq-mean-token-mean")
}

/// verl's `dro`.
pub fn verl_dro(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let params = json!({"surrogate": "dro", "dro_beta": settings.number("dro_beta")?});
    surrogate(settings, params, "token-mean")
}

/// A loss of verl whose default aggregate is also the plugin's, or fixed in both.
fn surrogate(settings: &mut Settings<'_>, params: Value, aggregate: &str) -> Result<Vec<Run>> {
    let run = named(settings)?;
    settings.must_be("loss_agg_mode", &json!(aggregate))?;
    settings.remarks(&["padded_len"]);
    Ok(vec![loss_fields(run.objective(params))])
}

/// verl's aggregates as they were in 2025, of the entropy: the constant of `seq-mean-token-sum-norm` divided a sum over
/// rows and not a mean.
pub fn verl_2025_aggregates(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("matrix", &json!("entropy column"))?;
    let padded = settings.number("padded_len")?;
    let run = |mode: &str| {
        let params = json!({"entropy_coef": -1.0, "aggregate": mode});
        Run::constant(0.0).objective(params).field(mode, Source::Loss)
    };
    let sum = Run::constant(0.0)
        .objective(json!({"entropy_coef": -1.0 / padded, "aggregate": "token-sum"}))
        .field("seq-mean-token-sum-norm", Source::Loss);
    Ok(vec![run("token-mean"), run("seq-mean-token-sum"), run("seq-mean-token-mean"), sum])
}

/// verl's critic loss.
pub fn verl_value(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("vpreds", &json!("0.9*value+0.1"))?;
    settings.must_be("returns", &json!("variant verl_outcome_g0.99_l0.95"))?;
    let clip = settings.number("cliprange_value")?;
    let run = value(clip, settings.text("loss_agg_mode")?)
        .field("clipfrac", Source::Metric("objective", "value_clip_fraction"))
        .field("grad_vpreds", Source::ValueSlopes);
    Ok(vec![run])
}

/// OpenRLHF's critic loss.
pub fn openrlhf_value(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("values", &json!("0.9*value+0.1"))?;
    settings.must_be("returns", &json!("as verl_outcome_g0.99_l0.95"))?;
    let run = value(settings.number("clip_eps")?, "token-mean").field("grad_values", Source::ValueSlopes);
    Ok(vec![run])
}

/// A critic's loss alone: with advantages of 0 the policy's term is 0.
fn value(clip: f64, mode: &str) -> Run {
    let run = Run { given: Given::Returns, new_values: true, ..Run::new(vec![given(true)]) };
    let params = json!({"value_coef": 1.0, "value_clip": clip, "aggregate": mode});
    run.objective(params).field("loss", Source::Loss)
}

/// OpenRLHF's policy loss.
pub fn openrlhf(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let run = named(settings)?;
    let low = settings.number("clip_eps_low")?;
    let high = settings.number("clip_eps_high")?;
    let dual = settings.optional_number("dual_clip")?.unwrap_or(0.0);
    let by_token = settings.boolean("token_level_loss")?;
    let params = match settings.optional_text("policy_loss_type")?.unwrap_or("ppo") {
        "ppo" => {
            let mode = if by_token { "token-mean" } else { "seq-mean-token-mean" };
            json!({"low": low, "high": high, "dual": dual, "aggregate": mode})
        }
        // Its mean is over rows, whatever `token_level_loss` says.
        "gspo" => json!({"ratio": "row", "low": low, "high": high, "dual": dual}),
        other => return inexpressible(format!("nothing here stands for the loss `{other}`")),
    };
    Ok(vec![loss_fields(run.objective(params))])
}

/// TRL's loss, with its names for aggregates.
pub fn trl(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let run = named(settings)?;
    let (ratio, sequence) = match settings.text("importance_sampling_level")? {
        "token" => ("token", false),
        "sequence" => ("row", true),
        other => return inexpressible(format!("nothing here stands for the level `{other}`")),
    };
    let longest = settings.number("max_completion_length")?;
    let mut params = Map::new();
    let (mut low, mut high) = (settings.number("epsilon_low")?, settings.number("epsilon_high")?);
    let aggregate = match settings.text("loss_type")? {
        "grpo" => "seq-mean-token-mean",
        "bnpo" | "dapo" => "token-mean",
        "dr_grpo" => {
            params.insert("norm_length".into(), json!(longest));
            "seq-mean-token-sum-norm"
        }
        // The upper limit is the largest ratio itself, and there is no lower one.
        "cispo" => {
            params.insert("surrogate".into(), json!("cispo"));
            low = 1.0;
            high -= 1.0;
            "token-mean"
        }
        "sapo" => {
            params.insert("surrogate".into(), json!("sapo"));
            params.insert("tau_positive".into(), json!(settings.number("tau_pos")?));
            params.insert("tau_negative".into(), json!(settings.number("tau_neg")?));
            "seq-mean-token-mean"
        }
        // Each row counts by its length: the sum over its tokens of a loss that is the same for all of them.
        "luspo" if sequence => "seq-mean-token-sum",
        other => return inexpressible(format!("nothing here stands for the loss `{other}`")),
    };
    // A ratio that is capped at delta is the dual clip, as long as the cap lies above the clip range.
    let delta = settings.optional_number("delta")?.unwrap_or(0.0);
    if delta != 0.0 && delta < 1.0 + high {
        return inexpressible(format!("delta {delta} lies inside the clip range"));
    }
    let beta = settings.number("beta")?;
    params.extend([
        ("ratio".to_owned(), json!(ratio)),
        ("low".to_owned(), json!(low)),
        ("high".to_owned(), json!(high)),
        ("log_ratio_clamp".to_owned(), json!(0.0)),
        ("aggregate".to_owned(), json!(aggregate)),
        ("kl".to_owned(), json!(if beta > 0.0 { "k3" } else { "none" })),
        ("kl_coef".to_owned(), json!(beta)),
        ("kl_clamp".to_owned(), json!(0.0)),
    ]);
    if !params.contains_key("surrogate") {
        params.insert("dual".into(), json!(delta));
    }
    Ok(vec![loss_fields(run.objective(Value::Object(params)))])
}

/// The fields of a policy loss, by the names that the upstreams have for them.
pub fn loss_fields(run: Run) -> Run {
    let metric = |name| Source::Metric("objective", name);
    run.field("loss", Source::Loss)
        .field("grad_new_logprob", Source::LogprobSlopes)
        .field("pg_clipfrac", metric("clip_fraction"))
        .field("clip_ratio", metric("clip_fraction"))
        .field("pg_clipfrac_lower", metric("clip_fraction_lower"))
        .field("ppo_kl", metric("ppo_kl"))
}
