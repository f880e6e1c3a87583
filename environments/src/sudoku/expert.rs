//! The scripted expert: it fills in the solution, a cell that can be told at sight first.

use super::action::Placement;
use super::grid::{Grid, Numbers, each};

/// The next number to place and what leads to it; none if a wrong number is in the way for good.
pub(super) fn next(given: &Grid, grid: &Grid, solution: &Grid) -> Option<(Placement, String)> {
    let right = solution.cells();
    let open = |cell: &usize| grid.cells()[*cell] != right[*cell] && grid.allows(*cell, right[*cell]);
    let told = |cell: usize| grid.cells()[cell] == 0 && grid.candidates(cell).is_power_of_two();
    let mut cells = (0..right.len()).filter(open);
    let first = cells.clone().next();
    if let Some(cell) = cells.find(|cell| told(*cell)).or(first) {
        return Some((placement(grid, cell, right[cell]), think(grid, cell, right[cell])));
    }
    // Wrong numbers hold the right ones off: one of them makes room by becoming another.
    let makes_room = |cell: usize, number: u8| {
        let mut after = grid.clone();
        after.put(cell, number);
        (0..right.len()).any(|cell| after.cells()[cell] != right[cell] && after.allows(cell, right[cell]))
    };
    let changeable = (0..right.len()).filter(|cell| given.cells()[*cell] == 0 && grid.cells()[*cell] != right[*cell]);
    let mut changes = changeable.flat_map(|cell| each(grid.candidates(cell)).map(move |number| (cell, number)));
    let (cell, number) = changes.find(|(cell, number)| makes_room(*cell, *number))?;
    Some((placement(grid, cell, number), format!("{}, to make room", think(grid, cell, number))))
}

fn placement(grid: &Grid, cell: usize, number: u8) -> Placement {
    let (row, col) = grid.position(cell);
    Placement { number, row, col }
}

/// What stands in the cell's row, column and box, and what fits: what is read off the grid before a number is placed.
fn think(grid: &Grid, cell: usize, number: u8) -> String {
    let words = |numbers: Numbers| match numbers {
        0 => "nothing".to_owned(),
        _ => each(numbers).map(|number| number.to_string()).collect::<Vec<_>>().join(" "),
    };
    let (row, col) = grid.position(cell);
    let [in_row, in_col, in_box] = grid.around(cell).map(words);
    let candidates = grid.candidates(cell);
    let fits = match candidates.count_ones() {
        1 => format!("only {number} fits"),
        _ => format!("{} fit, {number} is placed", words(candidates)),
    };
    format!("({}, {}): row has {in_row}, column has {in_col}, box has {in_box}; {fits}", row + 1, col + 1)
}
