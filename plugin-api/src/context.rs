//! What a scheme can ask of the host while a hook runs: where the run stands, metrics, log lines.

use std::fmt::Display;

use abi_stable::std_types::RStr;

use crate::{
    abi::RawHost,
    batch::Batch,
    column::columns::{ITERATION, ITERATIONS, UPDATE, UPDATES},
};

/// The host, as a scheme sees it.
#[derive(Clone, Copy)]
pub struct Host {
    raw: RawHost,
}

impl Host {
    pub(crate) fn new(raw: RawHost) -> Self {
        Self { raw }
    }

    /// Pushes a named number. The host reports the mean over an iteration's pushes as `credit/<scheme>/<name>`.
    pub fn metric(&self, name: &str, value: f64) {
        self.metric_weighted(name, value, 1.0);
    }

    /// Pushes a named number that counts `weight` times in the mean: a hook that is called for every micro-batch gives
    /// the micro-batch's mean and its number of tokens.
    pub fn metric_weighted(&self, name: &str, value: f64, weight: f64) {
        (self.raw.functions.metric())(self.raw.context, RStr::from_str(name), value, weight);
    }

    /// Writes an information line to the run's log.
    pub fn info(&self, message: impl Display) {
        self.log(3, &message);
    }

    /// Writes a warning to the run's log and to the terminal.
    pub fn warn(&self, message: impl Display) {
        self.log(2, &message);
    }

    fn log(&self, level: u32, message: &dyn Display) {
        (self.raw.functions.log())(self.raw.context, level, RStr::from_str(&message.to_string()));
    }

    /// How many threads a scheme may use.
    pub fn threads(&self) -> usize {
        (self.raw.functions.threads())(self.raw.context) as usize
    }

    /// The user asked to stop: a long computation should return an error soon.
    pub fn cancelled(&self) -> bool {
        (self.raw.functions.cancelled())(self.raw.context)
    }
}

/// The host and where the run stands.
#[derive(Clone, Copy)]
pub struct Context {
    /// The host: metrics, log, threads.
    pub host: Host,
    /// Which iteration this is, from 0.
    pub iteration: u64,
    /// How many iterations are planned.
    pub iterations: u64,
    /// Optimiser steps taken so far.
    pub update: u64,
    /// Optimiser steps planned in all.
    pub updates: u64,
}

impl Context {
    pub(crate) fn new(host: Host, batch: &Batch<'_>) -> Self {
        let read = |column| batch.scalar(column).unwrap_or(0);
        Self {
            host,
            iteration: read(ITERATION),
            iterations: read(ITERATIONS),
            update: read(UPDATE),
            updates: read(UPDATES),
        }
    }
}
