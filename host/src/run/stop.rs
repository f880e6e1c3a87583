//! Ctrl-C: once, what is under way is finished and saved; twice, the program ends at once.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static PHASE: AtomicU8 = AtomicU8::new(Phase::Starting as u8);
/// Exit code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// What a run is doing, and so what is finished before it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It is being set up.
    Starting,
    /// Episodes are played, scored and credited: finished, since dropping them would lose them.
    Playing,
    /// Optimiser steps are made: the current one is finished.
    Updating,
    /// Held-out tasks are played: finished.
    Evaluating,
}

impl Phase {
    /// What is said when the user asks to stop.
    fn message(phase: u8) -> &'static str {
        const PLAYING: u8 = Phase::Playing as u8;
        const UPDATING: u8 = Phase::Updating as u8;
        const EVALUATING: u8 = Phase::Evaluating as u8;
        match phase {
            PLAYING => {
                "stopping when the iteration's episodes are played and credited, which are saved, so that none is sampled \
                 twice; once more stops now, and they are sampled again after `accredit resume`"
            }
            UPDATING => {
                "stopping after this optimiser step, with everything saved; once more stops now, and `accredit resume` goes \
                 on from the checkpoint before"
            }
            EVALUATING => {
                "stopping after this evaluation, with everything saved; once more stops now, and `accredit resume` goes on \
                 from the checkpoint before"
            }
            _ => "stopping as soon as the run is set up; once more stops now",
        }
    }
}

/// Whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Says what the run is doing from now on.
pub fn enter(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Relaxed);
}

/// Watches for Ctrl-C and for SIGTERM.
pub fn watch_for_stop() {
    let handler = || {
        if ASKED.swap(true, Ordering::Relaxed) {
            // SAFETY: it ends the process and touches nothing. A plain exit would run the destructors of libtorch while
            // other threads still compute with it.
            #[allow(unsafe_code)]
            unsafe {
                libc::_exit(INTERRUPTED)
            }
        }
        crate::plugin::cancel();
        tracing::warn!("{}", Phase::message(PHASE.load(Ordering::Relaxed)));
    };
    // A program that cannot watch still runs; Ctrl-C then ends it at once, and resume works.
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("Ctrl-C will end the program at once: {error}");
    }
}
