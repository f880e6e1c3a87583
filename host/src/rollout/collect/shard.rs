//! What one thread plays.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use accredit_environments::{Outcome, Pool, Request};
use accredit_torch::{Session, StopReason, set_threads};

use super::{CollectError, Limits, live::Live};
use crate::rollout::{prompt::Prompter, tokenizer::Tokenizer};

/// Episodes that one thread plays, in a session of its own and with environments of its own.
pub(super) struct Shard<'a> {
    pub(super) session: Session<'a>,
    pub(super) pool: Pool,
    /// Each is played in the environment and in the conversation of its index.
    pub(super) live: Vec<Live>,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) prompter: &'a Prompter,
    pub(super) limits: &'a Limits,
    pub(super) timeout: Duration,
    pub(super) apart: bool,
    pub(super) counts: Counts,
}

/// What is counted while episodes are played.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sampled_tokens: usize,
    pub(super) cut_responses: usize,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.sampled_tokens += other.sampled_tokens;
        self.cut_responses += other.cut_responses;
    }
}

/// Environments that step while others are sampled.
struct Away {
    indices: Vec<usize>,
    stepping: JoinHandle<(Pool, Vec<Result<Outcome, String>>)>,
}

impl Shard<'_> {
    /// Plays all episodes to their ends.
    pub(super) fn run(mut self) -> Result<(Vec<Live>, Pool, Counts), CollectError> {
        set_threads(1);
        let seeds = self.live.iter().enumerate().map(|(index, episode)| (index, episode.seed())).collect();
        for (index, reset) in self.pool.reset_all(seeds, Some(self.timeout)).into_iter().enumerate() {
            self.live[index].begin(reset.map_err(|failure| failure.message));
            self.go_on(index)?;
        }
        if self.apart { self.play_apart() } else { self.play() }
    }

    /// Steps environments as soon as they have a response.
    fn play(mut self) -> Result<(Vec<Live>, Pool, Counts), CollectError> {
        while self.session.busy() > 0 {
            let requests = self.sample()?;
            if requests.is_empty() {
                continue;
            }
            let indices: Vec<usize> = requests.iter().map(|request| request.index).collect();
            let outcomes = step(&mut self.pool, requests, self.timeout);
            self.take(&indices, outcomes)?;
        }
        Ok((self.live, self.pool, self.counts))
    }

    /// Steps environments in another thread while responses are sampled: when those that have their response are as many
    /// as those that are still being sampled, and have come back from there.
    fn play_apart(mut self) -> Result<(Vec<Live>, Pool, Counts), CollectError> {
        let mut waiting: Vec<Request> = Vec::new();
        let mut away: Option<Away> = None;
        loop {
            waiting.extend(self.sample()?);
            if waiting.len() < self.session.busy() {
                continue;
            }
            if let Some(Away { indices, stepping }) = away.take() {
                let (pool, outcomes) = stepping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                self.pool = pool;
                self.take(&indices, outcomes)?;
            }
            if !waiting.is_empty() {
                let (requests, timeout) = (std::mem::take(&mut waiting), self.timeout);
                let indices = requests.iter().map(|request| request.index).collect();
                let mut pool = std::mem::replace(&mut self.pool, Pool::empty());
                let stepping = thread::Builder::new().name("stepping".to_owned()).spawn(move || {
                    let outcomes = step(&mut pool, requests, timeout);
                    (pool, outcomes)
                });
                away =
                    Some(Away { indices, stepping: stepping.map_err(accredit_environments::EnvironmentError::from)? });
            }
            if away.is_none() && self.session.busy() == 0 {
                return Ok((self.live, self.pool, self.counts));
            }
        }
    }

    /// One pass of the model; gives what environments are to play next.
    fn sample(&mut self) -> Result<Vec<Request>, CollectError> {
        let mut requests = Vec::new();
        for (index, answer) in self.session.step()? {
            self.counts.sampled_tokens += answer.tokens.len();
            self.counts.cut_responses += usize::from(answer.stop == StopReason::Length);
            requests.push(self.live[index].answer(index, self.tokenizer, self.prompter, answer));
        }
        Ok(requests)
    }

    /// Takes what environments answered.
    fn take(&mut self, indices: &[usize], outcomes: Vec<Result<Outcome, String>>) -> Result<(), CollectError> {
        for (index, outcome) in indices.iter().zip(outcomes) {
            self.live[*index].step(outcome, self.prompter);
            self.go_on(*index)?;
        }
        Ok(())
    }

    /// Asks for the next response of an episode, or gives its place in the session away.
    fn go_on(&mut self, index: usize) -> Result<(), CollectError> {
        match self.live[index].ask(index, self.tokenizer, self.prompter, self.limits)? {
            Some(ask) => self.session.ask(ask)?,
            None => self.session.close(index),
        }
        Ok(())
    }
}

/// Plays these turns; an environment that gives no answer says why.
fn step(pool: &mut Pool, requests: Vec<Request>, timeout: Duration) -> Vec<Result<Outcome, String>> {
    let outcomes = pool.step_all(requests, Some(timeout));
    outcomes.into_iter().map(|outcome| outcome.map_err(|failure| failure.message)).collect()
}
