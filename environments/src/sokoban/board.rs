//! The board: cells, the four moves, and what they do.

/// What is on a cell. The order is gym-sokoban's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Cell {
    Wall,
    Floor,
    Target,
    BoxOnTarget,
    Box,
    Player,
    PlayerOnTarget,
}

impl Cell {
    pub(super) fn is_target(self) -> bool {
        matches!(self, Self::Target | Self::BoxOnTarget | Self::PlayerOnTarget)
    }

    pub(super) fn is_box(self) -> bool {
        matches!(self, Self::Box | Self::BoxOnTarget)
    }

    pub(super) fn is_free(self) -> bool {
        matches!(self, Self::Floor | Self::Target)
    }

    /// The cell without box or player.
    fn cleared(self) -> Self {
        match self {
            Self::Wall => Self::Wall,
            _ if self.is_target() => Self::Target,
            _ => Self::Floor,
        }
    }

    /// The cell with a box on it.
    pub(super) fn with_box(self) -> Self {
        if self.is_target() { Self::BoxOnTarget } else { Self::Box }
    }

    /// The cell with the player on it.
    pub(super) fn with_player(self) -> Self {
        if self.is_target() { Self::PlayerOnTarget } else { Self::Player }
    }
}

/// A move. The order is RAGEN's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
    Left,
    Right,
}

impl Direction {
    pub(super) const ALL: [Self; 4] = [Self::Up, Self::Down, Self::Left, Self::Right];

    pub(super) fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// The place beside this one on a board with so many columns. The place must not be at the edge on that side.
    pub(super) fn beside(self, place: usize, cols: usize) -> usize {
        match self {
            Self::Up => place - cols,
            Self::Down => place + cols,
            Self::Left => place - 1,
            Self::Right => place + 1,
        }
    }
}

/// The largest number of rows and of columns.
pub(super) const MAX_SIDE: usize = 32;
/// The largest number of boxes. With [`MAX_SIDE`] it makes a [`key`] fit its bits.
pub(super) const MAX_BOXES: usize = 8;

/// A number that is equal for equal places of player and boxes: 10 bits per place and one bit of the caller's per box.
pub(super) fn key(player: usize, boxes: impl Iterator<Item = (usize, bool)>) -> u128 {
    let mut sorted = [u16::MAX; MAX_BOXES];
    let mut count = 0;
    for (place, flag) in boxes.take(MAX_BOXES) {
        let value = (place as u16) << 1 | u16::from(flag);
        let mut hole = count;
        while hole > 0 && sorted[hole - 1] > value {
            sorted[hole] = sorted[hole - 1];
            hole -= 1;
        }
        sorted[hole] = value;
        count += 1;
    }
    sorted[..count].iter().fold(player as u128, |key, value| key << 11 | u128::from(*value))
}

/// What a move did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A wall, or a box that cannot be pushed, is in the way.
    Blocked,
    /// The player walked.
    Walked,
    /// The player pushed a box, which was on a target before or not, and is now or not.
    Pushed { was_on_target: bool, is_on_target: bool },
}

/// A board; places are indices of cells in row-major order. The edge is all walls, so that whatever moves has a place
/// beside it on every side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Board {
    pub(super) cols: usize,
    /// All cells, a multiple of `cols`.
    pub(super) cells: Vec<Cell>,
    /// Where the player is; the cell says so too.
    pub(super) player: usize,
    /// How many boxes are on no target.
    pub(super) loose: usize,
}

impl Board {
    /// The board of these cells, with the reason if they make none.
    pub(super) fn new(cols: usize, cells: Vec<Cell>) -> Result<Self, String> {
        let rows = cells.len().checked_div(cols).unwrap_or(0);
        if !(3..=MAX_SIDE).contains(&rows) || !(3..=MAX_SIDE).contains(&cols) {
            return Err(format!("it has {rows} rows and {cols} columns; both must be 3 to {MAX_SIDE}"));
        }
        let is_edge = |place: usize| {
            let (row, col) = (place / cols, place % cols);
            row == 0 || row + 1 == rows || col == 0 || col + 1 == cols
        };
        if (0..cells.len()).any(|place| is_edge(place) && cells[place] != Cell::Wall) {
            return Err("it is not closed: every cell at its edge must be a wall".to_owned());
        }
        let count = |is: fn(Cell) -> bool| cells.iter().filter(|cell| is(**cell)).count();
        let players = count(|cell| matches!(cell, Cell::Player | Cell::PlayerOnTarget));
        let (boxes, targets) = (count(Cell::is_box), count(Cell::is_target));
        let loose = count(|cell| cell == Cell::Box);
        if players != 1 {
            return Err(format!("it has {players} players; there must be one"));
        }
        if !(1..=MAX_BOXES).contains(&boxes) {
            return Err(format!("it has {boxes} boxes; there must be 1 to {MAX_BOXES}"));
        }
        if boxes != targets {
            return Err(format!("it has {boxes} boxes and {targets} targets; there must be as many of both"));
        }
        if loose == 0 {
            return Err("it is solved from the beginning: all boxes are on targets".to_owned());
        }
        let player = cells.iter().position(|cell| matches!(cell, Cell::Player | Cell::PlayerOnTarget));
        Ok(Self { cols, player: player.unwrap_or_default(), loose, cells })
    }

    pub(super) fn is_solved(&self) -> bool {
        self.loose == 0
    }

    /// Moves the player, with the box before it if there is one.
    pub(super) fn play(&mut self, direction: Direction) -> Effect {
        let next = direction.beside(self.player, self.cols);
        let mut effect = Effect::Walked;
        if self.cells[next].is_box() {
            let beyond = direction.beside(next, self.cols);
            if !self.cells[beyond].is_free() {
                return Effect::Blocked;
            }
            let (was_on_target, is_on_target) = (self.cells[next].is_target(), self.cells[beyond].is_target());
            self.cells[beyond] = self.cells[beyond].with_box();
            self.loose = self.loose + usize::from(was_on_target) - usize::from(is_on_target);
            effect = Effect::Pushed { was_on_target, is_on_target };
        } else if !self.cells[next].is_free() {
            return Effect::Blocked;
        }
        self.cells[self.player] = self.cells[self.player].cleared();
        self.cells[next] = self.cells[next].with_player();
        self.player = next;
        effect
    }

    /// Whether these moves solve it from here.
    pub(super) fn is_solved_by(&self, moves: &[Direction]) -> bool {
        let mut board = self.clone();
        moves.iter().all(|direction| board.play(*direction) != Effect::Blocked) && board.is_solved()
    }
}
