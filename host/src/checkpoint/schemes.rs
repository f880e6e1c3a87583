//! What schemes remember, in a checkpoint: all schemes of the run are listed, also those that remember nothing.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{credit::Pipeline, plugin::Scheme};

/// A scheme of the run that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// What the run calls it.
    label: String,
    /// What its plugin calls it.
    scheme: String,
    /// Its state: bytes in hexadecimal, none where it has no state.
    state: String,
}

/// What became of the state of a scheme when a run went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on with its state, or has none.
    Kept,
    /// It was not there before, and starts without state.
    New,
    /// Another scheme had its name; it starts without state.
    Replaced {
        /// What the other one's plugin calls it.
        before: String,
        /// Whether that one had a state, which is dropped.
        state: bool,
    },
    /// The configuration does not name it any more.
    Gone {
        /// Whether it had a state, which is dropped.
        state: bool,
    },
}

/// Asks all schemes for their states.
pub fn save(pipeline: &mut Pipeline) -> Result<Vec<Saved>> {
    let saved = pipeline.schemes_mut().map(|scheme| {
        let state = to_hex(&scheme.save()?);
        Ok(Saved { label: scheme.label().to_owned(), scheme: scheme.name().to_owned(), state })
    });
    saved.collect()
}

/// Gives schemes their states back, each to the one that is called so and is the same. A scheme that cannot take its own
/// state is an error: the run would go on as another one. Says what became of each.
pub fn restore(saved: &[Saved], pipeline: &mut Pipeline) -> Result<Vec<(String, Fate)>> {
    let mut fates = Vec::new();
    for scheme in pipeline.schemes_mut() {
        let same = |before: &&Saved| before.label == scheme.label() && before.scheme == scheme.name();
        let named = |before: &&Saved| before.label == scheme.label();
        let fate = match (saved.iter().find(same), saved.iter().find(named)) {
            (Some(before), _) => {
                restore_one(scheme, &before.state)?;
                Fate::Kept
            }
            (None, Some(before)) => Fate::Replaced { before: before.scheme.clone(), state: !before.state.is_empty() },
            (None, None) => Fate::New,
        };
        fates.push((scheme.label().to_owned(), fate));
    }
    let gone = saved.iter().filter(|before| pipeline.schemes().all(|scheme| scheme.label() != before.label));
    fates.extend(gone.map(|before| (before.label.clone(), Fate::Gone { state: !before.state.is_empty() })));
    Ok(fates)
}

fn restore_one(scheme: &mut Scheme, state: &str) -> Result<()> {
    if state.is_empty() {
        return Ok(());
    }
    let label = scheme.label().to_owned();
    let bytes = from_hex(state).with_context(|| format!("the state of scheme `{label}` is broken"))?;
    scheme.restore(&bytes).with_context(|| {
        format!("scheme `{label}` cannot go on with its state; under another `name` in `[[credit]]` it starts without")
    })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        bail!("not hexadecimal");
    }
    (0..text.len() / 2).map(|i| Ok(u8::from_str_radix(&text[2 * i..2 * i + 2], 16)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways_and_refuses_the_rest() {
        assert_eq!(from_hex(&to_hex(&[0, 255, 16])).unwrap(), [0, 255, 16]);
        assert!(from_hex("0g").is_err() && from_hex("0").is_err() && from_hex("é").is_err());
    }
}
