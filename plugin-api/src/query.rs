//! What `queries` asks of the host: to score a response (or another text) again, after something was added to the
//! prompt, under stop-gradient.

use abi_stable::std_types::RVec;

use crate::{
    abi::{DType, RawReply},
    column::columns::TEACHER_LOGPROB,
};

/// The policy that scores a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueryPolicy {
    /// The policy as it is.
    Current,
    /// A copy that is synchronised every `every` optimiser steps.
    Copy {
        /// Optimiser steps between synchronisations.
        every: u64,
    },
    /// A moving average of the policy: `average = (1 - rate) * average + rate * policy` after each optimiser step.
    MovingAverage {
        /// Share of the policy, in 0..=1.
        rate: f64,
    },
}

/// One request: a step's prompt with something added, and a text to score after it.
///
/// The result is a token column of 32-bit log-probabilities (nats), like any signal. Its form depends on what is
/// scored:
///
/// - The response itself: each response token has its own log-probability, at the temperature of training.
/// - A `target`: it has a length of its own, so every response token of the step holds one and the same number, the mean
///   log-probability of the target's tokens. The target stands where the response would begin, right after the prompt;
///   neither the response nor an end of turn is part of it.
///
/// A response token of a step for which nothing was asked holds NaN. A step without a response token can hold no result.
/// A column that the scheme announced with [`Needs::asks`](crate::Needs::asks) is there in every iteration: where no
/// query names it, it holds NaN throughout.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Index of the step whose response is scored, or in whose place the target is.
    pub step: usize,
    /// Text that is appended, as it is, to the user turn before the response.
    pub added: String,
    /// Another text to score in place of the response; not empty.
    pub target: Option<String>,
    /// Who scores.
    pub policy: QueryPolicy,
    /// Name of the column that the results become: one element for each token, NaN for the tokens of steps that no query
    /// of this name asked for. Where a scheme also reads the likeliest tokens, the queries whose column is
    /// `teacher_logprob` give `teacher_top_k_logprob` as well.
    pub column: String,
}

/// Requests, in the order in which they are pushed.
#[derive(Default)]
pub struct Queries {
    pub(crate) list: Vec<Query>,
}

impl Queries {
    /// Asks for the response of `step`, scored by the current policy after `added` was added to its prompt; the result
    /// becomes the column `teacher_logprob`.
    pub fn ask(&mut self, step: usize, added: impl Into<String>) {
        self.push(Query {
            step,
            added: added.into(),
            target: None,
            policy: QueryPolicy::Current,
            column: TEACHER_LOGPROB.name().to_owned(),
        });
    }

    /// Asks for anything.
    pub fn push(&mut self, query: Query) {
        self.list.push(query);
    }

    pub(crate) fn into_replies(self) -> RVec<RawReply> {
        let mut steps: Vec<u8> = Vec::new();
        let (mut policies, mut rates): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
        let mut texts = [TextReply::new("query.added"), TextReply::new("query.target"), TextReply::new("query.column")];
        let mut has_target: Vec<u8> = Vec::new();
        for query in &self.list {
            steps.extend((query.step as u32).to_ne_bytes());
            let (policy, rate) = match query.policy {
                QueryPolicy::Current => (0_u8, 0.0),
                QueryPolicy::Copy { every } => (1, every as f64),
                QueryPolicy::MovingAverage { rate } => (2, rate),
            };
            policies.push(policy);
            rates.extend(rate.to_ne_bytes());
            has_target.push(u8::from(query.target.is_some()));
            texts[0].push(&query.added);
            texts[1].push(query.target.as_deref().unwrap_or(""));
            texts[2].push(&query.column);
        }
        let mut replies = vec![
            reply("query.step", DType::U32, steps),
            reply("query.policy", DType::U8, policies),
            reply("query.policy_parameter", DType::F64, rates),
            reply("query.has_target", DType::BOOL, has_target),
        ];
        for text in texts {
            replies.push(reply(&format!("{}.bytes", text.name), DType::U8, text.bytes));
            replies.push(reply(&format!("{}.offsets", text.name), DType::U64, text.offsets));
        }
        replies.into()
    }
}

struct TextReply {
    name: &'static str,
    bytes: Vec<u8>,
    offsets: Vec<u8>,
}

impl TextReply {
    fn new(name: &'static str) -> Self {
        Self { name, bytes: Vec::new(), offsets: 0_u64.to_ne_bytes().to_vec() }
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend(text.as_bytes());
        self.offsets.extend((self.bytes.len() as u64).to_ne_bytes());
    }
}

fn reply(name: &str, dtype: DType, bytes: Vec<u8>) -> RawReply {
    RawReply { name: name.into(), dtype, bytes: bytes.into() }
}
