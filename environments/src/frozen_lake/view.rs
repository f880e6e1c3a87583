//! How a map is shown, in RAGEN's texts.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::map::{Cell, Map};

/// What an observation holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// The map, a character per cell.
    #[default]
    Grid,
    /// The coordinates of everything but floor.
    Coord,
    /// Both.
    GridCoord,
}

/// The map as this view shows it with the agent at `place`.
pub(super) fn show(view: View, map: &Map, place: usize) -> String {
    match view {
        View::Grid => grid(map, place),
        View::Coord => coordinates(map, place),
        View::GridCoord => format!("Coordinates: \n{}\nGrid Map: \n{}", coordinates(map, place), grid(map, place)),
    }
}

/// What a reader of this view must know.
pub(super) fn legend(view: View) -> &'static str {
    match view {
        View::Grid => "P you, _ ice, O hole, G goal, X you in a hole, √ you on the goal.",
        View::Coord => "Coordinates are (row, column), counted from 0 at the top left; what is not listed is ice.",
        View::GridCoord => {
            "Coordinates are (row, column), counted from 0 at the top left. \
             In the grid: P you, _ ice, O hole, G goal, X you in a hole, √ you on the goal."
        }
    }
}

/// Rows of characters. Also the key of the state: it holds the map and the agent's place, and nothing else.
pub(super) fn grid(map: &Map, place: usize) -> String {
    // A character of three bytes at most once.
    let mut text = String::with_capacity(map.size * (map.size + 1) + 2);
    for (row, cells) in map.cells.chunks_exact(map.size).enumerate() {
        text.push_str(if row > 0 { "\n" } else { "" });
        text.extend(cells.iter().enumerate().map(|(column, cell)| match (cell, row * map.size + column == place) {
            (Cell::Floor, false) => '_',
            (Cell::Floor, true) => 'P',
            (Cell::Hole, false) => 'O',
            (Cell::Hole, true) => 'X',
            (Cell::Goal, false) => 'G',
            (Cell::Goal, true) => '√',
        }));
    }
    text
}

fn coordinates(map: &Map, place: usize) -> String {
    let mut text = format!("Board size: {0} rows x {0} cols (zero-indexed).", map.size);
    let mut point = |before: &str, place: usize| {
        let (row, column) = map.position(place);
        // Writing to a string cannot fail.
        let _ = write!(text, "{before}({row}, {column})");
    };
    point("\nStart: ", map.start);
    point("\nGoal: ", map.goal);
    let player = match map.cells[place] {
        Cell::Floor => "\nPlayer: ",
        Cell::Hole => "\nPlayer in hole: ",
        Cell::Goal => "\nPlayer on goal: ",
    };
    point(player, place);
    let mut before = "\nHoles: ";
    for hole in (0..map.cells.len()).filter(|i| map.cells[*i] == Cell::Hole) {
        point(before, hole);
        before = ", ";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_view_shows_the_agent_where_it_is() {
        let map = Map::gym();
        assert_eq!(show(View::Grid, &map, 0), "P___\n_O_O\n___O\nO__G");
        assert_eq!(show(View::Grid, &map, 5), "____\n_X_O\n___O\nO__G");
        assert_eq!(show(View::Grid, &map, 15), "____\n_O_O\n___O\nO__√");
        assert_eq!(
            show(View::Coord, &map, 6),
            "Board size: 4 rows x 4 cols (zero-indexed).\nStart: (0, 0)\nGoal: (3, 3)\nPlayer: (1, 2)\n\
             Holes: (1, 1), (1, 3), (2, 3), (3, 0)"
        );
    }
}
