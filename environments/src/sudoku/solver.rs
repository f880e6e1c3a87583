//! Counting solutions: whether a puzzle has none, one, or more.

use super::grid::{Grid, Numbers, each};

/// How many solutions a grid has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Solutions {
    None,
    One,
    Many,
    /// The search ended before it knew.
    Unknown,
}

/// How many grids one count looks at.
pub(super) const GRIDS: usize = 100_000;

/// Counts the solutions of a grid, up to two. Looks at `budget` grids at most, and takes from it those that it looked at.
pub(super) fn solutions(grid: &Grid, budget: &mut usize) -> Solutions {
    let most = GRIDS.min(*budget);
    let mut count = Count { grid: grid.clone(), found: 0, left: most };
    count.search();
    *budget -= most - count.left;
    match (count.found, count.left) {
        (2.., _) => Solutions::Many,
        (_, 0) => Solutions::Unknown,
        (1, _) => Solutions::One,
        _ => Solutions::None,
    }
}

struct Count {
    grid: Grid,
    found: usize,
    left: usize,
}

/// A choice that has to be made: a number for a cell, or a cell for a number.
enum Choice {
    Numbers { cell: usize, numbers: Numbers },
    Cells { number: u8, cells: Vec<usize> },
}

impl Count {
    fn search(&mut self) {
        if self.grid.empty() == 0 {
            self.found += 1;
            return;
        }
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        match self.narrowest() {
            Choice::Numbers { cell, numbers } => each(numbers).for_each(|number| self.attempt(cell, number)),
            Choice::Cells { number, cells } => cells.into_iter().for_each(|cell| self.attempt(cell, number)),
        }
    }

    fn attempt(&mut self, cell: usize, number: u8) {
        if self.found < 2 && self.left > 0 {
            self.grid.put(cell, number);
            self.search();
            self.grid.clear(cell);
        }
    }

    /// The choice with the fewest ways, of which one must be right in every solution.
    fn narrowest(&self) -> Choice {
        let size = self.grid.size;
        let mut best = Choice::Numbers { cell: 0, numbers: 0 };
        let mut fewest = usize::MAX;
        // How many cells of each row, column and box can hold each number.
        let mut places = vec![0_u8; 3 * size * size];
        for cell in (0..size * size).filter(|cell| self.grid.cells()[*cell] == 0) {
            let numbers = self.grid.candidates(cell);
            let ways = numbers.count_ones() as usize;
            if ways < fewest {
                (best, fewest) = (Choice::Numbers { cell, numbers }, ways);
                if ways == 0 {
                    return best;
                }
            }
            for unit in self.grid.units(cell) {
                each(numbers).for_each(|number| places[unit * size + usize::from(number) - 1] += 1);
            }
        }
        if fewest == 1 {
            return best;
        }
        for (index, ways) in places.iter().enumerate() {
            let (unit, number) = (index / size, (index % size) as u8 + 1);
            if usize::from(*ways) < fewest && !self.grid.has(unit, number) {
                let holds = |cell: &usize| {
                    self.grid.cells()[*cell] == 0
                        && self.grid.units(*cell).contains(&unit)
                        && self.grid.allows(*cell, number)
                };
                let cells = (0..size * size).filter(holds).collect();
                (best, fewest) = (Choice::Cells { number, cells }, usize::from(*ways));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sudoku::puzzle::{ragen, unique};

    fn grid(size: usize, cells: &str) -> Grid {
        let mut grid = Grid::new(size);
        for (cell, symbol) in cells.chars().filter(|symbol| !symbol.is_whitespace()).enumerate() {
            if let Some(number) = symbol.to_digit(10).filter(|number| *number > 0) {
                grid.put(cell, number as u8);
            }
        }
        grid
    }

    fn count(grid: &Grid) -> Solutions {
        solutions(grid, &mut { GRIDS })
    }

    #[test]
    fn a_budget_is_taken_from_and_ends_the_search() {
        let empty = Grid::new(9);
        let mut budget = 200;
        assert_eq!(solutions(&empty, &mut budget), Solutions::Many);
        assert!((1..200).contains(&budget), "{budget}");
        budget = 5;
        assert_eq!((solutions(&empty, &mut budget), budget), (Solutions::Unknown, 0));
        assert_eq!(solutions(&empty, &mut budget), Solutions::Unknown);
    }

    #[test]
    fn solutions_are_counted() {
        let check = |size, cells, expected| assert_eq!(count(&grid(size, cells)), expected, "{cells}");
        check(4, "1234 3412 2143 4321", Solutions::One);
        check(4, "1234 3412 2143 432.", Solutions::One);
        // Two numbers that can be swapped in two rows.
        check(4, "1234 3412 .1.3 .3.1", Solutions::Many);
        check(4, "12.. .... ..1. ...2", Solutions::Many);
        check(4, ".... .... .... ....", Solutions::Many);
        // The first row's last cell has no number left.
        check(4, "123. ...4 .... ....", Solutions::None);
        // The 4 of the first row has no place.
        check(4, "1... ..4. .... .4..", Solutions::None);
        check(4, "1... ..4. .4.. ....", Solutions::None);
        // A known puzzle with 17 clues and one solution, and the same without one of them.
        let hard = "000000010 400000000 020000000 000050407 008000300 001090000 300400200 050100000 000806000";
        check(9, hard, Solutions::One);
        check(9, &hard.replacen('4', "0", 1), Solutions::Many);
    }

    #[test]
    fn a_grid_of_size_16_is_counted_in_time() {
        let puzzle = ragen(3, 16, 102).unwrap();
        assert!(matches!(count(&puzzle.given), Solutions::One | Solutions::Many));
        let puzzle = unique(0, 16, 150).unwrap();
        assert_eq!(count(&puzzle.given), Solutions::One);
    }

    /// Counts by trying every number in every cell in order.
    fn tried(grid: &mut Grid, cell: usize) -> usize {
        match grid.cells().get(cell) {
            None => 1,
            Some(0) => each(grid.candidates(cell))
                .map(|number| {
                    grid.put(cell, number);
                    let found = tried(grid, cell + 1);
                    grid.clear(cell);
                    found
                })
                .sum(),
            Some(_) => tried(grid, cell + 1),
        }
    }

    proptest! {
        #[test]
        fn counts_are_those_of_trying_everything(seed: u32, blanks in 0_usize..14) {
            let mut grid = ragen(seed.into(), 4, blanks).unwrap().given;
            let expected = match tried(&mut grid, 0) {
                0 => Solutions::None,
                1 => Solutions::One,
                _ => Solutions::Many,
            };
            prop_assert_eq!(count(&grid), expected);
        }

        #[test]
        fn unique_puzzles_have_one_solution(seed: u32, clues in 6_usize..15) {
            let puzzle = unique(seed.into(), 4, clues).unwrap();
            prop_assert_eq!(tried(&mut puzzle.given.clone(), 0), 1);
        }
    }
}
