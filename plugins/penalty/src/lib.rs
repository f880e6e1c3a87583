//! # penalty
//!
//! Takes something off the reward of a step whose response holds no action that the environment could execute: no action
//! tags, tags that are not closed, or a text that is no action. The environments here give pure rewards, so nothing is
//! charged twice.
//!
//! **Fidelity**: our reading of what RAGEN calls the format penalty (0.1 a turn in which an action is missing or was
//! dropped) and verl-agent the invalid-action penalty (coefficient 0.1). RAGEN adds it to the episode's score, which is
//! what this hook does to every scheme that reads `outcome`. verl-agent subtracts it from the step's return after
//! discounting; here it is a part of the step's reward, so it is discounted like any other.
//!
//! **Formula**: `r'_t = r_t - invalid_action * [the action of step t could not be executed]`.
//!
//! | parameter | default | what |
//! | --- | --- | --- |
//! | `invalid_action` | 0.1 | what such a step costs; 0 or more |
//!
//! **Signals**: `valid_action`, `reward`. **Hook**: `shape`. **Metric**: `invalid_ratio`, the share of steps that are
//! charged.
//!
//! **When it goes wrong**: a penalty as large as the task's reward teaches to answer in form and nothing else. In a
//! group whose episodes all fail, the penalty is the only difference, and a standard deviation in the estimator blows it
//! up to full size: the policy is then trained on form alone until some episode succeeds.
//!
//! ```toml
//! [environment]
//! name = "frozen-lake"
//!
//! [model.create]
//! hidden_size = 64
//! intermediate_size = 192
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 384
//! max_positions = 128
//!
//! [[credit]]
//! plugin = "penalty"
//! params = { invalid_action = 0.1 }
//!
//! [[credit]]
//! plugin = "grpo"
//! ```

use accredit_plugin_api::prelude::*;

params! {
    /// Parameters of `penalty`.
    pub struct Params {
        /// What a step costs whose action could not be executed.
        #[range(0.0..)]
        invalid_action: f64 = 0.1,
    }
}

struct Penalty {
    invalid_action: f32,
}

impl Scheme for Penalty {
    type Params = Params;
    const NAME: &'static str = "penalty";
    const ABOUT: &'static str = "Takes something off the reward of a step without an executable action.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { invalid_action: params.invalid_action as f32 })
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Shape]).reads(&[VALID_ACTION.any()])
    }

    fn shape(&mut self, batch: &Batch<'_>, rewards: &mut Rewards<'_>, context: &Context) -> Result<()> {
        let valid = batch.get(VALID_ACTION)?;
        for (reward, _) in rewards.reward.iter_mut().zip(valid).filter(|(_, valid)| !**valid) {
            *reward -= self.invalid_action;
        }
        let invalid = valid.iter().filter(|valid| !**valid).count();
        context.host.metric("invalid_ratio", invalid as f64 / valid.len().max(1) as f64);
        Ok(())
    }
}

export_plugin!(Penalty);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme, take_metrics},
    };

    use super::*;

    #[test]
    fn steps_without_an_executable_action_are_charged_and_no_others() {
        let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2, 1], &[3]]]);
        batch.set(REWARD, vec![0.0, 1.0, 0.5]).set(VALID_ACTION, vec![false, true, false]);
        let mut scheme = TestScheme::<Penalty>::new(r#"{"invalid_action": 0.25}"#).expect("it is made");
        let shaped = scheme.shape(&batch);
        assert_eq!(shaped, Ok((vec![-0.25, 1.0, 0.25], vec![0.0; 6])));
        assert_eq!(take_metrics().get("invalid_ratio"), Some(&vec![(2.0 / 3.0, 1.0)]));
    }

    #[test]
    fn a_negative_penalty_is_refused() {
        let error = TestScheme::<Penalty>::new(r#"{"invalid_action": -1}"#).err();
        assert_eq!(error.map(|e| e.location), Some("invalid_action".to_owned()));
    }
}
