//! Playing episodes: the policy answers all live episodes at once, the environments step in threads, until all are over.

use std::time::Duration;

use accredit_core::{
    episode::{Layout, Status, Step, Tokens, Trajectory},
    rng::Stream,
};
use accredit_environments::{Environment, EnvironmentError, Outcome, Pool, Request, Task, Turn};
use accredit_torch::{Generation, Sampler, StopReason};
use thiserror::Error;

use super::{
    prompt::{Past, Prompter},
    tokenizer::{Tokenizer, TokenizerError},
};
use crate::config::OnFailure;

/// How often a failed episode is played again.
const REPLAYS: u64 = 2;

/// Episodes that could not be played.
#[derive(Debug, Error)]
pub enum CollectError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] accredit_torch::Error),
    /// A prompt could not be made.
    #[error(transparent)]
    Prompt(#[from] TokenizerError),
    /// An environment could not be made.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// Too many environments broke.
    #[error(
        "{failed} of {played} episodes failed, more than `environment.max_failed_share` ({share}) allows; the last: \
         {message}"
    )]
    TooManyFailed {
        /// Episodes that failed.
        failed: usize,
        /// Episodes that were played.
        played: usize,
        /// The share that is allowed.
        share: f64,
        /// What the last of them said.
        message: String,
    },
}

/// Makes an environment.
pub type Make = Box<dyn Fn() -> Result<Box<dyn Environment>, EnvironmentError>>;

/// An episode to play.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// Its group.
    pub group: u64,
    /// Which of the group's trajectories it is.
    pub member: u64,
    /// The environment's seed, which the whole group shares.
    pub seed: u64,
}

/// How tokens are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the likeliest token.
    pub temperature: f32,
    /// Only so many likeliest tokens.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together have this probability.
    pub top_p: Option<f32>,
    /// The most tokens of a response.
    pub max_tokens: usize,
    /// The most tokens of a row.
    pub max_context: usize,
    /// The most steps of an episode.
    pub max_steps: usize,
    /// Threads that sample.
    pub threads: usize,
}

/// What becomes of episodes whose environment breaks.
#[derive(Clone, Copy, Debug)]
pub struct Failures {
    /// Played again or left out.
    pub on_failure: OnFailure,
    /// The share of episodes that may fail.
    pub max_share: f64,
    /// How long a step may take.
    pub timeout: Duration,
}

/// What was played.
#[derive(Debug, Default)]
pub struct Played {
    /// The episodes, in the order of the plays.
    pub episodes: Vec<Trajectory>,
    /// Tokens that were sampled, failed attempts included.
    pub sampled_tokens: usize,
    /// Responses that the limit of tokens cut.
    pub cut_responses: usize,
    /// Attempts that failed.
    pub failed_attempts: usize,
}

/// Plays episodes.
pub struct Collector {
    make: Make,
    threads: usize,
    pool: Option<Pool>,
    failures: Failures,
    iteration: u64,
}

impl Collector {
    /// A collector whose environments step in so many threads.
    pub fn new(make: Make, threads: usize, failures: Failures) -> Self {
        Self { make, threads, pool: None, failures, iteration: 0 }
    }

    /// The iteration that episodes are said to be of.
    pub fn set_iteration(&mut self, iteration: u64) {
        self.iteration = iteration;
    }

    /// Plays all episodes at once. `noise` is the stream of this round; a trajectory's tokens depend on it, on its
    /// group, its number in the group, its attempt, its step and the position, and on nothing else.
    pub fn play(
        &mut self,
        sampler: &Sampler,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        plays: &[Play],
        sampling: Sampling,
        noise: Stream,
    ) -> Result<Played, CollectError> {
        let mut played = Played::default();
        let mut episodes: Vec<Option<Trajectory>> = vec![None; plays.len()];
        let mut pending: Vec<usize> = (0..plays.len()).collect();
        let mut message = String::new();
        for attempt in 0..=REPLAYS {
            let round: Vec<Play> = pending.iter().map(|index| plays[*index]).collect();
            let live = self.round(sampler, tokenizer, prompter, &round, sampling, noise, attempt, &mut played)?;
            let mut failed = Vec::new();
            for (index, episode) in pending.into_iter().zip(live) {
                if let Some(why) = &episode.failure {
                    message.clone_from(why);
                    failed.push(index);
                }
                episodes[index] = Some(episode.finish(self.iteration, prompter));
            }
            played.failed_attempts += failed.len();
            pending = failed;
            if pending.is_empty() || self.failures.on_failure == OnFailure::LeaveOut {
                break;
            }
        }
        played.episodes = episodes.into_iter().flatten().collect();
        let failed = pending.len();
        if failed as f64 > self.failures.max_share * plays.len() as f64 {
            return Err(CollectError::TooManyFailed {
                failed,
                played: plays.len(),
                share: self.failures.max_share,
                message,
            });
        }
        Ok(played)
    }

    #[expect(clippy::too_many_arguments, reason = "one round of `play`, with what it was given")]
    fn round(
        &mut self,
        sampler: &Sampler,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        plays: &[Play],
        sampling: Sampling,
        noise: Stream,
        attempt: u64,
        played: &mut Played,
    ) -> Result<Vec<Live>, CollectError> {
        let timeout = Some(self.failures.timeout);
        let pool = self.pool(plays.len())?;
        let resets = pool.reset_all(plays.iter().enumerate().map(|(i, play)| (i, play.seed)).collect(), timeout);
        let mut live: Vec<Live> = plays
            .iter()
            .zip(resets)
            .map(|(play, reset)| Live::new(*play, reset.map_err(|failure| failure.message), noise, attempt))
            .collect();
        for step in 0..sampling.max_steps as u64 {
            let mut asked: Vec<usize> = Vec::new();
            for (index, episode) in live.iter_mut().enumerate().filter(|(_, episode)| episode.playing()) {
                if episode.ask(tokenizer, prompter, sampling)? {
                    asked.push(index);
                }
            }
            if asked.is_empty() {
                break;
            }
            let prompts: Vec<&[u32]> = asked.iter().map(|index| live[*index].prompt.as_slice()).collect();
            let streams: Vec<Stream> = asked.iter().map(|index| live[*index].noise.with(step)).collect();
            let limits: Vec<usize> =
                prompts.iter().map(|prompt| sampling.max_tokens.min(sampling.max_context - prompt.len())).collect();
            let answers = sampler.generate(&Generation {
                prompts: &prompts,
                noise: &streams,
                max_new_tokens: &limits,
                stop: tokenizer.stop(),
                temperature: sampling.temperature,
                top_k: sampling.top_k,
                top_p: sampling.top_p,
                threads: sampling.threads,
                cancelled: None,
            })?;
            let mut requests = Vec::with_capacity(asked.len());
            for (index, answer) in asked.iter().zip(answers) {
                played.sampled_tokens += answer.tokens.len();
                played.cut_responses += usize::from(answer.stop == StopReason::Length);
                requests.push(live[*index].answer(*index, tokenizer, prompter, answer));
            }
            let pool = self.pool(plays.len())?;
            for (index, outcome) in asked.into_iter().zip(pool.step_all(requests, timeout)) {
                live[index].step(outcome.map_err(|failure| failure.message), prompter);
            }
        }
        let lost = self.pool(plays.len())?.lost();
        for index in lost {
            let environment = (self.make)()?;
            if let Some(pool) = &mut self.pool {
                // One that stays lost fails again when it is reset, and is counted then.
                if let Err(failure) = pool.replace(index, environment) {
                    tracing::warn!("environment {index} could not be replaced: {}", failure.message);
                }
            }
        }
        Ok(live)
    }

    /// A pool of at least so many environments.
    fn pool(&mut self, size: usize) -> Result<&mut Pool, CollectError> {
        let pool = if let Some(pool) = self.pool.take().filter(|pool| pool.len() >= size) {
            pool
        } else {
            let environments = (0..size).map(|_| (self.make)()).collect::<Result<Vec<_>, _>>()?;
            Pool::new(environments, self.threads)?
        };
        Ok(self.pool.insert(pool))
    }
}

/// An episode while it is played.
struct Live {
    play: Play,
    noise: Stream,
    task: Task,
    turn: Option<Turn>,
    past: Vec<Past>,
    steps: Vec<Step>,
    /// All ids of the row so far.
    row: Vec<u32>,
    /// What the policy reads for the next response.
    prompt: Vec<u32>,
    /// The stop token of the last response; none if the limit cut it.
    ended: Option<u32>,
    terminal: bool,
    success: bool,
    out_of_room: bool,
    failure: Option<String>,
}

impl Live {
    fn new(play: Play, reset: Result<(Turn, Task), String>, noise: Stream, attempt: u64) -> Self {
        let (turn, task, failure) = match reset {
            Ok((turn, task)) => (Some(turn), task, None),
            Err(message) => (None, Task::default(), Some(message)),
        };
        Self {
            play,
            noise: noise.with(play.group).with(play.member).with(attempt),
            task,
            turn,
            past: Vec::new(),
            steps: Vec::new(),
            row: Vec::new(),
            prompt: Vec::new(),
            ended: None,
            terminal: false,
            success: false,
            out_of_room: false,
            failure,
        }
    }

    fn playing(&self) -> bool {
        self.failure.is_none() && !self.terminal && !self.out_of_room
    }

    /// Prepares the next prompt; false if no room is left for a response.
    fn ask(&mut self, tokenizer: &Tokenizer, prompter: &Prompter, sampling: Sampling) -> Result<bool, CollectError> {
        let Some(turn) = &self.turn else { return Ok(false) };
        let user = prompter.user_turn(&self.task.text, &self.past, turn);
        let context = prompter.context(tokenizer, &user, self.steps.len(), self.ended)?;
        if prompter.step_rows() {
            self.row.clear();
        }
        self.row.extend(&context);
        if self.row.len() >= sampling.max_context {
            self.out_of_room = true;
            return Ok(false);
        }
        self.prompt.clone_from(&self.row);
        self.steps.push(Step {
            state: prompter.state(turn),
            observation: turn.observation.clone(),
            prompt: user,
            context,
            ..Step::default()
        });
        Ok(true)
    }

    /// Takes a response, and gives what the environment is to play.
    fn answer(
        &mut self,
        index: usize,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        answer: accredit_torch::Generated,
    ) -> Request {
        let parsed = prompter.tags.parse(tokenizer, &answer.tokens);
        self.ended = match answer.stop {
            StopReason::Stop => answer.tokens.last().copied(),
            StopReason::Length => None,
        };
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
    fn step(&mut self, outcome: Result<Outcome, String>, prompter: &Prompter) {
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

    fn finish(self, iteration: u64, prompter: &Prompter) -> Trajectory {
        let status = if self.failure.is_some() {
            Status::Failed
        } else if self.terminal {
            Status::Completed
        } else if self.out_of_room || self.ended.is_none() {
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
            outcome: None,
            steps: self.steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use accredit_core::rng::Purpose;
    use accredit_environments::Demonstration;
    use accredit_torch::{Device, Model, ModelConfig, Shape, SpecialIds};

    use super::*;
    use crate::{
        config::{Context, Prompt, Rollout},
        rollout::kinds::Tags,
    };

    /// Ends after a step, or breaks in it while there are breakdowns left.
    struct Fragile {
        breakdowns: Arc<AtomicUsize>,
        panics: bool,
    }

    impl Environment for Fragile {
        fn instructions(&self) -> String {
            String::new()
        }

        fn task(&self) -> Task {
            Task::default()
        }

        fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
            Ok(Turn { observation: format!("seed {seed}"), state: None, actions: Vec::new() })
        }

        fn step(&mut self, _action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
            let left = self.breakdowns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            assert!(!(left.is_ok() && self.panics), "broken");
            if left.is_ok() {
                // Any error of an environment will do.
                return accredit_environments::make("nowhere", &serde_json::Map::new()).map(|_| unreachable!());
            }
            let turn = Turn { observation: String::new(), state: None, actions: Vec::new() };
            let (reward, feedback) = (1.0, String::new());
            Ok(Outcome { reward, terminal: true, success: true, valid_action: true, feedback, turn })
        }

        fn expert(&mut self) -> Option<Demonstration> {
            None
        }
    }

    /// Plays two groups of three with so many breakdowns.
    fn play(breakdowns: usize, panics: bool, on_failure: OnFailure, max_share: f64) -> Result<Played, CollectError> {
        let folder = tempfile::tempdir().unwrap();
        let tags = Tags::new("think", "answer").all();
        let tokenizer = Tokenizer::create(folder.path(), &["seed".to_owned()], &tags, 300).unwrap();
        let config = Rollout { prompt: Prompt::Bare, context: Context::Window, max_tokens: 4, ..Rollout::default() };
        let prompter = Prompter::new(&config, &tokenizer.chat, "").unwrap();
        let shape = Shape {
            vocab_size: tokenizer.vocabulary(),
            hidden_size: 16,
            intermediate_size: 16,
            layers: 1,
            ..Shape::default()
        };
        let model = Model::create(ModelConfig::new(shape, SpecialIds::default()).unwrap(), 1, Device::CPU).unwrap();
        let breakdowns = Arc::new(AtomicUsize::new(breakdowns));
        let make: Make = Box::new(move || {
            Ok(Box::new(Fragile { breakdowns: Arc::clone(&breakdowns), panics }) as Box<dyn Environment>)
        });
        let failures = Failures { on_failure, max_share, timeout: Duration::from_secs(30) };
        let sampling = Sampling {
            temperature: 1.0,
            top_k: None,
            top_p: None,
            max_tokens: 4,
            max_context: 64,
            max_steps: 2,
            threads: 1,
        };
        let plays: Vec<Play> = (0..6).map(|i| Play { group: i / 3, member: i % 3, seed: i / 3 }).collect();
        let noise = Stream::new(1, Purpose::Sampling);
        Collector::new(make, 1, failures).play(
            &model.sampler().unwrap(),
            &tokenizer,
            &prompter,
            &plays,
            sampling,
            noise,
        )
    }

    fn failed(played: &Played) -> usize {
        played.episodes.iter().filter(|episode| episode.status == Status::Failed).count()
    }

    #[test]
    fn a_broken_environment_is_played_again_and_counted() {
        for panics in [false, true] {
            let played = play(2, panics, OnFailure::Replace, 0.5).unwrap();
            assert_eq!((failed(&played), played.failed_attempts, played.episodes.len()), (0, 2, 6));
        }
    }

    #[test]
    fn a_broken_environment_is_left_out_where_that_is_wanted() {
        let played = play(2, false, OnFailure::LeaveOut, 0.5).unwrap();
        assert_eq!((failed(&played), played.failed_attempts), (2, 2));
    }

    #[test]
    fn a_run_ends_when_too_many_environments_break() {
        let error = play(1000, false, OnFailure::Replace, 0.5).unwrap_err().to_string();
        assert!(error.starts_with("6 of 6 episodes failed, more than `environment.max_failed_share` (0.5)"), "{error}");
    }
}
