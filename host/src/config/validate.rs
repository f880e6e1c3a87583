//! What takes more than one value, or more than a type, to see: values that do not fit each other, names that are not
//! unique, words with a form.

use std::collections::HashMap;

use super::error::Problem;
use super::load::Loaded;
use super::near::list;
use super::schema::{Context, Create};
use crate::judge::question::{EPISODE, SUCCESSFUL, placeholders};

/// All such problems of a configuration whose keys and types are right.
pub(super) fn validate(loaded: &Loaded) -> Vec<Problem> {
    let mut found = Findings { loaded, problems: Vec::new() };
    found.model();
    found.rollout();
    found.judge();
    found.credit();
    found.problems
}

struct Findings<'a> {
    loaded: &'a Loaded,
    problems: Vec<Problem>,
}

impl Findings<'_> {
    fn wrong(&mut self, path: &str, message: impl Into<String>, expected: impl Into<String>) {
        self.problems.push(self.loaded.problem_at(path, message.into()).note(expected));
    }

    fn model(&mut self) {
        let model = &self.loaded.config.model;
        if model.path.is_some() && model.create.is_some() {
            self.wrong(
                "model.path",
                "`model.path` and `model.create` exclude each other",
                format!("expected one of them; `model.create` is set by {}", self.loaded.origin("model.create")),
            );
        }
        let device = model.device.as_str();
        let numbered = device.strip_prefix("cuda:").is_some_and(|number| number.parse::<u32>().is_ok());
        if !numbered && !["auto", "cpu", "cuda"].contains(&device) {
            self.wrong(
                "model.device",
                format!("unknown device `{device}`"),
                "expected `auto`, `cpu`, `cuda` or `cuda:N`",
            );
        }
        if model.lora.is_some() && !model.frozen.is_empty() {
            self.wrong(
                "model.frozen",
                "`model.frozen` has no meaning beside `model.lora`, which trains an adapter and no weight",
                "expected one of them",
            );
        }
        if let Some(create) = &model.create {
            self.sizes(create);
        }
    }

    fn sizes(&mut self, create: &Create) {
        let Create { hidden_size, heads, kv_heads, .. } = create;
        if hidden_size % heads != 0 || (hidden_size / heads) % 2 != 0 {
            self.wrong(
                "model.create.heads",
                format!("{heads} heads do not divide a hidden size of {hidden_size} into even parts"),
                "expected `hidden_size` to be a multiple of twice the heads",
            );
        }
        if heads % kv_heads != 0 {
            self.wrong(
                "model.create.kv_heads",
                format!("{kv_heads} key and value heads do not divide {heads} heads"),
                "expected `heads` to be a multiple of `kv_heads`",
            );
        }
    }

    fn rollout(&mut self) {
        let rollout = &self.loaded.config.rollout;
        if rollout.window > 0 && rollout.context != Context::Window {
            self.wrong(
                "rollout.window",
                "`rollout.window` has no meaning with `context = \"concat\"`",
                "expected `context = \"window\"` beside it",
            );
        }
        if rollout.max_context.is_some_and(|limit| limit <= rollout.max_tokens) {
            self.wrong(
                "rollout.max_context",
                format!("a row has no room for a response of {} tokens and its prompt", rollout.max_tokens),
                "expected `max_context` above `max_tokens`",
            );
        }
        for (key, tag) in [("think_tag", &rollout.think_tag), ("action_tag", &rollout.action_tag)] {
            if tag.contains(['<', '>', '/']) || tag.contains(char::is_whitespace) {
                self.wrong(
                    &format!("rollout.{key}"),
                    format!("`{tag}` is not the name of a tag"),
                    "expected a name without brackets, slashes and spaces, such as `think`",
                );
            }
        }
        if rollout.think_tag == rollout.action_tag {
            self.wrong(
                "rollout.action_tag",
                "`think_tag` and `action_tag` are the same",
                "expected two names, since they tell reasoning from action",
            );
        }
        // In windows a trajectory is several rows, so there are at least as many.
        let rows = rollout.groups.saturating_mul(rollout.group_size);
        if self.loaded.config.update.minibatches > rows {
            self.wrong(
                "update.minibatches",
                format!("{} minibatches of {rows} trajectories", self.loaded.config.update.minibatches),
                "expected at most `groups` times `group_size`",
            );
        }
    }

    fn judge(&mut self) {
        let loaded = self.loaded;
        let Some(judge) = &loaded.config.judge else { return };
        match (judge.command.is_empty(), &judge.url) {
            (true, None) => self.wrong(
                "judge",
                "`judge` names nobody who judges",
                "expected a `command`, or the `url` of a server and a `model`",
            ),
            (false, Some(_)) => self.wrong(
                "judge.url",
                "`judge.command` and `judge.url` exclude each other",
                format!("expected one of them; `judge.command` is set by {}", loaded.origin("judge.command")),
            ),
            (true, Some(_)) if judge.model.is_none() => {
                self.wrong("judge.url", "`judge` names a server and no model of it", "expected a `model` beside `url`");
            }
            _ => {}
        }
        for (key, set) in [("model", judge.model.is_some()), ("key_env", judge.key_env.is_some())] {
            if set && judge.url.is_none() && !judge.command.is_empty() {
                let message = format!("`judge.{key}` has no meaning for a program");
                self.wrong(&format!("judge.{key}"), message, "expected it beside `url` alone");
            }
        }
        let both: Vec<&str> = EPISODE.into_iter().chain([SUCCESSFUL]).collect();
        for (key, prompt, known) in
            [("prompt", &judge.prompt, &EPISODE[..]), ("prompt_with_success", &judge.prompt_with_success, &both)]
        {
            let path = format!("judge.{key}");
            let words = || known.iter().map(|word| format!("{{{word}}}"));
            if let Some((_, word)) = placeholders(prompt).find(|(_, word)| !known.contains(word)) {
                let shown: Vec<String> = words().collect();
                let message = format!("`{{{word}}}` stands for nothing in `{path}`");
                self.wrong(&path, message, format!("expected {}", list(shown.iter().map(String::as_str))));
            }
            for wanted in ["episode", SUCCESSFUL].into_iter().filter(|wanted| known.contains(wanted)) {
                if !placeholders(prompt).any(|(_, word)| word == wanted) {
                    let message = format!("`{path}` does not show the judge `{{{wanted}}}`");
                    self.wrong(&path, message, format!("expected `{{{wanted}}}` somewhere in it"));
                }
            }
        }
    }

    fn credit(&mut self) {
        let mut earlier = HashMap::new();
        for (index, credit) in self.loaded.config.credit.iter().enumerate() {
            let at = |key: &str| format!("credit[{index}].{key}");
            let label = credit.label();
            let named = at(if credit.name.is_some() { "name" } else { "plugin" });
            if let Some(first) = earlier.insert(label, index) {
                self.wrong(
                    &named,
                    format!("`credit[{first}]` and `credit[{index}]` are both called `{label}`"),
                    "expected a `name` of its own for one of them, such as `name = \"second\"`",
                );
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if label.is_empty() || !label.chars().all(plain) || label.chars().all(|c| c.is_ascii_digit()) {
                self.wrong(
                    &named,
                    format!("`{label}` cannot name a scheme"),
                    "expected a `name` of letters, digits, `_` and `-` that is not a number",
                );
            }
            if let (from, Some(until)) = (credit.from.unwrap_or(0), credit.until)
                && from >= until
            {
                self.wrong(
                    &at("until"),
                    format!("`{label}` is active from {from} until {until}, which is never"),
                    "expected `from` below `until`",
                );
            }
            self.digest(&at("sha256"), credit.sha256.as_deref());
        }
        self.digest("objective.sha256", self.loaded.config.objective.sha256.as_deref());
    }

    fn digest(&mut self, path: &str, digest: Option<&str>) {
        if let Some(digest) = digest
            && (digest.len() != 64 || !digest.chars().all(|c| c.is_ascii_hexdigit()))
        {
            self.wrong(path, format!("`{digest}` is no SHA-256"), "expected 64 hexadecimal digits");
        }
    }
}
