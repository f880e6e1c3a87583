//! `[[credit]]` and `[objective]`: the plugins of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;

/// One credit-assignment scheme: a plugin with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credit {
    /// A plugin's short name, looked for in the plugin path, or a file.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// What the scheme is called in metrics and in `--set`; left out, the plugin's short name. Unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The scheme's parameters, which its plugin checks.
    #[serde(default)]
    pub params: Parameters,
    /// The factor of its advantages in the sum over schemes.
    #[serde(default = "mix")]
    pub mix: f64,
    /// It is computed and logged, and trains nothing.
    #[serde(default)]
    pub shadow: bool,
    /// The first iteration in which it is active; left out, the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The first iteration in which it is no longer active; left out, it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The SHA-256 of the plugin's file, in hexadecimal; another file is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Credit {
    /// What the scheme is called: its `name`, or else its plugin's short name.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| short_name(&self.plugin))
    }

    /// Whether the scheme is active in an iteration: `from <= iteration < until`.
    pub fn active(&self, iteration: u64) -> bool {
        self.from.is_none_or(|from| from <= iteration) && self.until.is_none_or(|until| iteration < until)
    }
}

/// The plugin that turns log-probs, advantages and weights into the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Objective {
    /// A plugin's short name, looked for in the plugin path, or a file.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// The objective's parameters, which its plugin checks.
    pub params: Parameters,
    /// The SHA-256 of the plugin's file, in hexadecimal; another file is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Default for Objective {
    fn default() -> Self {
        Self { plugin: "clip".to_owned(), params: Parameters::new(), sha256: None }
    }
}

/// The short name of a plugin that may be written as a file: `acme` for `target/release/libaccredit_acme.so`.
pub(in crate::config) fn short_name(plugin: &str) -> &str {
    let file = plugin.rsplit('/').next().unwrap_or(plugin);
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    let stem = stem.strip_prefix("lib").filter(|_| stem != file).unwrap_or(stem);
    let short = stem.strip_prefix("accredit_").unwrap_or(stem);
    if short.is_empty() { plugin } else { short }
}

fn mix() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_short_name_of_its_plugin() {
        for (plugin, expected) in [
            ("acme", "acme"),
            ("library", "library"),
            ("target/release/libaccredit_acme.so", "acme"),
            ("./libmine.so", "mine"),
            ("plugins/mine.so", "mine"),
            (".so", ".so"),
        ] {
            assert_eq!(short_name(plugin), expected, "{plugin}");
        }
    }

    #[test]
    fn until_is_the_first_iteration_without_the_scheme() {
        let scheme: Credit = serde_json::from_str(r#"{"plugin": "acme", "from": 2, "until": 4}"#).unwrap();
        let active: Vec<u64> = (0..6).filter(|i| scheme.active(*i)).collect();
        assert_eq!(active, [2, 3]);
    }
}
