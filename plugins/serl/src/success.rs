//! Successful episodes of a group, as hindsight for the others.

use accredit_plugin_api::{AnyColumn, prelude::*};

use crate::text::Show;

/// The successful episodes of one group, best first: the fewest steps, then the smallest text. That order, and not the
/// order in which they were played, decides, so that the choice does not depend on it.
#[derive(Debug, Default)]
pub struct Successes {
    list: Vec<Success>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Success {
    steps: usize,
    shown: String,
    trajectory: usize,
}

impl Successes {
    /// The columns that it reads.
    pub fn reads(show: &Show) -> Vec<AnyColumn> {
        let mut columns = vec![SUCCESS.any()];
        columns.extend(show.reads());
        columns
    }

    /// The successful episodes of a group of which there is something to show.
    pub fn of(batch: &Batch<'_>, group: &Group<'_>, show: &Show) -> Result<Self> {
        let success = batch.get(SUCCESS)?;
        let mut list = Vec::new();
        for trajectory in group.trajectories().filter(|trajectory| success[trajectory.index()]) {
            let steps = trajectory.step_range();
            let shown = show.steps(batch, steps.start, steps.clone())?;
            if !shown.is_empty() {
                list.push(Success { steps: steps.len(), shown, trajectory: trajectory.index() });
            }
        }
        list.sort_unstable();
        Ok(Self { list })
    }

    /// The best of them that is another trajectory than this one.
    pub fn other_than(&self, trajectory: usize) -> Option<&str> {
        self.list.iter().find(|success| success.trajectory != trajectory).map(|success| success.shown.as_str())
    }
}
