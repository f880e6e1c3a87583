//! Which tasks are played. Held-out tasks come from their own seed, and no training task starts as one of them does.

use std::collections::HashSet;

use accredit_core::rng::{Purpose, Stream};
use accredit_environments::{Environment, EnvironmentError};

/// How often a task that starts like a held-out one is drawn again.
const REDRAWS: u64 = 1_000;
/// How often a task that breaks its environment is started, and how many such tasks in a row say that it is not the task.
const STARTS: usize = 3;

/// Which tasks are held out.
pub struct HeldOut {
    /// The environment that plays them.
    pub environment: Box<dyn Environment>,
    /// How many it has, where they are finite.
    pub tasks: Option<u64>,
    /// The seed that they are drawn with.
    pub seed: u64,
    /// How many are wanted.
    pub count: usize,
}

/// Draws tasks: the seeds of environments.
pub struct Tasks {
    environment: Box<dyn Environment>,
    held_out: HashSet<First>,
    held_out_seeds: Vec<u64>,
}

/// What a task is known by: its first state, and what is to be done.
#[derive(PartialEq, Eq, Hash)]
struct First {
    state: String,
    task: String,
}

impl First {
    /// None where the environment does not tell its states.
    fn of(environment: &mut dyn Environment, seed: u64) -> Result<Option<Self>, EnvironmentError> {
        let mut started = environment.reset(seed);
        for _ in 1..STARTS {
            if !matches!(started, Err(EnvironmentError::Failed(_))) {
                break;
            }
            started = environment.reset(seed);
        }
        Ok(started?.state.map(|state| Self { state, task: environment.task().text }))
    }
}

/// Tasks in a row that could not be started.
#[derive(Default)]
struct Broken(usize);

impl Broken {
    /// What is there of a task that was started or not: the error only where too many were not.
    fn allow<T>(&mut self, started: Result<T, EnvironmentError>) -> Result<Option<T>, EnvironmentError> {
        match started {
            Err(EnvironmentError::Failed(why)) if self.0 + 1 < STARTS => {
                self.0 += 1;
                tracing::warn!("a task could not be started: {why}");
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(first) => {
                self.0 = 0;
                Ok(Some(first))
            }
        }
    }
}

impl Tasks {
    /// A source of tasks of `environment`, apart from the held-out ones.
    pub fn new(environment: Box<dyn Environment>, held_out: HeldOut) -> Result<Self, EnvironmentError> {
        let HeldOut { environment: mut judge, tasks, seed, count } = held_out;
        let held_out_seeds = held_out_seeds(Stream::new(seed, Purpose::Evaluation), tasks, count);
        let mut held_out = HashSet::new();
        let mut broken = Broken::default();
        for seed in &held_out_seeds {
            held_out.extend(broken.allow(First::of(&mut *judge, *seed))?.flatten());
        }
        Ok(Self { environment, held_out, held_out_seeds })
    }

    /// The seeds of the held-out tasks.
    pub fn held_out(&self) -> &[u64] {
        &self.held_out_seeds
    }

    /// The seed of a training task: the first of a stream that does not start like a held-out one. What cannot be started
    /// is passed over.
    pub fn draw(&mut self, stream: Stream) -> Result<u64, EnvironmentError> {
        let mut broken = Broken::default();
        for attempt in 0..REDRAWS {
            let seed = seed_of(stream.bits(attempt));
            if self.held_out.is_empty() {
                return Ok(seed);
            }
            match broken.allow(First::of(&mut *self.environment, seed))? {
                Some(Some(first)) if self.held_out.contains(&first) => {}
                Some(_) => return Ok(seed),
                None => {}
            }
        }
        Ok(seed_of(stream.bits(REDRAWS)))
    }
}

/// Of finitely many tasks each is held out at most once.
fn held_out_seeds(stream: Stream, tasks: Option<u64>, count: usize) -> Vec<u64> {
    match tasks {
        None => (0..count as u64).map(|index| seed_of(stream.bits(index))).collect(),
        Some(tasks) => {
            let mut seeds: Vec<u64> = (0..tasks).collect();
            if (count as u64) < tasks {
                seeds.sort_by_key(|seed| stream.bits(*seed));
                seeds.truncate(count);
            }
            seeds
        }
    }
}

/// Environments of other houses take seeds of 32 bits.
fn seed_of(bits: u64) -> u64 {
    bits >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lake() -> Box<dyn Environment> {
        let settings = serde_json::json!({ "success_rate": 1.0, "p_frozen": 0.8 });
        accredit_environments::make("frozen-lake", settings.as_object().unwrap()).unwrap()
    }

    #[test]
    fn each_of_finitely_many_tasks_is_held_out_once() {
        let stream = Stream::new(5, Purpose::Evaluation);
        assert_eq!(held_out_seeds(stream, Some(4), 9), [0, 1, 2, 3]);
        let mut some = held_out_seeds(stream, Some(100), 60);
        assert_ne!(some, held_out_seeds(Stream::new(6, Purpose::Evaluation), Some(100), 60));
        some.sort_unstable();
        some.dedup();
        assert!(some.len() == 60 && some[59] < 100);
    }

    #[test]
    fn no_training_task_starts_like_a_held_out_one() {
        let mut tasks = Tasks::new(lake(), HeldOut { environment: lake(), tasks: None, seed: 0, count: 500 }).unwrap();
        let held_out: HashSet<String> =
            tasks.held_out().to_vec().into_iter().filter_map(|seed| lake().reset(seed).unwrap().state).collect();
        let mut met = 0;
        for index in 0..2_000 {
            let stream = Stream::new(1, Purpose::Task).with(index);
            let first = lake().reset(seed_of(stream.bits(0))).unwrap().state.unwrap();
            met += usize::from(held_out.contains(&first));
            let drawn = tasks.draw(stream).unwrap();
            assert!(!held_out.contains(&lake().reset(drawn).unwrap().state.unwrap()));
        }
        assert!(met > 0, "the test has met none");
    }
}
