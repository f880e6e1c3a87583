//! One `call_all`: what travels between the pool and its workers, and which calls are still open.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender};

use super::{Failure, FailureKind, failure};
use crate::{Environment, EnvironmentError};

/// A call to make, told which worker makes it.
pub(super) type Job = Box<dyn FnOnce(usize) + Send>;

/// An environment with its answer.
pub(super) type Back<T> = (Box<dyn Environment>, Result<T, EnvironmentError>);

/// What a worker says about the call at `position`.
pub(super) enum Report<T> {
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

/// The calls of one `call_all`.
pub(super) struct Round<T> {
    /// The environment of each call.
    pub(super) indices: Vec<usize>,
    pub(super) answers: Vec<Option<Result<T, Failure>>>,
    /// How many answers are not there yet.
    pub(super) open: usize,
    /// Calls that a worker has begun, by position: which worker, and when.
    pub(super) running: HashMap<usize, (usize, Instant)>,
}

impl<T> Round<T> {
    pub(super) fn new(indices: Vec<usize>) -> Self {
        let open = indices.len();
        let answers = indices.iter().map(|_| None).collect();
        Self { indices, answers, open, running: HashMap::new() }
    }

    pub(super) fn settle(&mut self, position: usize, answer: Result<T, Failure>) {
        if self.answers[position].replace(answer).is_none() {
            self.open -= 1;
        }
    }

    /// The next report, or `Timeout` once a running call has used up its time. A report that is there already is never
    /// passed over for a timeout.
    pub(super) fn wait(
        &self,
        inbox: &Receiver<Report<T>>,
        timeout: Option<Duration>,
    ) -> Result<Report<T>, RecvTimeoutError> {
        let begun = self.running.values().map(|(_, at)| *at).min();
        match timeout.zip(begun).and_then(|(timeout, begun)| begun.checked_add(timeout)) {
            Some(deadline) => inbox.recv_deadline(deadline),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Settles the running calls that have used up their time, and returns their workers.
    pub(super) fn settle_late(&mut self, limit: Duration) -> Vec<usize> {
        let late: Vec<_> = self.running.extract_if(|_, (_, at)| at.elapsed() >= limit).collect();
        for (position, _) in &late {
            let index = self.indices[*position];
            let message = format!("it took longer than {limit:?}");
            self.settle(*position, Err(failure(index, FailureKind::Timeout, message)));
        }
        late.into_iter().map(|(_, (worker, _))| worker).collect()
    }

    /// Settles every open call as one that nobody will make.
    pub(super) fn fail_open(&mut self, reason: &str) {
        for position in 0..self.answers.len() {
            if self.answers[position].is_none() {
                let message = format!("there is no thread to play it: {reason}");
                self.settle(position, Err(failure(self.indices[position], FailureKind::Missing, message)));
            }
        }
    }
}

/// What a worker does for one call. Reports that nobody waits for any more are dropped, and the environment with them.
pub(super) fn job<T, F>(position: usize, environment: Box<dyn Environment>, call: F, reports: Sender<Report<T>>) -> Job
where
    T: Send + 'static,
    F: FnOnce(&mut dyn Environment) -> Result<T, EnvironmentError> + Send + 'static,
{
    Box::new(move |worker| {
        let _ = reports.send(Report::Started { position, worker, at: Instant::now() });
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
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
