//! Rooms made from a seed as RAGEN and verl-agent make them, which changed gym-sokoban's generator: a random walk digs
//! the floor, player and targets are put on it, and boxes are pulled off their targets by a depth-first search. What the
//! search did, backwards, solves the room; that is checked before a room is given out.

use std::hash::{DefaultHasher, Hasher};

use rustc_hash::FxHashSet;

use super::board::{Board, Cell, Direction, MAX_BOXES, key};
use crate::numpy_legacy::RandomState;
use crate::python_random::PythonRandom;

/// What rooms are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) boxes: usize,
    /// How many moves the boxes are pulled at most.
    pub(super) search_depth: usize,
}

/// A board and moves that solve it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) board: Board,
    pub(super) solution: Vec<Direction>,
}

/// How many seeds are tried before the first one counts as one without a room.
const SEEDS: usize = 200;
/// How many states the searches of all these seeds look at together, before the same.
const ALL_STATES: usize = 12_000_000;
/// How many rooms are tried with one seed.
const TRIES: usize = 4;
/// How many states the search looks at.
const STATES: usize = 300_000;

/// The room of a seed. Where it has none, the original goes on with another seed, and so does this; none after [`SEEDS`]
/// of them or [`ALL_STATES`], or if a room cannot be solved as it was made.
pub(super) fn make(seed: u64, plan: Plan) -> Option<Room> {
    let (mut seed, mut states) = (seed, 0);
    for _ in 0..SEEDS {
        if let Some(room) = draw(seed, plan, &mut states) {
            return room.board.is_solved_by(&room.solution).then_some(room);
        }
        if states >= ALL_STATES {
            break;
        }
        seed = next_seed(seed);
    }
    None
}

/// The seed that the original goes on with: Python's `abs(hash(str(seed))) % 2**32`, where PYTHONHASHSEED is 0. That
/// hash is SipHash-1-3 with keys of zero.
fn next_seed(seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(seed.to_string().as_bytes());
    let hash = match hasher.finish() as i64 {
        -1 => -2,
        hash => hash,
    };
    hash.unsigned_abs() & u64::from(u32::MAX)
}

/// The room of this very seed, if it has one. Adds the states that were looked at to `states`.
fn draw(seed: u64, plan: Plan, states: &mut usize) -> Option<Room> {
    let mut python = PythonRandom::new(seed);
    // NumPy takes seeds of 32 bits only, and so does the original.
    let mut numpy = RandomState::new(seed as u32);
    for _ in 0..TRIES {
        let mut cells = dig(plan, &mut python);
        let mut free: Vec<usize> = (0..cells.len()).filter(|place| cells[*place] == Cell::Floor).collect();
        if free.len() <= plan.boxes + 1 {
            return None;
        }
        let player = free.remove(numpy.below(free.len()));
        for _ in 0..plan.boxes {
            cells[free.remove(numpy.below(free.len()))] = Cell::Target;
        }
        let mut search = Search::new(plan, &cells);
        search.visit(player, 0, None, plan.search_depth);
        *states += search.seen.len();
        let best = search.best;
        if best.displacement > 0 {
            return Some(finish(plan, cells, best, &mut python));
        }
    }
    None
}

/// A random walk that stamps floor into walls.
fn dig(plan: Plan, python: &mut PythonRandom) -> Vec<Cell> {
    const WAYS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];
    const STAMPS: [&[(isize, isize)]; 5] = [
        &[(0, -1), (0, 0), (0, 1)],
        &[(-1, 0), (0, 0), (1, 0)],
        &[(0, -1), (0, 0), (1, 0)],
        &[(0, -1), (0, 0), (1, -1), (1, 0)],
        &[(0, 0), (0, 1), (1, 0)],
    ];
    let Plan { rows, cols, .. } = plan;
    let mut cells = vec![Cell::Wall; rows * cols];
    let mut way = python.choice(&WAYS);
    let mut row = python.between(1, rows - 1) as isize;
    let mut col = python.between(1, cols - 1) as isize;
    let steps = (1.7 * (rows + cols) as f64) as usize;
    for _ in 0..steps {
        if python.uniform() < 0.35 {
            way = python.choice(&WAYS);
        }
        row = (row + way.0).clamp(1, rows as isize - 2);
        col = (col + way.1).clamp(1, cols as isize - 2);
        for (down, right) in python.choice(&STAMPS) {
            let (row, col) = ((row + down) as usize, (col + right) as usize);
            if (1..rows - 1).contains(&row) && (1..cols - 1).contains(&col) {
                cells[row * cols + col] = Cell::Floor;
            }
        }
    }
    cells
}

/// Puts boxes and player where the search left them, lets the player wander, and writes down how all of it is undone.
fn finish(plan: Plan, mut cells: Vec<Cell>, best: Best, python: &mut PythonRandom) -> Room {
    for place in &best.boxes[..plan.boxes] {
        cells[usize::from(*place)] = cells[usize::from(*place)].with_box();
    }
    let mut made_by = best.moves;
    let mut player = best.player;
    if python.uniform() <= if best.displacement == 1 { 0.8 } else { 0.5 } {
        let mut visited = vec![player];
        for step in 1..=3 {
            let ways: Vec<Direction> = Direction::ALL
                .into_iter()
                .filter(|way| {
                    let next = way.beside(player, plan.cols);
                    cells[next].is_free() && !visited.contains(&next)
                })
                .collect();
            if ways.is_empty() {
                break;
            }
            let way = python.choice(&ways);
            player = way.beside(player, plan.cols);
            visited.push(player);
            made_by.push(way);
            if step == 3 || python.uniform() > 0.5 {
                break;
            }
        }
    }
    cells[player] = cells[player].with_player();
    let solution = made_by.into_iter().rev().map(Direction::opposite).collect();
    Room { board: Board { cols: plan.cols, cells, player, loose: plan.boxes }, solution }
}

/// The best state of a search.
struct Best {
    score: i64,
    player: usize,
    /// Where each target's box is.
    boxes: [u16; MAX_BOXES],
    /// The sum of the distances between boxes and their targets.
    displacement: usize,
    /// The moves that led here, pulling.
    moves: Vec<Direction>,
}

/// A depth-first search in which the player walks and pulls boxes off their targets.
struct Search<'a> {
    plan: Plan,
    cells: &'a [Cell],
    targets: Vec<usize>,
    /// Where each target's box is.
    boxes: [u16; MAX_BOXES],
    /// Whether the box was ever pulled. The original writes a box that was pulled differently from one that was not, so
    /// states that differ in this are different ones.
    pulled: [bool; MAX_BOXES],
    /// The box on each cell, counted from 1; 0 is none.
    on: Vec<u8>,
    seen: FxHashSet<u128>,
    moves: Vec<Direction>,
    best: Best,
}

impl<'a> Search<'a> {
    fn new(plan: Plan, cells: &'a [Cell]) -> Self {
        let targets: Vec<usize> = (0..cells.len()).filter(|place| cells[*place] == Cell::Target).collect();
        let mut boxes = [0; MAX_BOXES];
        let mut on = vec![0; cells.len()];
        for (index, target) in targets.iter().enumerate() {
            boxes[index] = *target as u16;
            on[*target] = index as u8 + 1;
        }
        Self {
            plan,
            cells,
            targets,
            boxes,
            pulled: [false; MAX_BOXES],
            on,
            seen: FxHashSet::default(),
            moves: Vec::new(),
            best: Best { score: -1, player: 0, boxes, displacement: 0, moves: Vec::new() },
        }
    }

    /// Looks at a state and all that it leads to. `changes` counts how often another box was pulled than before, and
    /// `last` is the box that was pulled last.
    fn visit(&mut self, player: usize, changes: i64, last: Option<usize>, moves_left: usize) {
        if moves_left <= 1 || self.seen.len() >= STATES {
            return;
        }
        let boxes = self.boxes.iter().zip(self.pulled).take(self.targets.len());
        if !self.seen.insert(key(player, boxes.map(|(place, pulled)| (usize::from(*place), pulled)))) {
            return;
        }
        self.score(player, changes);
        for way in Direction::ALL {
            let next = way.beside(player, self.plan.cols);
            if !self.cells[next].is_free() || self.on[next] != 0 {
                continue;
            }
            self.moves.push(way);
            let behind = way.opposite().beside(player, self.plan.cols);
            match usize::from(self.on[behind]).checked_sub(1) {
                None => self.visit(next, changes, last, moves_left - 1),
                Some(index) => {
                    let was_pulled = self.pulled[index];
                    self.pulled[index] = true;
                    self.put(index, behind, player);
                    let changes = changes + i64::from(last != Some(index));
                    self.visit(next, changes, Some(index), moves_left - 1);
                    self.put(index, player, behind);
                    self.pulled[index] = was_pulled;
                }
            }
            self.moves.pop();
        }
    }

    fn put(&mut self, index: usize, from: usize, to: usize) {
        self.on[from] = 0;
        self.on[to] = index as u8 + 1;
        self.boxes[index] = to as u16;
    }

    /// Keeps the state if it is better than all before it.
    fn score(&mut self, player: usize, changes: i64) {
        let bare = self.targets.iter().all(|target| self.on[*target] == 0 && *target != player);
        let displacement = if bare { self.displacement() } else { 0 };
        let score = changes * displacement as i64;
        if score > self.best.score {
            let moves = self.moves.clone();
            self.best = Best { score, player, boxes: self.boxes, displacement, moves };
        }
    }

    fn displacement(&self) -> usize {
        let cols = self.plan.cols;
        let distance = |a: usize, b: usize| (a / cols).abs_diff(b / cols) + (a % cols).abs_diff(b % cols);
        let boxes = self.targets.iter().zip(self.boxes);
        boxes.map(|(target, place)| distance(*target, usize::from(place))).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_next_seed_is_pythons_hash_of_the_text() {
        for (seed, expected) in
            [(0, 1_200_356_398), (7, 2_658_548_318), (10_000, 888_661_558), (4_294_967_295, 4_104_901_467)]
        {
            assert_eq!(next_seed(seed), expected, "{seed}");
        }
    }

    proptest! {
        #[test]
        fn rooms_are_whole_and_are_solved_by_their_making(
            seed: u32, rows in 5_usize..11, cols in 5_usize..11, boxes in 1_usize..4, search_depth in 3_usize..60,
        ) {
            let plan = Plan { rows, cols, boxes, search_depth };
            let room = make(seed.into(), plan);
            prop_assume!(room.is_some());
            let Room { board, solution } = room.unwrap();
            prop_assert_eq!(Board::new(cols, board.cells.clone()), Ok(board.clone()));
            prop_assert_eq!(board.loose, boxes);
            prop_assert!(board.is_solved_by(&solution));
        }
    }
}
