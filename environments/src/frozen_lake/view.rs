//! How a map is shown, in RAGEN's texts.

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
    let symbol = |index: usize| match (map.cells[index], index == place) {
        (Cell::Floor, false) => '_',
        (Cell::Floor, true) => 'P',
        (Cell::Hole, false) => 'O',
        (Cell::Hole, true) => 'X',
        (Cell::Goal, false) => 'G',
        (Cell::Goal, true) => '√',
    };
    let rows = (0..map.size).map(|row| (0..map.size).map(|column| symbol(row * map.size + column)).collect());
    rows.collect::<Vec<String>>().join("\n")
}

fn coordinates(map: &Map, place: usize) -> String {
    let point = |place: usize| {
        let (row, column) = map.position(place);
        format!("({row}, {column})")
    };
    let player = match map.cells[place] {
        Cell::Floor => "Player",
        Cell::Hole => "Player in hole",
        Cell::Goal => "Player on goal",
    };
    let mut lines = vec![
        format!("Board size: {0} rows x {0} cols (zero-indexed).", map.size),
        format!("Start: {}", point(map.start)),
        format!("Goal: {}", point(map.goal)),
        format!("{player}: {}", point(place)),
    ];
    let holes: Vec<String> = (0..map.cells.len()).filter(|i| map.cells[*i] == Cell::Hole).map(point).collect();
    if !holes.is_empty() {
        lines.push(format!("Holes: {}", holes.join(", ")));
    }
    lines.join("\n")
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
