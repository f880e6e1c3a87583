//! The scheme `rloo`.

use accredit_plugin_api::prelude::*;

use crate::group::{Buffers, Counting, Rules, Singleton, TokenRewards};

choices! {
    /// What is left out of the baseline, and counts once in it.
    pub enum Over {
        /// A trajectory.
        Trajectories = "trajectories",
        /// A row that has a response token.
        Rows = "rows",
    }
}

params! {
    /// Parameters of `rloo`.
    pub struct Params {
        /// What is left out of the baseline, and counts once in it.
        over: Over = Over::Trajectories,
        /// The advantage of a group with one entry.
        singleton: Singleton = Singleton::Zero,
        /// What becomes of the rewards that `shape` gave to single tokens.
        token_rewards: TokenRewards = TokenRewards::Outcome,
    }
}

/// The scheme.
pub struct Rloo {
    rules: Rules,
    buffers: Buffers,
}

impl Scheme for Rloo {
    type Params = Params;
    const NAME: &'static str = "rloo";
    const ABOUT: &'static str = "The episode's reward against the mean of its group's other episodes, on every token.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        let rules = Rules {
            counting: match params.over {
                Over::Trajectories => Counting::Trajectories,
                Over::Rows => Counting::Rows,
            },
            singleton: params.singleton,
            token_rewards: params.token_rewards,
            singleton_scale: 1.0,
        };
        Ok(Self { rules, buffers: Buffers::default() })
    }

    fn needs(&self) -> Needs {
        self.rules.needs()
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        // The distance from the others' mean is that from the whole mean, n / (n - 1) times.
        let scale = |spread: &Spread| f64::from(spread.count - 1) / f64::from(spread.count);
        self.rules.compare(batch, out.advantage, &context.host, &mut self.buffers, scale)
    }
}
