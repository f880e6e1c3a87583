//! Puzzles made from a seed: RAGEN's, bit for bit, or puzzles with one solution only.

use super::grid::{Grid, each};
use super::solver::{Solutions, solutions};
use crate::python_random::PythonRandom;

/// How many cells are filled before a seed counts as one without a full grid. At size 16 the median is 11,000.
const FILLS: usize = 5_000_000;
/// How many full grids are tried before a seed counts as one without a puzzle of so few clues.
const GRIDS: usize = 50;
/// How many grids all counts of solutions for a seed look at together, before the same.
const COUNTED: usize = 1_000_000;

/// A puzzle and a solution of it.
#[derive(Clone, Debug)]
pub(super) struct Puzzle {
    pub(super) given: Grid,
    pub(super) solution: Grid,
}

/// RAGEN's puzzle: a full grid with `blanks` cells taken out. It may have other solutions too. None if the grid cannot
/// be filled in reasonable time.
pub(super) fn ragen(seed: u64, size: usize, blanks: usize) -> Option<Puzzle> {
    let mut python = PythonRandom::new(seed);
    let solution = full(size, &mut python, &mut { FILLS })?;
    let mut given = solution.clone();
    for cell in shuffled_cells(size, &mut python).into_iter().take(blanks) {
        given.clear(cell);
    }
    Some(Puzzle { given, solution })
}

/// A puzzle with this many clues and one solution; none if [`GRIDS`] full grids of the seed have none, or the search for
/// one takes too long.
pub(super) fn unique(seed: u64, size: usize, clues: usize) -> Option<Puzzle> {
    let mut python = PythonRandom::new(seed);
    let (mut fills, mut counted) = (FILLS, COUNTED);
    for _ in 0..GRIDS {
        let solution = full(size, &mut python, &mut fills)?;
        let mut given = solution.clone();
        for cell in shuffled_cells(size, &mut python) {
            if size * size - given.empty() == clues {
                break;
            }
            given.clear(cell);
            if solutions(&given, &mut counted) != Solutions::One {
                given.put(cell, solution.cells()[cell]);
            }
        }
        if size * size - given.empty() == clues {
            return Some(Puzzle { given, solution });
        }
        if counted == 0 {
            break;
        }
    }
    None
}

fn shuffled_cells(size: usize, python: &mut PythonRandom) -> Vec<usize> {
    let mut cells: Vec<usize> = (0..size * size).collect();
    python.shuffle(&mut cells);
    cells
}

/// A full grid: cells in order, each with the first of its numbers in random order that leads on.
fn full(size: usize, python: &mut PythonRandom, fills: &mut usize) -> Option<Grid> {
    let mut grid = Grid::new(size);
    fill(&mut grid, 0, python, fills)?.then_some(grid)
}

/// Fills from a cell on, and says whether it could; none if that takes too long.
fn fill(grid: &mut Grid, cell: usize, python: &mut PythonRandom, fills: &mut usize) -> Option<bool> {
    if cell == grid.cells().len() {
        return Some(true);
    }
    *fills = fills.checked_sub(1)?;
    let mut numbers: Vec<u8> = each((1 << grid.size) - 1).collect();
    python.shuffle(&mut numbers);
    for number in numbers {
        if grid.allows(cell, number) {
            grid.put(cell, number);
            if fill(grid, cell + 1, python, fills)? {
                return Some(true);
            }
            grid.clear(cell);
        }
    }
    Some(false)
}
