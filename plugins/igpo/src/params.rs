//! The parameters.

use accredit_plugin_api::prelude::*;

choices! {
    /// What a turn adds to.
    pub enum Gain {
        /// The answer's probability, as the geometric mean over its tokens.
        Probability = "probability",
        /// The mean log-probability of its tokens.
        LogProbability = "log-probability",
    }
}

choices! {
    /// Which rewards are compared with each other.
    pub enum Normalise {
        /// Gains and outcomes together.
        Joint = "joint",
        /// Gains with gains, outcomes with outcomes.
        Separate = "separate",
    }
}

choices! {
    /// What is compared with each other.
    pub enum Over {
        /// All turns of the group.
        Group = "group",
        /// The turns of the group at the same position of their episodes; outcomes on their own are not cut by position.
        Position = "position",
    }
}

choices! {
    /// The advantage of a reward that has no other to compare with.
    pub enum Singleton {
        /// 0.
        Zero = "zero",
        /// Mean 0 and deviation 1: the reward itself.
        Raw = "raw",
    }
}

/// What stands for the answer in `target`.
pub const ANSWER_PLACE: &str = "{answer}";

params! {
    /// Parameters of `igpo`.
    pub struct Params {
        /// What a turn adds to.
        gain: Gain = Gain::Probability,
        /// Which rewards are compared with each other.
        normalise: Normalise = Normalise::Joint,
        /// What mean and deviation are taken over.
        over: Over = Over::Group,
        /// Divide by the deviation.
        std: bool = true,
        /// The sum of squares is divided by the number of rewards less this: 0 the population's variance, 1 the sample's.
        #[range(0..=1)]
        ddof: u32 = 0,
        /// Added to the variance, inside the root.
        #[range(0.0..)]
        variance_eps: f64 = 1e-8,
        /// Added to the deviation.
        #[range(0.0..)]
        eps: f64 = 1e-6,
        /// What the advantage of the turn after counts.
        #[range(0.0..=1.0)]
        gamma: f64 = 1.0,
        /// The advantage of a reward that has no other to compare with.
        singleton: Singleton = Singleton::Zero,
        /// The line that asks for the answer, appended to the prompt before each turn.
        instruction: String = "Enough is known. Say the final answer now, and nothing else.".to_owned(),
        /// What is scored; `{answer}` stands for the answer.
        target: String = ANSWER_PLACE.to_owned(),
    }
}
