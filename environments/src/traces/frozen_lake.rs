//! Traces of RAGEN's FrozenLake.

use serde_json::{Value, json};

use super::ragen::{Game, named, play, view};
use super::{Format, Line, TraceError};

pub(super) const FORMAT: Format = Format {
    recognises: |first| first.has(&["size", "p", "success_rate", "seed"]),
    replay: |trace, _| play(&FrozenLake, trace),
};

struct FrozenLake;

impl Game for FrozenLake {
    const NAME: &'static str = "frozen-lake";

    fn settings(&self, reset: &Line, observation: &str) -> Result<Value, TraceError> {
        Ok(json!({
            "size": reset.value("size"),
            "p_frozen": reset.value("p"),
            "success_rate": reset.value("success_rate"),
            "view": view(observation),
        }))
    }

    fn action(line: &Line) -> Result<String, TraceError> {
        named(line, &["Left", "Down", "Right", "Up"])
    }
}
