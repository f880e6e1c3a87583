//! Scores against the mean of those that they are compared with.

use accredit_plugin_api::prelude::*;

choices! {
    /// Whether scores are divided by their deviation.
    pub enum Mode {
        /// The score minus the mean.
        MeanNorm = "mean_norm",
        /// That, divided by the standard deviation.
        MeanStdNorm = "mean_std_norm",
    }
}

choices! {
    /// What counts once in the statistics of a group's outcomes.
    pub enum Over {
        /// Every row that has a response token.
        Rows = "rows",
        /// Every trajectory.
        Trajectories = "trajectories",
    }
}

choices! {
    /// The advantage where there is one entry to compare.
    pub enum Singleton {
        /// 0.
        Zero = "zero",
        /// Mean 0 and deviation 1: the score itself.
        Raw = "raw",
    }
}

/// What is taken off a score, and what the rest is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Baseline {
    /// Nothing to compare: 0 for all.
    Flat,
    /// `(score - mean) / scale`.
    Spread {
        /// What is taken off.
        mean: f64,
        /// Above 0.
        scale: f64,
    },
}

impl Baseline {
    /// The advantage of a score.
    pub fn advantage(self, score: f64) -> f64 {
        match self {
            Self::Flat => 0.0,
            Self::Spread { mean, scale } => (score - mean) / scale,
        }
    }
}

/// How scores are compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Whether they are divided by their deviation.
    pub mode: Mode,
    /// The sum of squares is divided by the number of scores less this.
    pub ddof: u32,
    /// Added to the deviation.
    pub eps: f64,
}

impl Comparison {
    /// The baseline of scores. Equal ones, one alone, and those that are too close for 64 bits, have nothing to compare.
    pub fn of(&self, spread: Option<Spread>) -> Baseline {
        let Some(spread) = spread.filter(|spread| !spread.all_equal) else {
            return Baseline::Flat;
        };
        let scale = match self.mode {
            Mode::MeanNorm => 1.0,
            Mode::MeanStdNorm => spread.deviation(self.ddof) + self.eps,
        };
        if scale > 0.0 { Baseline::Spread { mean: spread.mean, scale } } else { Baseline::Flat }
    }

    /// The baseline of a group's scores, which is counted. One entry alone has its own rule.
    pub fn of_group(&self, spread: Option<Spread>, singleton: Singleton, counts: &mut Counts) -> Baseline {
        counts.groups += 1;
        let single = spread.is_some_and(|spread| spread.count == 1);
        counts.singleton += u32::from(single);
        counts.without_spread += u32::from(!single && spread.is_some_and(|spread| spread.all_equal));
        match singleton {
            Singleton::Raw if single => {
                let scale = match self.mode {
                    Mode::MeanNorm => 1.0,
                    Mode::MeanStdNorm => 1.0 + self.eps,
                };
                Baseline::Spread { mean: 0.0, scale }
            }
            _ => self.of(spread),
        }
    }
}

/// How often each trajectory's outcome counts.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Each row that has a response token is one entry, and a row is a step.
    by_step: bool,
}

impl Entries {
    /// Those of a batch. Where a row is a trajectory, the two ways to count are one.
    pub fn of(batch: &Batch<'_>, over: Over) -> Self {
        Self { by_step: over == Over::Rows && batch.layout() == Layout::Step }
    }

    /// How often this trajectory counts. One without a response token never gets here.
    pub fn count(self, trajectory: &Trajectory<'_>) -> u32 {
        if self.by_step { trajectory.steps().filter(|step| !step.tokens().is_empty()).count() as u32 } else { 1 }
    }
}

/// Kinds of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub groups: u32,
    /// Those with one entry.
    pub singleton: u32,
    /// Those with several entries that are all equal.
    pub without_spread: u32,
}

impl Counts {
    /// Pushes `groups`, `groups_singleton` and `groups_without_spread`.
    pub fn report(&self, host: &Host) {
        host.metric("groups", f64::from(self.groups));
        host.metric("groups_singleton", f64::from(self.singleton));
        host.metric("groups_without_spread", f64::from(self.without_spread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(scores: &[f64]) -> Option<Spread> {
        let mut all = Scores::default();
        for score in scores {
            all.push(*score, 1);
        }
        all.spread()
    }

    const BY_DEVIATION: Comparison = Comparison { mode: Mode::MeanStdNorm, ddof: 0, eps: 0.5 };

    #[test]
    fn scores_are_compared_with_their_mean() {
        let baseline = BY_DEVIATION.of(spread(&[1.0, 3.0]));
        assert_eq!(baseline, Baseline::Spread { mean: 2.0, scale: 1.5 });
        assert_eq!(baseline.advantage(3.5), 1.0);
        let comparison = Comparison { mode: Mode::MeanNorm, ..BY_DEVIATION };
        assert_eq!(comparison.of(spread(&[1.0, 3.0])).advantage(3.5), 1.5);
    }

    #[test]
    fn what_cannot_be_compared_is_flat() {
        let no_eps = Comparison { eps: 0.0, ..BY_DEVIATION };
        // The squares of the last two are too small for a number.
        for scores in [&[][..], &[4.0], &[0.1; 10], &[1e-200, 2e-200]] {
            assert_eq!(no_eps.of(spread(scores)), Baseline::Flat, "{scores:?}");
        }
    }

    #[test]
    fn groups_are_counted_and_one_entry_has_its_rule() {
        let mut counts = Counts::default();
        let mut of = |scores: &[f64], singleton| BY_DEVIATION.of_group(spread(scores), singleton, &mut counts);
        assert_eq!(of(&[3.0], Singleton::Raw).advantage(3.0), 2.0);
        assert_eq!(of(&[3.0], Singleton::Zero), Baseline::Flat);
        assert_eq!(of(&[3.0, 3.0], Singleton::Raw), Baseline::Flat);
        assert_eq!(of(&[], Singleton::Raw), Baseline::Flat);
        assert_eq!(counts, Counts { groups: 4, singleton: 2, without_spread: 1 });
    }
}
