//! An episode while it is played.

use accredit_core::{
    episode::{Layout, Status, Step, Tokens, Trajectory},
    rng::Stream,
};
use accredit_environments::{Outcome, Request, Task, Turn};
use accredit_torch::{Ask, Generated, StopReason};

use super::{CollectError, Limits, Play};
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
    /// Tokens that were sampled.
    sampled: usize,
    /// The stop token of the last response; none if it ended without one.
    ended: Option<u32>,
    /// Whether a limit cut the last response.
    cut: bool,
    terminal: bool,
    success: bool,
    out_of_room: bool,
    /// Why it could not be played to its end.
    pub(super) failure: Option<String>,
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
        let user = prompter.user_turn(&self.task.text, &self.past, turn);
        let context = prompter.context(tokenizer, &user, step, self.ended)?;
        if prompter.step_rows() {
            self.row.clear();
        }
        self.row.extend(&context);
        let left = limits.max_episode_tokens.map_or(usize::MAX, |most| most.saturating_sub(self.sampled));
        let max_new_tokens = limits.max_tokens.min(limits.max_context.saturating_sub(self.row.len())).min(left);
        if max_new_tokens == 0 {
            self.out_of_room = true;
            return Ok(None);
        }
        self.steps.push(Step {
            state: prompter.state(turn),
            observation: turn.observation.clone(),
            prompt: user,
            context,
            ..Step::default()
        });
        Ok(Some(Ask { conversation: index, row: &self.row, noise: self.noise.with(step as u64), max_new_tokens }))
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
