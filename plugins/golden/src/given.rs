//! `given`: advantages, and on request value targets, as they stand in the rollouts.
//!
//! It is for comparing an objective with golden numbers whose advantages come from a scheme that is not under test, so it
//! does not ship.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use accredit_plugin_api::prelude::*;

params! {
    /// Parameters of `given`.
    pub struct Params {
        /// Hand on value targets as well.
        value_target: bool = false,
    }
}

const GIVEN_ADVANTAGE: Column<f32> = Column::named("given_advantage", Level::Token);
const GIVEN_VALUE_TARGET: Column<f32> = Column::named("given_value_target", Level::Token);

/// The scheme.
pub struct Given(Params);

impl Scheme for Given {
    type Params = Params;
    const NAME: &'static str = "given";
    const ABOUT: &'static str = "Advantages and value targets as they stand in the rollouts.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self(params))
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Advantage]).reads(&[GIVEN_ADVANTAGE.any()]);
        if self.0.value_target { needs.reads(&[GIVEN_VALUE_TARGET.any()]).value_target() } else { needs }
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, _context: &Context) -> Result<()> {
        out.advantage.copy_from_slice(batch.get(GIVEN_ADVANTAGE)?);
        if self.0.value_target {
            let Some(targets) = out.value_target.as_deref_mut() else {
                fail!("this host offers no output `value_target`");
            };
            targets.copy_from_slice(batch.get(GIVEN_VALUE_TARGET)?);
        }
        Ok(())
    }
}

export_plugin!(Given);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme},
    };

    use super::*;

    #[test]
    fn what_is_given_is_handed_on() {
        let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2]]]);
        batch.set(GIVEN_ADVANTAGE, vec![1.0, -2.0]);
        batch.set(GIVEN_VALUE_TARGET, vec![0.5, 0.25]);
        let found = |params| {
            let mut scheme = TestScheme::<Given>::new(params).unwrap();
            scheme.advantage_and_targets(&batch).unwrap()
        };
        assert_eq!(found("{}").0, [1.0, -2.0]);
        assert!(found("{}").1.iter().all(|target| target.is_nan()));
        assert_eq!(found(r#"{"value_target": true}"#).1, [0.5, 0.25]);
    }
}
