//! An episode while it is played.

use accredit_core::{
    episode::{Layout, Status, Step, Tokens, Trajectory},
    rng::Stream,
};
use accredit_environments::{Outcome, Request, Task, Turn};
use accredit_torch::{Ask, Generated, StopReason};

use super::{CollectError, Limits, Overlong, Play};
use crate::config::OverlongPrompt;
use crate::rollout::{
    prompt::{Past, Prompter},
    tokenizer::Tokenizer,
};

/// An episode while it is played.
#[expect(clippy::struct_excessive_bools, reason = "each is a way to end of its own")]
pub(super) struct Live {
    play: Play,
    noise: Stream,
    task: Task,
    turn: Option<Turn>,
    past: Vec<Past>,
    steps: Vec<Step>,
    /// All ids of the row so far.
    row: Vec<u32>,
    /// Where each response that the row holds begins in it.
    responses: Vec<usize>,
    /// Tokens that were sampled.
    sampled: usize,
    /// The stop token of the last response; none if it ended without one.
    ended: Option<u32>,
    /// Whether a limit cut the last response.
    cut: bool,
    terminal: bool,
    success: bool,
    out_of_room: bool,
    /// What came of prompts that were too long.
    pub(super) overlong: Overlong,
    /// Why it could not be played to its end.
    pub(super) failure: Option<String>,
}

/// What the policy is to read.
struct Prompt {
    /// The user turn as text.
    user: String,
    /// Ids of the conversation so far, as they were sampled and read.
    before: Vec<u32>,
    /// Ids of what is new.
    added: Vec<u32>,
    /// How many of the oldest turns are left out.
    dropped: usize,
}

impl Prompt {
    fn len(&self) -> usize {
        self.before.len() + self.added.len()
    }

    fn ids(&self) -> Vec<u32> {
        [self.before.as_slice(), &self.added].concat()
    }
}

impl Live {
    pub(super) fn new(play: Play, noise: Stream, attempt: u64) -> Self {
        Self {
            play,
            noise: noise.with(play.group).with(play.member).with(attempt),
            task: Task::default(),
            turn: None,
            past: Vec::new(),
            steps: Vec::new(),
            row: Vec::new(),
            responses: Vec::new(),
            overlong: Overlong::default(),
            sampled: 0,
            ended: None,
            cut: false,
            terminal: false,
            success: false,
            out_of_room: false,
            failure: None,
        }
    }

    /// The seed of its environment.
    pub(super) fn seed(&self) -> u64 {
        self.play.seed
    }

    /// Takes what the environment begins with.
    pub(super) fn begin(&mut self, reset: Result<(Turn, Task), String>) {
        match reset {
            Ok((turn, task)) => (self.turn, self.task) = (Some(turn), task),
            Err(message) => self.failure = Some(message),
        }
    }

    fn playing(&self) -> bool {
        self.failure.is_none() && !self.terminal && !self.out_of_room
    }

    /// Prepares what the policy reads for the next response; none if the episode is over, or no room is left for one.
    pub(super) fn ask(
        &mut self,
        index: usize,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        limits: &Limits,
    ) -> Result<Option<Ask<'_>>, CollectError> {
        let step = self.steps.len();
        let Some(turn) = self.turn.as_ref().filter(|_| self.playing() && step < limits.max_steps) else {
            return Ok(None);
        };
        let left = limits.max_episode_tokens.map_or(usize::MAX, |most| most.saturating_sub(self.sampled));
        let wanted = limits.max_tokens.min(left);
        let mut prompt = self.prompt(0, turn, tokenizer, prompter)?;
        if limits.overlong_prompt == OverlongPrompt::DropOldest && wanted > 0 {
            while prompt.len() + wanted > limits.max_context && prompt.dropped < self.droppable(prompter) {
                prompt = self.prompt(prompt.dropped + 1, turn, tokenizer, prompter)?;
            }
        }
        let max_new_tokens = wanted.min(limits.max_context.saturating_sub(prompt.len()));
        if max_new_tokens == 0 {
            self.overlong.ended += usize::from(wanted > 0);
            self.out_of_room = true;
            return Ok(None);
        }
        let begins_row = prompt.dropped > 0 && !prompter.step_rows();
        self.steps.push(Step {
            state: prompter.state(turn),
            observation: turn.observation.clone(),
            begins_row,
            history: if begins_row { prompt.before.len() } else { 0 },
            context: if begins_row { prompt.ids() } else { prompt.added.clone() },
            prompt: std::mem::take(&mut prompt.user),
            ..Step::default()
        });
        self.take(&prompt, begins_row);
        Ok(Some(Ask { conversation: index, row: &self.row, noise: self.noise.with(step as u64), max_new_tokens }))
    }

    /// What the policy would read now, without its oldest so many turns.
    fn prompt(
        &self,
        dropped: usize,
        turn: &Turn,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
    ) -> Result<Prompt, CollectError> {
        let user = prompter.user_turn_without(dropped, &self.task.text, &self.past, turn);
        let added = prompter.context(tokenizer, &user, self.steps.len(), self.ended)?;
        let before = match self.responses.get(dropped) {
            _ if prompter.step_rows() => Vec::new(),
            Some(kept) if dropped > 0 => [&self.row[..self.responses[0]], &self.row[*kept..]].concat(),
            _ => self.row.clone(),
        };
        Ok(Prompt { user, before, added, dropped })
    }

    /// How many turns can be left out of what the policy reads next. A conversation keeps what it began with and the last
    /// response, so that turns still alternate.
    fn droppable(&self, prompter: &Prompter) -> usize {
        if prompter.step_rows() { prompter.shown(&self.past) } else { self.responses.len().saturating_sub(1) }
    }

    /// Makes the row what the policy is asked to read.
    fn take(&mut self, prompt: &Prompt, begins_row: bool) {
        if begins_row {
            let moved = self.responses[prompt.dropped] - self.responses[0];
            self.responses.drain(..prompt.dropped);
            self.responses.iter_mut().for_each(|response| *response -= moved);
        }
        if prompt.dropped > 0 {
            self.overlong.shortened += 1;
            self.overlong.dropped_turns += prompt.dropped;
        }
        self.row = prompt.ids();
    }

    /// Takes a response, and gives what the environment is to play.
    pub(super) fn answer(
        &mut self,
        index: usize,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        answer: Generated,
    ) -> Request {
        let parsed = prompter.tags.parse(tokenizer, &self.row, &answer.tokens);
        self.ended = answer.tokens.last().copied().filter(|_| answer.stop == StopReason::Stop);
        self.cut = answer.stop == StopReason::Length;
        self.sampled += answer.tokens.len();
        self.responses.push(self.row.len());
        self.row.extend(&answer.tokens);
        let request = Request { index, action: parsed.action.clone(), response: parsed.text.clone() };
        if let Some(step) = self.steps.last_mut() {
            step.action = parsed.action;
            step.response = parsed.text;
            let mut tokens =
                Tokens { token_id: answer.tokens, kind: parsed.kinds, text: parsed.pieces, ..Tokens::default() };
            tokens.columns.insert("sampler_logprob".to_owned(), answer.logprobs);
            step.tokens = tokens;
        }
        request
    }

    /// Takes what the environment answered.
    pub(super) fn step(&mut self, outcome: Result<Outcome, String>, prompter: &Prompter) {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(message) => {
                self.failure = Some(message);
                return;
            }
        };
        if let (Some(step), Some(turn)) = (self.steps.last_mut(), self.turn.take()) {
            step.reward = Some(outcome.reward);
            step.terminal = outcome.terminal;
            step.valid_action = outcome.valid_action;
            step.feedback = outcome.feedback;
            step.next_state = if outcome.terminal { None } else { prompter.state(&outcome.turn) };
            self.past.push(Past { observation: turn.observation, action: step.action.clone(), reward: outcome.reward });
        }
        self.terminal = outcome.terminal;
        self.success = outcome.success;
        self.turn = Some(outcome.turn);
    }

    pub(super) fn finish(self, iteration: u64, prompter: &Prompter) -> Trajectory {
        let status = if self.failure.is_some() {
            Status::Failed
        } else if self.terminal {
            Status::Completed
        } else if self.out_of_room || self.cut {
            Status::TruncatedLength
        } else {
            Status::TruncatedSteps
        };
        Trajectory {
            layout: if prompter.step_rows() { Layout::Step } else { Layout::Trajectory },
            iteration,
            group: format!("g{}", self.play.group),
            trajectory: format!("g{}t{}", self.play.group, self.play.member),
            status,
            success: Some(self.success),
            seed: Some(self.play.seed),
            task: self.task.text,
            answer: self.task.answer,
            steps: self.steps,
            ..Trajectory::default()
        }
    }
}
