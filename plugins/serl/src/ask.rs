//! Asks for the teachers of a group's steps.

use accredit_plugin_api::prelude::*;

/// How many trained steps with a token have a teacher, and how many have none.
#[derive(Debug, Default)]
pub struct Asked {
    queries: usize,
    not_asked: usize,
}

impl Asked {
    /// Pushes the counts.
    pub fn report(&self, host: &Host) {
        host.metric("queries", self.queries as f64);
        host.metric("steps_not_asked", self.not_asked as f64);
    }
}

/// Asks about each step of a group that is trained and has a token, if `added` has something to add to its prompt.
pub fn ask(
    batch: &Batch<'_>,
    group: &Group<'_>,
    queries: &mut Queries,
    policy: &QueryPolicy,
    asked: &mut Asked,
    mut added: impl FnMut(&Trajectory<'_>, &Step) -> Result<Option<String>>,
) -> Result<()> {
    let trained = batch.get_optional(TRAINED);
    for trajectory in group.trajectories() {
        if trained.is_some_and(|trained| !trained[trajectory.index()]) {
            continue;
        }
        for step in trajectory.steps().filter(|step| !step.tokens().is_empty()) {
            let Some(added) = added(&trajectory, &step)? else {
                asked.not_asked += 1;
                continue;
            };
            asked.queries += 1;
            queries.push(Query {
                step: step.index(),
                added,
                target: None,
                policy: *policy,
                column: TEACHER_LOGPROB.name().to_owned(),
            });
        }
    }
    Ok(())
}
