//! # penalty
//!
//! Charges a step whose response does not keep to the rules: one with no action that the environment could execute (no
//! action tags, tags that are not closed, or a text that is no action), and on request one that is not in the format (no
//! text inside action tags, or no thinking). The environments here give pure rewards, so nothing is charged twice.
//!
//! **Formula**: step `t` costs `c_t = invalid_action [no executable action] + format [not in the format]`, and
//!
//! ```text
//! r'_t = r_t - c_t            when = "before"   before returns are formed
//! A'_k = A_k - c_t            when = "after"    after them, for the tokens k of step t
//! ```
//!
//! **Before or after returns**: before, the cost is a part of the step's reward (hook `shape`). It goes into the outcome and
//! into the returns of earlier steps, discounted like any reward, and whatever an estimator compares sees it. After, the
//! estimators see the environment's rewards alone, and the cost comes off what they gave to the step's own tokens (hook
//! `weigh`, in the order of the file): no other step and no other episode is charged for it.
//!
//! **Fidelity**: `"before"` is our reading of what RAGEN calls the format penalty (0.1 a turn in which an action is missing
//! or was dropped): RAGEN adds it to the episode's score, which is what this does to every scheme that reads `outcome`.
//! verl-agent's invalid-action penalty (0.1) comes off a step's return after discounting, and before returns are compared
//! in their group; `"after"` keeps its point, that earlier steps are not charged, and charges after the comparison. The
//! two differ by the mean of the costs in the group and, where an estimator divides by a deviation, by that factor.
//!
//! | parameter | default | what |
//! | --- | --- | --- |
//! | `invalid_action` | `0.1` | what a step costs whose action could not be executed; 0 or more |
//! | `format` | `0.0` | what a step costs, on top of that, whose response has no token inside action tags; 0 or more |
//! | `think` | `false` | a response without a token inside think tags is not in the format either |
//! | `when` | `"before"` | `"before"` returns are formed, or `"after"` |
//!
//! **Signals**: `valid_action`; with `format` above 0 the tokens' `kind`. **Metrics**: `invalid_ratio` and, with `format`
//! above 0, `format_ratio`: the shares of steps that are charged.
//!
//! **When it goes wrong**: a penalty as large as the task's reward teaches to answer in form and nothing else. In a
//! group whose episodes all fail, the penalty is the only difference, and a standard deviation in the estimator blows it
//! up to full size: the policy is then trained on form alone until some episode succeeds. `when = "after"` is not blown up.
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
//! params = { invalid_action = 0.1, format = 0.1 }
//!
//! [[credit]]
//! plugin = "grpo"
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::ops::Range;

use accredit_plugin_api::prelude::*;

choices! {
    /// When a step is charged.
    pub enum When {
        /// Before returns are formed: off its reward.
        Before = "before",
        /// After estimators formed and compared them: off the advantage of its tokens.
        After = "after",
    }
}

params! {
    /// Parameters of `penalty`.
    pub struct Params {
        /// What a step costs whose action could not be executed.
        #[range(0.0..)]
        invalid_action: f64 = 0.1,
        /// What a step costs, on top of that, whose response has no token inside action tags.
        #[range(0.0..)]
        format: f64 = 0.0,
        /// A response without a token inside think tags is not in the format either.
        think: bool = false,
        /// When a step is charged.
        when: When = When::Before,
    }
}

struct Penalty(Params);

impl Scheme for Penalty {
    type Params = Params;
    const NAME: &'static str = "penalty";
    const ABOUT: &'static str = "Charges a step without an executable action, or one that is not in the format.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self(params))
    }

    fn needs(&self) -> Needs {
        let (hook, reads) = match self.0.when {
            When::Before => (Hook::Shape, &[VALID_ACTION.any(), REWARD.any()][..]),
            When::After => (Hook::Weigh, &[VALID_ACTION.any()][..]),
        };
        Needs::hooks(&[hook]).reads(reads).reads_if(self.0.format > 0.0, &[KIND.any()])
    }

    fn shape(&mut self, batch: &Batch<'_>, rewards: &mut Rewards<'_>, context: &Context) -> Result<()> {
        self.charge(batch, context, |step, _, cost| {
            let reward = &mut rewards.reward[step];
            *reward = (f64::from(*reward) - cost) as f32;
        })
    }

    fn weigh(&mut self, batch: &Batch<'_>, credit: &mut Credit<'_>, context: &Context) -> Result<()> {
        self.charge(batch, context, |_, tokens, cost| {
            for advantage in &mut credit.advantage[tokens] {
                *advantage = (f64::from(*advantage) - cost) as f32;
            }
        })
    }
}

impl Penalty {
    /// Gives `take` each step that costs something, its tokens and the cost.
    fn charge(
        &self,
        batch: &Batch<'_>,
        context: &Context,
        mut take: impl FnMut(usize, Range<usize>, f64),
    ) -> Result<()> {
        let valid = batch.get(VALID_ACTION)?;
        let kinds = if self.0.format > 0.0 { Some(batch.get(KIND)?) } else { None };
        let (mut invalid, mut unformatted) = (0_usize, 0_usize);
        for step in batch.steps() {
            let mut cost = 0.0;
            if !valid[step.index()] {
                invalid += 1;
                cost += self.0.invalid_action;
            }
            if kinds.is_some_and(|kinds| !self.in_format(&kinds[step.tokens()])) {
                unformatted += 1;
                cost += self.0.format;
            }
            if cost > 0.0 {
                take(step.index(), step.tokens(), cost);
            }
        }
        let steps = valid.len().max(1) as f64;
        context.host.metric("invalid_ratio", invalid as f64 / steps);
        if kinds.is_some() {
            context.host.metric("format_ratio", unformatted as f64 / steps);
        }
        Ok(())
    }

    /// Whether a response's tokens hold what the format asks for.
    fn in_format(&self, kinds: &[u8]) -> bool {
        kinds.contains(&ACTION) && (!self.0.think || kinds.contains(&THINK))
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

    /// Steps: invalid with an action; valid; valid with an action alone; invalid and empty.
    fn batch() -> TestBatch {
        let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2, 2], &[1, 0]]]);
        batch.set(REWARD, vec![0.0, 1.0, 0.5, 0.0]).set(VALID_ACTION, vec![false, true, true, false]);
        batch.set(KIND, vec![FORMAT, ACTION, THINK, ACTION, ACTION]);
        batch
    }

    fn rewards(params: &str) -> Vec<f32> {
        let (rewards, token_rewards) = TestScheme::<Penalty>::new(params).unwrap().shape(&batch()).unwrap();
        assert_eq!(token_rewards, [0.0; 5]);
        rewards
    }

    #[test]
    fn steps_without_an_executable_action_are_charged_and_no_others() {
        take_metrics();
        assert_eq!(rewards(r#"{"invalid_action": 0.25}"#), [-0.25, 1.0, 0.5, -0.25]);
        let metrics = take_metrics();
        assert_eq!(metrics["invalid_ratio"], [(0.5, 1.0)]);
        assert!(!metrics.contains_key("format_ratio"));
    }

    #[test]
    fn what_is_not_in_the_format_costs_on_top() {
        let format = r#""invalid_action": 0.25, "format": 0.5"#;
        take_metrics();
        assert_eq!(rewards(&format!("{{{format}}}")), [-0.25, 1.0, 0.5, -0.75]);
        assert_eq!(take_metrics()["format_ratio"], [(0.25, 1.0)]);
        assert_eq!(rewards(&format!(r#"{{{format}, "think": true}}"#)), [-0.75, 1.0, 0.0, -0.75]);
    }

    #[test]
    fn after_returns_only_the_steps_own_tokens_are_charged() {
        let mut scheme = TestScheme::<Penalty>::new(r#"{"invalid_action": 0.25, "when": "after"}"#).unwrap();
        let (advantage, weight) = scheme.weigh(&batch(), vec![1.0, 1.0, 2.0, 2.0, -1.0]).unwrap();
        assert_eq!(advantage, [0.75, 0.75, 2.0, 2.0, -1.0]);
        assert_eq!(weight, [1.0; 5]);
        assert_eq!(scheme.needs().unwrap().hooks, [Hook::Weigh]);
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (params, key) in [
            (r#"{"invalid_action": -1}"#, "invalid_action"),
            (r#"{"format": -1}"#, "format"),
            (r#"{"when": 1}"#, "when"),
        ] {
            assert_eq!(TestScheme::<Penalty>::new(params).err().map(|e| e.location).as_deref(), Some(key));
        }
    }
}
