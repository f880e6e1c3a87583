//! Which steps of a group share their last states.

use accredit_plugin_api::prelude::*;
use accredit_steps::{Cells, Member};

/// Histories of a group's steps, made longer by one state at a time. A history of `k` states is that of `k - 1` states,
/// and the one of the step before; two numbers stand for it, however long it is.
#[derive(Default)]
pub struct Histories {
    cells: Cells,
    /// For each step of the group, a number for its history of the current length.
    ids: Vec<u32>,
    /// For each step of the group, its place in its trajectory.
    places: Vec<u32>,
    /// Number of states in a history.
    length: u32,
}

impl Histories {
    /// Starts a group, with histories of no state.
    pub fn start(&mut self, group: &Group<'_>) {
        self.ids.clear();
        self.ids.resize(group.step_range().len(), 0);
        self.places.clear();
        self.places.extend(group.trajectories().flat_map(|trajectory| 0..trajectory.step_range().len() as u32));
        self.cells.clear();
        self.length = 0;
    }

    /// Adds a state, and gives the steps with equal histories. Steps that have had too few states are in none.
    pub fn lengthen(&mut self, group: &Group<'_>, state: &[u32]) -> impl Iterator<Item = &[Member]> {
        let Self { cells, ids, places, length } = self;
        let first = group.step_range().start;
        if *length == 0 {
            group.step_range().for_each(|step| cells.push(u64::from(state[step]), step));
            cells.sort();
        } else {
            // Steps of one cell are next to each other, so that only those are sorted.
            let number = |member: &Member| ids[member.step() - first];
            cells.split(
                |member| places[member.step() - first] >= *length,
                |member| [number(member), ids[member.step() - 1 - first]],
            );
        }
        *length += 1;
        for (id, cell) in cells.cells().enumerate() {
            for member in cell {
                ids[member.step() - first] = id as u32;
            }
        }
        cells.cells()
    }
}
