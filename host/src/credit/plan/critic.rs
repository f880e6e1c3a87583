//! Whether a run needs a critic, and what about it cannot work.

use accredit_plugin_api::{
    Needs,
    columns::{NEW_VALUE, VALUE, VALUE_TARGET},
};

use super::{Pipeline, starts};
use crate::{
    config::{ConfigError, Loaded},
    plugin::Scheme,
};

impl Pipeline {
    /// Whether something cannot do without a critic: it reads values, or a scheme that trains gives value targets. A
    /// scheme that reads values only where there are some does not call for them.
    pub fn needs_critic(&self) -> bool {
        self.stages.iter().any(|stage| needs_critic(stage.scheme.needs(), stage.shadow))
            || self.objective.as_ref().is_some_and(|scheme| needs_critic(scheme.needs(), false))
    }
}

fn needs_critic(needs: &Needs, shadow: bool) -> bool {
    reads(needs, VALUE.name()) || reads(needs, NEW_VALUE.name()) || (needs.value_target && !shadow)
}

fn reads(needs: &Needs, name: &str) -> bool {
    needs.reads.iter().any(|read| read.name == name)
}

/// Refuses a critic that nothing trains, value targets that nobody gives, and a warm-up without an end.
pub(super) fn check(loaded: &Loaded, pipeline: &Pipeline) -> Result<(), ConfigError> {
    if !pipeline.needs_critic() {
        return Ok(());
    }
    if !pipeline.objective.as_ref().is_some_and(|objective| reads(objective.needs(), NEW_VALUE.name())) {
        let stage = pipeline.stages.iter().position(|stage| needs_critic(stage.scheme.needs(), stage.shadow));
        let (path, scheme) = match stage {
            Some(index) => (format!("credit[{index}].plugin"), Some(&pipeline.stages[index].scheme)),
            None => ("objective.plugin".to_owned(), pipeline.objective.as_ref()),
        };
        let name = scheme.map_or("", Scheme::name);
        let message = format!("`{name}` needs a critic, and the objective trains none: it reads no `new_value`");
        let hint = format!("give `{}` a value loss, which is one of its parameters", loaded.config.objective.plugin);
        return Err(loaded.error_at(&path, message, Some(hint)));
    }
    for iteration in starts(loaded, pipeline) {
        let active = || pipeline.stages.iter().filter(|stage| stage.active(iteration));
        if active().any(|stage| !stage.shadow && stage.scheme.needs().value_target) {
            continue;
        }
        if let Some(reader) = pipeline.objective.iter().find(|scheme| reads(scheme.needs(), VALUE_TARGET.name())) {
            let message = format!(
                "`{}` reads `{}`, and from iteration {iteration} on no scheme that trains gives any",
                reader.name(),
                VALUE_TARGET.name()
            );
            let hint = "add a `[[credit]]` that gives value targets, or leave the value loss out";
            return Err(loaded.error_at("objective.plugin", message, Some(hint.to_owned())));
        }
    }
    let (warmup, iterations) = (loaded.config.critic.warmup, loaded.config.iterations);
    if warmup >= iterations {
        let message = format!("the critic alone is trained for {warmup} iterations, and the run has {iterations}");
        return Err(loaded.error_at("critic.warmup", message, Some("let it be below `iterations`".to_owned())));
    }
    Ok(())
}
