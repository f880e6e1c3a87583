//! What can go wrong with an environment.

/// Why an environment was not made, not started, or not stepped.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// No environment has this name.
    #[error("there is no environment `{name}`{}; there are: {}", did_you_mean(*nearest), crate::names().join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The name that was perhaps meant.
        nearest: Option<&'static str>,
    },
    /// The settings do not fit the environment.
    #[error("environment `{environment}`: {}{message}", key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
    Settings {
        /// The environment's name.
        environment: &'static str,
        /// The path of the key that is wrong, inside the settings; none if it is the settings as a whole.
        key: Option<String>,
        /// What is wrong and what would fit.
        message: String,
    },
    /// The seed gives no task.
    #[error("environment `{environment}` has no task for seed {seed}: {message}")]
    NoTask {
        /// The environment's name.
        environment: &'static str,
        /// The seed of `reset`.
        seed: u64,
        /// Why there is none.
        message: String,
    },
    /// A turn was played before an episode was started.
    #[error("no episode has been started: `reset` comes before `step`")]
    NotStarted,
    /// A turn was played after the last one.
    #[error("the episode is over: `reset` comes before another `step`")]
    EpisodeOver,
    /// Anything else that broke inside an environment, in its own words.
    #[error("{0}")]
    Failed(String),
    /// The operating system gives no thread.
    #[error("cannot start a thread for the environments: {0}")]
    Thread(#[from] std::io::Error),
}

impl EnvironmentError {
    /// The key of the environment's settings that is to blame, if it is one: the place for a caret.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Unknown { .. } => Some("name"),
            Self::Settings { key, .. } => key.as_deref(),
            _ => None,
        }
    }
}

/// The valid name that is nearest to one that is not, if any is near at all.
pub(crate) fn nearest<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let closeness = |other: &str| strsim::jaro_winkler(&name.to_lowercase(), other);
    valid.into_iter().filter(|other| closeness(other) > 0.75).max_by(|a, b| closeness(a).total_cmp(&closeness(b)))
}

/// The end of a sentence about an unknown name.
pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_only_where_one_is_near() {
        let valid = ["size", "success_rate", "view"];
        assert_eq!(nearest("sucess_rate", valid), Some("success_rate"));
        assert_eq!(nearest("Size", valid), Some("size"));
        assert_eq!(nearest("zebra", valid), None);
    }
}
