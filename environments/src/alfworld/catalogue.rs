//! The games of a folder in the original layout: which ones there are, and how one is read.
//!
//! `FOLDER/SPLIT/<task>/<trial>/` holds `traj_data.json` and `game.tw-pddl`. As in the original, a game counts if its
//! path has neither `movable` nor `Sliced`, its type is asked for, its file is there and says that it is solvable. They
//! are sorted by path. A folder is looked through once; a game is read when it is played, and shared while it is.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::game::Game;
use super::goal::TaskType;
use super::{Misfit, Split, grammar, problem};
use crate::data;

/// What to do about a folder that is not there or not whole.
const HINT: &str = "the games come with the Python package `alfworld`: `alfworld-download` writes them to \
                    ~/.cache/alfworld/json_2.1.1, which is the folder to name here";

/// How deep below a split's folder games are looked for.
const DEPTH: usize = 8;

/// The games of one split.
#[derive(Debug)]
pub(super) struct Catalogue {
    games: Vec<PathBuf>,
    /// The games that are being played.
    played: Mutex<HashMap<usize, Weak<Game>>>,
}

type Key = (PathBuf, Split, Vec<TaskType>);

/// The catalogues that were made; a process has few of them.
static MADE: Mutex<Vec<(Key, Arc<Catalogue>)>> = Mutex::new(Vec::new());

/// The catalogue of these settings, which is made when it is first asked for. The error is a message.
pub(super) fn open(folder: &Path, split: Split, types: &[TaskType]) -> Result<Arc<Catalogue>, String> {
    let key: Key = (folder.to_owned(), split, types.to_owned());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, catalogue)) = made.iter().find(|(other, _)| *other == key) {
        return Ok(Arc::clone(catalogue));
    }
    let games = find(&split_folder(folder, split)?, types)?;
    let catalogue = Arc::new(Catalogue { games, played: Mutex::default() });
    made.push((key, Arc::clone(&catalogue)));
    Ok(catalogue)
}

impl Catalogue {
    pub(super) fn len(&self) -> usize {
        self.games.len()
    }

    /// The game of a number, which goes round. The error is a message.
    pub(super) fn game(&self, number: u64) -> Result<Arc<Game>, String> {
        let index = (number % self.games.len() as u64) as usize;
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(game) = played.get(&index).and_then(Weak::upgrade) {
            return Ok(game);
        }
        let game = Arc::new(read_game(&self.games[index])?);
        played.retain(|_, game| game.strong_count() > 0);
        played.insert(index, Arc::downgrade(&game));
        Ok(game)
    }
}

/// The folder of a split: in the folder that was named, or in one below it that holds a version of the data.
fn split_folder(folder: &Path, split: Split) -> Result<PathBuf, String> {
    data::check_folder(folder, HINT)?;
    let candidates = [folder.to_owned(), folder.join("json_2.1.1")];
    let found = candidates.into_iter().map(|folder| folder.join(split.folder())).find(|folder| folder.is_dir());
    found.ok_or_else(|| format!("{} has no folder `{}` of games; {HINT}", folder.display(), split.folder()))
}

/// The games below a folder.
fn find(folder: &Path, types: &[TaskType]) -> Result<Vec<PathBuf>, String> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Trajectory {
        task_type: String,
    }
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Head {
        solvable: Option<bool>,
        #[expect(dead_code, reason = "a game file has it, which is all that is asked here")]
        pddl_problem: IgnoredAny,
    }

    let (mut games, mut left_out) = (Vec::new(), BTreeMap::new());
    let mut leave_out = |why: &'static str, folder: &Path| {
        left_out.entry(why).or_insert_with(|| (0, folder.display().to_string())).0 += 1;
    };
    let mut folders = Vec::new();
    walk(folder, DEPTH, &mut folders)?;
    for folder in folders {
        let path = folder.to_string_lossy();
        if path.contains("movable") || path.contains("Sliced") {
            leave_out("with a movable receptacle or a sliced object", &folder);
            continue;
        }
        let trajectory: Trajectory = read_json(&folder.join("traj_data.json"), "`task_type`")?;
        let task_type = serde_json::from_value::<TaskType>(Value::String(trajectory.task_type));
        if !task_type.is_ok_and(|task_type| types.contains(&task_type)) {
            leave_out("of another task type", &folder);
            continue;
        }
        let game = folder.join("game.tw-pddl");
        if !data::is_there(&game) {
            leave_out("without a file game.tw-pddl", &folder);
            continue;
        }
        let head: Head = read_json(&game, "`pddl_problem` and `solvable`")?;
        match head.solvable {
            Some(true) => games.push(game),
            Some(false) => leave_out("that cannot be solved", &folder),
            None => leave_out("of which it is not known whether they can be solved", &folder),
        }
    }
    games.sort_unstable();
    if games.is_empty() {
        let why: Vec<String> =
            left_out.iter().map(|(why, (count, first))| format!("{count} {why} (the first is {first})")).collect();
        let why = if why.is_empty() { "no traj_data.json is there".to_owned() } else { why.join(", ") };
        return Err(format!("no game counts in {}: {why}; {HINT}", folder.display()));
    }
    Ok(games)
}

/// Collects the folders that hold a `traj_data.json`.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot read the folder {}: {error}; {HINT}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() == "traj_data.json" {
            found.push(folder.to_owned());
        } else if depth > 0 && entry.file_type().map_err(failed)?.is_dir() {
            walk(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

/// Reads a JSON file. `expected` says what should be in it.
fn read_json<T: for<'a> Deserialize<'a>>(path: &Path, expected: &str) -> Result<T, String> {
    let shown = path.display();
    let text = data::read(path, HINT)?;
    serde_json::from_str(&text).map_err(|error| {
        let what = if error.is_eof() { "the file is cut" } else { "not the file that was expected" };
        format!("{shown}: {what} (JSON with {expected}): {error}; {HINT}")
    })
}

/// Reads a game: its problem, and the wording of its grammar.
pub(super) fn read_game(path: &Path) -> Result<Game, String> {
    #[derive(Deserialize)]
    struct File {
        pddl_problem: String,
        grammar: String,
    }
    let file: File = read_json(path, "`pddl_problem` and `grammar`")?;
    let place = |part: &str, Misfit { line, message }: Misfit| {
        let line = if line == 0 { String::new() } else { format!(", line {line}") };
        format!("{}: `{part}`{line}: {message}; {HINT}", path.display())
    };
    let (wording, task) = grammar::read(&file.grammar).map_err(|misfit| place("grammar", misfit))?;
    problem::read(&file.pddl_problem, Arc::new(wording), task).map_err(|misfit| place("pddl_problem", misfit))
}
