//! A run that goes on with a changed configuration: what cannot change, and what the rest means, in words.

use crate::{
    checkpoint::{Fate, Progress},
    config::{Change, Config, ConfigError, Loaded},
    update::learning_rate,
};

/// A run before and after its configuration changed.
pub struct Changes<'a> {
    /// The configuration that the checkpoint was made with.
    pub before: &'a Loaded,
    /// The one that the run goes on with.
    pub now: &'a Loaded,
    /// Where the run stands.
    pub progress: &'a Progress,
    /// Optimiser steps that were planned, and that are planned now.
    pub updates: [u64; 2],
}

/// What a run's weights and its folder already are, and why.
const FIXED: [(&str, &str); 3] = [
    ("model.", "the weights are those of the run's model"),
    ("warm_start", "it was made before the first iteration"),
    ("run.", "the run's folder is there already"),
];

/// Keys below [`FIXED`] that can change.
const FREE: [&str; 4] = ["model.device", "model.dtype", "run.threads", "run.rollouts"];

/// Keys that are read anew whenever they are used, and change nothing that is computed.
const HOUSEKEEPING: [&str; 3] = ["checkpoint.", "run.rollouts", "plugins."];

/// Refuses changes that a run that goes on cannot make.
pub fn check(before: &Loaded, now: &Loaded) -> Result<(), ConfigError> {
    for change in now.changes_since(before) {
        let fixed = FIXED.iter().find(|(prefix, _)| change.key.starts_with(prefix));
        if let Some((_, why)) = fixed.filter(|_| !FREE.contains(&change.key.as_str())) {
            let message = format!("`{}` cannot change when a run goes on: {why}", change.key);
            let hint = "leave it as it was, or start another run from this one's policy: `accredit train CONFIG --from \
                        RUN/checkpoints/.../model`";
            return Err(now.error_at(&change.key, message, Some(hint.to_owned())));
        }
    }
    Ok(())
}

impl Changes<'_> {
    /// Whether the update of an unfinished iteration ends here: its batch was made for other schemes, or for another
    /// distribution of tokens.
    pub fn end_update(&self) -> bool {
        let ends =
            |key: &str| key.starts_with("credit") || key.starts_with("objective.") || key == "rollout.temperature";
        self.now.changes_since(self.before).iter().any(|change| ends(&change.key))
    }

    /// A line for each key that changed, with what that means, and one for each scheme whose state was not kept.
    /// `unfinished` is whether the run goes on in the middle of an iteration.
    pub fn describe(&self, fates: &[(String, Fate)], unfinished: bool) -> Vec<String> {
        let changes = self.now.changes_since(self.before);
        let mut lines: Vec<String> = changes.iter().map(|change| self.line(change)).collect();
        lines.extend(fates.iter().filter_map(|(label, fate)| scheme(label, fate)));
        if !lines.is_empty() {
            let heading = format!("changed from iteration {} on (counted from 0):", self.progress.iteration);
            lines.insert(0, heading);
            if unfinished {
                let iteration = self.progress.iteration;
                lines.push(if self.end_update() {
                    format!("  iteration {iteration} was being updated: the rest of its update is left out, since its batch was \
                             made for the schemes and the temperature of before")
                } else {
                    format!("  iteration {iteration} is being updated: it keeps its rollouts, credit and minibatches, and what \
                             concerns these holds from iteration {} on", iteration + 1)
                });
            }
        }
        lines
    }

    fn line(&self, change: &Change) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        format!("  {}: {} -> {}: {}", change.key, text(&change.old), text(&change.new), self.meaning(&change.key))
    }

    /// What a change means for the run.
    fn meaning(&self, key: &str) -> String {
        let any = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
        if any(&HOUSEKEEPING) {
            return "nothing that is computed changes".to_owned();
        }
        if key == "iterations" || any(&["update.epochs", "update.minibatches", "critic.warmup"]) {
            let [before, now] = self.updates;
            let also = match key {
                "iterations" => "",
                "critic.warmup" => "; the critic's warm-up is counted from the run's first iteration",
                _ => "; rows are dealt to optimiser steps in another way",
            };
            return format!(
                "{now} optimiser steps are planned in place of {before}, and {} are done: a schedule goes by the new plan, \
                 so the next learning rate is {}{also}",
                self.progress.update,
                self.next_rate()
            );
        }
        if any(&["optimizer."]) {
            return format!(
                "the optimiser keeps its moments and its count of steps; the next learning rate is {}",
                self.next_rate()
            );
        }
        let means = match key {
            "seed" => "tasks, sampling and minibatches are drawn anew: other episodes than without the change",
            "model.device" | "run.threads" | "update.micro_batch_tokens" | "update.gradient_checkpointing" => {
                "the same numbers but for rounding: no longer bit for bit those of the run so far"
            }
            "rollout.groups" | "rollout.group_size" => {
                "other episodes, and batches of another size; as many optimiser steps are planned for each"
            }
            "evaluation.every" => "the policy is evaluated at other iterations",
            "credit" => "schemes work in the order of the list",
            _ if any(&["evaluation."]) => {
                "held-out results cannot be compared with those so far, and the best policy so far keeps its old result"
            }
            _ if any(&["environment"]) => "other tasks or rewards: curves of before and after cannot be compared",
            _ if any(&["rollout."]) => "other episodes from here on",
            _ if any(&["critic."]) => "the critic keeps its weights, its moments and its count of steps",
            _ if any(&["objective."]) => "another loss; the policy and its optimiser stay as they are",
            _ if any(&["credit."]) => "other credit; the policy and its optimiser stay as they are",
            _ => "it holds from here on",
        };
        means.to_owned()
    }

    /// The learning rate of the next optimiser step, before and now.
    fn next_rate(&self) -> String {
        let rate = |config: &Config, updates| learning_rate(&config.optimizer, self.progress.update, updates);
        let [before, now] = self.updates;
        let (old, new) = (rate(&self.before.config, before), rate(&self.now.config, now));
        if old == new { format!("{new:e}, as before") } else { format!("{new:e} in place of {old:e}") }
    }
}

/// What became of a scheme's state, where it was not kept.
fn scheme(label: &str, fate: &Fate) -> Option<String> {
    let dropped = |state: bool| if state { "its state is dropped" } else { "it had no state" };
    let text = match fate {
        Fate::Kept => return None,
        Fate::New => format!("scheme `{label}` is new: it starts without state"),
        Fate::Replaced { before, state } => {
            format!("scheme `{label}` starts without state: before, `{before}` was called so, and {}", dropped(*state))
        }
        Fate::Gone { state } => format!("scheme `{label}` is gone: {}", dropped(*state)),
    };
    Some(format!("  {text}"))
}
