//! The scripted expert: what it thinks, and how it chooses.

use std::cmp::Ordering;

use accredit_core::rng::{Purpose, Stream};

use super::map::{Cell, Map};
use super::motion::{Direction, outcomes};
use super::view;

/// What the expert reads off the map before it moves: where the goal lies, vertically and horizontally, and what the
/// four cells around it are. A policy that writes these words has what it needs to choose.
pub(super) fn think(map: &Map, place: usize) -> String {
    let (row, column) = map.position(place);
    let (goal_row, goal_column) = map.position(map.goal);
    let word = |direction: Direction| direction.name().to_lowercase();
    let toward = |here: usize, there: usize, less: Direction, more: Direction| match there.cmp(&here) {
        Ordering::Less => Some(word(less)),
        Ordering::Equal => None,
        Ordering::Greater => Some(word(more)),
    };
    let goal: Vec<String> = ["goal".to_owned()]
        .into_iter()
        .chain(toward(row, goal_row, Direction::Up, Direction::Down))
        .chain(toward(column, goal_column, Direction::Left, Direction::Right))
        .collect();
    let around = Direction::ALL.map(|direction| {
        let cell = match map.neighbour(place, direction).map(|next| map.cells[next]) {
            None => "edge",
            Some(Cell::Floor) => "floor",
            Some(Cell::Hole) => "hole",
            Some(Cell::Goal) => "goal",
        };
        format!("{} {cell}", word(direction))
    });
    format!("{}; {}", goal.join(" "), around.join(", "))
}

/// What the expert knows about a map.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    success_rate: f64,
    /// Moves from each place to the goal, [`Map::distances`].
    distances: Vec<Option<usize>>,
    /// `chances[left][place]`: the best probability of reaching the goal from `place` with `left` actions left. Empty
    /// on ice that is not slippery, where distances say it all.
    chances: Vec<Vec<f64>>,
}

impl Plan {
    /// Plans for a map: breadth-first search from the goal, and on slippery ice the value iteration of a finite horizon
    /// over `horizon` actions as well.
    pub(super) fn new(map: &Map, success_rate: f64, horizon: usize) -> Self {
        let mut plan = Self { success_rate, distances: map.distances(), chances: Vec::new() };
        if success_rate < 1.0 {
            let at = |place: usize| f64::from(u8::from(map.cells[place] == Cell::Goal));
            plan.chances.push((0..map.cells.len()).map(at).collect());
            for left in 1..=horizon {
                let chance = |place: usize| match map.cells[place] {
                    Cell::Floor => {
                        let ways = Direction::ALL.map(|direction| plan.chance(map, place, direction, left));
                        ways.into_iter().fold(0.0, f64::max)
                    }
                    Cell::Hole | Cell::Goal => at(place),
                };
                let next = (0..map.cells.len()).map(chance).collect();
                plan.chances.push(next);
            }
        }
        plan
    }

    /// The probability of reaching the goal with `left` actions left, if the next one is `direction`.
    fn chance(&self, map: &Map, place: usize, direction: Direction, left: usize) -> f64 {
        let after = &self.chances[left - 1];
        let ways = outcomes(direction, self.success_rate);
        ways.iter().map(|(way, probability)| probability * after[map.neighbour(place, *way).unwrap_or(place)]).sum()
    }

    /// The best move from `place` once `used` actions are played. Where the goal is out of reach of what is left of the
    /// horizon, it is the way that would be shortest on ice that is not slippery. Equally good moves are taken in an
    /// order that a hash of the state gives, so that no direction is preferred.
    pub(super) fn best(&self, map: &Map, place: usize, used: usize) -> Direction {
        let key = view::grid(map, place);
        let hash = key.bytes().fold(Stream::new(0, Purpose::Environment), |hash, byte| hash.with(byte.into()));
        let mut directions = Direction::ALL;
        hash.shuffle(&mut directions);
        let left = self.chances.len().saturating_sub(1 + used);
        // Equal chances come out of sums in different orders, so they differ in their last bits.
        let rounded = |chance: f64| (chance * 1e12).round();
        if left > 0 && rounded(self.chances[left][place]) > 0.0 {
            best_of(directions, |direction| rounded(self.chance(map, place, direction, left)))
        } else {
            best_of(directions, |direction| {
                let next = map.neighbour(place, direction).and_then(|next| self.distances[next]);
                next.map_or(f64::NEG_INFINITY, |distance| -(distance as f64))
            })
        }
    }
}

/// The first of the directions with the highest score.
fn best_of(directions: [Direction; 4], score: impl Fn(Direction) -> f64) -> Direction {
    let scored = directions.map(|direction| (direction, score(direction)));
    scored
        .into_iter()
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
        .map_or(directions[0], |best| best.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frozen_lake::motion::pick;
    use crate::numpy_random::Pcg64;

    #[test]
    fn thinking_names_the_goals_direction_and_the_cells_around() {
        let map = Map::gym();
        assert_eq!(think(&map, 0), "goal down right; left edge, down floor, right floor, up edge");
        assert_eq!(think(&map, 10), "goal down right; left floor, down floor, right hole, up floor");
        assert_eq!(think(&map, 14), "goal right; left floor, down edge, right goal, up floor");
    }

    #[test]
    fn on_slippery_ice_the_expert_turns_away_from_holes() {
        // With a hole on the right, Down may slip into it; Left never does, and slips Down in time.
        let map = Map::gym();
        let plan = Plan::new(&map, 0.8, 30);
        assert_eq!(plan.best(&map, 4, 0), Direction::Left);
        assert_eq!(Plan::new(&map, 1.0, 30).best(&map, 4, 0), Direction::Down);
    }

    #[test]
    fn the_best_success_rate_is_the_known_ceiling_and_the_expert_reaches_it() {
        // An independent dynamic program over RAGEN's maps (4x4, 10 % holes, 10 actions) gives 95.4 %.
        let (mut expected, mut wins) = (0.0, 0.0);
        for seed in 10_000..11_000 {
            let map = Map::random(seed, 4, 0.9, 1).unwrap();
            let plan = Plan::new(&map, 0.8, 10);
            expected += plan.chances[10][map.start];
            // Slips that have nothing to do with the map.
            let mut ice = Pcg64::new(seed + 1_000_000);
            let mut place = map.start;
            for used in 0..10 {
                let actual = pick(outcomes(plan.best(&map, place, used), 0.8), ice.uniform());
                place = map.neighbour(place, actual).unwrap_or(place);
                if map.cells[place] != Cell::Floor {
                    break;
                }
            }
            wins += f64::from(u8::from(place == map.goal));
        }
        assert!((952.5..955.5).contains(&expected), "{expected} of 1000");
        // The standard deviation of the wins is 6.
        assert!((wins - expected).abs() < 18.0, "{wins} of 1000, where {expected} are expected");
    }

    proptest! {
        #[test]
        fn without_slipping_the_expert_takes_a_shortest_way(seed: u64, size in 2_usize..9, p_frozen in 0.5..1.0_f64) {
            let map = Map::random(seed, size, p_frozen, 1).unwrap();
            let plan = Plan::new(&map, 1.0, 10);
            let mut place = map.start;
            for used in 0..map.distances()[map.start].unwrap() {
                place = map.neighbour(place, plan.best(&map, place, used)).unwrap();
            }
            prop_assert_eq!(place, map.goal);
        }

        #[test]
        fn chances_grow_with_the_actions_left(seed: u64, success_rate in 0.3..0.99_f64) {
            let map = Map::random(seed, 4, 0.8, 1).unwrap();
            let plan = Plan::new(&map, success_rate, 12);
            for pair in plan.chances.windows(2) {
                for (fewer, more) in pair[0].iter().zip(&pair[1]) {
                    prop_assert!((0.0..=1.0 + 1e-12).contains(more) && *more >= fewer - 1e-12);
                }
            }
        }
    }
}
