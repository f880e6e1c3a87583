//! A grid that breaks no rule: what is in it, and what may be put where.

/// Bits of the numbers in a row, column or box: number 1 is bit 0.
pub(super) type Numbers = u32;

/// The numbers of a set, ascending.
pub(super) fn each(numbers: Numbers) -> impl Iterator<Item = u8> {
    let mut left = numbers;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        // The lowest bit goes.
        left &= left.wrapping_sub(1);
        (bit < Numbers::BITS).then_some(bit as u8 + 1)
    })
}

/// The largest grid's size.
const LARGEST: usize = 16;

/// A number of a cell, a row or a column as a text.
pub(super) fn digits(number: usize) -> &'static str {
    const DIGITS: [&str; LARGEST + 1] =
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];
    DIGITS[number]
}

/// A square grid of cells in row-major order, none of whose rows, columns and boxes has a number twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Cells along a side: a square number.
    pub(super) size: usize,
    /// Cells along a side of a box.
    pub(super) side: usize,
    cells: Vec<u8>,
    /// What is in each unit.
    taken: Vec<Numbers>,
    empty: usize,
}

impl Grid {
    /// A grid with nothing in it.
    pub(super) fn new(size: usize) -> Self {
        let cells = size * size;
        Self { size, side: size.isqrt(), cells: vec![0; cells], taken: vec![0; 3 * size], empty: cells }
    }

    /// All cells; 0 is empty.
    pub(super) fn cells(&self) -> &[u8] {
        &self.cells
    }

    /// The number of empty cells.
    pub(super) fn empty(&self) -> usize {
        self.empty
    }

    /// Row and column of a cell.
    pub(super) fn position(&self, cell: usize) -> (usize, usize) {
        (cell / self.size, cell % self.size)
    }

    /// The box of a cell, in row-major order of boxes.
    pub(super) fn box_of(&self, cell: usize) -> usize {
        let (row, col) = self.position(cell);
        row / self.side * self.side + col / self.side
    }

    /// Its row, column and box among all units: rows come first, then columns, then boxes.
    pub(super) fn units(&self, cell: usize) -> [usize; 3] {
        let (row, col) = self.position(cell);
        [row, self.size + col, 2 * self.size + self.box_of(cell)]
    }

    /// The numbers in the cell's row, in its column and in its box.
    pub(super) fn around(&self, cell: usize) -> [Numbers; 3] {
        self.units(cell).map(|unit| self.taken[unit])
    }

    /// The numbers that may be put into a cell. Its own is not among them: as in RAGEN, a cell stands in its own way.
    pub(super) fn candidates(&self, cell: usize) -> Numbers {
        let [row, col, square] = self.around(cell);
        !(row | col | square) & ((1 << self.size) - 1)
    }

    /// Whether a row, column or box has this number.
    pub(super) fn has(&self, unit: usize, number: u8) -> bool {
        self.taken[unit] >> (number - 1) & 1 == 1
    }

    /// Whether a number may be put into a cell.
    pub(super) fn allows(&self, cell: usize, number: u8) -> bool {
        self.candidates(cell) >> (number - 1) & 1 == 1
    }

    /// Puts a number that the cell allows into it, in place of what was there.
    pub(super) fn put(&mut self, cell: usize, number: u8) {
        debug_assert!(self.allows(cell, number));
        self.clear(cell);
        for unit in self.units(cell) {
            self.taken[unit] |= 1 << (number - 1);
        }
        self.cells[cell] = number;
        self.empty -= 1;
    }

    /// Empties a cell.
    pub(super) fn clear(&mut self, cell: usize) {
        let number = std::mem::take(&mut self.cells[cell]);
        if number != 0 {
            for unit in self.units(cell) {
                self.taken[unit] &= !(1 << (number - 1));
            }
            self.empty += 1;
        }
    }
}
