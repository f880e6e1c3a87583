//! The search for the moves that solve a board: A* over pushes, where walking to the box is part of a push's cost, so
//! that with weight 1 the moves found are as few as can be.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;

use super::board::{Board, Cell, Direction, MAX_BOXES, key};

/// How many boards one search looks at.
const BOARDS: usize = 200_000;
/// No way, as a number of moves.
const NEVER: u32 = u32::MAX / 16;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Solved {
    /// Moves that solve the board.
    By(Vec<Direction>),
    /// There are none.
    Never,
    /// The search ended before it found any.
    GaveUp,
}

/// The fewest moves that solve a board, or, where finding them takes too long, some that do.
pub(super) fn solve(board: &Board) -> Solved {
    let walls = Walls::new(board);
    match Search::new(&walls, board, 1).run(board) {
        Solved::GaveUp => Search::new(&walls, board, 5).run(board),
        found => found,
    }
}

/// What does not change while a board is played.
struct Walls {
    cols: usize,
    open: Vec<bool>,
    /// For each target, the fewest pushes that bring a box there from each cell, on a board without other boxes.
    pushes: Vec<Vec<u32>>,
}

impl Walls {
    fn new(board: &Board) -> Self {
        let cols = board.cols;
        let open: Vec<bool> = board.cells.iter().map(|cell| *cell != Cell::Wall).collect();
        let targets = (0..open.len()).filter(|place| board.cells[*place].is_target());
        let pushes = targets.map(|target| pushes_to(target, &open, cols)).collect();
        Self { cols, open, pushes }
    }

    /// The fewest pushes that bring every box to a target of its own if no box were in another's way; [`NEVER`] if there
    /// is no such way. Never more than the moves that are needed.
    fn bound(&self, boxes: &[u16]) -> u32 {
        let mut best = [NEVER; 1 << MAX_BOXES];
        best[0] = 0;
        // Sets of targets; the boxes up to the number of its targets are on them.
        for taken in 0..1_usize << boxes.len() {
            let from = best[taken];
            let Some(place) = boxes.get(taken.count_ones() as usize) else { continue };
            if from >= NEVER {
                continue;
            }
            for (target, pushes) in self.pushes.iter().enumerate() {
                if taken >> target & 1 == 0 {
                    let with = taken | 1 << target;
                    best[with] = best[with].min(from + pushes[usize::from(*place)]).min(NEVER);
                }
            }
        }
        best[(1 << boxes.len()) - 1]
    }
}

/// The fewest pushes that bring a box to a target from each cell.
fn pushes_to(target: usize, open: &[bool], cols: usize) -> Vec<u32> {
    let mut pushes = vec![NEVER; open.len()];
    pushes[target] = 0;
    let mut frontier = VecDeque::from([target]);
    while let Some(place) = frontier.pop_front() {
        for way in Direction::ALL {
            // Backwards: the box comes from `before`, pushed by a player who stands behind it.
            let before = way.opposite().beside(place, cols);
            if open[before] && pushes[before] == NEVER && open[way.opposite().beside(before, cols)] {
                pushes[before] = pushes[place] + 1;
                frontier.push_back(before);
            }
        }
    }
    pushes
}

/// A board that the search has come to, right after a push.
#[derive(Clone, Copy)]
struct Node {
    player: u16,
    boxes: [u16; MAX_BOXES],
    /// Moves so far.
    moves: u32,
    /// The node before the push, and the push.
    parent: u32,
    way: Direction,
}

struct Search<'a> {
    walls: &'a Walls,
    count: usize,
    /// How much more the bound counts than the moves so far.
    weight: u32,
    nodes: Vec<Node>,
    /// Moves to each board so far.
    reached: FxHashMap<u128, u32>,
    /// Nodes to look at, by moves so far and weighted bound, and among equals the one that is nearest to the end.
    open: BinaryHeap<Reverse<(u32, u32, u32)>>,
    walk: Walk,
}

impl<'a> Search<'a> {
    fn new(walls: &'a Walls, board: &Board, weight: u32) -> Self {
        let mut boxes = [0; MAX_BOXES];
        let mut count = 0;
        for place in (0..board.cells.len()).filter(|place| board.cells[*place].is_box()).take(MAX_BOXES) {
            boxes[count] = place as u16;
            count += 1;
        }
        let root = Node { player: board.player as u16, boxes, moves: 0, parent: 0, way: Direction::Up };
        let mut search = Self {
            walls,
            count,
            weight,
            nodes: Vec::new(),
            reached: FxHashMap::default(),
            open: BinaryHeap::new(),
            walk: Walk { moves: vec![NEVER; walls.open.len()], frontier: Vec::new() },
        };
        search.add(root);
        search
    }

    fn run(mut self, board: &Board) -> Solved {
        let mut places = vec![false; self.walls.open.len()];
        while let Some(Reverse((_, bound, index))) = self.open.pop() {
            let node = self.nodes[index as usize];
            if bound == 0 {
                return Solved::By(self.moves(board, index));
            }
            if self.reached.get(&self.key(&node)) != Some(&node.moves) {
                // It was reached again with fewer moves.
                continue;
            }
            if self.nodes.len() > BOARDS {
                return Solved::GaveUp;
            }
            for place in &node.boxes[..self.count] {
                places[usize::from(*place)] = true;
            }
            self.walk.spread(usize::from(node.player), self.walls, &places);
            for (which, place) in node.boxes[..self.count].iter().enumerate() {
                for way in Direction::ALL {
                    let place = usize::from(*place);
                    let (stand, beyond) =
                        (way.opposite().beside(place, self.walls.cols), way.beside(place, self.walls.cols));
                    let walked = self.walk.moves[stand];
                    if walked < NEVER && self.walls.open[beyond] && !places[beyond] {
                        let mut boxes = node.boxes;
                        boxes[which] = beyond as u16;
                        let moves = node.moves + walked + 1;
                        self.add(Node { player: place as u16, boxes, moves, parent: index, way });
                    }
                }
            }
            for place in &node.boxes[..self.count] {
                places[usize::from(*place)] = false;
            }
        }
        Solved::Never
    }

    fn key(&self, node: &Node) -> u128 {
        key(node.player.into(), node.boxes[..self.count].iter().map(|place| (usize::from(*place), false)))
    }

    /// Takes a node into account if its board was not reached with as few moves before, and can be solved.
    fn add(&mut self, node: Node) {
        let bound = self.walls.bound(&node.boxes[..self.count]);
        if bound >= NEVER {
            return;
        }
        let reached = self.reached.entry(self.key(&node)).or_insert(u32::MAX);
        if node.moves < *reached {
            *reached = node.moves;
            self.open.push(Reverse((node.moves + self.weight * bound, bound, self.nodes.len() as u32)));
            self.nodes.push(node);
        }
    }

    /// The moves that lead from the board to a node.
    fn moves(&mut self, board: &Board, index: u32) -> Vec<Direction> {
        let mut pushes = Vec::new();
        let mut node = self.nodes[index as usize];
        while node.moves > 0 {
            pushes.push(node);
            node = self.nodes[node.parent as usize];
        }
        let mut board = board.clone();
        let mut moves = Vec::new();
        for push in pushes.iter().rev() {
            let places: Vec<bool> = board.cells.iter().map(|cell| cell.is_box()).collect();
            let stand = push.way.opposite().beside(usize::from(push.player), board.cols);
            // From there to the player, then the other way round.
            self.walk.spread(stand, self.walls, &places);
            while board.player != stand {
                let nearer = |way: &Direction| {
                    let next = way.beside(board.player, board.cols);
                    self.walk.moves[next] + 1 == self.walk.moves[board.player]
                };
                let Some(way) = Direction::ALL.into_iter().find(nearer) else { break };
                board.play(way);
                moves.push(way);
            }
            board.play(push.way);
            moves.push(push.way);
        }
        moves
    }
}

/// The fewest moves from one place to every other, without pushing.
struct Walk {
    moves: Vec<u32>,
    frontier: Vec<usize>,
}

impl Walk {
    fn spread(&mut self, place: usize, walls: &Walls, boxes: &[bool]) {
        self.moves.fill(NEVER);
        self.moves[place] = 0;
        self.frontier.clear();
        self.frontier.push(place);
        let mut looked_at = 0;
        while let Some(place) = self.frontier.get(looked_at).copied() {
            looked_at += 1;
            for way in Direction::ALL {
                let next = way.beside(place, walls.cols);
                if walls.open[next] && !boxes[next] && self.moves[next] == NEVER {
                    self.moves[next] = self.moves[place] + 1;
                    self.frontier.push(next);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::sokoban::board::Effect;
    use crate::sokoban::room::{self, Plan};

    /// The fewest moves by a search over single moves, which shares nothing with the one above.
    fn fewest(board: &Board) -> Option<usize> {
        let mut seen = HashSet::from([board.clone()]);
        let mut frontier = VecDeque::from([(board.clone(), 0)]);
        while let Some((board, moves)) = frontier.pop_front() {
            if board.is_solved() {
                return Some(moves);
            }
            for direction in Direction::ALL {
                let mut next = board.clone();
                if next.play(direction) != Effect::Blocked && seen.insert(next.clone()) {
                    frontier.push_back((next, moves + 1));
                }
            }
        }
        None
    }

    proptest! {
        #[test]
        fn moves_are_the_fewest_and_hopeless_boards_are_known(
            seed: u32, boxes in 1_usize..3, random in prop::collection::vec(0_usize..4, 0..12),
        ) {
            let plan = Plan { rows: 6, cols: 6, boxes, search_depth: 40 };
            let Some(made) = room::make(seed.into(), plan) else { return Ok(()) };
            let mut board = made.board;
            for direction in random {
                board.play(Direction::ALL[direction]);
            }
            match solve(&board) {
                Solved::By(moves) => {
                    prop_assert!(board.is_solved_by(&moves));
                    prop_assert_eq!(Some(moves.len()), fewest(&board));
                }
                Solved::Never => prop_assert_eq!(fewest(&board), None),
                Solved::GaveUp => prop_assert!(false, "a small board is searched to its end"),
            }
        }
    }
}
