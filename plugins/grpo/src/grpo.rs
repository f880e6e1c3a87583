//! The scheme `grpo`.

use accredit_plugin_api::prelude::*;

use crate::group::{Buffers, Counting, Rules, Singleton, TokenRewards};

choices! {
    /// What counts once in the statistics of a group.
    pub enum Over {
        /// Every trajectory.
        Trajectories = "trajectories",
        /// Every row that has a response token.
        Rows = "rows",
        /// Every response token.
        Tokens = "tokens",
    }
}

params! {
    /// Parameters of `grpo`.
    pub struct Params {
        /// What counts once in the mean and the deviation of a group.
        over: Over = Over::Trajectories,
        /// Divide by the deviation; false is Dr. GRPO.
        std: bool = true,
        /// The sum of squares is divided by the number of entries less this: 1 the sample deviation, 0 the population's.
        #[range(0..=1)]
        ddof: u32 = 1,
        /// Added to the deviation.
        #[range(0.0..)]
        eps: f64 = 1e-6,
        /// The advantage of a group with one entry.
        singleton: Singleton = Singleton::Zero,
        /// What becomes of the rewards that `shape` gave to single tokens.
        token_rewards: TokenRewards = TokenRewards::Outcome,
    }
}

/// The scheme.
pub struct Grpo {
    params: Params,
    rules: Rules,
    buffers: Buffers,
}

impl Scheme for Grpo {
    type Params = Params;
    const NAME: &'static str = "grpo";
    const ABOUT: &'static str = "The episode's reward against its group's mean and deviation, on every token.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        let rules = Rules {
            counting: match params.over {
                Over::Trajectories => Counting::Trajectories,
                Over::Rows => Counting::Rows,
                Over::Tokens => Counting::Tokens,
            },
            singleton: params.singleton,
            token_rewards: params.token_rewards,
            // A group of one has deviation 1.
            singleton_scale: if params.std { 1.0 + params.eps } else { 1.0 },
        };
        Ok(Self { params, rules, buffers: Buffers::default() })
    }

    fn needs(&self) -> Needs {
        self.rules.needs()
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let Params { std, ddof, eps, .. } = self.params;
        let scale = |spread: &Spread| if std { spread.deviation(ddof) + eps } else { 1.0 };
        self.rules.compare(batch, out.advantage, &context.host, &mut self.buffers, scale)
    }
}
