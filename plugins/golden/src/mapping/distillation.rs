//! Variants that are losses of `sdpo`.

use serde_json::{Map, json};

use crate::{
    plan::{Places, Run, Source, Unit},
    settings::{Result, Settings, inexpressible},
};

/// The authors' loss, on rollouts or on distributions.
pub fn authors(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let mut params = Map::new();
    params.insert("ratio_cap".into(), json!(settings.optional_number("is_clip")?.unwrap_or(0.0)));
    params.insert("aggregate".into(), json!(settings.text("loss_agg_mode")?));
    let alpha = settings.number("alpha")?;
    params.insert("alpha".into(), json!(alpha));
    if settings.boolean("full_logit_distillation")? {
        settings.must_be("topk_support", &json!("student's top-k; teacher gathered at the same ids"))?;
        let places = lists(settings, &mut params, "distillation_topk", "distillation_add_tail")?;
        let run = Run { distributions: Some(places), ..Run::new(Vec::new()) };
        let run = run.objective_of("sdpo", params.into());
        return Ok(vec![run.field("loss", Source::Loss).field("grad_student_logits", Source::LogitSlopes)]);
    }
    params.insert("form".into(), json!("sampled"));
    settings.must_be("student", &json!("new_logprob"))?;
    settings.must_be("teacher", &json!("teacher_logprob"))?;
    let teacher_rows = settings.optional_mask("self_distillation_mask")?;
    let run = Run { teacher_rows, ..Run::new(Vec::new()) }.objective_of("sdpo", params.into());
    Ok(vec![run.field("loss", Source::Loss).field("grad_new_logprob", Source::LogprobSlopes)])
}

/// TRL's divergences of single places, of all that the input has.
pub fn trl(settings: &mut Settings<'_>) -> Result<Vec<Run>> {
    let mut params = Map::new();
    params.insert("ratio_cap".into(), json!(0.0));
    params.insert("alpha".into(), json!(settings.number("alpha")?));
    let places = Places { unmasked: true, ..lists(settings, &mut params, "topk", "add_tail")? };
    let run = Run { distributions: Some(places), ..Run::new(Vec::new()) };
    let run = run.objective_of("sdpo", params.into()).unit(Unit::Token);
    Ok(vec![run.field("token_divergence", Source::Loss)])
}

/// How many tokens are listed, and what is done about the rest. A list of the whole vocabulary leaves nothing over.
fn lists(
    settings: &mut Settings<'_>,
    params: &mut Map<String, serde_json::Value>,
    k: &str,
    tail: &str,
) -> Result<Places> {
    params.insert("form".into(), json!("top-k"));
    let k = settings.optional_number(k)?;
    let bucket = match k {
        None => {
            settings.remarks(&[tail]);
            false
        }
        Some(_) => settings.boolean(tail)?,
    };
    params.insert("tail".into(), json!(if bucket { "bucket" } else { "renormalise" }));
    match k {
        Some(k) if k < 1.0 => inexpressible(format!("a list of {k} tokens")),
        Some(k) => {
            params.insert("top_k".into(), json!(k as u32));
            Ok(Places { k: Some(k as usize), unmasked: false })
        }
        None => Ok(Places { k: None, unmasked: false }),
    }
}
