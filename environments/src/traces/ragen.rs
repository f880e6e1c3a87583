//! What the traces of RAGEN's games have in common: a line per reset, with `t` 0, and a line per action.

use serde_json::{Map, Value};

use super::{Line, Trace, TraceError};
use crate::Environment;

/// How a trace of one game is read.
pub(super) trait Game {
    /// The environment's name.
    const NAME: &'static str;

    /// The settings of the episode that this reset begins, with this observation.
    fn settings(&self, reset: &Line, observation: &str) -> Result<Value, TraceError>;

    /// The action of a line, as the environment takes it.
    fn action(line: &Line) -> Result<String, TraceError>;

    /// Compares what only this game records at a reset. The environment may be played for that; it is reset again.
    fn compare_reset(_reset: &Line, _environment: &mut dyn Environment) -> Result<(), TraceError> {
        Ok(())
    }
}

/// Plays a trace and compares every line.
pub(super) fn play<G: Game>(game: &G, trace: &Trace) -> Result<(), TraceError> {
    let mut episode: Option<(Box<dyn Environment>, Option<String>)> = None;
    for line in &trace.lines {
        if line.whole("t")? == 0 {
            let observation = line.value("obs").as_str().ok_or_else(|| line.misses("obs", "a text"))?;
            let settings = match game.settings(line, observation)? {
                Value::Object(settings) => settings,
                _ => Map::new(),
            };
            let mut environment = line.place(crate::make(G::NAME, &settings))?;
            let seed = line.whole("seed")?;
            let turn = line.place(environment.reset(seed))?;
            line.compare("obs", turn.observation)?;
            G::compare_reset(line, environment.as_mut())?;
            let turn = line.place(environment.reset(seed))?;
            episode = Some((environment, turn.state));
            continue;
        }
        let Some((environment, state)) = &mut episode else { return Err(line.misses("t", "0 before any action")) };
        let outcome = line.place(environment.step(Some(&G::action(line)?), ""))?;
        line.compare("obs", outcome.turn.observation)?;
        line.compare("reward", outcome.reward)?;
        line.compare("done", outcome.terminal)?;
        line.compare("success", outcome.success)?;
        line.compare("action_is_valid", outcome.valid_action)?;
        line.compare("action_is_effective", outcome.turn.state != *state)?;
        *state = outcome.turn.state;
    }
    Ok(())
}

/// The name of an action that is recorded as its number, from 1.
pub(super) fn named(line: &Line, names: &[&str]) -> Result<String, TraceError> {
    let number = usize::try_from(line.whole("action")?).unwrap_or(usize::MAX);
    let name = number.checked_sub(1).and_then(|index| names.get(index));
    name.map(|name| (*name).to_owned()).ok_or_else(|| line.misses("action", "the number of an action, from 1"))
}

/// The view that an observation of a grid game is shown in.
pub(super) fn view(observation: &str) -> &'static str {
    match observation {
        text if text.starts_with("Coordinates:") => "grid_coord",
        text if text.starts_with("Board size:") => "coord",
        text if text.contains('\t') => "tabbed",
        _ => "grid",
    }
}
