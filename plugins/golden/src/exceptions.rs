//! The checked-in list of what is not expressed, with a reason each. A variant that is in it and could be run, and an
//! entry that stands for nothing, are errors: the list cannot go stale.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::files::GoldenFile;

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    entry: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    algorithm: String,
    /// Names of variants; a last `*` stands for any rest.
    variants: Vec<String>,
    /// Fields that are not compared; without them the whole variant is not run.
    #[serde(default)]
    fields: Vec<String>,
    reason: String,
}

impl Entry {
    fn covers(&self, algorithm: &str, variant: &str) -> bool {
        self.algorithm == algorithm
            && self.variants.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => variant.starts_with(start),
                None => variant == pattern,
            })
    }
}

impl Exceptions {
    /// The list that stands beside this program's source.
    pub fn checked_in() -> Result<Self> {
        Self::parse(include_str!("../not_expressed.toml")).context("not_expressed.toml")
    }

    fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)?;
        for entry in &list.entry {
            ensure!(
                !entry.reason.is_empty() && !entry.variants.is_empty(),
                "the entry of `{}` without a reason or without variants",
                entry.algorithm
            );
        }
        Ok(list)
    }

    /// Why a variant is not run, if it is in the list.
    pub fn variant(&self, algorithm: &str, variant: &str) -> Option<&str> {
        self.find(algorithm, variant, |entry| entry.fields.is_empty())
    }

    /// Why a field of a variant is not compared, if it is in the list.
    pub fn field(&self, algorithm: &str, variant: &str, field: &str) -> Option<&str> {
        self.find(algorithm, variant, |entry| entry.fields.iter().any(|name| name == field))
    }

    fn find(&self, algorithm: &str, variant: &str, accept: impl Fn(&Entry) -> bool) -> Option<&str> {
        let mut entries = self.entry.iter();
        entries.find(|entry| entry.covers(algorithm, variant) && accept(entry)).map(|entry| entry.reason.as_str())
    }

    /// Entries of algorithms that these files have, and that stand for none of their variants or fields.
    pub fn unused(&self, files: &[GoldenFile]) -> Vec<String> {
        let used = |entry: &Entry| {
            let own = files.iter().filter(|f| f.algorithm == entry.algorithm);
            let mut variants = own.flat_map(|file| &file.variants).peekable();
            variants.peek().is_none()
                || variants.any(|variant| {
                    entry.covers(&entry.algorithm, &variant.name)
                        && entry.fields.iter().all(|field| variant.expected.contains_key(field))
                })
        };
        let unused = self.entry.iter().filter(|entry| !used(entry));
        unused.map(|entry| format!("{}: {}", entry.algorithm, entry.variants.join(", "))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[entry]]
        algorithm = "grpo"
        variants = ["verl_opo", "openrlhf_*"]
        reason = "another algorithm"

        [[entry]]
        algorithm = "grpo"
        variants = ["ragen"]
        fields = ["std"]
        reason = "not seen"
    "#;

    fn file(algorithm: &str, variants: &str) -> GoldenFile {
        let text = format!(
            r#"{{"schema": "accredit-golden/1", "algorithm": "{algorithm}", "case": "c", "input": "", "variants": [{variants}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn variant(name: &str, field: &str) -> String {
        format!(
            r#"{{"variant": "{name}", "provenance": {{}}, "settings": {{}}, "layout": "traj", "expected": {{"{field}": 1}}}}"#
        )
    }

    #[test]
    fn patterns_and_fields() {
        let list = Exceptions::parse(LIST).unwrap();
        assert_eq!(list.variant("grpo", "openrlhf_x"), Some("another algorithm"));
        assert_eq!(list.variant("grpo", "verl_opo2"), None);
        assert_eq!(list.variant("kl", "verl_opo"), None);
        assert_eq!(list.variant("grpo", "ragen"), None);
        assert_eq!(list.field("grpo", "ragen", "std"), Some("not seen"));
        assert_eq!(list.field("grpo", "ragen", "mean"), None);
        assert!(Exceptions::parse("[[entry]]\nalgorithm = \"a\"\nvariants = []\nreason = \"r\"").is_err());
    }

    #[test]
    fn an_entry_that_stands_for_nothing_is_found() {
        let list = Exceptions::parse(LIST).unwrap();
        let both = [variant("verl_opo", "x"), variant("ragen", "std")].join(",");
        assert!(list.unused(&[file("grpo", &both)]).is_empty());
        assert!(list.unused(&[file("kl", &variant("k1", "x"))]).is_empty());
        let other = [variant("verl", "x"), variant("ragen", "mean")].join(",");
        assert_eq!(list.unused(&[file("grpo", &other)]), ["grpo: verl_opo, openrlhf_*", "grpo: ragen"]);
    }

    #[test]
    fn the_checked_in_list_is_well_formed() {
        assert!(!Exceptions::checked_in().unwrap().entry.is_empty());
    }
}
