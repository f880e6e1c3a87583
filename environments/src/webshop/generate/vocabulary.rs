//! What generated products are made of: the words of `vocabulary.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All words.
#[derive(Deserialize)]
pub(super) struct Vocabulary {
    /// What names of brands and models are made of.
    pub(super) syllables: Vec<String>,
    /// What descriptions say beside attributes.
    pub(super) praise: Vec<String>,
    pub(super) kinds: Vec<Kind>,
    options: BTreeMap<String, Options>,
    attributes: BTreeMap<String, Attributes>,
}

/// A kind of product.
#[derive(Deserialize)]
pub(super) struct Kind {
    /// What people call it when they look for it.
    pub(super) query: String,
    /// What a title calls it.
    pub(super) noun: String,
    pub(super) category: String,
    pub(super) path: String,
    attributes: String,
    options: Vec<String>,
    /// The lowest and the highest price, in dollars.
    pub(super) price: (usize, usize),
}

/// Something to choose.
#[derive(Deserialize)]
pub(super) struct Options {
    pub(super) name: String,
    /// What products draw their values from.
    pub(super) values: Vec<String>,
}

/// Attributes that stand before a product's noun, that it has, and that it is for.
#[derive(Deserialize)]
pub(super) struct Attributes {
    pub(super) before: Vec<String>,
    pub(super) with: Vec<String>,
    pub(super) uses: Vec<String>,
}

impl Vocabulary {
    pub(super) fn read() -> Result<Self, String> {
        toml::from_str(include_str!("vocabulary.toml")).map_err(|error| format!("the generator's vocabulary: {error}"))
    }

    pub(super) fn attributes(&self, kind: &Kind) -> Result<&Attributes, String> {
        let missing = || format!("the generator's vocabulary: there is no `attributes.{}`", kind.attributes);
        self.attributes.get(&kind.attributes).ok_or_else(missing)
    }

    pub(super) fn options(&self, kind: &Kind) -> Result<Vec<&Options>, String> {
        let missing = |name: &str| format!("the generator's vocabulary: there is no `options.{name}`");
        kind.options.iter().map(|name| self.options.get(name).ok_or_else(|| missing(name))).collect()
    }
}
