//! `serl` and `rlsd`: a teacher with hindsight decides how much of the advantage a token gets.
//!
//! # What it does
//!
//! An estimator such as `grpo` decides the direction: whether an episode's tokens become likelier. A teacher, the same
//! model or a copy of it, reads the response again after it was told what came of it, and says how likely each token is
//! now. Where the teacher agrees with the direction, the token's advantage grows, by 20 % at most; where it disagrees,
//! it shrinks. The sign never changes, and the teacher's part fades out over the first iterations.
//!
//! `serl` is for agents: the teacher is told what the environment answered, and only action tokens are reweighted. `rlsd`
//! is for tasks with an answer that can be checked: the teacher is told the answer, and all response tokens are reweighted.
//!
//! # The formula
//!
//! With `tea` and `stu` the log-probabilities of a token under teacher and student, both without a gradient, in iteration
//! `k` from 0:
//!
//! ```text
//! w    = clip(exp(sign(A) (tea - stu)), 1 - weight_clip, 1 + weight_clip)
//! A'   = A (1 - lambda_k + lambda_k w)              lambda_k = lambda max(0, 1 - k / decay)
//! ```
//!
//! SERL, arXiv 2605.19447 and its code; RLSD, arXiv 2604.03128, equation 15. The difference is cut at 20 nats before it is
//! exponentiated. `A' = A` where `A` is 0, where there is no teacher, and in `serl` on tokens that are no action tokens.
//!
//! # What the teacher is told
//!
//! Its prompt is the step's own, then, with blank lines between them, sections of a title line and a text, then one line
//! that asks to do the task correctly. The sections of `serl`:
//!
//! | parameter | section |
//! | --- | --- |
//! | `feedback = "immediate"` | the environment's answer to the step; where it is empty, what was observed next |
//! | `feedback = "next"` | the next user turn, with all that the host writes around the observation; at the end of an episode the answer |
//! | `future = true` | the later steps of the same episode |
//! | `success = "and"` | a successful episode of the same task besides; `"or"`: in place of the rest where there is one |
//! | `judge = "alone"` | what a judge says about the whole episode |
//! | `judge = "with-success"` | what a judge says about it, compared with a successful episode of the same task |
//! | `scope = "anchor"` | what the whole group tried from the same state, in place of what came of this step alone |
//!
//! With `scope = "step"` a step for which one of the parts is missing (no later step, no successful episode, a judge that
//! says nothing or could not be asked) has no teacher. With `scope = "anchor"` it has one if there is something to say about its state. That is a list of
//! distinct pairs of action and answer with `feedback = "immediate"` alone, and else for each action how often it was tried
//! and succeeded, its mean, best and worst outcome, and examples: the answer in the best and the worst episode or what
//! was observed next, and what followed in a successful and in a failed episode.
//!
//! The modes of SERL's code, for each scope (its `anchor_` modes are `scope = "anchor"`):
//!
//! | mode | `feedback` | `future` | `success` |
//! | --- | --- | --- | --- |
//! | `immediate_feedback` (the default) | `"immediate"` | `false` | `"none"` |
//! | `next_observation` | `"next"` | `false` | `"none"` |
//! | `future_trajectory` | `"none"` | `true` | `"none"` |
//! | `successful_sample_or_immediate_feedback` | `"immediate"` | `false` | `"or"` |
//! | `successful_sample_immediate_feedback` | `"immediate"` | `false` | `"and"` |
//! | `successful_sample_next_observation` | `"next"` | `false` | `"and"` |
//! | `successful_sample_future_trajectory` | `"none"` | `true` | `"and"` |
//! | `successful_sample_future_trajectory_immediate_feedback` | `"immediate"` | `true` | `"and"` |
//! | `successful_sample_future_trajectory_next_observation` | `"next"` | `true` | `"and"` |
//!
//!
//! In its two judge modes a language model judges the trajectory, alone or beside a successful one: `feedback = "none"` with
//! `judge = "alone"` or `judge = "with-success"`, both for `scope = "step"`. The judge is a program or a language model
//! outside the run, which the table `[judge]` of the configuration names: a `command` that speaks
//! `environments/PROTOCOL.md`, or the `url` of chat completions and the `model` there. What it said stands in the rollout
//! files as `judgement` and `judgement_with_success`. It is asked about every episode in every iteration in which `serl` is
//! active, also once `lambda_k` is 0: set `until` beside `plugin` to the iteration at which `decay` ends.
//!
//! # Fidelity
//!
//! The reweighting equals SERL's code, and with `student = "old"` a third party's code for RLSD; of RLSD's own code
//! nothing was found, and its equation 16 shows another cut than its equation 15, which is taken here and in SERL's code.
//! Reasoning is taken out of the episodes that are shown, as there. Our reading, or different on purpose:
//!
//! - The words of the prompt are our own; sections, their order and their gaps are SERL's.
//! - The successful episode is the one with the fewest steps, then the smallest text. The authors take the first that was
//!   played, which would make the result depend on the order of episodes. Actions of a state are listed in the order of
//!   their texts for the same reason.
//! - Success is what the environment says, and no threshold of a reward.
//! - States are equal if their keys are; there is no similarity mode, which is off in SERL's code by default.
//! - Action tokens are those that the host marks, by its own rule for tags. A response without one has no teacher.
//! - The judge's prompts are our own and can be set, `prompt` and `prompt_with_success` in `[judge]`; SERL's judge was
//!   Kimi-K2.6. Its successful episode is chosen as the one above is.
//! - `max_characters` cuts the sections and spares the instruction; SERL's code cuts a prompt that is too long at its end,
//!   the instruction first.
//! - In `scope = "anchor"`, `success = "or"` leaves the examples of feedback out where there is a successful episode.
//! - SERL's summary has a second loss term, which its released code does not have. It is the distillation term of the
//!   objective `clip`, off by default: `distill_coef` above 0 pulls the action tokens that have a teacher towards the
//!   column `teacher_logprob`. With `lambda = 0` nothing is asked, so that term is 0 as well.
//!
//! # Parameters
//!
//! | name | `serl` | `rlsd` | what |
//! | --- | --- | --- | --- |
//! | `feedback`, `future`, `success`, `scope` | `"immediate"`, `false`, `"none"`, `"step"` | | see above |
//! | `privileged` | | `"answer-or-success"` | `"answer"` the known answer, `"success"` a successful episode, or the first that is there |
//! | `judge` | `"none"` | | `"alone"` or `"with-success"`: what a judge says, see above |
//! | `format` | `"response"` | `"response"` | what is shown of an episode's steps: `"response"` or `"observation-action"` |
//! | `max_steps` | `0` | `0` | at most the first so many of them; 0 is all |
//! | `max_characters` | `0` | `0` | cuts what is shown; 0 does not |
//! | `think_tag` | `"think"` | `"think"` | the tag of reasoning, which is not shown; `""` shows it |
//! | `lambda` | `0.5` | `0.5` | the teacher's share at the start |
//! | `decay` | `50` | `50` | after so many its share is 0; 0 never decays |
//! | `decay_over` | `"iterations"` | `"iterations"` | what `decay` counts; or `"updates"`, optimiser steps |
//! | `weight_clip` | `0.2` | `0.2` | how far the teacher's weight may be from 1 |
//! | `rollouts` | | `"all"` | `"positive"` reweights positive advantages only |
//! | `student` | `"new"` | `"new"` | the policy in this micro-batch, or `"old"`, before the update |
//! | `teacher` | `"copy"` | `"copy"` | a copy, `"current"` the policy itself, `"average"` a moving average |
//! | `sync_every` | `10` | `20` | optimiser steps between synchronisations of the copy |
//! | `rate` | `0.05` | `0.05` | the policy's share in the moving average for each optimiser step |
//!
//! SERL's ALFWorld and WebShop runs use the defaults, on `grpo` with `over = "rows"`, without divergence from a reference.
//! Their copy is synchronised every 10 iterations: with several minibatches set `sync_every` to 10 times their number.
//! RLSD's scripts decay over 50 or 60 steps and use `aggregate = "seq-mean-token-mean"` in the objective.
//!
//! # What it needs
//!
//! Queries to the teacher, so one more pass over what is asked, none once `lambda_k` is 0. Texts as the parameters say:
//! a run whose environment or rollouts lack them is refused, and so is `judge` without `[judge]`. `serl` needs the kind of each token. Some other scheme must
//! give advantages, and an objective with a ratio of tokens makes use of them; with a ratio of rows or steps they act through
//! the derivative of each token.
//!
//! # When it goes wrong
//!
//! - `teacher_fraction` near 0: hardly any step has hindsight (no success in any group, episodes of one step with
//!   `future`).
//! - `judge/failed` above 0: the judge could not be asked about some episodes, whose steps then have no teacher. The log has
//!   the reason.
//! - `clipped_fraction` near 1: the teacher is sure of everything that it was told, so the weight is a constant up or down.
//!   Hindsight that holds the action itself, as a successful episode does, leads there.
//! - Prompts grow: a teacher that sees whole episodes needs room. A step whose teacher's row is longer than the model can
//!   read has none; `max_characters` and `max_steps` make room.
//! - The weights do not average to 1, so the size of the step changes a little with them.
//!
//! # Metrics
//!
//! Of the queries: `queries`, `steps_not_asked` (trained steps without a teacher). Of the micro-batches: `effective_lambda`,
//! `teacher_fraction` (tokens with a teacher), `selected_fraction` (those of them that are reweighted), and over these
//! `weight_mean`, `weight_min`, `weight_max` (before the share is applied; the extremes of each micro-batch are averaged),
//! `clipped_fraction`, `teacher_gain` (mean of teacher minus student, in nats).
//!
//! # Example
//!
//! ```toml
//! seed = 7
//! iterations = 150
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 2048
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [[credit]]
//! plugin = "serl"
//! params = { feedback = "immediate", lambda = 0.5, decay = 50, sync_every = 10 }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.2 }
//! ```
//!
//! SERL with a model that judges, behind a server of one's own; it is asked as long as it has a say:
//!
//! ```toml
//! seed = 7
//! iterations = 150
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 2048
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [judge]
//! url = "http://127.0.0.1:8000/v1/chat/completions"
//! model = "Qwen/Qwen3-32B"
//! settings = { temperature = 0.0, max_tokens = 400 }
//! workers = 16
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [[credit]]
//! plugin = "serl"
//! until = 50
//! params = { feedback = "none", judge = "with-success", decay = 50 }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.2 }
//! ```
//!
//! RLSD, where no task has a known answer:
//!
//! ```toml
//! seed = 7
//! iterations = 150
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 2048
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [[credit]]
//! plugin = "rlsd"
//! params = { privileged = "success" }
//!
//! [objective]
//! plugin = "clip"
//! params = { aggregate = "seq-mean-token-mean" }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::needless_bitwise_bool, reason = "a short circuit in a loop would be a jump")]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

mod anchor;
mod ask;
mod hindsight;
mod reweight;
mod rlsd;
mod scale;
mod serl;
mod success;
mod teacher;
mod text;

use accredit_plugin_api::prelude::*;

pub use crate::{rlsd::Rlsd, serl::Serl};

export_plugin!(Serl, Rlsd);

#[cfg(test)]
mod tests;
