//! Many environments, played in threads.
//!
//! An environment travels to a worker with what is asked of it and comes back with the answer. Answers are in the order
//! of the requests, whatever the threads do. One that panics, or that takes longer than the timeout, is lost: its place
//! in the pool is empty until [`Pool::replace`]. The thread of one that hangs cannot be ended; it is left behind and
//! another one takes its place, so the others go on, and what comes back late is dropped.

mod round;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender};

use crate::{Environment, EnvironmentError, Outcome, Task, Turn};
use round::{Job, Report, Round, job};

/// A turn to play.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which environment plays it.
    pub index: usize,
    /// The text inside the response's action tags, none if it has none.
    pub action: Option<String>,
    /// The whole response.
    pub response: String,
}

/// Why an environment gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment {index}: {message}")]
pub struct Failure {
    /// Which environment.
    pub index: usize,
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened, in words.
    pub message: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It returned an error. It is still there and can be reset.
    Error,
    /// It panicked. It is lost.
    Panic,
    /// It took longer than the timeout. It is lost.
    Timeout,
    /// It is not there: lost before, never there, or asked twice in one call. Or there is no thread to play it.
    Missing,
}

/// Environments and the threads that play them.
pub struct Pool {
    /// None while an environment is at work, and once it is lost.
    environments: Vec<Option<Box<dyn Environment>>>,
    threads: usize,
    workers: Vec<Worker>,
    /// How many workers there ever were; the next one's name.
    hired: usize,
    jobs: Sender<Job>,
    /// The workers' end of `jobs`, to hand to new ones.
    queue: Receiver<Job>,
}

struct Worker {
    name: usize,
    /// Tells it to end after what it is doing.
    dismissed: Arc<AtomicBool>,
}

impl Pool {
    /// A pool of these environments, which are called by their index, on `threads` threads: at least one, and no more
    /// than there are environments.
    pub fn new(environments: Vec<Box<dyn Environment>>, threads: usize) -> Result<Self, EnvironmentError> {
        let (jobs, queue) = channel::unbounded();
        let threads = threads.min(environments.len()).max(1);
        let mut pool = Self {
            environments: environments.into_iter().map(Some).collect(),
            threads,
            workers: Vec::new(),
            hired: 0,
            jobs,
            queue,
        };
        pool.hire()?;
        Ok(pool)
    }

    /// A pool without environments and threads.
    pub fn empty() -> Self {
        let (jobs, queue) = channel::unbounded();
        Self { environments: Vec::new(), threads: 1, workers: Vec::new(), hired: 0, jobs, queue }
    }

    /// How many places the pool has.
    pub fn len(&self) -> usize {
        self.environments.len()
    }

    /// Whether the pool has no place at all.
    pub fn is_empty(&self) -> bool {
        self.environments.is_empty()
    }

    /// The places whose environment is lost, in order.
    pub fn lost(&self) -> Vec<usize> {
        (0..self.len()).filter(|index| self.environments[*index].is_none()).collect()
    }

    /// Puts an environment in the place of a lost one, or of one that is no longer wanted. An index past the end is
    /// an error.
    pub fn replace(&mut self, index: usize, environment: Box<dyn Environment>) -> Result<(), Failure> {
        *self.environments.get_mut(index).ok_or_else(|| missing(index))? = Some(environment);
        Ok(())
    }

    /// Starts an episode for each of these pairs of an index and a seed. The answers are in the order of the requests.
    pub fn reset_all(
        &mut self,
        requests: Vec<(usize, u64)>,
        timeout: Option<Duration>,
    ) -> Vec<Result<(Turn, Task), Failure>> {
        let calls = requests.into_iter().map(|(index, seed)| {
            (index, move |environment: &mut dyn Environment| Ok((environment.reset(seed)?, environment.task())))
        });
        self.call_all(calls.collect(), timeout)
    }

    /// Plays these turns. The answers are in the order of the requests.
    pub fn step_all(&mut self, requests: Vec<Request>, timeout: Option<Duration>) -> Vec<Result<Outcome, Failure>> {
        let calls = requests.into_iter().map(|Request { index, action, response }| {
            (index, move |environment: &mut dyn Environment| environment.step(action.as_deref(), &response))
        });
        self.call_all(calls.collect(), timeout)
    }

    /// Calls each of these functions with the environment of its index. `timeout` is the time that one call may take,
    /// counted from when a thread begins it; none waits for ever. The answers are in the order of the calls.
    pub fn call_all<T, F>(&mut self, calls: Vec<(usize, F)>, timeout: Option<Duration>) -> Vec<Result<T, Failure>>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Environment) -> Result<T, EnvironmentError> + Send + 'static,
    {
        // Where threads are short the calls take longer; only where there is none do they fail, below.
        let mut hiring = self.hire();
        let (reports, inbox) = channel::unbounded();
        let mut round = Round::new(calls.iter().map(|(index, _)| *index).collect());
        for (position, (index, call)) in calls.into_iter().enumerate() {
            match self.environments.get_mut(index).and_then(Option::take) {
                None => round.settle(position, Err(missing(index))),
                Some(environment) => {
                    if self.jobs.send(job(position, environment, call, reports.clone())).is_err() {
                        round.settle(position, Err(missing(index)));
                    }
                }
            }
        }
        drop(reports);
        while round.open > 0 {
            if self.workers.is_empty() {
                while self.queue.try_recv().is_ok() {}
                let reason = hiring.as_ref().err().map_or_else(String::new, ToString::to_string);
                round.fail_open(&reason);
                break;
            }
            match round.wait(&inbox, timeout) {
                Ok(Report::Started { position, worker, at }) => {
                    round.running.insert(position, (worker, at));
                }
                Ok(Report::Finished { position, result }) => {
                    // None here means that it is too late: what came back is dropped.
                    if round.running.remove(&position).is_some() {
                        let index = round.indices[position];
                        let answer = match result {
                            Ok((environment, answer)) => {
                                self.environments[index] = Some(environment);
                                answer.map_err(|error| failure(index, FailureKind::Error, error.to_string()))
                            }
                            Err(message) => Err(failure(index, FailureKind::Panic, format!("it panicked: {message}"))),
                        };
                        round.settle(position, answer);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let late = round.settle_late(timeout.unwrap_or_default());
                    for worker in self.workers.extract_if(.., |worker| late.contains(&worker.name)) {
                        worker.dismissed.store(true, Ordering::Relaxed);
                    }
                    hiring = self.hire();
                }
                Err(RecvTimeoutError::Disconnected) => round.fail_open("the threads have ended"),
            }
        }
        round.answers.into_iter().flatten().collect()
    }

    /// Starts threads until there are as many as wanted.
    fn hire(&mut self) -> Result<(), EnvironmentError> {
        while self.workers.len() < self.threads {
            let name = self.hired;
            let dismissed = Arc::new(AtomicBool::new(false));
            let (queue, end) = (self.queue.clone(), Arc::clone(&dismissed));
            thread::Builder::new().name(format!("environments-{name}")).spawn(move || {
                for job in queue {
                    job(name);
                    if end.load(Ordering::Relaxed) {
                        break;
                    }
                }
            })?;
            self.hired += 1;
            self.workers.push(Worker { name, dismissed });
        }
        Ok(())
    }
}

fn failure(index: usize, kind: FailureKind, message: String) -> Failure {
    Failure { index, kind, message }
}

fn missing(index: usize) -> Failure {
    failure(index, FailureKind::Missing, "it is not in the pool, or was asked twice at once".to_owned())
}
