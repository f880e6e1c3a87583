//! The parameters as the configuration gives them, and the settings that follow from them.

use std::ops::Bound;

use accredit_plugin_api::prelude::*;

use crate::{
    context::Hindsight,
    divergence::{Divergence, Tail},
    shares::{Aggregate, Mode},
};

choices! {
    /// What student and teacher are compared on.
    pub enum Form {
        /// The likeliest tokens at each place.
        TopK = "top-k",
        /// The token that was sampled.
        Sampled = "sampled",
    }
}

choices! {
    /// Whose weights the teacher has.
    pub enum Teacher {
        /// A moving average of the policy's.
        Average = "average",
        /// A copy that is synchronised now and then.
        Copy = "copy",
        /// The policy's own.
        Current = "current",
    }
}

params! {
    /// Parameters of `sdpo`.
    pub struct Params {
        /// What student and teacher are compared on.
        form: Form = Form::TopK,
        /// Share of the teacher in the mixture that both are held against; 0 and 1 are the divergences themselves. Not
        /// given: 0.5 with top-k; the sampled form has only 1.
        #[range(0.0..=1.0)]
        alpha: Option<f64> = None,
        /// How many of the likeliest tokens are compared.
        #[range(1..)]
        top_k: u32 = 100,
        /// What is done about the probability that they leave over.
        tail: Tail = Tail::Bucket,
        /// A token's term is weighted with its importance ratio, at most this; 0 does not weight.
        #[range(0.0..)]
        ratio_cap: f64 = 2.0,
        /// How the tokens with a teacher become one loss.
        aggregate: Aggregate = Aggregate::TokenMean,
        /// The constant that seq-mean-token-sum-norm divides by.
        #[range((Bound::Excluded(0.0), Bound::Unbounded))]
        norm_length: Option<f64> = None,
        /// Whose weights the teacher has.
        teacher: Teacher = Teacher::Average,
        /// Share of the policy that goes into the average after each optimiser step.
        #[range((Bound::Excluded(0.0), Bound::Included(1.0)))]
        teacher_rate: f64 = 0.05,
        /// Optimiser steps between synchronisations of the copy.
        #[range(1..)]
        teacher_every: u64 = 10,
        /// An outcome of at least this is a success, and may be shown to the teacher.
        success_reward: f64 = 0.5,
        /// Where no other trajectory of the group succeeded, the teacher sees what the environment answered.
        feedback: bool = true,
        /// Reasoning is cut out of the attempt that the teacher is shown.
        remove_thinking: bool = true,
    }
}

/// What the parameters amount to.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The divergence over the likeliest tokens, and their number; none with the sampled token.
    pub top_k: Option<(Divergence, u32)>,
    /// Largest importance ratio, if terms are weighted with it.
    pub ratio_cap: Option<f64>,
    /// How tokens become one loss.
    pub mode: Mode,
    /// Who scores.
    pub policy: QueryPolicy,
    /// What it is shown.
    pub hindsight: Hindsight,
}

impl Settings {
    /// Refuses what does not fit together.
    pub fn of(params: &Params) -> Result<Self> {
        let top_k = match (params.form, params.alpha) {
            (Form::TopK, alpha) => Some((Divergence { alpha: alpha.unwrap_or(0.5), tail: params.tail }, params.top_k)),
            (Form::Sampled, None | Some(1.0)) => None,
            (Form::Sampled, Some(alpha)) => {
                let message = format!("`alpha` is {alpha}; `form = \"sampled\"` is the divergence with 1 and no other");
                return Err(Error::parameter("alpha", message));
            }
        };
        let norm_length = match (params.aggregate, params.norm_length) {
            (Aggregate::SeqMeanTokenSumNorm, None) => {
                let message = "`norm_length` is missing; `aggregate = \"seq-mean-token-sum-norm\"` divides by it";
                return Err(Error::parameter("norm_length", message));
            }
            (Aggregate::SeqMeanTokenSumNorm, Some(length)) => length,
            (_, Some(_)) => {
                let message = "`norm_length` is only used by `aggregate = \"seq-mean-token-sum-norm\"`";
                return Err(Error::parameter("norm_length", message));
            }
            (_, None) => 1.0,
        };
        Ok(Self {
            top_k,
            ratio_cap: (params.ratio_cap > 0.0).then_some(params.ratio_cap),
            mode: Mode { aggregate: params.aggregate, norm_length },
            policy: match params.teacher {
                Teacher::Average => QueryPolicy::MovingAverage { rate: params.teacher_rate },
                Teacher::Copy => QueryPolicy::Copy { every: params.teacher_every },
                Teacher::Current => QueryPolicy::Current,
            },
            hindsight: Hindsight {
                success_reward: params.success_reward as f32,
                feedback: params.feedback,
                remove_thinking: params.remove_thinking,
            },
        })
    }
}
