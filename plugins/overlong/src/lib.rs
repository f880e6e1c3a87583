//! `overlong`: a penalty that grows as a response comes near its length limit (DAPO's soft overlong punishment).
//!
//! # What it does
//!
//! Up to a length nothing happens. In a buffer below the limit the penalty grows linearly, and at the limit it is whole. So
//! length is discouraged before answers are cut off, in place of a reward of 0 for an answer that was right so far.
//!
//! # The formula
//!
//! With `L` response tokens, `L_max` the limit and `B` the buffer,
//!
//! ```text
//! penalty = factor min(0, (L_max - B - L) / B)       Yu et al. 2025 (arXiv 2503.14476), equation 13
//! floor = true:  penalty = max(penalty, -factor)
//! ```
//!
//! It is added to the reward of the trajectory's last step, or with `over = "responses"` to that of each step, and so to the
//! outcome.
//!
//! # Fidelity
//!
//! With the floor equal to the paper's text and to OpenRLHF's code; without it to verl's recipe, where no length can lie
//! above the limit, so that the two differ only here. Lengths are response tokens; the environment's never count.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `max_length` | `20480` | tokens at which the penalty is whole; 1 or more |
//! | `buffer` | `4096` | tokens over which it grows; 1 to `max_length` |
//! | `factor` | `1.0` | the whole penalty |
//! | `floor` | `true` | above the limit the penalty grows no more |
//! | `over` | `"trajectories"` | whose tokens are counted: `"trajectories"`, or `"responses"`, each step by itself |
//!
//! The defaults are the paper's, for mathematics with a 32B model. Agents need far less: take the limit on new tokens of
//! a turn (times the limit of turns with `over = "trajectories"`), and a fifth of it as buffer.
//!
//! # What it needs
//!
//! `reward`; no signal of a model.
//!
//! # When it goes wrong
//!
//! - In a group whose episodes all fail the length is the only difference, and a deviation in the estimator blows it up to
//!   full size. A filter for groups without spread that looks at raw rewards keeps them out.
//! - A limit that episodes never come near does nothing: `overlong_ratio` is 0.
//!
//! # Metrics
//!
//! `overlong_ratio` (share of trajectories or responses with a penalty), `overlong_penalty` (its mean over all).
//!
//! # Example
//!
//! ```toml
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 1024
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [[credit]]
//! plugin = "overlong"
//! params = { max_length = 100, buffer = 20, over = "responses" }
//!
//! [[credit]]
//! plugin = "grpo"
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use accredit_plugin_api::prelude::*;

choices! {
    /// Whose tokens are counted.
    pub enum Over {
        /// All responses of a trajectory together.
        Trajectories = "trajectories",
        /// Each response by itself.
        Responses = "responses",
    }
}

params! {
    /// Parameters of `overlong`.
    pub struct Params {
        /// Tokens at which the penalty is whole.
        #[range(1..)]
        max_length: u32 = 20480,
        /// Tokens over which it grows.
        #[range(1..)]
        buffer: u32 = 4096,
        /// The whole penalty.
        #[range(0.0..)]
        factor: f64 = 1.0,
        /// Above the limit the penalty grows no more.
        floor: bool = true,
        /// Whose tokens are counted.
        over: Over = Over::Trajectories,
    }
}

struct Overlong(Params);

impl Scheme for Overlong {
    type Params = Params;
    const NAME: &'static str = "overlong";
    const ABOUT: &'static str = "A penalty that grows as a response comes near its length limit (DAPO).";

    fn new(params: Params, _host: Host) -> Result<Self> {
        if params.buffer > params.max_length {
            return Err(Error::parameter(
                "buffer",
                format!("`buffer` is {}; it must be at most `max_length`, {}", params.buffer, params.max_length),
            ));
        }
        Ok(Self(params))
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Shape]).reads(&[REWARD.any()])
    }

    fn shape(&mut self, batch: &Batch<'_>, rewards: &mut Rewards<'_>, context: &Context) -> Result<()> {
        let (mut counted, mut overlong, mut sum) = (0_usize, 0_usize, 0.0);
        let mut charge = |length: usize, step: usize| {
            let penalty = self.0.penalty(length);
            counted += 1;
            overlong += usize::from(penalty < 0.0);
            sum += penalty;
            rewards.reward[step] = (f64::from(rewards.reward[step]) + penalty) as f32;
        };
        match self.0.over {
            Over::Trajectories => {
                for trajectory in batch.trajectories() {
                    if let Some(last) = trajectory.step_range().last() {
                        charge(trajectory.tokens().len(), last);
                    }
                }
            }
            Over::Responses => {
                for step in batch.steps() {
                    charge(step.tokens().len(), step.index());
                }
            }
        }
        let all = counted.max(1) as f64;
        context.host.metric("overlong_ratio", overlong as f64 / all);
        context.host.metric("overlong_penalty", sum / all);
        Ok(())
    }
}

impl Params {
    /// What is added to the reward of so many tokens; 0 or less.
    fn penalty(&self, length: usize) -> f64 {
        let room = f64::from(self.max_length) - f64::from(self.buffer) - length as f64;
        let share = (room / f64::from(self.buffer)).min(0.0);
        self.factor * if self.floor { share.max(-1.0) } else { share }
    }
}

export_plugin!(Overlong);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme, take_metrics},
    };
    use proptest::prelude::*;

    use super::*;

    fn penalties(params: &str, lengths: &[usize]) -> Vec<f32> {
        let trajectories: Vec<[usize; 1]> = lengths.iter().map(|length| [*length]).collect();
        let group: Vec<&[usize]> = trajectories.iter().map(<[usize; 1]>::as_slice).collect();
        let batch = TestBatch::new(Layout::Trajectory, &[&group]);
        TestScheme::<Overlong>::new(params).unwrap().shape(&batch).unwrap().0
    }

    #[test]
    fn the_papers_lengths() {
        let lengths = [0, 16_384, 18_432, 20_480, 21_000];
        assert_eq!(penalties("{}", &lengths), [0.0, 0.0, -0.5, -1.0, -1.0]);
        let unbounded = penalties(r#"{"floor": false}"#, &lengths);
        assert_eq!(unbounded[..4], [0.0, 0.0, -0.5, -1.0]);
        assert!((unbounded[4] + 1.126_953).abs() < 1e-6, "{unbounded:?}");
        assert_eq!(penalties(r#"{"factor": 0.25}"#, &[18_432]), [-0.125]);
    }

    #[test]
    fn a_buffer_as_long_as_the_limit_starts_at_once() {
        assert_eq!(penalties(r#"{"max_length": 4, "buffer": 4}"#, &[0, 1, 4, 6]), [0.0, -0.25, -1.0, -1.0]);
    }

    #[test]
    fn a_trajectory_is_charged_once_and_responses_each() {
        let mut batch = TestBatch::new(Layout::Step, &[&[&[2, 4, 0], &[3]]]);
        batch.set(REWARD, vec![0.5, 0.0, 1.0, 0.0]);
        let of = |params: &str| TestScheme::<Overlong>::new(params).unwrap().shape(&batch).unwrap();
        take_metrics();
        let trajectories = of(r#"{"max_length": 6, "buffer": 4}"#);
        assert_eq!(trajectories, (vec![0.5, 0.0, 0.0, -0.25], vec![0.0; 9]));
        let metrics = take_metrics();
        assert_eq!((metrics["overlong_ratio"][0].0, metrics["overlong_penalty"][0].0), (1.0, -0.625));
        let responses = of(r#"{"max_length": 6, "buffer": 4, "over": "responses"}"#);
        assert_eq!(responses.0, [0.5, -0.5, 1.0, -0.25]);
        assert_eq!(take_metrics()["overlong_ratio"][0].0, 0.5);
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (params, key) in [
            (r#"{"buffer": 0}"#, "buffer"),
            (r#"{"max_length": 0}"#, "max_length"),
            (r#"{"max_length": 100}"#, "buffer"),
            (r#"{"factor": -1}"#, "factor"),
            (r#"{"over": "tokens"}"#, "over"),
        ] {
            assert_eq!(TestScheme::<Overlong>::new(params).err().map(|e| e.location).as_deref(), Some(key));
        }
    }

    proptest! {
        #[test]
        fn a_longer_response_never_gets_more(
            max_length in 1_u32..60,
            buffer_share in 0.01_f64..1.0,
            floor in any::<bool>(),
        ) {
            let buffer = (f64::from(max_length) * buffer_share).ceil() as u32;
            let params = format!(r#"{{"max_length": {max_length}, "buffer": {buffer}, "floor": {floor}}}"#);
            let lengths: Vec<usize> = (0..80).collect();
            let found = penalties(&params, &lengths);
            prop_assert!(found.windows(2).all(|pair| pair[0] >= pair[1]));
            prop_assert_eq!(found[(max_length - buffer) as usize], 0.0);
            prop_assert_eq!(found[max_length as usize], -1.0);
        }
    }
}
