//! Traces of ALFWorld: a line per step, with `step` 0 for what an episode begins with. The games are beside the trace,
//! at the path that each line names or in an archive `*.tar.gz` that has it; of a game whose file `game.tw-pddl` is
//! missing, `initial_state.pddl` is enough.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;

use super::{Format, Line, Trace, TraceError};
use crate::alfworld::{self, OneGame};
use crate::{Environment, EnvironmentError};

pub(super) const FORMAT: Format =
    Format { recognises: |first| first.has(&["game", "step", "obs", "admissible", "won"]), replay: play };

fn play(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut episode: Option<Box<dyn Environment>> = None;
    for line in &trace.lines {
        let (turn, done) = if line.whole("step")? == 0 {
            let mut environment = line.place(begin(line, folder)?.map_err(EnvironmentError::Failed))?;
            let turn = line.place(environment.reset(0))?;
            episode = Some(environment);
            (turn, false)
        } else {
            let environment = episode.as_mut().ok_or_else(|| line.misses("step", "0 before any action"))?;
            let action = line.value("action").as_str().ok_or_else(|| line.misses("action", "a text"))?;
            let outcome = line.place(environment.step(Some(action), ""))?;
            line.compare("won", outcome.success)?;
            line.compare("score", outcome.reward)?;
            line.compare("done", outcome.terminal)?;
            (outcome.turn, outcome.terminal)
        };
        line.compare("obs", turn.observation)?;
        // The original lists commands even when nothing can be done any more.
        if !done {
            line.compare("admissible", turn.actions)?;
        }
    }
    Ok(())
}

/// The environment with the game of a line that begins an episode, or why there is none.
fn begin(line: &Line, folder: &Path) -> Result<Result<Box<dyn Environment>, String>, TraceError> {
    let name = line.value("game").as_str().ok_or_else(|| line.misses("game", "a path"))?;
    let observation = line.value("obs").as_str().ok_or_else(|| line.misses("obs", "a text"))?;
    let game = folder.join(name);
    if game.is_file() {
        return Ok(alfworld::with_one_game(OneGame::File(&game)));
    }
    let problem = Path::new(name).with_file_name("initial_state.pddl");
    let beside = folder.join(&problem);
    let text = if beside.is_file() { Some(fs::read_to_string(beside)?) } else { from_archives(folder, &problem)? };
    let text = text.ok_or_else(|| line.misses("game", "the path of a game beside the trace or in an archive there"))?;
    // The task is the last paragraph of the first text.
    let task = observation.rsplit("\n\n").next().unwrap_or_default();
    Ok(alfworld::with_one_game(OneGame::Problem { text: &text, task }))
}

/// A file of one of the folder's archives.
fn from_archives(folder: &Path, name: &Path) -> Result<Option<String>, TraceError> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(".tar.gz") {
            continue;
        }
        let mut archive = tar::Archive::new(GzDecoder::new(io::BufReader::new(fs::File::open(&path)?)));
        for entry in archive.entries()? {
            let mut entry = entry?;
            let found = entry.path()?;
            if found.strip_prefix(".").unwrap_or(&found) == name {
                let mut text = String::new();
                entry.read_to_string(&mut text)?;
                return Ok(Some(text));
            }
        }
    }
    Ok(None)
}
