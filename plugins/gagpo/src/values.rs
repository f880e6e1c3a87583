//! The table that stands for a critic: the mean return of each state of a group.

use std::ops::Range;

use accredit_plugin_api::prelude::*;
use accredit_steps::{Cells, Member, Responses};

/// Values of a group's states.
#[derive(Default)]
pub struct Values {
    cells: Cells,
    scores: Scores,
    /// Index of the group's first step.
    first: usize,
    /// For each step of the group, the value of its state.
    of_step: Vec<f64>,
    /// States that a step with a response starts from, in order, with their values.
    of_state: Vec<(u32, f64)>,
}

/// How often the states of a group are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visits {
    /// Steps with a response.
    pub steps: u32,
    /// Those whose state has no other.
    pub once: u32,
}

impl Values {
    /// Makes the table of a group's steps.
    pub fn tabulate(
        &mut self,
        steps: Range<usize>,
        state: &[u32],
        returns: &[f64],
        responses: Responses<'_>,
    ) -> Visits {
        self.first = steps.start;
        self.of_step.clear();
        self.of_step.extend_from_slice(&returns[steps.clone()]);
        self.of_state.clear();
        self.cells.clear();
        for step in steps {
            self.cells.push(u64::from(state[step]), step);
        }
        let mut visits = Visits { steps: 0, once: 0 };
        for cell in self.cells.sorted() {
            self.scores.clear();
            for step in cell.iter().map(Member::step).filter(|step| responses.has(*step)) {
                self.scores.push(returns[step], 1);
            }
            // Without a response from this state, each step's own return stands for the value.
            if let Some(spread) = self.scores.spread() {
                visits.steps += spread.count;
                visits.once += u32::from(spread.count == 1);
                self.of_state.push((cell[0].key() as u32, spread.mean));
                for member in cell {
                    self.of_step[member.step() - self.first] = spread.mean;
                }
            }
        }
        visits
    }

    /// The value of the state that a step of the group starts from.
    pub fn of_step(&self, step: usize) -> f64 {
        self.of_step[step - self.first]
    }

    /// The value of a state, if a step with a response starts from it.
    pub fn of_state(&self, state: u32) -> Option<f64> {
        let index = self.of_state.binary_search_by_key(&state, |entry| entry.0).ok()?;
        Some(self.of_state[index].1)
    }
}
