//! The scripted expert: it solves the board as it stands, and goes on with its plan as long as the plan is followed.

use super::board::{Board, Direction, Effect};
use super::solver::{Solved, solve};

/// What the expert knows.
pub(super) struct Expert {
    /// How the room was made, backwards: moves that solve it from its beginning, the last one first. Used where a search
    /// gives up, and only as long as it was followed.
    made: Option<Vec<Direction>>,
    plan: Plan,
}

enum Plan {
    /// The board was not searched.
    None,
    /// The moves that are left, the last one first.
    Moves(Vec<Direction>),
    /// The board cannot be solved any more, nor can any that follows; or a search found nothing.
    Hopeless,
}

impl Expert {
    /// An expert at the beginning of an episode, with moves that solve it if any are known.
    pub(super) fn new(solution: Option<Vec<Direction>>) -> Self {
        let made = solution.map(|mut moves| {
            moves.reverse();
            moves
        });
        Self { made, plan: Plan::None }
    }

    /// Keeps up with a move that was played.
    pub(super) fn saw(&mut self, played: Direction, effect: Effect) {
        if effect == Effect::Blocked {
            return;
        }
        if self.made.as_mut().is_some_and(|moves| moves.pop() != Some(played)) {
            self.made = None;
        }
        if let Plan::Moves(moves) = &mut self.plan
            && moves.pop() != Some(played)
        {
            self.plan = Plan::None;
        }
    }

    /// The next move, and what leads to it; none if the board cannot be solved any more or is too hard.
    pub(super) fn next(&mut self, board: &Board) -> Option<(Direction, String)> {
        if matches!(self.plan, Plan::None) {
            self.plan = match (solve(board), &self.made) {
                (Solved::By(mut moves), _) => {
                    moves.reverse();
                    Plan::Moves(moves)
                }
                (Solved::GaveUp, Some(moves)) => Plan::Moves(moves.clone()),
                (Solved::GaveUp | Solved::Never, _) => Plan::Hopeless,
            };
        }
        let Plan::Moves(moves) = &self.plan else { return None };
        let direction = *moves.last()?;
        Some((direction, think(board, moves)?))
    }
}

/// Which box is pushed next and which way, from where, and where the player is now: what is read off the board before
/// moving. A policy that writes these words has what it needs to choose.
fn think(board: &Board, moves: &[Direction]) -> Option<String> {
    let point = |place: usize| format!("({}, {})", place / board.cols, place % board.cols);
    let mut stand = board.player;
    for direction in moves.iter().rev() {
        let next = direction.beside(stand, board.cols);
        if board.cells[next].is_box() {
            let way = format!("{direction:?}").to_lowercase();
            let me = if stand == board.player {
                "I am there".to_owned()
            } else {
                format!("I am at {}", point(board.player))
            };
            return Some(format!("push the box at {} {way} from {}; {me}", point(next), point(stand)));
        }
        stand = next;
    }
    None
}
