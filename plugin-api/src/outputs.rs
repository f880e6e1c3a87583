//! The buffers that a hook writes. The host allocated them, filled them with NaN where everything must be written, and
//! checks them after the call.

use crate::{
    abi::RawColumnMut,
    column::{
        Column, Element,
        columns::{
            ADVANTAGE, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, LOSS, REWARD, SAMPLE_MORE,
            TOKEN_REWARD, VALUE_TARGET, WEIGHT,
        },
    },
    error::{Error, Result},
};

/// Output buffers by name; each can be taken once.
pub(crate) struct Outputs<'a> {
    columns: &'a mut [RawColumnMut<'a>],
}

impl<'a> Outputs<'a> {
    /// # Safety
    /// Each column's pointer and length describe memory of the type that it says, that lives for `'a` and that nothing
    /// else touches meanwhile.
    pub(crate) unsafe fn new(columns: &'a mut [RawColumnMut<'a>]) -> Self {
        Self { columns }
    }

    fn take_optional<T: Element>(&mut self, column: Column<T>) -> Option<&'a mut [T]> {
        let raw = self
            .columns
            .iter_mut()
            .find(|raw| raw.name.as_str() == column.name() && raw.dtype == T::DTYPE && !raw.ptr.is_null())?;
        let pointer = std::mem::replace(&mut raw.ptr, std::ptr::null_mut());
        // SAFETY: `new`'s contract; the type was compared, and the null pointer left behind keeps it the only borrow.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer.cast::<T>(), raw.len) })
    }

    fn take<T: Element>(&mut self, column: Column<T>) -> Result<&'a mut [T]> {
        self.take_optional(column)
            .ok_or_else(|| Error::column(format!("this host offers no output `{}`", column.name())))
    }

    fn take_one<T: Element>(&mut self, column: Column<T>) -> Result<&'a mut T> {
        self.take(column)?
            .first_mut()
            .ok_or_else(|| Error::column(format!("the host's output `{}` is empty", column.name())))
    }
}

/// What `select` decides about a trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Decision {
    /// As if it had not been played.
    Drop = 0,
    /// Counts in statistics and is not trained.
    BaselineOnly = 1,
    /// Counts and is trained.
    Train = 2,
}

/// What `select` writes.
pub struct Selection<'a> {
    decisions: &'a mut [u8],
    sample_more: &'a mut bool,
}

impl<'a> Selection<'a> {
    pub(crate) fn take(outputs: &mut Outputs<'a>) -> Result<Self> {
        Ok(Self { decisions: outputs.take(DECISION)?, sample_more: outputs.take_one(SAMPLE_MORE)? })
    }

    /// Decides about one trajectory. Trajectories that no scheme speaks of are trained.
    pub fn decide(&mut self, trajectory: usize, decision: Decision) {
        self.decisions[trajectory] = decision as u8;
    }

    /// Asks the host to sample more groups, within its limit of rounds.
    pub fn sample_more(&mut self) {
        *self.sample_more = true;
    }
}

/// What `shape` changes, in place.
pub struct Rewards<'a> {
    /// One for each step; holds the reward as earlier schemes left it.
    pub reward: &'a mut [f32],
    /// One for each token; added to the step's reward where a scheme looks at rewards token by token.
    pub token_reward: &'a mut [f32],
}

impl<'a> Rewards<'a> {
    pub(crate) fn take(outputs: &mut Outputs<'a>) -> Result<Self> {
        Ok(Self { reward: outputs.take(REWARD)?, token_reward: outputs.take(TOKEN_REWARD)? })
    }
}

/// What `advantage` writes: every element.
pub struct Advantages<'a> {
    /// One for each token.
    pub advantage: &'a mut [f32],
    /// One for each token, where the scheme said that it writes value targets.
    pub value_target: Option<&'a mut [f32]>,
}

impl<'a> Advantages<'a> {
    pub(crate) fn take(outputs: &mut Outputs<'a>) -> Result<Self> {
        Ok(Self { advantage: outputs.take(ADVANTAGE)?, value_target: outputs.take_optional(VALUE_TARGET) })
    }
}

/// What `weigh` changes, in place.
pub struct Credit<'a> {
    /// One for each token.
    pub advantage: &'a mut [f32],
    /// One for each token, not negative; 1 unless an earlier scheme changed it.
    pub weight: &'a mut [f32],
}

impl<'a> Credit<'a> {
    pub(crate) fn take(outputs: &mut Outputs<'a>) -> Result<Self> {
        Ok(Self { advantage: outputs.take(ADVANTAGE)?, weight: outputs.take(WEIGHT)? })
    }
}

/// What `refresh` changes, in place, starting from what `weigh` left.
pub struct Refreshed<'a> {
    /// One for each token of the micro-batch.
    pub advantage: &'a mut [f32],
}

impl<'a> Refreshed<'a> {
    pub(crate) fn take(outputs: &mut Outputs<'a>) -> Result<Self> {
        Ok(Self { advantage: outputs.take(ADVANTAGE)? })
    }
}

/// What `objective` writes: the loss and its derivative with respect to every fresh column.
pub struct Loss<'a> {
    /// This micro-batch's share of the minibatch's loss, divided by the minibatch's denominators, so that the shares
    /// add up.
    pub loss: &'a mut f64,
    /// Derivative with respect to `new_logprob`, one for each token.
    pub d_logprob: &'a mut [f32],
    /// Derivative with respect to `new_entropy`, where the scheme reads it.
    pub d_entropy: Option<&'a mut [f32]>,
    /// Derivative with respect to `new_value`, where the scheme reads it.
    pub d_value: Option<&'a mut [f32]>,
    /// Derivative with respect to `new_top_k_logprob`, where the scheme reads it.
    pub d_top_k_logprob: Option<&'a mut [f32]>,
}

impl<'a> Loss<'a> {
    pub(crate) fn take(outputs: &mut Outputs<'a>) -> Result<Self> {
        Ok(Self {
            loss: outputs.take_one(LOSS)?,
            d_logprob: outputs.take(D_LOGPROB)?,
            d_entropy: outputs.take_optional(D_ENTROPY),
            d_value: outputs.take_optional(D_VALUE),
            d_top_k_logprob: outputs.take_optional(D_TOP_K_LOGPROB),
        })
    }
}
