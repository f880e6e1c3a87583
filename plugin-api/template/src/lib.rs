//! `{{project-name}}`: each episode's reward minus its group's mean, on every token of the episode.
//!
//! ```toml
//! [[credit]]
//! plugin = "{{project-name}}"
//! params = { scale = 0.5 }
//! ```
#![forbid(unsafe_code)]

use accredit_plugin_api::prelude::*;

params! {
    /// Parameters of `{{project-name}}`.
    pub struct Params {
        /// Multiplies every advantage.
        #[range(0.0..)]
        scale: f64 = 1.0,
    }
}

struct {{project-name | pascal_case}}Scheme(Params);

impl Scheme for {{project-name | pascal_case}}Scheme {
    type Params = Params;
    const NAME: &'static str = "{{project-name}}";
    const ABOUT: &'static str = "The episode's reward minus its group's mean, on every token.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self(params))
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Advantage])
            .reads(&[OUTCOME.any()])
            .group_relative()
    }

    fn advantage(
        &mut self,
        batch: &Batch<'_>,
        out: &mut Advantages<'_>,
        context: &Context,
    ) -> Result<()> {
        let outcome = batch.get(OUTCOME)?;
        for group in batch.groups() {
            // Sums over sorted scores do not depend on the order of the episodes.
            let mut scores = Scores::default();
            for trajectory in group.trajectories() {
                scores.push(f64::from(outcome[trajectory.index()]), 1);
            }
            let mean = scores.spread().map_or(0.0, |spread| spread.mean as f32);
            for trajectory in group.trajectories() {
                let advantage = (outcome[trajectory.index()] - mean) * self.0.scale as f32;
                out.advantage[trajectory.tokens()].fill(advantage);
            }
            context.host.metric("group_mean", f64::from(mean));
        }
        Ok(())
    }
}

export_plugin!({{project-name | pascal_case}}Scheme);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::testing::{TestBatch, TestScheme};

    use super::*;

    #[test]
    fn advantages_are_outcomes_around_the_mean_of_their_group() {
        // Two groups. In the first, one episode has steps of 2 and 1 tokens and one has a step of 3; in the second, two
        // episodes have a step of 1 token each.
        let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2, 1], &[3]], &[&[1], &[1]]]);
        batch.set(OUTCOME, vec![1.0, 0.0, 0.5, 0.5]);
        let mut scheme = TestScheme::<{{project-name | pascal_case}}Scheme>::new(r#"{"scale": 2}"#).unwrap();
        assert_eq!(
            scheme.advantage(&batch).unwrap(),
            [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0, 0.0]
        );
    }

    #[test]
    fn a_scale_below_zero_is_refused() {
        let error = TestScheme::<{{project-name | pascal_case}}Scheme>::new(r#"{"scale": -1}"#).err();
        assert_eq!(error.map(|e| e.location).as_deref(), Some("scale"));
    }
}
