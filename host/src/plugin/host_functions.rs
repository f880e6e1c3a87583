//! The host's functions, as plugins call them, and what they collect for each scheme.
//!
//! Nothing here may panic: these functions are called from a plugin, and a panic cannot cross back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, LazyLock, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use abi_stable::{prefix_type::PrefixTypeTrait, std_types::RStr};
use accredit_plugin_api::abi::{HostFunctions, HostFunctionsRef, RawHost};

/// What the host grants a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Services {
    /// How many threads it may use.
    pub threads: u32,
}

impl Default for Services {
    fn default() -> Self {
        Self { threads: 1 }
    }
}

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Tells every scheme, now and from now on, that the user asked to stop.
pub fn cancel() {
    CANCELLED.store(true, Ordering::Relaxed);
}

/// Whether the user asked to stop.
pub fn cancelled() -> bool {
    CANCELLED.load(Ordering::Relaxed)
}

/// What the host keeps about a scheme while it lives.
struct Entry {
    label: String,
    services: Services,
    /// By name: the sum of value times weight, and the sum of weights.
    metrics: Mutex<BTreeMap<String, (f64, f64)>>,
}

static ENTRIES: LazyLock<RwLock<HashMap<u64, Arc<Entry>>>> = LazyLock::new(RwLock::default);

fn entry(context: u64) -> Option<Arc<Entry>> {
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    entries.get(&context).cloned()
}

/// A scheme's place in the host: what its `context` number stands for, until this is dropped.
pub(super) struct Registration {
    context: u64,
    entry: Arc<Entry>,
}

impl Registration {
    /// Makes a place for a scheme that log lines call `label`.
    pub fn new(label: &str, services: Services) -> Self {
        // Numbers are never used twice: a thread that a scheme left behind must not speak for another one.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let context = NEXT.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(Entry { label: label.to_owned(), services, metrics: Mutex::default() });
        ENTRIES.write().unwrap_or_else(PoisonError::into_inner).insert(context, Arc::clone(&entry));
        Self { context, entry }
    }

    /// The host, for this scheme.
    pub fn host(&self) -> RawHost {
        static FUNCTIONS: LazyLock<HostFunctionsRef> = LazyLock::new(|| {
            HostFunctions {
                log,
                metric,
                threads,
                cancelled: is_cancelled,
                #[cfg(feature = "next-minor")]
                later: threads,
            }
            .leak_into_prefix()
        });
        RawHost { context: self.context, functions: *FUNCTIONS }
    }

    /// What [`take_metrics`](Self::take_metrics) would average, by name: the sum of value times weight, and the sum of
    /// weights.
    pub fn metric_sums(&self) -> Vec<(String, f64, f64)> {
        let metrics = self.entry.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.iter().map(|(name, (sum, weight))| (name.clone(), *sum, *weight)).collect()
    }

    /// Goes on from sums of an earlier process, in place of what was pushed here so far.
    pub fn put_metric_sums(&self, sums: &[(String, f64, f64)]) {
        let mut metrics = self.entry.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        *metrics = sums.iter().map(|(name, sum, weight)| (name.clone(), (*sum, *weight))).collect();
    }

    /// The weighted mean of each metric that was pushed since the last call, by name.
    pub fn take_metrics(&self) -> Vec<(String, f64)> {
        let sums = {
            let mut metrics = self.entry.metrics.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *metrics)
        };
        sums.into_iter().map(|(name, (sum, weight))| (name, sum / weight)).collect()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        ENTRIES.write().unwrap_or_else(PoisonError::into_inner).remove(&self.context);
    }
}

extern "C" fn log(context: u64, level: u32, message: RStr<'_>) {
    let entry = entry(context);
    let scheme = entry.as_ref().map_or("a scheme that ended", |e| &e.label);
    let message = message.as_str();
    match level {
        1 => tracing::error!(scheme, "{message}"),
        2 => tracing::warn!(scheme, "{message}"),
        3 => tracing::info!(scheme, "{message}"),
        _ => tracing::debug!(scheme, "{message}"),
    }
}

extern "C" fn metric(context: u64, name: RStr<'_>, value: f64, weight: f64) {
    let Some(entry) = entry(context) else {
        return;
    };
    // A micro-batch without tokens has weight 0 and usually no value: it is no part of any mean.
    if weight == 0.0 {
        return;
    }
    let name = name.as_str();
    if !(weight > 0.0 && weight.is_finite()) {
        let scheme = entry.label.as_str();
        tracing::warn!(scheme, "metric `{name}` is left out: its weight is {weight}");
        return;
    }
    let mut metrics = entry.metrics.lock().unwrap_or_else(PoisonError::into_inner);
    match metrics.get_mut(name) {
        Some((sum, weights)) => {
            *sum += value * weight;
            *weights += weight;
        }
        None => {
            metrics.insert(name.to_owned(), (value * weight, weight));
        }
    }
}

extern "C" fn threads(context: u64) -> u32 {
    entry(context).map_or(1, |entry| entry.services.threads)
}

extern "C" fn is_cancelled(_context: u64) -> bool {
    cancelled()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(scheme: &Registration, name: &str, value: f64, weight: f64) {
        let host = scheme.host();
        host.functions.metric()(host.context, name.into(), value, weight);
    }

    #[test]
    fn metrics_are_weighted_means_of_one_scheme_and_taken_once() {
        let (one, other) =
            (Registration::new("one", Services::default()), Registration::new("other", Services::default()));
        push(&one, "kl", 1.0, 3.0);
        push(&one, "kl", 5.0, 1.0);
        push(&one, "clipped", 0.5, 1.0);
        push(&other, "kl", 7.0, 1.0);
        let means = |pairs: &[(&str, f64)]| -> Vec<(String, f64)> {
            pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
        };
        assert_eq!(one.take_metrics(), means(&[("clipped", 0.5), ("kl", 2.0)]));
        assert_eq!(one.take_metrics(), means(&[]));
        assert_eq!(other.take_metrics(), means(&[("kl", 7.0)]));
    }

    #[test]
    fn a_weight_that_is_no_weight_leaves_the_mean_alone() {
        let scheme = Registration::new("weights", Services::default());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            push(&scheme, "kl", f64::NAN, weight);
        }
        assert_eq!(scheme.take_metrics(), []);
        push(&scheme, "kl", 2.0, 1.0);
        assert_eq!(scheme.take_metrics(), [("kl".to_owned(), 2.0)]);
    }

    #[test]
    fn a_scheme_that_ended_is_no_longer_spoken_for() {
        let scheme = Registration::new("short", Services { threads: 3 });
        let host = scheme.host();
        assert_eq!(host.functions.threads()(host.context), 3);
        drop(scheme);
        assert_eq!(host.functions.threads()(host.context), 1);
        host.functions.metric()(host.context, "kl".into(), 1.0, 1.0);
        host.functions.log()(host.context, 3, "still here".into());
    }
}
