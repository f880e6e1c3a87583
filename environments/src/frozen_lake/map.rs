//! Maps: made from a seed as RAGEN makes them, or gymnasium's fixed one; and distances on them.

use std::collections::VecDeque;

use super::motion::Direction;
use crate::numpy_random::Pcg64;

/// What a cell is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Floor,
    Hole,
    Goal,
}

/// A square map; places are indices of cells in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// Cells along a side.
    pub(super) size: usize,
    /// All cells, `size * size`.
    pub(super) cells: Vec<Cell>,
    /// Where the agent starts.
    pub(super) start: usize,
    /// Where it should go.
    pub(super) goal: usize,
}

/// How many cells are drawn before a seed counts as one without a map: 100,000 maps of RAGEN's size, fewer larger ones.
const CELLS: usize = 1_600_000;

/// What was drawn where no map fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfits {
    /// How many maps.
    pub(super) draws: usize,
    /// The most moves from a start to its goal; none if no goal could be reached.
    pub(super) farthest: Option<usize>,
}

impl Map {
    /// The first map of this seed's stream whose goal is at least `min_distance` moves from its start, if one is among
    /// those that are drawn. With `min_distance` 1 that is RAGEN's map of the seed.
    pub(super) fn random(seed: u64, size: usize, p_frozen: f64, min_distance: usize) -> Result<Self, Misfits> {
        let mut stream = Pcg64::new(seed);
        let draws = CELLS.div_ceil(size * size);
        let mut farthest = None;
        for _ in 0..draws {
            let map = Self::draw(&mut stream, size, p_frozen);
            let distance = map.distances()[map.start];
            if distance.is_some_and(|distance| distance >= min_distance) {
                return Ok(map);
            }
            farthest = farthest.max(distance);
        }
        Err(Misfits { draws, farthest })
    }

    /// One map, reachable or not.
    fn draw(stream: &mut Pcg64, size: usize, p_frozen: f64) -> Self {
        let mut cells: Vec<Cell> = (0..size * size)
            .map(|_| if stream.is_first([p_frozen, 1.0 - p_frozen]) { Cell::Floor } else { Cell::Hole })
            .collect();
        let mut place = || {
            let row = stream.below(size as u32) as usize;
            row * size + stream.below(size as u32) as usize
        };
        let (start, goal) = (place(), place());
        cells[start] = Cell::Floor;
        cells[goal] = Cell::Goal;
        Self { size, cells, start, goal }
    }

    /// The fixed 4x4 map of gymnasium.
    pub(super) fn gym() -> Self {
        let cells = "FFFFFHFHFFFHHFFG"
            .chars()
            .map(|letter| match letter {
                'H' => Cell::Hole,
                'G' => Cell::Goal,
                _ => Cell::Floor,
            })
            .collect();
        Self { size: 4, cells, start: 0, goal: 15 }
    }

    /// Row and column of a place, from the top left.
    pub(super) fn position(&self, place: usize) -> (usize, usize) {
        (place / self.size, place % self.size)
    }

    /// The place beside this one; none at the edge.
    pub(super) fn neighbour(&self, place: usize, direction: Direction) -> Option<usize> {
        let (row, column) = self.position(place);
        match direction {
            Direction::Left => (column > 0).then(|| place - 1),
            Direction::Down => (row + 1 < self.size).then(|| place + self.size),
            Direction::Right => (column + 1 < self.size).then(|| place + 1),
            Direction::Up => (row > 0).then(|| place - self.size),
        }
    }

    /// Fewest moves from each place to the goal around the holes, on ice that is not slippery; none for holes and for
    /// places that are cut off.
    pub(super) fn distances(&self) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.cells.len()];
        distances[self.goal] = Some(0);
        let mut frontier = VecDeque::from([(self.goal, 0)]);
        while let Some((place, distance)) = frontier.pop_front() {
            for next in Direction::ALL.into_iter().filter_map(|direction| self.neighbour(place, direction)) {
                if distances[next].is_none() && self.cells[next] != Cell::Hole {
                    distances[next] = Some(distance + 1);
                    frontier.push_back((next, distance + 1));
                }
            }
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Distances by Bellman-Ford, which shares nothing with the search.
    fn relaxed(map: &Map) -> Vec<Option<usize>> {
        let mut distances = vec![None; map.cells.len()];
        distances[map.goal] = Some(0);
        for _ in 0..map.cells.len() {
            for place in 0..map.cells.len() {
                if map.cells[place] == Cell::Floor {
                    let ways = Direction::ALL.into_iter().filter_map(|way| distances[map.neighbour(place, way)?]);
                    distances[place] = ways.min().map(|distance: usize| distance + 1);
                }
            }
        }
        distances
    }

    #[test]
    fn distances_on_the_gym_map() {
        let distances = Map::gym().distances();
        let none = None::<usize>;
        let row = |row: usize| distances[4 * row..4 * row + 4].to_vec();
        assert_eq!(row(0), [Some(6), Some(5), Some(4), Some(5)]);
        assert_eq!(row(1), [Some(5), none, Some(3), none]);
        assert_eq!(row(2), [Some(4), Some(3), Some(2), none]);
        assert_eq!(row(3), [none, Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn a_seed_without_a_map_ends() {
        assert_eq!(Map::random(1, 4, 0.0, 2), Err(Misfits { draws: 100_000, farthest: Some(1) }));
        assert!(Map::random(1, 4, 0.0, 1).is_ok());
        let Misfits { draws, farthest } = Map::random(1, 64, 0.9, 126).unwrap_err();
        assert!(draws == 391 && farthest.is_some_and(|farthest| (60..126).contains(&farthest)), "{farthest:?}");
    }

    proptest! {
        #[test]
        fn maps_are_solvable_at_the_distance_that_was_asked_for(
            seed: u64,
            size in 2_usize..9,
            p_frozen in 0.5..1.0_f64,
            far in 0.0..1.0_f64,
        ) {
            let min_distance = 1 + (far * (size - 1) as f64) as usize;
            let map = Map::random(seed, size, p_frozen, min_distance).unwrap();
            prop_assert_eq!(map.distances(), relaxed(&map));
            prop_assert!(map.distances()[map.start].unwrap() >= min_distance);
            prop_assert_eq!(map.cells.iter().filter(|cell| **cell == Cell::Goal).count(), 1);
            prop_assert_eq!(map.cells[map.start], Cell::Floor);
        }
    }
}
