//! Levels from files in the format of Boxoban: text files of levels, each a line that begins with `;`, and rows of
//! `#` wall, space, `.` target, `$` box, `@` player, `*` box on a target, `+` player on a target.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::board::{Board, Cell};
use crate::data;

/// Which levels of a folder are played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Split {
    /// Those of its folder `train`, but for levels that are also in `valid` or `test`.
    #[default]
    Train,
    /// Those of its folder `valid`.
    Valid,
    /// Those of its folder `test`.
    Test,
    /// Those of the files in the folder itself.
    All,
}

impl Split {
    fn folder(self, levels: &Path) -> PathBuf {
        match self {
            Self::Train => levels.join("train"),
            Self::Valid => levels.join("valid"),
            Self::Test => levels.join("test"),
            Self::All => levels.to_path_buf(),
        }
    }
}

/// Levels that were read, by their folder and split.
type Loaded = HashMap<(PathBuf, Split), Arc<[Board]>>;

/// The levels of a folder. They are read once and shared by all environments; what is wrong with them is told with its
/// place.
pub(super) fn load(folder: &Path, split: Split) -> Result<Arc<[Board]>, String> {
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    let name = (folder.to_path_buf(), split);
    if let Some(levels) = loaded.get(&name) {
        return Ok(Arc::clone(levels));
    }
    let mut levels = read(&split.folder(folder))?;
    if split == Split::Train {
        let mut held_out = FxHashSet::default();
        for other in [Split::Valid, Split::Test].map(|split| split.folder(folder)).iter().filter(|path| path.is_dir()) {
            held_out.extend(read(other)?);
        }
        levels.retain(|level| !held_out.contains(level));
        if levels.is_empty() {
            return Err(format!("every level of {} is also a held-out one", split.folder(folder).display()));
        }
    }
    let levels: Arc<[Board]> = levels.into();
    loaded.insert(name, Arc::clone(&levels));
    Ok(levels)
}

/// All levels of the `*.txt` of a folder, in the order of the files' names.
fn read(folder: &Path) -> Result<Vec<Board>, String> {
    const HINT: &str = "Boxoban's folders `medium` and `unfiltered` have folders `train` and `valid` of *.txt files; \
                        for a folder of *.txt files set split = \"all\"";
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let entries = fs::read_dir(folder).map_err(|error| format!("{}; {HINT}", unreadable(folder, &error)))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("there is no *.txt in {}; {HINT}", folder.display()));
    }
    files.sort();
    let mut levels = Vec::new();
    for file in &files {
        let text = data::read(file, HINT)?;
        let found = parse(&text, &mut levels).map_err(|error| format!("{}, {error}", file.display()))?;
        if found == 0 {
            return Err(format!(
                "{} has no level: a level is rows of `#`, space, `.`, `$`, `@`, `*`, `+`",
                file.display()
            ));
        }
    }
    Ok(levels)
}

/// Adds the levels of a text, and gives their number, or the line that is wrong and why.
fn parse(text: &str, levels: &mut Vec<Board>) -> Result<usize, String> {
    let before = levels.len();
    let mut cells = Vec::new();
    let (mut cols, mut start) = (0, 0);
    // A last line without a level ends the last level.
    for (index, line) in text.lines().chain([""]).enumerate() {
        let number = index + 1;
        let is_row = !line.trim().is_empty() && !line.starts_with(';');
        if is_row {
            if cells.is_empty() {
                (cols, start) = (line.chars().count(), number);
            }
            let width = line.chars().count();
            if width != cols {
                return Err(format!(
                    "line {number}: the row has {width} cells, the level's first row in line {start} has {cols}"
                ));
            }
            for (place, symbol) in line.chars().enumerate() {
                let cell = cell(symbol).ok_or_else(|| {
                    format!(
                        "line {number}, column {}: {symbol:?} is no cell; there are `#` wall, space, `.` target, `$` box, \
                         `@` player, `*` box on a target, `+` player on a target",
                        place + 1
                    )
                })?;
                cells.push(cell);
            }
        } else if !cells.is_empty() {
            let level = Board::new(cols, std::mem::take(&mut cells));
            levels.push(level.map_err(|error| format!("line {start}: the level that begins here is none: {error}"))?);
        }
    }
    Ok(levels.len() - before)
}

fn cell(symbol: char) -> Option<Cell> {
    Some(match symbol {
        '#' => Cell::Wall,
        ' ' => Cell::Floor,
        '.' => Cell::Target,
        '*' => Cell::BoxOnTarget,
        '$' => Cell::Box,
        '@' => Cell::Player,
        '+' => Cell::PlayerOnTarget,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sokoban::view::state;

    #[test]
    fn levels_are_read_with_headers_and_blank_lines_or_without() {
        let text = "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#+ $ #\n# *  #\n######\n;\r\n#####\r\n#.$@#\r\n#####";
        let mut levels = Vec::new();
        assert_eq!(parse(text, &mut levels), Ok(3));
        let states: Vec<String> = levels.iter().map(state).collect();
        assert_eq!(states[0], "#####\n#@$.#\n#####\n");
        assert_eq!(states[1], "######\n#+ $ #\n# *  #\n######\n");
        assert_eq!(states[2], "#####\n#.$@#\n#####\n");
        assert_eq!((levels[1].player, levels[1].loose), (7, 1));
    }

    #[test]
    fn what_is_wrong_with_a_level_is_told_with_its_line() {
        let check = |text: &str, expected: &str| {
            let error = parse(text, &mut Vec::new()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("; 0\n#####\n#@$.#\n####\n", "line 4: the row has 4 cells, the level's first row in line 2 has 5");
        check("; 0\n#####\n#@$x#\n#####\n", "line 3, column 4: 'x' is no cell");
        check("#####\n#\t$.#\n#####\n", "line 2, column 2: '\\t' is no cell");
        check("\n#####\n# $.#\n#####\n", "line 2: the level that begins here is none: it has 0 players");
        check("#####\n#@@$.#\n#####\n", "line 2: the row has 6 cells");
        check("#####\n#@ .#\n#####\n", "it has 0 boxes; there must be 1 to 8");
        check("######\n#@$$.#\n######\n", "it has 2 boxes and 1 targets");
        check("######\n#@$ .\n######\n", "line 2: the row has 5 cells");
        check("######\n#@$. #\n##### \n", "it is not closed");
        check("#####\n#@ *#\n#####\n", "it is solved from the beginning");
        check("###\n", "it has 1 rows and 3 columns; both must be 3 to 32");
        check(&format!("{}\n", "#".repeat(100)), "1 rows and 100 columns");
        let many = format!("{}\n#@{}{}#\n{}\n", "#".repeat(21), "$".repeat(9), ".".repeat(9), "#".repeat(21));
        check(&many, "it has 9 boxes");
        assert_eq!(parse("; only a header\n\n", &mut Vec::new()), Ok(0));
    }

    #[test]
    fn training_levels_are_not_among_the_held_out_ones() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let (first, second) = ("; 0\n#####\n#@$.#\n#####\n\n", "; 1\n#####\n#.$@#\n#####\n\n");
        let third = "; 0\n#####\n#.$@#\n#   #\n#####\n";
        write("train/001.txt", third);
        write("train/000.txt", &format!("{first}{second}"));
        write("valid/000.txt", second);
        let states = |split| load(folder.path(), split).map(|levels| levels.iter().map(state).collect::<Vec<_>>());
        let train = states(Split::Train).unwrap();
        assert_eq!(train, ["#####\n#@$.#\n#####\n", "#####\n#.$@#\n#   #\n#####\n"]);
        assert_eq!(states(Split::Valid).unwrap(), ["#####\n#.$@#\n#####\n"]);
        let first = load(folder.path(), Split::Train).unwrap();
        assert!(Arc::ptr_eq(&first, &load(folder.path(), Split::Train).unwrap()));
        // A mistake is told each time, until it is mended.
        let error = states(Split::All).unwrap_err();
        assert!(error.starts_with("there is no *.txt in ") && error.ends_with("set split = \"all\""), "{error}");
        write("all.txt", "; 0\n");
        assert!(states(Split::All).unwrap_err().contains("all.txt has no level"));
        write("all.txt", "; 0\n####\n");
        assert!(states(Split::All).unwrap_err().contains("all.txt, line 2: the level that begins here is none"));
        write("all.txt", second);
        assert_eq!(states(Split::All).unwrap().len(), 1);
        fs::write(folder.path().join("bad.txt"), [0xFF]).unwrap();
        assert!(states(Split::Test).unwrap_err().contains("cannot read"));
    }

    #[test]
    fn a_train_folder_that_is_all_held_out_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for split in ["train", "valid"] {
            fs::create_dir(folder.path().join(split)).unwrap();
            fs::write(folder.path().join(split).join("000.txt"), "#####\n#@$.#\n#####\n").unwrap();
        }
        assert!(load(folder.path(), Split::Train).unwrap_err().contains("is also a held-out one"));
    }
}
