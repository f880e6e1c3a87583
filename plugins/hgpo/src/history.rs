//! Which steps of a group share their last states.

use accredit_plugin_api::prelude::*;
use accredit_steps::{Cells, Member};

/// Histories of a group's steps, made longer by one state at a time. A history of `k` states is the history of `k - 1`
/// states of the step before, and the step's own state; two numbers stand for it, however long it is.
#[derive(Default)]
pub struct Histories {
    cells: Cells,
    /// For each step of the group, a number for its history of the current length.
    ids: Vec<u32>,
    /// Number of states in a history.
    length: usize,
}

impl Histories {
    /// Starts a group, with histories of no state.
    pub fn start(&mut self, group: &Group<'_>) {
        self.ids.clear();
        self.ids.resize(group.step_range().len(), 0);
        self.length = 0;
    }

    /// Adds a state, and gives the steps with equal histories. Steps that have had too few states are in none.
    pub fn lengthen(&mut self, group: &Group<'_>, state: &[u32]) -> impl Iterator<Item = &[Member]> {
        let first = group.step_range().start;
        self.cells.clear();
        for trajectory in group.trajectories() {
            for step in trajectory.step_range().skip(self.length) {
                // A history of one state begins with nothing, also at a trajectory's first step.
                let before = if self.length == 0 { 0 } else { self.ids[step - 1 - first] };
                self.cells.push(u64::from(before) << 32 | u64::from(state[step]), step);
            }
        }
        self.length += 1;
        for (id, cell) in self.cells.sorted().enumerate() {
            for member in cell {
                self.ids[member.step() - first] = id as u32;
            }
        }
        self.cells.sorted()
    }
}
