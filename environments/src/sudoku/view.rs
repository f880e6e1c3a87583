//! How a grid is shown, in RAGEN's texts.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::{Grid, digits, each};

/// What an observation holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// The numbers only.
    Simple,
    /// The grid with its given numbers marked, and what the last action did.
    Detailed,
    /// That, the numbers that fit once no more than ten cells are empty, how many cells are filled, and the steps.
    #[default]
    WithFeedback,
}

/// How many cells may be empty for their numbers to be told.
const LISTED: usize = 10;

/// What is to be shown.
pub(super) struct Shown<'a> {
    pub(super) given: &'a Grid,
    pub(super) grid: &'a Grid,
    /// What the last action did; empty before the first.
    pub(super) feedback: &'a str,
    pub(super) steps: usize,
    /// 0 for no limit.
    pub(super) max_steps: usize,
}

/// The grid as this view shows it.
pub(super) fn show(view: View, shown: &Shown, valid_numbers: bool) -> String {
    let mut text = String::with_capacity(512 + 5 * shown.grid.cells().len());
    if view == View::Simple {
        simple(&mut text, shown.grid);
        return text;
    }
    let rule = "==================================================";
    for part in [rule, "\nSUDOKU PUZZLE\n", rule, "\n"] {
        text.push_str(part);
    }
    marked(&mut text, shown);
    text.push_str("\n\nLegend: [N]=initial cell, N=user-placed, *N*=conflict, .=empty");
    if !shown.feedback.is_empty() {
        text.push_str("\n\n");
        text.push_str(shown.feedback);
    }
    if view == View::Detailed {
        return text;
    }
    let Shown { given, grid, steps, max_steps, .. } = shown;
    if valid_numbers && (1..=LISTED).contains(&grid.empty()) {
        text.push_str("\n\n💡 VALID NUMBERS FOR EMPTY CELLS:");
        for cell in (0..grid.cells().len()).filter(|cell| grid.cells()[*cell] == 0) {
            if grid.candidates(cell) != 0 {
                text.push_str("\n  - ");
                point(&mut text, grid, cell);
                text.push_str(": ");
                list(&mut text, grid, cell);
            }
        }
    }
    let total = grid.cells().len();
    let (filled, initial) = (total - grid.empty(), total - given.empty());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n\nProgress: {filled}/{total} cells filled ({initial} initial, {} placed)\nSteps: {steps}",
        filled - initial
    );
    if *max_steps > 0 {
        let _ = write!(text, "/{max_steps}");
    }
    text
}

/// Row and column of a cell, from 1.
pub(super) fn point(text: &mut String, grid: &Grid, cell: usize) {
    let (row, col) = grid.position(cell);
    for part in ["(", digits(row + 1), ",", digits(col + 1), ")"] {
        text.push_str(part);
    }
}

/// The numbers that may be put into a cell, as Python shows a list.
pub(super) fn list(text: &mut String, grid: &Grid, cell: usize) {
    text.push('[');
    for (index, number) in each(grid.candidates(cell)).enumerate() {
        text.push_str(if index > 0 { ", " } else { "" });
        text.push_str(digits(number.into()));
    }
    text.push(']');
}

/// Rows of numbers between bars and rules, and dots for empty cells.
fn simple(text: &mut String, grid: &Grid) {
    rows(text, grid, 2, |text, _, number| {
        text.push_str(if number == 0 { "." } else { digits(number.into()) });
        text.push(' ');
    });
}

/// The same with the given numbers in brackets. Numbers that conflict would stand between stars; there are none, since
/// the environment takes no such number.
fn marked(text: &mut String, shown: &Shown) {
    rows(text, shown.grid, 3, |text, cell, number| {
        let (before, after) = if shown.given.cells()[cell] == 0 { (" ", " ") } else { ("[", "]") };
        let number = if number == 0 { "." } else { digits(number.into()) };
        for part in [before, number, after] {
            text.push_str(part);
        }
    });
}

fn rows(text: &mut String, grid: &Grid, width: usize, write_cell: impl Fn(&mut String, usize, u8)) {
    for (row, numbers) in grid.cells().chunks_exact(grid.size).enumerate() {
        if row > 0 {
            text.push('\n');
            if row % grid.side == 0 {
                text.extend(std::iter::repeat_n('-', grid.size * width + grid.side - 1));
                text.push('\n');
            }
        }
        for (col, number) in numbers.iter().enumerate() {
            if col > 0 && col % grid.side == 0 {
                text.push_str("| ");
            }
            write_cell(text, row * grid.size + col, *number);
        }
        text.truncate(text.trim_end_matches(' ').len());
    }
}

/// A character per cell, a line per row: the key of the state.
pub(super) fn state(grid: &Grid) -> String {
    let mut text = String::with_capacity(grid.cells().len() + grid.size);
    for numbers in grid.cells().chunks_exact(grid.size) {
        text.extend(numbers.iter().map(|number| match number {
            0 => '.',
            1..=9 => char::from(b'0' + number),
            _ => char::from(b'A' + number - 10),
        }));
        text.push('\n');
    }
    text
}

/// Rows of numbers, with nothing else: the answer.
pub(super) fn answer(solution: &Grid) -> String {
    let row = |numbers: &[u8]| numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
    solution.cells().chunks_exact(solution.size).map(row).collect::<Vec<_>>().join("\n")
}
