//! Variants that are advantages of `gigpo`, `hgpo` and `gagpo`, and coefficients of `aem`.

use serde_json::{Value, json};

use super::advantages::grpo;
use crate::{
    plan::{Given, Run, Scheme, Source, Unit, given},
    settings::{Result, Settings, inexpressible},
};

/// A run of one scheme whose advantages are a field, one number for each row.
fn by_row(plugin: &'static str, params: Value, field: &str) -> Run {
    Run::new(vec![Scheme { plugin, params }]).field(field, Source::RowAdvantages)
}

/// verl-agent's function, with and without similar states.
pub fn gigpo(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let gamma = settings.number("gamma")?;
    let similarity = settings.optional_number("similarity_thresh")?;
    if similarity.is_some() {
        settings.must_be(
            "similarity",
            &json!("Ratcliff/Obershelp ratio (difflib.SequenceMatcher), first cluster whose representative matches"),
        )?;
    }
    if settings.optional_number("ddof")?.unwrap_or(1.0) != 1.0 {
        return inexpressible("`gigpo` has the sample deviation built in");
    }
    // The function's default is to count steps.
    let over =
        if similarity.is_some() || settings.boolean("compute_mean_std_cross_steps")? { "rows" } else { "trajectories" };
    let mode = settings.text("mode")?;
    let mut params = json!({
        "gamma": gamma,
        "omega": settings.number("step_advantage_w")?,
        "mode": mode,
        "over": over,
        "eps": settings.number("epsilon")?,
        "singleton": "raw",
    });
    if let Some(similarity) = similarity {
        params["similarity"] = json!(similarity);
    }
    let mut episodes = params.clone();
    episodes["omega"] = json!(0.0);
    let mut whole = by_row("gigpo", params, "row_advantages");
    // Where a deviation divides, 32 bits cannot tell equal returns.
    if mode == "mean_norm" {
        whole = whole.field("row_advantages_f32_pipeline", Source::RowAdvantages);
    }
    Ok(vec![whole, by_row("gigpo", episodes, "episode_advantages")])
}

/// verl-agent's function of the episode term alone.
pub fn gigpo_episodes(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let over = if settings.boolean("compute_mean_std_cross_steps")? { "rows" } else { "trajectories" };
    let params = json!({
        "omega": 0.0,
        "mode": settings.text("mode")?,
        "over": over,
        "eps": settings.number("epsilon")?,
        "singleton": "raw",
    });
    Ok(vec![by_row("gigpo", params, "episode_advantages")])
}

/// The HGPO recipe of verl-agent.
pub fn hgpo(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("ddof", &json!(0))?;
    let params = json!({
        "history": settings.number("history_length")? as u32,
        "alpha": settings.number("length_weight_alpha")?,
        "gamma": settings.number("gamma")?,
        "mode": settings.text("mode")?,
        "base_group": settings.boolean("base_group")?,
        "over": "rows",
        "eps": settings.number("epsilon")?,
        "singleton": "raw",
    });
    let run = by_row("hgpo", params, "row_advantages").field("row_advantages_f64_independent", Source::RowAdvantages);
    Ok(vec![run])
}

/// The paper's advantages and its loss. The ratio of a step is the loss of that step alone with an advantage of -1.
pub fn gagpo(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let truncated = if settings.boolean("bootstrap_truncated")? { "bootstrap" } else { "terminal" };
    let whole = json!({
        "gamma": settings.number("gamma")?,
        "lambda": settings.number("lam")?,
        "normalize": "group",
        "ddof": settings.number("ddof")? as u32,
        "eps": settings.number("epsilon")?,
        "truncated": truncated,
    });
    let mut raw = whole.clone();
    raw["normalize"] = json!("none");
    let mut residual = raw.clone();
    residual["lambda"] = json!(0.0);
    let loss = json!({
        "ratio": "step",
        "low": settings.number("clip_low")?,
        "high": settings.number("clip_high")?,
    });
    let ratio = Run::constant(-1.0)
        .objective(json!({"ratio": "step", "low": 1.0, "high": 1e9}))
        .unit(Unit::Row)
        .field("row_ratio", Source::Loss);
    Ok(vec![
        by_row("gagpo", whole, "row_advantages")
            .objective(loss)
            .field("loss", Source::Loss)
            .field("grad_new_logprob", Source::LogprobSlopes),
        by_row("gagpo", raw, "raw_row_advantages"),
        by_row("gagpo", residual, "delta"),
        ratio,
    ])
}

/// The paper's coefficients, alone as what they make of an advantage of 1, and on GRPO's advantages.
pub fn aem(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    settings.must_be("base_advantage", &json!("GRPO std eps 1e-6 of the trajectory"))?;
    let params = json!({"lambda": settings.number("lambda")?, "min_range": settings.number("min_range")?});
    let aem = || Scheme { plugin: "aem", params: params.clone() };
    let base = || grpo(true, 1e-6);
    let alone = Run { given: Given::Constant(1.0), ..Run::new(vec![given(false), aem()]) };
    Ok(vec![
        alone.field("alpha", Source::RowAdvantages),
        Run::new(vec![base()]).field("base_row_advantages", Source::RowAdvantages),
        Run::new(vec![base(), aem()]).field("row_advantages", Source::RowAdvantages),
    ])
}
