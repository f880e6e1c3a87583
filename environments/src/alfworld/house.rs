//! Floor plans of houses that are made here: thirty of each kind of room, numbered as in ALFRED, where the first six
//! are for held-out tasks. No two plans of a room have the same receptacles.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use accredit_core::rng::{Purpose, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tables::Room;

/// How large houses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum House {
    /// About as many receptacles and objects as in the original's scenes.
    Full,
    /// At most two receptacles of a kind and a few objects: shorter texts and episodes.
    Small,
}

/// Plans of each kind of room, and those of them that only unseen tasks have.
const PLANS: u64 = 30;
const UNSEEN: u64 = 6;

/// How many plans are drawn for a number.
const DRAWS: u64 = 1000;

/// The probability that a receptacle is reached from the place of the one before it, if that is of its kind.
const SHARED: f64 = 0.25;

/// A room with its receptacles.
#[derive(Clone, Debug)]
pub(super) struct FloorPlan {
    /// Kind, number and place, in the order of lists: by kind, numbers running down.
    pub(super) receptacles: Vec<(&'static str, usize, usize)>,
    /// How many places there are, beside the one where the agent begins.
    pub(super) places: usize,
}

impl FloorPlan {
    /// A plan by its number; `draw` counts those that were drawn for it before and looked like another one.
    fn draw(room: Room, house: House, number: u64, draw: u64) -> Self {
        let stream = Stream::new(number, Purpose::Environment).with(room as u64).with(house as u64).with(draw);
        let mut plan = Self { receptacles: Vec::new(), places: 0 };
        for (position, &(kind, fewest, most)) in (0..).zip(room.receptacles()) {
            let (fewest, most) = if house == House::Small { (fewest.min(1), most.min(2)) } else { (fewest, most) };
            let count = fewest + stream.below(position, most - fewest + 1);
            for number in (1..=count).rev() {
                let shares = number < count && stream.with(position).uniform(number) < SHARED;
                plan.places += usize::from(!shares);
                plan.receptacles.push((kind, number as usize, plan.places - 1));
            }
        }
        plan
    }

    /// How many receptacles of each kind there are.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (kind, _, _) in &self.receptacles {
            *counts.entry(*kind).or_insert(0) += 1;
        }
        counts
    }
}

/// The plans of a room: those of held-out tasks in rooms that were never seen, or all others.
pub(super) fn plans(room: Room, house: House, unseen: bool) -> &'static [FloorPlan] {
    static FULL: LazyLock<Vec<Vec<FloorPlan>>> = LazyLock::new(|| draw(House::Full));
    static SMALL: LazyLock<Vec<Vec<FloorPlan>>> = LazyLock::new(|| draw(House::Small));
    let rooms = match house {
        House::Full => &FULL,
        House::Small => &SMALL,
    };
    let (first, others) = rooms[room as usize].split_at(UNSEEN as usize);
    if unseen { first } else { others }
}

fn draw(house: House) -> Vec<Vec<FloorPlan>> {
    let plans = |room: Room| {
        let mut met = HashSet::new();
        let plan = |number: u64| {
            let mut draws = (0..DRAWS).map(|draw| FloorPlan::draw(room, house, number, draw));
            draws.find(|plan| met.insert(plan.counts())).expect("a room has far more than thirty different plans")
        };
        (1..=PLANS).map(plan).collect()
    };
    Room::ALL.into_iter().map(plans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_of_a_room_differ_in_what_is_there() {
        for house in [House::Full, House::Small] {
            for room in Room::ALL {
                let (unseen, seen) = (plans(room, house, true), plans(room, house, false));
                assert_eq!((unseen.len(), seen.len()), (6, 24));
                let counts: HashSet<_> = unseen.iter().chain(seen).map(FloorPlan::counts).collect();
                assert_eq!(counts.len(), 30);
                for plan in unseen.iter().chain(seen) {
                    let kinds: Vec<&str> = plan.receptacles.iter().map(|(kind, _, _)| *kind).collect();
                    assert!(kinds.is_sorted() && plan.receptacles.iter().all(|(_, _, place)| *place < plan.places));
                }
            }
        }
    }
}
