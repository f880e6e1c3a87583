//! Variants that are advantages of `serl` and `rlsd`: those of `grpo`, scaled by a teacher.

use serde_json::json;

use super::{advantages::grpo, losses::loss_fields};
use crate::{
    plan::{Run, Scheme, Source},
    settings::{Result, Settings, inexpressible},
};

/// The advantages that are scaled, which the settings name in prose.
fn base(settings: &mut Settings<'_>) -> Result<Scheme> {
    match settings.text("base_advantage")? {
        "GRPO (std, eps 1e-6) of the trajectory" | "GRPO (std, eps 1e-6)" => Ok(grpo(true, 1e-6)),
        other => inexpressible(format!("nothing here stands for the advantages \"{other}\"")),
    }
}

/// Whose log-probabilities the teacher's are compared with.
fn student(settings: &mut Settings<'_>) -> Result<&'static str> {
    match settings.text("student_log_probs")? {
        "new_logprob" => Ok("new"),
        "old_logprob" => Ok("old"),
        other => inexpressible(format!("nothing here stands for the student `{other}`")),
    }
}

/// SERL's function with the policy loss of its project, which cuts no log-ratio.
pub fn serl(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let scheme = Scheme {
        plugin: "serl",
        params: json!({
            "lambda": settings.number("mixing_lambda")?,
            "decay": settings.whole("lambda_decay_steps")?,
            "weight_clip": settings.number("weight_clip")?,
            "student": student(settings)?,
        }),
    };
    let mut run = Run::new(vec![base(settings)?, scheme]);
    run.iteration = settings.whole("update_step")?;
    run.teacher_rows = settings.optional_mask("teacher_row_active")?;
    let params = json!({
        "low": settings.number("clip_low")?,
        "high": settings.number("clip_high")?,
        "dual": settings.number("clip_ratio_c")?,
        "log_ratio_clamp": 0.0,
        "aggregate": settings.text("loss_agg_mode")?,
    });
    let metric = |name| Source::Metric("serl", name);
    let run = run
        .objective(params)
        .field("advantages", Source::Advantages)
        .field("effective_lambda", metric("effective_lambda"))
        .field("weight_mean", metric("weight_mean"))
        .field("weight_max", metric("weight_max"))
        .field("weight_min", metric("weight_min"))
        .field("selected_fraction", metric("selected_fraction"))
        .field("clipped_fraction", metric("clipped_fraction"));
    Ok(vec![loss_fields(run)])
}

/// The same rule on all response tokens: SERL's function with every token selected, and a third party's trainer. Any
/// objective will do, since what is compared is what it is given.
pub fn rlsd(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let scheme = Scheme {
        plugin: "rlsd",
        params: json!({
            "privileged": "answer",
            "lambda": settings.number("lambda0")?,
            "decay": settings.whole("lambda_decay_steps")?,
            "weight_clip": settings.number("weight_clip")?,
            "rollouts": settings.optional_text("rollout_filter")?.unwrap_or("all"),
            "student": student(settings)?,
        }),
    };
    let mut run = Run::new(vec![base(settings)?, scheme]).objective(json!({}));
    run.iteration = settings.whole("step")?;
    Ok(vec![run.field("advantages", Source::Advantages)])
}
