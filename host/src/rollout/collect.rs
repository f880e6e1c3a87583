//! Playing episodes: the policy and the environments take turns in many of them at once, until all are over.
//!
//! The episodes are dealt to threads, each with a session of the sampler and a pool of environments; who is sampled in
//! one pass with whom depends on the episodes alone, never on how long anything took, so a run can be repeated bit for bit.

mod live;
mod shard;

use std::time::Duration;

use accredit_core::{episode::Trajectory, rng::Stream};
use accredit_environments::{Environment, EnvironmentError, Pool};
use accredit_torch::{Sampler, Sampling};
use thiserror::Error;

use self::{
    live::Live,
    shard::{Counts, Shard},
};
use super::{
    prompt::Prompter,
    stop::StopTexts,
    tokenizer::{Tokenizer, TokenizerError},
};
use crate::config::{OnFailure, OverlongPrompt};

/// How often a failed episode is played again.
const REPLAYS: u64 = 2;
/// Into how many parts, whole groups each, failed episodes are cut to be played again where another program plays them:
/// a task that breaks the program takes along whatever is played beside it.
const PARTS: usize = 8;

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

/// How the policy plays.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Texts that end a response, beside the stop tokens.
    pub stop: StopTexts,
    /// The most tokens of a response.
    pub max_tokens: usize,
    /// The most tokens of all responses of an episode; none means no limit.
    pub max_episode_tokens: Option<usize>,
    /// The most tokens of a row.
    pub max_context: usize,
    /// What happens where a prompt leaves no room for a response.
    pub overlong_prompt: OverlongPrompt,
    /// The most steps of an episode.
    pub max_steps: usize,
    /// The most episodes that are sampled at once; none means all.
    pub max_num_seqs: Option<usize>,
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
    /// What came of prompts that were too long.
    pub overlong: Overlong,
}

/// What came of prompts that left no room for a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlong {
    /// Episodes that such a prompt ended.
    pub ended: usize,
    /// Prompts that turns were left out of.
    pub shortened: usize,
    /// Turns that were left out, each as often as a prompt dropped it.
    pub dropped_turns: usize,
}

impl Overlong {
    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.ended += other.ended;
        self.shortened += other.shortened;
        self.dropped_turns += other.dropped_turns;
    }
}

/// Plays episodes.
pub struct Collector {
    make: Make,
    threads: usize,
    /// Whether steps wait for another program, so that it is worth sampling meanwhile.
    apart: bool,
    /// One for each thread that samples.
    pools: Vec<Pool>,
    failures: Failures,
    iteration: u64,
}

impl Collector {
    /// A collector whose environments step in so many threads. `apart` says that they wait for another program.
    pub fn new(make: Make, threads: usize, apart: bool, failures: Failures) -> Self {
        Self { make, threads, apart, pools: Vec::new(), failures, iteration: 0 }
    }

    /// The iteration that episodes are said to be of.
    pub fn set_iteration(&mut self, iteration: u64) {
        self.iteration = iteration;
    }

    /// Plays all episodes. `noise` is the stream of this round; a trajectory's tokens depend on it, on its group, its
    /// number in the group, its attempt, its step and the position, and on nothing else.
    pub fn play(
        &mut self,
        sampler: &Sampler,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        plays: &[Play],
        limits: &Limits,
        noise: Stream,
    ) -> Result<Played, CollectError> {
        let mut played = Played::default();
        let mut episodes: Vec<Option<Trajectory>> = vec![None; plays.len()];
        let mut pending: Vec<usize> = (0..plays.len()).collect();
        let mut message = String::new();
        for attempt in 0..=REPLAYS {
            let mut failed = Vec::new();
            let parts = if attempt > 0 && self.apart { parts(&pending, plays) } else { vec![pending] };
            for part in parts {
                let round: Vec<Live> = part.iter().map(|index| Live::new(plays[*index], noise, attempt)).collect();
                let (live, counts) = self.round(sampler, tokenizer, prompter, round, limits)?;
                played.sampled_tokens += counts.sampled_tokens;
                played.cut_responses += counts.cut_responses;
                for (index, episode) in part.into_iter().zip(live) {
                    if let Some(why) = &episode.failure {
                        message.clone_from(why);
                        failed.push(index);
                    }
                    played.overlong.add(episode.overlong);
                    episodes[index] = Some(episode.finish(self.iteration, prompter));
                }
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

    /// Plays these episodes once, and gives them back in their order.
    fn round(
        &mut self,
        sampler: &Sampler,
        tokenizer: &Tokenizer,
        prompter: &Prompter,
        mut live: Vec<Live>,
        limits: &Limits,
    ) -> Result<(Vec<Live>, Counts), CollectError> {
        let at_once = limits.max_num_seqs.unwrap_or(usize::MAX);
        let threads = sampler.threads(limits.threads).min(at_once);
        let size = live.len().div_ceil(threads).max(1);
        let count = live.len().div_ceil(size);
        let ends = limits.stop.ends(tokenizer);
        let mut shards = Vec::with_capacity(count);
        for index in 0..count {
            let rest = live.split_off(size.min(live.len()));
            let episodes = std::mem::replace(&mut live, rest);
            // Dealt out like the episodes.
            let places = (at_once / count + usize::from(index < at_once % count)).min(episodes.len());
            shards.push(Shard {
                session: sampler.session(places, limits.sampling, tokenizer.stop(), ends.as_deref())?,
                pool: self.pool(episodes.len(), self.threads.div_ceil(threads))?,
                live: episodes,
                tokenizer,
                prompter,
                limits,
                timeout: self.failures.timeout,
                apart: self.apart,
                counts: Counts::default(),
            });
        }
        let results = std::thread::scope(|scope| {
            let running: Vec<_> = shards.into_iter().map(|shard| scope.spawn(|| shard.run())).collect();
            running
                .into_iter()
                .map(|shard| shard.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        let mut counts = Counts::default();
        for result in results {
            let (episodes, pool, counted) = result?;
            live.extend(episodes);
            self.pools.push(self.mended(pool)?);
            counts.add(counted);
        }
        Ok((live, counts))
    }

    /// Takes a pool of at least so many environments, out of those that are there or a new one.
    fn pool(&mut self, size: usize, threads: usize) -> Result<Pool, CollectError> {
        if let Some(found) = self.pools.iter().position(|pool| pool.len() >= size) {
            return Ok(self.pools.remove(found));
        }
        self.pools.clear();
        let environments = (0..size).map(|_| (self.make)()).collect::<Result<Vec<_>, _>>()?;
        Ok(Pool::new(environments, threads)?)
    }

    /// The pool with new environments in place of lost ones.
    fn mended(&self, mut pool: Pool) -> Result<Pool, CollectError> {
        for index in pool.lost() {
            // One that stays lost fails again when it is reset, and is counted then.
            if let Err(failure) = pool.replace(index, (self.make)()?) {
                tracing::warn!("environment {index} could not be replaced: {}", failure.message);
            }
        }
        Ok(pool)
    }
}

/// Episodes in at most [`PARTS`] parts, no group in two of them.
fn parts(pending: &[usize], plays: &[Play]) -> Vec<Vec<usize>> {
    let groups: Vec<&[usize]> = pending.chunk_by(|a, b| plays[*a].group == plays[*b].group).collect();
    groups.chunks(groups.len().div_ceil(PARTS).max(1)).map(<[_]>::concat).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use accredit_core::{
        batch::Batch,
        episode::{Status, Step},
        rng::Purpose,
    };
    use accredit_environments::{Demonstration, Outcome, Task, Turn};
    use accredit_plugin_api::columns::ROW_STEPS;
    use accredit_torch::{Device, Model, ModelConfig, Shape, SpecialIds, Wanted};

    use super::*;
    use crate::{
        config::{Context, Prompt, Rollout},
        rollout::kinds::Tags,
        scoring::Rows,
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

    /// An environment in a program that all share, which seed 0 breaks: with it, every episode that is under way.
    struct Poisoned {
        program: Arc<AtomicUsize>,
        started: Option<(usize, u64)>,
    }

    impl Environment for Poisoned {
        fn instructions(&self) -> String {
            String::new()
        }

        fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
            self.started = Some((self.program.load(Ordering::SeqCst), seed));
            Ok(Turn { observation: format!("seed {seed}"), ..Turn::default() })
        }

        fn step(&mut self, _action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
            let (program, seed) = self.started.take().ok_or(EnvironmentError::NotStarted)?;
            if seed == 0 {
                self.program.fetch_add(1, Ordering::SeqCst);
            }
            if self.program.load(Ordering::SeqCst) != program {
                return Err(EnvironmentError::Failed("the program broke".to_owned()));
            }
            Ok(Outcome { reward: 1.0, terminal: true, success: true, valid_action: true, ..Outcome::default() })
        }

        fn expert(&mut self) -> Option<Demonstration> {
            None
        }
    }

    /// Goes on for three or four steps, and shows what was said so far.
    #[derive(Default)]
    struct Chatty {
        seed: u64,
        said: Vec<usize>,
    }

    impl Chatty {
        fn turn(&self) -> Turn {
            Turn { observation: format!("{} {:?}", self.seed, self.said), ..Turn::default() }
        }
    }

    impl Environment for Chatty {
        fn instructions(&self) -> String {
            String::new()
        }

        fn task(&self) -> Task {
            Task::default()
        }

        fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
            *self = Self { seed, said: Vec::new() };
            Ok(self.turn())
        }

        fn step(&mut self, _action: Option<&str>, response: &str) -> Result<Outcome, EnvironmentError> {
            self.said.push(response.len());
            let terminal = self.said.len() as u64 == 3 + self.seed % 2;
            let (reward, feedback) = (1.0, String::new());
            Ok(Outcome { reward, terminal, success: true, valid_action: true, feedback, turn: self.turn() })
        }

        fn expert(&mut self) -> Option<Demonstration> {
            None
        }
    }

    const FAILURES: Failures =
        Failures { on_failure: OnFailure::Replace, max_share: 0.5, timeout: Duration::from_secs(30) };

    fn limits() -> Limits {
        Limits {
            sampling: Sampling::default(),
            stop: StopTexts::default(),
            max_tokens: 4,
            max_episode_tokens: None,
            max_context: 64,
            overlong_prompt: OverlongPrompt::EndEpisode,
            max_steps: 2,
            max_num_seqs: None,
            threads: 1,
        }
    }

    /// What must be the same: how an episode ended, and its prompts and tokens.
    type Alike = (Status, Vec<(String, Vec<u32>)>);

    /// The same episodes with other threads, environments that are apart, and less room, in both contexts.
    #[test]
    fn an_episode_does_not_depend_on_what_it_is_played_beside() {
        for context in [Context::Concat, Context::Window] {
            let play = |threads, apart, max_num_seqs| {
                let make: Make = Box::new(|| Ok(Box::new(Chatty::default()) as Box<dyn Environment>));
                let limits =
                    Limits { max_tokens: 9, max_context: 2048, max_steps: 9, threads, max_num_seqs, ..limits() };
                let mut collector = Collector::new(make, 2, apart, FAILURES);
                collect(&mut collector, context, &limits).unwrap().episodes
            };
            let alike = |episodes: &[Trajectory]| -> Vec<Alike> {
                let step = |step: &accredit_core::episode::Step| (step.prompt.clone(), step.tokens.token_id.clone());
                episodes.iter().map(|episode| (episode.status, episode.steps.iter().map(step).collect())).collect()
            };
            let expected = alike(&play(1, false, None));
            assert!(expected.iter().all(|(status, steps)| *status == Status::Completed && steps.len() >= 3));
            for (threads, apart, max_num_seqs) in
                [(1, true, None), (2, false, None), (3, true, None), (1, false, Some(2)), (2, true, Some(3))]
            {
                assert_eq!(alike(&play(threads, apart, max_num_seqs)), expected);
            }
        }
    }

    #[test]
    fn an_episode_ends_when_its_tokens_are_used_up() {
        let make: Make = Box::new(|| Ok(Box::new(Chatty::default()) as Box<dyn Environment>));
        let limits =
            Limits { max_tokens: 9, max_context: 2048, max_steps: 9, max_episode_tokens: Some(12), ..limits() };
        let played = collect(&mut Collector::new(make, 1, false, FAILURES), Context::Concat, &limits).unwrap();
        for episode in &played.episodes {
            let tokens: usize = episode.steps.iter().map(|step| step.tokens.token_id.len()).sum();
            assert!(tokens <= 12, "{tokens}");
            assert!(episode.status == Status::TruncatedLength || episode.status == Status::Completed);
        }
        assert!(played.episodes.iter().any(|episode| episode.status == Status::TruncatedLength));
    }

    /// An episode that a prompt without room ends, and the same one with its oldest turns left out: in both contexts the
    /// rows that would be trained fit, and the model gives their tokens the probabilities that the sampler gave them.
    #[test]
    fn turns_are_left_out_where_a_prompt_is_too_long_and_rows_are_what_was_sampled() {
        for (context, window) in [(Context::Concat, 0), (Context::Window, 3)] {
            let play = |max_context, overlong_prompt| {
                let make: Make = Box::new(|| Ok(Box::new(Chatty::default()) as Box<dyn Environment>));
                let limits = Limits { max_tokens: 9, max_context, max_steps: 9, overlong_prompt, ..limits() };
                let config = Rollout { prompt: Prompt::Bare, context, window, ..Rollout::default() };
                collect_with(&mut Collector::new(make, 1, false, FAILURES), &config, &limits).unwrap()
            };
            let (whole, _) = play(2048, OverlongPrompt::DropOldest);
            assert_eq!(whole.overlong, Overlong::default());
            let batch = Batch::build(&whole.episodes, &[], &[]).unwrap();
            let rows = Rows::of(&batch, &whole.episodes);
            // The longest prompt just fits, and leaves no room.
            let sampled =
                batch.step_sources().into_iter().map(|(e, s)| whole.episodes[e].steps[s].tokens.token_id.len());
            let last = batch.offsets(ROW_STEPS)[1..].iter().map(|end| sampled.clone().nth(*end as usize - 1).unwrap());
            let max_context = rows.all().iter().zip(last).map(|(row, last)| row.tokens.len() - last).max().unwrap();

            let (ended, _) = play(max_context, OverlongPrompt::EndEpisode);
            let cut = ended.episodes.iter().filter(|episode| episode.status == Status::TruncatedLength).count();
            assert!(cut > 0, "{context:?}");
            assert_eq!(ended.overlong, Overlong { ended: cut, ..Overlong::default() });

            let (played, model) = play(max_context, OverlongPrompt::DropOldest);
            assert!(played.episodes.iter().all(|episode| episode.status == Status::Completed), "{context:?}");
            let Overlong { ended, shortened, dropped_turns } = played.overlong;
            assert!(ended == 0 && shortened > 0 && dropped_turns >= shortened, "{:?}", played.overlong);
            let batch = Batch::build(&played.episodes, &[], &[]).unwrap();
            let rows = Rows::of(&batch, &played.episodes);
            assert!(rows.all().iter().all(|row| row.tokens.len() <= max_context));
            let sampled: Vec<f32> = played
                .episodes
                .iter()
                .flat_map(|episode| &episode.steps)
                .flat_map(|step| step.tokens.columns["sampler_logprob"].clone())
                .collect();
            let wanted = Wanted { logprob: true, ..Wanted::default() };
            let scored = model.score(&rows.all(), wanted, 1.0, 0).unwrap().logprob;
            assert_eq!(sampled.len(), scored.len());
            assert!(sampled.iter().zip(&scored).all(|(a, b)| (a - b).abs() < 1e-4), "{context:?}");
            if context == Context::Concat {
                let begun: Vec<&Step> =
                    played.episodes.iter().flat_map(|e| &e.steps).filter(|step| step.begins_row).collect();
                assert_eq!((begun.len(), rows.all().len()), (shortened, played.episodes.len() + shortened));
                for episode in &played.episodes {
                    let first = &episode.steps[0].context;
                    for (index, step) in episode.steps.iter().enumerate().filter(|(_, step)| step.begins_row) {
                        let last = &episode.steps[index - 1].tokens.token_id;
                        let before = &step.context[..step.history];
                        assert!(before.starts_with(first) && before.ends_with(last), "an id changed");
                    }
                }
            }
        }
    }

    #[test]
    fn an_episode_ends_where_nothing_more_can_be_left_out() {
        for context in [Context::Concat, Context::Window] {
            let make: Make = Box::new(|| Ok(Box::new(Chatty::default()) as Box<dyn Environment>));
            let limits =
                Limits { max_context: 10, max_steps: 9, overlong_prompt: OverlongPrompt::DropOldest, ..limits() };
            let played = collect(&mut Collector::new(make, 1, false, FAILURES), context, &limits).unwrap();
            assert!(played.episodes.iter().all(|episode| episode.status == Status::TruncatedLength));
            assert_eq!(played.overlong.ended, 6, "{:?}", played.overlong);
        }
    }

    /// Plays two groups of three with so many breakdowns.
    fn play(breakdowns: usize, panics: bool, on_failure: OnFailure, max_share: f64) -> Result<Played, CollectError> {
        let breakdowns = Arc::new(AtomicUsize::new(breakdowns));
        let make: Make = Box::new(move || {
            Ok(Box::new(Fragile { breakdowns: Arc::clone(&breakdowns), panics }) as Box<dyn Environment>)
        });
        let failures = Failures { on_failure, max_share, ..FAILURES };
        collect(&mut Collector::new(make, 1, false, failures), Context::Window, &limits())
    }

    /// Plays two groups of three with a small model.
    fn collect(collector: &mut Collector, context: Context, limits: &Limits) -> Result<Played, CollectError> {
        let config = Rollout { prompt: Prompt::Bare, context, ..Rollout::default() };
        collect_with(collector, &config, limits).map(|(played, _)| played)
    }

    fn collect_with(
        collector: &mut Collector,
        config: &Rollout,
        limits: &Limits,
    ) -> Result<(Played, Model), CollectError> {
        let folder = tempfile::tempdir().unwrap();
        let tags = Tags::new("think", "answer").all();
        let tokenizer = Tokenizer::create(folder.path(), &["seed".to_owned()], &tags, 300).unwrap();
        let prompter = Prompter::new(config, &tokenizer.chat, "").unwrap();
        let shape = Shape {
            vocab_size: tokenizer.vocabulary(),
            hidden_size: 16,
            intermediate_size: 16,
            layers: 1,
            ..Shape::default()
        };
        let model = Model::create(ModelConfig::new(shape, SpecialIds::default()).unwrap(), 1, Device::CPU).unwrap();
        let plays: Vec<Play> = (0..6).map(|i| Play { group: i / 3, member: i % 3, seed: i / 3 }).collect();
        let noise = Stream::new(1, Purpose::Sampling);
        let played = collector.play(&model.sampler().unwrap(), &tokenizer, &prompter, &plays, limits, noise)?;
        Ok((played, model))
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
    fn a_task_that_breaks_its_program_takes_no_other_group_with_it() {
        let play = |apart| {
            let program = Arc::new(AtomicUsize::new(0));
            let make: Make = Box::new(move || {
                Ok(Box::new(Poisoned { program: Arc::clone(&program), started: None }) as Box<dyn Environment>)
            });
            collect(&mut Collector::new(make, 1, apart, FAILURES), Context::Window, &limits())
        };
        let played = play(true).unwrap();
        assert_eq!((failed(&played), played.failed_attempts), (3, 12));
        assert!(played.episodes.iter().all(|episode| (episode.status == Status::Failed) == (episode.seed == Some(0))));
        assert!(play(false).unwrap_err().to_string().starts_with("6 of 6 episodes failed"));
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
