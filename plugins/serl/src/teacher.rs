//! Who the teacher is: the parameters of it that SERL and RLSD share.

use accredit_plugin_api::prelude::*;

choices! {
    /// The model that sees the hindsight.
    pub enum Teacher {
        /// A copy of the policy that is synchronised from time to time.
        Copy = "copy",
        /// The policy as it is when the batch is scored.
        Current = "current",
        /// A moving average of the policy.
        Average = "average",
    }
}

/// The share of the policy in its moving average, for each optimiser step, where the configuration gives none.
const DEFAULT_RATE: f64 = 0.05;

/// The policy that scores, from the parameters `teacher`, `sync_every` and `rate`. A parameter that this teacher does not
/// use is refused.
pub fn policy(teacher: Teacher, sync_every: Option<u64>, rate: Option<f64>, default_every: u64) -> Result<QueryPolicy> {
    if sync_every.is_some() && teacher != Teacher::Copy {
        return Err(Error::parameter("sync_every", "`sync_every` is only used by `teacher = \"copy\"`"));
    }
    if rate.is_some() && teacher != Teacher::Average {
        return Err(Error::parameter("rate", "`rate` is only used by `teacher = \"average\"`"));
    }
    Ok(match teacher {
        Teacher::Copy => QueryPolicy::Copy { every: sync_every.unwrap_or(default_every) },
        Teacher::Current => QueryPolicy::Current,
        Teacher::Average => QueryPolicy::MovingAverage { rate: rate.unwrap_or(DEFAULT_RATE) },
    })
}
