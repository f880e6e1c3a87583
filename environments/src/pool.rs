//! Many environments, played in threads.
//!
//! An environment travels to a worker with what is asked of it and comes back with the answer. Answers are in the order
//! of the requests, whatever the threads do. One that panics, or that takes longer than the timeout, is lost: its place
//! in the pool is empty until [`Pool::replace`]. The thread of one that hangs cannot be ended; it is left behind and
//! another one takes its place, so the others go on, and what comes back late is dropped.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender};

use crate::{Environment, EnvironmentError, Outcome, Turn};

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

/// A call to make, told which worker makes it.
type Job = Box<dyn FnOnce(usize) + Send>;

struct Worker {
    name: usize,
    /// Tells it to end after what it is doing.
    dismissed: Arc<AtomicBool>,
}

/// An environment with its answer.
type Back<T> = (Box<dyn Environment>, Result<T, EnvironmentError>);

/// What a worker says about the call at `position`.
enum Report<T> {
    Started {
        position: usize,
        worker: usize,
        at: Instant,
    },
    /// The environment with its answer, or what it panicked with.
    Finished {
        position: usize,
        result: Result<Back<T>, String>,
    },
}

impl Pool {
    /// A pool of these environments, which are called by their index, on `threads` threads (at least one).
    pub fn new(
        environments: Vec<Box<dyn Environment>>,
        threads: usize,
    ) -> Result<Self, EnvironmentError> {
        let (jobs, queue) = channel::unbounded();
        let mut pool = Self {
            environments: environments.into_iter().map(Some).collect(),
            threads: threads.max(1),
            workers: Vec::new(),
            hired: 0,
            jobs,
            queue,
        };
        pool.hire()?;
        Ok(pool)
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
        (0..self.len())
            .filter(|index| self.environments[*index].is_none())
            .collect()
    }

    /// Puts an environment in the place of a lost one, or of one that is no longer wanted. An index past the end is
    /// an error.
    pub fn replace(
        &mut self,
        index: usize,
        environment: Box<dyn Environment>,
    ) -> Result<(), Failure> {
        *self
            .environments
            .get_mut(index)
            .ok_or_else(|| missing(index))? = Some(environment);
        Ok(())
    }

    /// Starts an episode for each of these pairs of an index and a seed. The answers are in the order of the requests.
    pub fn reset_all(
        &mut self,
        requests: Vec<(usize, u64)>,
        timeout: Option<Duration>,
    ) -> Vec<Result<Turn, Failure>> {
        let calls = requests.into_iter().map(|(index, seed)| {
            (index, move |environment: &mut dyn Environment| {
                environment.reset(seed)
            })
        });
        self.call_all(calls.collect(), timeout)
    }

    /// Plays these turns. The answers are in the order of the requests.
    pub fn step_all(
        &mut self,
        requests: Vec<Request>,
        timeout: Option<Duration>,
    ) -> Vec<Result<Outcome, Failure>> {
        let calls = requests.into_iter().map(
            |Request {
                 index,
                 action,
                 response,
             }| {
                (index, move |environment: &mut dyn Environment| {
                    environment.step(action.as_deref(), &response)
                })
            },
        );
        self.call_all(calls.collect(), timeout)
    }

    /// Calls each of these functions with the environment of its index. `timeout` is the time that one call may take,
    /// counted from when a thread begins it; none waits for ever. The answers are in the order of the calls.
    pub fn call_all<T, F>(
        &mut self,
        calls: Vec<(usize, F)>,
        timeout: Option<Duration>,
    ) -> Vec<Result<T, Failure>>
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
                    if self
                        .jobs
                        .send(job(position, environment, call, reports.clone()))
                        .is_err()
                    {
                        round.settle(position, Err(missing(index)));
                    }
                }
            }
        }
        drop(reports);
        while round.open > 0 {
            if self.workers.is_empty() {
                while self.queue.try_recv().is_ok() {}
                let reason = hiring
                    .as_ref()
                    .err()
                    .map_or_else(String::new, ToString::to_string);
                round.fail_open(&reason);
                break;
            }
            match round.wait(&inbox, timeout) {
                Ok(Report::Started {
                    position,
                    worker,
                    at,
                }) => {
                    round.running.insert(position, (worker, at));
                }
                Ok(Report::Finished { position, result }) => {
                    // None here means that it is too late: what came back is dropped.
                    if round.running.remove(&position).is_some() {
                        let index = round.indices[position];
                        let answer = match result {
                            Ok((environment, answer)) => {
                                self.environments[index] = Some(environment);
                                answer.map_err(|error| {
                                    failure(index, FailureKind::Error, error.to_string())
                                })
                            }
                            Err(message) => Err(failure(
                                index,
                                FailureKind::Panic,
                                format!("it panicked: {message}"),
                            )),
                        };
                        round.settle(position, answer);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let late = round.settle_late(timeout.unwrap_or_default());
                    for worker in self
                        .workers
                        .extract_if(.., |worker| late.contains(&worker.name))
                    {
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
            thread::Builder::new()
                .name(format!("environments-{name}"))
                .spawn(move || {
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

/// The calls of one `call_all`.
struct Round<T> {
    /// The environment of each call.
    indices: Vec<usize>,
    answers: Vec<Option<Result<T, Failure>>>,
    /// How many answers are not there yet.
    open: usize,
    /// Calls that a worker has begun, by position: which worker, and when.
    running: HashMap<usize, (usize, Instant)>,
}

impl<T> Round<T> {
    fn new(indices: Vec<usize>) -> Self {
        let open = indices.len();
        let answers = indices.iter().map(|_| None).collect();
        Self {
            indices,
            answers,
            open,
            running: HashMap::new(),
        }
    }

    fn settle(&mut self, position: usize, answer: Result<T, Failure>) {
        if self.answers[position].replace(answer).is_none() {
            self.open -= 1;
        }
    }

    /// The next report, or `Timeout` once a running call has used up its time. A report that is there already is never
    /// passed over for a timeout.
    fn wait(
        &self,
        inbox: &Receiver<Report<T>>,
        timeout: Option<Duration>,
    ) -> Result<Report<T>, RecvTimeoutError> {
        let begun = self.running.values().map(|(_, at)| *at).min();
        match timeout
            .zip(begun)
            .and_then(|(timeout, begun)| begun.checked_add(timeout))
        {
            Some(deadline) => inbox.recv_deadline(deadline),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Settles the running calls that have used up their time, and returns their workers.
    fn settle_late(&mut self, limit: Duration) -> Vec<usize> {
        let late: Vec<_> = self
            .running
            .extract_if(|_, (_, at)| at.elapsed() >= limit)
            .collect();
        for (position, _) in &late {
            let index = self.indices[*position];
            let message = format!("it took longer than {limit:?}");
            self.settle(
                *position,
                Err(failure(index, FailureKind::Timeout, message)),
            );
        }
        late.into_iter().map(|(_, (worker, _))| worker).collect()
    }

    /// Settles every open call as one that nobody will make.
    fn fail_open(&mut self, reason: &str) {
        for position in 0..self.answers.len() {
            if self.answers[position].is_none() {
                let message = format!("there is no thread to play it: {reason}");
                self.settle(
                    position,
                    Err(failure(
                        self.indices[position],
                        FailureKind::Missing,
                        message,
                    )),
                );
            }
        }
    }
}

/// What a worker does for one call. Reports that nobody waits for any more are dropped, and the environment with them.
fn job<T, F>(
    position: usize,
    environment: Box<dyn Environment>,
    call: F,
    reports: Sender<Report<T>>,
) -> Job
where
    T: Send + 'static,
    F: FnOnce(&mut dyn Environment) -> Result<T, EnvironmentError> + Send + 'static,
{
    Box::new(move |worker| {
        let _ = reports.send(Report::Started {
            position,
            worker,
            at: Instant::now(),
        });
        // After a panic the environment is dropped in here and never seen again, so nothing sees it half changed.
        let result = catch_unwind(AssertUnwindSafe(move || {
            let mut environment = environment;
            let answer = call(environment.as_mut());
            (environment, answer)
        }));
        let result = result.map_err(|panic| panic_message(panic.as_ref()));
        let _ = reports.send(Report::Finished { position, result });
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

fn failure(index: usize, kind: FailureKind, message: String) -> Failure {
    Failure {
        index,
        kind,
        message,
    }
}

fn missing(index: usize) -> Failure {
    failure(
        index,
        FailureKind::Missing,
        "it is not in the pool, or was asked twice at once".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Demonstration;

    /// Does what the action says, and counts the turns.
    struct Scripted {
        turns: u64,
    }

    impl Environment for Scripted {
        fn instructions(&self) -> String {
            String::new()
        }

        fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
            assert!(seed != 13, "unlucky seed {seed}");
            self.turns = 0;
            Ok(Turn {
                observation: seed.to_string(),
                ..Turn::default()
            })
        }

        fn step(
            &mut self,
            action: Option<&str>,
            response: &str,
        ) -> Result<Outcome, EnvironmentError> {
            match action {
                Some("panic") => panic!("on demand"),
                Some("error") => return Err(EnvironmentError::Failed("on demand".to_owned())),
                Some("hang") => thread::sleep(Duration::from_hours(1)),
                Some("nap") => thread::sleep(Duration::from_millis(50)),
                Some("sleep") => thread::sleep(Duration::from_millis(500)),
                _ => {}
            }
            self.turns += 1;
            Ok(Outcome {
                feedback: format!("{response} {}", self.turns),
                ..Outcome::default()
            })
        }

        fn expert(&mut self) -> Option<Demonstration> {
            None
        }
    }

    fn pool(environments: usize, threads: usize) -> Pool {
        let make = |_| Box::new(Scripted { turns: 0 }) as Box<dyn Environment>;
        Pool::new((0..environments).map(make).collect(), threads).unwrap()
    }

    fn request(index: usize, action: &str) -> Request {
        Request {
            index,
            action: Some(action.to_owned()),
            response: format!("r{index}"),
        }
    }

    /// For calls that hang among others that need next to nothing.
    const SHORT: Option<Duration> = Some(Duration::from_millis(500));
    /// For calls that nap: far more than they need, also on a busy machine.
    const LONG: Option<Duration> = Some(Duration::from_secs(30));

    fn kind<T>(answer: &Result<T, Failure>) -> Option<FailureKind> {
        answer.as_ref().err().map(|failure| failure.kind)
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        for threads in [0, 1, 3] {
            let mut pool = pool(20, threads);
            for round in 1..4 {
                let order = (0..20).map(|i| (i * 7) % 20);
                let requests = order
                    .clone()
                    .map(|i| request(i, if i % 5 == 0 { "nap" } else { "go" }));
                let answers = pool.step_all(requests.collect(), LONG);
                let texts: Vec<String> = answers
                    .into_iter()
                    .map(|answer| answer.unwrap().feedback)
                    .collect();
                assert_eq!(
                    texts,
                    order.map(|i| format!("r{i} {round}")).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn what_fails_fails_alone() {
        let mut pool = pool(5, 2);
        let actions = ["panic", "go", "error", "go", "hang"];
        let requests = actions
            .iter()
            .enumerate()
            .map(|(i, action)| request(i, action))
            .collect();
        let answers = pool.step_all(requests, SHORT);
        let kinds: Vec<_> = answers.iter().map(kind).collect();
        let (panic, error, timeout) =
            (FailureKind::Panic, FailureKind::Error, FailureKind::Timeout);
        assert_eq!(kinds, [Some(panic), None, Some(error), None, Some(timeout)]);
        assert_eq!(
            answers[0].as_ref().unwrap_err().to_string(),
            "environment 0: it panicked: on demand"
        );
        assert_eq!(
            answers[2].as_ref().unwrap_err().to_string(),
            "environment 2: on demand"
        );
        assert_eq!(
            answers[4].as_ref().unwrap_err().to_string(),
            "environment 4: it took longer than 500ms"
        );
        assert_eq!(pool.lost(), [0, 4]);

        // The one that returned an error goes on; the lost ones are named until they are replaced.
        let again = pool.step_all((0..5).map(|i| request(i, "go")).collect(), SHORT);
        let missing = Some(FailureKind::Missing);
        assert_eq!(
            again.iter().map(kind).collect::<Vec<_>>(),
            [missing, None, None, None, missing]
        );
        assert_eq!(again[1].as_ref().unwrap().feedback, "r1 2");
        assert_eq!(again[2].as_ref().unwrap().feedback, "r2 1");
        pool.replace(4, Box::new(Scripted { turns: 0 })).unwrap();
        assert_eq!(
            pool.reset_all(vec![(4, 8)], SHORT)[0]
                .as_ref()
                .unwrap()
                .observation,
            "8"
        );
        assert_eq!(
            pool.replace(5, Box::new(Scripted { turns: 0 }))
                .unwrap_err()
                .kind,
            FailureKind::Missing
        );
    }

    #[test]
    fn threads_that_hang_are_replaced() {
        let mut pool = pool(6, 2);
        let actions = ["hang", "hang", "hang", "go", "go", "go"];
        let started = Instant::now();
        let answers = pool.step_all(
            actions
                .iter()
                .enumerate()
                .map(|(i, a)| request(i, a))
                .collect(),
            SHORT,
        );
        assert!(
            answers[..3]
                .iter()
                .all(|answer| kind(answer) == Some(FailureKind::Timeout))
        );
        assert!(answers[3..].iter().all(Result::is_ok));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(pool.step_all(vec![request(5, "go")], SHORT)[0].is_ok());
    }

    #[test]
    fn waiting_in_the_queue_costs_no_time() {
        let mut pool = pool(24, 1);
        let limit = Some(Duration::from_millis(800));
        let started = Instant::now();
        let answers = pool.step_all((0..24).map(|i| request(i, "nap")).collect(), limit);
        assert!(started.elapsed() > Duration::from_millis(1200));
        assert!(answers.iter().all(Result::is_ok));
    }

    #[test]
    fn a_late_answer_is_dropped() {
        let mut pool = pool(2, 1);
        let limit = Some(Duration::from_millis(10));
        assert_eq!(
            kind(&pool.step_all(vec![request(0, "sleep")], limit)[0]),
            Some(FailureKind::Timeout)
        );
        thread::sleep(Duration::from_millis(700));
        assert_eq!(pool.lost(), [0]);
        assert!(pool.step_all(vec![request(1, "go")], None)[0].is_ok());
    }

    #[test]
    fn resets_fail_like_steps() {
        let mut pool = pool(3, 2);
        let answers = pool.reset_all(vec![(2, 5), (0, 13), (1, 6)], LONG);
        assert_eq!(answers[0].as_ref().unwrap().observation, "5");
        assert!(
            answers[1]
                .as_ref()
                .unwrap_err()
                .message
                .contains("unlucky seed 13")
        );
        assert_eq!(answers[2].as_ref().unwrap().observation, "6");
        assert_eq!(pool.lost(), [0]);
    }

    #[test]
    fn an_index_that_is_not_there_or_asked_twice_is_a_failure() {
        let mut pool = pool(2, 2);
        let answers = pool.step_all(
            vec![request(0, "go"), request(0, "go"), request(2, "go")],
            SHORT,
        );
        let missing = Some(FailureKind::Missing);
        assert_eq!(
            answers.iter().map(kind).collect::<Vec<_>>(),
            [None, missing, missing]
        );
        assert!(pool.lost().is_empty());
        assert!(pool.step_all(Vec::new(), SHORT).is_empty());
    }
}
