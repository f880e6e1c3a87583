//! Traces of RAGEN's Sudoku.

use serde_json::{Value, json};

use super::ragen::{Game, play};
use super::{Format, Line, TraceError};
use crate::Environment;

pub(super) const FORMAT: Format = Format {
    recognises: |first| first.has(&["grid", "difficulty", "solution", "seed"]),
    replay: |trace, _| play(&Sudoku, trace),
};

struct Sudoku;

impl Game for Sudoku {
    const NAME: &'static str = "sudoku";

    fn settings(&self, reset: &Line, observation: &str) -> Result<Value, TraceError> {
        // The first observation tells the view, and one with feedback the limit of steps.
        let (view, max_steps) = match observation.split_once("\nSteps: 0/") {
            Some((_, limit)) => ("with_feedback", limit.trim().parse().ok()),
            None if observation.starts_with('=') => ("detailed", None),
            None => ("simple", None),
        };
        Ok(json!({
            "size": reset.value("grid"),
            "difficulty": reset.value("difficulty"),
            "view": view,
            "max_steps": max_steps.unwrap_or(81_usize),
        }))
    }

    fn action(line: &Line) -> Result<String, TraceError> {
        let action = line.value("action").as_str().ok_or_else(|| line.misses("action", "a text"))?;
        Ok(action.to_owned())
    }

    fn compare_reset(reset: &Line, environment: &mut dyn Environment) -> Result<(), TraceError> {
        let answer = environment.task().answer.unwrap_or_default();
        let number = |word: &str| word.parse::<u64>().map_or(Value::Null, Value::from);
        let rows = answer.lines().map(|row| row.split(' ').map(number).collect::<Vec<_>>());
        reset.compare("solution", rows.collect::<Vec<_>>())
    }
}
