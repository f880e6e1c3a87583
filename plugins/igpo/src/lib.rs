//! `igpo`: a turn earns what it adds to the probability of the right answer (Information Gain-based Policy
//! Optimisation).
//!
//! # What it does
//!
//! An agent that searches for an answer over several turns is rewarded once, at the end. Before each turn the policy is asked
//! how likely the known answer is by now; a turn's reward is how much that grew while it was played, and the last turn's is
//! the outcome of the episode. Rewards are compared inside the group and summed towards the end, so a turn is also
//! credited with what it made possible.
//!
//! # The formula
//!
//! With `l_t` the mean log-probability of the answer's tokens before turn `t` of `T`, and `R` the outcome:
//!
//! ```text
//! p_t = exp(l_t)                                  gain = "probability";   p_t = l_t with gain = "log-probability"
//! r_t = p_(t+1) - p_t  for t < T,    r_T = R
//! A_t = (r_t - mean) / (sqrt(variance + variance_eps) + eps)
//! credit of turn t = sum over k >= t of gamma^(k - t) A_k
//! ```
//!
//! Mean and variance are those of the rewards of the group: all together (`normalise = "joint"`), or gains and outcomes each
//! on their own (`"separate"`); with `over = "position"` of those at the same turn. After arXiv 2510.14967, section 3, and the
//! code of its authors.
//!
//! # Fidelity
//!
//! The formulas are those of the authors' newer code, which has `prob_diff` and `log_prob_diff`, `joint` and `separate`, a
//! population variance with 1e-8 inside the root and 1e-6 outside, and `gamma` 1; a reproduction of the paper has 0.95. The
//! older code subtracts the mean at each turn's position alone: `over = "position", std = false`. Our reading, or different
//! on purpose:
//!
//! - The answer is asked for by a line that is appended to the prompt before a turn, and scored as the beginning of the
//!   response; `target` can put tags around it, whose tokens then count in the mean. The authors end the reasoning inside the
//!   response with a sentence and count the answer's tokens alone.
//! - The probability after the last turn is not asked for; its reward is the outcome, as in the paper.
//! - Gains of exactly 0 count in mean and variance. The authors' code takes them for absent.
//! - The weights that the newer code moves from gains to outcomes during training are not here.
//! - Rewards that are all equal give exactly 0, decided by comparing.
//! - In a group without a known answer only outcomes are compared. A turn before or after which the probability is missing,
//!   because the prompt with the answer is longer than the model can read, has no gain. A turn without a response token
//!   takes no part: the turn before it earns what both changed.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `gain` | `"probability"` | what grows: `"probability"` or `"log-probability"` |
//! | `normalise` | `"joint"` | `"joint"` or `"separate"`, see above |
//! | `over` | `"group"` | mean and deviation over the group, or `"position"`, over its turns of one position |
//! | `std` | `true` | divide by the deviation |
//! | `ddof` | `0` | 0 the population's variance, 1 the sample's |
//! | `variance_eps`, `eps` | `1e-8`, `1e-6` | added inside and outside the root |
//! | `gamma` | `1` | what a later turn counts; the paper's reproduction has 0.95 |
//! | `singleton` | `"zero"` | a reward that has no other to compare with: `"zero"`, or `"raw"`, itself over `1 + eps` |
//! | `instruction` | see below | the line that is appended to the prompt |
//! | `target` | `"{answer}"` | what is scored; `{answer}` stands for the answer |
//!
//! The line is `Enough is known. Say the final answer now, and nothing else.` The paper's runs have groups of 16, a
//! divergence with a factor of 0.001 and up to 10 turns.
//!
//! # What it needs
//!
//! A known answer of every task; environments without one are refused. One more pass over every prompt with the answer
//! after it, by the policy before the update. The outcome of each trajectory. Groups of at least two, unless
//! `singleton = "raw"`.
//!
//! # When it goes wrong
//!
//! - `answer_probability` stays near 0: the answer is not written as the policy would write it, so no turn adds to it. Put
//!   the tags of the response into `target`, or take `gain = "log-probability"`, which sees small numbers better, and noise in
//!   them too.
//! - Many gains and one outcome: with `"joint"` the outcome weighs little in a long episode. `"separate"` gives it a scale of
//!   its own.
//! - A policy can learn to guess the answer early and to search no further; watch the held-out reward, not the gains.
//!
//! # Metrics
//!
//! `groups`, `groups_without_answer` (of which no turn has a probability), and over turns `answer_probability` (before the
//! turn), `gain_mean`, `gain_positive` (share of gains above 0).
//!
//! # Example
//!
//! With an environment that knows its answers in place of this one:
//!
//! ```toml
//! seed = 7
//! iterations = 100
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 1024
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "igpo"
//! params = { normalise = "separate", gamma = 0.95, target = "<answer>{answer}</answer>" }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.2 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod params;
mod rewards;

use accredit_plugin_api::prelude::*;

use crate::{
    params::{ANSWER_PLACE, Params, Singleton},
    rewards::{Turns, Value},
};

/// The mean log-probability of the answer before a step, on every token of its response.
const ANSWER_LOGPROB: Column<f32> = Column::named("answer_logprob", Level::Token);

/// The scheme.
pub struct Igpo {
    params: Params,
    turns: Turns,
}

impl Scheme for Igpo {
    type Params = Params;
    const NAME: &'static str = "igpo";
    const ABOUT: &'static str = "A turn earns what it adds to the probability of the known answer.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        if !params.target.contains(ANSWER_PLACE) {
            let message = format!("`target` is \"{}\"; it must hold `{ANSWER_PLACE}`", params.target);
            return Err(Error::parameter("target", message));
        }
        Ok(Self { params, turns: Turns::default() })
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Queries, Hook::Advantage])
            .reads(&[ANSWER.any(), OUTCOME.any(), ANSWER_LOGPROB.any()])
            .asks(&[ANSWER_LOGPROB.any()]);
        match self.params.singleton {
            Singleton::Zero => needs.group_relative(),
            Singleton::Raw => needs,
        }
    }

    fn queries(&mut self, batch: &Batch<'_>, queries: &mut Queries, context: &Context) -> Result<()> {
        let answers = batch.texts(ANSWER)?;
        let added = format!("\n\n{}\n", self.params.instruction);
        let mut known = false;
        for group in batch.groups() {
            let answer = answers.get(group.index())?.trim();
            if answer.is_empty() {
                continue;
            }
            known = true;
            let target = self.params.target.replace(ANSWER_PLACE, answer);
            for step in group.steps().filter(|step| !step.tokens().is_empty()) {
                queries.push(Query {
                    step: step.index(),
                    added: added.clone(),
                    target: Some(target.clone()),
                    policy: QueryPolicy::Current,
                    column: ANSWER_LOGPROB.name().to_owned(),
                });
            }
        }
        if !known {
            context.host.warn("no task of this batch has a known answer; only outcomes are compared");
        }
        Ok(())
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let (outcome, answer) = (batch.get(OUTCOME)?, batch.get(ANSWER_LOGPROB)?);
        let (mut groups, mut without_answer) = (0_u32, 0_u32);
        let mut value = Value::default();
        for group in batch.groups() {
            self.turns.clear();
            for trajectory in group.trajectories() {
                let steps = trajectory.steps().map(|step| step.tokens()).filter(|tokens| !tokens.is_empty());
                let known = steps.map(|tokens| (tokens.clone(), f64::from(answer[tokens.start])));
                self.turns.push(known, f64::from(outcome[trajectory.index()]), self.params.gain);
            }
            groups += 1;
            without_answer += u32::from(!self.turns.count_into(&mut value));
            self.turns.normalise(&self.params);
            self.turns.credit(self.params.gamma, out.advantage);
        }
        let host = &context.host;
        host.metric("groups", f64::from(groups));
        host.metric("groups_without_answer", f64::from(without_answer));
        value.report(host);
        Ok(())
    }
}

export_plugin!(Igpo);

#[cfg(test)]
mod tests;
