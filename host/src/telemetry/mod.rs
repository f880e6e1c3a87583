//! What a run tells: its folder, its metrics, and its progress on the terminal.

pub mod environment;
pub mod metrics;
pub mod names;
pub mod progress;
pub mod run_folder;

pub use metrics::{Metrics, MetricsFile};
pub use progress::Progress;
pub use run_folder::RunFolder;
