//! Traces of RAGEN's Sokoban, and of verl-agent's, which has its rooms.

use serde_json::{Value, json};

use super::ragen::{Game, named, play, view};
use super::{Format, Line, TraceError};
use crate::Environment;

pub(super) const FORMAT: Format = Format {
    recognises: |first| first.has(&["room_fixed", "room_state", "seed"]),
    replay: |trace, _| {
        if trace.lines[0].has(&["search_depth"]) {
            return play(&Sokoban { search_depth: trace.lines[0].whole("search_depth")? }, trace);
        }
        // A trace need not say how deep the generator searched: it is one of the depths that RAGEN and verl-agent use,
        // the one with which the replay comes farthest.
        let mut farthest = Ok(());
        for search_depth in [300, 30, 10, 100] {
            match play(&Sokoban { search_depth }, trace) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    if farthest.as_ref().err().is_none_or(|before: &TraceError| before.line() < error.line()) {
                        farthest = Err(error);
                    }
                }
            }
        }
        farthest
    },
};

struct Sokoban {
    search_depth: u64,
}

impl Game for Sokoban {
    const NAME: &'static str = "sokoban";

    fn settings(&self, reset: &Line, observation: &str) -> Result<Value, TraceError> {
        let room = || reset.value("room_state").as_array().into_iter().flatten();
        let is_box = |cell: &&Value| matches!(cell.as_u64(), Some(3 | 4));
        Ok(json!({
            "rows": room().count(),
            "cols": room().next().and_then(Value::as_array).map_or(0, Vec::len),
            "boxes": room().flat_map(|row| row.as_array().into_iter().flatten()).filter(is_box).count(),
            "search_depth": self.search_depth,
            "view": view(observation),
        }))
    }

    fn action(line: &Line) -> Result<String, TraceError> {
        named(line, &["Up", "Down", "Left", "Right"])
    }

    /// The fewest moves that solve the room, where they were recorded, are those of the expert.
    fn compare_reset(reset: &Line, environment: &mut dyn Environment) -> Result<(), TraceError> {
        if reset.value("solution_len").is_null() {
            return Ok(());
        }
        let mut moves = 0;
        while let Some(demonstration) = environment.expert() {
            reset.place(environment.step(Some(&demonstration.action), ""))?;
            moves += 1;
        }
        reset.compare("solution_len", moves)
    }
}
