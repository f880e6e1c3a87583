//! A thread that owns one link and sends all requests that wait as one message.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender};

use super::link::{Connect, Deadline, Link};
use super::message::{self, Answer, Description, ENVELOPE};
use super::settings::{Limits, Supplies};

/// A link that has worked for so long, or played an episode to its end, is worth a new one whenever it breaks.
const STEADY: Duration = Duration::from_mins(1);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long to wait after so many failures in a row, at least one.
pub(super) fn wait_after(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

/// A request, and where its answer goes.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) kind: CallKind,
    /// The request's JSON.
    pub(super) text: String,
    /// None where nobody waits for the answer.
    pub(super) reply: Option<Sender<Result<Reply, CallError>>>,
}

#[derive(Clone, Copy)]
pub(super) enum CallKind {
    /// Makes the link where there is none, and sends nothing.
    Connect,
    /// Begins an episode, or asks for what belongs to none, whatever the link.
    Reset,
    /// Goes on with an episode of this life.
    Step(u64),
    /// Says that an environment of this life is no longer needed.
    Close(u64),
}

/// What comes back.
pub(super) struct Reply {
    /// Which link of this worker answered, counted from 1.
    pub(super) life: u64,
    pub(super) answer: Answer,
}

/// Why nothing came back.
pub(super) struct CallError {
    /// The setting that is to blame, if one is.
    pub(super) key: Option<&'static str>,
    pub(super) message: String,
}

impl CallError {
    fn new(message: impl Into<String>) -> Self {
        Self { key: None, message: message.into() }
    }
}

impl Call {
    fn settle(self, result: Result<Reply, CallError>) {
        // Whoever no longer waits needs no answer.
        let _ = self.reply.map(|reply| reply.send(result));
    }
}

/// What all workers of the same settings have in common.
pub(super) struct Shared {
    pub(super) connect: Box<dyn Connect>,
    /// The host's name in messages.
    pub(super) client: String,
    pub(super) hello: String,
    pub(super) supplies: Supplies,
    pub(super) limits: Limits,
    pub(super) description: OnceLock<Description>,
}

/// A worker in its thread.
pub(super) struct Worker {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) calls: Receiver<Call>,
    /// Disconnected once nobody needs the worker.
    pub(super) stop: Receiver<()>,
    /// Set when no other link will be made.
    pub(super) given_up: Arc<AtomicBool>,
    link: Option<Box<dyn Link>>,
    life: u64,
    since: Instant,
    /// It has played an episode to its end, or judged one.
    proven: bool,
    /// The number of the last message.
    message: u64,
    /// Links that broke in a row.
    failures: u32,
    last_failure: String,
}

impl Worker {
    pub(super) fn new(
        index: usize,
        shared: Arc<Shared>,
        calls: Receiver<Call>,
        stop: Receiver<()>,
        given_up: Arc<AtomicBool>,
    ) -> Self {
        let (link, life, message, failures) = (None, 0, 0, 0);
        let (since, proven, last_failure) = (Instant::now(), false, String::new());
        Self { index, shared, calls, stop, given_up, link, life, since, proven, message, failures, last_failure }
    }

    /// Serves until nobody can call any more.
    pub(super) fn run(mut self) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match self.calls.recv() {
                    Ok(call) => waiting.push_back(call),
                    Err(_) => break,
                }
            }
            waiting.extend(self.calls.try_iter().take(self.shared.limits.max_batch.saturating_sub(waiting.len())));
            let message = self.gather(&mut waiting);
            if !message.is_empty() {
                self.exchange(message);
            }
        }
        if let Some(mut link) = self.link.take() {
            link.end();
        }
    }

    /// Takes as many calls as one message holds, and settles those that need none.
    fn gather(&mut self, waiting: &mut VecDeque<Call>) -> Vec<Call> {
        let limit = self.shared.limits.max_message_bytes;
        let mut message = Vec::new();
        let mut bytes = ENVELOPE;
        while let Some(call) = waiting.pop_front() {
            let size = call.text.len() + 1;
            match call.kind {
                CallKind::Step(life) | CallKind::Close(life) if self.link.is_none() || life != self.life => {
                    let lost = format!("{} broke, and the episode with it: {}", self.name(), self.last_failure);
                    call.settle(Err(CallError::new(lost)));
                    continue;
                }
                CallKind::Close(_) if self.leaving() => continue,
                _ => {}
            }
            if size + ENVELOPE > limit {
                let message =
                    format!("its request has {size} bytes, and a line may have {limit} (`limits.max_message_bytes`)");
                call.settle(Err(CallError::new(message)));
                continue;
            }
            if bytes + size > limit {
                waiting.push_front(call);
                break;
            }
            if let Err(CallError { key, message }) = self.connect() {
                // The others that wait would fail in the same way, only later.
                call.settle(Err(CallError { key, message: message.clone() }));
                for call in waiting.drain(..) {
                    call.settle(Err(CallError { key, message: message.clone() }));
                }
                break;
            }
            if matches!(call.kind, CallKind::Connect) {
                let life = self.life;
                call.settle(Ok(Reply { life, answer: Ok(serde_json::Map::new()) }));
                continue;
            }
            bytes += size;
            message.push(call);
        }
        message
    }

    /// Whether the worker's link ends anyway.
    fn leaving(&self) -> bool {
        let stopped = self.stop.try_recv() == Err(crossbeam::channel::TryRecvError::Disconnected);
        stopped && self.link.as_ref().is_some_and(|link| link.is_own())
    }

    fn name(&self) -> String {
        format!("worker {}", self.index)
    }

    /// Makes sure that there is a link.
    fn connect(&mut self) -> Result<(), CallError> {
        if self.link.is_some() {
            return Ok(());
        }
        if self.given_up.load(Ordering::Relaxed) {
            let (name, tries) = (self.name(), self.failures);
            let message = format!("{name} broke {tries} times in a row and is given up: {}", self.last_failure);
            return Err(CallError::new(message));
        }
        let waits = self.failures > 0;
        if waits && self.stop.recv_timeout(wait_after(self.failures)) == Err(RecvTimeoutError::Disconnected) {
            return Err(CallError::new(format!("{} ends", self.name())));
        }
        match self.open() {
            Ok(link) => {
                self.link = Some(link);
                self.life += 1;
                self.since = Instant::now();
                self.proven = false;
                Ok(())
            }
            Err(error) => {
                self.broke(error.message.clone());
                Err(error)
            }
        }
    }

    fn broke(&mut self, why: String) {
        self.failures += 1;
        self.last_failure = why;
        if self.failures > self.shared.limits.max_restarts {
            self.given_up.store(true, Ordering::Relaxed);
        }
    }

    /// Makes a link and learns what is behind it.
    fn open(&mut self) -> Result<Box<dyn Link>, CallError> {
        let shared = Arc::clone(&self.shared);
        let deadline = Deadline::in_seconds(shared.limits.start_seconds);
        let mut link = shared.connect.connect(self.index).map_err(CallError::new)?;
        let explain = |link: &mut dyn Link, message: String| CallError::new(message + &link.post_mortem());
        self.message += 1;
        let answered = link
            .send(message::line(&shared.client, self.message, &[&shared.hello]), deadline)
            .and_then(|()| link.receive(deadline, &self.stop))
            .and_then(|line| message::answers(&line, self.message));
        let fields = match answered {
            Ok(mut answers) if answers.len() == 1 => {
                answers.pop().map_or_else(|| Ok(serde_json::Map::new()), |answer| answer.1)
            }
            Ok(_) => Err("it gave more than one answer".to_owned()),
            Err(error) => Err(error),
        };
        let described = match fields.and_then(Description::read) {
            Ok(description) => description,
            Err(error) => return Err(explain(link.as_mut(), format!("`hello` failed: {error}"))),
        };
        if let Err((key, message)) = described.check(&shared.supplies) {
            link.end();
            return Err(CallError { key: Some(key), message });
        }
        if *shared.description.get_or_init(|| described.clone()) != described {
            link.end();
            return Err(CallError::new("it describes itself in other words than before, so it is another environment"));
        }
        Ok(link)
    }

    /// Sends one message and deals its answers.
    fn exchange(&mut self, calls: Vec<Call>) {
        let Some(mut link) = self.link.take() else { return };
        let limit = self.shared.limits.answer_seconds;
        self.message += 1;
        let requests: Vec<&str> = calls.iter().map(|call| call.text.as_str()).collect();
        let sent = link.send(message::line(&self.shared.client, self.message, &requests), Deadline::in_seconds(limit));
        let mut calls = calls.into_iter();
        let result = sent.and_then(|()| {
            while calls.len() > 0 {
                let line = link.receive(Deadline::in_seconds(limit), &self.stop)?;
                let answers = message::answers(&line, self.message)?;
                // All are looked at before any is dealt.
                if answers.len() > calls.len() {
                    return Err("it gave more answers than were asked for".to_owned());
                }
                for ((id, _), call) in answers.iter().zip(calls.as_slice()) {
                    if id.as_ref() != Some(&call.id) {
                        let id = id.as_deref().unwrap_or_default();
                        return Err(format!("it answered for the id `{id}`, and `{}` was next", call.id));
                    }
                }
                for ((_, answer), call) in answers.into_iter().zip(calls.by_ref()) {
                    self.proven |= answer.as_ref().is_ok_and(message::ends);
                    call.settle(Ok(Reply { life: self.life, answer }));
                }
            }
            Ok(())
        });
        match result {
            Ok(()) => self.link = Some(link),
            Err(error) => {
                if self.proven || self.since.elapsed() >= STEADY {
                    self.failures = 0;
                }
                self.broke(error + &link.post_mortem());
                for call in calls {
                    let message = format!("{} failed: {}", self.name(), self.last_failure);
                    call.settle(Err(CallError::new(message)));
                }
            }
        }
    }
}
