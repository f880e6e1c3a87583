//! Columns: named, typed arrays, each at one level of the batch. Their names are the whole contract between host and
//! plugin about data, so that a new column never changes a layout.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::abi::DType;

mod sealed {
    pub trait Sealed {}
}

/// A type that a column's elements can have.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Its number at the boundary.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}
elements!(f32 => F32, f64 => F64, u8 => U8, u32 => U32, u64 => U64, bool => BOOL);

/// What one element of a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// One element for the whole batch.
    Batch,
    /// One for each group.
    Group,
    /// One for each trajectory.
    Trajectory,
    /// One for each step.
    Step,
    /// One for each row: what the model sees as one sequence.
    Row,
    /// One for each response token.
    Token,
    /// [`TOP_K`](columns::TOP_K) for each response token, token after token.
    TopK,
}

impl Level {
    /// The level's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Group => "group",
            Self::Trajectory => "trajectory",
            Self::Step => "step",
            Self::Row => "row",
            Self::Token => "token",
            Self::TopK => "one of the likeliest tokens at a place",
        }
    }
}

/// A column's name, level and type. A plugin may name its own: `Column::<f32>::named("acme.risk", Level::Token)`.
#[derive(Debug)]
pub struct Column<T> {
    name: &'static str,
    level: Level,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Column<T> {}

impl<T: Element> Column<T> {
    /// A column of this name.
    #[must_use]
    pub const fn named(name: &'static str, level: Level) -> Self {
        Self { name, level, element: PhantomData }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// What one element belongs to.
    pub const fn level(self) -> Level {
        self.level
    }

    /// The column with its type as a value, for lists of columns of different types.
    pub const fn any(self) -> AnyColumn {
        AnyColumn { name: self.name, level: self.level, dtype: T::DTYPE }
    }
}

/// A column whose type is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyColumn {
    /// Its name.
    pub name: &'static str,
    /// What one element belongs to.
    pub level: Level,
    /// Type of its elements.
    pub dtype: DType,
}

/// A column of texts, one for each group, trajectory or step.
#[derive(Clone, Copy, Debug)]
pub struct TextColumn {
    name: &'static str,
    level: Level,
    bytes: &'static str,
    offsets: &'static str,
}

impl TextColumn {
    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// What one text belongs to.
    pub const fn level(self) -> Level {
        self.level
    }

    /// The column as one of a list: `needs.reads(OBSERVATION.any())`.
    pub const fn any(self) -> AnyColumn {
        AnyColumn { name: self.name, level: self.level, dtype: DType::U8 }
    }

    /// Name of the column of bytes, and of that of offsets into them (u64, one more than there are texts).
    pub const fn parts(self) -> (&'static str, &'static str) {
        (self.bytes, self.offsets)
    }
}

macro_rules! columns {
    ($($(#[$doc:meta])* $constant:ident: $type:ty = $name:literal @ $level:ident;)*) => {
        $($(#[$doc])* pub const $constant: Column<$type> = Column::named($name, Level::$level);)*
        /// Every numeric column that this version of the api names.
        pub const ALL: &[AnyColumn] = &[$($constant.any()),*];
    };
}

macro_rules! texts {
    ($($(#[$doc:meta])* $constant:ident = $name:literal @ $level:ident;)*) => {
        $($(#[$doc])* pub const $constant: TextColumn = TextColumn {
            name: $name,
            level: Level::$level,
            bytes: concat!($name, ".bytes"),
            offsets: concat!($name, ".offsets"),
        };)*
        /// Every text column that this version of the api names.
        pub const ALL_TEXTS: &[TextColumn] = &[$($constant),*];
    };
}

/// The columns of the batch by name.
pub mod columns {
    use super::{AnyColumn, Column, Level, TextColumn};

    columns! {
        /// Offsets: trajectories of group `g` are `[g]..[g + 1]`. One more element than there are groups.
        GROUP_TRAJECTORIES: u32 = "group_trajectories" @ Group;
        /// Offsets: steps of trajectory `t`. One more element than there are trajectories.
        TRAJECTORY_STEPS: u32 = "trajectory_steps" @ Trajectory;
        /// Offsets: response tokens of step `s`. One more element than there are steps.
        STEP_TOKENS: u32 = "step_tokens" @ Step;
        /// Offsets: steps of row `r`. One more element than there are rows.
        ROW_STEPS: u32 = "row_steps" @ Row;
        /// How rows are cut: 0 a row is a trajectory, 1 a row is a step.
        LAYOUT: u8 = "layout" @ Batch;

        /// Which iteration this is, from 0.
        ITERATION: u64 = "iteration" @ Batch;
        /// How many iterations are planned.
        ITERATIONS: u64 = "iterations" @ Batch;
        /// Optimiser steps taken so far.
        UPDATE: u64 = "update" @ Batch;
        /// Optimiser steps planned in all.
        UPDATES: u64 = "updates" @ Batch;
        /// Which round of sampling this is in its iteration, from 0; with `select` only, as the two that follow. Each
        /// round adds groups to those that stand already.
        ROUND: u64 = "round" @ Batch;
        /// How many rounds of sampling an iteration has at most.
        ROUNDS: u64 = "rounds" @ Batch;
        /// How many groups one round of sampling plays.
        ROUND_GROUPS: u64 = "round_groups" @ Batch;

        /// The episode's reward: the undiscounted sum of its step rewards, or what the rollout file says. After
        /// `shape` it holds the shaped rewards.
        OUTCOME: f32 = "outcome" @ Trajectory;
        /// The outcome before `shape`.
        RAW_OUTCOME: f32 = "raw_outcome" @ Trajectory;
        /// The task was solved.
        SUCCESS: bool = "success" @ Trajectory;
        /// How the episode ended: 0 completed, 1 truncated by the limit of steps, 2 truncated by the limit of length.
        STATUS: u8 = "status" @ Trajectory;
        /// The trajectory is trained; if not, it only counts in statistics.
        TRAINED: bool = "trained" @ Trajectory;

        /// The step's reward; after `shape`, the shaped one.
        REWARD: f32 = "reward" @ Step;
        /// The step's reward as the environment gave it.
        RAW_REWARD: f32 = "raw_reward" @ Step;
        /// Id of the environment's state before the response. Equal ids are equal states; ids are never shared by
        /// two groups.
        STATE: u32 = "state" @ Step;
        /// Id of the state after the step, or [`NO_STATE`](super::NO_STATE).
        NEXT_STATE: u32 = "next_state" @ Step;
        /// The environment ended the episode with this step.
        TERMINAL: bool = "terminal" @ Step;
        /// The response held an action that the environment could execute.
        VALID_ACTION: bool = "valid_action" @ Step;
        /// How many environment tokens stand before the response in its row.
        OBSERVATION_TOKENS: u32 = "observation_tokens" @ Step;

        /// Id of the sampled token.
        TOKEN_ID: u32 = "token_id" @ Token;
        /// What the token is: [`THINK`](super::THINK), [`ACTION`](super::ACTION) or [`FORMAT`](super::FORMAT).
        KIND: u8 = "kind" @ Token;
        /// Reward given to a token by `shape`, beside the step rewards.
        TOKEN_REWARD: f32 = "token_reward" @ Token;
        /// Log-probability (nats) under the policy before the update.
        OLD_LOGPROB: f32 = "old_logprob" @ Token;
        /// Log-probability (nats) as the sampler saw it.
        SAMPLER_LOGPROB: f32 = "sampler_logprob" @ Token;
        /// Log-probability (nats) under the frozen reference.
        REF_LOGPROB: f32 = "ref_logprob" @ Token;
        /// Energy of the frozen reference: minus the log-sum-exp of the raw logits that predict the token.
        REF_ENERGY: f32 = "ref_energy" @ Token;
        /// Entropy (nats) of the sampling distribution under the policy before the update.
        ENTROPY: f32 = "entropy" @ Token;
        /// Value that the critic gave before the update.
        VALUE: f32 = "value" @ Token;
        /// Log-probability (nats) under a teacher that saw what a query added; the default name of query results. NaN
        /// where no query asked, as in every column of query results.
        TEACHER_LOGPROB: f32 = "teacher_logprob" @ Token;

        /// How many of the likeliest tokens stand at each place of the columns that follow; with
        /// [`Needs::top_k`](crate::Needs::top_k) only.
        TOP_K: u32 = "top_k" @ Batch;
        /// Ids of the likeliest tokens under the policy before the update. They are chosen once, when the batch is
        /// scored.
        TOP_K_ID: u32 = "top_k_id" @ TopK;
        /// Log-probabilities of these under the teacher of [`TEACHER_LOGPROB`]; NaN where no query asked.
        TEACHER_TOP_K_LOGPROB: f32 = "teacher_top_k_logprob" @ TopK;

        /// Log-probability (nats) under the policy as it is now; with `refresh` and `objective` only.
        NEW_LOGPROB: f32 = "new_logprob" @ Token;
        /// Entropy (nats) under the policy as it is now; with `objective` only.
        NEW_ENTROPY: f32 = "new_entropy" @ Token;
        /// Value under the critic as it is now; with `objective` only.
        NEW_VALUE: f32 = "new_value" @ Token;

        /// Log-probabilities of the tokens of [`TOP_K_ID`] under the policy as it is now; with `objective` only.
        NEW_TOP_K_LOGPROB: f32 = "new_top_k_logprob" @ TopK;

        /// The credit of each token.
        ADVANTAGE: f32 = "advantage" @ Token;
        /// The weight of each token in the loss; 1 unless a scheme changes it.
        WEIGHT: f32 = "weight" @ Token;
        /// What the critic should say.
        VALUE_TARGET: f32 = "value_target" @ Token;

        /// Trained tokens of the whole minibatch; with `objective` only, as all that follow.
        TOTAL_TOKENS: f64 = "total_tokens" @ Batch;
        /// Sum of their weights.
        TOTAL_WEIGHT: f64 = "total_weight" @ Batch;
        /// Steps of the minibatch that have a token.
        TOTAL_STEPS: f64 = "total_steps" @ Batch;
        /// Rows of the minibatch that have a token.
        TOTAL_ROWS: f64 = "total_rows" @ Batch;
        /// Trajectories of the minibatch that have a token.
        TOTAL_TRAJECTORIES: f64 = "total_trajectories" @ Batch;
        /// Tokens of each row.
        ROW_TOKENS: f64 = "row_tokens" @ Row;
        /// Sum of the weights of each row.
        ROW_WEIGHT: f64 = "row_weight" @ Row;
        /// Tokens that each trajectory has in the minibatch, also those outside this micro-batch.
        TRAJECTORY_TOKENS: f64 = "trajectory_tokens" @ Trajectory;
        /// Sum of the weights that each trajectory has in the minibatch.
        TRAJECTORY_WEIGHT: f64 = "trajectory_weight" @ Trajectory;
        /// Rows that each trajectory has in the minibatch.
        TRAJECTORY_ROWS: f64 = "trajectory_rows" @ Trajectory;

        /// Tokens of the minibatch that are in the scheme's [`Part`](crate::Part); where it declared one.
        PART_TOKENS: f64 = "part_tokens" @ Batch;
        /// Steps of the minibatch that have such a token.
        PART_STEPS: f64 = "part_steps" @ Batch;
        /// Rows of the minibatch that have such a token.
        PART_ROWS: f64 = "part_rows" @ Batch;

        /// Output of `objective`: its loss, of length 1.
        LOSS: f64 = "loss" @ Batch;
        /// Output of `objective`: derivative of the loss with respect to `new_logprob`.
        D_LOGPROB: f32 = "d_logprob" @ Token;
        /// Output of `objective`: derivative of the loss with respect to `new_entropy`.
        D_ENTROPY: f32 = "d_entropy" @ Token;
        /// Output of `objective`: derivative of the loss with respect to `new_value`.
        D_VALUE: f32 = "d_value" @ Token;
        /// Output of `objective`: derivative of the loss with respect to `new_top_k_logprob`.
        D_TOP_K_LOGPROB: f32 = "d_top_k_logprob" @ TopK;
        /// Output of `select`: 0 drop, 1 baseline only, 2 train.
        DECISION: u8 = "decision" @ Trajectory;
        /// Output of `select`, of length 1: the host should sample more.
        SAMPLE_MORE: bool = "sample_more" @ Batch;
    }

    texts! {
        /// The environment's state before the response, as its key.
        STATE_TEXT = "state_text" @ Step;
        /// The user turn that the response answers: the observation with what the host wrote around it. What a query
        /// adds stands at its end.
        PROMPT = "prompt" @ Step;
        /// What the environment showed before the response.
        OBSERVATION = "observation" @ Step;
        /// What the policy wrote.
        RESPONSE = "response" @ Step;
        /// The action as parsed; empty where the response holds none.
        ACTION_TEXT = "action" @ Step;
        /// What the environment answered.
        FEEDBACK = "feedback" @ Step;
        /// What a judge outside the run says about the episode; empty where it says nothing or could not be asked. As
        /// [`JUDGEMENT_WITH_SUCCESS`] it is not there in `select`, and costs a question for every episode in every
        /// iteration in which a scheme that reads it is active.
        JUDGEMENT = "judgement" @ Trajectory;
        /// What a judge says about the episode compared with another one of its group that succeeded; empty also where
        /// there is none.
        JUDGEMENT_WITH_SUCCESS = "judgement_with_success" @ Trajectory;
        /// The task in words.
        TASK = "task" @ Group;
        /// The known answer.
        ANSWER = "answer" @ Group;
    }
}

/// The value of `next_state` after a terminal step.
pub const NO_STATE: u32 = u32::MAX;
/// A token's kind: reasoning, inside the think tags.
pub const THINK: u8 = 0;
/// A token's kind: what is executed, inside the action tags.
pub const ACTION: u8 = 1;
/// A token's kind: tags, separators, end of turn.
pub const FORMAT: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<&str> = columns::ALL.iter().map(|column| column.name).collect();
        names.extend(columns::ALL_TEXTS.iter().map(|column| column.name()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
