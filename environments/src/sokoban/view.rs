//! How a board is shown, in RAGEN's and verl-agent's texts.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::board::{Board, Cell};

/// What an observation holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// The board, a character per cell.
    #[default]
    Grid,
    /// The coordinates of targets, boxes and player; walls are not told, as in RAGEN.
    Coord,
    /// Both.
    GridCoord,
    /// The board as verl-agent shows it: every character between a space, and a space and a tab.
    Tabbed,
}

/// The characters for the seven kinds of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Symbols {
    /// `#` wall, `_` floor, `O` target, `√` box on target, `X` box, `P` player, `S` player on target.
    #[default]
    Signs,
    /// `W` wall, `.` floor, `G` target, `C` box on target, `B` box, `A` player, `@` player on target: RAGEN's other
    /// vocabulary.
    Letters,
}

impl Symbols {
    /// By kind of cell.
    fn table(self) -> [char; 7] {
        match self {
            Self::Signs => ['#', '_', 'O', '√', 'X', 'P', 'S'],
            Self::Letters => ['W', '.', 'G', 'C', 'B', 'A', '@'],
        }
    }
}

/// The board as this view shows it.
pub(super) fn show(view: View, symbols: Symbols, board: &Board) -> String {
    // A character of three bytes, a space on each side and a tab, for every cell.
    let mut text = String::with_capacity(match view {
        View::Grid => board.cells.len() + 32,
        View::Coord => 128,
        View::GridCoord => board.cells.len() + 192,
        View::Tabbed => 4 * board.cells.len() + 48,
    });
    match view {
        View::Grid => grid(&mut text, symbols, board),
        View::Coord => coordinates(&mut text, board),
        View::GridCoord => {
            text.push_str("Coordinates: \n");
            coordinates(&mut text, board);
            text.push_str("\nGrid Map: \n");
            grid(&mut text, symbols, board);
        }
        View::Tabbed => {
            let table = symbols.table();
            for (row, cells) in board.cells.chunks_exact(board.cols).enumerate() {
                text.push_str(if row > 0 { "\n" } else { "" });
                for cell in cells {
                    text.push(' ');
                    text.push(table[*cell as usize]);
                    text.push_str(" \t");
                }
            }
        }
    }
    text
}

/// What a reader of this view must know.
pub(super) fn legend(view: View, symbols: Symbols) -> String {
    let [wall, floor, target, box_on_target, loose_box, player, player_on_target] = symbols.table();
    let grid = format!(
        "{wall} wall, {floor} floor, {target} target, {loose_box} box, {box_on_target} box on a target, {player} you, \
         {player_on_target} you on a target."
    );
    let coordinates = "Coordinates are (row, column), counted from 0 at the top left";
    match view {
        View::Grid | View::Tabbed => grid,
        View::Coord => format!("{coordinates}; what is not listed is wall or floor."),
        View::GridCoord => format!("{coordinates}. In the grid: {grid}"),
    }
}

/// The key of the state: the board in the letters of the usual level files, whatever the view is.
pub(super) fn state(board: &Board) -> String {
    let mut text = String::with_capacity(board.cells.len() + board.cells.len() / board.cols);
    for cells in board.cells.chunks_exact(board.cols) {
        text.extend(cells.iter().map(|cell| match cell {
            Cell::Wall => '#',
            Cell::Floor => ' ',
            Cell::Target => '.',
            Cell::BoxOnTarget => '*',
            Cell::Box => '$',
            Cell::Player => '@',
            Cell::PlayerOnTarget => '+',
        }));
        text.push('\n');
    }
    text
}

fn grid(text: &mut String, symbols: Symbols, board: &Board) {
    let table = symbols.table();
    for (row, cells) in board.cells.chunks_exact(board.cols).enumerate() {
        text.push_str(if row > 0 { "\n" } else { "" });
        text.extend(cells.iter().map(|cell| table[*cell as usize]));
    }
}

fn coordinates(text: &mut String, board: &Board) {
    const LABELS: [(&str, &[Cell]); 5] = [
        ("Targets", &[Cell::Target, Cell::BoxOnTarget, Cell::PlayerOnTarget]),
        ("Boxes", &[Cell::Box]),
        ("Boxes on target", &[Cell::BoxOnTarget]),
        ("Player", &[Cell::Player]),
        ("Player on target", &[Cell::PlayerOnTarget]),
    ];
    let rows = board.cells.len() / board.cols;
    // Writing to a string cannot fail.
    let _ = write!(text, "Board size: {rows} rows x {} cols (zero-indexed).", board.cols);
    for (label, kinds) in LABELS {
        let places = (0..board.cells.len()).filter(|place| kinds.contains(&board.cells[*place]));
        for (index, place) in places.enumerate() {
            let (row, col) = (place / board.cols, place % board.cols);
            let _ = match index {
                0 => write!(text, "\n{label}: ({row}, {col})"),
                _ => write!(text, ", ({row}, {col})"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_view_shows_the_same_board() {
        use Cell::{Box, BoxOnTarget, Floor, Player, PlayerOnTarget, Target, Wall};
        let mut cells = vec![Wall; 15];
        cells[6..9].copy_from_slice(&[PlayerOnTarget, BoxOnTarget, Box]);
        let board = Board { cols: 5, cells, player: 6, loose: 1 };
        assert_eq!(show(View::Grid, Symbols::Signs, &board), "#####\n#S√X#\n#####");
        assert_eq!(show(View::Grid, Symbols::Letters, &board), "WWWWW\nW@CBW\nWWWWW");
        let coord = "Board size: 3 rows x 5 cols (zero-indexed).\nTargets: (1, 1), (1, 2)\nBoxes: (1, 3)\n\
                     Boxes on target: (1, 2)\nPlayer on target: (1, 1)";
        assert_eq!(show(View::Coord, Symbols::Signs, &board), coord);
        assert_eq!(
            show(View::GridCoord, Symbols::Signs, &board),
            format!("Coordinates: \n{coord}\nGrid Map: \n#####\n#S√X#\n#####")
        );
        assert_eq!(state(&board), "#####\n#+*$#\n#####\n");
        let board = Board { cols: 3, cells: vec![Player, Floor, Target], player: 0, loose: 0 };
        assert_eq!(show(View::Tabbed, Symbols::Signs, &board), " P \t _ \t O \t");
        assert_eq!(show(View::Tabbed, Symbols::Letters, &board), " A \t . \t G \t");
    }
}
