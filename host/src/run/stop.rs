//! Ctrl-C: once, the iteration is finished and saved; twice, the program ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
/// Exit code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
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
        tracing::warn!("stopping as soon as the iteration is saved; once more stops now");
    };
    // A program that cannot watch still runs; Ctrl-C then ends it at once, and resume works.
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("Ctrl-C will end the program at once: {error}");
    }
}
