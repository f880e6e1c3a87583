//! The four moves, and where slippery ice takes them.

/// A move. The order is gymnasium's, and so are the indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Left,
    Down,
    Right,
    Up,
}

impl Direction {
    pub(super) const ALL: [Self; 4] = [Self::Left, Self::Down, Self::Right, Self::Up];

    /// The name that the agent reads and writes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Left => "Left",
            Self::Down => "Down",
            Self::Right => "Right",
            Self::Up => "Up",
        }
    }

    /// The move of this name, in any case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|direction| direction.name().eq_ignore_ascii_case(name))
    }

    fn turned(self, quarters: usize) -> Self {
        Self::ALL[(self as usize + quarters) % 4]
    }
}

/// Where a move goes and with what probability: to its two sides with half of what `success_rate` leaves, and as
/// intended. The order decides what a random number means, so it is RAGEN's.
pub(super) fn outcomes(intended: Direction, success_rate: f64) -> [(Direction, f64); 3] {
    let aside = (1.0 - success_rate) / 2.0;
    [(intended.turned(3), aside), (intended, success_rate), (intended.turned(1), aside)]
}

/// The outcome that a number in `[0, 1)` picks: the first whose cumulative probability exceeds it. Rounding can leave
/// the sum just below 1; what lies above counts as the first, as in the original.
pub(super) fn pick(outcomes: [(Direction, f64); 3], uniform: f64) -> Direction {
    let mut cumulative = 0.0;
    for (direction, probability) in outcomes {
        cumulative += probability;
        if cumulative > uniform {
            return direction;
        }
    }
    outcomes[0].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_picks_left_of_the_way_then_the_way_then_right_of_it() {
        let down = outcomes(Direction::Down, 0.8);
        assert_eq!(pick(down, 0.0), Direction::Left);
        assert_eq!(pick(down, 0.0999), Direction::Left);
        assert_eq!(pick(down, 0.1), Direction::Down);
        assert_eq!(pick(down, 0.8999), Direction::Down);
        assert_eq!(pick(down, 0.9001), Direction::Right);
        assert_eq!(pick(outcomes(Direction::Left, 0.0), 0.2), Direction::Up);
        assert_eq!(pick(outcomes(Direction::Up, 1.0), 0.999_999), Direction::Up);
    }

    #[test]
    fn names_are_matched_whole_and_in_any_case() {
        assert_eq!(Direction::parse("down"), Some(Direction::Down));
        assert_eq!(Direction::parse("UP"), Some(Direction::Up));
        for other in ["", "Downwards", "go Down", "D"] {
            assert_eq!(Direction::parse(other), None);
        }
    }
}
