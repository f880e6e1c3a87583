//! What a run tells: its folder, its log, its metrics, and its progress on the terminal.

#[cfg(feature = "torch")]
pub mod environment;
pub mod log;
#[cfg(feature = "torch")]
pub mod metrics;
pub mod names;
pub mod progress;
#[cfg(feature = "torch")]
pub mod run_folder;

#[cfg(feature = "torch")]
pub use metrics::{Metrics, MetricsFile};
pub use progress::Progress;
#[cfg(feature = "torch")]
pub use run_folder::RunFolder;
