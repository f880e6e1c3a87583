//! The workers of one table of settings, shared by all environments that have it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{self, Receiver, Sender};
use serde_json::{Map, Value};

use super::link::Connect;
use super::message::{Description, Request};
use super::settings::{Limits, Supplies};
use super::worker::{Call, CallError, CallKind, Reply, Shared, Worker};

/// The workers that live, by their settings.
static LIVING: LazyLock<Mutex<HashMap<String, Weak<Workers>>>> = LazyLock::new(Mutex::default);

/// How long the end of a worker may take before it is left behind.
const PATIENCE: Duration = Duration::from_secs(10);

/// What makes workers.
pub(super) struct Plan<'a> {
    /// All settings; equal texts share workers.
    pub(super) settings: String,
    pub(super) count: usize,
    pub(super) connect: Box<dyn Connect>,
    pub(super) server_settings: &'a Map<String, Value>,
    pub(super) supplies: &'a Supplies,
    pub(super) limits: &'a Limits,
}

/// Threads that play the environments of one table of settings.
pub(super) struct Workers {
    shared: Arc<Shared>,
    handles: Vec<Handle>,
    named: AtomicU64,
    stop: Option<Sender<()>>,
}

struct Handle {
    calls: Option<Sender<Call>>,
    /// Environments that are bound to it.
    bound: Arc<AtomicUsize>,
    given_up: Arc<AtomicBool>,
    /// Disconnected when its thread has ended.
    ended: Receiver<()>,
}

/// Which worker plays an environment, and in which of its lives.
pub(super) struct Binding {
    worker: usize,
    life: u64,
    bound: Arc<AtomicUsize>,
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.bound.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// The workers of these settings, which have connected at least once. The error has the key that is to blame, if one is.
    pub(super) fn of(plan: Plan<'_>) -> Result<Arc<Self>, CallError> {
        let workers = {
            let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
            living.retain(|_, workers| workers.strong_count() > 0);
            if let Some(workers) = living.get(&plan.settings).and_then(Weak::upgrade) {
                workers
            } else {
                let settings = plan.settings.clone();
                let started = Self::start(plan)
                    .map_err(|error| CallError { key: None, message: format!("cannot start a thread: {error}") });
                let workers = Arc::new(started?);
                living.insert(settings, Arc::downgrade(&workers));
                workers
            }
        };
        if workers.shared.description.get().is_none() {
            workers.call(0, "", CallKind::Connect, String::new())?;
        }
        Ok(workers)
    }

    fn start(plan: Plan<'_>) -> std::io::Result<Self> {
        let hello = Request::hello(plan.server_settings, plan.supplies, plan.limits.max_message_bytes).text();
        let shared = Arc::new(Shared {
            connect: plan.connect,
            client: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
            hello,
            supplies: plan.supplies.clone(),
            limits: plan.limits.clone(),
            description: OnceLock::new(),
        });
        let (stop, stopped) = channel::bounded(0);
        let mut handles = Vec::with_capacity(plan.count);
        for index in 0..plan.count {
            let (calls, inbox) = channel::unbounded();
            let (end, ended) = channel::bounded::<()>(0);
            let given_up = Arc::new(AtomicBool::new(false));
            let worker = Worker::new(index, Arc::clone(&shared), inbox, stopped.clone(), Arc::clone(&given_up));
            thread::Builder::new().name(format!("outside-{index}")).spawn(move || {
                worker.run();
                drop(end);
            })?;
            handles.push(Handle { calls: Some(calls), bound: Arc::default(), given_up, ended });
        }
        Ok(Self { shared, handles, named: AtomicU64::new(0), stop: Some(stop) })
    }

    /// What the servers say about themselves.
    pub(super) fn description(&self) -> &Description {
        self.shared.description.get().expect("workers are handed out once one has connected")
    }

    /// A name for an environment that no other one has.
    pub(super) fn name(&self) -> String {
        self.named.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// Begins an episode where the environment was played before, or else where the fewest are.
    pub(super) fn reset(
        &self,
        id: &str,
        binding: Option<Binding>,
        text: String,
    ) -> (Option<Binding>, Result<Map<String, Value>, String>) {
        let stays = binding.filter(|binding| !self.handles[binding.worker].given_up.load(Ordering::Relaxed));
        let mut binding = match stays {
            Some(binding) => binding,
            None => match self.least_bound() {
                Some(worker) => {
                    let bound = Arc::clone(&self.handles[worker].bound);
                    bound.fetch_add(1, Ordering::Relaxed);
                    Binding { worker, life: 0, bound }
                }
                None => return (None, Err(self.all_given_up())),
            },
        };
        match self.call(binding.worker, id, CallKind::Reset, text) {
            Ok(Reply { life, answer }) => {
                binding.life = life;
                (Some(binding), answer)
            }
            Err(error) => (None, Err(error.message)),
        }
    }

    /// Asks for what belongs to no episode, where the fewest are asked.
    pub(super) fn ask(&self, id: &str, text: String) -> Result<Map<String, Value>, String> {
        self.reset(id, None, text).1
    }

    /// Goes on with an episode.
    pub(super) fn step(&self, id: &str, binding: &Binding, text: String) -> Result<Map<String, Value>, String> {
        let reply = self.call(binding.worker, id, CallKind::Step(binding.life), text);
        reply.map_err(|error| error.message)?.answer
    }

    /// Says that an environment is no longer needed, and does not wait.
    pub(super) fn close(&self, id: &str, binding: &Binding) {
        let text = Request::Close { id }.text();
        if let Some(calls) = &self.handles[binding.worker].calls {
            // A worker that has ended holds no episodes.
            let _ = calls.send(Call { id: id.to_owned(), kind: CallKind::Close(binding.life), text, reply: None });
        }
    }

    fn call(&self, worker: usize, id: &str, kind: CallKind, text: String) -> Result<Reply, CallError> {
        let gone = || CallError { key: None, message: format!("worker {worker} has ended") };
        let (reply, answer) = channel::bounded(1);
        let calls = self.handles[worker].calls.as_ref().ok_or_else(gone)?;
        calls.send(Call { id: id.to_owned(), kind, text, reply: Some(reply) }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    fn least_bound(&self) -> Option<usize> {
        let usable = self.handles.iter().enumerate().filter(|(_, worker)| !worker.given_up.load(Ordering::Relaxed));
        usable.min_by_key(|(_, worker)| worker.bound.load(Ordering::Relaxed)).map(|(index, _)| index)
    }

    fn all_given_up(&self) -> String {
        // A worker that is given up says why.
        let reason = self.call(0, "", CallKind::Connect, String::new()).err().map(|error| error.message);
        format!("no worker is left; {}", reason.unwrap_or_default())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Without callers and without `stop`, the threads end what they own.
        self.stop = None;
        for worker in &mut self.handles {
            worker.calls = None;
        }
        for worker in &self.handles {
            let _ = worker.ended.recv_timeout(PATIENCE);
        }
    }
}
