//! A distillation term: the tokens of some kinds are pulled towards what a teacher, whose log-probabilities stand in a
//! column, thinks of them.

use accredit_plugin_api::prelude::*;

choices! {
    /// Which tokens are distilled.
    pub enum Kinds {
        /// All.
        All = "all",
        /// What is executed.
        Action = "action",
        /// Reasoning.
        Think = "think",
        /// Tags and separators.
        Format = "format",
    }
}

/// The term and where its teacher stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Distillation {
    /// Its factor in the loss.
    pub coefficient: f64,
    /// The teacher's column.
    pub column: String,
    /// Which tokens it is over.
    pub kinds: Kinds,
}

impl Distillation {
    /// The tokens that it is a mean over: those of its kinds that have a teacher.
    pub fn part(&self) -> Part {
        let kinds = match self.kinds {
            Kinds::All => Vec::new(),
            Kinds::Action => vec![ACTION],
            Kinds::Think => vec![THINK],
            Kinds::Format => vec![FORMAT],
        };
        Part { kinds, column: Some(self.column.clone()) }
    }

    /// The mean of `sg(new - teacher) * new` over its tokens: its share in the loss; adds its derivatives. `sg` holds the
    /// factor constant, so the derivative is that of the reverse divergence, estimated from the sampled token.
    pub fn add(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let new = batch.get(NEW_LOGPROB)?;
        let teacher = batch.get_named::<f32>(&self.column)?;
        let part = self.part();
        let kind = if part.kinds.is_empty() { None } else { Some(batch.get(KIND)?) };
        let total = batch.scalar(PART_TOKENS)?;
        let share = if total == 0.0 { 0.0 } else { self.coefficient / total };
        let (mut loss, mut gap, mut count) = (0.0, 0.0, 0.0);
        for (token, (new, teacher)) in new.iter().zip(teacher).enumerate() {
            if part.has(kind.map_or(0, |kind| kind[token]), *teacher) {
                let difference = f64::from(*new) - f64::from(*teacher);
                loss += difference * f64::from(*new);
                gap += difference;
                count += 1.0;
                slopes[token] = (f64::from(slopes[token]) + share * difference) as f32;
            }
        }
        if count > 0.0 {
            host.metric_weighted("distill_gap", gap / count, count);
        }
        Ok(share * loss)
    }
}
